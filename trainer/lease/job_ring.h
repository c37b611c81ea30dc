// SPDX-License-Identifier: Apache-2.0
// trainer/lease/job_ring.h -- what a rank keeps of a job: the state, its
// vectors, the buckets that are summed.
//
// The state outlives leases and new JobOpens of the same incarnation of the
// job: a coordinator that comes back finds it where it was. Gradients come from
// a contributor (contributor.h): a program of layers here (job_rank.h), or a
// program of the user's (lib).
//
// Threads  the compute thread.
// Memory   job_ring_free; what a device has is given up before (job_rank.h).
// Units    elements of the flat vector.
// Errors   SL_ENOMEM; *out is untouched then. `err` may be NULL.
#ifndef TRAINER_LEASE_JOB_RING_H
#define TRAINER_LEASE_JOB_RING_H

#include "proto/model.h"
#include "trainer/ring/rank.h"
#include "trainer/ring/sum.h"

struct job_ring {
    struct elements *buckets; // owned
    uint32_t buckets_count;
    struct rank rank;
    struct sum sum;
    float *fresh; // where steps read the parameters: a device's or a program's
                  // own vector; NULL: in the state itself
    float *grads; // where steps write the gradient: the device's vector, or own
    float *own;   // memory of `grads`; NULL: `grads` is not ours
    // Parameters and slots in the device's memory; NULL: none, or not yet.
    struct resident *resident;
    bool stays_here; // the device cannot hold parameters and slots
    // Set by a ring lease, and valid as long as that one; NULL before the
    // first.
    const struct ring_env *env;
    // Tag of the cut that job->cut keeps the parameters of, for its evaluation.
    struct wire_tag cut;
};

// Makes the ring's buckets, of at most `bytes` bytes (at least 4), and nothing
// else yet: no vectors and no state. `model` is not kept. SL_ENOMEM.
enum sl_err job_ring_new(struct job_ring **out, const struct model *model,
                         uint64_t bytes);
// Frees the state, the sum and the vectors that are ours; no generation is
// joined (sum_leave). NULL is allowed.
void job_ring_free(struct job_ring *r);

// Prepares the sum of gradients over all `elements` elements of the flat
// vector, once; `grads` and `fresh` are set before. SL_ENOMEM.
enum sl_err job_ring_sum(struct job_ring *r, uint64_t elements,
                         struct sl_error *err);

// Moves the state of `from` to `to`, which has none, if it is of the job and
// incarnation that `open` names; else does nothing. `from` has no state
// afterwards. The state must be in host memory.
void job_ring_hand(struct job_ring *from, struct job_ring *to,
                   const Sluice__V1__JobOpen *open);

#endif
