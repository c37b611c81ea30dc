// SPDX-License-Identifier: Apache-2.0
// worker/device/test_vector.h -- the test vector: a product, a convolution and
// its gradient, and an optimizer's step, each of the same random numbers on
// every host (A7).
//
// The plans are those that a job's would be: chosen and proved on this host. It
// takes some 10 ms on a core.
//
// Threads  the compute thread; each mate of a team computes on its own.
// Memory   some MiB of the device for the time of the call.
// Errors   those of planning and running. `err` may be NULL.
#ifndef WORKER_DEVICE_TEST_VECTOR_H
#define WORKER_DEVICE_TEST_VECTOR_H

#include "worker/device/team.h"

struct test_vector {
    uint64_t kind;   // of the device (kind.h); 0: none was computed
    uint64_t output; // digest of what was computed; equal for each right one of
                     // a kind
};

// Sets *out to the result of the test vector on `dev`; with a team, on `dev`
// and all its mates, as one result. `team` may be NULL. On failure *out is
// untouched.
enum sl_err test_vector_compute(struct test_vector *out, struct kern_dev *dev,
                                struct team *team, struct sl_error *err);

#endif
