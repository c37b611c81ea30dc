// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_status.h -- the status of one job: for clients,
// and for the journal when it has ended.
//
// Threads  the loop.
// Memory   a status is a heap message, of copies: wire_free.
// Errors   NULL: no memory.
#ifndef COORDINATOR_CORE_STATUS_JOB_STATUS_H
#define COORDINATOR_CORE_STATUS_JOB_STATUS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Makes the status of a job, live or ended. May read the journal; what it
// cannot read is left out. `with_spec` has no effect on an unreadable job.
Sluice__V1__JobStatus *status_job(const struct coord *c, const struct job *job,
                                  bool with_shards, bool with_spec);

// Sets the numbers of a placed job that move, and nothing else. m->epochs is
// set. Not after job_release_work.
void status_progress(const struct coord *c, Sluice__V1__JobStatus *m,
                     const struct job *job);

// Sets samples per second of the whole run of a job that has ended, without
// those that a cut brought along, from the seconds and steps that *m has. Does
// nothing for a job that goes on or was never placed.
void status_average(Sluice__V1__JobStatus *m, const struct job *job);

// Writes that the workers that are attached are too old for the job, if none
// suits it and a newer program of one would. Returns false, with nothing
// written, if not.
bool status_reason_older(const struct coord *c, const struct job *job,
                         char *out, size_t size);

// ---- status_final.c

// Replaces the numbers of a status with shards by ones that belong together, as
// a job ends. Does nothing for one that was not placed or is FINISHED.
void status_settle(Sluice__V1__JobStatus *m, const struct job *job);

// Takes a shard's last report of an ended job, of a FINISHED one the rows of
// its tables alone; one that is not of the shard's last incarnation and
// psserver is ignored.
void status_final_report(struct coord *c, const struct member *m,
                         struct job *job,
                         const Sluice__V1__ShardReport *report);

// Journals the last status, if a report changed it. A failure is fatal.
void status_final_keep(struct coord *c, struct job *job);

#endif
