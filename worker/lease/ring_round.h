// SPDX-License-Identifier: Apache-2.0
// worker/lease/ring_round.h -- one round of a rank: its contributions, the sum
// over all ranks, the update.
//
// Which steps a round averages is what the state has not counted (R4;
// common/plan/round.h); this rank computes those of its slots, in order, and
// adds them up. While it computes the last one, buckets leave as they become
// whole. When all ranks' sums are in, each rank applies the same average.
//
// A round of which any contribution is not finite is skipped by every rank: its
// steps are counted, nothing is applied.
//
// Threads  the compute thread.
// Memory   round_release; a round that was left is closed by round_leave.
// Units    samples; milliseconds.
// Errors   ROUND_LEFT: the generation has ended here, *err says why. A failed
//          round has changed nothing of the state, or the state is given up.
#ifndef WORKER_LEASE_RING_ROUND_H
#define WORKER_LEASE_RING_ROUND_H

#include "common/plan/round.h"
#include "worker/device/step.h"
#include "worker/lease/contribution.h"
#include "worker/lease/job_ring.h"
#include "worker/lease/task.h"

enum round_result {
    ROUND_DONE,
    ROUND_OVER, // all is counted: there is none
    ROUND_LEFT, // a rank does not answer, or the generation was ended
    ROUND_FAILED,
};

struct round_slot {
    struct round_key key;
    struct input_run run;
    bool open;
};

struct ring_round {
    const struct task_env *env;
    struct job *job;
    struct lease *lease;
    struct lease_metrics m;
    struct step step;

    // Of the generation.
    uint32_t ranks, self, contributions;

    // The contribution under way, and its slot.
    struct contribution c;
    uint32_t slot;

    // Of the round: its keys, then those of the next one, as far as is known.
    struct round_key *keys;  // 2 * contributions; owned
    struct once_step *steps; // contributions; owned
    uint32_t keys_count, count;
    struct round_slot *slots[2]; // this round's, and the next one's; owned
    uint32_t slots_count[2], slots_cap;
    uint64_t samples;
    bool bad;                   // one of our own contributions is not finite,
    bool bad_loss;              // and its loss is not
    double loss_sum, right_sum; // of our own contributions
    float *average;             // of all; whole if
    bool finite;                // all of its buckets are
};

void round_init(struct ring_round *r, const struct task_env *env,
                struct job *job, struct lease *lease);
void round_release(struct ring_round *r);

// A generation begins, the state is in place: so many ranks, this one's index,
// keys of a round.
enum sl_err round_join(struct ring_round *r, uint32_t ranks, uint32_t self,
                       uint32_t contributions, struct sl_error *err);

enum round_result round_run(struct ring_round *r, struct sl_error *err);

// What is read ahead is given up.
void round_leave(struct ring_round *r);

#endif
