// SPDX-License-Identifier: Apache-2.0
// lib/range.c -- pulls and pushes of a closure by range.
#include "lib/range.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "lib/space.h"

#define ROOM_BYTES ((uint64_t)64 << 20) // on their way at one time
#define ROOM_SHARDS 2                   // or so many
#define NO_SHARD UINT32_MAX

static struct sync *sync_of(const struct sluice_closure *c)
{
    return c->job->sync;
}

static uint64_t range_bytes(const struct sluice_closure *c, uint32_t shard)
{
    return c->ranges[shard].count * sizeof(float);
}

enum sl_err range_init(struct sluice_closure *c, struct sl_error *err)
{
    const struct spec_optimizer *o = &c->job->optimizer;

    if (o->clipnorm > 0 || o->global_clipnorm > 0)
        return sl_fail(
            err, SL_ENOTSUP,
            "optimizer.%s: a norm wants the whole gradient, and the "
            "program has it by range; leave it out, or use clipvalue",
            o->clipnorm > 0 ? "clipnorm" : "global_clipnorm");
    c->by_range.kept = NO_SHARD;
    c->by_range.sent = sl_calloc(c->ranges_count, sizeof(uint32_t));
    return c->by_range.sent != NULL ? SL_OK
                                    : sl_fail(err, SL_ENOMEM, "no memory");
}

void range_release(struct sluice_closure *c)
{
    sl_free(c->by_range.sent);
}

static void drop_params(struct sluice_closure *c, uint32_t shard)
{
    struct sync *s = sync_of(c);

    s->ops->drop(s, shard);
    space_drop(s->params + c->ranges[shard].first, range_bytes(c, shard));
}

static void drop_grads(struct sluice_closure *c, uint32_t shard)
{
    const struct elements *r = &c->ranges[shard];

    space_drop(c->job->grads + r->first, range_bytes(c, shard));
    if (c->job->narrow != NULL)
        space_drop((uint16_t *)c->job->narrow + r->first,
                   range_bytes(c, shard) / 2);
}

void range_begin(struct sluice_closure *c)
{
    struct kept_job *j = c->job;

    if (c->by_range.kept != NO_SHARD)
        j->sync->ops->drop(j->sync, c->by_range.kept);
    c->by_range.kept = NO_SHARD;
    c->by_range.head = c->by_range.tail = 0;
    c->by_range.bytes = 0;
    // Also what shares pages with a neighbour.
    space_drop(j->params, j->space_bytes);
    space_drop(j->grads, j->space_bytes);
    if (j->narrow != NULL)
        space_drop(j->narrow, j->space_bytes / 2);
}

enum sync_result range_sent(struct sluice_closure *c, uint32_t shard)
{
    struct sync *s = sync_of(c);
    enum sync_result result = SYNC_OK;

    c->by_range.sent[c->by_range.tail++] = shard;
    c->by_range.bytes += range_bytes(c, shard);
    while (c->by_range.bytes > ROOM_BYTES &&
           c->by_range.tail - c->by_range.head > ROOM_SHARDS) {
        uint32_t first = c->by_range.sent[c->by_range.head++];

        result = sync_rest(s, first, &c->steps.err);
        if (result != SYNC_OK)
            break;
        c->by_range.bytes -= range_bytes(c, first);
        drop_grads(c, first);
    }
    return result;
}

// ---- what the program calls

static enum sl_err range_check(struct sluice_closure *c, uint64_t first,
                               uint64_t count, struct sl_error *err)
{
    if (!c->session->by_range)
        return sl_fail(err, SL_ESTATE,
                       "the session keeps vectors: open it with by_range");
    return closure_inside(c, first, count, err);
}

// Returns the end of the shards from `from` on that one call may pull together:
// at most ROOM_BYTES, and none behind element `end`.
static uint32_t window(const struct sluice_closure *c, uint32_t from,
                       uint64_t end)
{
    uint64_t bytes = range_bytes(c, from);
    uint32_t i = from + 1;

    while (i < c->ranges_count && c->ranges[i].first < end &&
           bytes + range_bytes(c, i) <= ROOM_BYTES)
        bytes += range_bytes(c, i++);
    return i;
}

static void range_copy_out(const struct sluice_closure *c, uint32_t shard,
                           uint64_t first, uint64_t end, float *to)
{
    const struct elements *r = &c->ranges[shard];
    uint64_t from = first > r->first ? first : r->first;
    uint64_t until = end < r->first + r->count ? end : r->first + r->count;

    memcpy(to + (from - first), c->job->params + from,
           (size_t)(until - from) * sizeof(float));
}

// The shard that the pull ends within is wanted next, most probably.
static void range_keep_or_drop(struct sluice_closure *c, uint32_t shard,
                               uint64_t end)
{
    const struct elements *r = &c->ranges[shard];

    if (end < r->first + r->count)
        c->by_range.kept = shard;
    else
        drop_params(c, shard);
}

static enum sync_result range_pull_shards(struct sluice_closure *c,
                                          uint64_t first, uint64_t end,
                                          float *to)
{
    struct sync *s = sync_of(c);
    uint32_t next, kept = c->by_range.kept;

    c->by_range.kept = NO_SHARD;
    if (kept != NO_SHARD && kept != closure_range(c, first))
        drop_params(c, kept);
    for (uint32_t i = closure_range(c, first);
         i < c->ranges_count && c->ranges[i].first < end; i = next) {
        enum sync_result result;

        next = window(c, i, end);
        result = sync_pull(s, i, next, &c->steps.err);
        if (result != SYNC_OK)
            return result;
        for (; i < next; i++) {
            range_copy_out(c, i, first, end, to);
            range_keep_or_drop(c, i, end);
        }
    }
    return SYNC_OK;
}

enum sl_err sluice_pull(struct sluice_closure *c, uint64_t first,
                        uint64_t count, float *to, struct sl_error *err)
{
    enum sl_err rc = range_check(c, first, count, err);
    enum sync_result result;

    if (rc != SL_OK || count == 0)
        return rc;
    result = range_pull_shards(c, first, first + count, to);
    return result == SYNC_OK ? SL_OK : closure_lose(c, result, err);
}

enum sl_err sluice_push(struct sluice_closure *c, uint64_t first,
                        uint64_t count, const float *gradient,
                        struct sl_error *err)
{
    enum sl_err rc = range_check(c, first, count, err);
    uint64_t end = first + count;

    // A shard at a time, so that no more than the room is filled.
    while (rc == SL_OK && first < end && !c->again) {
        const struct elements *r = &c->ranges[closure_range(c, first)];
        uint64_t n = r->first + r->count < end ? r->first + r->count - first
                                               : end - first;

        memcpy(c->job->grads + first, gradient, (size_t)n * sizeof(float));
        rc = closure_cover(c, first, n, err);
        gradient += n;
        first += n;
    }
    return rc;
}
