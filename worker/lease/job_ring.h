// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_ring.h -- what the compute thread keeps of a job whose
// workers are ranks: the state, its vectors, the buckets that are summed.
//
// The state outlives leases and new JobOpens of the same incarnation of the
// job: a coordinator that comes back finds it where it was.
//
// Threads  the compute thread.
// Memory   job_ring_free; the job frees it before its device.
// Units    elements of the flat vector.
// Errors   SL_ENOMEM; SL_ELOST, and then the state is lost as well.
#ifndef WORKER_LEASE_JOB_RING_H
#define WORKER_LEASE_JOB_RING_H

#include "worker/device/step.h"
#include "worker/lease/job.h"
#include "worker/ring/rank.h"
#include "worker/ring/sum.h"

struct job_ring {
    struct overlap_range *buckets; // owned
    uint32_t buckets_count;
    struct rank rank;
    struct sum sum;
    float *fresh; // a device's parameters; NULL: the state's
                  // own are read
    float *grads; // the device's, or own
    float *own;   // NULL: the device has it
    // The device's own parameters and slots; NULL: none, or not yet.
    struct resident *resident;
    bool stays_here;            // the device cannot have them
    const struct ring_env *env; // of the last ring lease; NULL before it
    // A cut's parameters, kept for its evaluation: job->cut is of this tag.
    struct wire_tag cut;
};

// Without vectors and state: what programs must know. Buckets of at most so
// many bytes.
enum sl_err job_ring_new(struct job_ring **out, const struct model *model,
                         uint64_t bytes);
void job_ring_free(struct job_ring *r); // NULL is allowed

// The vectors, made when first wanted; after job_device.
enum sl_err job_ring_vectors(struct job *j, struct sl_error *err);

// Where a step finds its parameters, from now until another state comes into
// place; there is a state, and no step. On a device that has optimizers they
// stay there, and rounds are applied there (rank_lend).
enum sl_err job_ring_params(struct job *j, struct step *step,
                            struct sl_error *err);

// `to` is the same job, opened anew: it takes the state, if it is the same
// incarnation. What is on a device is brought home before.
void job_ring_pass(struct job *from, struct job *to);

// The parameters of a cut into j->cut, for an evaluation: those that were kept,
// or of the files in our store.
enum sl_err job_ring_cut(struct job *j, const struct wire_tag *tags,
                         uint32_t count, struct sl_error *err);

#endif
