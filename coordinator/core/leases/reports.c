// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/reports.c -- the progress of attempts, and their
// ends.
#include "coordinator/core/leases/reports.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/order.h"
#include "common/run/log.h"
#include "common/run/spans.h"
#include "coordinator/core/leases/blame.h"
#include "coordinator/core/leases/choices.h"
#include "coordinator/core/leases/classes.h"
#include "coordinator/core/modes/copies.h"
#include "coordinator/core/leases/doubts.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/leases/guard.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/stall.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/leases/tainted.h"
#include "proto/spec.h"

static struct attempt attempt_of(const Sluice__V1__Attempt *m)
{
    return (struct attempt){m->term, m->n};
}

static struct meter_sums reports_metric_sums(const Sluice__V1__StepMetrics *m)
{
    return (struct meter_sums){
        .steps = m->steps,
        .samples = m->samples,
        .correct = m->correct,
        .skipped = m->skipped,
        .refused = m->refused,
        .loss_sum = m->loss_sum,
    };
}

// ---- metrics

static void take_conduct(struct work *w, const struct meter_sums *more)
{
    struct conduct *conduct = excluded_conduct(w->holder, w->job);
    uint64_t skipped =
        more->skipped < more->steps ? more->skipped : more->steps;
    uint64_t applied = more->steps - skipped;

    w->job->reports.good_steps += applied;
    tainted_contributed(w, more->steps);
    if (conduct != NULL)
        conduct_steps(conduct, w->closure.id, applied, skipped,
                      w->job->reports.good_steps);
}

// Returns the epoch of the work; for a ring about, as the ring may be at the
// next one already.
static uint32_t epoch_of(const struct work *w)
{
    return w->kind == WORK_RING ? evidence_epochs(&w->job->shards.evidence)
                                : (uint32_t)schedule_epoch(
                                      &w->job->shards.schedule, w->closure.id);
}

static void take_sums(struct work *w, const Sluice__V1__StepMetrics *m)
{
    struct work_sums *s = &w->sums;
    double more = (double)(m->sums - s->count);

    if (m->sums <= s->count || m->sent_bytes < s->sent_bytes ||
        !(m->wait_ms >= s->wait_ms))
        return;
    s->each_wait_ms = (m->wait_ms - s->wait_ms) / more;
    s->each_bytes = (double)(m->sent_bytes - s->sent_bytes) / more;
    s->count = m->sums;
    s->sent_bytes = m->sent_bytes;
    s->wait_ms = m->wait_ms;
}

// Says whether metrics are possible: others are not shown.
static bool plausible(const struct work *w, const Sluice__V1__StepMetrics *m)
{
    const struct schedule *s = &w->job->shards.schedule;
    uint64_t first, count = UINT64_MAX;

    if (w->kind == WORK_TRAIN && w->job->shards.placed) {
        schedule_closure_range(s, w->closure.id, &first, &count);
        if (m->steps > schedule_closure_steps(s, w->closure.id))
            return false;
    }
    return m->samples <= count && m->correct <= m->samples &&
           m->skipped <= m->steps && isfinite(m->wait_ms) &&
           isfinite(m->loss_scale) && m->loss_scale >= 0;
}

static void warn_metrics(const struct work *w, const Sluice__V1__StepMetrics *m)
{
    jobs_warn(w->job, JOB_WARN_METRICS,
              "worker %.60s reported impossible numbers, which are not shown: "
              "%llu steps, %llu samples, %llu right, loss sum %g",
              w->holder->name, (ull)m->steps, (ull)m->samples, (ull)m->correct,
              m->loss_sum);
}

// Says whether two workers may have the slot, so that only the one that
// completes it is counted.
static bool once(const struct work *w)
{
    return w->kind == WORK_TRAIN && spec_backup(w->job->spec->train) > 0;
}

// Takes an attempt's metrics; `done`: the closure is complete with them.
static void reports_apply_metrics(struct coord *c, struct work *w,
                                  const Sluice__V1__StepMetrics *m, bool done)
{
    struct meter_sums now = reports_metric_sums(m);
    struct meter_sums more;

    if (!plausible(w, m)) {
        warn_metrics(w, m);
        return;
    }
    busy_did(&w->holder->busy, &w->did,
             (struct busy_times){m->compute_ms, m->wait_ms, m->input_ms});
    // Skipped steps may have any loss.
    if (!isfinite(now.loss_sum))
        now.loss_sum = w->seen.loss_sum;
    if (w->job->shards.placed && w->kind != WORK_EVALUATE)
        meter_of_applied(&now, w->job->shards.schedule.batch);
    more = meter_delta(&w->seen, &now);
    if (w->kind == WORK_RING)
        take_sums(w, m);
    if (m->strange[0] != '\0')
        jobs_warn(w->job, JOB_WARN_SAMPLE, "the data is not finite: %.150s",
                  m->strange);
    if (m->loss_scale >= 1)
        w->job->reports.loss_scale = m->loss_scale;
    if (w->kind != WORK_TRAIN && w->kind != WORK_RING)
        return;
    if (more.steps > 0)
        take_conduct(w, &more);
    if (once(w))
        more = done ? now : (struct meter_sums){0};
    if (more.steps == 0)
        return;
    meter_loss_add(&w->job->reports.meter, epoch_of(w), &more);
    monitor_trained(c, w->job, &more);
    w->job->changes++;
}

void reports_ring_step(struct coord *c, struct member *m,
                       const Sluice__V1__RingStep *message)
{
    struct job *job = jobs_live(c, message->job, message->job_incarnation);

    if (job == NULL || message->metrics == NULL)
        return;
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->kind != WORK_RING || w->job != job)
            continue;
        if (job->cuts.now != NULL && message->sequence > job->cuts.round &&
            message->sequence <= job->ring.last)
            monitor_cut(job, job->cuts.now->n);
        reports_apply_metrics(c, w, message->metrics, false);
        doubts_over(c, m, job);
    }
}

// Forgets the closure's blame if this attempt counted steps: it got past the
// step that was blamed.
static void take_progress(struct coord *c, struct work *w, uint64_t steps)
{
    if (steps == 0 || w->closure.blamed_count == 0 || w->kind != WORK_TRAIN ||
        w->copy_of != NULL)
        return;
    closure_advanced(&w->closure);
    buf_reset(&w->story);
    coord_wrote(
        c, journal_absolve(c->journal, w->job->id, w->closure.id, &c->err));
}

void reports_progress(struct coord *c, struct member *m,
                      const Sluice__V1__LeaseProgress *message)
{
    struct work *w = leases_find(m, message->job, message->attempt);

    if (w == NULL) {
        stall_seen_before(c, m, message);
        return;
    }
    stall_seen(c, w, message);
    choices_heard(c, m, w->job, message);
    if (!doubts_samples(c, m, w->job, message->metrics))
        return;
    reports_apply_metrics(c, w, message->metrics, false);
    take_progress(c, w, w->seen.steps);
    if (!c->dead)
        excluded_judge(c, m, w->job);
}

// ---- endings

static void pause_worker(struct coord *c, struct member *m)
{
    m->pause_until_ms = coord_now(c) + MEMBER_PAUSE_MS;
}

// Says whether a job error is the worker's own fault. By default the job is
// wrong; but if none of this worker's numbers are finite and those of others
// are, the worker is.
static bool excused(struct coord *c, struct member *m, const struct job *job,
                    const Sluice__V1__AttemptFailed *message)
{
    return message->code == SL_ENUMERIC &&
           strcmp(job->spec->train->nonfinite, "skip") == 0 &&
           excluded_excuses(c, m, job);
}

static void say_failed(struct coord *c, const struct member *m,
                       const struct work *w,
                       const Sluice__V1__AttemptFailed *message)
{
    char name[64];

    happened_work(c, EVENT_CLOSURE_FAILED, w, m, "%s failed on %s: %s",
                  happened_name(name, w), m->name, message->text);
}

// Ends a lease for an error in a worker's data, which is no closure's fault.
static void end_unblamed(struct coord *c, struct work *w,
                         const Sluice__V1__AttemptFailed *message)
{
    closure_finish(&w->closure, attempt_of(message->attempt), SL_EPREEMPTED);
    leases_end(c, w, SPAN_FAILED);
    leases_settle(c, w);
}

static void end_blamed(struct coord *c, struct member *m, struct work *w,
                       const Sluice__V1__Attempt *attempt, enum sl_err code,
                       const char *text)
{
    // A failure is no hand-back.
    if (code == SL_OK || code == SL_EPREEMPTED || code == SL_ESTALE)
        code = SL_EINTERNAL;
    blame_weigh(c, w);
    closure_finish(&w->closure, attempt_of(attempt), code);
    leases_end(c, w, SPAN_FAILED);
    pause_worker(c, m);
    blame_work(c, w, m->witness, m->name, text);
}

// Notes that a closure is handed back: repeatedly so if a shard knows a newer
// attempt, a map never fits, or the place of its data does not answer.
static void note_drop(struct coord *c, struct member *m, struct work *w,
                      const char *why)
{
    if (m->draining || w->kind != WORK_TRAIN || w->copy_of != NULL ||
        !closure_dropped(&w->closure, coord_now(c)))
        return;
    LOG(WARN, "workers keep handing the closure back",
        "job=%s closure=%llu times=%u worker=%s why=%s", w->job->id_text,
        (ull)w->closure.id, w->closure.drops, m->name, why);
    snprintf(w->dropped, sizeof(w->dropped), "%s: %s", m->name, why);
    w->job->changes++;
}

// Returns true if the place of the data does not answer, which has answered a
// probe: it may be away for long, and each worker meets that, so no closure is
// to blame. It is tried again until it answers, ever more slowly
// (closure_dropped). An evaluation can be left out. A program of a user says
// SL_EUNAVAIL of whatever it likes, so the code alone does not do.
static bool unavailable(const struct work *w,
                        const Sluice__V1__AttemptFailed *message)
{
    return message->data && message->code == SL_EUNAVAIL &&
           !message->job_error && w->job->shards.placed &&
           w->kind != WORK_EVALUATE;
}

// Ends a lease that comes back undone and without blame; leases_settle is to
// follow.
static void end_returned(struct coord *c, struct member *m, struct work *w,
                         const Sluice__V1__Attempt *attempt,
                         enum lease_span_end how, const char *why)
{
    closure_finish(&w->closure, attempt_of(attempt), SL_EPREEMPTED);
    leases_end(c, w, how);
    pause_worker(c, m);
    note_drop(c, m, w, why);
}

static void note_failure(struct coord *c, struct member *m, struct job *job,
                         bool numeric)
{
    struct conduct *conduct = excluded_conduct(m, job);

    if (conduct == NULL || c->dead || job_ended(job) || excluded_now(c, m, job))
        return;
    conduct_failed(conduct);
    if (numeric)
        excluded_put(c, m, job, CONDUCT_SKIPS);
    else
        excluded_judge(c, m, job);
}

static void take_failure(struct coord *c, struct member *m, struct work *w,
                         const Sluice__V1__AttemptFailed *message)
{
    struct job *job = w->job;
    bool numeric = excused(c, m, job, message);
    bool against;

    against = message->job_error && !numeric;
    if (against && !doubts_heard(c, m, job, message))
        return;
    LOG(WARN, "attempt failed", "job=%s closure=%llu worker=%s why=%s",
        job->id_text, (ull)w->closure.id, m->name, message->text);
    say_failed(c, m, w, message);
    if (against && doubts_data(message))
        end_unblamed(c, w, message);
    else if (unavailable(w, message)) {
        end_returned(c, m, w, message->attempt, SPAN_FAILED, message->text);
        leases_settle(c, w);
    } else
        end_blamed(c, m, w, message->attempt, (enum sl_err)message->code,
                   message->text);
    if (against && !c->dead && !job_ended(job))
        doubts_put_aside(c, m, job, message);
    else
        note_failure(c, m, job, numeric);
}

void reports_failed(struct coord *c, struct member *m,
                    const Sluice__V1__AttemptFailed *message)
{
    struct job *job = jobs_get(c, message->job);
    struct work *w = leases_find(m, message->job, message->attempt);

    if (job != NULL && !job_ended(job) && w != NULL)
        take_failure(c, m, w, message);
}

void reports_hand_back(struct coord *c, struct member *m,
                       const Sluice__V1__HandBack *message)
{
    struct work *w = leases_find(m, message->job, message->attempt);
    struct job *job;
    bool trains;
    char name[64];

    if (w == NULL)
        return;
    job = w->job;
    trains = w->kind == WORK_TRAIN && w->closure.id == message->closure;
    happened_work(c, EVENT_CLOSURE_HANDED_BACK, w, m, "%s handed back %s: %s",
                  m->name, happened_name(name, w), message->why);
    LOG(INFO, "handed back", "job=%s closure=%llu worker=%s why=%s",
        w->job->id_text, (ull)w->closure.id, m->name, message->why);
    end_returned(c, m, w, message->attempt, SPAN_HANDED_BACK, message->why);
    if (trains)
        guard_handed_back(c, m, w, message);
    leases_settle(c, w);
    if (trains && !c->dead)
        suspects_take_own(c, m, job, message->closure, message->repeats,
                          message->n_repeats);
}

// ---- completions

// Checks for facts that no data set can have, or that this job cannot be
// evaluated on.
static enum sl_err check_facts(const struct job *job,
                               const Sluice__V1__DataFacts *facts,
                               struct sl_error *err)
{
    uint64_t most = facts->train_samples > facts->test_samples
                        ? facts->train_samples
                        : facts->test_samples;

    if (most > ORDER_MAX_SAMPLES)
        return sl_fail(err, SL_EINVAL,
                       "it names %llu samples of data; a set has at most %llu",
                       (ull)most, (ull)ORDER_MAX_SAMPLES);
    return spec_check_ranges(job->spec, facts->test_samples, err);
}

// Refuses a probe's impossible answer, as that worker's failure; if others
// report the same, it is the job's.
static void refuse_probe(struct coord *c, struct member *m, struct work *w,
                         const Sluice__V1__Complete *message,
                         const struct sl_error *why)
{
    LOG(WARN, "attempt failed", "job=%s closure=%llu worker=%s why=%s",
        w->job->id_text, (ull)w->closure.id, m->name, why->text);
    end_blamed(c, m, w, message->attempt, SL_EINVAL, why->text);
}

// Returns what the data lacks, or NULL. Without a test set the training is
// evaluated.
static const char *lacks(const struct job *job,
                         const Sluice__V1__DataFacts *facts)
{
    if (facts->train_samples == 0)
        return "its training data holds no sample";
    if (facts->test_samples == 0 && job->spec->data->test != NULL &&
        job->spec->evaluate->every_epochs > 0)
        return "its test data holds no sample to evaluate on";
    return NULL;
}

// Fails a probe that found no data, as if the worker had reported a wrong job.
static void probed_nothing(struct coord *c, struct member *m, struct work *w,
                           const Sluice__V1__Complete *message,
                           const char *text)
{
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;

    failed.job = message->job;
    failed.attempt = message->attempt;
    failed.code = SL_EINVAL;
    failed.text = (char *)text;
    failed.job_error = failed.data = true;
    take_failure(c, m, w, &failed);
}

// The probe's answer fixes the geometry; the first one counts.
static void complete_probe(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *w = leases_find(m, message->job, message->attempt);
    const Sluice__V1__DataFacts *facts = message->facts;
    struct sl_error why = SL_ERROR_INIT;

    if (w == NULL || w->kind != WORK_PROBE || facts == NULL)
        return;
    if (check_facts(job, facts, &why) != SL_OK) {
        refuse_probe(c, m, w, message, &why);
        return;
    }
    if (lacks(job, facts) != NULL) {
        probed_nothing(c, m, w, message, lacks(job, facts));
        return;
    }
    closure_finish(&w->closure, attempt_of(message->attempt), SL_OK);
    leases_end(c, w, SPAN_COUNTED);
    job->reports.facts = job_facts_of(facts);
    if (!coord_wrote(c, journal_job_facts(c->journal, job->id,
                                          &job->reports.facts, &c->err)) ||
        !coord_wrote(c, classes_take(c, job, facts)))
        return;
    job->reports.has_facts = true;
    doubts_first(job, m);
    doubts_over(c, m, job);
    LOG(INFO, "data probed", "job=%s train=%llu test=%llu worker=%s",
        job->id_text, (ull)facts->train_samples, (ull)facts->test_samples,
        m->name);
}

static void complete_range(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *w = leases_find(m, message->job, message->attempt);
    struct meter_sums sums = reports_metric_sums(message->metrics);
    struct evaluation *e = job->evaluations.running;
    enum sl_err rc;

    if (w == NULL || w->kind != WORK_EVALUATE || e == NULL)
        return;
    rc = evaluation_take(e, w->closure.id, &sums, message->metrics->scores);
    if (rc != SL_OK)
        blame_weigh(c, w);
    closure_finish(&w->closure, attempt_of(message->attempt),
                   rc == SL_OK ? SL_OK : SL_EINTERNAL);
    member_completes(m, coord_now(c), DISPATCH_AHEAD_MS, DISPATCH_LEASES_MOST);
    leases_end(c, w, rc == SL_OK ? SPAN_COUNTED : SPAN_FAILED);
    doubts_over(c, m, job);
    if (rc == SL_OK)
        leases_settle(c, w);
    else
        blame_work(
            c, w, m->witness, m->name,
            "its result does not cover the whole range, or lacks metrics");
    job->changes++;
}

static void note_item(const struct job *job, uint64_t closure,
                      const struct evidence_item *item)
{
    JOB_HISTORY(
        job, "completion",
        " closure=%llu shard=%u from=%llu newest=%llu "
        "believed=%d",
        (ull)closure, item->shard, (ull)item->incarnation,
        (ull)job->shards.evidence.shard[item->shard].incarnation,
        counted_closure_full(
            evidence_counted(&job->shards.evidence, item->shard), closure));
}

// Takes a completion on all shards at once: the work does not grow with their
// number (W2).
static enum sl_err take_by_map(struct job *job,
                               const Sluice__V1__Complete *message, bool *full)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t version = message->map_version;
    enum sl_err rc;

    // A version that was never sent names no incarnation.
    if (version > job->map.version)
        version = 0;
    rc = evidence_complete_by_map(&job->shards.evidence, message->closure,
                                  version, full);
    for (uint32_t i = 0; rc == SL_OK && history_on() && i < job->shards.count;
         i++) {
        const struct evidence_shard *s = &e->shard[i];
        bool named = s->named != 0 && s->named <= version;

        note_item(job, message->closure,
                  &(struct evidence_item){
                      .shard = i, .incarnation = named ? s->incarnation : 0});
    }
    return rc;
}

static enum sl_err
take_evidence(struct job *job, const Sluice__V1__Complete *message, bool *full)
{
    struct evidence_item *items =
        sl_malloc_array(message->n_evidence, sizeof(*items));
    enum sl_err rc;

    if (items == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < message->n_evidence; i++) {
        items[i].shard = message->evidence[i]->shard;
        items[i].incarnation = message->evidence[i]->incarnation;
        items[i].held = message->evidence[i]->held;
        items[i].closed = message->evidence[i]->closed;
    }
    rc = evidence_complete(&job->shards.evidence, message->closure, items,
                           message->n_evidence, full);
    for (size_t i = 0; rc == SL_OK && i < message->n_evidence; i++)
        if (items[i].shard < job->shards.count)
            note_item(job, message->closure, &items[i]);
    sl_free(items);
    return rc;
}

#define AGO_MOST_MS 1000 // a worker holds nothing back for longer

// Returns when the attempt ended: its completion may have been held back to go
// with others.
static uint64_t ended_ms(const struct coord *c, const struct member *m,
                         const Sluice__V1__Complete *message)
{
    uint64_t ago = sl_min(message->ago_ms, AGO_MOST_MS);
    uint64_t now = coord_now(c);

    // it cannot have ended before the previous one
    if (now - m->lease_from_ms < ago)
        ago = now - m->lease_from_ms;
    return now - ago;
}

// The first lease of a stream ends last (L8), and shards count its closure
// once: what ends behind it proves that the worker gets on.
static void prove_stream(struct member *m, const struct job *job, uint64_t now)
{
    if (job_streams(job) == 0)
        return;
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job != job)
            continue;
        w->proven_ms = now;
        w->proving = false;
    }
}

static void complete_train(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *held = leases_find(m, message->job, message->attempt);
    uint64_t ended = ended_ms(c, m, message);
    bool full = false, done;

    // Any worker can claim any completion. The claim of a worker that was given
    // up is found out anew, at the first question of the next one.
    if (held == NULL || held->kind != WORK_TRAIN ||
        held->closure.id != message->closure)
        return;
    if (!job->shards.placed ||
        (message->map_version != 0
             ? take_by_map(job, message, &full)
             : take_evidence(job, message, &full)) != SL_OK)
        return;
    FAULT("closure.done");
    if (job->mode->completed != NULL)
        job->mode->completed(job, message->closure, ended);
    job->changes++;
    job->reports.moved_ms = coord_now(c);
    // Not full: some of its evidence was void. Issued again by C3. A
    // contribution that is held frees the worker, and is issued again if it is
    // lost (Y3).
    done =
        full || evidence_closure_held(&job->shards.evidence, message->closure);
    reports_apply_metrics(c, held, message->metrics, done);
    closure_finish(&held->closure, attempt_of(message->attempt),
                   done ? SL_OK : SL_ESTALE);
    member_completes(m, ended, offers_ahead_ms(c, job, m),
                     offers_leases_most(job));
    if (!done)
        happened_work(c, EVENT_CLOSURE_STALE, held, m,
                      "closure %llu is not counted everywhere: a shard came "
                      "back with fewer counted steps while %s had it",
                      (ull)held->closure.id, m->name);
    leases_end(c, held, done ? SPAN_COUNTED : SPAN_STALE);
    doubts_over(c, m, job);
    if (done) {
        prove_stream(m, job, coord_now(c));
        copies_first(c, held);
    } else {
        leases_settle(c, held);
    }
    if (!c->dead)
        excluded_judge(c, m, job);
    if (!c->dead)
        suspects_take(c, m, job, message);
    if (!c->dead && done)
        guard_take(c, m, job, message);
    if (done)
        paces_take(m, job, message->change);
}

static struct job *reports_complete_attempt(struct coord *c, struct member *m,
                                            const Sluice__V1__Complete *message)
{
    struct job *job = jobs_live(c, message->job, message->job_incarnation);

    if (job == NULL)
        return NULL;
    if (leases_find(m, message->job, message->attempt) != NULL &&
        !doubts_samples(c, m, job, message->metrics))
        return NULL; // the worker is put aside, or the job has failed
    switch (message->kind) {
    case SLUICE__V1__LEASE_KIND__LEASE_TRAIN:
        complete_train(c, m, job, message);
        break;
    case SLUICE__V1__LEASE_KIND__LEASE_EVALUATE:
        complete_range(c, m, job, message);
        break;
    case SLUICE__V1__LEASE_KIND__LEASE_PROBE:
        complete_probe(c, m, job, message);
        break;
    default:
        return NULL;
    }
    return job;
}

struct job *reports_complete(struct coord *c, struct member *m,
                             const Sluice__V1__Complete *message)
{
    uint64_t began = span_begin();
    struct job *job = reports_complete_attempt(c, m, message);

    span_end(began, "complete", SPANS_LOOP,
             span_of_closure(message->job, message->closure));
    return job;
}
