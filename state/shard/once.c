// SPDX-License-Identifier: Apache-2.0
// state/shard/once.c -- the counted set of a shard and the sums that prove
// it.
#include "state/shard/once.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"

enum sl_err once_init(struct once *o, const struct schedule *s)
{
    struct once made = {0};
    enum sl_err rc = counted_init(&made.counted, s);

    if (rc != SL_OK)
        return rc;
    map_init(&made.attempts);
    *o = made;
    return SL_OK;
}

void once_release(struct once *o)
{
    size_t at = 0;
    void *attempt;

    counted_release(&o->counted);
    while (map_next(&o->attempts, &at, NULL, &attempt))
        sl_free(attempt);
    map_release(&o->attempts);
    sl_free(o->epochs);
    sl_free(o->passed);
    *o = (struct once){0};
}

enum sl_err once_key(const struct once *o, uint64_t closure, uint32_t step,
                     struct sl_error *err)
{
    uint32_t steps;

    if (closure >= o->counted.closures)
        return sl_fail(err, SL_ERANGE,
                       "closure %" PRIu64 ": the job has %" PRIu64, closure,
                       o->counted.closures);
    steps = schedule_closure_steps(&o->counted.schedule, closure);
    if (step >= steps)
        return sl_fail(err, SL_ERANGE,
                       "step %u of closure %" PRIu64 ", which has %u", step,
                       closure, steps);
    return SL_OK;
}

struct wire_attempt once_newest(const struct once *o, uint64_t closure)
{
    const struct wire_attempt *a = map_get(&o->attempts, closure);

    return a == NULL ? (struct wire_attempt){0, 0} : *a;
}

enum sl_err once_see(struct once *o, uint64_t closure,
                     struct wire_attempt attempt)
{
    struct wire_attempt *a = map_get(&o->attempts, closure);

    if (a != NULL) {
        if (wire_attempt_cmp(attempt, *a) > 0)
            *a = attempt;
        return SL_OK;
    }
    if (closure < counted_low(&o->counted))
        return SL_OK; // the whole closure is counted and needs no fence
    if (o->attempts.len >= ONCE_ATTEMPTS_MAX)
        return SL_EBUSY;
    a = sl_malloc(sizeof(*a));
    if (a == NULL)
        return SL_ENOMEM;
    *a = attempt;
    if (map_put(&o->attempts, closure, a) != SL_OK) {
        sl_free(a);
        return SL_ENOMEM;
    }
    return SL_OK;
}

// Attempts die with their closures.
static void forget_attempts(struct once *o)
{
    uint64_t low = counted_low(&o->counted);

    for (; o->attempts_from < low; o->attempts_from++)
        sl_free(map_remove(&o->attempts, o->attempts_from));
}

enum sl_err once_reserve_epochs(struct once *o, size_t epochs)
{
    size_t cap = o->epoch_cap == 0 ? 8 : 2 * o->epoch_cap;
    struct once_epoch *grown;

    if (o->epoch_cap - o->epoch_count >= epochs)
        return SL_OK;
    if (cap < o->epoch_count + epochs)
        cap = o->epoch_count + epochs;
    grown = sl_realloc_array(o->epochs, cap, sizeof(*grown));
    if (grown == NULL)
        return SL_ENOMEM;
    o->epochs = grown;
    o->epoch_cap = cap;
    return SL_OK;
}

enum sl_err once_reserve(struct once *o, uint64_t closure)
{
    enum sl_err rc = once_reserve_epochs(o, 1);

    return rc == SL_OK ? counted_reserve(&o->counted, closure) : rc;
}

// Its line, made if there is none. Looks from the end: work lies there.
static struct once_epoch *epoch_line(struct once *o, uint32_t epoch)
{
    size_t at = o->epoch_count;

    while (at > 0 && o->epochs[at - 1].epoch > epoch)
        at--;
    if (at > 0 && o->epochs[at - 1].epoch == epoch)
        return &o->epochs[at - 1];
    assert(o->epoch_count < o->epoch_cap);
    memmove(&o->epochs[at + 1], &o->epochs[at],
            (o->epoch_count - at) * sizeof(*o->epochs));
    o->epoch_count++;
    o->epochs[at] = (struct once_epoch){.epoch = epoch};
    return &o->epochs[at];
}

unsigned once_bucket(uint64_t staleness)
{
    unsigned bucket = 0;

    for (uint64_t bound = 0; bucket < WIRE_STALENESS_BUCKETS - 1; bucket++) {
        if (staleness <= bound)
            break;
        bound = bound == 0 ? 1 : 2 * bound;
    }
    return bucket;
}

void once_add(struct once *o, const struct once_step *s)
{
    struct once_epoch *line;
    enum sl_err rc = counted_add(&o->counted, s->closure, s->step);

    assert(rc == SL_OK); // checked and reserved by the caller
    (void)rc;
    if (s->skip) {
        o->counts.skipped++;
    } else {
        o->counts.version++;
        o->counts.applied++;
        o->counts.late += s->late;
        o->counts.staleness[once_bucket(s->staleness)]++;
    }
    line = epoch_line(
        o, (uint32_t)schedule_epoch(&o->counted.schedule, s->closure));
    line->steps++;
    line->samples += s->samples;
    line->digest += s->digest;
    forget_attempts(o);
}

void once_add_round(struct once *o, const struct once_step *steps, size_t count)
{
    uint64_t version = o->counts.version + !steps[0].skip;

    for (size_t i = 0; i < count; i++)
        once_add(o, &steps[i]);
    o->counts.version = version;
}

enum sl_err once_reserve_passed(struct once *o, size_t pieces)
{
    if (o->passed != NULL)
        return SL_OK;
    o->passed = sl_calloc(pieces, sizeof(*o->passed));
    o->passed_count = o->passed == NULL ? 0 : pieces;
    return o->passed == NULL ? SL_ENOMEM : SL_OK;
}

void once_pass(struct once *o, const uint8_t *absent, size_t bytes)
{
    for (size_t i = 0; i < o->passed_count; i++)
        o->passed[i] += wire_absent(absent, bytes, i);
}

static enum sl_err copy_passed(struct once *to, const struct once *from)
{
    if (from->passed == NULL)
        return SL_OK;
    if (once_reserve_passed(to, from->passed_count) != SL_OK)
        return SL_ENOMEM;
    memcpy(to->passed, from->passed, to->passed_count * sizeof(*to->passed));
    return SL_OK;
}

enum sl_err once_copy(struct once *out, const struct once *from)
{
    struct once made = {.counts = from->counts};
    enum sl_err rc = counted_copy(&made.counted, &from->counted);

    if (rc != SL_OK)
        return rc;
    map_init(&made.attempts);
    made.attempts_from = counted_low(&made.counted);
    made.epochs = sl_malloc_array(from->epoch_count, sizeof(*made.epochs));
    if (made.epochs == NULL || copy_passed(&made, from) != SL_OK) {
        once_release(&made);
        return SL_ENOMEM;
    }
    if (from->epoch_count > 0)
        memcpy(made.epochs, from->epochs,
               from->epoch_count * sizeof(*made.epochs));
    made.epoch_count = made.epoch_cap = from->epoch_count;
    *out = made;
    return SL_OK;
}

enum sl_err once_check(const struct once *o, struct sl_error *err)
{
    uint64_t steps = 0;

    for (size_t i = 0; i < o->epoch_count; i++)
        steps += o->epochs[i].steps;
    if (o->counts.applied + o->counts.skipped != counted_steps(&o->counted) ||
        steps != counted_steps(&o->counted))
        return sl_fail(err, SL_ECORRUPT,
                       "%" PRIu64 " applied and %" PRIu64 " skipped, %" PRIu64
                       " in epochs, but %" PRIu64 " counted",
                       o->counts.applied, o->counts.skipped, steps,
                       counted_steps(&o->counted));
    for (size_t i = 0; i < o->passed_count; i++)
        if (o->passed[i] > once_version(o))
            return sl_fail(err, SL_ECORRUPT,
                           "piece %zu was passed over by %" PRIu64
                           " updates of %" PRIu64,
                           i, o->passed[i], once_version(o));
    return SL_OK;
}
