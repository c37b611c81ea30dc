// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/track.c -- a ring that grows until it is full.
#include "coordinator/feed/track.h"

#include "common/base/mem.h"

#define FIRST 16 // items

void track_init(struct track *t, size_t item, size_t most)
{
    *t = (struct track){.item = item, .most = most};
}

void track_release(struct track *t)
{
    sl_free(t->data);
    track_init(t, t->item, t->most);
}

bool track_full(const struct track *t)
{
    return t->space == t->most && t->added >= t->most;
}

// Grows the ring before it wraps: no item is overwritten until it has its full
// size.
static bool track_grow(struct track *t)
{
    size_t space = t->space == 0 ? FIRST : 2 * t->space;
    uint8_t *data;

    if (t->added < t->space || t->space == t->most)
        return true;
    space = space < t->most ? space : t->most;
    data = sl_realloc_array(t->data, space, t->item);
    if (data == NULL)
        return false;
    t->data = data;
    t->space = space;
    return true;
}

void *track_add(struct track *t)
{
    if (!track_grow(t))
        return NULL;
    return t->data + t->item * (t->added++ % t->space);
}

uint64_t track_first(const struct track *t)
{
    return t->added > t->space ? t->added - t->space + 1 : 1;
}

void *track_at(const struct track *t, uint64_t number)
{
    return t->data + t->item * ((number - 1) % t->space);
}
