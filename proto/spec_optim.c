// SPDX-License-Identifier: Apache-2.0
// proto/spec_optim.c -- optimizers: names, arguments and defaults of Keras 3.
#include "proto/spec_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define OPTIM_NAME(code, name) name,
    SPEC_OPTIM_MAP(OPTIM_NAME)
#undef OPTIM_NAME
};

#define ANY                                                                    \
    " type learning_rate weight_decay clipvalue clipnorm global_clipnorm "     \
    "schedule groups "
#define ADAM_FIELDS ANY " beta_1 beta_2 epsilon torch_epsilon amsgrad "

static const struct arguments {
    const char *fields; // each with a blank on both sides
    double learning_rate;
} arguments[SPEC_OPTIM_COUNT] = {
    [SPEC_OPTIM_SGD] = {ANY " momentum nesterov torch_momentum ", 0.01},
    [SPEC_OPTIM_ADAM] = {ADAM_FIELDS, 0.001},
    [SPEC_OPTIM_ADAMW] = {ADAM_FIELDS, 0.001},
    [SPEC_OPTIM_ADAGRAD] = {ANY
                            " initial_accumulator_value epsilon torch_epsilon ",
                            0.001},
    [SPEC_OPTIM_RMSPROP] = {ANY " rho momentum epsilon torch_epsilon "
                                "torch_momentum centered ",
                            0.001},
};

static void spec_optim_fill_defaults(Sluice__V1__OptimizerSpec *o,
                                     enum spec_optim_kind kind)
{
    switch (kind) {
    case SPEC_OPTIM_SGD:
        SPEC_DEFAULT(o, momentum, 0);
        SPEC_DEFAULT(o, nesterov, false);
        break;
    case SPEC_OPTIM_ADAMW:
        SPEC_DEFAULT(o, weight_decay, 0.004);
        // fallthrough
    case SPEC_OPTIM_ADAM:
        SPEC_DEFAULT(o, beta_1, 0.9);
        SPEC_DEFAULT(o, beta_2, 0.999);
        SPEC_DEFAULT(o, amsgrad, false);
        break;
    case SPEC_OPTIM_ADAGRAD:
        SPEC_DEFAULT(o, initial_accumulator_value, 0.1);
        break;
    case SPEC_OPTIM_RMSPROP:
        SPEC_DEFAULT(o, rho, 0.9);
        SPEC_DEFAULT(o, momentum, 0);
        SPEC_DEFAULT(o, centered, false);
        break;
    default:
        break;
    }
    if (kind != SPEC_OPTIM_SGD) {
        SPEC_DEFAULT(o, epsilon, 1e-7);
        SPEC_DEFAULT(o, torch_epsilon, false);
    }
}

// All bounds in one table: fields that are not set are not looked at.
static enum sl_err spec_optim_check_values(const Sluice__V1__OptimizerSpec *o,
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
        BOUND(initial_accumulator_value, 0, INFINITY, SPEC_CLOSED),
        BOUND(weight_decay, 0, INFINITY, SPEC_CLOSED),
        BOUND(clipvalue, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(clipnorm, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(global_clipnorm, 0, INFINITY, SPEC_OPEN_LOW),
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
    enum spec_optim_kind kind;
    enum sl_err rc;

    rc = spec_word("optimizer.type", o->type, names, SL_COUNT(names), &index,
                   err);
    if (rc != SL_OK)
        return rc;
    kind = (enum spec_optim_kind)(index + 1);
    rc = spec_only("optimizer", &o->base, arguments[kind].fields, names[index],
                   err);
    if (rc == SL_OK && o->schedule != NULL)
        rc = spec_check_schedule(o->schedule, err);
    if (rc != SL_OK)
        return rc;
    if (is_piecewise(o) && o->has_learning_rate)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.learning_rate: piecewise_constant_decay has "
                       "its rates in values; leave learning_rate out");
    spec_optim_fill_defaults(o, kind);
    if (!is_piecewise(o))
        SPEC_DEFAULT(o, learning_rate, arguments[kind].learning_rate);
    rc = spec_optim_check_values(o, err);
    return rc == SL_OK ? spec_check_groups(o, arguments[kind].fields, err) : rc;
}

enum sl_err spec_optimizer(struct spec_optimizer *out,
                           const Sluice__V1__OptimizerSpec *o,
                           struct sl_error *err)
{
    struct spec_optimizer to = {.kind = SPEC_OPTIM_NONE};
    unsigned index;
    enum sl_err rc;

    rc = spec_word("optimizer.type", o->type, names, SL_COUNT(names), &index,
                   err);
    if (rc != SL_OK)
        return rc;
    to.kind = (enum spec_optim_kind)(index + 1);
    to.momentum = o->momentum;
    to.nesterov = o->nesterov;
    to.beta_1 = o->beta_1;
    to.beta_2 = o->beta_2;
    to.amsgrad = o->amsgrad;
    to.rho = o->rho;
    to.centered = o->centered;
    to.initial_accumulator = o->initial_accumulator_value;
    to.epsilon = o->epsilon;
    to.torch_epsilon = o->torch_epsilon;
    to.torch_momentum = o->torch_momentum;
    to.weight_decay = o->weight_decay;
    to.clipvalue = o->clipvalue;
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

    if (spec_optimizer(&is, o, NULL) != SL_OK)
        return 0;
    switch (is.kind) {
    case SPEC_OPTIM_SGD:
        return is.momentum != 0;
    case SPEC_OPTIM_ADAM:
    case SPEC_OPTIM_ADAMW:
        return 2 + is.amsgrad;
    case SPEC_OPTIM_ADAGRAD:
        return 1;
    case SPEC_OPTIM_RMSPROP:
        return 1u + (is.momentum != 0) + is.centered;
    default:
        return 0;
    }
}
