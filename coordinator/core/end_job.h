// SPDX-License-Identifier: Apache-2.0
// coordinator/core/end_job.h -- the end of a job, which is in the journal
// before any member or client is notified (E2).
//
// Threads  the loop.
// Memory   what only a live job needs is released, its leases are taken back;
//          the job itself stays for a while (past_jobs.h). A reason, which is
//          not NULL, is copied.
// Errors   A journal that cannot be written is fatal, and so is want of memory
//          for the last status: then the end is not in the journal and no
//          member is told of it, though the job's state says it. Callers look
//          at c->dead.
#ifndef COORDINATOR_CORE_END_JOB_H
#define COORDINATOR_CORE_END_JOB_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Ends a job as `how`: FINISHED, FAILED or STOPPED, where its state may be
// followed by that (job_moves; asserted). A job that has ended already stays as
// it is. Counts its last closures (figures_job), takes its leases from workers,
// gives up a cut that is not being written, adds the last point of its curve,
// and waits for the journal's disk; then adds an event, tells workers to drop
// the job and psservers to close its shards, and calls io.changed. The next
// queued job has its turn with the next serve_workers. Works and the running
// evaluation of the job are freed: pointers to them are gone.
void end_job(struct coord *c, struct job *job, enum job_state how,
             const char *reason);

// Ends a job as FAILED, as end_job does, with a reason made as printf makes it
// from `fmt`; without memory for that the reason is cut or "".
void end_fail(struct coord *c, struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
