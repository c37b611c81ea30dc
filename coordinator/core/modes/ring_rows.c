// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/ring_rows.c -- see ring_rows.h.
#include "coordinator/core/modes/ring_rows.h"

#include <stdio.h>

#include "coordinator/core/job.h"
#include "coordinator/core/send.h"
#include "coordinator/core/shards/shards.h"

// The shards beside the ring, which come behind its parts.
#define FOR_ROWS(i, job)                                                       \
    for (uint32_t i = (job)->shards.parts; i < (job)->shards.count; i++)

static void ring_rows_forget_hello(struct job_shard *s)
{
    wire_free((ProtobufCMessage *)s->waiting);
    s->waiting = NULL;
}

// Returns the psserver that said the shard's hello, if that is attached still;
// else NULL.
static struct member *ring_rows_speaker(const struct coord *c,
                                        const struct job_shard *s)
{
    return s->waiting == NULL ? NULL
                              : members_get(&c->members, s->waiting_member);
}

// ---- a generation begins

void ring_rows_opened(struct job *job)
{
    FOR_ROWS(i, job)
    {
        struct job_shard *s = &job->shards.list[i];

        s->beside = (struct shard_beside){.asked = false};
    }
}

// What a shard holds is known when no rank pushes any more: when all have left
// the generation before (R2). What it said earlier may be less.
static bool ring_rows_ask(struct coord *c, struct job *job, uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];
    const struct member *m = members_psserver(&c->members, s->psserver);

    if (s->waiting != NULL && ring_rows_speaker(c, s) == NULL)
        ring_rows_forget_hello(s);
    if (s->waiting != NULL &&
        (s->waiting->live_incarnation == 0 || s->beside.heard))
        return true;
    if (m != NULL && !s->beside.asked) { // a drained one keeps them
        s->beside.asked = true;
        send_hello_wanted(c, m, job, shard);
    }
    return false;
}

bool ring_rows_known(struct coord *c, struct job *job)
{
    bool known = true;

    FOR_ROWS(i, job)
    {
        known = ring_rows_ask(c, job, i) && known;
    }
    return known;
}

// R9: what the shard has is of the state's own past, and lacks no more than the
// round that it holds. A file is the last cut's, or of another past.
static bool ring_rows_has(const struct job *job, uint32_t shard,
                          struct wire_tag base)
{
    const struct job_shard *s = &job->shards.list[shard];
    const Sluice__V1__ShardHello *h = s->waiting;
    struct wire_tag began;

    if (h->live_incarnation == 0)
        return wire_tag_cmp(wire_tag_of(h->loaded), s->cut) == 0 &&
               wire_tag_cmp(job->shards.list[0].cut, base) == 0;
    began = h->base_tag == NULL ? (struct wire_tag){0, 0}
                                : wire_tag_of(h->base_tag);
    if (h->live_incarnation == base.incarnation)
        return h->rounds == base.sequence ||
               (h->rounds + 1 == base.sequence && h->whole);
    return h->rounds == base.sequence && wire_tag_cmp(began, base) == 0;
}

bool ring_rows_fit(const struct job *job, struct wire_tag base)
{
    bool fit = true;

    FOR_ROWS(i, job)
    {
        fit = fit && ring_rows_has(job, i, base);
    }
    return fit;
}

// A base that is a file is loaded by every shard, whatever it has.
static bool ring_rows_lies_ready(const struct job *job, uint32_t shard)
{
    const struct job_shard *s = &job->shards.list[shard];
    const Sluice__V1__ShardHello *h = s->waiting;

    return !job->ring.base_is_file ||
           (h->live_incarnation == 0 &&
            wire_tag_cmp(wire_tag_of(h->loaded), s->cut) == 0);
}

static void ring_rows_settle_one(struct coord *c, struct job *job,
                                 uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];
    struct member *m = ring_rows_speaker(c, s);

    if (m == NULL)
        return;
    if (ring_rows_lies_ready(job, shard))
        shards_settle(c, m, job, s->waiting);
    else
        send_reload(c, m, job, shard);
    ring_rows_forget_hello(s);
}

void ring_rows_settle(struct coord *c, struct job *job)
{
    FOR_ROWS(i, job)
    {
        if (!job->shards.list[i].beside.settled)
            ring_rows_settle_one(c, job, i);
    }
}

void ring_rows_hello(struct coord *c, struct job *job, uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];

    s->beside.heard = s->beside.asked;
    if (job->ring.state < RING_COPYING)
        return;
    // The shard had to load the cut, and has; else its place in this generation
    // is lost.
    if (s->server == 0 && !s->beside.settled && job->ring.base_is_file)
        ring_rows_settle_one(c, job, shard);
    else
        s->beside.due = true;
}

// ---- rounds

void ring_rows_decide(struct coord *c, struct job *job, uint64_t closure)
{
    FOR_ROWS(i, job)
    {
        const struct job_shard *s = &job->shards.list[i];
        const struct member *m = members_get(
            &c->members, s->server != 0 ? s->server : s->silent_server);

        if (m != NULL)
            send_close_round(c, m, job, i, closure);
    }
}

bool ring_rows_due(const struct job *job)
{
    bool due = false;

    FOR_ROWS(i, job)
    {
        due = due || job->shards.list[i].beside.due;
    }
    return due;
}

// ---- status

bool ring_rows_waits(const struct coord *c, const struct job *job, char *out,
                     size_t size)
{
    FOR_ROWS(i, job)
    {
        const struct job_shard *s = &job->shards.list[i];
        bool there = members_psserver(&c->members, s->psserver) != NULL;

        if (s->server != 0 || (s->waiting != NULL && there))
            continue;
        snprintf(out, size, "%s psserver %.60s, which has rows of shard %u%s%s",
                 there ? "waiting for" : "no rows without", s->psserver, i,
                 s->failure == NULL ? "" : ": ",
                 s->failure == NULL ? "" : s->failure);
        return true;
    }
    return false;
}
