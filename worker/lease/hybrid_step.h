// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_step.h -- what one member of a group computes of a step.
//
// The step's micro-batches are dealt out as runs, in the order of members; the
// number of members and their places are all that decides who computes which.
// The shares are of the mean over all samples of the step, so their sum over
// the group is the step's gradient, whoever computes which.
//
//   hybrid_compute
//     contributor's share: hybrid_fresh, ... hybrid_whole from the last range
//     tail
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's. When it returns nobody
//          else touches the vectors, unless h->lost: then once the generation
//          was left.
// Units    elements of the flat vectors; micro-batches of the step, from 0;
//          milliseconds in the metrics.
// Errors   those of the contributor, and of hybrid.h with h->lost.
#ifndef WORKER_LEASE_HYBRID_STEP_H
#define WORKER_LEASE_HYBRID_STEP_H

#include "worker/lease/hybrid.h"
#include "worker/sync/sync.h"

struct hybrid_step {
    struct hybrid *hybrid;
    struct contributor *by;
    const struct sl_clock *clock;
    struct lease_metrics *m;
    struct pulse *pulse;
    const struct sync *sync; // its ranges, its vectors: the host's
    struct hybrid_head head;

    // For the contributor: our share is [from, end) of `count`; what it has
    // computed; whether it is whole.
    uint32_t count, from, end;
    struct hybrid_sums sums;

    uint64_t first; // number of the first range's spread
};

// The contributor's `step`.
enum sl_err hybrid_run(struct hybrid_step *s, struct sl_error *err);

// The leader's parameters become everybody's; then the gradient, and `sums`,
// are those of the whole step, on all members.
enum sl_err hybrid_compute(struct hybrid_step *s, struct sl_error *err);

// Does the job have the step that somebody says?
bool hybrid_known(const struct lease *l, const struct hybrid_head *head);

// ---- for the contributor, of its share

// Waits until a range's parameters are in the vector.
enum sl_err hybrid_fresh(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err);
// The gradient of a range is whole in the vector: from the last to the first.
enum sl_err hybrid_whole(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err);

#endif
