// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_rank.h -- a job of layers whose worker is a rank: its
// vectors, its device, the parameters of a cut that it is to evaluate.
//
// Threads  the compute thread.
// Memory   job_rank_free; the job frees it before its device.
// Units    elements of the flat vector.
// Errors   SL_ENOMEM; SL_ELOST, and then the state is lost as well.
#ifndef WORKER_LEASE_JOB_RANK_H
#define WORKER_LEASE_JOB_RANK_H

#include "worker/device/step.h"
#include "worker/lease/job.h"
#include "worker/lease/job_ring.h"

// What the device has of it goes, too; without a ring nothing.
void job_rank_free(struct job *j);

// The vectors, made when first wanted; after job_device.
enum sl_err job_rank_vectors(struct job *j, struct sl_error *err);

// Where a step finds its parameters, from now until another state comes into
// place; there is a state, and no step. On a device that has optimizers they
// stay there, and rounds are applied there (rank_lend).
enum sl_err job_rank_params(struct job *j, struct step *step,
                            struct sl_error *err);

// `to` is the same job, opened anew: it takes the state, if it is the same
// incarnation. What is on a device is brought home before.
void job_rank_pass(struct job *from, struct job *to);

// The parameters of a cut into j->cut, for an evaluation: those that were kept,
// or of the files in our store.
enum sl_err job_rank_cut(struct job *j, const struct wire_tag *tags,
                         uint32_t count, struct sl_error *err);

#endif
