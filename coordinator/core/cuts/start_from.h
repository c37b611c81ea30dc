// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/start_from.h -- a job that starts from a cut of another
// job, or with weights.
//
// The cut is read once, when the job is submitted, and journalled with it:
// from then on its manifest is not needed any more, only the files of its
// shards, and those until the new job has a cut of its own.
//
// Threads  the loop.
// Memory   the source is a heap message: wire_free.
// Errors   those of jobs.h, journal_manifest.h and cut_fits.h; SL_EDENIED: the
//          path is not in the store. `err` is not NULL.
#ifndef COORDINATOR_CORE_CUTS_START_FROM_H
#define COORDINATOR_CORE_CUTS_START_FROM_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Reads the cut that a submission names (a manifest's path, or a job, meaning
// its last cut), and refuses a spec that would not continue it. Takes what a
// pool thread has read, if the submission was begun with coord_submit_reads;
// else reads the manifest here and waits for it. SL_ESTATE: the job goes on, or
// has no cut; SL_EUNAVAIL: it has a newer cut than the one that was read;
// SL_EIO, too, where the store does not answer. *out is the caller's, and
// unchanged on failure.
enum sl_err resumed_read(struct coord *c, const char *what,
                         const Sluice__V1__JobSpec *spec,
                         Sluice__V1__ResumeSource **out, struct sl_error *err);

// Detaches the readings of coord_submit_reads that are under way, before the
// coord is freed; they end by themselves.
void resumed_release(struct coord *c);

// Makes the source of the weights that a submission names, for variables or for
// tables of `spec`. The coordinator cannot read the files: the shard or rank
// that keeps the parameters refuses what does not fit. *out is the caller's;
// SL_EINVAL: the request names a cut, too, a table that is not there or twice,
// or a folder that is no path from the root.
enum sl_err resumed_weights(const Sluice__V1__SubmitRequest *request,
                            const Sluice__V1__JobSpec *spec,
                            Sluice__V1__ResumeSource **out,
                            struct sl_error *err);

// Says whether job and request start with the same files (their SHA-256), in
// the same order, or both with none.
bool resumed_same_weights(const struct job *job,
                          const Sluice__V1__SubmitRequest *request);

// Returns a job that still needs the files of this one, or NULL.
const struct job *resumed_by(const struct coord *c, const struct job *job);

#endif
