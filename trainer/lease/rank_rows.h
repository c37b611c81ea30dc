// SPDX-License-Identifier: Apache-2.0
// trainer/lease/rank_rows.h -- rows of sparse tables in the contributions of a
// rank: psservers keep them beside the ring (R8, R9).
//
//   rank_rows_place        a generation begins
//     rank_rows_begin      a contribution of it: shards have what we have
//       job_tables_pull    its rows, as often as wanted (rank_rows_pulled)
//       job_tables_add     its gradients, and at last job_tables_pack
//     rank_rows_push       all gradients, until each shard holds them
//
// A shard holds what it has and counts when the round was applied (R8). The
// rank ends its part of the round's sum behind the last rank_rows_push. So if
// any rank has the sum, every shard holds all rows of the round.
//
// Where rows and gradients come from is the contributor's: layers of a model
// (worker), or the user's program, on its own thread (lib).
//
// Threads  the compute thread; rank_rows_hurry: any. Between rank_rows_begin
//          and rank_rows_push the compute thread may leave sync and tables to
//          another one.
// Memory   the struct is the caller's, and so is what it points at. No pointer
//          is NULL but where it is said.
// Units    slots of a round.
// Errors   SL_ECANCELED: the generation is over (rank_rows_hurry), or a shard
//          is of a later one. SL_EINTERNAL: a shard has counted rows of a round
//          that is under way. Else that of the sync's SYNC_FAILED. After each
//          no closure is open at the sync. `err` may be NULL.
#ifndef TRAINER_LEASE_RANK_ROWS_H
#define TRAINER_LEASE_RANK_ROWS_H

#include "trainer/lease/ring_round.h"
#include "trainer/push/job_tables.h"

struct rank_rows {
    struct sync *sync; // NULL: the job has no tables, and nothing is done
    struct job_tables *tables;
    struct gate gate; // open while the generation lasts
    uint64_t generation;
};

// Begins a rank's lease: `sync` is the way to the shards of rows, no closure is
// open at it, and `pulse` that of the lease. `sync` and `tables` are NULL if
// the job has no tables. All waits end with SL_ECANCELED before the first
// rank_rows_place. Call rank_rows_end.
void rank_rows_init(struct rank_rows *r, struct sync *sync,
                    struct job_tables *tables, struct pulse *pulse);
// Ends what is under way at the sync, which stays the caller's. *r is then for
// rank_rows_init only.
void rank_rows_end(struct rank_rows *r);

// Begins generation `generation`, of which a state is in place: waits are
// allowed again.
void rank_rows_place(struct rank_rows *r, uint64_t generation);
// Ends all waits of the generation, and those that would come, with
// SL_ECANCELED, until rank_rows_place; wakes the sync.
void rank_rows_hurry(struct rank_rows *r);

// Begins the contribution of a slot: waits until every shard is of the rank's
// generation and has applied the rounds before this one. Forgets the gradients
// of the contribution before.
enum sl_err rank_rows_begin(struct rank_rows *r, struct round_key key,
                            struct sl_error *err);
// Returns SL_OK if a pull of rows ended with SYNC_OK; else ends the
// contribution, and returns its error: that in *err for SYNC_FAILED
// (SL_EINTERNAL if it has none), for any other result SL_ECANCELED, which it
// sets in *err.
enum sl_err rank_rows_pulled(struct rank_rows *r, enum sync_result result,
                             struct sl_error *err);
// Pushes the packed gradients of the slot of `round`, with its samples and
// digest, and waits until every shard holds them; of a round that is spoilt the
// samples alone. Ends the contribution.
enum sl_err rank_rows_push(struct rank_rows *r, const struct ring_round *round,
                           uint32_t slot, struct sl_error *err);
// Does all of that for a slot that is not computed, since its round is spoilt:
// a shard wants all contributions of a round, also of one that is in vain.
enum sl_err rank_rows_pass(struct rank_rows *r, const struct ring_round *round,
                           uint32_t slot, struct sl_error *err);

#endif
