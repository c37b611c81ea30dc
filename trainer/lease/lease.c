// SPDX-License-Identifier: Apache-2.0
// trainer/lease/lease.c -- the check of a lease against the job's geometry, and
// its timing.
#include "trainer/lease/lease.h"

#include <inttypes.h>

#include "common/base/mem.h"
#include "trainer/base/figures.h"
#include "trainer/push/evidence.h"

// Ids and ranges are functions of the geometry (C3): what a lease says must be
// what this worker would compute itself.
static enum sl_err lease_check_train(const struct lease *l,
                                     struct sl_error *err)
{
    const struct schedule *s = &l->record->schedule;
    uint64_t first, count;

    if (!l->record->placed)
        return sl_fail(err, SL_EINVAL,
                       "the lease is of a closure, but the job has no shards");
    if (l->closure >= schedule_closures(s))
        return sl_fail(err, SL_EINVAL, "the job has no closure %" PRIu64,
                       l->closure);
    schedule_closure_range(s, l->closure, &first, &count);
    if (l->first != first || l->count != count || l->steps == 0 ||
        l->epoch != schedule_epoch(s, l->closure) ||
        l->steps != schedule_closure_steps(s, l->closure) ||
        l->steps > EVIDENCE_STEPS)
        return sl_fail(err, SL_EINVAL,
                       "closure %" PRIu64 " has other samples by the job's "
                       "geometry than its lease says",
                       l->closure);
    return SL_OK;
}

static enum sl_err copy_tags(struct lease *l, const Sluice__V1__Lease *m,
                             struct sl_error *err)
{
    if (!l->record->placed || m->n_tags != l->record->layout.shards_count)
        return sl_fail(err, SL_EINVAL,
                       "an evaluation names %zu snapshots, but the job has %u "
                       "shards",
                       m->n_tags, l->record->layout.shards_count);
    if (l->count == 0)
        return sl_fail(err, SL_EINVAL, "the evaluation has no samples");
    l->tags = sl_malloc_array(m->n_tags, sizeof(*l->tags));
    if (l->tags == NULL)
        return sl_no_memory(err);
    l->tags_count = (uint32_t)m->n_tags;
    for (size_t i = 0; i < m->n_tags; i++)
        l->tags[i] = wire_tag_of(m->tags[i]);
    return SL_OK;
}

enum sl_err lease_sit(struct lease *l, const struct ring_env *ring,
                      struct sl_error *err)
{
    enum sl_err rc;

    if (ring == NULL)
        return sl_fail(err, SL_ENOTSUP, "this worker takes part in no ring");
    if (!l->record->placed)
        return sl_fail(err, SL_EINVAL,
                       "the lease is of a ring, but the job has no parts");
    rc = seat_new(&l->seat, ring, l->job, l->job_incarnation);
    return rc == SL_OK ? SL_OK
                       : sl_fail(err, rc, "no memory for a seat in the ring");
}

static enum lease_kind lease_kind_from_wire(const Sluice__V1__Lease *m)
{
    return m->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN      ? LEASE_TRAIN
           : m->kind == SLUICE__V1__LEASE_KIND__LEASE_EVALUATE ? LEASE_EVALUATE
           : m->kind == SLUICE__V1__LEASE_KIND__LEASE_RING     ? LEASE_RING
                                                               : LEASE_PROBE;
}

enum sl_err lease_new(struct lease **out, const Sluice__V1__Lease *m,
                      struct record *record, struct sl_error *err)
{
    struct lease *l = sl_calloc(1, sizeof(*l));
    enum sl_err rc = SL_OK;

    if (l == NULL)
        return sl_no_memory(err);
    pthread_mutex_init(&l->progress.lock, NULL);
    pthread_mutex_init(&l->gate.trouble.lock, NULL);
    atomic_init(&l->gate.closed, GATE_OPEN);
    l->gate.pulse.closed = &l->gate.closed;
    l->gate.pulse.draining = &l->gate.draining;
    l->record = record_ref(record);
    l->kind = lease_kind_from_wire(m);
    l->job = m->job;
    l->job_incarnation = m->job_incarnation;
    l->closure = m->closure;
    l->attempt = wire_attempt_of(m->attempt);
    l->proof = wire_token_of(m->proof);
    l->epoch = m->epoch;
    l->first = m->first;
    l->count = m->count;
    l->steps = m->steps;
    l->norm_most = m->norm_most;
    l->closures = m->closures;
    l->cut = m->cut;
    if (l->kind == LEASE_TRAIN)
        rc = lease_check_train(l, err);
    else if (l->kind == LEASE_EVALUATE)
        rc = copy_tags(l, m, err);
    if (rc != SL_OK) {
        lease_free(l);
        return rc;
    }
    *out = l;
    return SL_OK;
}

void lease_free(struct lease *l)
{
    if (l == NULL)
        return;
    record_unref(l->record);
    seat_retire(l->seat);
    sl_free(l->tags);
    sl_free(l->outcome.incarnations);
    sl_free(l->outcome.held);
    sl_free(l->outcome.closed);
    sl_free(l->outcome.score);
    for (size_t i = 0; i < l->outcome.facts.n_classes; i++)
        sl_free(l->outcome.facts.classes[i]);
    sl_free(l->outcome.facts.classes);
    pthread_mutex_destroy(&l->progress.lock);
    pthread_mutex_destroy(&l->gate.trouble.lock);
    sl_free(l);
}

uint64_t lease_still_ms(struct lease *l, uint64_t now_ms)
{
    uint64_t beats = atomic_load(&l->gate.pulse.beats);

    if (!atomic_load(&l->running) || beats != l->seen_beats)
        l->moved_ms = now_ms;
    l->seen_beats = beats;
    return now_ms - l->moved_ms;
}

struct lease_metrics lease_progress(struct lease *l)
{
    struct lease_metrics m;

    pthread_mutex_lock(&l->progress.lock);
    m = l->progress.metrics;
    pthread_mutex_unlock(&l->progress.lock);
    return m;
}

static uint64_t us_more(double ms, double before_ms)
{
    return ms > before_ms ? (uint64_t)((ms - before_ms) * 1000) : 0;
}

// Adds what was spent since the last counted step to the figures; time of a
// step that is not counted goes to the next one that is. wait_ms may fall where
// an attempt at the closure ends: then the difference counts as 0.
static void lease_add_figures(struct lease *l, const struct lease_metrics *m)
{
    const struct lease_metrics *last = &l->figured;
    const uint64_t us[FIGURES_PHASES] = {
        [FIGURES_INPUT] = us_more(m->input_ms, last->input_ms),
        [FIGURES_PULL] = us_more(m->wait_ms, last->wait_ms),
        [FIGURES_COMPUTE] = us_more(m->compute_ms, last->compute_ms),
        [FIGURES_PUSH] = us_more(m->push_ms, last->push_ms),
    };
    uint64_t steps = m->steps - last->steps;
    uint64_t skipped = m->skipped - last->skipped;

    if (l->kind == LEASE_EVALUATE || steps == 0)
        return;
    figures_took(steps, us);
    figures_steps(FIGURES_COUNTED, steps - skipped);
    figures_steps(FIGURES_SKIPPED, skipped);
    figures_samples(m->samples - last->samples);
    figures_loss_scale(m->loss_scale);
    l->figured = *m;
}

void lease_set_progress(struct lease *l, const struct lease_metrics *m)
{
    lease_add_figures(l, m);
    pthread_mutex_lock(&l->progress.lock);
    l->progress.metrics = *m;
    pthread_mutex_unlock(&l->progress.lock);
}

void lease_say_metrics(Sluice__V1__StepMetrics *out,
                       const struct lease_metrics *m)
{
    sluice__v1__step_metrics__init(out);
    out->steps = m->steps;
    out->samples = m->loss_samples;
    out->loss_sum = m->loss_sum;
    out->correct = m->right_sum > 0 ? (uint64_t)(m->right_sum + 0.5) : 0;
    out->skipped = m->skipped;
    out->refused = m->refused;
    out->compute_ms = m->compute_ms;
    out->wait_ms = m->wait_ms;
    out->input_ms = m->input_ms;
    out->loss_scale = m->loss_scale;
    out->sums = m->sums;
    out->sent_bytes = m->sent_bytes;
    out->pushed_bytes = m->pushed_bytes;
    out->pulled_bytes = m->pulled_bytes;
    out->strange = (char *)m->strange;
}
