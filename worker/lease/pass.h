// SPDX-License-Identifier: Apache-2.0
// worker/lease/pass.h -- the ops of a contribution, where all parameters are in
// place before the first of them (contribution.h has its micro-batches).
//
//   contribution_begin
//     pass_forward    all micro-batches, the last one until its loss is known
//     pass_backward   its gradients, from the last range to the first
//   contribution_put
//
// Between the two the caller decides whether the gradient is wanted. `whole` is
// called in the order of range numbers, from the last to the first, so that all
// workers that sum their gradients do it in one order.
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's. A batch is held between
//          the two calls, and perhaps after an error.
// Units    ranges of the job (job.h); milliseconds are added to the metrics.
// Errors   those of the contribution, of the device, and of the calls made;
//          then a batch may still be held: contribution_put. `err` may be NULL.
#ifndef WORKER_LEASE_PASS_H
#define WORKER_LEASE_PASS_H

#include "worker/lease/contribution.h"
#include "trainer/lease/lease.h"

// Waits for range number `range`, or takes it: see struct pass.
typedef enum sl_err (*pass_range_fn)(void *arg, uint32_t range,
                                     struct sl_error *err);

struct pass {
    const struct sl_clock *clock;
    struct contribution *c; // its job, its device
    struct lease_metrics *m;
    // Waits until the parameters of a range are in the vector; NULL: all are.
    pass_range_fn fresh;
    // Takes a range: its gradient is whole, and in the host's vector.
    pass_range_fn whole;
    // Brings the rows of tables of the micro-batch, which is held and has its
    // program; and takes their gradients, when its ops were run. NULL: no layer
    // has rows.
    enum sl_err (*rows)(void *arg, struct sl_error *err);
    enum sl_err (*row_grads)(void *arg, struct sl_error *err);
    // Stages what comes behind the last micro-batch, while a device computes
    // that. NULL: what follows is not known.
    enum sl_err (*ahead)(void *arg, struct sl_error *err);
    void *arg;

    bool begun;  // the micro-batch under way was begun, up to `op`
    uint32_t op; // the next op to run
};

// Begins the first micro-batch of a step and runs its ops as far as they need
// only the first `elements` elements of parameters and gradient
// (overlap_reach); the others may still be on their way. The caller sets
// `begun` and `op` of the pass that goes on with it, or gives it up by
// contribution_put. Not for a device or a team. No batch may be held; after a
// failure one may be (contribution_put).
enum sl_err pass_begin(struct pass *p, uint64_t elements, struct sl_error *err);

// Runs all micro-batches, the last one until its loss is known, adds their
// losses to the contribution, and moves its `at` to the last. Once, after
// contribution_begin; with `begun` it goes on with what pass_begin began.
enum sl_err pass_forward(struct pass *p, struct sl_error *err);
// Runs the rest of the last micro-batch, and calls `whole` for each range, from
// the last to the first. Once, after pass_forward.
enum sl_err pass_backward(struct pass *p, struct sl_error *err);

#endif
