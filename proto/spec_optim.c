// SPDX-License-Identifier: Apache-2.0
// proto/spec_optim.c -- optimizers: names, arguments and defaults of Keras 3.
#include "proto/spec_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const optimizers[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
};

#define ANY                                                                    \
    " type learning_rate weight_decay clipvalue clipnorm global_clipnorm "     \
    "schedule groups "

static const struct arguments {
    const char *fields; // each with a blank on both sides
    double rate, decay; // defaults; decay 0: weight_decay is not filled in
    unsigned edition;   // of a worker that applies it
} arguments[OPTIM_KIND_COUNT] = {
#define OPTIMIZER(code, name, edition, rate, decay, keys, ...)                 \
    [OPTIM_##code] = {ANY keys, rate, decay, edition},
#include "plan/optimizers.def"
};

static void spec_optim_fill_defaults(Sluice__V1__OptimizerSpec *o,
                                     const struct arguments *a)
{
    if (a->decay != 0)
        SPEC_DEFAULT(o, weight_decay, a->decay);
#define OWN(code, field, key, value)                                           \
    if (a == &arguments[OPTIM_##code])                                         \
        SPEC_DEFAULT(o, key, value);
#include "plan/optimizers.def"
#define HYPER(field, key, value)                                               \
    if (strstr(a->fields, " " #key " ") != NULL)                               \
        SPEC_DEFAULT(o, key, value);
#include "plan/optimizers.def"
}

// All bounds in one table: fields that are not set are not looked at.
enum sl_err spec_optim_check_values(const Sluice__V1__OptimizerSpec *o,
                                    struct sl_error *err)
{
    // A cosine schedule may warm up from 0.
    bool warms = o->schedule != NULL && o->schedule->has_warmup_target;
    enum spec_ends lowest_rate = warms ? SPEC_CLOSED : SPEC_OPEN_LOW;

#define BOUND(field, min, max, ends)                                           \
    {                                                                          \
        "optimizer." #field, o->has_##field, o->field, min, max, ends          \
    }
    const struct {
        const char *path;
        protobuf_c_boolean given;
        double value, min, max;
        enum spec_ends ends;
    } bounds[] = {
        BOUND(learning_rate, 0, INFINITY, lowest_rate),
        BOUND(momentum, 0, 1, SPEC_CLOSED),
        BOUND(beta_1, 0, 1, SPEC_OPEN_HIGH),
        BOUND(beta_2, 0, 1, SPEC_OPEN_HIGH),
        BOUND(epsilon, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(rho, 0, 1, SPEC_OPEN_HIGH),
        BOUND(rms_rate, 0, INFINITY, SPEC_CLOSED),
        BOUND(initial_accumulator_value, 0, INFINITY, SPEC_CLOSED),
        BOUND(weight_decay, 0, INFINITY, SPEC_CLOSED),
        BOUND(clipvalue, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(clipnorm, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(global_clipnorm, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(learning_rate_power, -1, 0, SPEC_CLOSED),
        BOUND(l1, 0, INFINITY, SPEC_CLOSED),
        BOUND(l2, 0, INFINITY, SPEC_CLOSED),
        BOUND(l2_shrinkage, 0, INFINITY, SPEC_CLOSED),
        BOUND(beta, 0, INFINITY, SPEC_CLOSED),
    };
#undef BOUND

    for (unsigned i = 0; i < SL_COUNT(bounds); i++) {
        enum sl_err rc = SL_OK;

        if (bounds[i].given)
            rc = spec_real(bounds[i].path, bounds[i].value, bounds[i].min,
                           bounds[i].max, bounds[i].ends, err);
        if (rc != SL_OK)
            return rc;
    }
    if (o->has_clipvalue + o->has_clipnorm + o->has_global_clipnorm > 1)
        return sl_fail(err, SL_EINVAL,
                       "optimizer: at most one of clipvalue, clipnorm and "
                       "global_clipnorm may be given");
    return SL_OK;
}

static bool is_piecewise(const Sluice__V1__OptimizerSpec *o)
{
    return o->schedule != NULL && o->schedule->type != NULL &&
           strcmp(o->schedule->type, "piecewise_constant_decay") == 0;
}

enum sl_err spec_check_optimizer(Sluice__V1__OptimizerSpec *o,
                                 struct sl_error *err)
{
    unsigned index;
    const struct arguments *a;
    enum sl_err rc;

    rc = spec_word("optimizer.type", o->type, optimizers, SL_COUNT(optimizers),
                   &index, err);
    if (rc != SL_OK)
        return rc;
    a = &arguments[index + 1];
    rc = spec_only("optimizer", &o->base, a->fields, optimizers[index], err);
    if (rc == SL_OK && o->schedule != NULL)
        rc = spec_check_schedule(o->schedule, err);
    if (rc != SL_OK)
        return rc;
    if (is_piecewise(o) && o->has_learning_rate)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.learning_rate: piecewise_constant_decay has "
                       "its rates in values; leave learning_rate out");
    spec_optim_fill_defaults(o, a);
    if (!is_piecewise(o))
        SPEC_DEFAULT(o, learning_rate, a->rate);
    return spec_optim_check_values(o, err);
}

const char *spec_optimizer_fields(const Sluice__V1__OptimizerSpec *o)
{
    unsigned index = 0;

    (void)spec_word("optimizer.type", o->type, optimizers, SL_COUNT(optimizers),
                    &index, NULL);
    return arguments[index + 1].fields;
}

enum sl_err spec_optimizer(struct spec_optimizer *out,
                           const Sluice__V1__OptimizerSpec *o,
                           struct sl_error *err)
{
    struct spec_optimizer to = {.clipnorm = 0};
    unsigned index;
    enum sl_err rc;

    rc = spec_word("optimizer.type", o->type, optimizers, SL_COUNT(optimizers),
                   &index, err);
    if (rc != SL_OK)
        return rc;
    to.optim.kind = (enum optim_kind)(index + 1);
#define HYPER(field, key, value) to.optim.field = o->key;
#include "plan/optimizers.def"
    to.optim.torch_momentum = o->torch_momentum;
    to.optim.delay = o->delay;
    to.optim.weight_decay = o->weight_decay;
    to.optim.clipvalue = o->clipvalue;
    to.clipnorm = o->clipnorm;
    to.global_clipnorm = o->global_clipnorm;
    rc = spec_optim_check_values(o, err);
    if (rc != SL_OK)
        return rc;
    spec_schedule(&to.schedule, o);
    *out = to;
    return SL_OK;
}

unsigned spec_optimizer_slots(const Sluice__V1__OptimizerSpec *o)
{
    struct spec_optimizer is;

    return spec_optimizer(&is, o, NULL) == SL_OK ? optim_slots(&is.optim) : 0;
}

// Returns true if the optimizer, of a checked spec, looks at whole variables.
static bool spec_looks_at_whole(const Sluice__V1__OptimizerSpec *o)
{
    struct spec_optimizer is;

    return spec_optimizer(&is, o, NULL) == SL_OK && optim_is_whole(&is.optim);
}

enum sl_err spec_optim_no_whole(const Sluice__V1__OptimizerSpec *o,
                                const char *why, struct sl_error *err)
{
    if (!spec_looks_at_whole(o))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "optimizer.type: %s looks at whole variables, which "
                   "psservers alone have, and %s; take another one",
                   o->type, why);
}

bool spec_optim_whole(const Sluice__V1__JobSpec *spec)
{
    return spec->optimizer != NULL && spec_looks_at_whole(spec->optimizer);
}

const char *spec_optim_of_jobs(const Sluice__V1__OptimizerSpec *o)
{
    return o->schedule != NULL      ? "schedule"
           : o->n_groups > 0        ? "groups"
           : o->has_clipnorm        ? "clipnorm"
           : o->has_global_clipnorm ? "global_clipnorm"
                                    : NULL;
}

unsigned spec_optim_edition(const Sluice__V1__OptimizerSpec *o)
{
    struct spec_optimizer is;

    return spec_optimizer(&is, o, NULL) == SL_OK
               ? arguments[is.optim.kind].edition
               : 0;
}
