// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/ring_audit.h -- the audit of the ranks of a ring: what
// they report of audited rounds becomes votes when the round is counted (A1).
//
// A round that is never counted, as its generation ends before, decides
// nothing.
//
// Threads  the loop.
// Memory   job->results has the results; messages are borrowed for the call. No
//          pointer is NULL, and the job is one in allreduce mode.
// Errors   results that cannot be are dropped. A journal that cannot be written
//          is fatal in ring_audit_vote: callers look at c->dead.
#ifndef COORDINATOR_CORE_MODES_RING_AUDIT_H
#define COORDINATOR_CORE_MODES_RING_AUDIT_H

#include "coordinator/core/coord_inner.h"

// Keeps the results that rank m reports of the last round that it applied, if
// that round was audited and is not counted yet; else drops them, and without
// memory.
void ring_audit_hold(struct job *job, const struct member *m,
                     const Sluice__V1__RingStep *message);

// Compares the results of rounds that are counted now (suspects_vote), and
// frees them; those of a rank that has gone are dropped. A worker that is found
// wrong becomes suspect, and leaves the ring by that (A4); what one that is
// right contributed before is not in doubt (tainted_clean).
void ring_audit_vote(struct coord *c, struct job *job);

#endif
