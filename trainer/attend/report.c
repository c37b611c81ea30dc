// SPDX-License-Identifier: Apache-2.0
// trainer/attend/report.c -- the messages that report a lease's outcome.
//
// Messages are first laid out on the stack, borrowing from the lease, and then
// copied whole: a report must be able to wait for the coordinator's return.
#include "trainer/attend/report.h"

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "trainer/lease/repeats.h"

// Adds none without memory: the samples are reported another time.
void report_bad(Sluice__V1__StepMetrics *out, struct report_bad *bad,
                const struct lease *l)
{
    size_t n;

    *bad = (struct report_bad){NULL};
    if (l->record->bad == NULL)
        return;
    bad->samples = sl_malloc_array(WIRE_BAD_MAX, sizeof(*bad->samples));
    bad->messages = sl_malloc_array(WIRE_BAD_MAX, sizeof(*bad->messages));
    bad->list = sl_malloc_array(WIRE_BAD_MAX, sizeof(*bad->list));
    if (bad->samples == NULL || bad->messages == NULL || bad->list == NULL)
        return;
    n = bad_tell(l->record->bad, bad->samples, WIRE_BAD_MAX);
    for (size_t i = 0; i < n; i++) {
        sluice__v1__bad_sample__init(&bad->messages[i]);
        bad->messages[i].test = bad->samples[i].test;
        bad->messages[i].number = bad->samples[i].number;
        bad->messages[i].what = bad->samples[i].what;
        bad->list[i] = &bad->messages[i];
    }
    out->bad = bad->list;
    out->n_bad = n;
}

static Sluice__V1__ScoreSums *scores(Sluice__V1__ScoreSums *out,
                                     struct lease *l)
{
    struct score *s = l->outcome.score;

    if (l->kind != LEASE_EVALUATE || s == NULL)
        return NULL;
    sluice__v1__score_sums__init(out);
    out->top = s->top;
    out->true_positives = s->true_positives;
    out->false_positives = s->false_positives;
    out->false_negatives = s->false_negatives;
    out->absolute = s->absolute;
    out->squared = s->squared;
    if ((spec_metrics(l->record->open->spec) >> SPEC_METRIC_AUC & 1) == 0)
        return out;
    out->n_positives = out->n_negatives = WIRE_SCORE_BUCKETS;
    out->positives = s->positives;
    out->negatives = s->negatives;
    return out;
}

void report_bad_free(struct report_bad *bad)
{
    sl_free(bad->samples);
    sl_free(bad->messages);
    sl_free(bad->list);
}

static Sluice__V1__AttendUp *report_copy(const Sluice__V1__AttendUp *up)
{
    ProtobufCMessage *out = NULL;

    if (wire_dup(&out, &up->base) != SL_OK)
        return NULL;
    return (Sluice__V1__AttendUp *)out;
}

static Sluice__V1__LeaseKind report_lease_kind(const struct lease *l)
{
    return l->kind == LEASE_TRAIN      ? SLUICE__V1__LEASE_KIND__LEASE_TRAIN
           : l->kind == LEASE_EVALUATE ? SLUICE__V1__LEASE_KIND__LEASE_EVALUATE
           : l->kind == LEASE_RING     ? SLUICE__V1__LEASE_KIND__LEASE_RING
                                       : SLUICE__V1__LEASE_KIND__LEASE_PROBE;
}

// Returns true if the evidence has more than incarnations: in mode sync a shard
// may hold the contribution only, or have counted a round.
static bool says_more(const struct outcome *o)
{
    for (uint32_t i = 0; i < o->incarnations_count; i++)
        if (o->held[i] || o->closed[i])
            return true;
    return false;
}

// Fills in the results of an audited round. Returns their number.
static size_t report_repeats(struct outcome *o,
                             Sluice__V1__Repeat items[AUDITED_WORKERS],
                             Sluice__V1__Repeat *list[AUDITED_WORKERS])
{
    for (uint32_t i = 0; i < o->repeats_count; i++) {
        repeats_say(&items[i], &o->repeats[i]);
        list[i] = &items[i];
    }
    return o->repeats_count;
}

// Fills in what a contribution changed. Returns NULL if it is not known.
static Sluice__V1__Change *report_change(Sluice__V1__Change *m,
                                         struct outcome *o)
{
    if (!o->changed)
        return NULL;
    sluice__v1__change__init(m);
    m->norm = fold_norm(&o->change);
    m->n_sums = fold_is_finite(&o->change) ? FOLD_SUMS : 0;
    m->sums = o->change.sums;
    m->steps = o->change_steps;
    m->took_ms = o->change_ms;
    return m;
}

// Makes a Complete. W2: it has the incarnations that the evidence is from, or
// the map that names them.
static Sluice__V1__AttendUp *report_complete(struct lease *l, bool by_map,
                                             Sluice__V1__Attempt *attempt)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT, *out;
    Sluice__V1__Complete m = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__StepMetrics metrics;
    Sluice__V1__ScoreSums sums;
    Sluice__V1__Repeat repeats[AUDITED_WORKERS], *repeated[AUDITED_WORKERS];
    Sluice__V1__Change change;
    struct report_bad bad;
    struct lease_metrics seen = lease_progress(l);
    bool named =
        by_map && l->outcome.map_version != 0 && !says_more(&l->outcome);
    size_t n = named ? 0 : l->outcome.incarnations_count;
    Sluice__V1__ShardEvidence *items = sl_malloc_array(n, sizeof(*items));
    Sluice__V1__ShardEvidence **list = sl_malloc_array(n, sizeof(*list));

    if (items == NULL || list == NULL) {
        sl_free(items);
        sl_free(list);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        sluice__v1__shard_evidence__init(&items[i]);
        items[i].shard = (uint32_t)i;
        items[i].incarnation = l->outcome.incarnations[i];
        items[i].held = l->outcome.held[i];
        items[i].closed = l->outcome.closed[i];
        list[i] = &items[i];
    }
    lease_say_metrics(&metrics, &seen);
    report_bad(&metrics, &bad, l);
    metrics.scores = scores(&sums, l);
    m.job = l->job;
    m.closure = l->closure;
    m.attempt = attempt;
    m.kind = report_lease_kind(l);
    m.n_evidence = n;
    m.evidence = list;
    m.metrics = &metrics;
    m.map_version = named ? l->outcome.map_version : 0;
    m.job_incarnation = l->job_incarnation;
    m.cut = l->cut;
    m.n_repeats = report_repeats(&l->outcome, repeats, repeated);
    m.repeats = repeated;
    m.change = report_change(&change, &l->outcome);
    m.facts = l->kind == LEASE_PROBE ? &l->outcome.facts : NULL;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &m;
    out = report_copy(&up);
    report_bad_free(&bad);
    sl_free(items);
    sl_free(list);
    return out;
}

static Sluice__V1__AttendUp *report_failed(struct lease *l,
                                           Sluice__V1__Attempt *attempt)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed m = SLUICE__V1__ATTEMPT_FAILED__INIT;

    m.job = l->job;
    m.closure = l->closure;
    m.attempt = attempt;
    m.kind = report_lease_kind(l);
    m.code = (uint32_t)l->outcome.err.code;
    m.text = (char *)l->outcome.err.text;
    m.job_error = l->outcome.job_error;
    m.data = l->outcome.data;
    m.found = l->outcome.differs ? &l->outcome.facts : NULL;
    m.cut = l->cut;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &m;
    return report_copy(&up);
}

static Sluice__V1__AttendUp *hand_back(struct lease *l,
                                       Sluice__V1__Attempt *attempt)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__HandBack m = SLUICE__V1__HAND_BACK__INIT;
    Sluice__V1__Change change;
    Sluice__V1__Repeat repeats[AUDITED_WORKERS], *repeated[AUDITED_WORKERS];

    FAULT("task.handback");
    m.job = l->job;
    m.closure = l->closure;
    m.attempt = attempt;
    m.kind = report_lease_kind(l);
    m.why = (char *)l->outcome.err.text;
    m.cut = l->cut;
    m.n_repeats = report_repeats(&l->outcome, repeats, repeated);
    m.repeats = repeated;
    if (l->outcome.aside)
        m.change = report_change(&change, &l->outcome);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HAND_BACK;
    up.hand_back = &m;
    return report_copy(&up);
}

Sluice__V1__AttendUp *report_outcome(struct lease *l, bool by_map)
{
    Sluice__V1__Attempt attempt = wire_attempt_msg(l->attempt);

    switch (l->outcome.kind) {
    case OUTCOME_COMPLETE:
        return report_complete(l, by_map, &attempt);
    case OUTCOME_FAILED:
        return report_failed(l, &attempt);
    case OUTCOME_HAND_BACK:
        return hand_back(l, &attempt);
    case OUTCOME_DROPPED:
        break;
    }
    return NULL;
}

Sluice__V1__AttendUp *report_refused(const Sluice__V1__Lease *lease,
                                     const struct sl_error *err)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed m = SLUICE__V1__ATTEMPT_FAILED__INIT;

    m.job = lease->job;
    m.closure = lease->closure;
    m.attempt = lease->attempt;
    m.kind = lease->kind;
    m.code = (uint32_t)err->code;
    m.text = (char *)err->text;
    m.cut = lease->cut;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &m;
    return report_copy(&up);
}
