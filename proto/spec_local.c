// SPDX-License-Identifier: Apache-2.0
// proto/spec_local.c -- the check of what only a job in local mode says: the
// steps of a contribution, and the optimizer of the psservers.
#include "proto/spec_check.h"

#include <string.h>

#include "common/base/num.h"

#define INNER_STEPS 100

#define GRACE_MOST_MS 3600000

// DiLoCo's outer optimizer (arXiv 2311.08105).
#define OUTER_RATE 0.7
#define OUTER_MOMENTUM 0.9
#define OUTER_RATE_OPEN 0.3 // contributions are older there: docs/local.md

#define BLEND 0.5 // arXiv 2501.18512

#define MAX_NORM_RATIO_MOST 1e6

// Rounds between two contributions that leave their moments: at 100 steps of a
// contribution nearly the 1,000 gradients that adam's second moments remember.
#define MOMENTS_ROUNDS 8

static const char *const moments[] = {"reset", "keep", "store"};
static const char *const paces[] = {"equal", "own"};
static const char *const norms[] = {"keep", "median"};
static const char *const averages[] = {"elements", "direction"};
static const char *const weights[] = {"samples", "age"};

bool spec_local(const Sluice__V1__JobSpec *spec)
{
    return spec->train != NULL && spec->train->mode != NULL &&
           strcmp(spec->train->mode, "local") == 0;
}

bool spec_open(const Sluice__V1__TrainSpec *train)
{
    return train->has_quorum && train->quorum < train->contributions;
}

bool spec_sets(const Sluice__V1__TrainSpec *train)
{
    const Sluice__V1__InnerSpec *i = train->inner;

    return i != NULL && i->has_closure && i->closure < spec_inner(train).steps;
}

bool spec_norm_median(const Sluice__V1__TrainSpec *train)
{
    return train->norm != NULL && strcmp(train->norm, norms[1]) == 0;
}

bool spec_directions(const Sluice__V1__TrainSpec *train)
{
    return train->average != NULL && strcmp(train->average, averages[1]) == 0;
}

bool spec_aged(const Sluice__V1__TrainSpec *train)
{
    return train->weight != NULL && strcmp(train->weight, weights[1]) == 0;
}

bool spec_streams(const Sluice__V1__TrainSpec *train)
{
    return (train->has_fragments && train->fragments > 1) ||
           (train->has_overlap && train->overlap > 0);
}

uint32_t spec_fragments(const Sluice__V1__TrainSpec *train)
{
    return train->fragments > 0 ? train->fragments : 1;
}

struct spec_inner spec_inner(const Sluice__V1__TrainSpec *train)
{
    enum wire_type wire = spec_type_of(train->wire, WIRE_TYPES, WIRE_F32);
    const Sluice__V1__InnerSpec *i = train->inner;

    return (struct spec_inner){
        .steps = i != NULL && i->has_steps ? i->steps : INNER_STEPS,
        .closure = i != NULL && i->closure > 0 ? i->closure
                   : i != NULL && i->has_steps ? i->steps
                                               : INNER_STEPS,
        .keep = i != NULL && i->moments != NULL &&
                strcmp(i->moments, moments[0]) != 0,
        .store = i != NULL && i->moments != NULL &&
                 strcmp(i->moments, moments[2]) == 0,
        .own = i != NULL && i->pace != NULL && strcmp(i->pace, paces[1]) == 0,
        .up = spec_type_of(i != NULL ? i->up : NULL, WIRE_CODES, wire),
        .down = spec_type_of(i != NULL ? i->down : NULL, WIRE_CODES, wire),
        .blend = i != NULL && i->has_blend ? i->blend
                 : train->overlap > 0      ? BLEND
                                           : 0,
    };
}

uint32_t spec_inner_closures(const Sluice__V1__TrainSpec *train)
{
    struct spec_inner inner = spec_inner(train);

    return inner.steps / inner.closure;
}

bool spec_coded(const Sluice__V1__JobSpec *spec)
{
    enum wire_type wire;
    struct spec_inner i;

    if (!spec_local(spec))
        return false;
    i = spec_inner(spec->train);
    wire = spec_type_of(spec->train->wire, WIRE_TYPES, WIRE_F32);
    return i.up != wire || i.down != wire;
}

uint32_t spec_down_code(const Sluice__V1__JobSpec *spec)
{
    enum wire_type down = WIRE_F32;

    if (spec_local(spec))
        down = spec_inner(spec->train).down;
    return down >= WIRE_TYPES ? down : 0;
}

uint32_t spec_open_contributions(const Sluice__V1__TrainSpec *train)
{
    if (!spec_open(train))
        return 0;
    // A code is of a contribution to a round: this one ends its round.
    if (train->quorum == 1)
        return spec_inner(train).up >= WIRE_TYPES;
    return train->contributions;
}

struct spec_moments spec_moments(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__TrainSpec *t = spec->train;
    struct spec_inner inner;

    if (!spec_local(spec) || spec->optimizer == NULL)
        return (struct spec_moments){.vectors = 0};
    inner = spec_inner(t);
    if (!inner.store)
        return (struct spec_moments){.vectors = 0};
    return (struct spec_moments){
        .vectors = spec_optimizer_slots(spec->optimizer),
        .wire = inner.up == WIRE_F32 ? WIRE_F32 : WIRE_BF16,
        .every = (uint64_t)t->inner->moments_every * spec_inner_closures(t)};
}

uint64_t spec_push_bytes(const Sluice__V1__JobSpec *spec)
{
    struct spec_moments m = spec_moments(spec);

    return sizeof(float) + m.vectors * wire_type_bytes(m.wire);
}

double spec_max_norm_ratio(const Sluice__V1__TrainSpec *train)
{
    return train->has_max_norm_ratio ? train->max_norm_ratio : SPEC_NORM_RATIO;
}

const Sluice__V1__OptimizerSpec *
spec_shard_optimizer(const Sluice__V1__JobSpec *spec)
{
    return spec_local(spec) ? spec->train->outer : spec->optimizer;
}

// Checks how contributions and parameters travel. Parameters that are left out
// of a change would never come, so topk2 is of contributions alone.
static enum sl_err check_codes(const Sluice__V1__InnerSpec *i,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (i->up != NULL)
        rc = spec_word("train.inner.up", i->up, wire_type_names, WIRE_CODES,
                       NULL, err);
    if (rc == SL_OK && i->down != NULL)
        rc = spec_word("train.inner.down", i->down, wire_type_names,
                       WIRE_CODES - 1, NULL, err);
    return rc;
}

// Returns the name of the key that makes a stream of the spec's contributions.
static const char *says_streams(const Sluice__V1__TrainSpec *t)
{
    return t->has_overlap && t->overlap > 0 ? "overlap" : "fragments";
}

// Checks the parts in which parameters are pushed, and sets the closure by
// their number: one part leaves after each.
static enum sl_err check_fragments(Sluice__V1__TrainSpec *t,
                                   struct sl_error *err)
{
    uint32_t steps = t->inner->steps, parts = spec_fragments(t);
    enum sl_err rc =
        spec_range("train.fragments", parts, 1, FRAGMENTS_MOST, err);

    if (rc != SL_OK || !spec_streams(t))
        return rc;
    if (steps % parts != 0)
        return sl_fail(err, SL_EINVAL,
                       "train.fragments: wants a divisor of train.inner.steps, "
                       "which is %u, got %u",
                       steps, parts);
    SPEC_DEFAULT(t->inner, closure, steps / parts);
    if (t->inner->closure == steps / parts)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "train.inner.closure: one fragment leaves after each, so it "
                   "is train.inner.steps / train.fragments, %u, got %u; leave "
                   "it out",
                   steps / parts, t->inner->closure);
}

// A worker that streams begins no contribution: parts of it leave and come at
// all times.
static enum sl_err check_stream_inner(Sluice__V1__TrainSpec *t,
                                      struct sl_error *err)
{
    if (t->inner->has_blend && !(t->inner->blend >= 0 && t->inner->blend < 1))
        return sl_fail(err, SL_EINVAL,
                       "train.inner.blend: wants a share of at least 0 and "
                       "below 1, got %g",
                       t->inner->blend);
    if (t->inner->moments != NULL && strcmp(t->inner->moments, moments[0]) == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.moments: contributions of fragments, or "
                       "with an overlap, have no common beginning; take keep "
                       "or store, or leave it out");
    if (t->has_max_norm_ratio && t->max_norm_ratio > 0)
        return sl_fail(err, SL_EINVAL,
                       "train.max_norm_ratio: with train.%s a part of a "
                       "contribution is applied before all of it is known; "
                       "leave it out",
                       says_streams(t));
    SPEC_DEFAULT(t, max_norm_ratio, 0);
    return spec_string(&t->inner->moments, moments[1]);
}

static enum sl_err check_streams(Sluice__V1__TrainSpec *t, bool external,
                                 struct sl_error *err)
{
    if (!spec_streams(t))
        return t->inner->has_blend
                   ? sl_fail(err, SL_EINVAL,
                             "train.inner.blend: a contribution without "
                             "train.overlap or train.fragments begins with the "
                             "psservers' parameters; leave it out")
                   : SL_OK;
    if (external)
        return sl_fail(err, SL_EINVAL,
                       "train.%s: a program pushes all that it has at once; "
                       "leave it out",
                       says_streams(t));
    if (!spec_open(t))
        return sl_fail(err, SL_EINVAL,
                       "train.%s: a round whose slots are fixed waits for "
                       "whole contributions; set train.quorum below "
                       "train.contributions, or leave it out",
                       says_streams(t));
    if (t->overlap >= t->inner->closure)
        return sl_fail(err, SL_EINVAL,
                       "train.overlap: what was pushed has to come before the "
                       "next is pushed, %u steps later "
                       "(train.inner.steps / train.fragments), got %u",
                       t->inner->closure, t->overlap);
    return check_stream_inner(t, err);
}

// Slots of a fixed round are closures, so one that counts several is of open
// rounds alone.
static enum sl_err check_closure(const Sluice__V1__TrainSpec *t,
                                 struct sl_error *err)
{
    uint32_t steps = t->inner->steps, each = t->inner->closure;

    if (each == 0 || steps % each != 0 || steps / each > WIRE_KEYS_MAX)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.closure: wants a divisor of "
                       "train.inner.steps, which is %u, and at least a %dth of "
                       "it, got %u",
                       steps, WIRE_KEYS_MAX, each);
    if (each < steps && !spec_open(t))
        return sl_fail(err, SL_EINVAL,
                       "train.inner.closure: a contribution to a round whose "
                       "slots are fixed is one closure; set train.quorum below "
                       "train.contributions, or leave it out");
    return SL_OK;
}

// A worker of half the pace has half of the closures, so there must be some.
static enum sl_err check_pace(Sluice__V1__TrainSpec *t, bool external,
                              struct sl_error *err)
{
    enum sl_err rc = spec_string(&t->inner->pace, paces[0]);

    if (rc == SL_OK)
        rc = spec_word("train.inner.pace", t->inner->pace, paces,
                       SL_COUNT(paces), NULL, err);
    if (rc != SL_OK || !spec_inner(t).own)
        return rc;
    if (spec_streams(t))
        return sl_fail(err, SL_EINVAL,
                       "train.inner.pace: with train.%s a fragment leaves "
                       "after each closure, at its worker's own pace; leave it "
                       "out",
                       says_streams(t));
    if (external)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.pace: programs say nothing of their pace; "
                       "leave it out");
    if (spec_sets(t))
        return SL_OK;
    if (!spec_open(t))
        return sl_fail(err, SL_EINVAL,
                       "train.inner.pace: slots of a fixed round are of equal "
                       "steps; set train.quorum below train.contributions, and "
                       "train.inner.closure to a part of train.inner.steps");
    return sl_fail(err, SL_EINVAL,
                   "train.inner.pace: a contribution is one closure, and a "
                   "slower worker cannot have fewer; set train.inner.closure "
                   "to a part of train.inner.steps, which is %u",
                   t->inner->steps);
}

// Checks what becomes of the optimizer's slots between contributions.
static enum sl_err check_moments(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err)
{
    Sluice__V1__InnerSpec *i = spec->train->inner;
    enum sl_err rc = spec_string(&i->moments, moments[0]);
    bool store;

    if (rc == SL_OK)
        rc = spec_word("train.inner.moments", i->moments, moments,
                       SL_COUNT(moments), NULL, err);
    if (rc != SL_OK)
        return rc;
    store = spec_inner(spec->train).store;
    if (i->has_moments_every && !store)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.moments_every: says how often moments are "
                       "left with the psservers; set train.inner.moments: "
                       "store, or leave it out");
    if (!store)
        return SL_OK;
    if (spec->optimizer == NULL)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.moments: a program has its optimizer's "
                       "state itself; take reset or keep, and save it there");
    if (spec_optimizer_slots(spec->optimizer) == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.inner.moments: %s as it is set keeps no state "
                       "between steps; leave it out",
                       spec->optimizer->type);
    SPEC_DEFAULT(i, moments_every, MOMENTS_ROUNDS * spec->train->contributions);
    return spec_range("train.inner.moments_every", i->moments_every, 1,
                      SPEC_INNER_STEPS_MOST, err);
}

static enum sl_err check_inner(Sluice__V1__TrainSpec *t, bool external,
                               struct sl_error *err)
{
    enum sl_err rc =
        spec_message(&t->inner, &sluice__v1__inner_spec__descriptor);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->inner, steps, INNER_STEPS);
    rc = spec_range("train.inner.steps", t->inner->steps, 1,
                    SPEC_INNER_STEPS_MOST, err);
    if (rc == SL_OK)
        rc = check_fragments(t, err);
    SPEC_DEFAULT(t->inner, closure, t->inner->steps);
    if (rc == SL_OK)
        rc = check_streams(t, external, err);
    if (rc == SL_OK)
        rc = check_closure(t, err);
    if (rc == SL_OK)
        rc = check_pace(t, external, err);
    return rc == SL_OK ? check_codes(t->inner, err) : rc;
}

static enum sl_err check_quorum(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    uint64_t closures =
        (uint64_t)t->contributions * (t->inner->steps / t->inner->closure);
    uint32_t most = (uint32_t)sl_min(t->window_closures, SPEC_WINDOW_DEFAULT);
    enum sl_err rc = SL_OK;

    if (t->has_quorum)
        rc = spec_range("train.quorum", t->quorum, 1, t->contributions, err);
    if (rc != SL_OK)
        return rc;
    if (t->has_grace_ms && (!spec_open(t) || t->quorum == 1))
        return sl_fail(err, SL_EINVAL,
                       "train.grace_ms: only a round that may end with fewer "
                       "contributions waits; set train.quorum between 1 and "
                       "train.contributions, which is %u",
                       t->contributions);
    if (spec_open(t) && t->has_backup && t->backup > 0)
        return sl_fail(err, SL_EINVAL,
                       "train.backup: copies are of fixed slots; with a "
                       "train.quorum no round waits for a slot: leave it out");
    if (spec_open(t) && closures > most)
        return sl_fail(
            err, SL_EINVAL,
            "train.contributions: a round is of up to %llu closures, "
            "and %u may be under way; set fewer contributions, a "
            "larger train.inner.closure%s",
            (unsigned long long)closures, most,
            most < SPEC_WINDOW_DEFAULT ? ", or a larger train.window_closures"
                                       : "");
    if (spec_open(t) && t->quorum == 1 && spec_inner(t).down >= WIRE_TYPES)
        return sl_fail(
            err, SL_EINVAL,
            "train.inner.down: %s is of what one update changes, and "
            "with train.quorum 1 a worker misses those of all "
            "others: take f32, bf16 or f16",
            wire_type_names[spec_inner(t).down]);
    return t->has_grace_ms ? spec_range("train.grace_ms", t->grace_ms, 0,
                                        GRACE_MOST_MS, err)
                           : SL_OK;
}

// Each contribution is an update with quorum 1: Nesterov's momentum of each
// would be that of one worker, so it is of as many as are expected.
static enum sl_err check_delay(const Sluice__V1__TrainSpec *t,
                               struct sl_error *err)
{
    Sluice__V1__OptimizerSpec *o = t->outer;
    bool takes = strcmp(o->type, "sgd") == 0 && o->nesterov && o->momentum > 0;
    bool each = spec_open(t) && t->quorum == 1;

    if (takes && each)
        SPEC_DEFAULT(o, delay, t->contributions);
    if (!o->has_delay || (takes && each))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "train.outer.delay: is of sgd with nesterov and momentum "
                   "where each contribution is an update; set train.quorum: 1, "
                   "or leave it out");
}

static enum sl_err check_outer(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    Sluice__V1__OptimizerSpec *o;
    bool said = t->outer != NULL;
    // What topk2 leaves out comes later, and momentum would add it up twice.
    bool sparse = spec_inner(t).up == WIRE_TOPK2;
    double rate = spec_open(t) ? OUTER_RATE_OPEN : OUTER_RATE;
    enum sl_err rc =
        spec_message(&t->outer, &sluice__v1__optimizer_spec__descriptor);

    o = t->outer;
    if (rc == SL_OK && !said) {
        SPEC_DEFAULT(o, learning_rate, sparse ? 1 : rate);
        SPEC_DEFAULT(o, momentum, sparse ? 0 : OUTER_MOMENTUM);
        SPEC_DEFAULT(o, nesterov, !sparse);
        rc = spec_string(&o->type, "sgd");
    }
    if (rc != SL_OK)
        return rc;
    if (spec_optim_of_jobs(o) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "train.outer.%s: of the steps of workers; say it in "
                       "optimizer",
                       spec_optim_of_jobs(o));
    rc = spec_check_optimizer(o, err);
    if (rc == SL_OK)
        rc = spec_optim_no_whole(
            o, "what workers bring is sums of their changes", err);
    return rc == SL_OK ? check_delay(t, err)
                       : sl_prefix(err, rc, "train.outer");
}

// Returns the name of a field that only mode local has and the spec says; NULL:
// none.
static const char *says_local(const Sluice__V1__TrainSpec *t)
{
    return t->inner != NULL        ? "inner"
           : t->outer != NULL      ? "outer"
           : t->has_quorum         ? "quorum"
           : t->has_grace_ms       ? "grace_ms"
           : t->has_fragments      ? "fragments"
           : t->has_overlap        ? "overlap"
           : t->has_max_norm_ratio ? "max_norm_ratio"
           : t->average != NULL    ? "average"
           : t->norm != NULL       ? "norm"
           : t->weight != NULL     ? "weight"
                                   : NULL;
}

static enum sl_err check_norm_ratio(Sluice__V1__TrainSpec *t,
                                    struct sl_error *err)
{
    SPEC_DEFAULT(t, max_norm_ratio, SPEC_NORM_RATIO);
    if (t->max_norm_ratio == 0 ||
        (t->max_norm_ratio > 1 && t->max_norm_ratio <= MAX_NORM_RATIO_MOST))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "train.max_norm_ratio: wants a number above 1 and at most "
                   "%g, or 0, got %g",
                   MAX_NORM_RATIO_MOST, t->max_norm_ratio);
}

// Checks what the mean is of. That of one contribution is the contribution.
static enum sl_err check_average(const Sluice__V1__TrainSpec *t,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (t->average != NULL)
        rc = spec_word("train.average", t->average, averages,
                       SL_COUNT(averages), NULL, err);
    if (rc == SL_OK && spec_directions(t) && spec_open(t) && t->quorum == 1)
        rc = sl_fail(err, SL_EINVAL,
                     "train.average: with train.quorum 1 each contribution is "
                     "an update, and nothing is averaged; set a quorum of at "
                     "least 2, or leave it out");
    return rc;
}

// Checks what a contribution weighs. To a fixed round all are of one age.
static enum sl_err check_weight(const Sluice__V1__TrainSpec *t,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (t->weight != NULL)
        rc = spec_word("train.weight", t->weight, weights, SL_COUNT(weights),
                       NULL, err);
    if (rc == SL_OK && spec_aged(t) && (!spec_open(t) || t->quorum == 1))
        rc = sl_fail(err, SL_EINVAL,
                     "train.weight: contributions of different ages meet in "
                     "one round with a quorum alone; set train.quorum between "
                     "1 and train.contributions, which is %u, or leave it out",
                     t->contributions);
    return rc;
}

static enum sl_err check_norm(const Sluice__V1__TrainSpec *t,
                              struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (t->norm != NULL)
        rc =
            spec_word("train.norm", t->norm, norms, SL_COUNT(norms), NULL, err);
    if (rc != SL_OK || !spec_norm_median(t))
        return rc;
    if (spec_streams(t))
        return sl_fail(err, SL_EINVAL,
                       "train.norm: with train.%s a part of a contribution "
                       "leaves before all of it is known; leave it out",
                       says_streams(t));
    if (spec_inner(t).own)
        return sl_fail(err, SL_EINVAL,
                       "train.norm: with train.inner.pace own, faster workers "
                       "change more in more steps, and would be cut to what "
                       "slower ones change; leave one of them out");
    return SL_OK;
}

// Refuses what is not of steps that a worker takes by itself.
static enum sl_err check_others(const Sluice__V1__JobSpec *spec,
                                struct sl_error *err)
{
    if (spec->train->has_accumulate)
        return sl_fail(err, SL_EINVAL,
                       "train.accumulate: in local each batch is a step of its "
                       "worker; take a larger train.batch");
    if (spec->train->has_audit && spec->train->audit > 0)
        return sl_fail(err, SL_EINVAL,
                       "train.audit: what many steps change is not compared; "
                       "leave it out in local");
    if (spec->callbacks != NULL && spec->callbacks->reduce_on_plateau != NULL)
        return sl_fail(err, SL_EINVAL,
                       "callbacks.reduce_on_plateau: in local the rate of a "
                       "step is its worker's; take optimizer.schedule");
    return SL_OK;
}

// Refuses what only a job in local has.
static enum sl_err check_not_local(const Sluice__V1__JobSpec *spec,
                                   struct sl_error *err)
{
    const Sluice__V1__TrainSpec *t = spec->train;

    if (says_local(t) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "train.%s: says something of local alone, and "
                       "train.mode is %s",
                       says_local(t), t->mode);
    for (size_t i = 0; i < spec->model->n_variables; i++)
        if (spec->model->variables[i]->moving)
            return sl_fail(err, SL_EINVAL,
                           "model.variables[%zu].moving: programs push moving "
                           "statistics in local alone, and train.mode is %s; "
                           "leave %s out of the variables",
                           i, t->mode, spec->model->variables[i]->name);
    return SL_OK;
}

// Returns the edition that a worker, or a program, must know.
static unsigned local_edition(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__TrainSpec *t = spec->train;

    if (spec_sets(t) && spec_external(spec))
        return MODEL_EDITION_PROGRAM_SETS;
    if (spec_norm_median(t) && spec_external(spec))
        return MODEL_EDITION_WEIGHTS;
    return spec_inner(t).store   ? MODEL_EDITION_MOMENTS
           : spec_streams(t)     ? MODEL_EDITION_FRAGMENTS
           : spec_norm_median(t) ? MODEL_EDITION_AVERAGES
           : spec_inner(t).own   ? MODEL_EDITION_PACES
           : spec_sets(t)        ? MODEL_EDITION_SETS
           : spec_coded(spec)    ? MODEL_EDITION_CODED
           : spec_open(t)        ? MODEL_EDITION_OPEN
                                 : MODEL_EDITION_LOCAL;
}

enum sl_err spec_check_local(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;
    enum sl_err rc;

    if (spec->optimizer != NULL && spec->optimizer->has_delay)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.delay: is of train.outer in local alone; "
                       "leave it out");
    if (!spec_local(spec))
        return check_not_local(spec, err);
    rc = check_others(spec, err);
    if (rc == SL_OK)
        rc = check_inner(t, spec_external(spec), err);
    if (rc == SL_OK)
        rc = check_moments(spec, err);
    if (rc == SL_OK)
        rc = check_quorum(t, err);
    if (rc == SL_OK)
        rc = check_outer(t, err);
    if (rc == SL_OK)
        rc = check_norm_ratio(t, err);
    if (rc == SL_OK)
        rc = check_average(t, err);
    if (rc == SL_OK)
        rc = check_weight(t, err);
    if (rc == SL_OK)
        rc = check_norm(t, err);
    if (rc == SL_OK)
        spec_needs(spec, local_edition(spec));
    return rc;
}
