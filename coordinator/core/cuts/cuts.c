// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/cuts.c -- snapshots that are asked for and collected,
// until they make a cut that can be published.
#include "coordinator/core/cuts/cuts.h"

#include <stdio.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/cuts/publish.h"
#include "coordinator/core/send.h"

#define MISSES_MAX 8

// Notes why a cut was given up or is late, for people; without memory there is
// no text.
static void cuts_note_why(struct job *job, const char *why)
{
    sl_free(job->cuts.why);
    job->cuts.why = sl_strdup(why);
    job->changes++;
}

void cuts_trouble(const struct job *job, char *out, size_t size)
{
    bool late = job->cuts.now != NULL && job->cuts.now->late > 0;

    snprintf(out, size, "%s%s",
             job->cuts.why == NULL ? ""
             : late                ? "the checkpoint under way is late: "
                                   : "the last checkpoint was given up: ",
             job->cuts.why == NULL ? "" : job->cuts.why);
}

static void cuts_drop_with_backoff(struct coord *c, struct job *job,
                                   const char *why, uint64_t again_ms)
{
    LOG(WARN, "cut given up", "job=%s cut=%llu why=%s", job->id_text,
        (ull)job->cuts.now->n, why);
    happened_job(c, EVENT_CUT_FAILED, job, NULL,
                 "checkpoint %llu was given up: %s", (ull)job->cuts.now->n,
                 why);
    cut_free(job->cuts.now);
    job->cuts.now = NULL;
    cuts_note_why(job, why);
    job->cuts.after_ms = coord_now(c) + again_ms;
    figures_cut(c, FIGURES_GIVEN_UP);
}

// A rank's word on its round holds for the next try alone: if it was not true,
// later cuts are not to wait for it.
void cuts_give_up(struct coord *c, struct job *job, const char *why)
{
    job->cuts.misses = 0;
    job->cuts.seen = 0;
    cuts_drop_with_backoff(c, job, why, CUT_RETRY_MS);
}

void cuts_begin_again(struct coord *c, struct job *job, const char *why)
{
    cuts_drop_with_backoff(c, job, why, 0);
}

void cuts_wait(struct coord *c, struct job *job, uint64_t ms)
{
    job->cuts.turn_ms = coord_now(c) + ms;
}

static void cuts_ask_shard(struct coord *c, struct job *job, uint32_t shard)
{
    if (job->shards.list[shard].server == 0)
        return;
    cut_ask(job->cuts.now, shard, &job->shards.evidence);
    send_snapshot(c, job->shards.list[shard].server, job, shard);
}

static void cuts_begin(struct coord *c, struct job *job, enum cut_why why)
{
    static const char *const names[] = {"",      "final", "epoch",
                                        "steps", "time",  "asked"};

    job->cuts.now = cut_new(job->cuts.last + 1, (c->term << 32) | ++c->requests,
                            job->shards.count, coord_now(c));
    if (job->cuts.now == NULL)
        return; // the next tick tries again
    job->cuts.last++;
    job->cuts.now->one_round = job->mode->cut_round != NULL;
    job->cuts.round =
        job->mode->cut_round != NULL ? job->mode->cut_round(job) : 0;
    if (job->cuts.round == 0)
        monitor_cut(job, job->cuts.now->n);
    FAULT("cut.request");
    LOG(INFO, "cut begun", "job=%s cut=%llu why=%s", job->id_text,
        (ull)job->cuts.now->n, names[why]);
    for (uint32_t i = 0; i < job->shards.count; i++)
        cuts_ask_shard(c, job, i);
}

static struct cut_when cuts_gather_when(struct coord *c, const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);
    const Sluice__V1__CheckpointSpec *spec = job->spec->checkpoint;

    return (struct cut_when){
        .all_counted = evidence_full(&job->shards.evidence),
        .last_full = job_cut_complete(job),
        .epochs = evidence_epochs(&job->shards.evidence),
        .last_epochs = last == NULL ? 0 : last->epochs,
        .every_epoch = spec->every_epoch,
        .evaluate_every = job->external || job->spec->evaluate == NULL
                              ? 0
                              : job->spec->evaluate->every_epochs,
        .marks = evaluations_marks(job, evidence_steps(&job->shards.evidence)),
        .last_marks =
            last == NULL ? 0 : evaluations_marks(job, last->checkpoint->steps),
        .every_ms = spec_checkpoint_ms(spec),
        .since_ms = coord_now(c) - job->cuts.last_ms,
        .steps = evidence_steps(&job->shards.evidence),
        .last_steps = last == NULL ? 0 : last->checkpoint->steps,
        .asked =
            job->cuts.wish.made && job_granted(job, &job->cuts.wish) == NULL,
    };
}

// ---- late shards

#define SLOTS_MOST 3 // an optimizer's slots, and the parameters

static uint64_t largest_bytes(const struct job *job)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < job->shards.count; i++)
        if (job->shards.list[i].elements > most)
            most = job->shards.list[i].elements;
    return most * sizeof(float) * SLOTS_MOST;
}

// Asks shards again that have not reported; the files at hand stay good.
static void cuts_ask_missing(struct coord *c, struct job *job,
                             uint64_t waited_ms)
{
    uint32_t missing = 0, first = 0;
    char why[160];

    for (uint32_t i = job->shards.count; i-- > 0;) {
        if (job->cuts.now->shard[i].reported)
            continue;
        missing++;
        first = i;
        cuts_ask_shard(c, job, i);
    }
    snprintf(why, sizeof(why),
             "shard %u on %s%s not written its file for %llu s", first,
             job->shards.list[first].psserver,
             missing > 1 ? " and others have" : " has", (ull)waited_ms / 1000);
    LOG(WARN, "cut takes long", "job=%s cut=%llu missing=%u why=%s",
        job->id_text, (ull)job->cuts.now->n, missing, why);
    cuts_note_why(job, why);
    job->cuts.now->moved_ms = coord_now(c);
    job->cuts.now->late++;
}

static void check_late(struct coord *c, struct job *job)
{
    uint64_t waited = coord_now(c) - job->cuts.now->moved_ms;

    if (waited < cut_patience_ms(job->cuts.now, largest_bytes(job)))
        return;
    if (job->cuts.now->one_round)
        cuts_give_up(c, job, "not every rank reported in time");
    else
        cuts_ask_missing(c, job, waited);
}

bool cuts_awaited(const struct job *job)
{
    return job->cuts.stop_after || job->pause.row.state == JOURNAL_PAUSE_WANTED;
}

void cuts_check(struct coord *c, struct job *job)
{
    uint64_t now = coord_now(c);
    struct cut_when is;
    enum cut_why why;

    if (job->cuts.now != NULL) {
        if (job->cuts.now->writing)
            return;
        if (cut_publishable(job->cuts.now, &job->shards.evidence)) {
            job->cuts.misses = 0;
            job->cuts.seen = 0;
            if (publish_cut(c, job) != SL_OK)
                cuts_give_up(c, job, "out of memory");
        } else {
            check_late(c, job);
        }
        return;
    }
    if (job->state == JOB_PLACING || !job_served(job) ||
        now < job->cuts.after_ms ||
        (now < job->cuts.turn_ms && !cuts_awaited(job)))
        return;
    is = cuts_gather_when(c, job);
    why = cut_due(&is);
    if (why != CUT_NOT)
        cuts_begin(c, job, why);
}

bool cuts_worth(const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);

    return (job->state == JOB_RUNNING || job->state == JOB_FINISHING) &&
           !job->behind.paused && job_served(job) &&
           job_steps(job) > (last == NULL ? 0 : last->checkpoint->steps);
}

struct cut_wish cuts_wish_now(const struct job *job)
{
    return (struct cut_wish){
        .made = true,
        // Until all shards have come back it is not known what they have
        // counted: then only a later cut will do.
        .steps = job_served(job) ? job_steps(job) : UINT64_MAX,
        .after = job->cuts.last,
    };
}

bool cuts_want(struct job *job, const struct cut_wish *wish)
{
    struct cut_wish both = cut_wish_both(job->cuts.wish, *wish);
    bool more = !job->cuts.wish.made || both.steps > job->cuts.wish.steps ||
                both.after > job->cuts.wish.after;

    job->cuts.wish = both;
    return more;
}

// Gives a cut up after a failed snapshot. A rank that had passed the round says
// its own in the tag, and the cut is tried again beyond it.
static void cuts_snapshot_failed(struct coord *c, struct job *job,
                                 const Sluice__V1__SnapshotReport *report)
{
    if (!job->cuts.now->one_round || report->tag->sequence <= job->cuts.round ||
        job->cuts.misses == MISSES_MAX) {
        cuts_give_up(c, job, report->failure);
        return;
    }
    job->cuts.misses++;
    job->cuts.seen = report->tag->sequence;
    cuts_begin_again(c, job, report->failure);
}

// Corrects evidence that a file belies: the file was written after it was asked
// for, so it holds all that the shard had counted until then (a worker
// completed steps that it had not pushed). The file's counted set takes the
// place of the evidence: steps that it lacks are issued again (C3), and a
// worker that pushes a step counted meanwhile is told so (S2).
static void correct(struct coord *c, struct job *job, uint32_t shard)
{
    uint64_t incarnation = job->shards.evidence.shard[shard].incarnation;
    struct cut_shard *from = &job->cuts.now->shard[shard];
    struct counted counted;

    if (counted_copy(&counted, &from->counted) != SL_OK)
        return;
    LOG(WARN, "shard has not counted a closure that a worker completed",
        "job=%s shard=%u believed=%llu counted=%llu", job->id_text, shard,
        (ull)from->asked.steps, (ull)counted_steps(&from->counted));
    evidence_admit(&job->shards.evidence, shard, incarnation, &counted);
    from->asked.steps = counted_steps(&from->counted);
    from->asked.low = counted_low(&from->counted);
    job->cuts.after_ms = coord_now(c) + CUT_RETRY_MS;
    job->changes++;
}

static void check_finite(struct job *job,
                         const Sluice__V1__SnapshotReport *report,
                         const struct member *m)
{
    if (report->not_finite[0] != '\0')
        jobs_warn(job, JOB_WARN_VALUES,
                  "values of %.100s are not finite any more (shard %u on %.60s)"
                  ": updates made them overflow",
                  report->not_finite, report->shard, m->name);
}

struct job *cuts_report(struct coord *c, struct member *m,
                        const Sluice__V1__SnapshotReport *report)
{
    struct job *job = jobs_live(c, report->job, report->job_incarnation);
    struct sl_error err = SL_ERROR_INIT;

    if (job == NULL || job->cuts.now == NULL ||
        report->shard >= job->shards.count ||
        (report->job_uid != 0 && report->job_uid != job->uid) ||
        job->shards.list[report->shard].server != m->id)
        return NULL;
    if (report->failure[0] != '\0') {
        if (report->request == job->cuts.now->request &&
            !job->cuts.now->writing)
            cuts_snapshot_failed(c, job, report);
        return job;
    }
    if (wire_tag_cmp(wire_tag_of(report->tag),
                     job->shards.list[report->shard].cut) < 0)
        return NULL; // cuts do not go back
    if (cut_take(job->cuts.now, report, m->name, m->address,
                 &job->shards.evidence, &err) != SL_OK) {
        LOG(INFO, "snapshot not taken", "job=%s shard=%u why=%s", job->id_text,
            report->shard, err.text);
        return NULL;
    }
    job->cuts.now->moved_ms = coord_now(c);
    check_finite(job, report, m);
    job_counts_take(job, report->shard, report->counts);
    if (cut_belies(job->cuts.now, report->shard, report->request))
        correct(c, job, report->shard);
    return job;
}

void cuts_admitted(struct coord *c, struct job *job, uint32_t shard,
                   bool renewed)
{
    if (job->cuts.now == NULL || job->cuts.now->writing)
        return;
    if (!renewed)
        cut_void(job->cuts.now,
                 shard); // its file is of a memory that is gone (K4)
    if (!job->cuts.now->shard[shard].reported)
        cuts_ask_shard(c, job, shard);
}
