// SPDX-License-Identifier: Apache-2.0
// coordinator/core/jobs.h -- the table of jobs, and the counters of each.
//
// Threads  the loop.
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
    uint32_t tenant;  // number of its tenant in quotas.c; 0: not looked at yet
    uint64_t stored;  // bytes of its checkpoints, once `tenant` is set
    char name[];
};

// Returns the job of this number, if it has not ended or ended lately; NULL: it
// is unknown, or there is only a record of it (jobs_ended).
struct job *jobs_get(const struct coord *c, uint64_t id);

// Returns the job of this number and incarnation if it has not ended; else
// NULL.
struct job *jobs_live(const struct coord *c, uint64_t id, uint64_t incarnation);

// Returns the record of a job that ended earlier; NULL: it is unknown, or whole
// in memory (jobs_get).
struct ended_job *jobs_ended(const struct coord *c, uint64_t id);

// Sets *out to the number of the job that `id` means, "j-7" or a name that only
// one job has, live or ended, of the jobs that the present caller may see. A
// text like "j-7" is never taken for a name. Returns SL_OK, SL_ENOENT or
// SL_ESTATE.
enum sl_err jobs_find(const struct coord *c, const char *id, uint64_t *out,
                      struct sl_error *err);

// Adds one to *counter, a member of job->counters; jobs_flush journals it.
void jobs_count(struct job *job, uint64_t *counter);

// Sets the warning of this kind in the job's status, in place of the last one,
// and logs it if it differs from that. The text, made as printf makes it, is
// cut at 511 bytes; without memory none is shown.
void jobs_warn(struct job *job, enum job_warning kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Removes the warning of this kind, if there is one.
void jobs_unwarn(struct job *job, enum job_warning kind);

// Queues the job's counters for the journal's next commit, if they have changed
// (counters_changed, which is cleared) and the job has not ended. A failure is
// fatal.
void jobs_flush(struct coord *c, struct job *job);

#endif
