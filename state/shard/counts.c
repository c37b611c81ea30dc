// SPDX-License-Identifier: Apache-2.0
// state/shard/counts.c -- the messages that tell a counted set, and the sets
// that are read from them.
#include "state/shard/counts.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"

static void counts_fill_msg(struct counts_msg *m, const struct once_counts *c,
                            uint64_t steps, uint64_t low)
{
    *m = (struct counts_msg){.msg = SLUICE__V1__SHARD_COUNTS__INIT};
    m->msg.version = c->version;
    m->msg.applied = c->applied;
    m->msg.skipped = c->skipped;
    m->msg.counted = steps;
    m->msg.duplicates = c->duplicates;
    m->msg.refused = c->refused;
    m->msg.low = low;
    m->msg.stale = c->stale;
    m->msg.late = c->late;
    memcpy(m->staleness, c->staleness, sizeof(m->staleness));
    m->msg.n_staleness = WIRE_STALENESS_BUCKETS;
    m->msg.staleness = m->staleness;
}

void counts_of_brief(struct counts_msg *m, const struct shard_brief *b)
{
    counts_fill_msg(m, &b->counts, b->steps, b->low);
}

enum sl_err counts_of_once(struct counts_msg *m, const struct once *o)
{
    size_t n = o->epoch_count;

    counts_fill_msg(m, &o->counts, counted_steps(&o->counted),
                    counted_low(&o->counted));
    m->items = sl_malloc_array(n, sizeof(*m->items));
    m->list = sl_malloc_array(n, sizeof(*m->list));
    if (m->items == NULL || m->list == NULL) {
        counts_release(m);
        return SL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        sluice__v1__epoch_count__init(&m->items[i]);
        m->items[i].epoch = o->epochs[i].epoch;
        m->items[i].steps = o->epochs[i].steps;
        m->items[i].samples = o->epochs[i].samples;
        m->items[i].digest = o->epochs[i].digest;
        m->list[i] = &m->items[i];
    }
    m->msg.n_epochs = n;
    m->msg.epochs = m->list;
    return SL_OK;
}

void counts_release(struct counts_msg *m)
{
    sl_free(m->items);
    sl_free(m->list);
    m->items = NULL;
    m->list = NULL;
    m->msg.n_epochs = 0;
    m->msg.epochs = NULL;
}

enum sl_err counts_fit(const struct once *o, struct sl_error *err)
{
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    enum sl_err rc = wire_counted_init(&set, &o->counted);

    if (rc == SL_OK)
        rc = counts_of_once(&counts, o);
    if (rc == SL_OK)
        rc = wire_counted_fits(&set.msg, &counts.msg, err);
    counts_release(&counts);
    wire_counted_release(&set);
    return rc;
}

static enum sl_err read_epochs(struct once *o,
                               const Sluice__V1__ShardCounts *counts,
                               struct sl_error *err)
{
    const Sluice__V1__EpochCount *e;

    o->epochs = sl_malloc_array(counts->n_epochs, sizeof(*o->epochs));
    if (o->epochs == NULL)
        return sl_no_memory(err);
    o->epoch_cap = counts->n_epochs;
    for (size_t i = 0; i < counts->n_epochs; i++) {
        e = counts->epochs[i];
        if (e->epoch >= o->counted.schedule.epochs ||
            (i > 0 && e->epoch <= o->epochs[i - 1].epoch))
            return sl_fail(err, SL_ECORRUPT,
                           "counts: epoch %u is out of order or range",
                           e->epoch);
        o->epochs[o->epoch_count++] =
            (struct once_epoch){e->epoch, e->steps, e->samples, e->digest};
    }
    return SL_OK;
}

static enum sl_err counts_read_numbers(struct once *o,
                                       const Sluice__V1__ShardCounts *counts,
                                       struct sl_error *err)
{
    if (counts->version > counts->applied ||
        (counts->version == 0) != (counts->applied == 0) ||
        counts->n_staleness > WIRE_STALENESS_BUCKETS)
        return sl_fail(err, SL_ECORRUPT,
                       "counts: version %" PRIu64 " with %" PRIu64 " applied",
                       counts->version, counts->applied);
    o->counts = (struct once_counts){
        .version = counts->version,
        .applied = counts->applied,
        .skipped = counts->skipped,
        .duplicates = counts->duplicates,
        .refused = counts->refused,
        .stale = counts->stale,
        .late = counts->late,
    };
    for (size_t i = 0; i < counts->n_staleness; i++)
        o->counts.staleness[i] = counts->staleness[i];
    return read_epochs(o, counts, err);
}

enum sl_err counts_read(struct once *out, const struct schedule *schedule,
                        const Sluice__V1__CountedSet *set,
                        const Sluice__V1__ShardCounts *counts,
                        struct sl_error *err)
{
    struct once made = {0};
    enum sl_err rc = wire_counted_read(&made.counted, schedule, set, err);

    if (rc != SL_OK)
        return rc;
    map_init(&made.attempts);
    made.attempts_from = counted_low(&made.counted);
    rc = counts_read_numbers(&made, counts, err);
    if (rc == SL_OK)
        rc = once_check(&made, err);
    if (rc == SL_OK)
        *out = made;
    else
        once_release(&made);
    return rc;
}
