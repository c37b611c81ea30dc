// SPDX-License-Identifier: Apache-2.0
// plan/optimizer.c -- the optimizers' rows, and what follows from them.
#include "plan/optimizer.h"

#include <math.h>

static const char *const kind_names[OPTIM_KIND_COUNT] = {
    "?",
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
};

static const double decays[OPTIM_KIND_COUNT] = {
#define OPTIMIZER(code, name, edition, rate, decay, ...) [OPTIM_##code] = decay,
#include "plan/optimizers.def"
};

static const char *const slot_names[OPTIM_RULES + 1][OPTIM_SLOTS_MAX] = {
#define RULE(name, ...) [OPTIM_RULE_##name] = {__VA_ARGS__},
#define WHOLE(name, ...) RULE(name, __VA_ARGS__)
#include "plan/optimizers.def"
};

const char *optim_kind_name(enum optim_kind kind)
{
    return (unsigned)kind < OPTIM_KIND_COUNT ? kind_names[kind] : "?";
}

void optim_defaults(struct optim *o, enum optim_kind kind)
{
    *o = (struct optim){
        .kind = kind,
        .weight_decay = decays[kind],
#define HYPER(field, key, value) .field = value,
#include "plan/optimizers.def"
    };
#define OWN(code, field, key, value)                                           \
    if (kind == OPTIM_##code)                                                  \
        o->field = value;
#include "plan/optimizers.def"
}

static enum sl_err optim_check_range(const struct optim *o, const char *name,
                                     double x, double low, double below,
                                     struct sl_error *err)
{
    if (x >= low && x < below)
        return SL_OK;
    return sl_fail(err, SL_EINVAL, "optimizer %s: %s is %g, not in [%g, %g)",
                   optim_kind_name(o->kind), name, x, low, below);
}

enum sl_err optim_check(const struct optim *o, struct sl_error *err)
{
    const struct {
        const char *name;
        double x, below;
    } field[] = {
        {"momentum", o->momentum, 1.0000001},
        {"beta_1", o->beta_1, 1},
        {"beta_2", o->beta_2, 1},
        {"rho", o->rho, 1.0000001},
        {"initial_accumulator_value", o->initial_accumulator, INFINITY},
        {"epsilon", o->epsilon, INFINITY},
        {"rms_rate", o->rms_rate, INFINITY},
        {"weight_decay", o->weight_decay, INFINITY},
        {"clipvalue", o->clipvalue, INFINITY},
    };
    enum sl_err rc = SL_OK;

    if (o->kind <= OPTIM_NONE || o->kind >= OPTIM_KIND_COUNT)
        return sl_fail(err, SL_EINVAL, "optimizer of unknown kind %d",
                       (int)o->kind);
    for (size_t i = 0; i < SL_COUNT(field) && rc == SL_OK; i++)
        rc = optim_check_range(o, field[i].name, field[i].x, 0, field[i].below,
                               err);
    return rc;
}

enum optim_rule optim_rule(const struct optim *o)
{
    switch (o->kind) {
#define OPTIMIZER(code, name, edition, rate, decay, keys, consts, start, rule) \
    case OPTIM_##code:                                                         \
        return rule;
#include "plan/optimizers.def"
    default:
        return OPTIM_RULES;
    }
}

bool optim_rule_is_whole(enum optim_rule rule)
{
    switch (rule) {
#define WHOLE(name, ...) case OPTIM_RULE_##name:
#include "plan/optimizers.def"
        return true;
    default:
        return false;
    }
}

bool optim_is_whole(const struct optim *o)
{
    return optim_rule_is_whole(optim_rule(o));
}

// ---- Slots ----------------------------------------------------------------

unsigned optim_rule_slots(enum optim_rule rule)
{
    const char *const *name = slot_names[rule];
    unsigned n = 0;

    while (n < OPTIM_SLOTS_MAX && name[n])
        n++;
    return n;
}

unsigned optim_slots(const struct optim *o)
{
    return optim_rule_slots(optim_rule(o));
}

const char *optim_slot_name(const struct optim *o, unsigned slot)
{
    const char *const *name = slot_names[optim_rule(o)];

    return slot < OPTIM_SLOTS_MAX && name[slot] ? name[slot] : "?";
}

float optim_slot_init(const struct optim *o, unsigned slot)
{
    switch (o->kind) {
#define OPTIMIZER(code, name, edition, rate, decay, keys, consts, start, rule) \
    case OPTIM_##code:                                                         \
        return (float)(start);
#include "plan/optimizers.def"
    default:
        return 0;
    }
}
