// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_report.c -- how attempts end.
//
// Completions are believed by the incarnations that their evidence is from
// (C1, W2), whatever attempt or term they come from; leases end by attempt.
// The two are independent: evidence says what is counted, the lease only who
// is at it.
#include "coordinator/core/coord_impl.h"

#include <stdio.h>
#include <string.h>

#include "common/base/broken.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"

static struct attempt attempt_of(const Sluice__V1__Attempt *m)
{
    return (struct attempt){m->term, m->n};
}

static struct meter_sums sums_of(const Sluice__V1__StepMetrics *m)
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

// The lease of this attempt that the member holds, or NULL.
static struct work *find_lease(struct member *m, uint64_t job,
                               const Sluice__V1__Attempt *attempt)
{
    struct attempt want = attempt_of(attempt);

    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job->id == job && attempt_equal(w->closure.attempt, want))
            return w;
    }
    return NULL;
}

void coord_settle_work(struct coord *c, struct work *w)
{
    struct job *job = w->job;
    struct sl_error err = SL_ERROR_INIT;
    enum closure_state state = w->closure.state;

    if (w->kind != WORK_TRAIN)
        return;
    if (state == CLOSURE_WAITING &&
        (w->closure.again || w->closure.blamed_count > 0))
        return;
    if (state == CLOSURE_LEASED)
        return;
    if (w->closure.blamed_count > 0 && state == CLOSURE_DONE)
        coord_wrote(
            c, journal_absolve(c->journal, job->id, w->closure.id, &err), &err);
    map_remove(&job->active, w->closure.id);
    buf_release(&w->story);
    sl_free(w);
}

// ---- metrics

static void take_conduct(struct work *w, const struct meter_sums *more)
{
    struct conduct *conduct = coord_conduct(w->holder, w->job);
    uint64_t skipped =
        more->skipped < more->steps ? more->skipped : more->steps;
    uint64_t applied = more->steps - skipped;

    w->job->good_steps += applied;
    if (conduct != NULL)
        conduct_steps(conduct, w->closure.id, applied, skipped,
                      w->job->good_steps);
}

static void take_metrics(struct work *w, const Sluice__V1__StepMetrics *m)
{
    struct meter_sums now = sums_of(m);
    struct meter_sums more = meter_delta(&w->seen, &now);

    if (m->loss_scale >= 1)
        w->job->loss_scale = m->loss_scale;
    if (w->kind != WORK_TRAIN || more.steps == 0)
        return;
    take_conduct(w, &more);
    meter_loss_add(&w->job->meter,
                   (uint32_t)schedule_epoch(&w->job->schedule, w->closure.id),
                   &more);
    w->job->changes++;
}

// Steps that this attempt counted: what it is blamed for is behind it.
static void take_progress(struct coord *c, struct work *w, uint64_t steps)
{
    struct sl_error err = SL_ERROR_INIT;

    if (steps == 0 || w->closure.blamed_count == 0 || w->kind != WORK_TRAIN)
        return;
    closure_advanced(&w->closure);
    buf_reset(&w->story);
    coord_wrote(c, journal_absolve(c->journal, w->job->id, w->closure.id, &err),
                &err);
}

void coord_progress(struct coord *c, struct member *m,
                    const Sluice__V1__LeaseProgress *message)
{
    struct work *w = find_lease(m, message->job, message->attempt);

    if (w == NULL)
        return;
    coord_stall_heard(c, w, message);
    take_metrics(w, message->metrics);
    take_progress(c, w, message->metrics->steps);
    if (!c->dead)
        coord_conduct_judge(c, m, w->job);
}

// ---- endings

static const char *name_work(const struct work *w, char *out, size_t size)
{
    const struct schedule *s = &w->job->schedule;
    uint64_t first, count;

    if (w->kind == WORK_PROBE) {
        snprintf(out, size, "opening the data");
    } else if (w->kind == WORK_EVALUATE) {
        snprintf(out, size,
                 "the evaluation of test samples %llu..%llu against cut %llu",
                 (unsigned long long)w->first,
                 (unsigned long long)(w->first + w->count - 1),
                 (unsigned long long)w->cut);
    } else {
        schedule_closure_range(s, w->closure.id, &first, &count);
        snprintf(out, size, "closure %llu (epoch %llu, samples %llu..%llu)",
                 (unsigned long long)w->closure.id,
                 (unsigned long long)schedule_epoch(s, w->closure.id) + 1,
                 (unsigned long long)first,
                 (unsigned long long)(first + count - 1));
    }
    return out;
}

void coord_bad_end(struct coord *c, struct work *w, const char *who,
                   const char *how)
{
    struct job *job = w->job;
    struct sl_error err = SL_ERROR_INIT;
    char what[200];

    buf_appendf(&w->story, "%s%s (%s)", w->story.len > 0 ? ", " : "", who, how);
    if (w->kind == WORK_TRAIN &&
        !coord_wrote(c,
                     journal_blame(c->journal, job->id, w->closure.id,
                                   w->closure.worker, &err),
                     &err))
        return;
    if (w->closure.state == CLOSURE_FAILED)
        coord_fail_job(c, job, "%s did not end on %u distinct workers: %s",
                       name_work(w, what, sizeof(what)),
                       w->closure.blamed_count, buf_text(&w->story));
}

static void pause_worker(struct coord *c, struct member *m)
{
    m->pause_until_ms = coord_now(c) + MEMBER_PAUSE_MS;
}

// The job itself is wrong, whoever says it; but if nothing that this worker
// computes is finite, and what others compute is, then it is the worker.
static bool excused(struct coord *c, struct member *m, const struct job *job,
                    const Sluice__V1__AttemptFailed *message)
{
    return message->code == SL_ENUMERIC &&
           strcmp(job->spec->train->nonfinite, "skip") == 0 &&
           coord_conduct_excuses(c, m, job);
}

static void note_failure(struct coord *c, struct member *m, struct job *job,
                         bool numeric)
{
    struct conduct *conduct = coord_conduct(m, job);

    if (conduct == NULL || c->dead || job_ended(job) || coord_aside(c, m, job))
        return;
    conduct_failed(conduct);
    if (numeric)
        coord_put_aside(c, m, job, CONDUCT_SKIPS);
    else
        coord_conduct_judge(c, m, job);
}

void coord_failed(struct coord *c, struct member *m,
                  const Sluice__V1__AttemptFailed *message)
{
    struct job *job = coord_job(c, message->job);
    struct work *w = find_lease(m, message->job, message->attempt);
    bool numeric;
    enum sl_err code =
        message->code == SL_OK ? SL_EINTERNAL : (enum sl_err)message->code;

    if (job == NULL || job_ended(job))
        return;
    numeric = excused(c, m, job, message);
    if (message->job_error && !numeric) {
        coord_fail_job(c, job, "%s (said by worker '%s')", message->text,
                       m->name);
        return;
    }
    if (w == NULL)
        return;
    LOG(WARN, "attempt failed", "job=%s closure=%llu worker=%s why=%s",
        job->id_text, (unsigned long long)w->closure.id, m->name,
        message->text);
    if (code == SL_EPREEMPTED || code == SL_ESTALE)
        code = SL_EINTERNAL; // a failure is no hand-back
    closure_finish(&w->closure, attempt_of(message->attempt), code);
    coord_unlease(w);
    pause_worker(c, m);
    coord_bad_end(c, w, m->name, message->text);
    note_failure(c, m, job, numeric);
}

void coord_hand_back(struct coord *c, struct member *m,
                     const Sluice__V1__HandBack *message)
{
    struct work *w = find_lease(m, message->job, message->attempt);

    if (w == NULL)
        return;
    LOG(INFO, "handed back", "job=%s closure=%llu worker=%s why=%s",
        w->job->id_text, (unsigned long long)w->closure.id, m->name,
        message->why);
    closure_finish(&w->closure, attempt_of(message->attempt), SL_EPREEMPTED);
    coord_unlease(w);
    pause_worker(c, m);
    coord_settle_work(c, w);
}

// ---- completions

// The probe's answer fixes the geometry; the first one counts.
static void complete_probe(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *w = find_lease(m, message->job, message->attempt);
    const Sluice__V1__DataFacts *facts = message->facts;
    struct sl_error err = SL_ERROR_INIT;

    if (w == NULL || w->kind != WORK_PROBE || facts == NULL)
        return;
    closure_finish(&w->closure, attempt_of(message->attempt), SL_OK);
    coord_unlease(w);
    if (facts->train_samples == 0) {
        coord_fail_job(c, job, "its training data holds no sample");
        return;
    }
    if (facts->test_samples == 0 && job->spec->evaluate != NULL &&
        job->spec->evaluate->every_epochs > 0) {
        coord_fail_job(c, job, "its test data holds no sample to evaluate on");
        return;
    }
    job->facts =
        (struct journal_facts){facts->train_samples, facts->test_samples,
                               facts->train_hash, facts->test_hash};
    if (!coord_wrote(
            c, journal_job_facts(c->journal, job->id, &job->facts, &err), &err))
        return;
    job->has_facts = true;
    LOG(INFO, "data probed", "job=%s train=%llu test=%llu worker=%s",
        job->id_text, (unsigned long long)facts->train_samples,
        (unsigned long long)facts->test_samples, m->name);
}

static void complete_range(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *w = find_lease(m, message->job, message->attempt);
    struct meter_sums sums = sums_of(message->metrics);
    struct evaluation *e = job->evaluation;
    enum sl_err rc;

    if (w == NULL || w->kind != WORK_EVALUATE || e == NULL)
        return;
    rc = evaluation_take(e, w->closure.id, &sums);
    closure_finish(&w->closure, attempt_of(message->attempt),
                   rc == SL_OK ? SL_OK : SL_EINTERNAL);
    member_completes(m, coord_now(c));
    coord_unlease(w);
    if (rc != SL_OK)
        coord_bad_end(c, w, m->name, "its result is not of the whole range");
    job->changes++;
}

static void note_item(const struct job *job, uint64_t closure,
                      const struct evidence_item *item,
                      const struct evidence_shard *shard)
{
    HISTORY("completion",
            "job=%llu uid=%llx closure=%llu shard=%u from=%llu newest=%llu "
            "believed=%d",
            (unsigned long long)job->id, (unsigned long long)job->uid,
            (unsigned long long)closure, item->shard,
            (unsigned long long)item->incarnation,
            (unsigned long long)shard->incarnation,
            counted_closure_full(&shard->counted, closure));
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
    }
    rc = evidence_complete(&job->evidence, message->closure, items,
                           message->n_evidence, full);
    for (size_t i = 0; rc == SL_OK && i < message->n_evidence; i++)
        if (items[i].shard < job->shards)
            note_item(job, message->closure, &items[i],
                      &job->evidence.shard[items[i].shard]);
    sl_free(items);
    return rc;
}

static void complete_train(struct coord *c, struct member *m, struct job *job,
                           const Sluice__V1__Complete *message)
{
    struct work *held = find_lease(m, message->job, message->attempt);
    struct work *w;
    bool full = false;

    if (!job->placed || take_evidence(job, message, &full) != SL_OK)
        return;
    FAULT("closure.done");
    job->changes++;
    if (held != NULL) {
        job->moved_ms = coord_now(c);
        take_metrics(held, message->metrics);
        // Not full: some of its evidence was void. Issued again by C3.
        closure_finish(&held->closure, attempt_of(message->attempt),
                       full ? SL_OK : SL_ESTALE);
        member_completes(m, coord_now(c));
        coord_unlease(held);
        coord_settle_work(c, held);
    }
    // What was given up but is counted now needs nobody any more. One that
    // somebody else has by now ends there, at once, at its first question.
    w = map_get(&job->active, message->closure);
    if (full && w != NULL && w->closure.state == CLOSURE_WAITING) {
        closure_counted(&w->closure);
        coord_settle_work(c, w);
    }
    if (!c->dead)
        coord_conduct_judge(c, m, job);
}

void coord_complete(struct coord *c, struct member *m,
                    const Sluice__V1__Complete *message)
{
    struct job *job = coord_live_job(c, message->job, message->job_incarnation);

    if (job == NULL)
        return;
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
        return;
    }
    if (!c->dead && !job_ended(job))
        coord_advance(c, job);
}

// ---- losses

static void give_up_lease(struct coord *c, struct member *m, struct work *w,
                          bool computed, enum leases_why why)
{
    if (why == LEASES_LOST)
        send_revoke(c, m, w, "nothing was heard of this worker");
    coord_unlease(w);
    if (BROKEN(lose_closure))
        return;
    if (why == LEASES_LOST && computed) {
        closure_lost(&w->closure);
        coord_bad_end(c, w, m->name, "lost");
    } else {
        closure_unstarted(&w->closure);
    }
}

// Jobs whose leases it held when it fell silent, or holds now.
static void count_lost(struct coord *c, struct member *m)
{
    size_t at = 0;
    uint64_t id;

    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        (void)map_put(&m->losing, w->job->id, w->job);
    }
    if (m->state == MEMBER_SUSPECT)
        return; // it may come back
    while (map_next(&m->losing, &at, &id, NULL)) {
        struct job *job = coord_job(c, id);

        if (job != NULL && !job_ended(job))
            coord_count(job, &job->counters.workers_lost);
    }
    map_release(&m->losing);
}

void coord_take_leases(struct coord *c, struct member *m, enum leases_why why)
{
    struct list_node *n;
    bool first = true;

    if (why == LEASES_LOST) {
        count_lost(c, m);
        // Short closures may be complete and not said yet, so this one may
        // blame the wrong one; the next will not.
        if (m->lease_count > 0)
            members_forget_pace(&c->members);
    }
    // The oldest is what it computed; the other waited behind it.
    while ((n = list_first(&m->leases)) != NULL) {
        give_up_lease(c, m, list_entry(n, struct work, on_holder), first, why);
        first = false;
    }
}
