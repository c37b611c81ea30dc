// SPDX-License-Identifier: Apache-2.0
// kernels/optim.c -- one update: its numbers, and the loop of its rule.
#include "kernels/optim.h"

#include <math.h>

#include "kernels/optim_loops.h"

// Pure, and cheap beside an update: nothing to keep.
const struct optim_loops *optim_host_loops(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &optim_loops_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &optim_loops_avx2;
#endif
    return &optim_loops_base;
}

// ---- The numbers of one update, by consts of optimizers.def

// torch multiplies the rate to the velocity, Keras to the gradient: they differ
// while the rate changes. The factor of the other place is 1, which keeps the
// bits of an optimizer without it.
static void consts_torch_momentum(struct optim_consts *out,
                                  const struct optim *o)
{
    if (!o->torch_momentum || o->momentum == 0)
        return;
    out->far = out->lr;
    out->lr = 1;
}

// torch adds epsilon after the root, Keras within: with 1e-8, Adam's variables
// are 5e-5 apart after 200 steps.
static void consts_torch_epsilon(struct optim_consts *out,
                                 const struct optim *o)
{
    if (!o->torch_epsilon)
        return;
    out->outer = out->epsilon;
    out->epsilon = 0;
}

static void consts_sgd(struct optim_consts *out, const struct optim *o,
                       uint64_t t, double lr)
{
    out->a = (float)o->momentum;
    if (optim_rule(o) != OPTIM_RULE_sgd_delayed) {
        consts_torch_momentum(out, o);
        return;
    }
    out->b = (float)(1.0 / o->delay);
    out->rest = t % o->delay == 0;
}

// Bias corrections in double: beta^t loses digits in f32. Epsilon is added to
// the root that is not corrected, as Keras has it: torch's, which is added to
// the corrected one, is that much smaller here.
static void consts_adam(struct optim_consts *out, const struct optim *o,
                        uint64_t t, double lr)
{
    double p1 = pow(o->beta_1, (double)t), p2 = pow(o->beta_2, (double)t);

    out->lr = (float)(lr * sqrt(1 - p2) / (1 - p1));
    if (o->torch_epsilon)
        out->epsilon = (float)(o->epsilon * sqrt(1 - p2));
    out->a = (float)(1 - o->beta_1);
    out->b = (float)(1 - o->beta_2);
}

static void consts_adamax(struct optim_consts *out, const struct optim *o,
                          uint64_t t, double lr)
{
    out->lr = (float)(lr / (1 - pow(o->beta_1, (double)t)));
    out->a = (float)(1 - o->beta_1);
    out->b = (float)o->beta_2;
    consts_torch_epsilon(out, o);
}

// Keras' Nadam: the momentum of update i is beta_1 (1 - 0.96^i / 2). The
// product of these is beta_1^t times that of the brackets, which are 1 in
// double from the 900th on. As Adam's, the corrections of v go to the rates and
// to epsilon.
static void consts_nadam(struct optim_consts *out, const struct optim *o,
                         uint64_t t, double lr)
{
    double later = 1, brackets = 1, now, next, product, root;
    uint64_t n = t < 900 ? t : 900;

    for (uint64_t i = 0; i < n; i++) {
        later *= 0.96;
        brackets *= 1 - 0.5 * later;
    }
    now = o->beta_1 * (1 - 0.5 * later);
    next = o->beta_1 * (1 - 0.5 * later * 0.96);
    product = brackets * pow(o->beta_1, (double)t);
    root = sqrt(1 - pow(o->beta_2, (double)t));
    out->lr = (float)(lr * root * next / (1 - product * next));
    out->far = (float)(lr * root * (1 - now) / (1 - product));
    out->epsilon = (float)(o->epsilon * root);
    out->a = (float)(1 - o->beta_1);
    out->b = (float)(1 - o->beta_2);
}

static void consts_lion(struct optim_consts *out, const struct optim *o,
                        uint64_t t, double lr)
{
    out->a = (float)o->beta_1;
    out->outer = (float)(1 - o->beta_1);
    out->b = (float)o->beta_2;
    out->rest = (float)(1 - o->beta_2);
}

static void consts_lamb(struct optim_consts *out, const struct optim *o,
                        uint64_t t, double lr)
{
    out->a = (float)(1 - o->beta_1);
    out->b = (float)(1 - o->beta_2);
    out->far = (float)(1 / (1 - pow(o->beta_1, (double)t)));
    out->rest = (float)(1 / (1 - pow(o->beta_2, (double)t)));
}

static void consts_muon(struct optim_consts *out, const struct optim *o,
                        uint64_t t, double lr)
{
    if (o->elementwise) {
        consts_adam(out, o, t, lr);
        return;
    }
    out->a = (float)o->momentum;
    out->b = o->nesterov ? (float)o->momentum : 1;
    out->rest = o->nesterov ? 1 : 0;
    out->outer = (float)o->rms_rate;
}

static void consts_adagrad(struct optim_consts *out, const struct optim *o,
                           uint64_t t, double lr)
{
    consts_torch_epsilon(out, o);
}

static void consts_rmsprop(struct optim_consts *out, const struct optim *o,
                           uint64_t t, double lr)
{
    out->a = (float)o->momentum;
    out->b = (float)o->rho;
    out->rest = (float)(1 - o->rho);
    consts_torch_momentum(out, o);
    consts_torch_epsilon(out, o);
}

void optim_consts(struct optim_consts *out, const struct optim *o, uint64_t t,
                  double lr)
{
    *out = (struct optim_consts){
        .clip = o->clipvalue > 0 ? (float)o->clipvalue : INFINITY,
        .decay = (float)(o->weight_decay * lr),
        .lr = (float)lr,
        .epsilon = (float)o->epsilon,
        .far = 1,
    };
    switch (o->kind) {
#define OPTIMIZER(code, name, edition, rate, decay, keys, consts, start, rule) \
    case OPTIM_##code:                                                         \
        consts_##consts(out, o, t, lr);                                        \
        break;
#include "plan/optimizers.def"
    default:
        break;
    }
}

void optim_apply(const struct optim *o, uint64_t t, double lr, size_t n,
                 const void *grad, float *w, float *const *slots)
{
    struct optim_consts k;

    optim_consts(&k, o, t, lr);
    optim_update(o, &k, n, grad, w, slots);
}

void optim_update(const struct optim *o, const struct optim_consts *k, size_t n,
                  const void *grad, float *w, float *const *slots)
{
    struct optim_call c = {.n = n, .grad = grad, .w = w, .k = *k};
    enum optim_rule rule = optim_rule(o); // once: a row of a table is short
    unsigned n_slots = optim_rule_slots(rule);

    for (unsigned i = 0; i < n_slots; i++)
        c.slot[i] = slots[i];
    if (rule < OPTIM_RULES && !optim_rule_is_whole(rule))
        optim_host_loops()->loop[rule](&c);
}
