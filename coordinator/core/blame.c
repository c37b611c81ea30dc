// SPDX-License-Identifier: Apache-2.0
// coordinator/core/blame.c -- the blame of a closure: journalled, told as a
// story, and the end of its job when it is poison.
#include "coordinator/core/blame.h"

#include <stdio.h>

#include "common/base/buf.h"
#include "coordinator/core/end.h"

static const char *name_work(const struct work *w, char *out, size_t size)
{
    const struct schedule *s = &w->job->schedule;
    uint64_t first, count;

    if (w->kind == WORK_PROBE) {
        snprintf(out, size, "opening the data");
    } else if (w->kind == WORK_EVALUATE) {
        snprintf(out, size,
                 "the evaluation of test samples %llu..%llu against cut %llu",
                 (unsigned long long)w->first,
                 (unsigned long long)(w->first + w->count - 1),
                 (unsigned long long)w->cut);
    } else {
        schedule_closure_range(s, w->closure.id, &first, &count);
        snprintf(out, size, "closure %llu (epoch %llu, samples %llu..%llu)",
                 (unsigned long long)w->closure.id,
                 (unsigned long long)schedule_epoch(s, w->closure.id) + 1,
                 (unsigned long long)first,
                 (unsigned long long)(first + count - 1));
    }
    return out;
}

void blame_work(struct coord *c, struct work *w, const char *who,
                const char *how)
{
    struct job *job = w->job;
    struct sl_error err = SL_ERROR_INIT;
    char what[200];

    buf_appendf(&w->story, "%s%s (%s)", w->story.len > 0 ? ", " : "", who, how);
    if (w->kind == WORK_TRAIN &&
        !coord_wrote(c,
                     journal_blame(c->journal, job->id, w->closure.id,
                                   w->closure.worker, &err),
                     &err))
        return;
    if (w->closure.state == CLOSURE_FAILED)
        end_fail(c, job, "%s did not end on %u distinct workers: %s",
                 name_work(w, what, sizeof(what)), w->closure.blamed_count,
                 buf_text(&w->story));
}
