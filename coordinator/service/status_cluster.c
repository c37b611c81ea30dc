// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_cluster.c -- the list of members, of psservers
// that are missing, and of warnings to the operator.
#include "coordinator/service/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/held.h"
#include "coordinator/core/behind.h"
#include "coordinator/core/cluster.h"
#include "coordinator/core/drains.h"
#include "coordinator/core/excluded.h"
#include "coordinator/core/jobs.h"

static Sluice__V1__MemberStatus *new_member(const char *name, const char *role,
                                            const char *state)
{
    Sluice__V1__MemberStatus *s = sl_malloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    *s = (Sluice__V1__MemberStatus)SLUICE__V1__MEMBER_STATUS__INIT;
    s->name = sl_strdup(name);
    s->role = sl_strdup(role);
    s->state = sl_strdup(state);
    if (s->name == NULL || s->role == NULL || s->state == NULL) {
        wire_free(&s->base);
        return NULL;
    }
    return s;
}

static uint32_t served_by(struct coord *c, uint64_t member)
{
    uint32_t shards = 0;

    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        for (uint32_t i = 0; i < job->shards; i++)
            shards += job->shard[i].server == member;
    }
    return shards;
}

// Counts the shards that lie on the psserver of this name. (Parts of a ring lie
// on none.)
static uint32_t shards_on(struct coord *c, const char *psserver)
{
    uint32_t shards = 0;

    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        for (uint32_t i = 0; i < job->shards && !job->allreduce; i++)
            shards += strcmp(job->shard[i].psserver, psserver) == 0;
    }
    return shards;
}

// Counts the shards that a psserver serves; for a lost one, those that wait for
// it.
static uint32_t shards_of(struct coord *c, const struct member *m)
{
    if (m->role != MEMBER_PSSERVER)
        return 0;
    return m->state == MEMBER_LOST ? shards_on(c, m->name)
                                   : served_by(c, m->id);
}

static bool add_drain(Sluice__V1__MemberStatus *s, const struct drain *d)
{
    s->drained_by = sl_strdup(d == NULL ? "" : d->who);
    s->drained_why = sl_strdup(d == NULL ? "" : d->why);
    return s->drained_by != NULL && s->drained_why != NULL;
}

// Returns the usage of a member; NULL: not known, or no memory.
static Sluice__V1__MemberUsage *usage_of(const struct member *m)
{
    Sluice__V1__MemberUsage *u =
        m->busy.known ? wire_new(&sluice__v1__member_usage__descriptor) : NULL;

    if (u == NULL)
        return NULL;
    u->cpu_cores = m->busy.cpu_cores;
    u->sent_per_second = m->busy.sent_per_second;
    u->received_per_second = m->busy.received_per_second;
    u->computing = m->busy.computing;
    u->waiting = m->busy.waiting;
    u->reading = m->busy.reading;
    return u;
}

static Sluice__V1__MemberStatus *status_member(struct coord *c,
                                               const struct member *m)
{
    uint64_t now = coord_now(c);
    Sluice__V1__MemberStatus *s = new_member(m->name, member_role_name(m->role),
                                             member_state_name(m->state));
    struct buf why = BUF_INIT;

    if (s == NULL)
        return NULL;
    excluded_reason(c, m, &why);
    drains_reason(c, m, &why);
    s->reason = sl_strdup(buf_text(&why));
    buf_release(&why);
    if (m->drained && !add_drain(s, drains_find(c, m->role, m->name))) {
        wire_free(&s->base);
        return NULL;
    }
    s->address = sl_strdup(m->address);
    s->host = sl_strdup(m->host);
    s->device = sl_strdup(m->device);
    s->version = sl_strdup(m->version);
    s->pid = m->pid;
    s->leases = m->lease_count;
    s->shards = shards_of(c, m);
    s->heartbeat_age_ms = (double)(now - m->seen_ms);
    s->resident_bytes = m->resident_bytes;
    s->usage = usage_of(m);
    s->attached_seconds =
        (double)((m->state == MEMBER_LOST ? m->seen_ms : now) -
                 m->attached_ms) /
        1000.0;
    if (s->address == NULL || s->host == NULL || s->device == NULL ||
        s->version == NULL || s->reason == NULL) {
        wire_free(&s->base);
        return NULL;
    }
    return s;
}

static enum sl_err add(Sluice__V1__ClusterReply *m, Sluice__V1__MemberStatus *s)
{
    Sluice__V1__MemberStatus **more;

    if (s == NULL)
        return SL_ENOMEM;
    more = sl_realloc_array(m->members, m->n_members + 1, sizeof(*more));
    if (more == NULL) {
        wire_free(&s->base);
        return SL_ENOMEM;
    }
    m->members = more;
    m->members[m->n_members++] = s;
    return SL_OK;
}

static bool listed(const Sluice__V1__ClusterReply *m, const char *psserver)
{
    for (size_t i = 0; i < m->n_members; i++) {
        if (strcmp(m->members[i]->role, "psserver") == 0 &&
            strcmp(m->members[i]->name, psserver) == 0)
            return true;
    }
    return false;
}

// Adds lost members: psservers with shards that wait, and members lost lately.
static enum sl_err add_lost(struct coord *c, Sluice__V1__ClusterReply *reply)
{
    enum sl_err rc = SL_OK;

    list_for(n, &c->members.lost)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (rc == SL_OK && (shards_of(c, m) > 0 ||
                            coord_now(c) - m->seen_ms < MEMBERS_LOST_MS))
            rc = add(reply, status_member(c, m));
    }
    return rc;
}

// Adds psservers that hold shards of a job and were not seen since this
// coordinator began.
static enum sl_err add_missing(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;

    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        for (uint32_t i = 0; rc == SL_OK && i < job->shards && !job->allreduce;
             i++) {
            const char *name = job->shard[i].psserver;

            if (listed(m, name))
                continue;
            rc = add(m, new_member(name, "psserver", "lost"));
            if (rc == SL_OK)
                m->members[m->n_members - 1]->shards = shards_on(c, name);
        }
    }
    return rc;
}

// ---- warnings

static enum sl_err warn(Sluice__V1__ClusterReply *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static enum sl_err warn(Sluice__V1__ClusterReply *m, const char *fmt, ...)
{
    char **more =
        sl_realloc_array(m->warnings, m->n_warnings + 1, sizeof(*more));
    char text[512];
    va_list ap;

    if (more == NULL)
        return SL_ENOMEM;
    m->warnings = more;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    more[m->n_warnings] = sl_strdup(text);
    if (more[m->n_warnings] == NULL)
        return SL_ENOMEM;
    m->n_warnings++;
    return SL_OK;
}

// Warns of shards and jobs that show that the journal is behind (I7).
static enum sl_err warn_behind(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < c->unknown_count; i++)
        rc = warn(m,
                  "psserver %s shows job j-%llu, which this journal does not "
                  "know: it is older than what ran. Restore the newest "
                  "journal.sqlite, or give the job up: sluice delete j-%llu",
                  c->unknown[i].psserver, (ull)c->unknown[i].job,
                  (ull)c->unknown[i].job);
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        if (rc == SL_OK && job->paused)
            rc = warn(m, "job %s is paused: sluice status %s", job->id_text,
                      job->id_text);
        else if (rc == SL_OK && job_rests(job))
            rc = warn(m,
                      "job %s was paused by %.100s: sluice resume %s sets it "
                      "going again",
                      job->id_text, job->pause.row.who, job->id_text);
    }
    return rc;
}

static enum sl_err warn_unreadable(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;
    size_t at = 0;
    void *value;

    while (rc == SL_OK && map_next(&c->jobs.ended, &at, NULL, &value)) {
        const struct ended_job *e = value;

        if (e->unreadable != NULL)
            rc = warn(m,
                      "job j-%llu cannot be read: %.300s. A version that can "
                      "goes on with it; or give it up: sluice delete j-%llu",
                      (ull)e->id, e->unreadable, (ull)e->id);
    }
    return rc;
}

static enum sl_err warn_strangers(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < c->strangers_count; i++) {
        const struct cluster_stranger *s = &c->strangers[i];
        const char *role = s->psserver ? "psserver" : "worker";

        if (coord_now(c) - s->seen_ms > CLUSTER_STRANGER_MS)
            continue;
        if (s->cluster != c->cluster.id)
            rc = warn(m,
                      "%s %s is refused: it belongs to cluster %016llx, this "
                      "is %016llx",
                      role, s->name, (ull)s->cluster, (ull)c->cluster.id);
        else
            rc = warn(m,
                      "%s %s is refused: it has seen term %llu of this "
                      "cluster. Restore the newest journal.sqlite; or restart "
                      "this coordinator if it is to go on",
                      role, s->name, (ull)s->term);
    }
    return rc;
}

static enum sl_err warn_held(Sluice__V1__ClusterReply *m)
{
    struct held h;
    uint64_t ago_ms;

    if (!held_last(&h))
        return SL_OK;
    ago_ms = sl_now_ms(sl_clock_real()) - h.since_ms;
    if (ago_ms > HELD_RECENT_MS)
        return SL_OK;
    return warn(m,
                "the coordinator's loop was held for %llu ms by %s, %llu s "
                "ago (%llu times since it began): nobody was answered "
                "meanwhile",
                (ull)h.us / 1000, h.what, (ull)ago_ms / 1000, (ull)h.times);
}

enum sl_err status_cluster(struct coord *c,
                           const Sluice__V1__ClusterRequest *request,
                           Sluice__V1__ClusterReply **reply,
                           struct sl_error *err)
{
    Sluice__V1__ClusterReply *m = sl_malloc(sizeof(*m));
    enum sl_err rc = SL_OK;

    if (m == NULL)
        return sl_fail(err, SL_ENOMEM, "the members");
    *m = (Sluice__V1__ClusterReply)SLUICE__V1__CLUSTER_REPLY__INIT;
    m->term = c->term;
    m->uptime_seconds = (double)(coord_now(c) - c->started_ms) / 1000.0;
    m->version = sl_strdup(SLUICE_VERSION);
    m->state_dir = sl_strdup(c->state_dir);
    m->store_dir = sl_strdup(c->store);
    if (m->version == NULL || m->state_dir == NULL || m->store_dir == NULL)
        rc = SL_ENOMEM;
    list_for(n, &c->members.all)
    {
        if (rc == SL_OK)
            rc = add(m, status_member(c, list_entry(n, struct member, node)));
    }
    if (rc == SL_OK)
        rc = add_lost(c, m);
    if (rc == SL_OK)
        rc = add_missing(c, m);
    if (rc == SL_OK)
        rc = warn_behind(c, m);
    if (rc == SL_OK)
        rc = warn_unreadable(c, m);
    if (rc == SL_OK)
        rc = warn_strangers(c, m);
    if (rc == SL_OK)
        rc = warn_held(m);
    if (rc != SL_OK) {
        wire_free(&m->base);
        return sl_fail(err, rc, "the members");
    }
    *reply = m;
    return SL_OK;
}

// ---- drains

enum sl_err status_drain(struct coord *c,
                         const Sluice__V1__DrainRequest *request,
                         Sluice__V1__DrainReply **reply, struct sl_error *err)
{
    const struct member *m = NULL;
    Sluice__V1__DrainReply *r;
    bool changed = false;
    enum sl_err rc = coord_drain(c, request, &changed, err);

    if (rc != SL_OK)
        return rc;
    r = wire_new(&sluice__v1__drain_reply__descriptor);
    if (r == NULL)
        return sl_fail(err, SL_ENOMEM, "an answer");
    r->changed = changed;
    if (strcmp(request->role, "psserver") != 0)
        m = members_find(&c->members, MEMBER_WORKER, request->name);
    if (m == NULL && strcmp(request->role, "worker") != 0)
        m = members_find(&c->members, MEMBER_PSSERVER, request->name);
    if (m != NULL)
        r->member = status_member(c, m);
    if (m != NULL && r->member == NULL) {
        wire_free(&r->base);
        return sl_fail(err, SL_ENOMEM, "an answer");
    }
    *reply = r;
    return SL_OK;
}
