// SPDX-License-Identifier: Apache-2.0
// trainer/lease/task_ring.h -- a ring lease, for any contributor.
//
// Threads  the compute thread, or the one that keeps the contributor's ring.
// Memory   the contributor's; the lease's outcome is set.
// Errors   all end as the outcome: nothing is returned.
#ifndef TRAINER_LEASE_TASK_RING_H
#define TRAINER_LEASE_TASK_RING_H

#include "trainer/lease/contributor.h"
#include "trainer/lease/lease.h"

// Joins the ring, takes part until the lease ends or fails, and sets its
// outcome: handed back, dropped or failed, never complete. What would hold
// other ranks up is done before: `by` can compute at once, its vectors are
// there. `l` has a seat. Waits for other ranks and for the loop's messages. The
// state stays with by->ring. Logs the generations that it joins and leaves.
void task_ring_run(struct contributor *by, struct lease *l);

#endif
