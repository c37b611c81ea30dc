// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_open.c -- mode local with a quorum: workers take
// any closures, as in async, and a round at a shard is what has come by its end
// (L1, L2).
#include <math.h>

#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/paces.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/send.h"
#include "proto/spec.h"

#define PACES_MOST 256 // workers that it looks at

// A program that knows nothing of the mode would push a gradient as its change.
bool mode_local_able(const struct member *m)
{
    return m->own_steps;
}

static void open_placed(struct job *job)
{
    struct fragments parts = fragments_begin(spec_fragments(job->spec->train));
    uint32_t most = spec_inner_closures(job->spec->train);

    for (uint32_t i = 0; i < job->shards.count; i++)
        job->shards.list[i].fragment =
            fragments_add(&parts, job->shards.list[i].elements);
    job->shards.evidence.open = spec_open_contributions(job->spec->train);
    job->paces = (struct job_paces){
        .own = spec_inner(job->spec->train).own, .most = most, .mean = most};
}

// Returns how long a round with its quorum waits: what the job says, or by the
// pace of the workers that have leases of the job.
static uint64_t open_grace_ms(const struct coord *c, const struct job *job)
{
    double times[PACES_MOST];
    uint32_t count = 0;

    if (job->spec->train->grace_ms > 0)
        return job->spec->train->grace_ms;
    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (count < PACES_MOST && map_get(&job->leases.holders, m->id) != NULL)
            times[count++] = m->lease_ms * job->paces.mean;
    }
    return meeting_grace_ms(times, count);
}

// Sets now[f] to what the shards of fragment f hold, as far as is known:
// closures, which contributions have several of.
static void open_look(struct meeting_now now[FRAGMENTS_MOST],
                      const struct job *job)
{
    const struct evidence *e = &job->shards.evidence;
    uint32_t count = spec_fragments(job->spec->train);

    for (uint32_t f = 0; f < count; f++)
        now[f] = (struct meeting_now){
            .least = UINT32_MAX,
            .quorum =
                (uint32_t)ceil(job->spec->train->quorum * job->paces.mean),
            .under_way = job->leases.held > 0};
    for (uint32_t i = 0; i < e->shards; i++) {
        uint32_t f = job->shards.list[i].fragment;
        uint32_t held = evidence_held(e, i);

        now[f].least = held < now[f].least ? held : now[f].least;
        now[f].most = held > now[f].most ? held : now[f].most;
    }
    for (uint32_t f = 0; f < count; f++)
        if (now[f].most == 0)
            now[f].least = 0; // perhaps it has no shards
}

// Tells the shards of fragment `f` to end their rounds.
static void open_tell(struct coord *c, struct job *job, uint32_t f)
{
    const struct evidence *e = &job->shards.evidence;

    for (uint32_t i = 0; i < e->shards; i++) {
        const struct job_shard *s = &job->shards.list[i];
        uint64_t closure = evidence_held_first(e, i);
        struct member *m = members_get(&c->members, s->server);

        if (s->fragment == f && m != NULL && closure < e->closures)
            send_close_round(c, m, job, i, closure);
    }
}

// Ends rounds that have waited long enough. Those of a fragment are ended
// together, and know nothing of others: what leaves apart comes apart (L8).
static void open_check(struct coord *c, struct job *job)
{
    struct meeting_now now[FRAGMENTS_MOST];

    if (job->shards.evidence.open == 0 || job_ended(job))
        return;
    open_look(now, job);
    for (uint32_t f = 0; f < spec_fragments(job->spec->train); f++) {
        if (now[f].most > 0 && now[f].least >= now[f].quorum)
            now[f].grace_ms = open_grace_ms(c, job);
        if (meeting_ends(&job->meeting[f], &now[f], coord_now(c)))
            open_tell(c, job, f);
    }
}

static void open_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    struct meeting_now now[FRAGMENTS_MOST];
    uint32_t least = 0;

    suspects_fill(m, job);
    if (job->shards.evidence.open == 0)
        return;
    open_look(now, job);
    for (uint32_t f = 0; f < spec_fragments(job->spec->train); f++) {
        if (now[f].least > least)
            least = now[f].least;
        m->sum_wait_ms = fmax(m->sum_wait_ms, job->meeting[f].wait_ms);
    }
    m->round_held = (uint32_t)(least / job->paces.mean);
    m->round_slots = job->shards.evidence.open;
}

const struct mode mode_local_open = {
    .name = "local",
    .changes = true,
    .able = mode_local_able,
    .placed = open_placed,
    .offer = offers_work,
    .offers = offers_work_any,
    .slot = offers_slot,
    .check = open_check,
    .fill = open_fill,
};
