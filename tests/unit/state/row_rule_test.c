// SPDX-License-Identifier: Apache-2.0
// The rules of rows, through sets of rows, against the formulas of the
// libraries that define them, in double: 200 updates, of which each touches
// some of the rows.
#include <math.h>

#include "state/rows/rowset.h"
#include "plan/tables.h"

#include "tests/harness/t.h"

#define DIM 19
#define ROWS 7
#define STEPS 200
#define RATE 0.002

static struct sl_error wrong;

// A row as a library has it.
struct state {
    double w[DIM], a[DIM], b[DIM]; // value, first slot, second slot
};

typedef void (*formula)(struct state *s, const double *g, double t);

// torch.optim.SparseAdam: m += (g - m)(1 - beta1), v likewise,
// and the step size has both corrections of the global step.
static void sparse_adam(struct state *s, const double *g, double t)
{
    double size = RATE * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));

    for (unsigned i = 0; i < DIM; i++) {
        s->a[i] += (g[i] - s->a[i]) * (1 - 0.9);
        s->b[i] += (g[i] * g[i] - s->b[i]) * (1 - 0.999);
        s->w[i] -= size * s->a[i] / (sqrt(s->b[i]) + 1e-7);
    }
}

// torch.optim.AdamW: the decay comes before, p *= 1 - lr * weight_decay.
static void sparse_adamw(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++)
        s->w[i] *= 1 - RATE * 0.004;
    sparse_adam(s, g, t);
}

// torch.optim.SGD with a sparse gradient.
static void sparse_sgd(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++)
        s->w[i] -= RATE * g[i];
}

// TensorFlow's SparseApplyKerasMomentum.
static void sparse_momentum(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++) {
        s->a[i] = 0.9 * s->a[i] - RATE * g[i];
        s->w[i] += s->a[i];
    }
}

// Keras 3, Adagrad.update_step; TensorFlow has the same in SparseApplyAdagradV2
// but for the place of epsilon.
static void sparse_adagrad(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++) {
        s->a[i] += g[i] * g[i];
        s->w[i] -= RATE * g[i] / sqrt(s->a[i] + 1e-7);
    }
}

// torch.optim.Adagrad with a sparse gradient: epsilon
// is added to the root.
static void torch_adagrad(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++) {
        s->a[i] += g[i] * g[i];
        s->w[i] -= RATE * g[i] / (sqrt(s->a[i]) + 1e-7);
    }
}

// FBGEMM's EXACT_ROWWISE_ADAGRAD: one sum of mean squares for each
// row, multiplier = lr / (sqrt(sum) + eps).
static void rowwise_adagrad(struct state *s, const double *g, double t)
{
    double mean = 0;

    for (unsigned i = 0; i < DIM; i++)
        mean += g[i] * g[i] / DIM;
    s->a[0] += mean;
    for (unsigned i = 0; i < DIM; i++)
        s->w[i] -= RATE / (sqrt(s->a[0]) + 1e-8) * g[i];
}

static double clip(double x, double most)
{
    return x < -most ? -most : x > most ? most : x;
}

// Keras 3, Ftrl.update_step.
static void keras_ftrl(double *w, double *n, double *z, double g, double lr,
                       double l1, double l2, double shrinkage, double beta)
{
    double l2s = l2 + beta / (2 * lr), gs = g + 2 * shrinkage * *w;
    double new_n = *n + g * g;

    *z += gs - (pow(new_n, 0.5) - pow(*n, 0.5)) / lr * *w;
    *w = (clip(*z, l1) - *z) / (pow(new_n, 0.5) / lr + 2 * l2s);
    *n = new_n;
}

static void ftrl(struct state *s, const double *g, double t)
{
    for (unsigned i = 0; i < DIM; i++)
        keras_ftrl(&s->w[i], &s->a[i], &s->b[i], g[i], RATE, 0.001, 0.01, 0.02,
                   0.5);
}

// ---- 200 updates

static float gradient(uint64_t id, uint32_t version, unsigned i)
{
    return sinf((float)(id * 7 + version * 3 + i)) / (float)(1 + i % 5);
}

// Which rows an update touches: each about every other time.
static bool touches(uint64_t id, uint32_t version)
{
    return sl_mix64(id * 1000 + version) % 2 == 0;
}

static void push(struct rowset *r, uint64_t id, uint32_t version)
{
    struct rowset_step step = {.version = version, .rate = RATE, .factor = 1};
    float g[DIM];

    for (unsigned i = 0; i < DIM; i++)
        g[i] = gradient(id, version, i);
    T_OK(rowset_reserve(r, 1, &id));
    rowset_apply(r, &step, 1, &id, WIRE_F32, g);
}

static void check_rule(const struct row_rule *rule, const char *name,
                       formula apply)
{
    struct rowset_spec spec = {
        .dim = DIM,
        .buckets = 4,
        .shards = 1,
        .seed = 5,
        .scale = 1,
        .probability = 1,
        .rule = *rule,
        .initial = {SLUICE__V1__INIT_KIND__INIT_UNIFORM, -0.05, 0.05}};
    static struct state state[ROWS];
    struct rowset *r;
    float w[DIM];
    double g[DIM];

    T_STR(row_rule_name(rule), name);
    T_OK(rowset_new(&r, &spec, t_err()));
    memset(state, 0, sizeof(state));
    for (uint64_t id = 0; id < ROWS; id++) {
        T_OK(rowset_read(r, 1, &id, w, t_err()));
        for (unsigned i = 0; i < DIM; i++) {
            state[id].w[i] = w[i];
            if (rule->kind == ROW_RULE_FTRL ||
                rule->optim.kind == OPTIM_ADAGRAD)
                state[id].a[i] = rule->optim.initial_accumulator;
        }
    }
    for (uint32_t version = 1; version <= STEPS; version++)
        for (uint64_t id = 0; id < ROWS; id++) {
            if (!touches(id, version))
                continue;
            for (unsigned i = 0; i < DIM; i++)
                g[i] = gradient(id, version, i);
            push(r, id, version);
            apply(&state[id], g, version);
        }
    for (uint64_t id = 0; id < ROWS; id++) {
        T_OK(rowset_read(r, 1, &id, w, t_err()));
        for (unsigned i = 0; i < DIM; i++)
            T_NEAR(w[i], state[id].w[i], 1e-6);
    }
    rowset_free(r);
}

static struct row_rule rule_of(enum optim_kind kind)
{
    struct row_rule rule;

    row_rule_defaults(&rule, ROW_RULE_OPTIM, kind);
    return rule;
}

static void apply_one(const struct row_rule_update *u, uint32_t dim,
                      const void *grad, float *values)
{
    row_rule_apply(u, dim, 1, &grad, &values);
}

TEST(row_rule, optimizers_are_lazy_and_count_the_shards_updates)
{
    struct row_rule rule = rule_of(OPTIM_SGD);

    check_rule(&rule, "sgd", sparse_sgd);
    rule.optim.momentum = 0.9;
    check_rule(&rule, "sgd", sparse_momentum);
    rule = rule_of(OPTIM_ADAGRAD);
    check_rule(&rule, "adagrad", sparse_adagrad);
    rule.optim.torch_epsilon = true;
    check_rule(&rule, "adagrad", torch_adagrad);
    rule = rule_of(OPTIM_ADAM);
    check_rule(&rule, "adam", sparse_adam);
    rule = rule_of(OPTIM_ADAMW);
    check_rule(&rule, "adamw", sparse_adamw);
}

TEST(row_rule, rowwise_adagrad_is_fbgemms)
{
    struct row_rule rule;

    row_rule_defaults(&rule, ROW_RULE_ROWWISE_ADAGRAD, OPTIM_NONE);
    T_EQ(row_rule_slots(&rule, DIM), 1);
    check_rule(&rule, "rowwise_adagrad", rowwise_adagrad);
}

TEST(row_rule, ftrl_is_kerass)
{
    struct row_rule rule;

    row_rule_defaults(&rule, ROW_RULE_FTRL, OPTIM_NONE);
    rule.l1 = 0.001;
    rule.l2 = 0.01;
    rule.l2_shrinkage = 0.02;
    rule.beta = 0.5;
    T_EQ(row_rule_slots(&rule, DIM), 2 * DIM);
    check_rule(&rule, "ftrl", ftrl);
}

// Values of Keras' own Ftrl: learning_rate 0.1, w[k] = 0.1 (k + 1) (-1)^k and
// g[k] = sin(t + k) / (1 + k) for ten updates.
TEST(row_rule, ftrl_has_the_values_that_keras_computes)
{
    const struct {
        double l1, l2, shrinkage, beta, first, last;
    } keras[] = {
        {0, 0, 0, 0, -0.0655729615948, -0.0767042959716},
        {0.01, 0.01, 0.01, 0.1, -0.0587623614744, -0.0552755261035},
    };

    for (size_t which = 0; which < SL_COUNT(keras); which++) {
        struct row_rule_update u;
        struct row_rule rule;
        float w[18], g[6];

        row_rule_defaults(&rule, ROW_RULE_FTRL, OPTIM_NONE);
        rule.l1 = keras[which].l1;
        rule.l2 = keras[which].l2;
        rule.l2_shrinkage = keras[which].shrinkage;
        rule.beta = keras[which].beta;
        for (int k = 0; k < 6; k++)
            w[k] = 0.1f * (float)(k + 1) * (k % 2 == 0 ? 1 : -1);
        row_rule_begin(&rule, 6, w + 6);
        for (int t = 1; t <= 10; t++) {
            for (int k = 0; k < 6; k++)
                g[k] = sinf((float)(t + k)) / (float)(1 + k);
            row_rule_update_init(&u, &rule, (uint64_t)t, 0.1);
            apply_one(&u, 6, g, w);
        }
        T_NEAR(w[0], keras[which].first, 2e-6);
        T_NEAR(w[5], keras[which].last, 2e-6);
    }
}

// Clipping comes first, then the decay of the row, then the rule.
TEST(row_rule, rules_of_rows_clip_and_decay)
{
    for (unsigned kind = ROW_RULE_ROWWISE_ADAGRAD; kind < ROW_RULE_KINDS;
         kind++) {
        struct row_rule_update u;
        struct row_rule rule;
        float one[DIM * 3], other[DIM * 3], g[DIM], clipped[DIM];

        row_rule_defaults(&rule, (enum row_rule_kind)kind, OPTIM_NONE);
        for (unsigned i = 0; i < DIM; i++) {
            one[i] = (float)i - 5;
            other[i] = one[i] - one[i] * (float)(0.1 * RATE);
            g[i] = (float)i * 0.1f - 0.5f;
            clipped[i] = (float)clip(g[i], 0.25);
        }
        row_rule_begin(&rule, DIM, one + DIM);
        row_rule_begin(&rule, DIM, other + DIM);
        row_rule_update_init(&u, &rule, 1, RATE);
        apply_one(&u, DIM, clipped, other);
        rule.optim.clipvalue = 0.25;
        rule.optim.weight_decay = 0.1;
        row_rule_update_init(&u, &rule, 1, RATE);
        apply_one(&u, DIM, g, one);
        for (unsigned i = 0; i < DIM; i++)
            T_NEAR(one[i], other[i], 1e-6);
    }
}

// Which rows come in one call changes no bit of any.
TEST(row_rule, rows_of_one_call_come_out_as_alone)
{
    static float alone[ROW_RULE_ROWS][DIM * 3], g[ROW_RULE_ROWS][DIM];
    static float together[ROW_RULE_ROWS][DIM * 3];

    for (unsigned kind = 0; kind < 2 * ROW_RULE_KINDS; kind++) {
        const void *grads[ROW_RULE_ROWS];
        float *rows[ROW_RULE_ROWS];
        struct row_rule_update u;
        struct row_rule rule;

        row_rule_defaults(&rule, (enum row_rule_kind)(kind / 2), OPTIM_ADAM);
        rule.optim.clipvalue = kind % 2 == 0 ? 0 : 0.2;
        row_rule_update_init(&u, &rule, 1, RATE);
        for (unsigned r = 0; r < ROW_RULE_ROWS; r++) {
            for (unsigned i = 0; i < DIM; i++) {
                g[r][i] = gradient(r, 1, i);
                alone[r][i] = gradient(r, 2, i);
            }
            row_rule_begin(&rule, DIM, alone[r] + DIM);
            memcpy(together[r], alone[r], sizeof(alone[r]));
            grads[r] = g[r];
            rows[r] = together[r];
            apply_one(&u, DIM, g[r], alone[r]);
        }
        row_rule_apply(&u, DIM, 0, grads, rows);
        row_rule_apply(&u, DIM, ROW_RULE_ROWS, grads, rows);
        T_TRUE(memcmp(alone, together, sizeof(alone)) == 0);
    }
}

TEST(row_rule, a_rate_of_0_is_no_division)
{
    struct row_rule_update u;
    struct row_rule rule;
    float w[3] = {2, 0.1f, 0}, g = 1;

    row_rule_defaults(&rule, ROW_RULE_FTRL, OPTIM_NONE);
    row_rule_update_init(&u, &rule, 1, 0);
    apply_one(&u, 1, &g, w);
    T_TRUE(w[0] == 2);
}

TEST(row_rule, a_number_out_of_range_is_refused)
{
    struct row_rule rule;

    row_rule_defaults(&rule, ROW_RULE_FTRL, OPTIM_NONE);
    T_OK(row_rule_check(&rule, t_err()));
    rule.l1 = -1;
    T_FAILS(SL_EINVAL, row_rule_check(&rule, &wrong));
    T_HAS(wrong.text, "optimizer ftrl: l1 is -1");
    rule.l1 = 0;
    rule.power = 0.5;
    T_FAILS(SL_EINVAL, row_rule_check(&rule, &wrong));
    T_HAS(wrong.text, "learning_rate_power");
    rule.kind = ROW_RULE_ROWWISE_ADAGRAD;
    T_OK(row_rule_check(&rule, t_err()));
    rule.optim.epsilon = -1;
    T_FAILS(SL_EINVAL, row_rule_check(&rule, &wrong));
}
