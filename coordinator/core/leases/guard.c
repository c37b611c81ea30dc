// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/guard.c -- see guard.h.
#include "coordinator/core/leases/guard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/mode.h"
#include "proto/spec.h"

// Returns true if the job has contributions, after which job->guard is there.
// Any worker can tell of what it changed in any job.
static bool guard_is_told(struct job *job)
{
    if (!job->mode->changes)
        return false;
    if (job->guard == NULL)
        job->guard = sl_calloc(1, sizeof(*job->guard));
    return job->guard != NULL;
}

// ---- the bound

static double guard_most(const struct job *job)
{
    double most = job->guard == NULL ? 0
                                     : spec_max_norm_ratio(job->spec->train) *
                                           changes_median(job->guard);

    return isfinite(most) ? most : 0;
}

// Returns true if another worker could take what m handed back. It may be busy
// or pause now: of two workers each is to take what the other one had.
static bool guard_has_other(const struct coord *c, const struct member *m,
                            const struct job *job)
{
    list_for(n, &c->members.all)
    {
        const struct member *other = list_entry(n, struct member, node);

        if (other != m && other->role == MEMBER_WORKER &&
            other->state == MEMBER_READY && !other->draining &&
            leases_ring_job(other) == NULL && job_suits(job, other) &&
            !excluded_now(c, other, job))
            return true;
    }
    return false;
}

bool guard_avoids(const struct coord *c, const struct member *m,
                  const struct job *job, uint64_t closure)
{
    const struct changes_aside *a =
        job->guard == NULL ? NULL : changes_aside(job->guard, closure);

    return a != NULL && strcmp(a->worker, m->name) == 0 &&
           coord_now(c) - a->since_ms < GUARD_AVOIDS_MS &&
           guard_has_other(c, m, job);
}

double guard_bound(const struct work *w)
{
    if (w->kind != WORK_TRAIN || w->job->guard == NULL ||
        changes_aside(w->job->guard, w->closure.id) != NULL)
        return 0;
    return spec_norm_median(w->job->spec->train) ? changes_median(w->job->guard)
                                                 : guard_most(w->job);
}

// ---- contributions

// Sets the round of a contribution; where rounds have no slots, how many of the
// last ones are compared.
static void guard_round(struct changes_one *one, const struct job *job)
{
    const struct evidence *e = &job->shards.evidence;

    one->open = e->round == 0;
    one->round_count = job->spec->train->contributions;
    if (one->open)
        return;
    one->round_first = evidence_round_first(e, one->closure);
    one->round_count =
        (uint32_t)(evidence_round_end(e, one->closure) - one->round_first);
}

static uint64_t guard_samples(const struct job *job,
                              const Sluice__V1__Complete *message)
{
    uint64_t first, count;

    schedule_closure_range(&job->shards.schedule, message->closure, &first,
                           &count);
    return count;
}

// Returns what a completion says of its closure, without what was changed.
static struct changes_one guard_one(const struct member *m,
                                    const struct job *job,
                                    const Sluice__V1__Complete *message)
{
    const Sluice__V1__StepMetrics *s = message->metrics;
    double loss = s->samples > 0 ? s->loss_sum / (double)s->samples : NAN;

    return (struct changes_one){
        .worker = m->name,
        .closure = message->closure,
        .samples = guard_samples(job, message),
        .pushed_bytes = s->pushed_bytes,
        .pulled_bytes = s->pulled_bytes,
        .loss = isfinite(loss) ? loss : (double)NAN,
    };
}

// Sets what the contribution changed, that `one` is the completion of.
static void guard_change(struct changes_one *one, const struct job *job,
                         const Sluice__V1__Change *change)
{
    one->weight = change->steps > 0
                      ? (uint64_t)change->steps * job->shards.schedule.batch
                      : one->samples;
    one->norm = change->norm;
    one->steps = change->steps;
    one->sums = change->n_sums == FOLD_SUMS ? change->sums : NULL;
    guard_round(one, job);
}

static void guard_wrong(struct coord *c, const struct job *job,
                        const struct changes_worker *w, uint64_t closure)
{
    char name[WIRE_NAME_BYTES + 1], why[EVENT_TEXT];

    snprintf(name, sizeof(name), "%s", w->name);
    LOG(WARN, "a contribution that was set aside was wrong",
        "job=%s closure=%llu worker=%s times=%llu", job->id_text, (ull)closure,
        name, (ull)w->wrong);
    if (w->wrong < CHANGES_WRONG || suspects_is(c, name))
        return;
    snprintf(why, sizeof(why),
             "%llu of its contributions to %s were too large, the last one of "
             "closure %llu, and those of other workers were not",
             (ull)w->wrong, job->id_text, (ull)closure);
    suspects_make(c, name, job, why);
}

void guard_take(struct coord *c, struct member *m, struct job *job,
                const Sluice__V1__Complete *message)
{
    struct changes_one one;
    const struct changes_worker *wrong;

    if (!guard_is_told(job))
        return;
    one = guard_one(m, job, message);
    job->changes++;
    if (message->change == NULL) {
        changes_also(job->guard, &one);
        return;
    }
    guard_change(&one, job, message->change);
    wrong = changes_decide(job->guard, &one);
    changes_take(job->guard, &one);
    if (wrong != NULL)
        guard_wrong(c, job, wrong, one.closure);
}

void guard_handed_back(struct coord *c, const struct member *m,
                       const struct work *w,
                       const Sluice__V1__HandBack *message)
{
    double ratio = spec_max_norm_ratio(w->job->spec->train);
    double bound = w->norm_most;

    if (message->change == NULL || !guard_is_told(w->job))
        return;
    LOG(WARN, "a contribution was set aside",
        "job=%s closure=%llu worker=%s norm=%g most=%g", w->job->id_text,
        (ull)w->closure.id, m->name, message->change->norm, w->norm_most);
    // With the median as a bound, half of it would be no usual size.
    if (spec_norm_median(w->job->spec->train))
        bound *= ratio > 0 ? ratio : SPEC_NORM_RATIO;
    changes_put_aside(w->job->guard, w->closure.id, m->name, bound,
                      coord_now(c));
}

// ---- status

static bool guard_add(Sluice__V1__LocalStatus *out,
                      const struct changes_worker *w)
{
    Sluice__V1__Contributor *to =
        wire_new(&sluice__v1__contributor__descriptor);

    if (to == NULL)
        return false;
    out->workers[out->n_workers++] = to;
    to->worker = sl_strdup(w->name);
    to->contributions = w->contributions;
    to->norm = isnan(w->norm) ? 0 : w->norm;
    to->set_aside = w->set_aside;
    to->wrong = w->wrong;
    to->steps = w->steps;
    WIRE_SET_KNOWN(to, loss, SLUICE__V1__CONTRIBUTOR__KNOWN_LOSS_LOSS, w->loss);
    WIRE_SET_KNOWN(to, angle, SLUICE__V1__CONTRIBUTOR__KNOWN_ANGLE_ANGLE,
                   w->angle);
    return to->worker != NULL;
}

// Tells how many contributions were counted since the moments that the shards
// keep, of the one with the oldest (L9).
static void guard_fill_moments(Sluice__V1__LocalStatus *out,
                               const struct job *job)
{
    uint64_t age = 0;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        if (job->shards.list[i].moments_of == 0)
            return;
        if (job->shards.list[i].moments_age > age)
            age = job->shards.list[i].moments_age;
    }
    out->known_moments_case =
        SLUICE__V1__LOCAL_STATUS__KNOWN_MOMENTS_MOMENTS_AGE;
    out->moments_age = age / spec_inner_closures(job->spec->train);
}

bool guard_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    const struct changes *s = job->guard;
    Sluice__V1__LocalStatus *out;

    if (s == NULL)
        return true;
    out = m->local = wire_new(&sluice__v1__local_status__descriptor);
    if (out == NULL)
        return false;
    if (s->samples > 0) {
        out->pushed_bytes = (double)s->pushed_bytes / (double)s->samples;
        out->pulled_bytes = (double)s->pulled_bytes / (double)s->samples;
    }
    out->norm = changes_median(s);
    out->norm_most = spec_norm_median(job->spec->train) ? 0 : guard_most(job);
    out->set_aside = s->set_aside;
    guard_fill_moments(out, job);
    out->workers = sl_calloc(CHANGES_WORKERS, sizeof(*out->workers));
    for (uint32_t i = 0; out->workers != NULL && i < CHANGES_WORKERS; i++)
        if (s->workers[i].name[0] != '\0' && !guard_add(out, &s->workers[i]))
            return false;
    return out->workers != NULL;
}
