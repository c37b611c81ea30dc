// SPDX-License-Identifier: Apache-2.0
// worker/lease/rank_rows.h -- rows of sparse tables in the contributions of a
// rank: psservers keep them beside the ring (R8, R9).
//
//   rank_rows_place        a generation begins
//     rank_rows_begin      a contribution of it: the shards have what the
//     rank's
//                          own state has
//       rank_rows_pull     of each micro-batch: its rows, into the programs
//       rank_rows_take     likewise: its gradients, out of the programs
//     rank_rows_push       all gradients, until each shard holds them
//
// The rank ends its part of the round's sum behind the last rank_rows_push. So
// if any rank has the sum, every shard holds all rows of the round.
//
// Threads  the compute thread; rank_rows_hurry: any.
// Memory   the struct is the caller's. What it points at is the job's. No
//          pointer is NULL but where it is said.
// Units    slots of a round.
// Errors   SL_ECANCELED: the generation is over (rank_rows_hurry). Else those
//          of sync.h. `err` may be NULL.
#ifndef WORKER_LEASE_RANK_ROWS_H
#define WORKER_LEASE_RANK_ROWS_H

#include "plan/round.h"
#include "state/shard/once.h"
#include "worker/lease/contribution.h"

struct rank_rows {
    struct worker_job *job;
    struct sync *sync; // NULL: the job has no tables, and nothing is done
    struct gate gate;  // open while the generation lasts
    uint64_t generation;
};

// Makes the job's sync with the shards of rows, if it has tables. `pulse` is
// that of the ring's lease. Call rank_rows_end, also after a failure.
enum sl_err rank_rows_init(struct rank_rows *r, struct worker_job *job,
                           struct pulse *pulse, struct sl_error *err);
// Ends what is under way.
void rank_rows_end(struct rank_rows *r);

// Begins generation `generation`, of which a state is in place.
void rank_rows_place(struct rank_rows *r, uint64_t generation);
// Ends all waits of the generation.
void rank_rows_hurry(struct rank_rows *r);

// Begins the contribution of a slot: waits until every shard is of the rank's
// generation and has applied the rounds before this one.
enum sl_err rank_rows_begin(struct rank_rows *r, struct round_key key,
                            struct sl_error *err);
// Pulls the rows of the micro-batch that is held, into its program.
enum sl_err rank_rows_pull(struct rank_rows *r, struct contribution *c,
                           struct sl_error *err);
// Takes the gradients of the micro-batch's rows, after its last op.
enum sl_err rank_rows_take(struct rank_rows *r, struct contribution *c,
                           struct sl_error *err);
// Sums up the gradients of the contribution that was begun. Clears *finite if
// one is not.
enum sl_err rank_rows_pack(struct rank_rows *r, bool *finite,
                           struct sl_error *err);
// Pushes them with the step's samples and digest, and waits until every shard
// holds them; `step->skip`: without rows, since the round is in vain. Ends the
// contribution.
enum sl_err rank_rows_push(struct rank_rows *r, const struct once_step *step,
                           struct sl_error *err);

#endif
