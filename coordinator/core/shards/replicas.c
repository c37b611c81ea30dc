// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/replicas.c -- see replicas.h.
#include "coordinator/core/shards/replicas.h"

#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/send.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/shards/move.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/shards/shards.h"
#include "proto/spec.h"

// Returns the psserver of the replica in the set if it can take over now; NULL:
// there is none, or it is silent or gone.
static const struct member *replica_ready(const struct coord *c,
                                          const struct job_shard *s)
{
    const char *name = job_replica(s);

    return name == NULL ? NULL : members_psserver(&c->members, name);
}

// ---- outcomes: what becomes of shards, and of their replicas

#define OUTCOMES_MOST 1000 // in one commit, which takes a few milliseconds

// Shards of a job with a replica in the set that takes over or leaves.
struct outcomes {
    struct job *job;
    size_t count;
    struct journal_outcome rows[OUTCOMES_MOST];
    const char *why[OUTCOMES_MOST]; // borrowed
};

static void outcomes_begin(struct outcomes *o, struct job *job)
{
    o->job = job;
    o->count = 0;
}

// Takes the replica out of the set, once the journal has that: the owner may go
// on without it (P3).
static void replica_leave(struct coord *c, struct job *job, uint32_t shard,
                          const char *why)
{
    struct job_shard *s = &job->shards.list[shard];
    struct member *replica =
        members_find(&c->members, MEMBER_PSSERVER, s->replica.psserver);
    struct member *owner =
        members_find(&c->members, MEMBER_PSSERVER, s->psserver);
    bool bereft = s->replica.bereft;

    JOB_HISTORY(job, "replica", " what=out shard=%u feed=%llu", shard,
                (ull)s->replica.feed);
    LOG(WARN, "replica out of the set", "job=%s shard=%u psserver=%s why=%s",
        job->id_text, shard, s->replica.psserver, why);
    if (owner != NULL)
        send_replica_out(c, owner, job->id, shard, s->replica.feed);
    if (replica != NULL)
        send_refuse(c, replica, job->id, shard, "it has left the set", NULL);
    sl_free(s->replica.psserver);
    sl_free(s->replica.missed); // `why` may be that
    s->replica =
        (struct shard_replica){.again_ms = coord_now(c) + REPLICAS_AGAIN_MS};
    job->changes++;
    if (bereft) // now its owner may load a snapshot
        place_moved(c, job, shard);
}

// Makes the replica in the set the owner, which is attached as `to`, once the
// journal has that. One row says so; that of the replica stays, and names the
// memory (P4).
static void replica_promote(struct coord *c, struct job *job, uint32_t shard,
                            const struct member *to, const char *why)
{
    struct job_shard *s = &job->shards.list[shard];
    struct member *from =
        members_find(&c->members, MEMBER_PSSERVER, s->psserver);

    JOB_HISTORY(job, "replica", " what=promoted shard=%u feed=%llu", shard,
                (ull)s->replica.feed);
    LOG(WARN, "replica takes over", "job=%s shard=%u from=%s to=%s why=%s",
        job->id_text, shard, s->psserver, to->name, why);
    if (s->server != 0)
        shards_stop(c, job, shard);
    shards_move(c, job, shard, to);
    s->replica.bereft = false;
    sl_free(s->replica.missed);
    s->replica.missed = NULL;
    if (c->dead)
        return;
    if (from != NULL)
        send_refuse(c, from, job->id, shard, "its replica has taken over",
                    NULL);
    place_moved(c, job, shard);
}

// Returns true if one event tells of outcomes i and k.
static bool outcomes_alike(const struct outcomes *o, size_t i, size_t k)
{
    const struct job_shard *a = &o->job->shards.list[o->rows[i].shard];
    const struct job_shard *b = &o->job->shards.list[o->rows[k].shard];

    return (o->rows[i].owner == NULL) == (o->rows[k].owner == NULL) &&
           strcmp(o->why[i], o->why[k]) == 0 &&
           strcmp(a->replica.psserver, b->replica.psserver) == 0 &&
           (o->rows[i].owner == NULL || strcmp(a->psserver, b->psserver) == 0);
}

// Tells people of outcome i, and of `count` outcomes like it.
static void outcomes_say(struct coord *c, const struct outcomes *o, size_t i,
                         size_t count)
{
    const struct job_shard *s = &o->job->shards.list[o->rows[i].shard];
    const char *name = s->replica.psserver;
    const struct member *m = members_find(&c->members, MEMBER_PSSERVER, name);
    char which[40];

    if (count == 1)
        snprintf(which, sizeof(which), "shard %u", o->rows[i].shard);
    else
        snprintf(which, sizeof(which), "%zu shards", count);
    if (o->rows[i].owner != NULL)
        happened_job(c, EVENT_REPLICA_PROMOTED, o->job, m,
                     "replica %s takes over %s of %s from %s: %s", name, which,
                     o->job->name, s->psserver, o->why[i]);
    else
        happened_job(c, EVENT_REPLICA_OUT, o->job, m,
                     "%s is no longer a replica of %s of %s: %s", name, which,
                     o->job->name, o->why[i]);
}

// Tells people of each kind of outcome once.
static void outcomes_tell(struct coord *c, const struct outcomes *o)
{
    bool told[OUTCOMES_MOST] = {false};

    for (size_t i = 0; i < o->count; i++) {
        size_t count = 1;

        for (size_t k = i + 1; k < o->count && !told[i]; k++) {
            if (!told[k] && outcomes_alike(o, i, k)) {
                told[k] = true;
                count++;
            }
        }
        if (!told[i])
            outcomes_say(c, o, i, count);
    }
}

static void outcome_happens(struct coord *c, struct outcomes *o, size_t i)
{
    const struct journal_outcome *row = &o->rows[i];
    const struct member *to;

    if (row->owner == NULL) {
        replica_leave(c, o->job, row->shard, o->why[i]);
        return;
    }
    to = members_psserver(&c->members, row->owner);
    replica_promote(c, o->job, row->shard, to, o->why[i]);
}

// Commits the outcomes, in one write, then makes them happen, and forgets them.
// A commit of each held the loop for seconds when a psserver with thousands of
// shards fell.
static void outcomes_commit(struct coord *c, struct outcomes *o)
{
    if (o->count == 0 || c->dead)
        return;
    FAULT("replica.commit");
    if (!coord_wrote(c, journal_shard_outcomes(c->journal, o->job->id, o->rows,
                                               o->count, &c->err)))
        return;
    FAULT("replica.committed");
    outcomes_tell(c, o);
    for (size_t i = 0; i < o->count && !c->dead; i++)
        outcome_happens(c, o, i);
    o->count = 0;
    if (!c->dead)
        memory_replicas(c, o->job);
}

// Adds the outcome of a shard. `to`, which is attached, becomes the owner;
// NULL: the replica leaves the set. `why` is borrowed until outcomes_commit.
static void outcomes_add(struct coord *c, struct outcomes *o, uint32_t shard,
                         const struct member *to, const char *why)
{
    o->rows[o->count] =
        (struct journal_outcome){shard, to == NULL ? NULL : to->name};
    o->why[o->count++] = why;
    if (o->count == OUTCOMES_MOST)
        outcomes_commit(c, o);
}

// ---- what psservers say

bool replicas_follow(struct coord *c, const struct member *m,
                     const Sluice__V1__ShardHello *h)
{
    const struct job *job = jobs_live(c, h->job, h->job_incarnation);
    const char *name;

    if (job == NULL || !h->prepared || h->follow == 0 ||
        h->shard >= job->shards.count)
        return false;
    name = job_replica(&job->shards.list[h->shard]);
    return name != NULL && strcmp(name, m->name) == 0 &&
           job->shards.list[h->shard].replica.feed == h->follow;
}

bool replicas_hello(struct coord *c, const struct member *m,
                    const Sluice__V1__ShardHello *h)
{
    struct job *job = jobs_live(c, h->job, h->job_incarnation);
    struct job_shard *s;

    if (job == NULL || h->live_incarnation != 0 || job->behind.paused ||
        h->shard >= job->shards.count)
        return false;
    s = &job->shards.list[h->shard];
    if (job_replica(s) == NULL || strcmp(s->psserver, m->name) != 0)
        return false;
    if (s->server != 0)
        shards_stop(c, job, h->shard);
    // The next tick decides, with all shards whose hellos say so until then.
    if (!s->replica.bereft) {
        s->replica.bereft = true;
        s->replica.bereft_ms = coord_now(c);
    }
    return true;
}

// The owner has all of its answers at the replica: the journal takes it into
// the set (P2).
static void replica_join(struct coord *c, struct job *job, uint32_t shard,
                         const struct member *to, uint64_t feed)
{
    struct job_shard *s = &job->shards.list[shard];
    char *name = sl_strdup(to->name);

    if (name == NULL) { // it follows in vain, until its owner says so again
        send_give_up(c, to->id);
        return;
    }
    if (!coord_wrote(c, journal_shard_replica(c->journal, job->id, shard, name,
                                              feed, &c->err))) {
        sl_free(name);
        return;
    }
    FAULT("replica.in");
    sl_free(s->replica.psserver);
    sl_free(s->replica.missed);
    s->replica = (struct shard_replica){.psserver = name, .feed = feed};
    job->changes++;
    JOB_HISTORY(job, "replica", " what=in shard=%u feed=%llu", shard,
                (ull)feed);
    LOG(INFO, "replica in the set", "job=%s shard=%u psserver=%s", job->id_text,
        shard, name);
    happened_job(
        c, EVENT_REPLICA_IN, job, to,
        "shard %u of %s has a replica on %s, which %s", shard, job->name, name,
        spec_follows(job->spec->placement) ? "follows, and may take over"
                                           : "may take over");
    memory_replicas(c, job);
}

// Notes that the owner misses its replica, which is in the set, for the next
// tick: where a psserver is lost, or stands still, all owners that it follows
// say so at once. Without memory the owner's next word counts.
static void replica_missed(struct job_shard *s,
                           const Sluice__V1__ReplicaReport *r)
{
    if (s->replica.missed == NULL)
        s->replica.missed = sl_strdup(r->failure);
}

// Returns true if the report is of the feed of the shard's replica in the set.
static bool replica_reported(const struct job_shard *s,
                             const Sluice__V1__ReplicaReport *r)
{
    return job_replica(s) != NULL && s->replica.feed == r->order;
}

bool replicas_lag(struct coord *c, const struct member *m,
                  const Sluice__V1__ReplicaReport *r)
{
    const struct job *job = jobs_live(c, r->job, r->job_incarnation);
    struct job_shard *s;

    if (job == NULL || r->shard >= job->shards.count || !r->ready)
        return false;
    s = &job->shards.list[r->shard];
    if (strcmp(s->psserver, m->name) != 0 || !replica_reported(s, r))
        return false;
    s->replica.lag = r->lag;
    return true;
}

void replicas_report(struct coord *c, struct member *m,
                     const Sluice__V1__ReplicaReport *r)
{
    struct job *job = jobs_live(c, r->job, r->job_incarnation);
    const struct member *to;
    struct job_shard *s;

    if (job == NULL || r->shard >= job->shards.count || job->behind.paused ||
        replicas_lag(c, m, r))
        return;
    s = &job->shards.list[r->shard];
    if (strcmp(s->psserver, m->name) != 0) {
        send_refuse(c, m, r->job, r->shard, "the shard lies elsewhere", NULL);
        return;
    }
    if (replica_reported(s, r)) {
        replica_missed(s, r);
        return;
    }
    to = moves_followed(c, m, r);
    if (to != NULL &&
        r->incarnation == job->shards.evidence.shard[r->shard].incarnation)
        replica_join(c, job, r->shard, to, r->order);
    else // of an earlier coordinator, or given up
        send_replica_out(c, m, r->job, r->shard, r->order);
}

// ---- members that go, and time

// Judges one shard that member m, silent or gone, has to do with.
static void replica_left(struct coord *c, struct outcomes *o, uint32_t shard,
                         const struct member *m)
{
    const struct job_shard *s = &o->job->shards.list[shard];
    const struct member *to = replica_ready(c, s);

    if (job_replica(s) == NULL)
        return;
    if (strcmp(s->psserver, m->name) == 0 && to != NULL)
        outcomes_add(c, o, shard, to, "it is silent or gone");
    else if (strcmp(s->replica.psserver, m->name) == 0 && s->server != 0)
        outcomes_add(c, o, shard, NULL, "its psserver is silent or gone");
}

// Calls judge(c, outcomes, shard, m) for each shard that may have a replica,
// until the coordinator is dead.
static void replicas_look(struct coord *c, const struct member *m,
                          void (*judge)(struct coord *c, struct outcomes *o,
                                        uint32_t shard, const struct member *m))
{
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        struct outcomes o;

        if (!job_has_replicas(job) || job->behind.paused)
            continue;
        outcomes_begin(&o, job);
        for (uint32_t i = 0; i < job->shards.count && !c->dead; i++)
            judge(c, &o, i, m);
        outcomes_commit(c, &o);
    }
}

void replicas_left(struct coord *c, const struct member *m)
{
    replicas_look(c, m, replica_left);
}

// Says whether psservers of the shard that are away are to be waited for: they
// may not have had the time to attach, here or again.
static bool replica_may_come(const struct coord *c, const struct job_shard *s)
{
    return coord_now(c) - s->since_ms < c->options.lease_ms;
}

// Judges a shard that no psserver serves, with a replica that can take over.
static void replica_heir(struct coord *c, struct outcomes *o, uint32_t shard,
                         const struct member *to)
{
    const struct job_shard *s = &o->job->shards.list[shard];
    const struct member *owner = members_psserver(&c->members, s->psserver);
    // One that came back as an older program is asked for nothing.
    bool away = owner == NULL || !job_shard_able(o->job, owner);

    if (s->replica.bereft)
        outcomes_add(c, o, shard, to, "it has lost its memory");
    else if (away && (s->was_lost || !replica_may_come(c, s)))
        outcomes_add(c, o, shard, to, "it has not come back");
}

static void replica_tick(struct coord *c, struct outcomes *o, uint32_t shard,
                         const struct member *m)
{
    const struct job_shard *s = &o->job->shards.list[shard];
    const struct member *to = replica_ready(c, s);
    const struct member *owner = members_psserver(&c->members, s->psserver);

    if (s->replica.missed != NULL && s->server != 0)
        outcomes_add(c, o, shard, NULL, s->replica.missed);
    else if (to == NULL && s->replica.bereft &&
             coord_now(c) - s->replica.bereft_ms >= c->options.lease_ms)
        outcomes_add(c, o, shard, NULL, "both have lost their memory");
    else if (to == NULL)
        return;
    else if (s->server == 0)
        replica_heir(c, o, shard, to);
    else if (moves_empties(to))
        outcomes_add(c, o, shard, NULL, "its psserver is to leave");
    else if (owner != NULL && moves_empties(owner))
        outcomes_add(c, o, shard, to, "it is to leave");
}

void replicas_tick(struct coord *c)
{
    replicas_look(c, NULL, replica_tick);
}
