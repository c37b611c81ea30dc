// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_step.h -- what one member of a group computes of a step.
//
// The step's micro-batches are dealt out as runs, in the order of members; the
// number of members and their places are all that decides who computes which.
// The shares are of the mean over all samples of the step, so their sum over
// the group is the step's gradient, and moving statistics are as if one worker
// had computed it.
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's. When it returns nobody
//          else touches the vectors, unless h->lost: then once the generation
//          was left.
// Units    elements of the flat vectors; milliseconds in the metrics.
// Errors   those of contribution.h, and of hybrid.h with h->lost.
#ifndef WORKER_LEASE_HYBRID_STEP_H
#define WORKER_LEASE_HYBRID_STEP_H

#include "worker/lease/hybrid.h"

struct hybrid_step {
    struct hybrid *hybrid;
    const struct sl_clock *clock;
    struct contribution *c; // begun, and nothing of it was got
    struct lease_metrics *m;
    float *params, *grads; // the host's

    uint64_t first; // number of the first range's spread
};

// The leader's parameters become everybody's; then grads, and the
// contribution's digest and sums, are those of the whole step, on all members.
enum sl_err hybrid_compute(struct hybrid_step *s, struct sl_error *err);

#endif
