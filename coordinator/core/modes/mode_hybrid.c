// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_hybrid.c -- mode hybrid: workers sum in groups,
// and the leader of each pushes to the shards as in async.
#include "coordinator/core/modes/groups.h"
#include "coordinator/core/job.h"
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/modes/rings.h"
#include "proto/spec.h"

static bool hybrid_able(const struct member *m)
{
    return m->groups;
}

static void hybrid_made(struct job *job)
{
    const struct spec_group group = spec_group(job->spec);

    groups_init(&job->groups, group.size, group.by_host);
}

// Offers a place in a group to a worker without one, and closures to a leader.
static struct offer hybrid_offer(struct coord *c, struct job *job,
                                 const struct member *m)
{
    if (leases_ring_job(m) != job)
        return offers_yields(c, job) ? (struct offer){.kind = WORK_NONE}
                                     : offers_place(groups_offer(job, m));
    return groups_leads(job, m) ? offers_work(c, job, m)
                                : (struct offer){.kind = WORK_NONE};
}

static bool hybrid_offers(struct coord *c, struct job *job, bool newcomer)
{
    if (newcomer)
        return groups_want(job) && !offers_yields(c, job);
    return offers_work_any(c, job, newcomer);
}

static bool hybrid_sit(struct job *job, struct member *m, const struct work *w)
{
    m->seated = groups_take(&job->groups, w->closure.id - WORK_PLACES,
                            m->host) == SL_OK;
    return m->seated;
}

static void hybrid_rise(struct job *job, struct member *m, const struct work *w)
{
    groups_leave(&job->groups, w->closure.id - WORK_PLACES, m->id);
    m->seated = false;
}

static void hybrid_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    rings_fill_sums(m, job);
    suspects_fill(m, job);
}

const struct mode mode_hybrid = {
    .name = "hybrid",
    .seat = "member of a group",
    .able = hybrid_able,
    .made = hybrid_made,
    .computes = groups_leads,
    .offer = hybrid_offer,
    .offers = hybrid_offers,
    .slot = offers_slot,
    .sit = hybrid_sit,
    .rise = hybrid_rise,
    .receive = groups_receive,
    .check = groups_check,
    .fill = hybrid_fill,
};
