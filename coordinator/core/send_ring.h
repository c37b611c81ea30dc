// SPDX-License-Identifier: Apache-2.0
// coordinator/core/send_ring.h -- messages to the ranks of a ring, one function
// each.
//
// Threads  the loop.
// Memory   everything is borrowed until the call returns.
// Errors   as in send.h: a member that cannot be told for want of memory is
//          sent away.
#ifndef COORDINATOR_CORE_SEND_RING_H
#define COORDINATOR_CORE_SEND_RING_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Of the job's ring, or of one of its groups.
//
// R2: leave what was before, and answer.
void send_ring_open(struct coord *c, const struct job *job,
                    const struct ring *ring, uint64_t member);

// R3: who the ranks are, what they begin with and who has it.
void send_ring_begin(struct coord *c, const struct job *job,
                     const struct ring *ring, uint64_t member);

// To a newcomer: whose state it copies.
void send_ring_copy(struct coord *c, const struct job *job, uint64_t member);

// Every member is ready.
void send_ring_go(struct coord *c, const struct job *job,
                  const struct ring *ring, uint64_t member);

#endif
