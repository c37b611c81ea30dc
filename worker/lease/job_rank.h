// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_rank.h -- a job of layers in a ring: the rank's vectors, its
// device, the parameters of a cut that it is to evaluate.
//
// Threads  the compute thread.
// Memory   job_rank_free; the job frees it before its device.
// Units    elements of the flat vector.
// Errors   SL_ENOMEM; SL_ELOST, and then the state is lost as well. `err` may
//          be NULL.
#ifndef WORKER_LEASE_JOB_RANK_H
#define WORKER_LEASE_JOB_RANK_H

#include "worker/device/step.h"
#include "worker/lease/job.h"
#include "trainer/lease/job_ring.h"

// Frees the rank's state and vectors, also those on the device, and the ring:
// j->ring is NULL then, and the buckets that j->ranges points at are gone. Does
// nothing for a job without a ring.
void job_rank_free(struct worker_job *j);

// Makes the rank's vectors when first wanted; after job_device. `j` has a ring,
// here and below.
enum sl_err job_rank_vectors(struct worker_job *j, struct sl_error *err);

// Sets where `step` finds its parameters until another state comes into place.
// A state is in place, and no step is under way. On a device that has
// optimizers the parameters stay there, and rounds are applied there
// (rank_lend).
enum sl_err job_rank_params(struct worker_job *j, struct step *step,
                            struct sl_error *err);

// Moves the state of `from` to `to`, the same job opened anew, if it is of the
// same incarnation; else, or where one has no ring, does nothing. A state that
// is on a device is brought home before; if that fails, `to` gets none.
void job_rank_pass(struct worker_job *from, struct worker_job *to);

// Fills j->cut with the parameters of a cut, for an evaluation: those that were
// kept, or those of the files in our store; nothing is read if it has those of
// this cut already. job_cut was called, and a state is
// in place. SL_ESTATE: the cut has another number of parts; SL_ENOENT: there is
// no store, or no such file. After a failure j->cut is undefined.
enum sl_err job_rank_cut(struct worker_job *j, const struct wire_tag *tags,
                         uint32_t count, struct sl_error *err);

#endif
