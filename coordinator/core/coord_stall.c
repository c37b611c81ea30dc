// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_stall.c -- workers that are heard of but get nowhere.
//
// A worker computes the oldest of its leases; the other waits behind it. Its
// heartbeats say whether it gets on (LeaseProgress). If it stands still for
// train.stall_seconds, while all shards are served, the lease goes to somebody
// else:
//   - the worker computes: it is blamed, as if it had been lost (poison), and
//     gets nothing of any job before it has let go of the closure;
//   - it waits for shards, and others get on meanwhile: it cannot reach them.
//     Nobody is blamed; it is put aside for this job.
// What it still pushes is refused once the newer attempt is seen (I4).
#include "coordinator/core/coord_impl.h"

#include <stdio.h>

#include "common/run/log.h"

// A report may be so many heartbeats old.
#define STALL_BEATS 4

static uint64_t limit_ms(const struct coord *c, const struct job *job)
{
    uint64_t ms = spec_stall_ms(job->spec);
    uint64_t least = (uint64_t)STALL_BEATS * c->options.heartbeat_ms;

    return ms > 0 && ms < least ? least : ms;
}

void coord_stall_begin(struct coord *c, struct work *w)
{
    w->moved_ms = coord_now(c);
    w->told = false;
    w->waits = false;
}

void coord_stall_heard(struct coord *c, struct work *w,
                       const Sluice__V1__LeaseProgress *message)
{
    // The first number is where it begins: it may count for a whole process.
    if ((w->told && message->progress != w->progress) ||
        message->metrics->steps > w->seen.steps)
        w->moved_ms = w->job->moved_ms = coord_now(c);
    w->told = true;
    w->progress = message->progress;
    w->waits = message->waits;
}

void coord_stall_answer(struct member *m, uint64_t job,
                        const Sluice__V1__Attempt *attempt)
{
    struct attempt said = {attempt->term, attempt->n};

    if (m->owes.job == 0 || m->owes.job != job ||
        !attempt_equal(said, m->owes.attempt))
        return;
    LOG(INFO, "let go of at last", "job=j-%llu closure=%llu worker=%s",
        (unsigned long long)job, (unsigned long long)m->owes.closure, m->name);
    m->owes = (struct member_debt){.job = 0};
}

void coord_stall_left(struct coord *c, const struct member *m)
{
    struct member_debt *owes;

    if (m->owes.job == 0)
        return;
    if (c->debts.len >= COORD_REPLACED_MAX)
        map_release_owned(&c->debts);
    owes = sl_malloc(sizeof(*owes));
    if (owes == NULL)
        return; // it is tried again too early
    *owes = m->owes;
    sl_free(map_remove(&c->debts, m->process));
    if (map_put(&c->debts, m->process, owes) != SL_OK)
        sl_free(owes);
}

void coord_stall_back(struct coord *c, struct member *m)
{
    struct member_debt *owes = map_remove(&c->debts, m->process);

    if (owes != NULL)
        m->owes = *owes;
    sl_free(owes);
}

void coord_revoke(struct coord *c, struct member *m, struct work *w,
                  const char *why)
{
    send_revoke(c, m, w, why);
    coord_unlease(w);
    closure_unstarted(&w->closure);
}

// What it computes is taken from it, and so is what waits behind that.
static void take_stalled(struct coord *c, struct member *m, struct work *w)
{
    char how[64];

    snprintf(how, sizeof(how), "made no progress for %llu s",
             (unsigned long long)(coord_now(c) - w->moved_ms) / 1000);
    LOG(WARN, "closure stands still",
        "job=%s closure=%llu kind=%d worker=%s why=%s", w->job->id_text,
        (unsigned long long)w->closure.id, (int)w->kind, m->name, how);
    m->owes = (struct member_debt){
        .job = w->job->id,
        .closure = w->closure.id,
        .attempt = w->closure.attempt,
        .until_ms = coord_now(c) + MEMBER_DEBT_MS,
    };
    list_for_safe(n, &m->leases)
    {
        struct work *behind = list_entry(n, struct work, on_holder);

        if (behind != w)
            coord_revoke(c, m, behind, "the one before it stands still");
    }
    send_revoke(c, m, w, how);
    coord_unlease(w);
    closure_lost(&w->closure);
    coord_bad_end(c, w, m->name, how);
}

static bool counts(const struct work *w)
{
    return w->kind == WORK_PROBE || job_served(w->job);
}

static void check_worker(struct coord *c, struct member *m, uint64_t now)
{
    struct work *w = NULL;
    uint64_t limit;

    // Nothing is expected of one that waits behind another.
    list_for(n, &m->leases)
    {
        struct work *next = list_entry(n, struct work, on_holder);

        if (w != NULL)
            next->moved_ms = now;
        else
            w = next;
    }
    if (w == NULL)
        return;
    limit = limit_ms(c, w->job);
    if (!counts(w))
        w->moved_ms = now;
    if (limit == 0 || now - w->moved_ms < limit)
        return;
    if (!w->waits)
        take_stalled(c, m, w);
    else if (w->job->moved_ms > w->moved_ms)
        coord_put_aside(c, m, w->job, CONDUCT_WAITS);
}

void coord_stall_check(struct coord *c)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_WORKER)
            check_worker(c, m, coord_now(c));
        if (c->dead)
            return;
    }
}

void coord_stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms)
{
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        w->moved_ms += slept_ms;
        if (w->moved_ms > now_ms)
            w->moved_ms = now_ms;
    }
}
