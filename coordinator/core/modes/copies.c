// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/copies.c -- slots of a round that two workers have:
// their choice, and the settling of the first contribution.
#include "coordinator/core/modes/copies.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/send.h"
#include "proto/spec.h"

// weight of the last contribution's time in the mean: one in WEIGHT
#define WEIGHT 8

static struct work *longest_out(const struct job *job, uint64_t end)
{
    const struct evidence *e = &job->shards.evidence;
    struct work *found = NULL;

    for (uint64_t at = evidence_low(e); at < end; at++) {
        struct work *w = leases_get(job, at);

        if (w == NULL || w->closure.state != CLOSURE_LEASED ||
            w->copy != NULL || evidence_closure_held(e, at))
            continue;
        if (found == NULL || w->closure.leased_ms < found->closure.leased_ms)
            found = w;
    }
    return found;
}

// Says whether there are more workers than slots: some have nothing to do in
// the next round either.
static bool has_spare(const struct coord *c, const struct job *job,
                      uint64_t slots)
{
    return job->copies.leased + slots < c->members.workers;
}

static bool copies_is_late(struct coord *c, const struct job *job,
                           const struct work *w)
{
    double out = (double)(coord_now(c) - w->closure.leased_ms);

    return job->copies.slot_ms > 0 && out >= COPIES_LATE_MS &&
           out >= COPIES_LATE_TIMES * job->copies.slot_ms;
}

struct work *copies_next(struct coord *c, const struct job *job)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t end;
    struct work *w;

    if (job->copies.leased >= spec_backup(job->spec->train) || evidence_full(e))
        return NULL;
    end = evidence_limit(e, 0);
    w = longest_out(job, end);
    if (w == NULL || has_spare(c, job, end - evidence_low(e)) ||
        copies_is_late(c, job, w))
        return w;
    return NULL;
}

struct work *copies_new(struct work *of)
{
    struct work *w = sl_calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    closure_copy(&w->closure, &of->closure);
    w->kind = of->kind;
    w->job = of->job;
    w->copy_of = of;
    of->copy = w;
    w->job->copies.leased++;
    return w;
}

static void copies_revoke_second(struct coord *c, struct work *w)
{
    struct member *m = w->holder;

    m->owes = (struct member_debt){
        .job = w->job->id,
        .closure = w->closure.id,
        .second = true,
        .attempt = w->closure.attempt,
        .until_ms = coord_now(c) + MEMBER_DEBT_MS,
    };
    LOG(DEBUG, "closure leased to a second worker",
        "job=%s closure=%llu worker=%s copy=%d", w->job->id_text,
        (ull)w->closure.id, m->name, w->copy_of != NULL);
    send_revoke(c, m, w, "another worker was first");
    leases_end(c, w, SPAN_SECOND);
}

static void note_time(struct coord *c, const struct work *w)
{
    struct job *job = w->job;
    double took = (double)(coord_now(c) - w->closure.leased_ms);

    job->copies.slot_ms =
        job->copies.slot_ms > 0
            ? job->copies.slot_ms + (took - job->copies.slot_ms) / WEIGHT
            : took;
}

void copies_first(struct coord *c, struct work *w)
{
    struct work *of = w->copy_of;

    note_time(c, w);
    if (w->copy != NULL) {
        w = w->copy;
        copies_revoke_second(c, w);
        closure_finish(&w->closure, w->closure.attempt, SL_OK);
    } else if (of != NULL && of->closure.state == CLOSURE_LEASED) {
        copies_revoke_second(c, of);
        closure_finish(&of->closure, of->closure.attempt, SL_OK);
    } else if (of != NULL && of->closure.state == CLOSURE_WAITING) {
        closure_counted(&of->closure);
    }
    leases_settle(c, w);
}
