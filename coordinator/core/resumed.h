// SPDX-License-Identifier: Apache-2.0
// coordinator/core/resumed.h -- a job that starts from a cut of another job, or
// with weights.
//
// The cut is read once, when the job is submitted, and journalled with it:
// from then on its manifest is not needed any more, only the files of its
// shards, and those until the new job has a cut of its own.
//
// Threads  the loop.
// Memory   the source is of the heap: wire_free.
// Errors   those of jobs.h, manifest.h and resume.h; SL_EDENIED: the path is
//          not in the store.
#ifndef COORDINATOR_CORE_RESUMED_H
#define COORDINATOR_CORE_RESUMED_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Reads the cut that a submission wants to start from (a manifest's path, or a
// job whose last cut is meant), and refuses what would not go on with it.
enum sl_err resumed_read(struct coord *c, const char *what,
                         const Sluice__V1__JobSpec *spec,
                         Sluice__V1__ResumeSource **out, struct sl_error *err);

// As the coord goes: what is being read finds it gone.
void resumed_release(struct coord *c);

// The weights that a submission wants to start with. Nobody here can read them:
// whoever keeps the parameters refuses what does not fit.
enum sl_err resumed_weights(const Sluice__V1__SubmitRequest *request,
                            Sluice__V1__ResumeSource **out,
                            struct sl_error *err);

// The job starts with the same file, or both with none.
bool resumed_same_weights(const struct job *job,
                          const Sluice__V1__SubmitRequest *request);

// A job that still needs the files of this one, or NULL.
const struct job *resumed_by(const struct coord *c, const struct job *job);

#endif
