// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/start_from.h -- a job that starts from a cut of another
// job, or with weights.
//
// The cut is read once, when the job is submitted, and journalled with it:
// from then on its manifest is not needed any more, only the files of its
// shards, and those until the new job has a cut of its own.
//
// Threads  the loop.
// Memory   the source is a heap message: wire_free. What is passed is borrowed
//          for the call.
// Errors   those of jobs.h, past_jobs.h, journal_manifest.h, cut_fits.h and
//          place_check; SL_ENOMEM. No pointer is NULL, `err` neither.
#ifndef COORDINATOR_CORE_CUTS_START_FROM_H
#define COORDINATOR_CORE_CUTS_START_FROM_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Sets *out to the cut that a submission names by `what`, and refuses a `spec`
// that would not continue its training. `what` with a '/' is the path of a
// manifest, whole or below the store; else it names a job, and the cut is meant
// that it ended with (job_final_cut). Takes what a pool thread has read, if the
// submission was begun with coord_submit_reads; else reads the manifest here
// and waits for it. *out, whose `even` and `apart` are set, is the caller's,
// and unchanged on failure. SL_EINVAL: the spec trains something else
// (resume_check_spec, resume_fits); SL_ENOENT: there is no such manifest, or no
// such job that the caller may see; SL_EDENIED: the path is not in the store;
// SL_ECORRUPT, SL_ENOTSUP: the manifest is not valid, or of a newer version;
// SL_ESTATE: the job goes on, has no cut, or this one does not fit where the
// new job would be placed (resume_fits); SL_EUNAVAIL: it has another last cut
// than the one that was read; SL_EIO: the store fails or does not answer.
enum sl_err resumed_read(struct coord *c, const char *what,
                         const Sluice__V1__JobSpec *spec,
                         Sluice__V1__ResumeSource **out, struct sl_error *err);

// Detaches the readings of coord_submit_reads that are under way, before the
// coord is freed; they end by themselves, and still call their `ready`.
void resumed_release(struct coord *c);

// Sets *out to a source with the files of weights that `request` names, at
// least one, for the variables or for tables of `spec`. The coordinator cannot
// read the files: the shard or rank that keeps the parameters refuses what does
// not fit. *out is the caller's, and unchanged on failure. SL_EINVAL: the
// request names a cut as well, weights for a model of tables alone, a table
// that is not there or twice, a table's file without its size, or a folder that
// is no absolute path; SL_ENOMEM.
enum sl_err resumed_weights(const Sluice__V1__SubmitRequest *request,
                            const Sluice__V1__JobSpec *spec,
                            Sluice__V1__ResumeSource **out,
                            struct sl_error *err);

// Returns true if `job` and `request` start with the same files (by SHA-256),
// for the same tables in the same order, or both with none.
bool resumed_same_weights(const struct job *job,
                          const Sluice__V1__SubmitRequest *request);

// Returns a job that goes on, was resumed from a cut of `job` and has no cut of
// its own yet, so that it still needs the files of `job`; borrowed from c.
// NULL: there is none.
const struct job *resumed_by(const struct coord *c, const struct job *job);

#endif
