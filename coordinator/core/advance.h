// SPDX-License-Identifier: Apache-2.0
// coordinator/core/advance.h -- the step of a job through its states.
//
// Threads  the loop.
// Memory   no pointer is NULL.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_ADVANCE_H
#define COORDINATOR_CORE_ADVANCE_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Checks everything that may move a job forward (placement, shards, evidence,
// cut, stop, pause, evaluation, end) and does what is due: journals, sends,
// adds events. May end the job, which stays valid until the next tick, or c
// (c->dead). Does nothing for a job that has ended, waits in its queue, or is
// paused by I7 (behind.h), and once c is dead; does not place a job that rests
// (job_rests). Gives out no work, and leaves the map to shards_flush_map: the
// caller calls serve_workers afterwards, unless c is dead.
void advance_job(struct coord *c, struct job *job);

#endif
