// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/send_ring.h -- messages to the ranks of a ring, one
// function each.
//
// Threads  the loop.
// Memory   everything is borrowed until the call returns; no pointer is NULL.
//          `member` is the number of the rank's stream (struct member.id).
// Errors   as in send.h: a member is sent away if memory for its message is
//          short.
#ifndef COORDINATOR_CORE_MODES_SEND_RING_H
#define COORDINATOR_CORE_MODES_SEND_RING_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Tells a rank to leave older generations and to answer with its state (R2).
// `ring`, here and below, is the job's ring or the ring of one of its groups.
void send_ring_open(struct coord *c, const struct job *job,
                    const struct ring *ring, uint64_t member);

// Sends a rank of the generation its ranks and the base, with the ranks that
// hold it or, for a base that is a file, the files (R3). To be called after
// ring_choose.
void send_ring_begin(struct coord *c, const struct job *job,
                     const struct ring *ring, uint64_t member);

// Tells a newcomer of the job's running ring to copy the state, from ranks that
// the message names.
void send_ring_copy(struct coord *c, const struct job *job, uint64_t member);

// Tells a rank that every member is ready, so that rounds begin.
void send_ring_go(struct coord *c, const struct job *job,
                  const struct ring *ring, uint64_t member);

#endif
