// SPDX-License-Identifier: Apache-2.0
// trainer/lease/ring_repeats.c -- see ring_repeats.h.
#include "trainer/lease/ring_repeats.h"

#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/rng.h"
#include "trainer/base/grad.h"
#include "trainer/lease/repeats.h"

void ring_repeats_begin(struct ring_repeats *r, bool on, uint64_t inputs)
{
    r->on = on;
    r->inputs = inputs;
    r->count = 0;
    r->repeats = false;
}

void ring_repeats_slot(struct ring_repeats *r, bool repeats, uint64_t job,
                       struct round_key key)
{
    r->repeats = repeats;
    r->finite = true;
    r->digest = 0;
    r->seed = sketch_seed(job, key.closure, key.step);
    r->sketch = (struct sketch){{0}};
}

// Buckets are whole from the last to the first here, elsewhere in another
// order.
void ring_repeats_bucket(struct ring_repeats *r, uint32_t bucket,
                         uint64_t first, const float *gradient, size_t n,
                         bool finite)
{
    r->finite = r->finite && finite;
    if (!r->on || !r->finite)
        return;
    r->digest += sl_mix64(grad_digest(sl_mix64(bucket + 1), gradient, n));
    sketch_add(&r->sketch, r->seed, first, gradient, n);
}

static struct lease_repeat *next_result(struct ring_repeats *r)
{
    struct lease_repeat *more;
    uint32_t space = r->space == 0 ? 8 : 2 * r->space;

    if (r->count < r->space)
        return &r->list[r->count];
    more = sl_realloc_array(r->list, space, sizeof(*more));
    if (more == NULL)
        return NULL;
    r->list = more;
    r->space = space;
    return &r->list[r->count];
}

void ring_repeats_note(struct ring_repeats *r, struct round_key key,
                       uint64_t kind)
{
    struct lease_repeat *result;

    if (!r->on || r->count == WIRE_ROUND_MAX)
        return;
    result = next_result(r);
    if (result == NULL)
        return;
    *result = (struct lease_repeat){.closure = key.closure,
                                    .step = key.step,
                                    .kind = kind,
                                    .inputs = r->inputs,
                                    .output = !r->finite       ? 0
                                              : r->digest == 0 ? 1
                                                               : r->digest,
                                    .sketched = true,
                                    .sketch = r->sketch};
    sketch_end(&result->sketch, r->finite);
    r->count++;
}

uint32_t ring_repeats_most(uint32_t slots)
{
    return sl_min(slots, WIRE_ROUND_MAX / AUDITED_WORKERS);
}

// The list and its elements are one piece of memory.
Sluice__V1__Repeat **ring_repeats_say(const struct ring_repeats *r)
{
    Sluice__V1__Repeat **list, *items;

    if (r->count == 0)
        return NULL;
    list = sl_malloc_array(r->count, sizeof(*list) + sizeof(*items));
    if (list == NULL)
        return NULL;
    items = (Sluice__V1__Repeat *)(void *)(list + r->count);
    for (uint32_t i = 0; i < r->count; i++) {
        list[i] = &items[i];
        repeats_say(list[i], &r->list[i]);
    }
    return list;
}

void ring_repeats_release(struct ring_repeats *r)
{
    sl_free(r->list);
    *r = (struct ring_repeats){.list = NULL};
}
