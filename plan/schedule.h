// SPDX-License-Identifier: Apache-2.0
// plan/schedule.h -- which samples are which step of which closure.
//
// An epoch is `samples` positions of its order, cut into batches; a batch is
// one step; `steps_per_closure` consecutive steps are a closure. The last
// batch of an epoch and the last closure of an epoch may be short; no closure
// spans two epochs. Ids and ranges are functions of these four numbers alone.
//
// Threads  pure.
// Units    closures count from 0 through all epochs; a step counts from 0
//          within its closure; a global step, from 0 through the job.
// Errors   call schedule_check first: the other functions rely on its checks
//          (numbers of 0 divide by 0), and assert that a closure and a step
//          exist. `err` may be NULL.
#ifndef PLAN_SCHEDULE_H
#define PLAN_SCHEDULE_H

#include <stdint.h>

#include "common/base/rng.h"
#include "common/base/status.h"

#define SCHEDULE_MAX_CLOSURE_STEPS 65536
#define SCHEDULE_MAX_EPOCHS (UINT64_C(1) << 32)

struct schedule {
    uint64_t samples; // size of the data set; at most ORDER_MAX_SAMPLES
    uint64_t batch;   // samples per step; may exceed `samples`
    uint64_t epochs;  // at most SCHEDULE_MAX_EPOCHS
    uint64_t steps_per_closure; // at most SCHEDULE_MAX_CLOSURE_STEPS
};

// Checks the four numbers. SL_EINVAL names the wrong one (0, or above its
// maximum; that of `batch` is 2^40), SL_ERANGE a product that is too large
// (more than 2^62 steps in all).
enum sl_err schedule_check(const struct schedule *s, struct sl_error *err);

// Returns the number of steps of an epoch, with the last, short one.
uint64_t schedule_steps_per_epoch(const struct schedule *s);
// Returns the number of closures of an epoch, with the last, short one.
uint64_t schedule_closures_per_epoch(const struct schedule *s);
// Returns the number of closures of all epochs.
uint64_t schedule_closures(const struct schedule *s);
// Returns the number of steps of all epochs.
uint64_t schedule_steps(const struct schedule *s);

// Returns the number of samples in the first `steps` steps of the job; the last
// step of an epoch may be short.
uint64_t schedule_samples(const struct schedule *s, uint64_t steps);

// Returns the epoch of a closure below schedule_closures.
uint64_t schedule_epoch(const struct schedule *s, uint64_t closure);

// Returns the number of steps of a closure below schedule_closures.
uint32_t schedule_closure_steps(const struct schedule *s, uint64_t closure);

// Returns the number, from 0 through the job, of step `step` of a closure; both
// must exist.
uint64_t schedule_global_step(const struct schedule *s, uint64_t closure,
                              uint32_t step);

// Sets the positions [*first, *first + *count) in the epoch's order on which
// step `step` of a closure trains; both must exist.
void schedule_step_range(const struct schedule *s, uint64_t closure,
                         uint32_t step, uint64_t *first, uint64_t *count);

// Sets [*first, *first + *count) to the positions in the epoch's order on which
// all steps of a closure train; it must exist.
void schedule_closure_range(const struct schedule *s, uint64_t closure,
                            uint64_t *first, uint64_t *count);

// Returns the share of one sample in the digest of its epoch. The sum (modulo
// 2^64) over counted steps equals schedule_epoch_digest() exactly when, up to
// hash collision, each sample of the epoch was counted once (invariant
// `cover`). The definition is part of the protocol: workers in other languages
// push it.
static inline uint64_t schedule_digest(uint64_t epoch, uint64_t sample)
{
    return sl_mix64(sl_mix64(epoch) ^ sample);
}

// Returns the digest of a whole epoch, the sum over all its samples; epochs
// count from 0. Takes time in proportion to `samples`.
static inline uint64_t schedule_epoch_digest(const struct schedule *s,
                                             uint64_t epoch)
{
    uint64_t digest = 0;

    for (uint64_t i = 0; i < s->samples; i++)
        digest += schedule_digest(epoch, i);
    return digest;
}

#endif
