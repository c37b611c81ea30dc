// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/group_audit.h -- the audit of the members of a group:
// what they report of audited steps becomes votes (A1), or their own word (A5).
//
// Threads  the loop.
// Memory   messages are borrowed for the call. No pointer is NULL, and the job
//          is one in hybrid mode.
// Errors   results that cannot be are dropped. A journal that cannot be written
//          is fatal: callers look at c->dead.
#ifndef COORDINATOR_CORE_MODES_GROUP_AUDIT_H
#define COORDINATOR_CORE_MODES_GROUP_AUDIT_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/group.h"

// Takes what m, a member of group `g`, reports in `message` of a step that was
// audited: each result is a vote, or, where groups are of one host or `g` has
// one member, m's word on itself. A worker that is found wrong leaves the group
// by that (A4), so `g` may change. Ignores a message without results; as votes,
// also those of another generation or step than m was to compute.
void group_audit_take(struct coord *c, struct member *m, struct job *job,
                      const struct group *g,
                      const Sluice__V1__RingStep *message);

#endif
