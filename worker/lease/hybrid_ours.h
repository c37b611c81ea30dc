// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_ours.h -- a member of a group that computes its share of
// a step by a program of layers, here or on a device.
//
// Moving statistics are as if one worker had computed the step.
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's.
// Errors   those of contribution.h.
#ifndef WORKER_LEASE_HYBRID_OURS_H
#define WORKER_LEASE_HYBRID_OURS_H

#include "worker/lease/contribution.h"
#include "trainer/lease/hybrid_step.h"

struct hybrid_ours {
    struct contributor base; // first
    struct contribution *c;  // begun; no micro-batch was got yet
};

// Computes a share: contributor_ops.share of a contributor that begins with a
// struct hybrid_ours.
enum sl_err hybrid_ours_share(struct contributor *by, struct hybrid_step *s,
                              struct sl_error *err);

// Computes a step: contributor_ops.step of such a contributor. Afterwards the
// contribution has the digest and sums of the whole step.
enum sl_err hybrid_ours_step(struct contributor *by, struct hybrid_step *s,
                             struct sl_error *err);

#endif
