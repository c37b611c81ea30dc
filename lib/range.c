// SPDX-License-Identifier: Apache-2.0
// lib/range.c -- the memory of a closure by range.
#include "lib/range.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "lib/space.h"

#define ROOM_SHARDS 2 // or so many

static struct sync *sync_of(const struct sluice_closure *c)
{
    return c->job->sync;
}

uint64_t range_bytes(const struct sluice_closure *c, uint32_t shard)
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
    c->by_range.kept = RANGE_NO_SHARD;
    c->by_range.sent = sl_calloc(c->ranges_count, sizeof(uint32_t));
    return c->by_range.sent != NULL ? SL_OK : sl_no_memory(err);
}

void range_release(struct sluice_closure *c)
{
    sl_free(c->by_range.sent);
}

void range_drop_params(struct sluice_closure *c, uint32_t shard)
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

    if (c->by_range.kept != RANGE_NO_SHARD)
        j->sync->ops->drop(j->sync, c->by_range.kept);
    c->by_range.kept = RANGE_NO_SHARD;
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
    while (c->by_range.bytes > RANGE_ROOM_BYTES &&
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
