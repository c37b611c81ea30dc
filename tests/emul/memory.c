// SPDX-License-Identifier: Apache-2.0
// tests/emul/memory.c -- device memory: one allocation per tensor, of exactly
// its size.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/emul_inner.h"

#define ALIGN 256
// Between allocations, so that what runs over the end of one does not land in
// the next. Under ASan there are its own red zones instead.
#ifdef __SANITIZE_ADDRESS__
#define GAP 0
#else
#define GAP 4096
#endif

static struct emul_mem *all;
static size_t count, room, last;

void *emul_alloc(size_t bytes)
{
    void *at = NULL;

    if (count == room) {
        room = room ? 2 * room : 64;
        all = realloc(all, room * sizeof(*all));
    }
    if (!all || posix_memalign(&at, ALIGN, bytes + GAP) != 0)
        return NULL;
    memset(at, 0xff, bytes + GAP);
    all[count] = (struct emul_mem){.at = at, .bytes = bytes};
    emul_check_alloc(&all[count]);
    count++;
    return at;
}

// A kernel that wrote into the gap wrote past its tensor.
static void look_at_gap(const struct emul_mem *m)
{
    for (size_t i = 0; i != GAP; i++)
        if ((unsigned char)m->at[m->bytes + i] != 0xff) {
            emul_report("somebody wrote %zu bytes beyond an allocation of %zu "
                        "bytes",
                        i, m->bytes);
            abort();
        }
}

bool emul_free(void *at)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].at == at) {
            look_at_gap(&all[i]);
            emul_check_free(&all[i]);
            free(at);
            all[i] = all[--count];
            return true;
        }
    return false;
}

static bool holds(const struct emul_mem *m, const char *at)
{
    return at >= m->at && at < m->at + m->bytes;
}

struct emul_mem *emul_find(const void *at)
{
    if (last < count && holds(&all[last], at))
        return &all[last];
    for (size_t i = 0; i < count; i++)
        if (holds(&all[i], at)) {
            last = i;
            return &all[i];
        }
    return NULL;
}

// Also of an allocation of nothing, or the end of one.
bool emul_is_device(const void *at)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].at == at)
            return true;
    return emul_find(at) != NULL;
}

static size_t far_from(const struct emul_mem *m, const char *at)
{
    return at < m->at ? (size_t)(m->at - at) : (size_t)(at - m->at) - m->bytes;
}

const struct emul_mem *emul_nearest(const void *at)
{
    const struct emul_mem *best = NULL;

    for (size_t i = 0; i < count; i++)
        if (!best || far_from(&all[i], at) < far_from(best, at))
            best = &all[i];
    return best;
}

bool emul_readable(const void *at, size_t bytes, const char *what)
{
    struct emul_mem *m = emul_find(at);

    if (bytes == 0)
        return true;
    if (m && bytes <= (size_t)(m->at + m->bytes - (const char *)at))
        return true;
    emul_report("%s of %zu bytes at %p is not within one allocation", what,
                bytes, at);
    return false;
}

bool emul_written(const void *at, size_t bytes, const char *what)
{
    struct emul_mem *m = emul_find(at);

    if (!emul_readable(at, bytes, what))
        return false;
    if (bytes > 0)
        emul_check_written(m, (size_t)((const char *)at - m->at), bytes);
    return true;
}
