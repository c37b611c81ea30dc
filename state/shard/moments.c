// SPDX-License-Identifier: Apache-2.0
// state/shard/moments.c -- one set that is kept, and those around it.
#include "state/shard/moments.h"

#include "common/base/mem.h"
#include "state/base/finite.h"
#include "state/rows/row_memory.h"

struct moments_set *moments_new(const struct plan *p, uint64_t closure,
                                uint64_t t)
{
    size_t bytes = moments_bytes(p);
    struct moments_set *m = sl_malloc(sizeof(*m) + bytes);

    if (m == NULL)
        return NULL;
    atomic_init(&m->refs, 1);
    m->closure = closure;
    m->t = t;
    m->bytes = bytes;
    row_memory_add_dense(bytes);
    return m;
}

struct moments_set *moments_ref(struct moments_set *m)
{
    if (m != NULL)
        atomic_fetch_add(&m->refs, 1);
    return m;
}

void moments_unref(struct moments_set *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) > 1)
        return;
    row_memory_drop_dense(m->bytes);
    sl_free(m);
}

enum sl_err moments_take(struct moments_set **out, const struct plan *p,
                         const struct wire_push *push, struct sl_error *err)
{
    size_t want = moments_bytes(p);
    struct moments_set *m;

    if (push->moments_t == 0)
        return SL_OK;
    if (want == 0 || push->rows.bytes != want)
        return sl_fail(err, SL_EINVAL,
                       "moments: %zu bytes, but shard %u of the job keeps %zu",
                       push->rows.bytes, p->shard, want);
    m = moments_new(p, push->closure, push->moments_t);
    if (m == NULL)
        return sl_no_memory(err);
    slices_copy(m->data, &push->rows);
    if (!finite_all(p->moments_wire, m->data, p->moments * p->elements)) {
        moments_unref(m);
        return sl_fail(err, SL_ENUMERIC, "moments: an element is not finite");
    }
    *out = m;
    return SL_OK;
}

void moments_offer(struct moments *m, struct moments_set *set)
{
    m->offered = set;
}

// Forgets what was kept before the last round: a contribution to the next one
// has come, so no shard lacks that round.
static void moments_go_on(struct moments *m)
{
    moments_unref(m->before);
    m->before = NULL;
    m->changed = false;
}

void moments_hold(struct moments *m)
{
    if (m->offered == NULL)
        return;
    moments_go_on(m);
    moments_unref(m->held);
    m->held = moments_ref(m->offered);
}

void moments_round(struct moments *m, uint64_t first, uint64_t count)
{
    moments_go_on(m);
    if (m->held != NULL && m->held->closure >= first &&
        m->held->closure - first < count) {
        m->before = m->kept;
        m->kept = m->held;
        m->changed = true;
    } else {
        moments_unref(m->held);
    }
    m->held = NULL;
}

struct moments_set *moments_of(const struct moments *m, bool past)
{
    return past && m->changed ? m->before : m->kept;
}

void moments_release(struct moments *m)
{
    moments_unref(m->kept);
    moments_unref(m->before);
    moments_unref(m->held);
    *m = (struct moments){NULL};
}
