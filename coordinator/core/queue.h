// SPDX-License-Identifier: Apache-2.0
// coordinator/core/queue.h -- jobs that were submitted to run one after
// another.
//
// A queued job is accepted and waits: it is not placed, and no worker opens its
// data, until none of its tenant's other queued jobs runs and none that goes
// before it waits. A higher priority goes before, then who was submitted first.
// One that runs has its turn until it has ended, however. The turn is
// journalled before anything is done with the job, so a restart changes
// nothing.
//
// Threads  the loop.
// Errors   SL_EIO of the journal; fatal where nothing is returned.
#ifndef COORDINATOR_CORE_QUEUE_H
#define COORDINATOR_CORE_QUEUE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// True: nothing is done with the job yet.
bool queue_waits(const struct job *job);

// The job was journalled as a queued one of the tenant: it waits.
void queue_join(struct coord *c, struct job *job, const char *tenant);

// The same of a job that is read, wherever it stands.
enum sl_err queue_load(struct coord *c, struct job *job, struct sl_error *err);

// It has ended.
void queue_leave(struct coord *c, const struct job *job);

// Gives the turn to a job that waits for no other; NULL: there is none.
struct job *queue_next(struct coord *c);

// How many have to end before the job's turn; *last is the one just before it,
// if there is one.
uint32_t queue_before(const struct coord *c, const struct job *job,
                      const struct job **last);

#endif
