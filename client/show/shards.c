// SPDX-License-Identifier: Apache-2.0
// client/show/shards.c -- shards as two lines.
#include "client/show/shards.h"

#include "client/cli/out.h"
#include "proto/wire.h"

// Of the buckets of staleness.
static const char *const bounds[WIRE_STALENESS_BUCKETS] = {
    "0", "1", "2", "4", "8", "16", "32", "64", "128", "256", ">256"};

const char *shards_most(const Sluice__V1__ShardCounts *c)
{
    const char *most = "-";

    for (size_t i = 0; i < c->n_staleness && i < SL_COUNT(bounds); i++)
        if (c->staleness[i] > 0)
            most = bounds[i];
    return most;
}

const char *shards_median(const Sluice__V1__ShardCounts *c)
{
    uint64_t all = 0, sum = 0;

    for (size_t i = 0; i < c->n_staleness; i++)
        all += c->staleness[i];
    for (size_t i = 0; i < c->n_staleness && i < SL_COUNT(bounds); i++) {
        sum += c->staleness[i];
        if (all > 0 && 2 * sum >= all)
            return bounds[i];
    }
    return "-";
}

static const Sluice__V1__ShardCounts *
shards_counts(const Sluice__V1__JobStatus *s, size_t shard)
{
    static const Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;

    return s->shards[shard]->counts != NULL ? s->shards[shard]->counts : &none;
}

// Those that no psserver serves, and the first of them.
static size_t waiting(const Sluice__V1__JobStatus *s, size_t *first)
{
    size_t count = 0;

    for (size_t i = s->n_shards; i-- > 0;) {
        if (s->shards[i]->incarnation == 0) {
            *first = i;
            count++;
        }
    }
    return count;
}

static enum sl_err waiting_text(struct buf *out, const Sluice__V1__JobStatus *s)
{
    char number[OUT_NUMBER];
    size_t first = 0, count = waiting(s, &first);

    if (count == 0)
        return SL_OK;
    return buf_appendf(out,
                       "%s %s not served now; the first is shard %u of "
                       "psserver %s\n",
                       out_count(number, count), count == 1 ? "is" : "are",
                       s->shards[first]->shard, s->shards[first]->psserver);
}

enum sl_err shards_text(struct buf *out, const Sluice__V1__JobStatus *s)
{
    char count[OUT_NUMBER], size[OUT_NUMBER], low[OUT_NUMBER], high[OUT_NUMBER];
    uint64_t bytes = 0, lowest = UINT64_MAX, highest = 0;
    enum sl_err rc;

    for (size_t i = 0; i < s->n_shards; i++) {
        uint64_t counted = shards_counts(s, i)->counted;

        bytes += s->shards[i]->bytes;
        lowest = counted < lowest ? counted : lowest;
        highest = counted > highest ? counted : highest;
    }
    if (s->n_shards == 0)
        return SL_OK;
    rc = buf_appendf(out,
                     "%s shards, %s, counted %s to %s; --shards lists "
                     "them\n",
                     out_count(count, s->n_shards), out_bytes(size, bytes),
                     out_count(low, lowest), out_count(high, highest));
    return rc == SL_OK ? waiting_text(out, s) : rc;
}
