// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/choices.h -- workers of one job that compute it with
// different kernels.
//
// A worker leaves out a kernel that computes wrong numbers on its host, and
// computes the op by another one: rightly, but with other last bits than a
// worker on the same kind of device with a kernel that is right. The job's
// status names the first such pair.
//
// Threads  the loop.
// Memory   the message is borrowed for the call. No pointer is NULL.
// Units    none.
// Errors   none.
#ifndef COORDINATOR_CORE_LEASES_CHOICES_H
#define COORDINATOR_CORE_LEASES_CHOICES_H

#include "coordinator/core/coord.h"

struct job;

// Keeps what worker m says in `message` about the kernels that it leaves out of
// the job (opened.left_out). If it leaves some out, and another worker of the
// job on such a device leaves out others, or none, sets the job's warning
// (JOB_WARN_KERNELS), unless that is set. Does nothing if m was not sent the
// job, or says nothing of kernels, as a worker of an older program.
void choices_heard(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__LeaseProgress *message);

#endif
