// SPDX-License-Identifier: Apache-2.0
// plan/schedule.c -- the arithmetic of epochs, closures, steps and
// samples.
#include "plan/schedule.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/num.h"
#include "plan/order.h"

enum sl_err schedule_check(const struct schedule *s, struct sl_error *err)
{
    uint64_t steps;

    if (s->samples < 1 || s->samples > ORDER_MAX_SAMPLES)
        return sl_fail(err, SL_EINVAL,
                       "samples is %" PRIu64 "; 1 to 2^40 are possible",
                       s->samples);
    if (s->batch < 1 || s->batch > ORDER_MAX_SAMPLES)
        return sl_fail(err, SL_EINVAL,
                       "batch is %" PRIu64 "; 1 to 2^40 are possible",
                       s->batch);
    if (s->epochs < 1 || s->epochs > SCHEDULE_MAX_EPOCHS)
        return sl_fail(err, SL_EINVAL,
                       "epochs is %" PRIu64 "; 1 to 2^32 are possible",
                       s->epochs);
    if (s->steps_per_closure < 1 ||
        s->steps_per_closure > SCHEDULE_MAX_CLOSURE_STEPS)
        return sl_fail(err, SL_EINVAL,
                       "steps_per_closure is %" PRIu64 "; 1 to %d are possible",
                       s->steps_per_closure, SCHEDULE_MAX_CLOSURE_STEPS);
    if (__builtin_mul_overflow(schedule_steps_per_epoch(s), s->epochs,
                               &steps) ||
        steps > UINT64_C(1) << 62)
        return sl_fail(err, SL_ERANGE,
                       "more than 2^62 steps; fewer epochs or larger batches");
    return SL_OK;
}

uint64_t schedule_steps_per_epoch(const struct schedule *s)
{
    return sl_ceil_div(s->samples, s->batch);
}

uint64_t schedule_closures_per_epoch(const struct schedule *s)
{
    return sl_ceil_div(schedule_steps_per_epoch(s), s->steps_per_closure);
}

uint64_t schedule_closures(const struct schedule *s)
{
    return schedule_closures_per_epoch(s) * s->epochs;
}

uint64_t schedule_steps(const struct schedule *s)
{
    return schedule_steps_per_epoch(s) * s->epochs;
}

uint64_t schedule_samples(const struct schedule *s, uint64_t steps)
{
    uint64_t per_epoch = schedule_steps_per_epoch(s);

    // Only the last step of an epoch can be short, and with that it is whole.
    return steps / per_epoch * s->samples + steps % per_epoch * s->batch;
}

uint64_t schedule_epoch(const struct schedule *s, uint64_t closure)
{
    assert(closure < schedule_closures(s));
    return closure / schedule_closures_per_epoch(s);
}

// The first step of a closure, counted within its epoch.
static uint64_t epoch_step(const struct schedule *s, uint64_t closure)
{
    return closure % schedule_closures_per_epoch(s) * s->steps_per_closure;
}

uint32_t schedule_closure_steps(const struct schedule *s, uint64_t closure)
{
    assert(closure < schedule_closures(s));
    return (uint32_t)sl_min(s->steps_per_closure, schedule_steps_per_epoch(s) -
                                                      epoch_step(s, closure));
}

uint64_t schedule_global_step(const struct schedule *s, uint64_t closure,
                              uint32_t step)
{
    assert(step < schedule_closure_steps(s, closure));
    return schedule_epoch(s, closure) * schedule_steps_per_epoch(s) +
           epoch_step(s, closure) + step;
}

void schedule_step_range(const struct schedule *s, uint64_t closure,
                         uint32_t step, uint64_t *first, uint64_t *count)
{
    assert(step < schedule_closure_steps(s, closure));
    *first = (epoch_step(s, closure) + step) * s->batch;
    *count = sl_min(s->batch, s->samples - *first);
}

void schedule_closure_range(const struct schedule *s, uint64_t closure,
                            uint64_t *first, uint64_t *count)
{
    uint64_t last, last_count;

    schedule_step_range(s, closure, 0, first, count);
    schedule_step_range(s, closure, schedule_closure_steps(s, closure) - 1,
                        &last, &last_count);
    *count = last + last_count - *first;
}
