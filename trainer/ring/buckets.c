// SPDX-License-Identifier: Apache-2.0
// trainer/ring/buckets.c -- a walk over a model's layers, which fills one
// bucket after the other.
#include "trainer/ring/buckets.h"

#include "common/base/mem.h"
#include "common/base/num.h"

// Parts begin at cache lines of their layer.
#define PART_OF (64 / sizeof(float))

struct filling {
    struct elements *of; // NULL: buckets are only counted
    uint32_t count;
    uint64_t first; // first element of the bucket being filled
};

static void buckets_add_range(struct filling *f, uint64_t end)
{
    if (end == f->first)
        return;
    if (f->of != NULL)
        f->of[f->count] = (struct elements){f->first, end - f->first};
    f->count++;
    f->first = end;
}

static uint64_t part_elements(uint64_t layer, uint64_t most)
{
    uint64_t even = sl_ceil_div(layer, sl_ceil_div(layer, most));
    uint64_t round = sl_ceil_div(even, PART_OF) * PART_OF;

    return round <= most ? round : even;
}

static void buckets_add_layer(struct filling *f, uint64_t first, uint64_t end,
                              uint64_t most)
{
    uint64_t part = part_elements(end - first, most);

    // A bucket waits for all of its layers: with a dense layer's last quarter
    // in one with the convolutions before it, rounds take 231 ms, else 188.
    if (end - first > most / 2) {
        buckets_add_range(f, first);
        while (end - f->first > part)
            buckets_add_range(f, f->first + part);
        buckets_add_range(f, end);
    } else if (end - f->first > most) {
        buckets_add_range(f, first);
    }
}

static void buckets_fill_ranges(struct filling *f, const struct model *model,
                                uint64_t most)
{
    uint32_t n = model->variables_count;

    for (uint32_t i = 0, next; i < n; i = next) {
        const struct model_variable *v = model->variables;
        uint64_t end = model->elements;

        next = i + 1;
        while (next < n && v[next].node == v[i].node)
            next++;
        if (next < n)
            end = v[next].first;
        buckets_add_layer(f, v[i].first, end, most);
    }
    buckets_add_range(f, model->elements);
}

enum sl_err buckets_make(struct elements **out, uint32_t *count,
                         const struct model *model, uint64_t most)
{
    struct filling f = {.of = NULL};

    buckets_fill_ranges(&f, model, most);
    f = (struct filling){.of = sl_malloc_array(f.count, sizeof(*f.of))};
    if (f.of == NULL)
        return SL_ENOMEM;
    buckets_fill_ranges(&f, model, most);
    *out = f.of;
    *count = f.count;
    return SL_OK;
}

uint32_t buckets_early(const struct elements *buckets, uint32_t count)
{
    const struct elements *last = &buckets[count - 1];
    uint64_t all = last->first + last->count;
    uint64_t most = sl_min(all / BUCKETS_EARLY_PART, BUCKETS_EARLY_MOST);
    uint32_t early = 0;

    if (all < BUCKETS_EARLY_LEAST)
        return 0;
    while (buckets[early].first + buckets[early].count <= most)
        early++;
    return early;
}
