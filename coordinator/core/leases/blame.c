// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/blame.c -- the blame for a closure that ended badly:
// it is journalled, kept as a story for people, and ends the job when it is
// poison.
#include "coordinator/core/leases/blame.h"

#include <string.h>

#include "common/base/buf.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/leases/recount.h"
#include "coordinator/rules/witness.h"

static void poison(struct coord *c, struct work *w, const struct work *of)
{
    struct buf why = BUF_INIT;

    if (w->kind == WORK_EVALUATE) {
        buf_appendf(&why, "%s", buf_text(&of->story));
        memory_vanished(&why, of);
        evaluations_fail(c, w->job, buf_text(&why));
        buf_release(&why);
    } else {
        recount_fail(c, w, of);
    }
}

// Adds a worker and its end to the story, each pair once; their number is given
// beside the story.
static void blame_append_story(struct work *of, const char *who,
                               const char *how)
{
    struct buf one = BUF_INIT;
    bool lost = strcmp(how, "lost") == 0;

    of->vanished = lost && (of->story.len == 0 || of->vanished);
    buf_appendf(&one, ", %s (%s)", who, how);
    if (of->story.len == 0)
        buf_append_str(&of->story, buf_text(&one) + 2);
    else if (strstr(buf_text(&of->story), buf_text(&one)) == NULL &&
             strncmp(buf_text(&of->story), buf_text(&one) + 2, one.len - 2) !=
                 0)
        buf_append_str(&of->story, buf_text(&one));
    buf_release(&one);
}

void blame_weigh(const struct coord *c, struct work *w)
{
    struct witness_tally t;

    witness_begin(&t, w->closure.max_blamed);
    for (uint32_t i = 0; i < w->closure.blamed_count; i++)
        witness_note(&t, w->closure.blamed[i]);
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (witness_enough(&t))
            break;
        if (m->role == MEMBER_WORKER && job_suits(w->job, m))
            witness_note(&t, m->witness);
    }
    closure_witnesses(&w->closure, witness_independent(&t));
}

void blame_work(struct coord *c, struct work *w, uint64_t witness,
                const char *who, const char *how)
{
    struct work *of = w->copy_of != NULL ? w->copy_of : w;
    struct job *job = w->job;

    blame_append_story(of, who, how);
    if (of != w)
        closure_remember(&of->closure, witness);
    if (w->kind == WORK_TRAIN &&
        !coord_wrote(c, journal_blame(c->journal, job->id, w->closure.id,
                                      witness, &c->err)))
        return;
    if (w->kind == WORK_TRAIN && of == w && job->shards.placed &&
        recount_blamed(c, w))
        return;
    if (w->closure.state == CLOSURE_FAILED)
        poison(c, w, of);
    else
        leases_settle(c, w);
}
