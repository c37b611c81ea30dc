// SPDX-License-Identifier: Apache-2.0
// worker/lease/task_ring.h -- a ring lease, whoever computes its contributions.
//
// Threads  the compute thread, or whichever keeps the contributor's ring.
// Memory   the contributor's; the lease's outcome is set.
// Errors   as task.h.
#ifndef WORKER_LEASE_TASK_RING_H
#define WORKER_LEASE_TASK_RING_H

#include "worker/lease/contributor.h"
#include "worker/lease/lease.h"

// Joins, and takes part until the lease ends or fails. What would hold others
// up if it came later is done: `by` can compute at once, its vectors are there.
void task_ring_run(struct contributor *by, struct lease *l);

#endif
