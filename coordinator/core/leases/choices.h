// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/choices.h -- workers of one job that compute it with
// different kernels.
//
// A worker leaves out a kernel that computes wrong numbers on its host, and
// computes the op by another one: rightly, but with other last bits than a
// worker on the same kind of device whose kernel is right. The job's status
// names the first such pair.
//
// Threads  the loop.
// Memory   the message is borrowed for the call.
// Units    none.
// Errors   none.
#ifndef COORDINATOR_CORE_LEASES_CHOICES_H
#define COORDINATOR_CORE_LEASES_CHOICES_H

#include "coordinator/core/coord.h"

struct job;

// Takes what worker m says in `message` about the kernels that it leaves out of
// the job, and sets the job's warning if another worker of the job on such a
// device leaves out others. Does nothing if m was not sent the job, leaves out
// none, or says nothing, as a worker of an older program; and sets no second
// warning.
void choices_heard(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__LeaseProgress *message);

#endif
