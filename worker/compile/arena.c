// SPDX-License-Identifier: Apache-2.0
// worker/compile/arena.c -- the placement of tensors by their lifetimes in one
// block.
#include "worker/compile/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

static size_t up(size_t bytes)
{
    return (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

static int arena_larger_first(const void *a, const void *b)
{
    const struct arena_item *x = *(struct arena_item *const *)a;
    const struct arena_item *y = *(struct arena_item *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    // In the list's order, so that the plan is always the same.
    return x < y ? -1 : x > y;
}

static bool live_together(const struct arena_item *a,
                          const struct arena_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

// Returns the lowest offset that is free for the item. placed[0..n) are sorted
// by offset.
static size_t lowest_gap(struct arena_item *const *placed, size_t n,
                         const struct arena_item *item)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const struct arena_item *p = placed[i];

        if (!live_together(p, item))
            continue;
        if (p->offset >= at && p->offset - at >= item->bytes)
            return at;
        if (up(p->offset + p->bytes) > at)
            at = up(p->offset + p->bytes);
    }
    return at;
}

static void insert_by_offset(struct arena_item **placed, size_t n,
                             struct arena_item *item)
{
    while (n > 0 && placed[n - 1]->offset > item->offset) {
        placed[n] = placed[n - 1];
        n--;
    }
    placed[n] = item;
}

enum sl_err arena_plan(struct arena_item *items, size_t count, size_t *bytes)
{
    struct arena_item **order = sl_malloc_array(2 * count, sizeof(*order));
    struct arena_item **placed = order + count;
    size_t most = 0, n = 0;

    if (order == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < count; i++)
        order[i] = &items[i];
    qsort(order, count, sizeof(*order), arena_larger_first);
    for (size_t i = 0; i < count; i++) {
        struct arena_item *item = order[i];

        if (item->bytes == 0) {
            item->offset = 0;
            continue;
        }
        item->offset = lowest_gap(placed, n, item);
        insert_by_offset(placed, n++, item);
        if (up(item->offset + item->bytes) > most)
            most = up(item->offset + item->bytes);
    }
    sl_free(order);
    *bytes = most;
    return SL_OK;
}
