// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/monitor.c -- callbacks: their state as a message, its
// journal, and the rates that shards and ranks are told.
#include "coordinator/core/cuts/monitor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/send.h"

#define TRAINED_MS 1000 // between two writes of the sums of training

bool monitor_waits(const struct job *job)
{
    return spec_callbacks_wait(&job->monitor.watched);
}

// ---- sums of training

static void trained_add(struct journal_trained *t,
                        const struct journal_trained *more)
{
    t->samples += more->samples;
    t->correct += more->correct;
    t->loss_sum += more->loss_sum;
    t->steps += more->steps;
    t->skipped += more->skipped;
}

void monitor_trained(struct coord *c, struct job *job,
                     const struct meter_sums *more)
{
    const struct journal_trained part = {more->samples, more->correct,
                                         more->loss_sum, more->steps,
                                         more->skipped};

    if (!spec_callbacks_any(&job->monitor.watched))
        return;
    trained_add(&job->counters.trained, &part);
    trained_add(&job->monitor.fresh, &part);
    if (coord_now(c) - job->monitor.trained_ms < TRAINED_MS)
        return;
    job->monitor.trained_ms = coord_now(c);
    job->counters_changed = true;
}

void monitor_cut(struct job *job, uint64_t cut)
{
    struct job_told *last =
        job->monitor.told_count > 0
            ? &job->monitor.told[job->monitor.told_count - 1]
            : NULL;

    if (!spec_callbacks_any(&job->monitor.watched) ||
        evidence_full(&job->shards.evidence) ||
        (last != NULL && last->cut >= cut))
        return;
    if (job->monitor.told_count < JOB_TOLD) {
        job->monitor.told[job->monitor.told_count++] =
            (struct job_told){cut, job->monitor.fresh};
    } else { // many cuts without an evaluation
        trained_add(&last->trained, &job->monitor.fresh);
        last->cut = cut;
    }
    job->monitor.fresh = (struct journal_trained){0};
}

static size_t told_until(const struct job *job, uint64_t cut)
{
    size_t count = 0;

    while (count < job->monitor.told_count &&
           job->monitor.told[count].cut <= cut)
        count++;
    return count;
}

// Says whether all reported training is of steps that this cut holds: training
// waits for its evaluation; all steps were counted when it began; or it is of
// an earlier term, and more is not known.
static bool holds_all(const struct job *job, uint64_t cut)
{
    size_t count = told_until(job, cut);

    return monitor_waits(job) || count == 0 ||
           (count == job->monitor.told_count &&
            job->monitor.told[count - 1].cut != cut);
}

struct journal_trained monitor_until(const struct job *job, uint64_t cut)
{
    size_t count = told_until(job, cut);
    struct journal_trained sum = {0};

    if (holds_all(job, cut))
        return job->counters.trained;
    for (size_t i = 0; i < count; i++)
        trained_add(&sum, &job->monitor.told[i].trained);
    return sum;
}

static void forget_until(struct job *job, uint64_t cut)
{
    size_t count = told_until(job, cut);

    if (holds_all(job, cut)) {
        job->monitor.fresh = (struct journal_trained){0};
        count = job->monitor.told_count;
    }
    job->monitor.told_count -= count;
    memmove(job->monitor.told, job->monitor.told + count,
            job->monitor.told_count * sizeof(*job->monitor.told));
    job->counters.trained = job->monitor.fresh;
    for (size_t i = 0; i < job->monitor.told_count; i++)
        trained_add(&job->counters.trained, &job->monitor.told[i].trained);
}

enum sl_err monitor_begin_range(struct coord *c, struct job *job, uint64_t cut)
{
    struct journal_counters now;

    forget_until(job, cut);
    now = job->counters;
    now.elapsed_ms = job_elapsed_ms(job, coord_now(c));
    return journal_job_counters(c->journal, job->id, &now, &c->err);
}

// ---- as a message

static enum sl_err fill_best(Sluice__V1__CallbackStatus **out,
                             const struct spec_watch *watch,
                             const struct callbacks_best *best, uint32_t wait,
                             uint32_t cooldown)
{
    Sluice__V1__CallbackStatus *m;

    if (!watch->on)
        return SL_OK;
    m = wire_new(&sluice__v1__callback_status__descriptor);
    *out = m;
    if (m == NULL)
        return SL_ENOMEM;
    m->monitor = sl_strdup(spec_monitor_name(watch->monitor));
    m->has_best = best->has;
    if (best->has)
        WIRE_SET_KNOWN(m, best, SLUICE__V1__CALLBACK_STATUS__KNOWN_BEST_BEST,
                       best->value);
    m->best_steps = best->steps;
    m->best_cut = best->cut;
    m->wait = wait;
    m->cooldown = cooldown;
    return m->monitor == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err fill_rates(Sluice__V1__CallbacksStatus *m,
                              const struct rates *rates)
{
    m->rates =
        sl_calloc(rates->count > 0 ? rates->count : 1, sizeof(m->rates[0]));
    if (m->rates == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < rates->count; i++) {
        m->rates[i] = wire_new(&sluice__v1__rate_step__descriptor);
        if (m->rates[i] == NULL)
            return SL_ENOMEM;
        m->n_rates = i + 1;
        m->rates[i]->closure = rates->step[i].closure;
        m->rates[i]->rate = rates->step[i].rate;
    }
    return SL_OK;
}

static Sluice__V1__CallbacksStatus *
monitor_make_status(const struct job *job, const struct callbacks *c)
{
    const struct spec_callbacks *w = &job->monitor.watched;
    Sluice__V1__CallbacksStatus *m =
        wire_new(&sluice__v1__callbacks_status__descriptor);
    enum sl_err rc;

    if (m == NULL)
        return NULL;
    m->learning_rate = w->plateau.watch.on ? c->plateau.rate : 0;
    m->stopped = c->early.stopped;
    rc = fill_best(&m->early_stopping, &w->early.watch, &c->early.best,
                   c->early.wait, 0);
    if (rc == SL_OK)
        rc = fill_best(&m->reduce_on_plateau, &w->plateau.watch,
                       &c->plateau.best, c->plateau.wait, c->plateau.cooldown);
    if (rc == SL_OK)
        rc = fill_best(&m->best_checkpoint, &w->best, &c->best, 0, 0);
    if (rc == SL_OK)
        rc = fill_rates(m, &c->rates);
    if (rc == SL_OK)
        return m;
    wire_free(&m->base);
    return NULL;
}

Sluice__V1__CallbacksStatus *monitor_status(const struct job *job, bool waits)
{
    Sluice__V1__CallbacksStatus *m =
        monitor_make_status(job, &job->monitor.callbacks);
    const struct job_cut *cut = job_final_cut(job);

    if (m == NULL)
        return NULL;
    m->waits = waits;
    if (cut != NULL && cut != job_last_cut(job))
        m->restored = cut->n;
    return m;
}

static struct callbacks_best best_of(const Sluice__V1__CallbackStatus *m)
{
    if (m == NULL)
        return (struct callbacks_best){.has = false};
    return (struct callbacks_best){m->has_best,
                                   m->known_best_case != 0 ? m->best : 0,
                                   m->best_steps, m->best_cut};
}

static void monitor_read_status(struct callbacks *c,
                                const Sluice__V1__CallbacksStatus *m)
{
    c->early.best = best_of(m->early_stopping);
    c->early.wait = m->early_stopping != NULL ? m->early_stopping->wait : 0;
    c->early.stopped = m->stopped;
    c->plateau.best = best_of(m->reduce_on_plateau);
    if (m->reduce_on_plateau != NULL) {
        c->plateau.wait = m->reduce_on_plateau->wait;
        c->plateau.cooldown = m->reduce_on_plateau->cooldown;
        c->plateau.rate = m->learning_rate;
    }
    c->best = best_of(m->best_checkpoint);
    for (size_t i = 0; i < m->n_rates && i < RATES_MAX; i++)
        rates_add(&c->rates, m->rates[i]->closure, m->rates[i]->rate);
}

// ---- an evaluation

static struct callbacks_seen seen_of(const struct job *job,
                                     const struct journal_evaluation *row,
                                     uint64_t next)
{
    uint64_t per_epoch = schedule_steps_per_epoch(&job->shards.schedule);
    struct callbacks_seen seen = {
        .steps = row->steps,
        .cut = row->cut,
        .epoch = row->steps > 0 ? (uint32_t)((row->steps - 1) / per_epoch) : 0,
        .next = next,
    };

    for (unsigned m = 0; m < SPEC_METRIC_COUNT; m++) {
        seen.has[SPEC_VAL_METRIC + m] = (row->metrics >> m & 1) != 0;
        seen.value[SPEC_VAL_METRIC + m] = row->metric[m];
    }
    seen.has[SPEC_VAL_LOSS] = seen.has[SPEC_VAL_ACCURACY] = row->samples > 0;
    seen.value[SPEC_VAL_LOSS] = row->loss;
    seen.value[SPEC_VAL_ACCURACY] = row->accuracy;
    seen.has[SPEC_TRAIN_LOSS] = row->train_samples > 0 || row->train_broken;
    seen.has[SPEC_TRAIN_ACCURACY] = seen.has[SPEC_TRAIN_LOSS];
    seen.value[SPEC_TRAIN_LOSS] = row->train_broken ? NAN : row->train_loss;
    seen.value[SPEC_TRAIN_ACCURACY] =
        row->train_broken ? NAN : row->train_accuracy;
    for (unsigned i = 0; row->not_finite && i < SPEC_MONITORS; i++)
        seen.value[i] = NAN;
    return seen;
}

enum sl_err monitor_judge(const struct job *job,
                          const struct journal_evaluation *row, uint64_t next,
                          struct callbacks *out, struct buf *packed)
{
    const struct callbacks_seen seen = seen_of(job, row, next);
    Sluice__V1__CallbacksStatus *m;
    enum sl_err rc;

    *out = job->monitor.callbacks;
    (void)callbacks_judge(out, &job->monitor.watched, &seen);
    m = monitor_make_status(job, out);
    if (m == NULL)
        return SL_ENOMEM;
    rc = wire_pack(&m->base, packed);
    wire_free(&m->base);
    return rc;
}

static uint64_t last_rate(const struct job *job)
{
    const struct rates *r = &job->monitor.callbacks.rates;

    return r->count > 0 ? r->step[r->count - 1].closure : 0;
}

static void count_unknown(struct job *job)
{
    uint64_t last = last_rate(job);

    job->monitor.rates_unknown = 0;
    for (uint32_t i = job->shards.parts; last != 0 && i < job->shards.count;
         i++)
        job->monitor.rates_unknown += job->shards.list[i].rates_known != last;
}

void monitor_take(struct coord *c, struct job *job, const struct callbacks *now,
                  const struct journal_evaluation *row)
{
    uint64_t before = last_rate(job);

    job->monitor.callbacks = *now;
    job->changes++;
    JOB_HISTORY(job, "judged",
                " steps=%llu cut=%llu stopped=%d rates=%u last=%llu",
                (ull)row->steps, (ull)row->cut, now->early.stopped,
                now->rates.count, (ull)last_rate(job));
    FAULT("callbacks.judged");
    if (last_rate(job) == before)
        return;
    LOG(INFO, "learning rate reduced", "job=%s rate=%g closure=%llu",
        job->id_text, now->plateau.rate, (ull)last_rate(job));
    happened_job(c, EVENT_RATE_REDUCED, job, NULL,
                 "the learning rate is %g from closure %llu on",
                 now->plateau.rate, (ull)last_rate(job));
    count_unknown(job);
    // A ring's ranks learn it with their next generation.
    for (uint32_t i = job->shards.parts; i < job->shards.count; i++)
        if (job->shards.list[i].server != 0)
            send_rates(c, job->shards.list[i].server, job, i, 0);
}

enum sl_err monitor_load(struct job *job, const struct buf *packed,
                         struct sl_error *err)
{
    ProtobufCMessage *m = NULL;
    enum sl_err rc;

    if (packed->len == 0)
        return SL_OK;
    rc = wire_load(&m, &sluice__v1__callbacks_status__descriptor, packed->data,
                   packed->len, err);
    if (rc != SL_OK)
        return rc;
    monitor_read_status(&job->monitor.callbacks,
                        (Sluice__V1__CallbacksStatus *)m);
    wire_free(m);
    count_unknown(job);
    return rates_valid(&job->monitor.callbacks.rates)
               ? SL_OK
               : sl_fail(err, SL_ECORRUPT, "journal: rates that do not rise");
}

// ---- shards and ranks

uint64_t monitor_limit(const struct job *job)
{
    return job->monitor.rates_unknown == 0 ? UINT64_MAX : last_rate(job);
}

void monitor_admits(struct coord *c, const struct member *m, struct job *job,
                    uint32_t shard)
{
    job->shards.list[shard].rates_known = 0;
    if (last_rate(job) == 0 || job_on_workers(job, shard))
        return;
    count_unknown(job);
    send_rates(c, m->id, job, shard, 0);
}

void monitor_known(struct coord *c, const struct member *m,
                   const Sluice__V1__RatesTaken *message)
{
    struct job *job = jobs_get(c, message->job);

    if (job == NULL || job_ended(job) || job->uid != message->job_uid ||
        message->shard >= job->shards.count ||
        job->shards.list[message->shard].server != m->id ||
        job->shards.list[message->shard].rates_known == message->closure)
        return;
    job->shards.list[message->shard].rates_known = message->closure;
    count_unknown(job);
    job->leases.freed++; // closures that were passed over may be leased
}

bool monitor_wants_ring(const struct job *job)
{
    return job->monitor.ring_rates != last_rate(job);
}

void monitor_ring_begins(struct job *job)
{
    job->monitor.ring_rates = last_rate(job);
}

void monitor_why(const struct job *job, char *out, size_t size)
{
    const struct callbacks_best *best = &job->monitor.callbacks.early.best;
    const char *monitor =
        spec_monitor_name(job->monitor.watched.early.watch.monitor);
    uint32_t wait = job->monitor.callbacks.early.wait;

    if (!best->has)
        snprintf(out, size,
                 "stopped early: %s was not finite in any of %u evaluation%s",
                 monitor, wait, wait == 1 ? "" : "s");
    else
        snprintf(out, size,
                 "stopped early: %s did not get better in %u evaluation%s; the "
                 "best was %g after step %llu (checkpoint %llu)%s",
                 monitor, wait, wait == 1 ? "" : "s", best->value,
                 (ull)best->steps, (ull)best->cut,
                 job->monitor.watched.early.restores
                     ? "; the job ends with that checkpoint"
                     : "");
}
