// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/group_audit.c -- see group_audit.h.
#include "coordinator/core/modes/group_audit.h"

#include "coordinator/core/job.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/leases/tainted.h"
#include "plan/audited.h"
#include "proto/spec.h"

#define STEPS 16 // steps of groups with votes, in rounds of votes.h

// Returns true if the step is one of a closure that was leased already and is
// audited. Its leader may have completed it by now: followers are heard apart.
static bool group_audit_is_of(const struct job *job,
                              const Sluice__V1__Repeat *r)
{
    return r->closure < job->leases.end &&
           r->step <
               schedule_closure_steps(&job->shards.schedule, r->closure) &&
           audited_round(job->id, r->closure, spec_audit(job->spec->train));
}

// Takes a result of a share that member `self` of the generation was to compute
// (A1).
static void group_audit_vote(struct coord *c, struct member *m, struct job *job,
                             const struct group *g, uint32_t self,
                             const Sluice__V1__Repeat *r)
{
    uint64_t shares[AUDITED_WORKERS];
    uint32_t n = audited_slots(0, g->ring.members, self, shares), i = 0;

    while (i < n && shares[i] != r->share)
        i++;
    if (i == n || !group_audit_is_of(job, r))
        return;
    if (suspects_vote(c, m, job, job->groups.size * STEPS, r) ==
        SUSPECTS_AGREES)
        tainted_clean(job, m, r->closure);
}

void group_audit_take(struct coord *c, struct member *m, struct job *job,
                      const struct group *g,
                      const Sluice__V1__RingStep *message)
{
    if (job->groups.by_host || g->ring.members == 1) {
        if (message->n_repeats > 0)
            suspects_take_own(c, m, job, message->repeats[0]->closure,
                              message->repeats, message->n_repeats);
        return;
    }
    for (size_t i = 0; i < message->n_repeats && i < AUDITED_WORKERS; i++) {
        uint32_t self = ring_index(&g->ring, m->id);

        if (c->dead || self == UINT32_MAX ||
            message->generation != g->ring.generation)
            return;
        group_audit_vote(c, m, job, g, self, message->repeats[i]);
    }
}
