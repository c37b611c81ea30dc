// SPDX-License-Identifier: Apache-2.0
// coordinator/core/jobs.h -- the table of jobs, and the counters of each.
//
// Threads  the loop.
// Memory   jobs and records that are returned are borrowed: a job at most until
//          the next tick once it has ended. Texts are copied. No pointer that
//          is passed may be NULL, but `err`.
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

// Finds a job that has not ended, or ended lately, by its number, or NULL: it
// is unknown, or there is only a record of it (jobs_ended).
struct job *jobs_get(const struct coord *c, uint64_t id);

// Finds a job likewise, of this incarnation and not ended.
struct job *jobs_live(const struct coord *c, uint64_t id, uint64_t incarnation);

// Finds the record of a job that ended earlier, or NULL.
struct ended_job *jobs_ended(const struct coord *c, uint64_t id);

// Finds the number of any job that the caller may see, by "j-7" or by a name
// that only one job has.
enum sl_err jobs_find(const struct coord *c, const char *id, uint64_t *out,
                      struct sl_error *err);

// Adds one to *counter, a member of job->counters; jobs_flush journals it.
void jobs_count(struct job *job, uint64_t *counter);

// Shows a warning in the job's status, in place of the last one of its kind,
// and logs it if it differs. It is cut at 511 bytes; without memory none is
// shown.
void jobs_warn(struct job *job, enum job_warning kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Removes the warning of this kind, if there is one.
void jobs_unwarn(struct job *job, enum job_warning kind);

// Queues the job's counters for the journal's next commit, if they have changed
// and the job goes on. A failure is fatal.
void jobs_flush(struct coord *c, struct job *job);

#endif
