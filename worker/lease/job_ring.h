// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_ring.h -- what a rank keeps of a job: the state, its
// vectors, the buckets that are summed.
//
// The state outlives leases and new JobOpens of the same incarnation of the
// job: a coordinator that comes back finds it where it was. Who computes the
// gradients is another question (contributor.h): a program of layers here
// (job_rank.h), or one of the user's (lib).
//
// Threads  the compute thread.
// Memory   job_ring_free; what a device has is given up before (job_rank.h).
// Units    elements of the flat vector.
// Errors   SL_ENOMEM.
#ifndef WORKER_LEASE_JOB_RING_H
#define WORKER_LEASE_JOB_RING_H

#include "proto/model.h"
#include "worker/ring/rank.h"
#include "worker/ring/sum.h"

struct job_ring {
    struct overlap_range *buckets; // owned
    uint32_t buckets_count;
    struct rank rank;
    struct sum sum;
    float *fresh; // where steps read the parameters, if not in the state
                  // itself: a device's or a program's own; or NULL
    float *grads; // where steps write the gradient: the device's, or own
    float *own;   // NULL: somebody else has it
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

// Ready to sum gradients of so many elements; `grads` and `fresh` are set.
enum sl_err job_ring_sum(struct job_ring *r, uint64_t elements,
                         struct sl_error *err);

// `to` is of a job that was opened anew: it takes the state, if that is of this
// job and incarnation. The state is here.
void job_ring_hand(struct job_ring *from, struct job_ring *to,
                   const Sluice__V1__JobOpen *open);

#endif
