// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/ring_audit.c -- see ring_audit.h.
#include "coordinator/core/modes/ring_audit.h"

#include "common/base/mem.h"
#include "common/base/num.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/leases/tainted.h"
#include "plan/audited.h"
#include "proto/spec.h"

#define SCALING_ROUND 64 // slots of a round that becomes longer with each rank

void ring_audit_hold(struct job *job, const struct member *m,
                     const Sluice__V1__RingStep *message)
{
    if (message->n_repeats > 0 &&
        message->n_repeats <= job->rounds.contributions &&
        message->sequence > job->rounds.counted &&
        audited_round(job->id, message->sequence - 1,
                      spec_audit(job->spec->train)))
        ring_results_hold(&job->results, &job->ring, m->id, message);
}

// Returns for how many slots of a round votes are kept, always the same for a
// job.
static uint32_t ring_audit_round(const struct job *job)
{
    return spec_ring_scales(job->spec)
               ? SCALING_ROUND
               : sl_min(job->rounds.contributions, WIRE_ROUND_MAX);
}

void ring_audit_vote(struct coord *c, struct job *job)
{
    struct ring_result *r;

    while ((r = ring_results_due(&job->results)) != NULL) {
        struct member *m = members_get(&c->members, r->member);

        for (size_t i = 0; m != NULL && i < r->count; i++)
            if (!c->dead && !job_ended(job) &&
                suspects_vote(c, m, job, ring_audit_round(job), &r->list[i]) ==
                    SUSPECTS_AGREES)
                tainted_clean(job, m, r->list[i].closure);
        sl_free(r);
    }
}
