// SPDX-License-Identifier: Apache-2.0
// coordinator/core/blame.c -- the blame for a closure that ended badly: it is
// journalled, kept as a story for people, and ends the job when it is poison.
#include "coordinator/core/blame.h"

#include <stdio.h>

#include "common/base/buf.h"
#include "coordinator/core/end.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/send.h"

static const char *name_work(const struct work *w, char *out, size_t size)
{
    const struct schedule *s = &w->job->schedule;
    uint64_t first, count;

    if (w->kind == WORK_PROBE) {
        snprintf(out, size, "opening the data");
    } else if (w->kind == WORK_EVALUATE) {
        snprintf(out, size,
                 "the evaluation of test samples %llu..%llu against cut %llu",
                 (ull)w->first, (ull)(w->first + w->count - 1), (ull)w->cut);
    } else if (leases_is_place(w)) {
        snprintf(out, size, "a place in a group");
    } else if (w->kind == WORK_RING) {
        snprintf(out, size, "round %llu of the ring",
                 (ull)w->job->ring.progress + 1);
    } else {
        schedule_closure_range(s, w->closure.id, &first, &count);
        snprintf(out, size, "closure %llu (epoch %llu, samples %llu..%llu)",
                 (ull)w->closure.id, (ull)schedule_epoch(s, w->closure.id) + 1,
                 (ull)first, (ull)(first + count - 1));
    }
    return out;
}

void blame_work(struct coord *c, struct work *w, const char *who,
                const char *how)
{
    struct work *of = w->copy_of != NULL ? w->copy_of : w;
    struct job *job = w->job;
    char what[200];

    buf_appendf(&of->story, "%s%s (%s)", of->story.len > 0 ? ", " : "", who,
                how);
    if (of != w)
        closure_remember(&of->closure, w->closure.worker);
    if (w->kind == WORK_TRAIN &&
        !coord_wrote(c, journal_blame(c->journal, job->id, w->closure.id,
                                      w->closure.worker, &c->err)))
        return;
    if (w->closure.state == CLOSURE_FAILED)
        end_fail(c, job, "%s did not end on %u distinct workers: %s",
                 name_work(w, what, sizeof(what)), w->closure.blamed_count,
                 buf_text(&of->story));
    else
        leases_settle(c, w);
}

// ---- workers that are gone

// A rank computes nothing of its own while the ring is made anew, or once all
// is counted.
static bool blamable(const struct work *w)
{
    if (leases_is_place(w))
        return false;
    return w->kind != WORK_RING ||
           (job_served(w->job) && !evidence_full(&w->job->evidence));
}

static void give_up_lease(struct coord *c, struct member *m, struct work *w,
                          bool computed, enum blame_why why)
{
    computed &= blamable(w);
    if (why == BLAME_LOST)
        send_revoke(c, m, w, "nothing was heard of this worker");
    leases_end(w);
    if (why == BLAME_LOST && computed) {
        closure_lost(&w->closure);
        blame_work(c, w, m->name, "lost");
    } else {
        closure_unstarted(&w->closure);
        leases_settle(c, w);
    }
}

// Jobs whose leases it held when it fell silent, or holds now.
static void count_lost(struct coord *c, struct member *m)
{
    size_t at = 0;
    uint64_t id;

    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        (void)map_put(&m->losing, w->job->id, w->job);
    }
    if (m->state == MEMBER_SUSPECT)
        return; // it may come back
    while (map_next(&m->losing, &at, &id, NULL)) {
        struct job *job = jobs_get(c, id);

        if (job != NULL && !job_ended(job))
            jobs_count(job, &job->counters.workers_lost);
    }
    map_release(&m->losing);
}

void blame_gone(struct coord *c, struct member *m, enum blame_why why)
{
    struct list_node *n;
    bool first = true;

    if (why == BLAME_LOST) {
        count_lost(c, m);
        // Short closures may be complete and not said yet, so this one may
        // blame the wrong one; the next will not.
        if (m->lease_count > 0)
            members_forget_pace(&c->members);
    }
    // The oldest is what it computed; the other waited behind it. A place in a
    // group is nothing that it computes.
    while ((n = list_first(&m->leases)) != NULL) {
        struct work *w = list_entry(n, struct work, on_holder);
        bool place = leases_is_place(w);

        give_up_lease(c, m, w, first, why);
        first = first && place;
    }
}
