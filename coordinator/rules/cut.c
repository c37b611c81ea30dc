// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/cut.c -- one cut of a job, from its request to its outcome.
//
//   cut_new --> collecting --------------> writing --> cut_free
//                   |     cut_begin_write             its outcome is journalled
//                   +--> cut_free: given up
//
// While a cut is collecting, cut_take and cut_void change what it holds; while
// it is being written, nothing does.
#include "coordinator/rules/cut.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

struct cut *cut_new(uint64_t n, uint64_t request, uint32_t shards,
                    uint64_t now_ms)
{
    struct cut *c = sl_calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->shard = sl_calloc(shards, sizeof(*c->shard));
    if (c->shard == NULL) {
        sl_free(c);
        return NULL;
    }
    c->n = n;
    c->request = request;
    c->shards = shards;
    c->moved_ms = now_ms;
    return c;
}

// Clears what a shard reported; what it was asked stays.
static void clear(struct cut_shard *s)
{
    struct cut_asked asked = s->asked;

    sl_free(s->psserver);
    sl_free(s->address);
    sl_free(s->folder);
    sl_free(s->file);
    counted_release(&s->counted);
    wire_free((ProtobufCMessage *)s->counts);
    wire_free((ProtobufCMessage *)s->below);
    *s = (struct cut_shard){.asked = asked};
}

void cut_void(struct cut *c, uint32_t shard)
{
    assert(!c->writing);
    clear(&c->shard[shard]);
    c->shard[shard].asked = (struct cut_asked){false};
}

void cut_begin_write(struct cut *c)
{
    assert(!c->writing);
    c->writing = true;
}

void cut_free(struct cut *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->shards; i++)
        clear(&c->shard[i]);
    sl_free(c->shard);
    sl_free(c);
}

void cut_ask(struct cut *c, uint32_t shard, const struct evidence *e)
{
    const struct counted *of = evidence_counted(e, shard);
    struct cut_shard *s = &c->shard[shard];

    if (s->asked.once)
        return; // the answer to the first question may be on its way
    s->asked = (struct cut_asked){true, counted_steps(of), counted_low(of)};
}

uint64_t cut_patience_ms(const struct cut *c, uint64_t bytes)
{
    uint64_t ms = bytes / CUT_BYTES_PER_MS;

    if (ms < CUT_PATIENCE_MS)
        ms = CUT_PATIENCE_MS;
    // Patience grows: a slow disk is asked again, not given up, and the files
    // of the other shards stay good.
    return ms << (c->late < 6 ? c->late : 6);
}

bool cut_belies(const struct cut *c, uint32_t shard, uint64_t request)
{
    const struct cut_shard *s = &c->shard[shard];

    return request == c->request && s->asked.once && s->reported &&
           (counted_steps(&s->counted) < s->asked.steps ||
            counted_low(&s->counted) < s->asked.low);
}

static enum sl_err cut_shard_fill(struct cut_shard *s,
                                  const Sluice__V1__SnapshotReport *report,
                                  const char *psserver, const char *address)
{
    ProtobufCMessage *counts = NULL, *below = NULL;

    s->tag = wire_tag_of(report->tag);
    s->file_bytes = report->file_bytes;
    s->not_finite = report->not_finite[0] != '\0';
    memcpy(s->sha256, report->sha256.data, sizeof(s->sha256));
    s->psserver = sl_strdup(psserver);
    s->address = sl_strdup(address);
    s->folder = sl_strdup(report->folder);
    s->file = sl_strdup(report->file);
    if (s->psserver == NULL || s->address == NULL || s->folder == NULL ||
        s->file == NULL)
        return SL_ENOMEM;
    if (wire_dup(&counts, &report->counts->base) != SL_OK)
        return SL_ENOMEM;
    s->counts = (Sluice__V1__ShardCounts *)counts;
    if (report->below != NULL &&
        wire_dup(&below, &report->below->base) != SL_OK)
        return SL_ENOMEM;
    s->below = (Sluice__V1__SnapshotChain *)below;
    return SL_OK;
}

enum sl_err cut_take(struct cut *c, const Sluice__V1__SnapshotReport *report,
                     const char *psserver, const char *address,
                     const struct evidence *e, struct sl_error *err)
{
    struct cut_shard *s;
    struct counted set;
    enum sl_err rc;

    if (report->shard >= c->shards ||
        (c->one_round && report->request != c->request))
        return sl_fail(err, SL_ESTALE, "no cut waits for this report");
    if (c->writing)
        return sl_fail(err, SL_ESTALE, "the cut is being written");
    if (report->tag->incarnation != e->shard[report->shard].incarnation)
        return sl_fail(err, SL_ESTALE,
                       "the report is of incarnation %llu of a shard that is "
                       "at incarnation %llu",
                       (unsigned long long)report->tag->incarnation,
                       (unsigned long long)e->shard[report->shard].incarnation);
    s = &c->shard[report->shard];
    if (s->reported && wire_tag_cmp(wire_tag_of(report->tag), s->tag) < 0)
        return sl_fail(err, SL_ESTALE,
                       "a newer snapshot of this shard is in the cut already");
    if (report->sha256.len != SHA256_BYTES)
        return sl_fail(err, SL_ECORRUPT, "a checksum of %zu bytes",
                       report->sha256.len);
    rc = wire_counted_read(&set, &e->schedule, report->counted, err);
    if (rc != SL_OK)
        return rc;

    clear(s);
    s->counted = set;
    rc = cut_shard_fill(s, report, psserver, address);
    if (rc != SL_OK) {
        clear(s);
        return sl_fail(err, rc, "a report of shard %u", report->shard);
    }
    s->reported = true;
    return SL_OK;
}

bool cut_publishable(const struct cut *c, const struct evidence *e)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        if (!c->shard[i].reported ||
            c->shard[i].tag.incarnation != e->shard[i].incarnation)
            return false;
    }
    return c->shards > 0;
}

bool cut_full(const struct cut *c)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        if (!c->shard[i].reported || !counted_full(&c->shard[i].counted))
            return false;
    }
    return c->shards > 0;
}

uint64_t cut_low(const struct cut *c)
{
    uint64_t low = UINT64_MAX;

    for (uint32_t i = 0; i < c->shards; i++) {
        uint64_t of_shard = counted_low(&c->shard[i].counted);

        if (of_shard < low)
            low = of_shard;
    }
    return low;
}

uint64_t cut_steps(const struct cut *c)
{
    uint64_t steps = UINT64_MAX;

    for (uint32_t i = 0; i < c->shards; i++) {
        uint64_t of_shard = counted_steps(&c->shard[i].counted);

        if (of_shard < steps)
            steps = of_shard;
    }
    return steps;
}

uint32_t cut_epochs(const struct cut *c)
{
    return (uint32_t)(cut_low(c) / schedule_closures_per_epoch(
                                       &c->shard[0].counted.schedule));
}

uint64_t cut_file_bytes(const struct cut *c)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < c->shards; i++) {
        bytes += c->shard[i].file_bytes;
        bytes += c->shard[i].below != NULL ? c->shard[i].below->bytes : 0;
    }
    return bytes;
}

// Says whether a multiple of `every` lies in (from, to].
static bool crosses(uint32_t every, uint32_t from, uint32_t to)
{
    return every > 0 && to / every > from / every;
}

struct cut_wish cut_wish_both(struct cut_wish a, struct cut_wish b)
{
    if (!a.made || !b.made)
        return a.made ? a : b;
    if (b.steps > a.steps)
        a.steps = b.steps;
    if (b.after > a.after)
        a.after = b.after;
    return a;
}

bool cut_grants(const struct cut_wish *w, uint64_t n, uint64_t steps,
                bool complete)
{
    return complete || n > w->after || steps >= w->steps;
}

enum cut_why cut_due(const struct cut_when *w)
{
    if (w->all_counted)
        return w->last_full ? CUT_NOT : CUT_FINAL;
    if (w->asked)
        return CUT_ASKED;
    if (w->epochs > w->last_epochs &&
        (w->every_epoch ||
         crosses(w->evaluate_every, w->last_epochs, w->epochs)))
        return CUT_EPOCH;
    if (w->marks > w->last_marks)
        return CUT_STEPS;
    if (w->every_ms > 0 && w->since_ms >= w->every_ms &&
        w->steps > w->last_steps)
        return CUT_TIME;
    return CUT_NOT;
}

size_t cut_prune(const bool *needed, size_t count, uint32_t keep, bool *drop)
{
    size_t dropped = 0;

    if (keep == 0)
        keep = 1; // K7 needs the last one
    for (size_t i = 0; i < count; i++) {
        drop[i] = i + keep < count && !needed[i];
        dropped += drop[i];
    }
    return dropped;
}
