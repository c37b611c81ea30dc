// SPDX-License-Identifier: Apache-2.0
// state/rows/row_rule.c -- the rules: a table, and the loops of those that
// kernels/optim.h does not have.
#include "state/rows/row_rule.h"

#include <math.h>

typedef float f32_anywhere __attribute__((aligned(1), may_alias));

struct rule_row {
    const char *name; // NULL: the optimizer's
    uint32_t (*slots)(const struct row_rule *r, uint32_t dim);
    void (*apply)(const struct row_rule_update *u, uint32_t dim,
                  const f32_anywhere *grad, float *w);
};

static float clipped(float g, float clip)
{
    float low = g < -clip ? -clip : g;

    return low > clip ? clip : low;
}

// ---- the optimizers

static uint32_t elementwise_slots(const struct row_rule *r, uint32_t dim)
{
    return optim_slots(&r->optim) * dim;
}

static void elementwise_apply(const struct row_rule_update *u, uint32_t dim,
                              const f32_anywhere *grad, float *w)
{
    float *slots[OPTIM_SLOTS_MAX];

    for (unsigned i = 0; i < OPTIM_SLOTS_MAX; i++)
        slots[i] = w + (size_t)dim * (1 + i);
    optim_update(&u->rule->optim, &u->consts, dim, grad, w, slots);
}

// ---- rowwise_adagrad

static uint32_t rowwise_slots(const struct row_rule *r, uint32_t dim)
{
    return 1;
}

// Sums in LANES, so that compilers use vectors and every host the same order.
#define LANES 16

static float square_sum(uint32_t dim, const f32_anywhere *grad, float clip)
{
    float lane[LANES] = {0}, sum = 0;
    uint32_t whole = dim / LANES * LANES;

    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t k = 0; k < LANES; k++) {
            float g = clipped(grad[i + k], clip);

            lane[k] += g * g;
        }
    for (uint32_t i = whole; i < dim; i++) {
        float g = clipped(grad[i], clip);

        lane[i - whole] += g * g;
    }
    for (uint32_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static void rowwise_apply(const struct row_rule_update *u, uint32_t dim,
                          const f32_anywhere *grad, float *w)
{
    const struct optim_consts *k = &u->consts;
    float *s = w + dim, rate;

    *s += square_sum(dim, grad, k->clip) / (float)dim;
    rate = k->lr / (sqrtf(*s) + (k->epsilon + k->outer));
    for (uint32_t i = 0; i < dim; i++)
        w[i] = w[i] - w[i] * k->decay - rate * clipped(grad[i], k->clip);
}

// ---- ftrl

static uint32_t ftrl_slots(const struct row_rule *r, uint32_t dim)
{
    return 2 * dim;
}

static double ftrl_power(double n, double power)
{
    return power == -0.5 ? sqrt(n) : pow(n, -power);
}

// In double: w is a small difference of large sums.
static void ftrl_apply(const struct row_rule_update *u, uint32_t dim,
                       const f32_anywhere *grad, float *w)
{
    const struct row_rule *r = u->rule;
    float *accumulator = w + dim, *linear = w + 2 * (size_t)dim;

    if (u->lr <= 0) // the first step of a warm-up: the formula divides by it
        return;
    for (uint32_t i = 0; i < dim; i++) {
        double old = w[i] - (double)w[i] * u->consts.decay;
        double g = clipped(grad[i], u->consts.clip);
        double n = accumulator[i] + g * g, root = ftrl_power(n, r->power);
        double z = linear[i] + g + 2 * r->l2_shrinkage * old -
                   (root - ftrl_power(accumulator[i], r->power)) / u->lr * old;
        double least = z < -r->l1 ? -r->l1 : z > r->l1 ? r->l1 : z;

        w[i] = (float)((least - z) / (root / u->lr + 2 * u->l2));
        accumulator[i] = (float)n;
        linear[i] = (float)z;
    }
}

// ---- all of them

static const struct rule_row rules[ROW_RULE_KINDS] = {
    [ROW_RULE_OPTIM] = {NULL, elementwise_slots, elementwise_apply},
    [ROW_RULE_ROWWISE_ADAGRAD] = {"rowwise_adagrad", rowwise_slots,
                                  rowwise_apply},
    [ROW_RULE_FTRL] = {"ftrl", ftrl_slots, ftrl_apply},
};

void row_rule_defaults(struct row_rule *r, enum row_rule_kind kind,
                       enum optim_kind optim)
{
    *r = (struct row_rule){.kind = kind, .power = -0.5};
    optim_defaults(&r->optim, kind == ROW_RULE_OPTIM ? optim : OPTIM_ADAGRAD);
    if (kind == ROW_RULE_ROWWISE_ADAGRAD) {
        r->optim.initial_accumulator = 0;
        r->optim.epsilon = 1e-8;
    }
}

enum sl_err row_rule_check(const struct row_rule *r, struct sl_error *err)
{
    const struct {
        const char *name;
        double x;
    } field[] = {
        {"l1", r->l1},
        {"l2", r->l2},
        {"l2_shrinkage", r->l2_shrinkage},
        {"beta", r->beta},
        {"-learning_rate_power", -r->power},
    };

    if ((unsigned)r->kind >= ROW_RULE_KINDS)
        return sl_fail(err, SL_EINVAL, "a row rule of unknown kind %d",
                       (int)r->kind);
    if (r->kind != ROW_RULE_FTRL)
        return optim_check(&r->optim, err);
    for (size_t i = 0; i < SL_COUNT(field); i++)
        if (!(field[i].x >= 0 && field[i].x < INFINITY))
            return sl_fail(err, SL_EINVAL,
                           "optimizer ftrl: %s is %g, not in [0, inf)",
                           field[i].name, field[i].x);
    return optim_check(&r->optim, err);
}

const char *row_rule_name(const struct row_rule *r)
{
    const char *name = rules[r->kind].name;

    return name != NULL ? name : optim_kind_name(r->optim.kind);
}

uint32_t row_rule_slots(const struct row_rule *r, uint32_t dim)
{
    return rules[r->kind].slots(r, dim);
}

void row_rule_begin(const struct row_rule *r, uint32_t dim, float *slots)
{
    uint32_t n = row_rule_slots(r, dim);

    for (uint32_t i = 0; i < n; i++)
        slots[i] = optim_slot_init(&r->optim, i / dim);
    for (uint32_t i = dim; i < n && r->kind == ROW_RULE_FTRL; i++)
        slots[i] = 0; // the linear term
}

void row_rule_update_init(struct row_rule_update *out,
                          const struct row_rule *rule, uint64_t t, double lr)
{
    *out = (struct row_rule_update){.rule = rule, .lr = lr};
    optim_consts(&out->consts, &rule->optim, t, lr);
    out->l2 = rule->l2 + rule->beta / (2 * lr);
}

void row_rule_apply(const struct row_rule_update *u, uint32_t dim,
                    const void *grad, float *values)
{
    rules[u->rule->kind].apply(u, dim, grad, values);
}
