// SPDX-License-Identifier: Apache-2.0
// coordinator/core/job_queue.c -- the order of queued jobs; see job_queue.h.
#include "coordinator/core/job_queue.h"
#include "coordinator/core/job.h"

#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "proto/spec.h"

bool queue_waits(const struct job *job)
{
    return job->queue.turn == JOURNAL_TURN_WAITS && !job_ended(job);
}

void queue_join(struct coord *c, struct job *job, const char *tenant)
{
    job->queue.turn = JOURNAL_TURN_WAITS;
    snprintf(job->queue.name, sizeof(job->queue.name), "%s", tenant);
    c->queue_moved = true;
}

enum sl_err queue_load(struct coord *c, struct job *job, struct sl_error *err)
{
    enum sl_err rc =
        journal_job_turn(c->journal, job->id, &job->queue.turn, err);

    if (rc != SL_OK || job->queue.turn == JOURNAL_TURN_NONE)
        return rc;
    c->queue_moved = true;
    return journal_job_tenant(c->journal, job->id, job->queue.name, err);
}

void queue_leave(struct coord *c, const struct job *job)
{
    if (job->queue.turn != JOURNAL_TURN_NONE)
        c->queue_moved = true;
}

// Says whether a goes before b in their queue.
static bool goes_before(const struct job *a, const struct job *b)
{
    int32_t pa = spec_priority(a->spec->train);
    int32_t pb = spec_priority(b->spec->train);

    if (a->queue.turn != b->queue.turn)
        return a->queue.turn == JOURNAL_TURN_CAME;
    return pa != pb ? pa > pb : a->id < b->id;
}

uint32_t queue_before(const struct coord *c, const struct job *job,
                      const struct job **last)
{
    uint32_t before = 0;

    *last = NULL;
    if (!queue_waits(job))
        return 0;
    list_for(n, &c->jobs.active)
    {
        const struct job *other = list_entry(n, struct job, on_active);

        if (other == job || other->queue.turn == JOURNAL_TURN_NONE ||
            strcmp(other->queue.name, job->queue.name) != 0 ||
            !goes_before(other, job))
            continue;
        before++;
        if (*last == NULL || goes_before(*last, other))
            *last = other;
    }
    return before;
}

static void take_turn(struct coord *c, struct job *job)
{
    if (!coord_wrote(c, journal_job_turn_came(c->journal, job->id, &c->err)))
        return;
    job->queue.turn = JOURNAL_TURN_CAME;
    LOG(INFO, "queued job begins", "job=%s name=%s", job->id_text, job->name);
}

struct job *queue_next(struct coord *c)
{
    const struct job *last;

    if (!c->queue_moved)
        return NULL;
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        if (!queue_waits(job))
            continue;
        job->changes++; // fewer jobs may be before it
        if (queue_before(c, job, &last) > 0)
            continue;
        take_turn(c, job);
        return c->dead ? NULL : job;
    }
    c->queue_moved = false;
    return NULL;
}
