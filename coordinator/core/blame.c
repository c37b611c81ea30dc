// SPDX-License-Identifier: Apache-2.0
// coordinator/core/blame.c -- the blame for a closure that ended badly: it is
// journalled, kept as a story for people, and ends the job when it is poison.
#include "coordinator/core/blame.h"

#include "common/base/buf.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/recount.h"

static void poison(struct coord *c, struct work *w, const struct work *of)
{
    if (w->kind == WORK_EVALUATE)
        evaluations_fail(c, w->job, buf_text(&of->story));
    else
        recount_fail(c, w, of);
}

void blame_work(struct coord *c, struct work *w, uint64_t identity,
                const char *who, const char *how)
{
    struct work *of = w->copy_of != NULL ? w->copy_of : w;
    struct job *job = w->job;

    buf_appendf(&of->story, "%s%s (%s)", of->story.len > 0 ? ", " : "", who,
                how);
    if (of != w)
        closure_remember(&of->closure, identity);
    if (w->kind == WORK_TRAIN &&
        !coord_wrote(c, journal_blame(c->journal, job->id, w->closure.id,
                                      identity, &c->err)))
        return;
    if (w->kind == WORK_TRAIN && of == w && job->placed && recount_blamed(c, w))
        return;
    if (w->closure.state == CLOSURE_FAILED)
        poison(c, w, of);
    else
        leases_settle(c, w);
}
