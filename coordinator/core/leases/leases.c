// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/leases.c -- closures in work: given to a worker, and
// taken from it again.
#include "coordinator/core/leases/leases.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "common/run/spans.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/send.h"

struct work *leases_get(const struct job *job, uint64_t closure)
{
    return map_get(&job->leases.active, closure);
}

struct work *leases_work(struct job *job, uint64_t closure)
{
    struct work *w = leases_get(job, closure);

    if (w != NULL)
        return w;
    w = sl_calloc(1, sizeof(*w));
    if (w == NULL)
        return NULL;
    closure_init(&w->closure, closure, job->spec->train->max_attempts);
    w->kind = WORK_TRAIN;
    w->job = job;
    if (map_put(&job->leases.active, closure, w) != SL_OK) {
        sl_free(w);
        return NULL;
    }
    return w;
}

bool leases_is_place(const struct work *w)
{
    return w->kind == WORK_RING && w->closure.id >= WORK_PLACES;
}

// Sends JobOpen before the first lease of a job on a stream, and again once the
// job is placed, if the worker was sent one before that.
static enum sl_err leases_open_job(struct coord *c, struct member *m,
                                   struct job *job)
{
    struct opened *opened = map_get(&m->opened, job->id);

    if (opened != NULL && opened->placed == job->shards.placed)
        return SL_OK;
    if (opened == NULL) {
        opened = sl_calloc(1, sizeof(*opened));
        if (opened == NULL)
            return SL_ENOMEM;
        if (map_put(&m->opened, job->id, opened) != SL_OK) {
            sl_free(opened);
            return SL_ENOMEM;
        }
    }
    opened->placed = job->shards.placed;
    send_job_open(c, m, job);
    return SL_OK;
}

static void leases_add_holder(struct job *job, uint64_t member)
{
    uintptr_t held = (uintptr_t)map_get(&job->leases.holders, member);

    // Without memory the job counts as held by one worker fewer, which only
    // max_workers would notice.
    (void)map_put(&job->leases.holders, member, (void *)(held + 1));
    job->leases.held++;
    job->changes++;
}

static void leases_remove_holder(struct job *job, uint64_t member)
{
    uintptr_t held = (uintptr_t)map_get(&job->leases.holders, member);

    if (held <= 1)
        map_remove(&job->leases.holders, member);
    else
        (void)map_put(&job->leases.holders, member, (void *)(held - 1));
    job->leases.held--;
    job->changes++;
}

// Returns the attempt of the next lease of w. A copy runs as its original's
// attempt.
static struct attempt next_attempt(struct coord *c, const struct work *w)
{
    return w->copy_of != NULL ? w->copy_of->closure.attempt
                              : (struct attempt){c->term, ++c->attempts};
}

// Seats the worker in the place of a group that it is leased.
static bool leases_take_seat(struct member *m, const struct work *w)
{
    const struct mode *mode = w->job->mode;

    return w->kind != WORK_RING || mode->sit == NULL || mode->sit(w->job, m, w);
}

static void leases_leave_seat(struct member *m, const struct work *w)
{
    if (w->kind == WORK_RING && w->job->mode->rise != NULL)
        w->job->mode->rise(w->job, m, w);
}

static void retried(struct coord *c, const struct member *m,
                    const struct work *w)
{
    const char *how =
        w->ended == NULL ? "ran before this coordinator began" : w->ended;

    jobs_count(w->job, &w->job->counters.closures_retried);
    happened_work(c, EVENT_CLOSURE_RETRIED, w, m,
                  "closure %llu runs again, on %s: its last attempt %s%s",
                  (ull)w->closure.id, m->name, w->ended == NULL ? "" : "was ",
                  how);
}

bool leases_give(struct coord *c, struct member *m, struct work *w)
{
    struct job *job = w->job;
    uint64_t started = span_begin();
    bool again, begun;

    if (leases_open_job(c, m, job) != SL_OK || !leases_take_seat(m, w))
        return false;
    again = w->closure.again;
    begun = w->closure.begun;
    FAULT("dispatch.lease");
    if (again)
        FAULT("recover.reissue");
    if (closure_lease(&w->closure, m->witness, next_attempt(c, w),
                      coord_now(c)) != SL_OK)
        return false;
    w->holder = m;
    memset(&w->seen, 0, sizeof(w->seen));
    w->sums = (struct work_sums){0};
    w->did = (struct busy_times){0};
    w->leased_us = feed_wall_us(c->options.feed);
    w->moved_ms = w->proven_ms = coord_now(c);
    w->proving = false;
    w->proven_steps =
        w->kind == WORK_TRAIN
            ? evidence_closure_steps(&job->shards.evidence, w->closure.id)
            : 0;
    w->reported = false;
    w->waits = w->unreached = false;
    list_push_back(&m->leases, &w->on_holder);
    m->streams = w->kind == WORK_TRAIN ? job_streams(job) : 0;
    member_begins(m, coord_now(c));
    leases_add_holder(job, m->id);
    if (w->kind == WORK_TRAIN && w->closure.id >= job->leases.end)
        job->leases.end = w->closure.id + 1;
    job->leases.served = dispatch_served(job->leases.served, &c->turn,
                                         dispatch_apart(m->lease_ms));
    job->leases.served_by = m->id;
    if (!job->figured.any)
        figures_job(c, job);
    if (again && begun && w->kind == WORK_TRAIN) {
        retried(c, m, w);
        figures_retried(c, w);
    }
    JOB_HISTORY(job, "lease",
                " kind=%d closure=%llu term=%llu n=%llu worker=%s copy=%d",
                (int)w->kind, (ull)w->closure.id, (ull)w->closure.attempt.term,
                (ull)w->closure.attempt.n, m->name, w->copy_of != NULL);
    member_sends(m);
    LOG(DEBUG, "leased", "job=%s closure=%llu attempt=%llu worker=%s kind=%d",
        job->id_text, (ull)w->closure.id, (ull)w->closure.attempt.n, m->name,
        (int)w->kind);
    span_end(started, "lease", SPANS_LOOP,
             span_of_closure(job->id, w->closure.id));
    return true;
}

struct work *leases_find(struct member *m, uint64_t job,
                         const Sluice__V1__Attempt *attempt)
{
    struct attempt want = {attempt->term, attempt->n};

    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job->id == job && attempt_equal(w->closure.attempt, want))
            return w;
    }
    return NULL;
}

// Returns why a closure whose lease on m ended so would be leased again.
static enum work_why leases_why(const struct member *m, enum lease_span_end how)
{
    switch (how) {
    case SPAN_LOST:
        return m->draining ? WORK_PREEMPTED : WORK_LOST;
    case SPAN_HANDED_BACK:
        return m->draining ? WORK_PREEMPTED : WORK_TRANSIENT;
    case SPAN_REVOKED:
        return m->draining ? WORK_PREEMPTED : WORK_REVOKED;
    case SPAN_STALLED:
        return WORK_TIMEOUT;
    default:
        return WORK_TRANSIENT;
    }
}

void leases_end(struct coord *c, struct work *w, enum lease_span_end how)
{
    struct member *m = w->holder;

    happened_span(c, w, how);
    figures_ended(c, w, leases_why(m, how));
    w->ended = lease_span_word(how);
    JOB_HISTORY(w->job, "lease_end",
                " kind=%d closure=%llu term=%llu n=%llu now=%s copy=%d",
                (int)w->kind, (ull)w->closure.id, (ull)w->closure.attempt.term,
                (ull)w->closure.attempt.n, closure_state_name(w->closure.state),
                w->copy_of != NULL);
    leases_leave_seat(m, w);
    w->job->leases.freed += w->closure.state != CLOSURE_DONE;
    list_remove(&w->on_holder);
    member_holds(m, m->lease_count - 1);
    leases_remove_holder(w->job, m->id);
    w->holder = NULL;
}

static void revoke(struct coord *c, struct member *m, struct work *w,
                   bool begun, const char *why)
{
    char name[64];

    send_revoke(c, m, w, why);
    leases_end(c, w, SPAN_REVOKED);
    if (!job_rests(w->job)) // else the pause has its own event
        happened_work(c, EVENT_CLOSURE_REVOKED, w, m,
                      "%s was taken from %s: %s", happened_name(name, w),
                      m->name, why);
    closure_unstarted(&w->closure, begun);
    leases_settle(c, w);
}

void leases_revoke(struct coord *c, struct member *m, struct work *w,
                   const char *why)
{
    revoke(c, m, w, true, why);
}

struct job *leases_ring_job(const struct member *m)
{
    list_for(n, &m->leases)
    {
        const struct work *w = list_entry(n, struct work, on_holder);

        if (w->kind == WORK_RING)
            return w->job;
    }
    return NULL;
}

void leases_take_back(struct coord *c, struct member *m, struct work *w,
                      const char *why)
{
    revoke(c, m, w, false, why);
}

void leases_revoke_job(struct coord *c, struct member *m, struct job *job,
                       const char *why)
{
    list_for_safe(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job == job)
            leases_revoke(c, m, w, why);
    }
}

bool leases_is_early(const struct work *w)
{
    const struct evidence *e = &w->job->shards.evidence;

    return w->kind == WORK_TRAIN && w->job->mode->by_round &&
           w->closure.id >= evidence_limit(e, 0);
}

void leases_cancel(struct coord *c, struct member *m, struct job *job)
{
    list_for_safe(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job == job) {
            closure_cancel(&w->closure);
            leases_end(c, w, SPAN_CANCELLED);
        }
    }
}

// Says whether w is neither leased nor carries anything to remember.
static bool leases_is_over(const struct work *w)
{
    switch (w->closure.state) {
    case CLOSURE_WAITING:
        return !w->closure.again && w->closure.blamed_count == 0 &&
               w->closure.drops == 0 && w->closure.suspected == 0;
    case CLOSURE_LEASED:
        return false;
    default:
        return true;
    }
}

// Frees a copy and returns its original.
static struct work *drop_copy(struct work *w)
{
    struct work *of = w->copy_of;

    of->copy = NULL;
    w->job->copies.leased--;
    sl_free(w);
    return of;
}

void leases_settle(struct coord *c, struct work *w)
{
    struct job *job = w->job;
    enum closure_state state;

    if (w->kind == WORK_EVALUATE) {
        evaluation_settle(job->evaluations.running, w); // which may free it
        return;
    }
    if (w->kind != WORK_TRAIN && w->kind != WORK_RING)
        return;
    if (w->copy_of != NULL && w->closure.state != CLOSURE_LEASED)
        w = drop_copy(w);
    if (!leases_is_over(w) || w->copy != NULL)
        return;
    state = w->closure.state;
    if (w->closure.blamed_count > 0 && state == CLOSURE_DONE)
        coord_wrote(
            c, journal_absolve(c->journal, job->id, w->closure.id, &c->err));
    map_remove(&job->leases.active, w->closure.id);
    buf_release(&w->story);
    sl_free(w);
}
