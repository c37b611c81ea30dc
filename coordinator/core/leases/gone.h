// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/gone.h -- workers that are gone or silent: their
// leases, and whether the closure that they computed is to be blamed for it.
//
// A connection that ends is no evidence against a closure; a process that died
// or hung while it computed it is. So the oldest lease of a worker is only
// suspected, until
//   - the same process is heard of again: no blame (gone_back);
//   - another process has its name: it died (gone_replaced);
//   - a lease's time has passed without either (gone_check).
// Meanwhile the closure is issued to others, unless the suspicions, if they
// were all true, would make it poison.
//
// Threads  the loop.
// Memory   one entry per worker that went and is not judged yet, with a copy of
//          its name; without memory for one no closure is blamed. No pointer is
//          NULL.
// Units    *_ms monotonic.
// Errors   A journal that cannot be written is fatal. A closure that is blamed
//          may be poison, which ends its job, or its evaluation (blame_work):
//          callers look at c->dead, and at the state of jobs.
#ifndef COORDINATOR_CORE_LEASES_GONE_H
#define COORDINATOR_CORE_LEASES_GONE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

enum gone_why {
    GONE_LOST,   // gone or silent: its closure is suspected
    GONE_REDIAL, // the same process came back on a new stream: no blame
};

// Takes all leases from worker m; they may be leased to others at once. With
// GONE_LOST sends a Revoke for each; the oldest one that m may have computed is
// suspected to have taken m down: no place in a group, no rank of a ring that
// does not run, no slot of a round that is not open. An event tells of the
// oldest lease, and of the next if the oldest is a place; the others waited and
// are not suspected. m counts as lost in its jobs (counters.workers_lost),
// unless it is only silent (MEMBER_SUSPECT); if it had leases, all workers get
// few leases ahead for a while (members_forget_pace). With GONE_REDIAL none of
// that. Pointers to these works may be gone then.
void gone_worker(struct coord *c, struct member *m, enum gone_why why);

// Drops the suspicions against closures that m's process computed, since it is
// heard of again.
void gone_back(struct coord *c, const struct member *m);

// Blames the closures that older processes of m's name are suspected to have
// died of, since a newer process has the name.
void gone_replaced(struct coord *c, const struct member *m);

// Blames suspected closures once the process has not been heard of for
// options.lease_ms. To be called once per tick.
void gone_check(struct coord *c);

// Frees all suspicions without a judgement, as the coord is freed.
void gone_release(struct coord *c);

#endif
