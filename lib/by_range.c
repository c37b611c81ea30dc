// SPDX-License-Identifier: Apache-2.0
// lib/by_range.c -- pulls and pushes of a closure by range: what the program
// calls.
#include "lib/range.h"

#include <string.h>

#include "common/base/num.h"

static enum sl_err range_check(struct sluice_closure *c, uint64_t first,
                               uint64_t count, struct sl_error *err)
{
    if (!c->session->by_range)
        return sl_fail(err, SL_ESTATE,
                       "the session keeps vectors: open it with by_range");
    return closure_inside(c, first, count, err);
}

// Returns the end of the shards from `from` on that one call may pull together:
// at most RANGE_ROOM_BYTES, and none behind element `end`.
static uint32_t window(const struct sluice_closure *c, uint32_t from,
                       uint64_t end)
{
    uint64_t bytes = range_bytes(c, from);
    uint32_t i = from + 1;

    while (i < c->ranges_count && c->ranges[i].first < end &&
           bytes + range_bytes(c, i) <= RANGE_ROOM_BYTES)
        bytes += range_bytes(c, i++);
    return i;
}

static void range_copy_out(const struct sluice_closure *c, uint32_t shard,
                           uint64_t first, uint64_t end, float *to)
{
    const struct elements *r = &c->ranges[shard];
    uint64_t from = first > r->first ? first : r->first;
    uint64_t until = sl_min(end, r->first + r->count);

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
        range_drop_params(c, shard);
}

static enum sync_result range_pull_shards(struct sluice_closure *c,
                                          uint64_t first, uint64_t end,
                                          float *to)
{
    struct sync *s = c->job->sync;
    uint32_t next, kept = c->by_range.kept;

    c->by_range.kept = RANGE_NO_SHARD;
    if (kept != RANGE_NO_SHARD && kept != closure_range(c, first))
        range_drop_params(c, kept);
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
