// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/replicas.c -- see replicas.h.
#include "coordinator/core/shards/replicas.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/send.h"
#include "coordinator/core/shards/move.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/shards/shards.h"

// Returns the psserver of the replica in the set if it can take over now; NULL:
// there is none, or it is silent or gone.
static const struct member *replica_ready(const struct coord *c,
                                          const struct job_shard *s)
{
    const char *name = job_replica(s);

    return name == NULL ? NULL : members_psserver(&c->members, name);
}

// Takes the replica out of the set: first in the journal, then the owner may go
// on without it (P3).
static void replica_leave(struct coord *c, struct job *job, uint32_t shard,
                          const char *why)
{
    struct job_shard *s = &job->shards.list[shard];
    struct member *replica =
        members_find(&c->members, MEMBER_PSSERVER, s->replica.psserver);
    struct member *owner =
        members_find(&c->members, MEMBER_PSSERVER, s->psserver);

    if (!coord_wrote(c, journal_shard_replica(c->journal, job->id, shard, NULL,
                                              0, &c->err)))
        return;
    FAULT("replica.out");
    JOB_HISTORY(job, "replica", " what=out shard=%u feed=%llu", shard,
                (ull)s->replica.feed);
    LOG(WARN, "replica out of the set", "job=%s shard=%u psserver=%s why=%s",
        job->id_text, shard, s->replica.psserver, why);
    happened_job(c, EVENT_REPLICA_OUT, job, replica,
                 "shard %u of %s has no replica on %s any more: %s", shard,
                 job->name, s->replica.psserver, why);
    if (owner != NULL)
        send_replica_out(c, owner, job->id, shard, s->replica.feed);
    if (replica != NULL)
        send_refuse(c, replica, job->id, shard, "it has left the set", NULL);
    sl_free(s->replica.psserver);
    s->replica =
        (struct shard_replica){.again_ms = coord_now(c) + REPLICAS_AGAIN_MS};
    job->changes++;
}

// Makes the replica in the set the owner, which is attached as `to`. One row
// says so; that of the replica stays, and names the memory (P4).
static void replica_promote(struct coord *c, struct job *job, uint32_t shard,
                            const struct member *to, const char *why)
{
    struct job_shard *s = &job->shards.list[shard];
    struct member *from =
        members_find(&c->members, MEMBER_PSSERVER, s->psserver);

    FAULT("replica.commit");
    if (!coord_wrote(c, journal_shard_move(c->journal, job->id, shard, to->name,
                                           &c->err)))
        return;
    FAULT("replica.committed");
    JOB_HISTORY(job, "replica", " what=promoted shard=%u feed=%llu", shard,
                (ull)s->replica.feed);
    LOG(WARN, "replica takes over", "job=%s shard=%u from=%s to=%s why=%s",
        job->id_text, shard, s->psserver, to->name, why);
    happened_job(c, EVENT_REPLICA_PROMOTED, job, to,
                 "the replica of shard %u of %s on %s takes over from %s: %s",
                 shard, job->name, to->name, s->psserver, why);
    if (s->server != 0)
        shards_stop(c, job, shard);
    shards_move(c, job, shard, to);
    s->replica.bereft = false;
    if (c->dead)
        return;
    if (from != NULL)
        send_refuse(c, from, job->id, shard, "its replica has taken over",
                    NULL);
    place_moved(c, job, shard);
}

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
    const struct member *to;
    struct job_shard *s;

    if (job == NULL || h->live_incarnation != 0 || job->behind.paused ||
        h->shard >= job->shards.count)
        return false;
    s = &job->shards.list[h->shard];
    if (job_replica(s) == NULL || strcmp(s->psserver, m->name) != 0)
        return false;
    to = replica_ready(c, s);
    if (to != NULL)
        replica_promote(c, job, h->shard, to, "it has lost its memory");
    else if (!s->replica.bereft) { // replica_tick: until it comes
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
    s->replica = (struct shard_replica){.psserver = name, .feed = feed};
    job->changes++;
    JOB_HISTORY(job, "replica", " what=in shard=%u feed=%llu", shard,
                (ull)feed);
    LOG(INFO, "replica in the set", "job=%s shard=%u psserver=%s", job->id_text,
        shard, name);
    happened_job(c, EVENT_REPLICA_IN, job, to,
                 "shard %u of %s has a replica on %s, which may take over",
                 shard, job->name, name);
}

void replicas_report(struct coord *c, struct member *m,
                     const Sluice__V1__ReplicaReport *r)
{
    struct job *job = jobs_live(c, r->job, r->job_incarnation);
    const struct member *to;
    struct job_shard *s;

    if (job == NULL || r->shard >= job->shards.count || job->behind.paused)
        return;
    s = &job->shards.list[r->shard];
    if (strcmp(s->psserver, m->name) != 0) {
        send_refuse(c, m, r->job, r->shard, "the shard lies elsewhere", NULL);
        return;
    }
    if (job_replica(s) != NULL && s->replica.feed == r->order) {
        s->replica.lag = r->lag;
        if (!r->ready)
            replica_leave(c, job, r->shard, r->failure);
        return;
    }
    to = moves_followed(c, m, r);
    if (to != NULL &&
        r->incarnation == job->shards.evidence.shard[r->shard].incarnation)
        replica_join(c, job, r->shard, to, r->order);
    else // of an earlier coordinator, or given up
        send_replica_out(c, m, r->job, r->shard, r->order);
}

// Looks at one shard that member m, silent or gone, has to do with.
static void replica_left(struct coord *c, struct job *job, uint32_t shard,
                         const struct member *m)
{
    struct job_shard *s = &job->shards.list[shard];
    const struct member *to = replica_ready(c, s);

    if (job_replica(s) == NULL)
        return;
    if (strcmp(s->psserver, m->name) == 0 && to != NULL)
        replica_promote(c, job, shard, to, "it is silent or gone");
    else if (strcmp(s->replica.psserver, m->name) == 0 && s->server != 0)
        replica_leave(c, job, shard, "its psserver is silent or gone");
}

// Calls look(c, job, shard, m) for each shard that may have a replica, until
// the coordinator is dead.
static void replicas_look(struct coord *c, const struct member *m,
                          void (*look)(struct coord *c, struct job *job,
                                       uint32_t shard, const struct member *m))
{
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        for (uint32_t i = 0; job_has_replicas(job) && !job->behind.paused &&
                             i < job->shards.count && !c->dead;
             i++)
            look(c, job, i, m);
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

// Looks at a shard that no psserver serves, with a replica that can take over.
static void replica_heir(struct coord *c, struct job *job, uint32_t shard,
                         const struct member *to)
{
    struct job_shard *s = &job->shards.list[shard];
    const struct member *owner = members_psserver(&c->members, s->psserver);

    if (s->replica.bereft)
        replica_promote(c, job, shard, to, "it has lost its memory");
    else if (owner == NULL && (s->was_lost || !replica_may_come(c, s)))
        replica_promote(c, job, shard, to, "it has not come back");
}

static void replica_tick(struct coord *c, struct job *job, uint32_t shard,
                         const struct member *m)
{
    struct job_shard *s = &job->shards.list[shard];
    const struct member *to = replica_ready(c, s);
    const struct member *owner = members_psserver(&c->members, s->psserver);

    if (to == NULL && s->replica.bereft &&
        coord_now(c) - s->replica.bereft_ms >= c->options.lease_ms) {
        replica_leave(c, job, shard, "both have lost their memory");
        place_moved(c, job, shard);
    } else if (to == NULL) {
        return;
    } else if (s->server == 0) {
        replica_heir(c, job, shard, to);
    } else if (moves_empties(to)) {
        replica_leave(c, job, shard, "its psserver is to leave");
    } else if (owner != NULL && moves_empties(owner)) {
        replica_promote(c, job, shard, to, "it is to leave");
    }
}

void replicas_tick(struct coord *c)
{
    replicas_look(c, NULL, replica_tick);
}
