// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_status.h -- the status of one job: for clients,
// and for the journal when it has ended.
//
// Threads  the loop.
// Memory   a status is a heap message, of copies: wire_free. No pointer is
//          NULL.
// Errors   NULL: no memory.
#ifndef COORDINATOR_CORE_STATUS_JOB_STATUS_H
#define COORDINATOR_CORE_STATUS_JOB_STATUS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Makes the status of a job, live or ended, and returns it, for wire_free;
// NULL: no memory. May read the journal; what it cannot read is left out.
// `with_shards`, `with_spec`: add these parts; `with_spec` has no effect on an
// unreadable job.
Sluice__V1__JobStatus *status_job(const struct coord *c, const struct job *job,
                                  bool with_shards, bool with_spec);

// Sets the numbers of a placed job that move (steps, rate, loss ...) in *m, and
// those of its mode, of which m->audit is a heap message that *m owns; nothing
// else. The caller has set m->epochs. Not after job_release_work.
void status_progress(const struct coord *c, Sluice__V1__JobStatus *m,
                     const struct job *job);

// Sets the samples per second over the whole run in *m, the status of a job
// that has ended, from the seconds and steps in it; pauses, and steps from the
// cut that it was resumed from, do not count. Does nothing for a job that goes
// on or was never placed.
void status_average(Sluice__V1__JobStatus *m, const struct job *job);

// Writes into `out`, cut to `size` bytes, that the attached workers are too old
// for the job, if no READY worker suits it and a newer program of one would.
// Returns true then; else false, with nothing written.
bool status_reason_older(const struct coord *c, const struct job *job,
                         char *out, size_t size);

// ---- status_final.c

// Replaces the numbers in the status *m, which has shards, by ones that belong
// to the same moment, as the job ends. Does nothing for a job that was not
// placed or is FINISHED.
void status_settle(Sluice__V1__JobStatus *m, const struct job *job);

// Takes a shard's last report of an ended job into its last status; for a
// FINISHED job only the rows of its tables; raises job->changes. The first one
// since status_final_keep calls io.changed. Ignores a report that is not of the
// shard's last incarnation and psserver, or is no newer.
void status_final_report(struct coord *c, const struct member *m,
                         struct job *job,
                         const Sluice__V1__ShardReport *report);

// Journals the last status, with new sums of its shards, if a report changed
// it; else does nothing. A failure is fatal; without memory the journal keeps
// the older one.
void status_final_keep(struct coord *c, struct job *job);

#endif
