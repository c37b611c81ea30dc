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

// Makes the rank's vectors unless they are there; job_device was called before.
// `j` has a ring, here and below.
enum sl_err job_rank_vectors(struct worker_job *j, struct sl_error *err);

// Sets where `step` reads its parameters, until another state of the rank is in
// place. A state is in place, and no step is under way. On a device that has
// optimizers the parameters are moved there to stay, and rounds are applied
// there (rank_lend); on one that has none, or no room for them, and with a
// team, they are copied to the device's vector in host memory, and rounds are
// applied by the host. Which it is without a team is logged, once.
enum sl_err job_rank_params(struct worker_job *j, struct step *step,
                            struct sl_error *err);

// Moves the state of the rank of `from` to that of `to`, which has none, the
// same job opened anew, if they have the same incarnation; else, or if one of
// them has no ring, does nothing. A state on a device is copied to the host
// before; if that fails, `to` gets none.
void job_rank_pass(struct worker_job *from, struct worker_job *to);

// Sets j->cut to the parameters of a cut, for an evaluation: those that the
// rank has kept, or those in the files of our store; reads nothing if j->cut
// has them already. tags[count] are the cut's, first those of the parts.
// job_cut was called, and a state is in place, which is not checked. SL_ESTATE:
// the cut has fewer than the state has parts; SL_ENOENT: there is no store, or
// no such file; the other errors of snap_values. After a failure j->cut is
// undefined.
enum sl_err job_rank_cut(struct worker_job *j, const struct wire_tag *tags,
                         uint32_t count, struct sl_error *err);

#endif
