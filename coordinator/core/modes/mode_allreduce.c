// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_allreduce.c -- mode allreduce: the workers are
// ranks of a ring; each keeps the whole state and writes parts of its cuts.
#include <stdio.h>

#include "common/base/num.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/job.h"
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/modes/ring_rows.h"
#include "coordinator/core/modes/rings.h"
#include "coordinator/core/send.h"
#include "coordinator/core/status/job_status.h"
#include "plan/round.h"
#include "proto/spec.h"

#define PARTS_MAX 16 // parts of the state that ranks keep
#define AHEAD_MS 250 // reports and requests of a ring take less

// ---- place

static bool allreduce_able(const struct member *m)
{
    return m->ranks;
}

// Refuses a ring without a worker that could write its checkpoints: the job
// would train to its last step and never end. Workers that are not attached yet
// may be other ones.
static enum sl_err allreduce_judge(const struct coord *c,
                                   const Sluice__V1__JobSpec *spec,
                                   struct sl_error *err)
{
    bool external = spec_external(spec), without = false;

    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (m->role != MEMBER_WORKER || m->external != external)
            continue;
        if (!m->no_store)
            return SL_OK;
        without = true;
    }
    return !without
               ? SL_OK
               : sl_fail(err, SL_ESTATE,
                         "train.mode allreduce: no attached worker can write a "
                         "checkpoint, so the job would not end: start workers "
                         "with --store FOLDER (store= of a program)");
}

// Checks that the cut can be the one state of a ring: all of it has counted the
// same steps.
static enum sl_err allreduce_resumes(const Sluice__V1__ResumeSource *from,
                                     struct sl_error *err)
{
    return from->even ? SL_OK
                      : sl_fail(err, SL_EINVAL,
                                "the shards of cut %llu of job j-%llu have "
                                "counted different steps, so it is no state "
                                "of a ring: resume it in async, or take a cut "
                                "of a job's end",
                                (ull)from->cut->checkpoints[0]->cut,
                                (ull)from->cut->job);
}

// Returns about as many parts as there are ranks to write them.
static uint32_t allreduce_parts(const struct coord *c,
                                const Sluice__V1__JobSpec *spec)
{
    uint32_t parts = spec->train->workers->max;

    if (parts == 0 || parts > c->members.workers)
        parts = c->members.workers;
    return parts == 0 ? 1 : parts < PARTS_MAX ? parts : PARTS_MAX;
}

static void allreduce_placed(struct job *job)
{
    ring_init(
        &job->ring, 0, job->spec->train->workers->min, RING_FIRST_MS,
        schedule_steps(&job->shards.schedule)); // at least one step per shard
}

static enum sl_err allreduce_load(const struct coord *c, struct job *job,
                                  uint64_t incarnation, struct sl_error *err)
{
    enum sl_err rc =
        journal_ring_read(c->journal, job->id, &job->rounds.contributions, err);

    job->ring.generation = incarnation;
    if (rc == SL_OK)
        rc = journal_ring_redone_read(c->journal, job->id, &job->rounds.redone,
                                      err);
    return rc;
}

// ---- offer

// Offers a place in the ring, or to a rank with the state a range: ranks
// evaluate as well, between two rounds.
static struct offer allreduce_offer(struct coord *c, struct job *job,
                                    const struct member *m)
{
    if (leases_ring_job(m) == job)
        return job_served(job) && rings_in(job, m)
                   ? offers_range(c, job, m)
                   : (struct offer){.kind = WORK_NONE};
    return offers_yields(c, job) ? (struct offer){.kind = WORK_NONE}
                                 : offers_place(rings_offer(job));
}

static bool allreduce_offers(struct coord *c, struct job *job, bool newcomer)
{
    return newcomer ? rings_want(job) && !offers_yields(c, job)
                    : job_served(job) && offers_has_range(job);
}

static void allreduce_rise(struct job *job, struct member *m,
                           const struct work *w)
{
    (void)w;
    (void)ring_leave(&job->ring, m->id);
}

// ---- report

static bool allreduce_has_state(const struct job *job)
{
    return job->ring.generation > 0;
}

static bool allreduce_runs(const struct job *job)
{
    return job->ring.state == RING_RUNNING && !job->ring.torn;
}

// Returns the round behind which the ring waits for an evaluation, or for
// nothing more: no rank gets beyond it, so a cut of a later one would wait,
// too.
static uint64_t allreduce_last_round(const struct job *job)
{
    uint64_t left;
    enum sl_err rc =
        round_left(evidence_counted(&job->shards.evidence, 0),
                   job->rounds.contributions, evaluations_hold(job), &left);

    return rc == SL_OK ? job->rounds.counted + left : UINT64_MAX;
}

// Returns a round that no rank has passed when it is asked, so that the parts
// are of one round (R6). Each miss doubles the rounds that are added to the
// last known one.
static uint64_t allreduce_cut_round(const struct job *job)
{
    double ahead = job->rounds.each_ms > 0 ? AHEAD_MS / job->rounds.each_ms : 0;
    uint64_t known =
        job->cuts.seen > job->ring.highest ? job->cuts.seen : job->ring.highest;

    if (evidence_full(&job->shards.evidence) || evaluations_hold_it(job))
        return 0;
    return sl_min(known + ((2 + (uint64_t)ahead) << job->cuts.misses),
                  allreduce_last_round(job));
}

// Sends Keep to every rank, since any may have written a file of the part; of a
// shard beside the ring, to its psserver.
static void allreduce_keep(struct coord *c, struct job *job, uint32_t part)
{
    if (!job_on_workers(job, part)) {
        send_keep(c, job->shards.list[part].server, job, part);
        return;
    }
    for (uint32_t i = 0; i < job->ring.count; i++)
        send_keep(c, job->ring.rank[i].member, job, part);
}

// ---- status

static void allreduce_waits(const struct coord *c, const struct job *job,
                            char *out, size_t size)
{
    const struct ring *r = &job->ring;
    uint32_t answered = 0, ready = 0;

    if (job->warnings[JOB_WARN_REACH] != NULL) {
        snprintf(out, size, "%s", job->warnings[JOB_WARN_REACH]);
        return;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        answered += r->rank[i].in && r->rank[i].answered;
        ready += r->rank[i].in && r->rank[i].ready;
    }
    if (r->count < r->min && status_reason_older(c, job, out, size))
        return;
    if (r->count < r->min)
        snprintf(out, size,
                 "waiting for %sworkers: %u of at least %u are in the ring",
                 job->external ? "external " : "", r->count, r->min);
    else if (ring_rows_waits(c, job, out, size))
        return;
    else if (r->state == RING_COPYING)
        snprintf(out, size, "%u of %u ranks have the state to start from",
                 ready, r->members);
    else if (r->state == RING_OPENING)
        snprintf(out, size, "forming the ring again: %u of %u ranks answered",
                 answered, r->members);
    else
        snprintf(out, size, "the ring is made anew");
}

static void allreduce_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    m->ring_ranks = job->ring.members;
    m->ring_generation = job->ring.generation;
    m->steps_redone = job->rounds.redone;
    rings_fill_sums(m, job);
    suspects_fill(m, job);
}

const struct mode mode_allreduce = {
    .name = "allreduce",
    .on_workers = true,
    .seat = "rank",
    .where = "every worker keeps all of it; checkpoints are written in parts\n",
    .able = allreduce_able,
    .judge = allreduce_judge,
    .resumes = allreduce_resumes,
    .parts = allreduce_parts,
    .placed = allreduce_placed,
    .load = allreduce_load,
    .computes = rings_in,
    .offer = allreduce_offer,
    .offers = allreduce_offers,
    .rise = allreduce_rise,
    .receive = rings_receive,
    .hello = ring_rows_hello,
    .refuse = rings_refuse,
    .check = rings_check,
    .has_state = allreduce_has_state,
    .runs = allreduce_runs,
    .cut_round = allreduce_cut_round,
    .keep = allreduce_keep,
    .waits = allreduce_waits,
    .fill = allreduce_fill,
};
