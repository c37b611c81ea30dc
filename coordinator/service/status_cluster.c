// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_cluster.c -- the list of members, of psservers
// that are missing, and of warnings to the operator.
#include "coordinator/service/status_lists.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/held.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/recovery/cluster.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/move.h"
#include "proto/spec.h"

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

// Says whether a shard counts for the psserver of its name: one that is served,
// or waits for a lost psserver.
static bool status_shard_is_of(const struct job_shard *shard, bool lost)
{
    return shard->server != 0 || lost;
}

// Counts the shards of a psserver. (Parts of a ring lie on none.)
static uint32_t status_member_shards(struct coord *c, const struct member *m)
{
    uint32_t shards = 0;

    if (m->role != MEMBER_PSSERVER)
        return 0;
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        for (uint32_t i = job->shards.parts; i < job->shards.count; i++)
            shards += strcmp(job->shards.list[i].psserver, m->name) == 0 &&
                      status_shard_is_of(&job->shards.list[i],
                                         m->state == MEMBER_LOST);
    }
    return shards;
}

static bool add_drain(Sluice__V1__MemberStatus *s, const struct drain *d)
{
    s->suspect = d != NULL && drain_is_audit(d);
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
    WIRE_SET_KNOWN(
        u, pushes_per_second,
        SLUICE__V1__MEMBER_USAGE__KNOWN_PUSHES_PER_SECOND_PUSHES_PER_SECOND,
        m->busy.pushes_per_second);
    return u;
}

// Returns the status of a member, without its shards; NULL: no memory.
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
    moves_reason(c, m, &why);
    s->reason = sl_strdup(buf_text(&why));
    buf_release(&why);
    if (m->drained && !add_drain(s, drains_find(c, m->role, m->name))) {
        wire_free(&s->base);
        return NULL;
    }
    if (s->suspect)
        tainted_list(c, m->name, NULL, &s->tainted, &s->n_tainted);
    s->address = sl_strdup(m->address);
    s->host = sl_strdup(m->host);
    s->device = sl_strdup(m->device);
    s->version = sl_strdup(m->version);
    s->pid = m->pid;
    s->leases = m->lease_count;
    s->heartbeat_age_ms = (double)(now - m->seen_ms);
    s->resident_bytes = m->resident_bytes;
    s->test_kind = m->test_kind;
    s->test_vector = m->test_vector;
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

static enum sl_err status_add_member(Sluice__V1__ClusterReply *m,
                                     Sluice__V1__MemberStatus *s)
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

// ---- the list, in turns

// A reply that is being made. A turn goes on behind the member, or the job,
// that the last one looked at last: both have numbers that only grow.
struct cluster_view {
    Sluice__V1__ClusterReply reply; // first, so that wire_free frees the view
    uint64_t member, job;           // looked at last
    bool members;                   // all members are listed
    bool whole;
};

// Adds members that are attached, oldest first.
static enum sl_err add_members(struct coord *c, struct cluster_view *v)
{
    size_t more = STATUS_CLUSTER_TURN;
    enum sl_err rc = SL_OK;

    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (m->id <= v->member)
            continue;
        if (rc != SL_OK || more-- == 0)
            return rc;
        rc = status_add_member(&v->reply, status_member(c, m));
        v->member = m->id;
    }
    v->members = rc == SL_OK;
    return rc;
}

// Adds members that were lost lately.
static enum sl_err add_lost(struct coord *c, struct cluster_view *v)
{
    enum sl_err rc = SL_OK;

    list_for(n, &c->members.lost)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (rc == SL_OK && coord_now(c) - m->seen_ms < MEMBERS_LOST_MS)
            rc = status_add_member(&v->reply, status_member(c, m));
    }
    return rc;
}

// Returns the status of a psserver that is not in the list although shards lie
// on it: it attached since, or it was lost long ago, or it was not seen since
// this coordinator began.
static Sluice__V1__MemberStatus *status_psserver(struct coord *c,
                                                 const char *name)
{
    const struct member *m = members_find(&c->members, MEMBER_PSSERVER, name);

    list_for(n, &c->members.lost)
    {
        const struct member *lost = list_entry(n, struct member, node);

        if (m == NULL && lost->role == MEMBER_PSSERVER &&
            strcmp(lost->name, name) == 0)
            m = lost;
    }
    return m != NULL ? status_member(c, m)
                     : new_member(name, "psserver", "lost");
}

#define JOBS_NAMED 16 // of a psserver

static enum sl_err name_job(Sluice__V1__MemberStatus *m, const struct job *job)
{
    char **more;

    if (m->n_jobs == JOBS_NAMED ||
        (m->n_jobs > 0 && strcmp(m->jobs[m->n_jobs - 1], job->id_text) == 0))
        return SL_OK;
    more = sl_realloc_array(m->jobs, m->n_jobs + 1, sizeof(*more));
    if (more == NULL)
        return SL_ENOMEM;
    m->jobs = more;
    more[m->n_jobs] = sl_strdup(job->id_text);
    if (more[m->n_jobs] == NULL)
        return SL_ENOMEM;
    m->n_jobs++;
    return SL_OK;
}

// Adds one shard to the psserver that it lies on.
static enum sl_err count_shard(Sluice__V1__MemberStatus *m,
                               const struct job *job, uint32_t shard)
{
    const struct job_shard *s = &job->shards.list[shard];

    m->shards++;
    m->shard_bytes += shards_bytes(job, s);
    return name_job(m, job);
}

// Adds a shard to the psserver that follows it, if that is in the list.
static void count_replica(const struct strmap *psservers, const struct job *job,
                          const struct job_shard *s)
{
    const char *name = job_replica(s);
    Sluice__V1__MemberStatus *m =
        name == NULL ? NULL : strmap_get(psservers, name);

    if (m == NULL)
        return;
    m->replicas++;
    m->follows += spec_follows(job->spec->placement);
    if (s->replica.lag > m->replica_lag)
        m->replica_lag = s->replica.lag;
}

// Adds the shards of a job to the psservers that they lie on, and replicas.
static enum sl_err count_shards(struct coord *c, struct cluster_view *v,
                                struct strmap *psservers, const struct job *job)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = job->shards.parts; rc == SL_OK && i < job->shards.count;
         i++) {
        const struct job_shard *shard = &job->shards.list[i];
        Sluice__V1__MemberStatus *m = strmap_get(psservers, shard->psserver);

        if (m == NULL) {
            m = status_psserver(c, shard->psserver);
            rc = status_add_member(&v->reply, m);
            if (rc == SL_OK)
                rc = strmap_put(psservers, shard->psserver, m);
        }
        if (rc == SL_OK &&
            status_shard_is_of(shard, strcmp(m->state, "lost") == 0))
            rc = count_shard(m, job, i);
        count_replica(psservers, job, shard);
    }
    return rc;
}

// Fills `psservers` with the statuses of psservers by name, which stay the
// reply's.
static enum sl_err index_psservers(struct strmap *psservers,
                                   const Sluice__V1__ClusterReply *r)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < r->n_members; i++) {
        if (strcmp(r->members[i]->role, "psserver") == 0)
            rc = strmap_put(psservers, r->members[i]->name, r->members[i]);
    }
    return rc;
}

// Counts the shards of the next jobs; active jobs are in the order of their
// numbers. *left is false after the last.
static enum sl_err count_jobs(struct coord *c, struct cluster_view *v,
                              bool *left)
{
    struct strmap psservers;
    uint32_t shards = 0;
    enum sl_err rc;

    strmap_init(&psservers);
    rc = index_psservers(&psservers, &v->reply);
    *left = false;
    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);

        if (job->id <= v->job || job_psserver_shards(job) == 0 || rc != SL_OK ||
            *left)
            continue;
        rc = count_shards(c, v, &psservers, job);
        shards += job->shards.count;
        v->job = job->id;
        *left = shards >= STATUS_CLUSTER_SHARDS;
    }
    strmap_release(&psservers);
    return rc;
}

// ---- warnings

#define LEFT_OUT_TOLD 8 // workers that are warned of for kernels they leave out

static enum sl_err warn(Sluice__V1__ClusterReply *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static enum sl_err warn(Sluice__V1__ClusterReply *m, const char *fmt, ...)
{
    char **more =
        sl_realloc_array(m->warnings, m->n_warnings + 1, sizeof(*more));
    char text[768];
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

        if (rc == SL_OK && job->behind.paused)
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

// Returns a worker on the same kind of device that leaves out other kernels, so
// that its gradients have other bits; NULL: there is none.
static const struct member *differs_from(const struct coord *c,
                                         const struct member *m)
{
    list_for(n, &c->members.all)
    {
        const struct member *other = list_entry(n, struct member, node);

        if (other != m && other->role == MEMBER_WORKER &&
            member_same_device(other, m) &&
            (other->left_out == NULL ||
             strcmp(other->left_out, m->left_out) != 0))
            return other;
    }
    return NULL;
}

// Warns of the first workers that leave kernels out as wrong, or as they refuse
// to run.
static enum sl_err warn_left_out(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;
    int told = 0;

    list_for(n, &c->members.all)
    {
        const struct member *w = list_entry(n, struct member, node), *other;

        if (w->left_out == NULL || rc != SL_OK || told++ == LEFT_OUT_TOLD)
            continue;
        other = differs_from(c, w);
        rc = warn(m,
                  "worker %.64s leaves out a kernel that is wrong on its host, "
                  "or does not run there: %.440s%s%.64s%s",
                  w->name, w->left_out, other ? ". Worker " : "",
                  other ? other->name : "",
                  other ? " does not: their last bits differ" : "");
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
                      "the coordinator refuses %s %s, which has seen term %llu "
                      "of this cluster. Restore the newest journal.sqlite; or "
                      "restart this coordinator to go on with a higher term",
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
    ago_ms = sl_real_ms() - h.since_ms;
    if (ago_ms > HELD_RECENT_MS)
        return SL_OK;
    return warn(
        m,
        "the coordinator's event loop was blocked for %llu ms by %s, %llu s "
        "ago (%llu times since it started): it answered no call meanwhile",
        (ull)h.us / 1000, h.what, (ull)ago_ms / 1000, (ull)h.times);
}

static struct cluster_view *view_new(const struct coord *c)
{
    struct cluster_view *v = sl_calloc(1, sizeof(*v));
    Sluice__V1__ClusterReply *r;

    if (v == NULL)
        return NULL;
    r = &v->reply;
    *r = (Sluice__V1__ClusterReply)SLUICE__V1__CLUSTER_REPLY__INIT;
    r->term = c->term;
    r->uptime_seconds = (double)(coord_now(c) - c->started_ms) / 1000.0;
    r->version = sl_strdup(SLUICE_VERSION);
    r->state_dir = sl_strdup(c->state_dir);
    r->store_dir = sl_strdup(c->store);
    if (r->version != NULL && r->state_dir != NULL && r->store_dir != NULL)
        return v;
    wire_free(&r->base);
    return NULL;
}

static enum sl_err warn_trouble(struct coord *c, Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = SL_OK;
    char text[SL_ERROR_TEXT];

    for (size_t i = 0; rc == SL_OK && c->io.trouble != NULL &&
                       c->io.trouble(c->io.arg, i, text, sizeof(text));
         i++)
        rc = warn(m, "%s", text);
    return rc;
}

static enum sl_err status_add_warnings(struct coord *c,
                                       Sluice__V1__ClusterReply *m)
{
    enum sl_err rc = warn_behind(c, m);

    if (rc == SL_OK)
        rc = warn_unreadable(c, m);
    if (rc == SL_OK)
        rc = warn_left_out(c, m);
    if (rc == SL_OK)
        rc = warn_strangers(c, m);
    if (rc == SL_OK)
        rc = warn_trouble(c, m);
    return rc == SL_OK ? warn_held(m) : rc;
}

static enum sl_err view_turn(struct coord *c, struct cluster_view *v)
{
    bool left = true;
    enum sl_err rc;

    if (!v->members) {
        rc = add_members(c, v);
        return rc == SL_OK && v->members ? add_lost(c, v) : rc;
    }
    rc = count_jobs(c, v, &left);
    if (rc == SL_OK && !left)
        rc = status_add_warnings(c, &v->reply);
    v->whole = rc == SL_OK && !left;
    return rc;
}

bool status_cluster_goes_on(const Sluice__V1__ClusterReply *reply)
{
    return !((const struct cluster_view *)reply)->whole;
}

enum sl_err status_cluster_turn(struct coord *c,
                                const Sluice__V1__ClusterRequest *request,
                                Sluice__V1__ClusterReply **reply,
                                struct sl_error *err)
{
    struct cluster_view *v = (struct cluster_view *)*reply;
    enum sl_err rc;

    (void)request;
    if (v == NULL)
        v = view_new(c);
    if (v == NULL)
        return sl_fail(err, SL_ENOMEM, "the members");
    rc = view_turn(c, v);
    if (rc == SL_OK)
        *reply = &v->reply;
    else if (*reply == NULL)
        wire_free(&v->reply.base);
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "the members");
}

enum sl_err status_cluster(struct coord *c,
                           const Sluice__V1__ClusterRequest *request,
                           Sluice__V1__ClusterReply **reply,
                           struct sl_error *err)
{
    Sluice__V1__ClusterReply *m = NULL;
    enum sl_err rc;

    do
        rc = status_cluster_turn(c, request, &m, err);
    while (rc == SL_OK && status_cluster_goes_on(m));
    if (rc == SL_OK)
        *reply = m;
    else
        wire_free((ProtobufCMessage *)m);
    return rc;
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
    if (m != NULL)
        r->member->shards = status_member_shards(c, m);
    *reply = r;
    return SL_OK;
}
