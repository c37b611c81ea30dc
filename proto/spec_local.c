// SPDX-License-Identifier: Apache-2.0
// proto/spec_local.c -- the check of what only a job in local mode says: the
// steps of a contribution, and the optimizer of the psservers.
#include "proto/spec_check.h"

#include <string.h>

#define INNER_STEPS 100
#define INNER_STEPS_MOST (1 << 20)

// DiLoCo's outer optimizer (arXiv 2311.08105).
#define OUTER_RATE 0.7
#define OUTER_MOMENTUM 0.9

#define MAX_NORM_RATIO 10

static const char *const moments[] = {"reset", "keep"};

bool spec_local(const Sluice__V1__JobSpec *spec)
{
    return spec->train != NULL && spec->train->mode != NULL &&
           strcmp(spec->train->mode, "local") == 0;
}

// Returns the type that a word names; train.wire if it is NULL.
static enum wire_type inner_type(const Sluice__V1__TrainSpec *train,
                                 const char *word)
{
    unsigned type = WIRE_F32;

    if (word == NULL)
        word = train->wire;
    if (word != NULL)
        (void)spec_word("", word, wire_type_names, WIRE_CODES, &type, NULL);
    return (enum wire_type)type;
}

struct spec_inner spec_inner(const Sluice__V1__TrainSpec *train)
{
    const Sluice__V1__InnerSpec *i = train->inner;

    return (struct spec_inner){
        .steps = i != NULL && i->has_steps ? i->steps : INNER_STEPS,
        .keep = i != NULL && i->moments != NULL &&
                strcmp(i->moments, moments[1]) == 0,
        .up = inner_type(train, i != NULL ? i->up : NULL),
        .down = inner_type(train, i != NULL ? i->down : NULL),
    };
}

bool spec_coded(const Sluice__V1__JobSpec *spec)
{
    enum wire_type wire;
    struct spec_inner i;

    if (!spec_local(spec))
        return false;
    i = spec_inner(spec->train);
    wire = inner_type(spec->train, NULL);
    return i.up != wire || i.down != wire;
}

uint32_t spec_down_code(const Sluice__V1__JobSpec *spec)
{
    enum wire_type down = WIRE_F32;

    if (spec_local(spec))
        down = spec_inner(spec->train).down;
    return down >= WIRE_TYPES ? down : 0;
}

double spec_max_norm_ratio(const Sluice__V1__TrainSpec *train)
{
    return train->has_max_norm_ratio ? train->max_norm_ratio : MAX_NORM_RATIO;
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

static enum sl_err check_inner(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    enum sl_err rc =
        spec_message(&t->inner, &sluice__v1__inner_spec__descriptor);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->inner, steps, INNER_STEPS);
    rc = spec_range("train.inner.steps", t->inner->steps, 1, INNER_STEPS_MOST,
                    err);
    if (rc == SL_OK)
        rc = spec_string(&t->inner->moments, moments[0]);
    if (rc == SL_OK)
        rc = spec_word("train.inner.moments", t->inner->moments, moments,
                       SL_COUNT(moments), NULL, err);
    return rc == SL_OK ? check_codes(t->inner, err) : rc;
}

static enum sl_err check_outer(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    Sluice__V1__OptimizerSpec *o;
    bool said = t->outer != NULL;
    // What topk2 leaves out comes later, and momentum would add it up twice.
    bool sparse = spec_inner(t).up == WIRE_TOPK2;
    enum sl_err rc =
        spec_message(&t->outer, &sluice__v1__optimizer_spec__descriptor);

    o = t->outer;
    if (rc == SL_OK && !said) {
        SPEC_DEFAULT(o, learning_rate, sparse ? 1 : OUTER_RATE);
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
    return rc == SL_OK ? rc : sl_prefix(err, rc, "train.outer");
}

static enum sl_err check_norm_ratio(Sluice__V1__TrainSpec *t,
                                    struct sl_error *err)
{
    SPEC_DEFAULT(t, max_norm_ratio, MAX_NORM_RATIO);
    if (t->max_norm_ratio == 0 || t->max_norm_ratio > 1)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "train.max_norm_ratio: wants a number above 1, or 0, got %g",
                   t->max_norm_ratio);
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

    if (t->inner != NULL || t->outer != NULL || t->has_max_norm_ratio)
        return sl_fail(err, SL_EINVAL,
                       "train.%s: says something of local alone, and "
                       "train.mode is %s",
                       t->inner != NULL   ? "inner"
                       : t->outer != NULL ? "outer"
                                          : "max_norm_ratio",
                       t->mode);
    for (size_t i = 0; i < spec->model->n_variables; i++)
        if (spec->model->variables[i]->moving)
            return sl_fail(err, SL_EINVAL,
                           "model.variables[%zu].moving: programs push moving "
                           "statistics in local alone, and train.mode is %s; "
                           "leave %s out of the variables",
                           i, t->mode, spec->model->variables[i]->name);
    return SL_OK;
}

enum sl_err spec_check_local(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;
    enum sl_err rc;

    if (!spec_local(spec))
        return check_not_local(spec, err);
    rc = check_others(spec, err);
    if (rc == SL_OK)
        rc = check_inner(t, err);
    if (rc == SL_OK)
        rc = check_outer(t, err);
    if (rc == SL_OK)
        rc = check_norm_ratio(t, err);
    if (rc == SL_OK)
        spec_needs(spec, spec_coded(spec) ? MODEL_EDITION_CODED
                                          : MODEL_EDITION_LOCAL);
    return rc;
}
