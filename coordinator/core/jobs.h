// SPDX-License-Identifier: Apache-2.0
// coordinator/core/jobs.h -- the table of jobs, and the counters of each.
//
// Threads  the loop; jobs_find may read the journal.
// Memory   jobs and records that are returned are borrowed: a job at most until
//          the next tick once it has ended, a record until ended_forget. Texts
//          are copied. No pointer that is passed may be NULL, but `err`.
// Errors   SL_ENOENT: there is no such job; SL_ESTATE: several have the name.
//          *out is then untouched.
#ifndef COORDINATOR_CORE_JOBS_H
#define COORDINATOR_CORE_JOBS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// The record of a job that ended a while ago.
struct ended_job {
    uint64_t id, uid;
    enum job_state state;
    char *unreadable; // why its rows cannot be read; owned; NULL: they can
    uint32_t tenant;  // quotas_tenant_number; 0: not looked at yet
    uint64_t stored;  // bytes of its checkpoints, once `tenant` is set
    char name[];
};

// Returns the job of this number, if it has not ended, or ended lately and is
// still whole in memory (past_jobs.h); NULL: it is unknown, or there is only a
// record of it (jobs_ended). Which tenant asks does not count, here and in the
// next two functions.
struct job *jobs_get(const struct coord *c, uint64_t id);

// Returns the job of this number and incarnation if it has not ended; else
// NULL.
struct job *jobs_live(const struct coord *c, uint64_t id, uint64_t incarnation);

// Returns the record of a job that ended earlier; NULL: it is unknown, or whole
// in memory (jobs_get).
struct ended_job *jobs_ended(const struct coord *c, uint64_t id);

// Sets *out to the number of the job that `id` means, "j-7" or a name that only
// one job has, live or ended, of the jobs that the present caller may see
// (tenants_hide, which reads the journal for a caller of one tenant). A text
// like "j-7" is never taken for a name. Returns SL_OK, SL_ENOENT or SL_ESTATE.
enum sl_err jobs_find(const struct coord *c, const char *id, uint64_t *out,
                      struct sl_error *err);

// Adds one to *counter, a member of job->counters, and to job->changes; the
// next jobs_flush journals it.
void jobs_count(struct job *job, uint64_t *counter);

// Sets the warning of this kind in the job's status to a text that is made as
// printf makes it and cut at 511 bytes, logs it, and raises job->changes. Does
// nothing if that is its text already. Without memory none is shown. Neither
// journalled nor an event: a restart of the coordinator forgets it.
void jobs_warn(struct job *job, enum job_warning kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Removes the warning of this kind, if there is one, and raises job->changes
// then.
void jobs_unwarn(struct job *job, enum job_warning kind);

// Queues the job's counters, with its running time by now, for the journal's
// next commit, if they have changed (counters_changed, which is cleared). Does
// nothing for a job that has ended, and after coord_fatal. A failure is fatal.
void jobs_flush(struct coord *c, struct job *job);

#endif
