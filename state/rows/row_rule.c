// SPDX-License-Identifier: Apache-2.0
// state/rows/row_rule.c -- the rules: a table, and the loops of those that
// kernels/optim.h does not have.
#include "state/rows/row_rule.h"

#include <math.h>
#include <string.h>

#include "plan/tables.h"

typedef float f32_anywhere __attribute__((aligned(1), may_alias));

struct rule_row {
    const char *name; // NULL: the optimizer's
    uint32_t (*slots)(const struct row_rule *r, uint32_t dim);
    void (*apply)(const struct row_rule_update *u, uint32_t dim, size_t n,
                  const void *const *grads, float *const *rows);
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
                              size_t n, const void *const *grads,
                              float *const *rows)
{
    float *slots[OPTIM_SLOTS_MAX];

    for (size_t r = 0; r < n; r++) {
        for (unsigned i = 0; i < OPTIM_SLOTS_MAX; i++)
            slots[i] = rows[r] + (size_t)dim * (1 + i);
        optim_update(&u->rule->optim, &u->consts, dim, grads[r], rows[r],
                     slots);
    }
}

// ---- rowwise_adagrad

static uint32_t rowwise_slots(const struct row_rule *r, uint32_t dim)
{
    return 1;
}

// Sums in LANES, so that compilers use vectors and every host the same order.
#define LANES 16

typedef float half __attribute__((vector_size(2 * LANES)));
typedef float quarter __attribute__((vector_size(16)));
typedef float half_anywhere
    __attribute__((vector_size(2 * LANES), aligned(1), may_alias));

#define ALWAYS static inline __attribute__((always_inline))

// By halves: a chain of additions would take as long as all the rest.
ALWAYS float halves_sum(const half *sums)
{
    quarter q[4];

    memcpy(q, sums, sizeof(q));
    q[0] = (q[0] + q[1]) + (q[2] + q[3]);
    return (q[0][0] + q[0][1]) + (q[0][2] + q[0][3]);
}

// In two halves, which fit registers of AVX2: GCC keeps a vector that does not
// in memory, and the whole update took 1.8 times as long.
ALWAYS float square_sum(uint32_t dim, const f32_anywhere *grad)
{
    uint32_t i = 0;
    half sums[2] = {{0}, {0}};
    float rest = 0;

    for (; i + LANES <= dim; i += LANES) {
        const half_anywhere *g =
            (const half_anywhere *)(const void *)(grad + i);
        half low = g[0], high = g[1];

        sums[0] += low * low;
        sums[1] += high * high;
    }
    for (; i < dim; i++)
        rest += grad[i] * grad[i];
    return halves_sum(sums) + rest;
}

ALWAYS void rowwise_row(const struct optim_consts *k, uint32_t dim, float rate,
                        const f32_anywhere *grad, float *w)
{
    uint32_t i = 0;

    for (; i + LANES <= dim; i += LANES) {
        const half_anywhere *g =
            (const half_anywhere *)(const void *)(grad + i);
        half_anywhere *at = (half_anywhere *)(void *)(w + i);

        at[0] = at[0] - at[0] * k->decay - rate * g[0];
        at[1] = at[1] - at[1] * k->decay - rate * g[1];
    }
    for (; i < dim; i++)
        w[i] = w[i] - w[i] * k->decay - rate * grad[i];
}

// Sum, root and division of a row are one chain, so those of all rows come
// first: they overlap.
ALWAYS void rowwise_loops(const struct optim_consts *k, uint32_t dim, size_t n,
                          const void *const *grads, float *const *rows)
{
    float rate[ROW_RULE_ROWS];

    for (size_t r = 0; r < n; r++) {
        float *s = rows[r] + dim;

        *s += square_sum(dim, grads[r]) * (1 / (float)dim);
        rate[r] = k->lr / (sqrtf(*s) + (k->epsilon + k->outer));
    }
    for (size_t r = 0; r < n; r++)
        rowwise_row(k, dim, rate[r], grads[r], rows[r]);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
rowwise_avx2(const struct optim_consts *k, uint32_t dim, size_t n,
             const void *const *grads, float *const *rows)
{
    rowwise_loops(k, dim, n, grads, rows);
}

__attribute__((target("avx512f"))) static void
rowwise_avx512(const struct optim_consts *k, uint32_t dim, size_t n,
               const void *const *grads, float *const *rows)
{
    rowwise_loops(k, dim, n, grads, rows);
}
#endif

static void rowwise_choose(const struct optim_consts *k, uint32_t dim, size_t n,
                           const void *const *grads, float *const *rows)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        rowwise_avx512(k, dim, n, grads, rows);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        rowwise_avx2(k, dim, n, grads, rows);
        return;
    }
#endif
    rowwise_loops(k, dim, n, grads, rows);
}

// Apart from the rest, which needs no such stack.
static __attribute__((noinline)) void
rowwise_clipped(const struct optim_consts *k, uint32_t dim,
                const f32_anywhere *grad, float *w)
{
    float g[TABLE_DIM_MOST];
    const void *from = g;

    for (uint32_t i = 0; i < dim; i++)
        g[i] = clipped(grad[i], k->clip);
    rowwise_choose(k, dim, 1, &from, &w);
}

static void rowwise_apply(const struct row_rule_update *u, uint32_t dim,
                          size_t n, const void *const *grads,
                          float *const *rows)
{
    if (!isfinite(u->consts.clip)) {
        rowwise_choose(&u->consts, dim, n, grads, rows);
        return;
    }
    for (size_t r = 0; r < n; r++)
        rowwise_clipped(&u->consts, dim, grads[r], rows[r]);
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
static void ftrl_row(const struct row_rule_update *u, uint32_t dim,
                     const f32_anywhere *grad, float *w)
{
    const struct row_rule *r = u->rule;
    float *accumulator = w + dim, *linear = w + 2 * (size_t)dim;

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

static void ftrl_apply(const struct row_rule_update *u, uint32_t dim, size_t n,
                       const void *const *grads, float *const *rows)
{
    if (u->lr <= 0) // the first step of a warm-up: the formula divides by it
        return;
    for (size_t r = 0; r < n; r++)
        ftrl_row(u, dim, grads[r], rows[r]);
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
    if (r->kind == ROW_RULE_OPTIM && optim_is_whole(&r->optim))
        return sl_fail(err, SL_EINVAL,
                       "optimizer %s is of whole variables, and not of rows",
                       optim_kind_name(r->optim.kind));
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

void row_rule_apply(const struct row_rule_update *u, uint32_t dim, size_t n,
                    const void *const *grads, float *const *rows)
{
    rules[u->rule->kind].apply(u, dim, n, grads, rows);
}
