// SPDX-License-Identifier: Apache-2.0
// state/shard/push_set.c -- what is here of the closures of a push.
#include "state/shard/push_set.h"

#include <inttypes.h>

void push_set_of(struct push_set *out, const struct wire_push *push)
{
    out->count = wire_push_keys(push);
    out->samples = 0;
    for (size_t i = 0; i < out->count; i++) {
        struct wire_push_key key = wire_push_key(push, i);

        out->steps[i] = (struct once_step){.closure = key.closure,
                                           .step = push->step,
                                           .skip = push->skip,
                                           .samples = key.samples,
                                           .digest = key.digest,
                                           .staleness = push->based_on};
        out->samples += key.samples;
    }
}

enum sl_err push_set_keys(const struct push_set *set, const struct once *once,
                          struct sl_error *err)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct once_step *s = &set->steps[i];
        enum sl_err rc = once_key(once, s->closure, s->step, err);

        if (rc != SL_OK)
            return rc;
        if (set->count > 1 &&
            schedule_closure_steps(&once->counted.schedule, s->closure) != 1)
            return sl_fail(err, SL_EINVAL,
                           "more: closure %" PRIu64 " has several steps; push "
                           "each of them by itself",
                           s->closure);
    }
    return SL_OK;
}

enum push_set_here push_set_here(const struct push_set *set,
                                 const struct once *once,
                                 const struct open_round *open)
{
    size_t counted = 0, held = 0;

    for (size_t i = 0; i < set->count; i++) {
        const struct once_step *s = &set->steps[i];

        counted += counted_has(&once->counted, s->closure, s->step);
        held += open_round_has(open, s->closure);
    }
    return counted == set->count ? PUSH_SET_COUNTED
           : held == set->count  ? PUSH_SET_HELD
           : counted + held == 0 ? PUSH_SET_NEW
                                 : PUSH_SET_PARTLY;
}

enum sl_err push_set_reserve(const struct push_set *set, struct once *once,
                             const struct open_round *open)
{
    // A message may end the round of what is held at any time.
    enum sl_err rc = once_reserve_epochs(once, open->keys + set->count);

    for (size_t i = 0; rc == SL_OK && i < set->count; i++)
        rc = counted_reserve(&once->counted, set->steps[i].closure);
    return rc;
}
