// SPDX-License-Identifier: Apache-2.0
// kernels/optim.c -- the optimizers: what they keep, and one update.
#include "kernels/optim.h"

#include <math.h>
#include <string.h>

#include "kernels/optim_loops.h"

// ---- Names and defaults ---------------------------------------------------

static const char *const kind_names[OPTIM_KIND_COUNT] = {
    "?",
#define OPTIM_KIND_TEXT(code, name) name,
    OPTIM_KIND_MAP(OPTIM_KIND_TEXT)
#undef OPTIM_KIND_TEXT
};

const char *optim_kind_name(enum optim_kind kind)
{
    return (unsigned)kind < OPTIM_KIND_COUNT ? kind_names[kind] : "?";
}

void optim_defaults(struct optim *o, enum optim_kind kind)
{
    *o = (struct optim){
        .kind = kind,
        .beta_1 = 0.9,
        .beta_2 = 0.999,
        .rho = 0.9,
        .initial_accumulator = 0.1,
        .epsilon = 1e-7,
        .weight_decay = kind == OPTIM_ADAMW ? 0.004 : 0,
    };
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
        {"weight_decay", o->weight_decay, INFINITY},
        {"clipvalue", o->clipvalue, INFINITY},
    };
    enum sl_err rc = SL_OK;

    if (o->kind < OPTIM_SGD || o->kind >= OPTIM_KIND_COUNT)
        return sl_fail(err, SL_EINVAL, "optimizer of unknown kind %d",
                       (int)o->kind);
    for (size_t i = 0; i < SL_COUNT(field) && rc == SL_OK; i++)
        rc = optim_check_range(o, field[i].name, field[i].x, 0, field[i].below,
                               err);
    return rc;
}

// ---- Slots ----------------------------------------------------------------

// The names of the slots in order; NULL past the last.
static void slot_names(const struct optim *o, const char *name[OPTIM_SLOTS_MAX])
{
    unsigned n = 0;

    memset(name, 0, OPTIM_SLOTS_MAX * sizeof(*name));
    switch (o->kind) {
    case OPTIM_SGD:
        if (o->momentum != 0)
            name[n++] = "momentum";
        break;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
        name[n++] = "momentum";
        name[n++] = "velocity";
        if (o->amsgrad)
            name[n++] = "velocity_hat";
        break;
    case OPTIM_ADAGRAD:
        name[n++] = "accumulator";
        break;
    case OPTIM_RMSPROP:
        name[n++] = "velocity";
        if (o->momentum != 0)
            name[n++] = "momentum";
        if (o->centered)
            name[n++] = "average_gradient";
        break;
    default:
        break;
    }
}

unsigned optim_slots(const struct optim *o)
{
    const char *name[OPTIM_SLOTS_MAX];
    unsigned n = 0;

    slot_names(o, name);
    while (n < OPTIM_SLOTS_MAX && name[n])
        n++;
    return n;
}

const char *optim_slot_name(const struct optim *o, unsigned slot)
{
    const char *name[OPTIM_SLOTS_MAX];

    slot_names(o, name);
    return slot < OPTIM_SLOTS_MAX && name[slot] ? name[slot] : "?";
}

float optim_slot_init(const struct optim *o, unsigned slot)
{
    return o->kind == OPTIM_ADAGRAD ? (float)o->initial_accumulator : 0;
}

// ---- One update -----------------------------------------------------------

// The loops of this host. Pure, and cheap beside an update: nothing to keep.
static const struct optim_loops *optim_host_loops(void)
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

// Adam's bias corrections in double: beta^t loses digits in f32. Epsilon is
// added to the root that is not corrected, as Keras has it: torch's, which is
// added to the corrected one, is that much smaller here.
void optim_consts(struct optim_consts *out, const struct optim *o, uint64_t t,
                  double lr)
{
    double p1, p2;

    *out = (struct optim_consts){
        .clip = o->clipvalue > 0 ? (float)o->clipvalue : INFINITY,
        .decay = (float)(o->weight_decay * lr),
        .lr = (float)lr,
        .epsilon = (float)o->epsilon,
        .far = 1,
    };
    switch (o->kind) {
    case OPTIM_SGD:
        out->a = (float)o->momentum;
        break;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
        p1 = pow(o->beta_1, (double)t);
        p2 = pow(o->beta_2, (double)t);
        out->lr = (float)(lr * sqrt(1 - p2) / (1 - p1));
        if (o->torch_epsilon)
            out->epsilon = (float)(o->epsilon * sqrt(1 - p2));
        out->a = (float)(1 - o->beta_1);
        out->b = (float)(1 - o->beta_2);
        break;
    case OPTIM_RMSPROP:
        out->a = (float)o->momentum;
        out->b = (float)o->rho;
        out->rest = (float)(1 - o->rho);
        break;
    default:
        break;
    }
    if (o->torch_momentum && o->momentum != 0 &&
        (o->kind == OPTIM_SGD || o->kind == OPTIM_RMSPROP)) {
        out->far = out->lr;
        out->lr = 1;
    }
    if (o->torch_epsilon &&
        (o->kind == OPTIM_ADAGRAD || o->kind == OPTIM_RMSPROP)) {
        out->outer = out->epsilon;
        out->epsilon = 0;
    }
}

static optim_loop loop_of(const struct optim *o)
{
    const struct optim_loops *l = optim_host_loops();

    switch (o->kind) {
    case OPTIM_SGD:
        return o->momentum == 0 ? l->sgd
               : o->nesterov    ? l->sgd_nesterov
                                : l->sgd_momentum;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
        return o->amsgrad ? l->adam_amsgrad : l->adam;
    case OPTIM_ADAGRAD:
        return l->adagrad;
    case OPTIM_RMSPROP:
        return l->rmsprop[o->centered][o->momentum != 0];
    default:
        return NULL;
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
    optim_loop loop = loop_of(o);

    for (unsigned i = 0; i < optim_slots(o); i++)
        c.slot[i] = slots[i];
    if (loop)
        loop(&c);
}
