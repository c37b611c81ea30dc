// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/stall.c -- the clock of each worker's oldest lease,
// and debts of workers after a lease was taken.
#include "coordinator/core/leases/stall.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/run/log.h"
#include "coordinator/core/leases/blame.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/modes/groups.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/leases/recount.h"
#include "coordinator/core/send.h"
#include "proto/spec.h"

// Heartbeats after which a report is too old.
#define STALL_BEATS 4
// For how many times train.stall_seconds a changing progress number alone is
// believed: any worker can change a number, and would hold its closure for
// ever. The bound is wide, as slow operations, large batches and long files
// move the same number.
#define STALL_UNPROVEN 16
// The time in which a connection breaks, and a psserver is started again.
#define UNREACHED_MS 3000
// A worker that has waited for so long for an unreachable psserver may be given
// other work.
#define ELSEWHERE_MS 5000

static uint64_t limit_ms(const struct coord *c, const struct job *job)
{
    uint64_t ms = spec_stall_ms(job->spec);
    uint64_t least = (uint64_t)STALL_BEATS * c->options.heartbeat_ms;

    return ms > 0 && ms < least ? least : ms;
}

// Returns the name of the psserver with the address that `text` begins with.
static const char *server_at(const struct coord *c, const char *text)
{
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);
        size_t len = strlen(m->address);

        if (m->role == MEMBER_PSSERVER && len > 0 &&
            strncmp(text, m->address, len) == 0 && text[len] == ':')
            return m->name;
    }
    return "?";
}

// Warns of a psserver that a worker cannot reach, once no other worker gets on
// either.
static void note_trouble(struct coord *c, struct work *w, const char *text)
{
    uint64_t since = w->moved_ms > w->job->reports.moved_ms
                         ? w->moved_ms
                         : w->job->reports.moved_ms;

    w->unreached = text[0] != '\0';
    if (!w->unreached || w->job->warnings[JOB_WARN_REACH] != NULL ||
        coord_now(c) - since < UNREACHED_MS)
        return;
    jobs_warn(w->job, JOB_WARN_REACH,
              "worker %.60s cannot reach psserver %.60s at %.200s",
              w->holder->name, server_at(c, text), text);
}

// A rank gets on with what it computes also while it cannot sum with another:
// only a step that was counted shows that it can.
static void got_on(struct coord *c, struct work *w, bool counted)
{
    w->moved_ms = w->job->reports.moved_ms = coord_now(c);
    if (counted || w->kind != WORK_RING)
        jobs_unwarn(w->job, JOB_WARN_REACH);
}

void stall_seen(struct coord *c, struct work *w,
                const Sluice__V1__LeaseProgress *message)
{
    bool counted = message->metrics->steps > w->seen.steps;

    // The first number is where the attempt begins: it may count for a whole
    // process.
    if (counted || (w->reported && message->progress != w->progress))
        got_on(c, w, counted);
    w->reported = true;
    w->progress = message->progress;
    w->waits = message->waits;
    note_trouble(c, w, message->waits_for);
}

// Says whether an attempt waits behind that of an older stream: a worker
// computes the oldest.
static bool is_behind(const struct coord *c, const struct member_before *b,
                      const Sluice__V1__LeaseProgress *message)
{
    uint64_t fresh = (uint64_t)STALL_BEATS * c->options.heartbeat_ms;

    return b->job != 0 && coord_now(c) - b->seen_ms < fresh &&
           (message->attempt->term > b->attempt.term ||
            (message->attempt->term == b->attempt.term &&
             message->attempt->n > b->attempt.n));
}

void stall_seen_before(struct coord *c, struct member *m,
                       const Sluice__V1__LeaseProgress *message)
{
    struct attempt said = {message->attempt->term, message->attempt->n};
    struct member_before *b = &m->before;

    if (is_behind(c, b, message))
        return;
    if (b->job == message->job && attempt_equal(b->attempt, said) &&
        b->progress != message->progress) {
        list_for(n, &m->leases)
        {
            list_entry(n, struct work, on_holder)->moved_ms = coord_now(c);
        }
    }
    *b = (struct member_before){message->job, said, message->progress,
                                coord_now(c)};
}

void stall_answered(struct member *m, uint64_t job,
                    const Sluice__V1__Attempt *attempt)
{
    struct attempt said = {attempt->term, attempt->n};

    if (m->owes.job == 0 || m->owes.job != job ||
        !attempt_equal(said, m->owes.attempt))
        return;
    if (!m->owes.second)
        LOG(INFO, "worker gave up the revoked closure",
            "job=j-%llu closure=%llu worker=%s", (ull)job, (ull)m->owes.closure,
            m->name);
    m->owes = (struct member_debt){.job = 0};
}

void stall_left(struct coord *c, const struct member *m)
{
    struct member_debt *owes;

    if (m->owes.job == 0)
        return;
    if (c->debts.len >= COORD_REMEMBERED_MAX)
        map_release_owned(&c->debts);
    owes = sl_malloc(sizeof(*owes));
    if (owes == NULL)
        return; // the process is tried again too early
    *owes = m->owes;
    sl_free(map_remove(&c->debts, m->process));
    if (map_put(&c->debts, m->process, owes) != SL_OK)
        sl_free(owes);
}

void stall_back(struct coord *c, struct member *m)
{
    struct member_debt *owes = map_remove(&c->debts, m->process);

    if (owes != NULL)
        m->owes = *owes;
    sl_free(owes);
}

// Restarts both clocks of w, as no progress is expected before `now`.
static void excuse(struct work *w, uint64_t now)
{
    w->moved_ms = w->proven_ms = now;
    w->proving = false;
}

// Says whether w's holder claims progress and no shard counts any for too long:
// shards are asked before it is disbelieved. The counts of a ring come from all
// of its ranks.
static bool unproven(struct coord *c, struct work *w, uint64_t limit)
{
    uint64_t now = coord_now(c), steps;

    if (w->kind == WORK_RING || now - w->proven_ms < limit * STALL_UNPROVEN)
        return false;
    if (w->kind == WORK_TRAIN && !w->proving) {
        w->proving = true;
        recount_ask(c, w->job);
    }
    steps =
        w->kind == WORK_TRAIN
            ? evidence_closure_steps(&w->job->shards.evidence, w->closure.id)
            : 0;
    if (steps > w->proven_steps) {
        w->proven_steps = steps;
        w->proven_ms = now;
        w->proving = false;
    }
    return now - w->proven_ms >= limit * (STALL_UNPROVEN + 1);
}

// Returns the lease that is computed within a place in a group, or NULL.
static struct work *stall_inner_lease(const struct member *m,
                                      const struct work *place)
{
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w != place)
            return w;
    }
    return NULL;
}

// Takes the stalled lease and those that wait behind it. A place in a group
// goes without blame.
static void take_stalled(struct coord *c, struct member *m, struct work *w)
{
    struct work *place = leases_is_place(w) ? w : NULL;
    uint64_t silent_ms = coord_now(c) - w->moved_ms;
    char how[64], name[64];

    if (silent_ms >= limit_ms(c, w->job))
        snprintf(how, sizeof(how), "made no progress for %llu s",
                 (ull)silent_ms / 1000);
    else
        snprintf(how, sizeof(how),
                 "reports progress, counts no step for %llu s",
                 (ull)(coord_now(c) - w->proven_ms) / 1000);
    LOG(WARN, "closure makes no progress",
        "job=%s closure=%llu kind=%d worker=%s why=%s", w->job->id_text,
        (ull)w->closure.id, (int)w->kind, m->name, how);
    m->owes = (struct member_debt){
        .job = w->job->id,
        .closure = w->closure.id,
        .attempt = w->closure.attempt,
        .until_ms = coord_now(c) + MEMBER_DEBT_MS,
    };
    if (place != NULL && stall_inner_lease(m, place) != NULL)
        w = stall_inner_lease(m, place);
    list_for_safe(n, &m->leases)
    {
        struct work *behind = list_entry(n, struct work, on_holder);

        if (behind != w)
            leases_revoke(
                c, m, behind,
                behind == place
                    ? how
                    : "the closure before it on this worker makes no progress");
    }
    if (w == place) {
        leases_revoke(c, m, w, how);
        return;
    }
    send_revoke(c, m, w, how);
    happened_work(c, EVENT_CLOSURE_STALLED, w, m,
                  "%s makes no progress on %s: it %s", happened_name(name, w),
                  m->name, how);
    leases_end(c, w, SPAN_STALLED);
    blame_weigh(c, w);
    closure_lost(&w->closure);
    blame_work(c, w, m->witness, m->name, how);
}

// The last answer, kept because a thousand workers of one job ask the same.
struct stall_served {
    const struct job *job;
    bool served;
};

static bool stall_has_clock(const struct work *w, struct stall_served *last)
{
    if (w->kind == WORK_PROBE || w->kind == WORK_RING)
        return true;
    if (last->job != w->job)
        *last = (struct stall_served){w->job, job_served(w->job)};
    return last->served;
}

// Says whether another job could be served by the worker meanwhile.
static bool other_runs(const struct coord *c, const struct job *job)
{
    list_for(n, &c->jobs.active)
    {
        const struct job *other = list_entry(n, struct job, on_active);

        if (other != job && other->external == job->external &&
            !job_rests(other) && !queue_waits(other) &&
            other->state != JOB_FINISHING &&
            (other->state == JOB_PLACING || job_served(other)) &&
            other->warnings[JOB_WARN_REACH] == NULL)
            return true;
    }
    return false;
}

static void check_worker(struct coord *c, struct member *m, uint64_t now,
                         struct stall_served *last)
{
    struct work *w = NULL;
    uint64_t limit;
    bool silent;

    // No progress is expected of a lease that waits behind another.
    list_for(n, &m->leases)
    {
        struct work *next = list_entry(n, struct work, on_holder);

        if (w != NULL)
            excuse(next, now);
        else
            w = next;
    }
    if (w == NULL)
        return;
    limit = limit_ms(c, w->job);
    if (!stall_has_clock(w, last) || leases_is_early(w))
        excuse(w, now);
    if (w->unreached && w->waits && w->kind != WORK_RING &&
        now - w->moved_ms >= ELSEWHERE_MS && other_runs(c, w->job)) {
        excluded_put(c, m, w->job, CONDUCT_WAITS);
        return;
    }
    if (limit == 0)
        return;
    silent = now - w->moved_ms >= limit;
    if (!silent && !unproven(c, w, limit))
        return;
    if (!w->waits)
        take_stalled(c, m, w);
    else if (silent ? (w->kind != WORK_RING || groups_leads(w->job, m)) &&
                          w->job->reports.moved_ms > w->moved_ms
                    : excluded_replaceable(c, m, w->job))
        excluded_put(c, m, w->job, CONDUCT_WAITS);
}

void stall_check(struct coord *c)
{
    struct stall_served last = {NULL, false};

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_WORKER)
            check_worker(c, m, coord_now(c), &last);
        if (c->dead)
            return;
    }
}

void stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms)
{
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        w->moved_ms = sl_min(w->moved_ms + slept_ms, now_ms);
        w->proven_ms = sl_min(w->proven_ms + slept_ms, now_ms);
    }
}
