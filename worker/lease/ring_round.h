// SPDX-License-Identifier: Apache-2.0
// worker/lease/ring_round.h -- one round of a rank: its contributions, the sum
// over all ranks, the update.
//
// Which steps a round averages is what the state has not counted (R4;
// common/plan/round.h); this rank has those of its slots computed, in order
// (contributor.h), and adds them up. While the last one is computed, buckets
// leave as they become whole. When all ranks' sums are in, each rank applies
// the same average.
//
// The sums of the first layers overtake those of the others (sum.h). What they
// make of these layers' parameters is known before the round is over, and with
// it the next round's forward pass begins (ahead), while the link is busy with
// the others. The state knows nothing of that: it changes when all of the round
// is there. If the round is torn or skipped, the pass is begun again.
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

#include "worker/lease/contributor.h"
#include "worker/lease/lease.h"

enum round_result {
    ROUND_DONE,
    ROUND_OVER, // all is counted: there is none
    ROUND_LEFT, // a rank does not answer, or the generation was ended
    ROUND_FAILED,
};

struct ring_round {
    struct contributor *by;
    struct lease *lease;
    struct lease_metrics m;

    // Of the generation.
    uint32_t ranks, self, contributions;
    uint64_t early;  // elements of the buckets whose sums overtake; 0: none
    float *foreseen; // their parameters after the round, and space; owned
    float *wrote;    // in it: what was done ahead wrote to the gradient
    bool ahead;      // that is to be put back

    // Of the round: its keys, then those of the next one, as far as is known.
    struct round_key *keys;  // 2 * contributions; owned
    struct once_step *steps; // contributions; owned
    uint32_t keys_count, count;
    uint32_t first, slots, slot; // our own keys; the one under way
    uint64_t samples;
    bool bad;                   // one of our own contributions is not finite,
    bool bad_loss;              // and its loss is not
    double loss_sum, right_sum; // of our own contributions; NAN: not known
    float *average;             // of all; whole if
    bool finite;                // all of its buckets are
    // By variable, how many contributions have a gradient, which is summed with
    // them; owned. NULL: all have one.
    float *present;
};

void round_init(struct ring_round *r, struct contributor *by,
                struct lease *lease);
void round_release(struct ring_round *r);

// A generation begins, the state is in place: so many ranks, this one's index,
// keys of a round. The sums of the first `early` elements overtake the others.
// `marks`: which variables have a gradient is summed, too.
enum sl_err round_join(struct ring_round *r, uint32_t ranks, uint32_t self,
                       uint32_t contributions, uint64_t early, bool marks,
                       struct sl_error *err);

enum round_result round_run(struct ring_round *r, struct sl_error *err);

// What is read ahead is given up.
void round_leave(struct ring_round *r);

// ---- for the contributor, of the slot under way

// A bucket of the gradient is whole: it is added, and that of the last slot
// leaves. From the last bucket to the first. `batches`: so many micro-batches
// have moved its statistics.
enum sl_err round_whole(struct ring_round *r, uint32_t bucket, bool finite,
                        uint32_t batches, struct sl_error *err);

// The slot is whole, and these variables have no gradient in it.
void round_absent(struct ring_round *r, const bool *absent);

// For `ahead`: the first r->early parameters as this round leaves them, the
// round's until it goes on. NULL: they cannot be had.
float *round_foresee(struct ring_round *r);

// The slot is not finite, its loss is not: no more of it is wanted.
void round_spoilt(struct ring_round *r, bool loss);

#endif
