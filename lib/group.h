// SPDX-License-Identifier: Apache-2.0
// lib/group.h -- a member of a group of a hybrid job, and its training leases
// while it leads.
//
// A step's micro-batches are slots of the program's. The gradient of one is
// that of the mean over its own samples, so it is weighed here: by its samples,
// in units of a full micro-batch, which most are. Their sum over the group is
// divided by the weight of the step before it is pushed.
//
// Threads  the ring's.
// Memory   the thread that took a lease gives it back.
#ifndef LIB_GROUP_H
#define LIB_GROUP_H

#include "lib/ring.h"
#include "trainer/lease/hybrid_step.h"

// Returns the weight of a gradient over `samples` samples, in full
// micro-batches of the job `r`.
float group_weight(const struct record *r, uint64_t samples);

// A program that leaves a step out says so in the sum of the right ones, which
// is nothing else's: it stays what it is, whatever is added.
#define GROUP_SKIPPED (-INFINITY)

// Runs training lease `l` from its begin to its outcome, as the leader of the
// group of `g`. On the ring's thread.
void group_lead(struct lib_ring *g, struct lease *l);

#endif
