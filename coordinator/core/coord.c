// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord.c -- the members that come, send and go; the
// passing of time.
//
// The call sequence of the main event, one closure:
//
//   coord_tick or a report -> serve_workers -> send_leases
//   ... the worker computes; the shards count ...
//   coord_receive -> reports_complete -> evidence_complete (C1)
//     -> advance_job: cut, evaluation, end
//     -> serve_workers: the next one
#include "coordinator/core/coord.h"

#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/advance.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/recovery/cluster.h"
#include "coordinator/core/job.h"
#include "coordinator/core/status/job_curves.h"
#include "coordinator/core/leases/arrivals.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/leases/gone.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/pause.h"
#include "coordinator/core/shards/move.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/shards/replicas.h"
#include "coordinator/core/cuts/publish.h"
#include "coordinator/core/quota_list.h"
#include "coordinator/core/cuts/start_from.h"
#include "coordinator/core/leases/recount.h"
#include "coordinator/core/recovery/recover.h"
#include "coordinator/core/leases/reports.h"
#include "coordinator/core/send.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/shards/shards.h"
#include "coordinator/core/leases/stall.h"
#include "coordinator/core/recovery/stored.h"

// ---- cuts

// Answers hellos that waited, as K5 is over, and lets the job go on.
static void cut_settled(struct coord *c, struct job *job)
{
    shards_retry(c, job);
    if (!c->dead)
        advance_job(c, job);
    if (!c->dead) {
        shards_flush_map(c, job, false);
        jobs_flush(c, job);
        serve_workers(c);
    }
}

// ---- making

static void coord_release(struct coord *c)
{
    size_t at = 0;
    void *value;

    members_release(&c->members);
    while (map_next(&c->jobs.by_id, &at, NULL, &value)) {
        struct job *job = value;

        job->leases.held = 0; // the holders are gone
        job_free(job);
    }
    map_release(&c->jobs.by_id);
    ended_release(c);
    map_release(&c->replaced);
    map_release_owned(&c->debts);
    publish_release(c);
    resumed_release(c);
    behind_release(c);
    cluster_release(c);
    gone_release(c);
    drains_release(c);
    moves_release(c);
    test_vectors_release(&c->vectors);
    tainted_release(c);
    quotas_free(c->quotas);
    sl_free(c->store);
    sl_free(c->state_dir);
    sl_free(c);
}

static struct coord *coord_make(const struct coord_options *options,
                                const struct coord_io *io)
{
    struct coord *c = sl_calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->options = *options;
    c->io = *io;
    c->journal = options->journal;
    c->modes = modes_all;
    c->cut_settled = cut_settled;
    figures_init(c);
    members_init(&c->members, options->heartbeat_ms, options->lease_ms);
    map_init(&c->jobs.by_id);
    map_init(&c->jobs.ended);
    map_init(&c->debts);
    list_init(&c->jobs.active);
    list_init(&c->jobs.ending);
    c->store = sl_strdup(options->store);
    c->state_dir = sl_strdup(options->state_dir);
    list_init(&c->publishing);
    list_init(&c->readings);
    list_init(&c->suspicions);
    list_init(&c->drains);
    list_init(&c->moves.list);
    list_init(&c->tainted);
    c->started_ms = c->ticked_ms = coord_now(c);
    c->places = PLACE_AHEAD;
    if (c->store == NULL || c->state_dir == NULL) {
        coord_release(c);
        return NULL;
    }
    return c;
}

static enum sl_err coord_ask_store(struct stored **out,
                                   const struct coord_options *o,
                                   struct sl_error *err)
{
    enum sl_err rc = stored_new(out, o->journal, o->fs, o->store, o->seed, err);

    return rc == SL_OK ? stored_look(*out, err) : rc;
}

static enum sl_err coord_recover_stored(struct coord *c, struct sl_error *err)
{
    struct stored *own = NULL;
    enum sl_err rc = SL_OK;

    if (c->options.stored == NULL)
        rc = coord_ask_store(&own, &c->options, err);
    c->stored = own != NULL ? own : c->options.stored;
    if (rc == SL_OK)
        rc = recover_coord(c, err);
    stored_free(own);
    c->stored = c->options.stored = NULL;
    return rc;
}

enum sl_err coord_new(struct coord **out, const struct coord_options *options,
                      const struct coord_io *io, struct sl_error *err)
{
    struct coord *c = coord_make(options, io);
    enum sl_err rc;

    if (c == NULL)
        return sl_fail(err, SL_ENOMEM, "a coordinator");
    rc = quotas_new(&c->quotas, options, err);
    if (rc == SL_OK)
        rc = coord_recover_stored(c, err);
    if (rc != SL_OK) {
        coord_release(c);
        return rc;
    }
    happened(c, EVENT_COORDINATOR_BEGAN, NULL,
             "the coordinator (%s) has begun, term %llu", SLUICE_VERSION,
             (ull)c->term);
    *out = c;
    return SL_OK;
}

void coord_free(struct coord *c)
{
    if (c != NULL)
        coord_release(c);
}

bool coord_writes(const struct coord *c)
{
    return publish_at_work(c);
}

void coord_refused(struct coord *c, const char *who, const char *call,
                   const char *job, const char *why)
{
    happened_once(c, EVENT_CALL_REFUSED, "", "%s%s%s was refused to %s: %s",
                  call, job[0] == '\0' ? "" : " of ", job,
                  who[0] == '\0' ? "a client of this host" : who, why);
}

uint64_t coord_term(const struct coord *c)
{
    return c->term;
}

// ---- members

static void flush_all(struct coord *c, bool tick)
{
    list_for_safe(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        if (job->mode->check != NULL)
            job->mode->check(c, job);
        shards_flush_map(c, job, tick);
        jobs_flush(c, job);
    }
}

// Takes a psserver's shards from it. If it redials, its process lives: it shows
// its memory in a moment, and its feeds go on, so replicas stay as they are.
static void psserver_down(struct coord *c, struct member *m, bool lost,
                          bool redials)
{
    shards_down(c, m, lost);
    moves_left(c, m);
    if (!c->dead && !redials)
        replicas_left(c, m);
}

// Takes from a member its leases or shards. It is still in the table.
static void strip(struct coord *c, struct member *m, enum gone_why why)
{
    if (why == GONE_LOST)
        member_lost(m);
    if (m->role == MEMBER_WORKER)
        gone_worker(c, m, why);
    else
        psserver_down(c, m, true, why == GONE_REDIAL);
    if (m->role == MEMBER_PSSERVER && m->draining)
        memory_left(c, m);
}

// Removes a member. `how` it was lost is kept for people; NULL: it is not
// remembered.
static void remove_member(struct coord *c, struct member *m, enum gone_why why,
                          const char *how)
{
    HISTORY("member", "what=gone name=%s of=%s process=%llx", m->name,
            member_role_name(m->role), (ull)m->process);
    strip(c, m, why);
    if (why == GONE_LOST && !m->draining)
        figures_lost(c, m);
    FAULT("member.lost");
    stall_left(c, m);
    if (how != NULL)
        members_lose(&c->members, m, how);
    else
        members_remove(&c->members, m);
    place_note_psservers(c);
}

// Sends away `old`, since the newest process of a name wins. (The same process
// on a new stream: its old one is half open.) A replaced process is remembered,
// so that two of one name do not throw each other out for ever.
static void coord_replace_member(struct coord *c, struct member *old,
                                 uint64_t process)
{
    bool same = old->process == process;
    char why[160];

    snprintf(why, sizeof(why),
             "a newer process attached as %s '%.80s'; give each its own --name",
             member_role_name(old->role), old->name);
    if (!same) {
        LOG(WARN, "member replaced", "member=%s why=%s", old->name,
            "another process took its name");
        happened(
            c, EVENT_MEMBER_REPLACED, old,
            "the coordinator sent %s %s away: another process took its name",
            member_role_name(old->role), old->name);
        send_goodbye(c, old, why);
        if (c->replaced.len >= COORD_REMEMBERED_MAX)
            map_release(&c->replaced);
        (void)map_put(&c->replaced, old->process, c);
    }
    c->io.hang_up(c->io.arg, old->id);
    remove_member(c, old, same ? GONE_REDIAL : GONE_LOST, NULL);
}

static void read_hello(struct member_hello *out, const Sluice__V1__Hello *hello,
                       enum member_claim claim)
{
    *out = (struct member_hello){
        .claim = claim,
        .role = hello->role == SLUICE__V1__ROLE__ROLE_WORKER ? MEMBER_WORKER
                                                             : MEMBER_PSSERVER,
        .name = hello->name,
        .address = hello->address,
        .host = hello->host,
        .version = hello->version,
        .device = hello->device,
        .process = hello->process,
        .pid = hello->pid,
        .external = hello->external,
        .ranks = hello->ranks,
        .groups = hello->groups,
        .own_steps = hello->own_steps,
        .no_store = hello->no_store,
        .memory_bytes = hello->memory_bytes,
        .test_kind = hello->test_kind,
        .test_vector = hello->test_vector,
        .map_changes = hello->map_changes,
        .waits_for_round = hello->waits_for_round,
        .log_lines = hello->log_lines,
        .only_job = hello->only_job,
        .edition = hello->edition,
    };
}

static enum sl_err judge_hello(const Sluice__V1__Hello *hello,
                               struct sl_error *err)
{
    if (hello->protocol != WIRE_PROTOCOL)
        return sl_fail(err, SL_ENOTSUP,
                       "protocol %u is not known here; this coordinator (%s) "
                       "speaks protocol %u",
                       hello->protocol, SLUICE_VERSION, WIRE_PROTOCOL);
    if (hello->role == SLUICE__V1__ROLE__ROLE_PSSERVER &&
        hello->address[0] == '\0')
        return sl_fail(err, SL_EINVAL,
                       "psserver '%s' names no address for workers to dial",
                       hello->name);
    return SL_OK;
}

static void say_drains(struct coord *c, const struct member *m)
{
    const char *why = m->why == NULL ? "" : m->why;

    if (m->draining)
        happened(c, EVENT_MEMBER_DRAINS, m, "%s %s drains%s%s",
                 member_role_name(m->role), m->name, why[0] == '\0' ? "" : ": ",
                 why);
    else
        happened(c, EVENT_MEMBER_STAYS, m, "%s %s is no longer draining",
                 member_role_name(m->role), m->name);
}

static void say_came(struct coord *c, const struct member *m)
{
    happened(c, EVENT_MEMBER_CAME, m, "%s %s came, of host %s (%s)%s%s",
             member_role_name(m->role), m->name, m->host, m->version,
             m->device[0] == '\0' ? "" : ", ", m->device);
    if (m->draining)
        say_drains(c, m);
}

// Judges a Hello by its versions and its cluster, and adds an event if it is
// refused.
static enum sl_err coord_check_hello(struct coord *c,
                                     const Sluice__V1__Hello *hello,
                                     struct sl_error *err)
{
    enum sl_err rc = judge_hello(hello, err);

    if (rc == SL_OK)
        rc = cluster_judge(c, hello, err);
    if (rc != SL_OK)
        happened_once(c, EVENT_MEMBER_REFUSED, hello->name,
                      "the coordinator refused %s: %s", hello->name, err->text);
    return rc;
}

// Says whether the process that says Hello may take the name that `m` has.
static enum sl_err judge_name(struct coord *c, const struct member *m,
                              const struct member_hello *said,
                              struct sl_error *err)
{
    const char *role = member_role_name(m->role);

    if (m->process != said->process &&
        map_get(&c->replaced, said->process) != NULL)
        return sl_fail(err, SL_EEXIST,
                       "a newer process is attached as %s '%.80s'; give each "
                       "its own --name",
                       role, m->name);
    // The address is no part of the rule: many processes may be behind one, and
    // pods and spot machines come back with another.
    if (member_yields(m, said->claim, said->process))
        return SL_OK;
    sl_fail(err, SL_EEXIST,
            "%s '%.80s' is attached from host %.80s and heard of, and a "
            "certificate for any name takes no name from others: give each "
            "its own --name, or a certificate of its name (sluice cert issue "
            "--role %s --name %.80s)",
            role, m->name, m->host, role, m->name);
    happened_once(c, EVENT_MEMBER_REFUSED, m->name,
                  "the coordinator refused %s: %s", m->name, err->text);
    return SL_EEXIST;
}

enum sl_err coord_attach(struct coord *c, uint64_t member,
                         const Sluice__V1__Hello *hello,
                         enum member_claim claim, struct sl_error *err)
{
    struct member_hello said;
    struct member *m;
    enum sl_err rc;

    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    rc = coord_check_hello(c, hello, err);
    if (rc != SL_OK)
        return rc;
    read_hello(&said, hello, claim);
    if (c->io.certificate != NULL)
        said.certificate = c->io.certificate(c->io.arg, member);
    m = members_find(&c->members, said.role, said.name);
    rc = m == NULL ? SL_OK : judge_name(c, m, &said, err);
    if (rc != SL_OK)
        return rc;
    if (m != NULL)
        coord_replace_member(c, m, said.process);
    if (members_add(&c->members, &m, member, &said, coord_now(c)) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "no memory for one more member");
    m->draining = hello->away[0] != '\0';
    m->drained = drains_find(c, m->role, m->name) != NULL;
    member_describe(m, hello->away, hello->device);
    member_seen(m, coord_now(c)); // draining, if it is away
    stall_back(c, m);
    gone_back(c, m);
    LOG(INFO, "member attached", "kind=%s member=%s host=%s pid=%llu",
        member_role_name(m->role), m->name, m->host, (ull)m->pid);
    say_came(c, m);
    FAULT("member.join");
    HISTORY("member", "what=attached name=%s of=%s process=%llx", m->name,
            member_role_name(m->role), (ull)m->process);
    gone_replaced(c, m);
    if (!c->dead)
        arrivals_hear(c, m); // A suspect is leased nothing (A7).
    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    send_welcome(c, m);
    pause_attached(c, m);
    place_note_psservers(c);
    if (m->role == MEMBER_PSSERVER)
        place_member(c, m);
    flush_all(c, false);
    serve_workers(c);
    return SL_OK;
}

void coord_detach(struct coord *c, uint64_t member)
{
    static const char ended[] = "its connection ended";
    struct member *m = members_get(&c->members, member);

    if (c->dead || m == NULL)
        return;
    LOG(INFO, "member detached", "kind=%s member=%s leases=%u draining=%d",
        member_role_name(m->role), m->name, m->lease_count, m->draining);
    if (m->draining)
        happened(c, EVENT_MEMBER_LEFT, m, "%s %s left, after a drain",
                 member_role_name(m->role), m->name);
    else
        happened(c, EVENT_MEMBER_LOST, m, "%s %s was lost: %s",
                 member_role_name(m->role), m->name, ended);
    remove_member(c, m, GONE_LOST, m->draining ? NULL : ended);
    flush_all(c, false);
    serve_workers(c);
}

// ---- what members send

static void receive_heartbeat(struct coord *c, struct member *m,
                              const Sluice__V1__Heartbeat *beat)
{
    bool drained = m->draining;

    if (beat->draining && !m->draining)
        figures_drains(c, m, beat->why);
    m->draining = beat->draining;
    m->empties = beat->empties;
    m->resident_bytes = beat->resident_bytes;
    busy_beat(&m->busy, coord_now(c),
              (struct busy_counts){.cpu_us = beat->cpu_us,
                                   .sent_bytes = beat->host_sent_bytes,
                                   .received_bytes = beat->host_received_bytes,
                                   .has_pushes = beat->known_pushes_case != 0,
                                   .pushes = beat->pushes});
    member_describe(m, beat->why, beat->device);
    member_leaves_out(m, beat->left_out);
    if (m->draining != drained)
        say_drains(c, m);
    offset_heard(&m->clock, beat->heard_seq, beat->heard_us);
    offset_came(&m->clock, beat->seq, beat->sent_us,
                sl_now_us(c->options.clock));
    for (size_t i = 0; m->role == MEMBER_WORKER && i < beat->n_leases; i++)
        reports_progress(c, m, beat->leases[i]);
    for (size_t i = 0; m->role == MEMBER_PSSERVER && i < beat->n_shards; i++)
        shards_report(c, m, beat->shards[i]);
    send_ack(c, m, beat->seq);
}

static void receive_complete(struct coord *c, struct member *m,
                             const Sluice__V1__Complete *message)
{
    struct job *job;

    stall_answered(m, message->job, message->attempt);
    job = reports_complete(c, m, message);
    if (job != NULL)
        advance_job(c, job);
}

// Returns the live job that a message about a ring names; NULL: there is none,
// or it is another message.
static struct job *ring_job(struct coord *c,
                            const Sluice__V1__AttendUp *message)
{
#define RING_JOB(KIND, field)                                                  \
    case SLUICE__V1__ATTEND_UP__KIND_##KIND:                                   \
        return jobs_live(c, message->field->job,                               \
                         message->field->job_incarnation);
    switch (message->kind_case) {
        RING_JOB(RING_JOIN, ring_join)
        RING_JOB(RING_COPIED, ring_copied)
        RING_JOB(RING_ANSWER, ring_answer)
        RING_JOB(RING_READY, ring_ready)
        RING_JOB(RING_STEP, ring_step)
        RING_JOB(RING_BROKEN, ring_broken)
    default:
        return NULL;
    }
#undef RING_JOB
}

static void receive_ring(struct coord *c, struct member *m,
                         const Sluice__V1__AttendUp *message)
{
    struct job *job = ring_job(c, message);

    if (job != NULL && job->mode->receive != NULL &&
        job->mode->receive(c, m, job, message))
        advance_job(c, job);
}

// Returns true if the job's mode refuses a worker's snapshot.
static bool is_snapshot_refused(struct coord *c, struct member *m,
                                const Sluice__V1__SnapshotReport *report)
{
    struct job *job = jobs_live(c, report->job, report->job_incarnation);

    return job != NULL && job->mode->refuse != NULL &&
           job->mode->refuse(c, m, job, report);
}

static void receive_worker(struct coord *c, struct member *m,
                           const Sluice__V1__AttendUp *message)
{
    struct job *job;

    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETE:
        receive_complete(c, m, message->complete);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETES:
        for (size_t i = 0; i < message->completes->n_complete && !c->dead; i++)
            receive_complete(c, m, message->completes->complete[i]);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_FAILED:
        stall_answered(m, message->failed->job, message->failed->attempt);
        reports_failed(c, m, message->failed);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_HAND_BACK:
        stall_answered(m, message->hand_back->job, message->hand_back->attempt);
        reports_hand_back(c, m, message->hand_back);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_MAP_WANTED:
        // A worker that has the newest map waits for the next, which comes by
        // itself.
        job = jobs_get(c, message->map_wanted->job);
        if (job != NULL && job->shards.placed && !job_ended(job) &&
            job->map.version > message->map_wanted->have_version)
            shards_send_map(c, m, job, message->map_wanted->have_version);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT: // of a rank
        if (is_snapshot_refused(c, m, message->snapshot))
            break;
        job = cuts_report(c, m, message->snapshot);
        if (job != NULL)
            advance_job(c, job);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_RING_STEP:
        // First, before an evaluation asks for the training until it.
        reports_ring_step(c, m, message->ring_step);
        receive_ring(c, m, message);
        break;
    default:
        receive_ring(c, m, message);
        break;
    }
}

static void receive_psserver(struct coord *c, struct member *m,
                             const Sluice__V1__AttendUp *message)
{
    struct job *job = NULL;

    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO:
        if (replicas_follow(c, m, message->shard_hello))
            break;
        if (message->shard_hello->prepared) {
            moves_prepared(c, m, message->shard_hello);
            break;
        }
        moves_hello(c, m, message->shard_hello);
        if (replicas_hello(c, m, message->shard_hello))
            break;
        job = shards_hello(c, m, message->shard_hello);
        if (job != NULL && !c->dead)
            place_more(c, 1);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT:
        if (!moves_report(c, m, message->snapshot))
            job = cuts_report(c, m, message->snapshot);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_FEED_ENDED:
        moves_feed_ended(c, m, message->feed_ended);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_REPLICA:
        replicas_report(c, m, message->replica);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_RATES_TAKEN:
        monitor_known(c, m, message->rates_taken);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_DELETED:
        coord_wrote(c, journal_deleted(c->journal, message->deleted->job,
                                       message->deleted->job_uid, m->name,
                                       &c->err));
        break;
    default:
        break;
    }
    if (job != NULL)
        advance_job(c, job);
}

// Takes what is told of each shard with a replica, again and again, and returns
// true: it frees no work, so jobs and workers need no look. False: another
// message.
static bool coord_notes(struct coord *c, const struct member *m,
                        const Sluice__V1__AttendUp *message)
{
    return m->role == MEMBER_PSSERVER &&
           message->kind_case == SLUICE__V1__ATTEND_UP__KIND_REPLICA &&
           replicas_lag(c, m, message->replica);
}

void coord_receive(struct coord *c, uint64_t member,
                   const Sluice__V1__AttendUp *message)
{
    struct member *m = members_get(&c->members, member);
    enum member_state state;

    if (c->dead || m == NULL)
        return;
    state = m->state;
    if (member_seen(m, coord_now(c))) {
        LOG(INFO, "member is back", "kind=%s member=%s",
            member_role_name(m->role), m->name);
        happened(c, EVENT_MEMBER_BACK, m, "%s %s sends heartbeats again",
                 member_role_name(m->role), m->name);
        map_release(&m->losing);
        gone_back(c, m);
        if (m->role == MEMBER_PSSERVER) {
            shards_back(c, m);
            place_look(c);
        }
    }
    if (m->state == state && coord_notes(c, m, message))
        return;
    if (message->kind_case == SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT) {
        receive_heartbeat(c, m, message->heartbeat);
        member_seen(m, coord_now(c)); // may be draining now
    } else if (m->role == MEMBER_WORKER) {
        receive_worker(c, m, message);
    } else {
        receive_psserver(c, m, message);
    }
    if (c->dead)
        return;
    flush_all(c, false);
    // A bare heartbeat of a worker frees no work.
    if (message->kind_case != SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT ||
        m->role == MEMBER_PSSERVER || m->state != state)
        serve_workers(c);
}

// ---- time

// Discounts the time in which the coordinator slept (the machine did, or a
// debugger held it): the silence was its own, and no member is lost for it.
static void coord_discount_sleep(struct coord *c, uint64_t slept_ms,
                                 uint64_t now_ms)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        m->seen_ms += slept_ms;
        if (m->seen_ms > now_ms)
            m->seen_ms = now_ms;
        stall_forgive(m, slept_ms, now_ms);
    }
}

static void check_member(struct coord *c, struct member *m, uint64_t now_ms)
{
    char how[80];

    if (!member_check(&c->members, m, now_ms))
        return;
    if (m->state == MEMBER_SUSPECT) {
        LOG(WARN, "member is silent", "kind=%s member=%s leases=%u",
            member_role_name(m->role), m->name, m->lease_count);
        happened(c, EVENT_MEMBER_SILENT, m, "%s %s is silent",
                 member_role_name(m->role), m->name);
        if (m->role == MEMBER_WORKER)
            gone_worker(c, m, GONE_LOST);
        else
            psserver_down(c, m, false, false);
    } else if (m->state == MEMBER_LOST) {
        snprintf(how, sizeof(how), "it sent no heartbeat for %llu ms",
                 (ull)(now_ms - m->seen_ms));
        LOG(WARN, "member lost", "kind=%s member=%s silent_ms=%llu",
            member_role_name(m->role), m->name, (ull)(now_ms - m->seen_ms));
        happened(c, EVENT_MEMBER_LOST, m, "%s %s was lost: %s",
                 member_role_name(m->role), m->name, how);
        c->io.cut_off(c->io.arg, m->id); // it dials again if it wakes up
        remove_member(c, m, GONE_LOST, how);
    }
}

static void tick_job(struct coord *c, struct job *job)
{
    uint64_t now = coord_now(c);

    figures_job(c, job);
    if (job->state == JOB_RUNNING || job->state == JOB_FINISHING)
        meter_rate_add(&job->reports.meter, now,
                       schedule_samples(&job->shards.schedule, job_steps(job)));
    job->leases.freed++; // whatever changed
    curves_sample(c, job);
    place_again(c, job);
    recount_check(c, job);
    advance_job(c, job);
}

void coord_tick(struct coord *c)
{
    uint64_t now = coord_now(c);
    uint64_t slept = now - c->ticked_ms;

    if (c->dead)
        return;
    c->ticked_ms = now;
    if (slept > c->options.heartbeat_ms)
        coord_discount_sleep(c, slept, now);
    list_for_safe(n, &c->members.all)
    {
        check_member(c, list_entry(n, struct member, node), now);
        if (c->dead)
            return;
    }
    gone_check(c);
    if (c->dead)
        return;
    stall_check(c);
    if (c->dead)
        return;
    place_more(c, PLACE_AHEAD);
    list_for_safe(j, &c->jobs.active)
    {
        tick_job(c, list_entry(j, struct job, on_active));
        if (c->dead)
            return;
    }
    publish_tick(c);
    if (!c->dead)
        moves_tick(c);
    if (!c->dead)
        replicas_tick(c);
    if (c->dead)
        return;
    flush_all(c, true);
    serve_workers(c);
    if (!c->dead)
        ended_check(c);
    if (!c->dead)
        coord_wrote(c, journal_sweep(c->journal, &c->err));
    if (!c->dead)
        coord_wrote(c, journal_flush(c->journal, &c->err));
}
