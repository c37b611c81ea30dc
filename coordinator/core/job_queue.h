// SPDX-License-Identifier: Apache-2.0
// coordinator/core/job_queue.h -- jobs that were submitted to run one after
// another.
//
// A queued job is accepted and waits: it is not placed, and no worker opens its
// data, until none of its tenant's other queued jobs runs and none that goes
// before it waits. A higher priority goes before, then the earlier submission.
// A job that runs has its turn until it has ended. The turn is journalled
// before any work on the job begins, so a restart changes nothing.
//
// Threads  the loop.
// Memory   a tenant's name is copied; jobs that are returned are borrowed. No
//          pointer is NULL but `err`.
// Errors   those of journal.h: returned by queue_load, fatal in queue_next.
#ifndef COORDINATOR_CORE_JOB_QUEUE_H
#define COORDINATOR_CORE_JOB_QUEUE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"

// A job's place in the queue of its tenant.
struct job_queue {
    enum journal_turn turn;
    char name[JOURNAL_TENANT]; // name of the queue: that of the tenant
};

// Returns true if the job still waits in its queue; false if it was not queued,
// has had its turn, or has ended.
bool queue_waits(const struct job *job);

// Puts a new job, which journal_job_add has written as queued, into the queue
// of `tenant`: it waits for its turn.
void queue_join(struct coord *c, struct job *job, const char *tenant);

// Sets the turn and the queue of a job that is loaded, as the journal has them.
// Returns SL_OK or the journal's error, after which the job is for job_free.
enum sl_err queue_load(struct coord *c, struct job *job, struct sl_error *err);

// Notes that the job has ended, so that the next queue_next looks for another
// one. Does nothing for a job that was not queued.
void queue_leave(struct coord *c, const struct job *job);

// Gives the turn to one waiting job that has none before it, journals that and
// logs it. Returns the job, which may be placed now; NULL: there is none, or
// the journal failed (c->dead). Raises job->changes of waiting jobs, as fewer
// may be before them. To be called again until it returns NULL. Costs nothing
// while no job joined or left a queue.
struct job *queue_next(struct coord *c);

// Returns how many queued jobs of its tenant have to end before the job's turn,
// with the one that has its turn; 0 if the job does not wait. Sets *last to the
// last one of them in the queue's order, or to NULL.
uint32_t queue_before(const struct coord *c, const struct job *job,
                      const struct job **last);

#endif
