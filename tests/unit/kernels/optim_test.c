// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/optim_test.c -- the optimizers against Keras' own values.
#include <math.h>

#include "kernels/optim.h"
#include "kernels/optim_loops.h"
#include "tests/harness/t.h"

static struct sl_error err; // of calls whose text is looked at

#define COUNT 6

// From the Keras 3 source in double: w[k] = 0.1 (k+1) (-1)^k, g_t[k] = sin(t+k)
// / (1+k), learning rate 0.1. first, second: w[0] after updates 1 and 2; then
// w[0], w[5] and the sum of all after update 10.
struct golden {
    struct optim o;
    double first, second, tenth, last, sum;
};

static void gradient(float g[COUNT], unsigned t)
{
    for (unsigned k = 0; k < COUNT; k++)
        g[k] = (float)(sin((double)t + k) / (1 + k));
}

static void start(float w[COUNT], float slot[3][COUNT], const struct optim *o)
{
    for (unsigned k = 0; k < COUNT; k++)
        w[k] = (float)(0.1 * (k + 1) * (k % 2 ? -1 : 1));
    for (unsigned s = 0; s < 3; s++)
        for (unsigned k = 0; k < COUNT; k++)
            slot[s][k] = optim_slot_init(o, s);
}

// The variable has the shape [2, 3].
static void apply(const struct optim *o, uint64_t t, float *grad, float *w,
                  float *const *slots)
{
    float space[COUNT + 2 * 2 * 2];
    struct optim_consts k;

    if (!optim_is_whole(o)) {
        optim_apply(o, t, 0.1, COUNT, grad, w, slots);
        return;
    }
    optim_consts(&k, o, t, 0.1);
    T_TRUE(optim_whole_space(o, 2, 3) <= SL_COUNT(space));
    optim_whole(o, &k, 2, 3, grad, w, slots, space);
}

static void check(const struct golden *g)
{
    float w[COUNT], slot[3][COUNT], grad[COUNT];
    float *const slots[] = {slot[0], slot[1], slot[2]};
    double sum = 0;

    T_OK(optim_check(&g->o, t_err()));
    start(w, slot, &g->o);
    for (unsigned t = 1; t <= 10; t++) {
        gradient(grad, t);
        apply(&g->o, t, grad, w, slots);
        if (t == 1)
            T_NEAR(w[0], g->first, 2e-6);
        if (t == 2)
            T_NEAR(w[0], g->second, 2e-6);
    }
    T_NEAR(w[0], g->tenth, 2e-6);
    T_NEAR(w[5], g->last, 2e-6);
    for (unsigned k = 0; k < COUNT; k++)
        sum += w[k];
    T_NEAR(sum, g->sum, 6e-6);
}

static struct golden golden(enum optim_kind kind, double first, double second,
                            double tenth, double last, double sum)
{
    struct golden g = {.first = first,
                       .second = second,
                       .tenth = tenth,
                       .last = last,
                       .sum = sum};

    optim_defaults(&g.o, kind);
    return g;
}

TEST(optim, sgd)
{
    struct golden g =
        golden(OPTIM_SGD, 0.0158529015192, -0.0750768411634, -0.0411188371218,
               -0.629325430494, -0.349471392001);

    check(&g);
}

TEST(optim, sgd_momentum)
{
    struct golden g = golden(OPTIM_SGD, 0.0158529015192, -0.150809229796,
                             -0.644849568901, -0.686185448325, -0.753383293109);

    g.o.momentum = 0.9;
    check(&g);
}

TEST(optim, sgd_nesterov)
{
    struct golden g = golden(OPTIM_SGD, -0.0598794871135, -0.30080514798,
                             -0.711483449133, -0.706892333987, -0.757516355799);

    g.o.momentum = 0.9;
    g.o.nesterov = true;
    check(&g);
}

TEST(optim, lamb)
{
    struct golden g = golden(OPTIM_LAMB, 0.0610555630596, 0.0137790281485,
                             -0.13400369868, -0.747802929911, -0.229835043317);

    check(&g);
}

TEST(optim, muon)
{
    struct golden g =
        golden(OPTIM_MUON, 0.0759501053089, 0.0515789435458, -0.00136554926327,
               -0.677741978712, -0.292444303446);

    check(&g);
}

TEST(optim, clipvalue_comes_first)
{
    struct golden g = golden(OPTIM_SGD, 0.08, 0.06, 0.065887999194,
                             -0.629325430494, -0.276948065756);

    g.o.clipvalue = 0.2;
    check(&g);
}

TEST(optim, weight_decay_is_decoupled)
{
    struct golden g =
        golden(OPTIM_SGD, 0.0157529015192, -0.0751925940649, -0.0411438294386,
               -0.623258726801, -0.345841794907);

    g.o.weight_decay = 0.01;
    check(&g);
}

TEST(optim, adam)
{
    struct golden g = golden(OPTIM_ADAM, 3.75802117e-07, -0.100126219231,
                             -0.265456318168, -0.742524861884, -0.206914073991);

    check(&g);
}

TEST(optim, adam_amsgrad)
{
    struct golden g = golden(OPTIM_ADAM, 3.7580339e-08, -0.0999254885628,
                             -0.263820184173, -0.738199446787, -0.206058123275);

    g.o.amsgrad = true;
    g.o.beta_2 = 0.9;
    check(&g);
}

TEST(optim, adamw)
{
    struct golden g = golden(OPTIM_ADAMW, -3.96241979e-05, -0.100166203381,
                             -0.264879053557, -0.739934616034, -0.205929694272);

    check(&g);
}

TEST(optim, adamax)
{
    struct golden g = golden(OPTIM_ADAMAX, 1.18839e-08, -0.0964666655575,
                             -0.224014655563, -0.668089955226, -0.240183538633);

    check(&g);
}

TEST(optim, nadam)
{
    struct golden g =
        golden(OPTIM_NADAM, -0.00627876770076, -0.0861783143832,
               -0.0964060124309, -0.720579825021, -0.249214608253);

    check(&g);
}

TEST(optim, lion)
{
    struct golden g = golden(OPTIM_LION, 0, -0.1, -0.1, -0.8, -0.3);

    T_NEAR(g.o.beta_2, 0.99, 0);
    check(&g);
}

TEST(optim, adagrad_starts_at_a_tenth)
{
    struct golden g =
        golden(OPTIM_ADAGRAD, 0.00639184010605, -0.0647231224371,
               -0.0303946755599, -0.670302135031, -0.297813099072);

    check(&g);
}

TEST(optim, rmsprop)
{
    struct golden g = golden(OPTIM_RMSPROP, -0.216227542716, -0.453869018111,
                             -0.343645642807, -0.876822410244, -0.193135893934);

    check(&g);
}

TEST(optim, rmsprop_momentum_centered)
{
    struct golden g = golden(OPTIM_RMSPROP, -0.2333330718, -0.797332817812,
                             -2.82199112811, -1.30702894552, 0.25420128246);

    g.o.momentum = 0.9;
    g.o.centered = true;
    check(&g);
}

// What torch computes, with an epsilon that can be seen.
TEST(optim, epsilon_as_torch_has_it)
{
    struct golden g;

    g = golden(OPTIM_ADAM, 0.000118698449921, -0.0998939900128, -0.264995802959,
               -0.742345134997, -0.208260233672);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    check(&g);
    g = golden(OPTIM_ADAM, 0.000118698449921, -0.0996931499179, -0.26336317534,
               -0.738100320226, -0.207449519971);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    g.o.amsgrad = true;
    g.o.beta_2 = 0.9;
    check(&g);
    g = golden(OPTIM_ADAMW, 7.86984499209e-05, -0.0999340214921,
               -0.264419738857, -0.739752677237, -0.207271760149);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    check(&g);
    g = golden(OPTIM_ADAMAX, 0.000118698449921, -0.0962420168873,
               -0.223653814811, -0.669081545315, -0.241382297941);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    check(&g);
    g = golden(OPTIM_ADAGRAD, 0.0064958515882, -0.0645635385085,
               -0.0302624308155, -0.670129400802, -0.297920804286);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    check(&g);
    g = golden(OPTIM_RMSPROP, -0.215043820221, -0.452065928164, -0.34214408251,
               -0.885091767071, -0.194372533897);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    check(&g);
    g = golden(OPTIM_RMSPROP, -0.232018104366, -0.794070227457, -2.81072903215,
               -1.38249877827, 0.23033662087);
    g.o.epsilon = 1e-3;
    g.o.torch_epsilon = true;
    g.o.momentum = 0.9;
    g.o.centered = true;
    check(&g);
}

// Not in Keras' table: each half of the case above, against the same formula
// in double.
static void check_rmsprop(bool centered, double momentum)
{
    struct optim o;
    float w[COUNT], slot[3][COUNT], grad[COUNT];
    float *const slots[] = {slot[0], slot[1], slot[2]};
    double x[COUNT], v[COUNT] = {0}, a[COUNT] = {0}, m[COUNT] = {0};

    optim_defaults(&o, OPTIM_RMSPROP);
    o.centered = centered;
    o.momentum = momentum;
    start(w, slot, &o);
    for (unsigned k = 0; k < COUNT; k++)
        x[k] = w[k];
    for (unsigned t = 1; t <= 10; t++) {
        gradient(grad, t);
        optim_apply(&o, t, 0.1, COUNT, grad, w, slots);
        for (unsigned k = 0; k < COUNT; k++) {
            double g = grad[k], d;

            v[k] = 0.9 * v[k] + 0.1 * g * g;
            a[k] = 0.9 * a[k] + 0.1 * g;
            d = v[k] - (centered ? a[k] * a[k] : 0) + 1e-7;
            m[k] = momentum * m[k] + 0.1 * g / sqrt(d);
            x[k] -= m[k];
            T_NEAR(w[k], x[k], 1e-5);
        }
    }
}

TEST(optim, rmsprop_momentum_or_centered_alone)
{
    check_rmsprop(false, 0.5);
    check_rmsprop(true, 0);
}

// While the rate changes torch's velocity and Keras' are not the same; against
// torch's formulas in double.
static void check_torch_momentum(bool nesterov, bool root)
{
    struct optim o;
    float w[COUNT], slot[3][COUNT], grad[COUNT];
    float *const slots[] = {slot[0], slot[1], slot[2]};
    double x[COUNT], v[COUNT] = {0}, buf[COUNT] = {0};

    optim_defaults(&o, root ? OPTIM_RMSPROP : OPTIM_SGD);
    o.momentum = 0.9;
    o.nesterov = nesterov;
    o.torch_momentum = o.torch_epsilon = true;
    o.weight_decay = 0.05;
    start(w, slot, &o);
    for (unsigned k = 0; k < COUNT; k++)
        x[k] = w[k];
    for (unsigned t = 1; t <= 10; t++) {
        double lr = t < 4 ? 0 : 0.1 / t; // a warm-up from 0 has a velocity, too

        gradient(grad, t);
        optim_apply(&o, t, lr, COUNT, grad, w, slots);
        for (unsigned k = 0; k < COUNT; k++) {
            double g = grad[k];

            v[k] = 0.9 * v[k] + 0.1 * g * g;
            g = root ? g / (sqrt(v[k]) + 1e-7) : g;
            buf[k] = 0.9 * buf[k] + g;
            x[k] -= x[k] * 0.05 * lr;
            x[k] -= lr * (nesterov ? g + 0.9 * buf[k] : buf[k]);
            T_NEAR(w[k], x[k], 1e-5);
        }
    }
}

TEST(optim, momentum_as_torch_has_it)
{
    check_torch_momentum(false, false);
    check_torch_momentum(true, false);
    check_torch_momentum(false, true);
}

// Delayed Nesterov (arXiv 2401.09135): after 200 updates at rate 0.7 and
// momentum 0.9, as numpy computes it in double. A delay of 1 is Nesterov's
// momentum with each update.
static void check_delay(uint32_t delay, unsigned updates, double off,
                        const double want[COUNT])
{
    struct optim o;
    float w[COUNT], slot[3][COUNT], grad[COUNT];
    float *const slots[] = {slot[0], slot[1], slot[2]};

    optim_defaults(&o, OPTIM_SGD);
    o.momentum = 0.9;
    o.nesterov = true;
    o.delay = delay;
    start(w, slot, &o);
    for (unsigned t = 1; t <= updates; t++) {
        gradient(grad, t);
        optim_apply(&o, t, 0.7, COUNT, grad, w, slots);
    }
    for (unsigned k = 0; k < COUNT; k++)
        T_NEAR(w[k], want[k], off);
}

TEST(optim, the_velocity_of_a_delay_changes_with_the_mean_of_as_many_updates)
{
    check_delay(4, 200, 1e-6,
                (double[COUNT]){-1.246222822, -0.149925997, 0.784814406,
                                -0.032117489, 0.527139787, -0.820815525});
    check_delay(4, 198, 1e-6,
                (double[COUNT]){-1.696586687, -0.310838780, 0.819013631,
                                0.076055783, 0.600134281, -0.827199217});
    check_delay(1, 200, 1e-5,
                (double[COUNT]){-5.664437033, 0.180863908, 2.495854541,
                                1.189205954, 0.556329902, -1.608745343});
}

// ---- Ranges and addresses -------------------------------------------------

#define MANY 1003

static void each_variant(void (*fn)(const struct optim *o))
{
    for (int kind = OPTIM_SGD; kind < OPTIM_KIND_COUNT; kind++)
        for (int bits = 0; bits < 8; bits++) {
            struct optim o;

            optim_defaults(&o, (enum optim_kind)kind);
            o.momentum = bits & 1 ? 0.9 : 0;
            o.nesterov = o.amsgrad = o.centered = (bits & 2) != 0;
            o.torch_momentum = bits == 5 || bits == 7;
            o.delay = bits == 7 ? 3 : 0;
            o.weight_decay = bits & 4 ? 0.02 : 0;
            o.clipvalue = bits & 4 ? 0.7 : 0;
            fn(&o);
        }
}

struct state {
    float w[MANY], slot[3][MANY], direction[MANY];
};

static void fill(struct state *s, float grad[MANY], const struct optim *o)
{
    for (unsigned i = 0; i < MANY; i++) {
        s->w[i] = (float)sin(i);
        grad[i] = (float)cos(3.0 * i);
        s->direction[i] = 0;
        for (unsigned k = 0; k < 3; k++)
            s->slot[k][i] = optim_slot_init(o, k);
    }
}

// Three updates, each handed over in runs of `run` elements whose bytes lie
// `shift` off.
static void run_updates(struct state *s, const struct optim *o,
                        const float *grad, size_t run, size_t shift)
{
    char wire[MANY * sizeof(float) + 8];

    memcpy(wire + shift, grad, MANY * sizeof(float));
    for (unsigned t = 1; t <= 3; t++)
        for (size_t at = 0; at < MANY; at += run) {
            size_t n = MANY - at < run ? MANY - at : run;
            float *const slots[] = {s->slot[0] + at, s->slot[1] + at,
                                    s->slot[2] + at};

            optim_apply(o, t, 0.05, n, wire + shift + at * sizeof(float),
                        s->w + at, slots);
        }
}

static void check_runs(const struct optim *o)
{
    static const size_t run[] = {1, 7, 64, 333}, shift[] = {1, 2, 3, 4};
    static struct state whole, pieces;
    static float grad[MANY];

    fill(&whole, grad, o);
    run_updates(&whole, o, grad, MANY, 0);
    for (unsigned i = 0; i < SL_COUNT(run); i++) {
        fill(&pieces, grad, o);
        run_updates(&pieces, o, grad, run[i], shift[i]);
        T_MEM(&pieces, &whole, sizeof(whole));
    }
}

// A shard sees its gradient in the runs in which the wire brought it; the
// parameters may not depend on that.
TEST(optim, runs_and_addresses_do_not_change_a_bit)
{
    each_variant(check_runs);
}

#ifdef __x86_64__
// The loops of another host give the same bits: a shard may move.
static void check_isa(const struct optim_loops *l)
{
    static struct state want, got;
    static float grad[MANY];
    struct optim o;

    optim_defaults(&o, OPTIM_ADAGRAD); // slots start above 0
    for (size_t i = 0; i < OPTIM_RULES; i++) {
        struct optim_call c = {.n = MANY,
                               .grad = grad,
                               .k.clip = 0.8f,
                               .k.decay = 0.001f,
                               .k.lr = 0.05f,
                               .k.a = 0.9f,
                               .k.b = 0.3f,
                               .k.rest = 0.7f,
                               .k.epsilon = 1e-7f};

        fill(&want, grad, &o);
        fill(&got, grad, &o);
        c.w = want.w;
        c.direction = want.direction;
        for (int k = 0; k < 3; k++)
            c.slot[k] = want.slot[k];
        optim_loops_base.loop[i](&c);
        c.w = got.w;
        c.direction = got.direction;
        for (int k = 0; k < 3; k++)
            c.slot[k] = got.slot[k];
        l->loop[i](&c);
        T_MEM(&got, &want, sizeof(want));
    }
}

#define ROWS 21
#define COLS 83

// Tiles of several sizes, with rows and columns left over.
static void check_products(const struct optim_loops *l, size_t rows,
                           size_t cols)
{
    static float x[ROWS * COLS], want[2][ROWS * COLS], got[2][ROWS * COLS];

    for (size_t i = 0; i < rows * cols; i++)
        x[i] = (float)sin(2.0 * (double)i);
    optim_loops_base.gram(x, rows, cols, want[0]);
    l->gram(x, rows, cols, got[0]);
    T_MEM(got[0], want[0], rows * rows * sizeof(float));
    optim_loops_base.product(want[0], x, rows, cols, 0.5f, 0.25f, want[1]);
    l->product(want[0], x, rows, cols, 0.5f, 0.25f, got[1]);
    T_MEM(got[1], want[1], rows * cols * sizeof(float));
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++) {
            double is = 0;

            for (size_t j = 0; j < rows; j++)
                is += (double)want[0][i * rows + j] * x[j * cols + k];
            T_NEAR(got[1][i * cols + k], 0.5 * x[i * cols + k] + 0.25 * is,
                   1e-3);
        }
}

static void check_all_products(const struct optim_loops *l)
{
    for (size_t rows = 1; rows <= ROWS; rows += 4)
        for (size_t cols = rows; cols <= COLS; cols += 31)
            check_products(l, rows, cols);
}

TEST(optim, every_instruction_set_gives_the_same_bits)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        T_SKIP("no avx2 here");
    check_isa(&optim_loops_avx2);
    check_all_products(&optim_loops_avx2);
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw")) {
        check_isa(&optim_loops_avx512);
        check_all_products(&optim_loops_avx512);
    }
}
#endif

// ---- Whole variables ------------------------------------------------------

#define SHORT 12
#define LONG 37

static void muon_of(float *w, const float *grad, size_t rows, size_t cols)
{
    static float g[SHORT * LONG], slot[2][SHORT * LONG],
        space[SHORT * LONG + 2 * SHORT * SHORT];
    float *const slots[] = {slot[0], slot[1]};
    struct optim_consts k;
    struct optim o;

    optim_defaults(&o, OPTIM_MUON);
    o.weight_decay = 0;
    o.rms_rate = 0;
    T_EQ(optim_whole_space(&o, rows, cols), SL_COUNT(space));
    memcpy(g, grad, sizeof(g));
    memset(slot, 0, sizeof(slot));
    optim_consts(&k, &o, 1, 1.0);
    optim_whole(&o, &k, rows, cols, g, w, slots, space);
}

// A matrix that lies on its side takes the same steps: Keras has [in, out], and
// a shard [out, in]. The step is near one whose rows are orthonormal: five
// iterations bring each singular value to about 1.
TEST(optim, muon_takes_an_orthogonal_step_on_either_side)
{
    static float wide[SHORT * LONG], tall[SHORT * LONG], w[SHORT * LONG],
        v[SHORT * LONG];
    double dot;

    memset(w, 0, sizeof(w));
    memset(v, 0, sizeof(v));
    for (size_t i = 0; i < SHORT; i++)
        for (size_t k = 0; k < LONG; k++)
            wide[i * LONG + k] = tall[k * SHORT + i] =
                (float)sin(1.0 + 7.0 * (double)i * (double)k);
    muon_of(w, wide, SHORT, LONG);
    muon_of(v, tall, LONG, SHORT);
    for (size_t i = 0; i < SHORT; i++)
        for (size_t k = 0; k < LONG; k++)
            T_NEAR(w[i * LONG + k], v[k * SHORT + i], 1e-6);
    for (size_t i = 0; i < SHORT; i++)
        for (size_t j = 0; j < SHORT; j++) {
            dot = 0;
            for (size_t k = 0; k < LONG; k++)
                dot += (double)w[i * LONG + k] * w[j * LONG + k];
            T_NEAR(dot, i == j ? 1 : 0, 0.5);
        }
}

// A variable of zeroes has no length: lamb's first step is the rate's.
TEST(optim, lamb_moves_a_variable_of_zeroes)
{
    float w[4] = {0}, g[4] = {1, -2, 3, 0}, slot[2][4] = {{0}};
    float *const slots[] = {slot[0], slot[1]};
    struct optim_consts k;
    struct optim o;

    optim_defaults(&o, OPTIM_LAMB);
    optim_consts(&k, &o, 1, 0.1);
    optim_whole(&o, &k, 1, 4, g, w, slots, NULL);
    T_NEAR(w[0], -0.1, 1e-6);
    T_NEAR(w[1], 0.1, 1e-6);
    T_NEAR(w[3], 0, 1e-6);
}

// Muon is of matrices: of what is none, adamw's formula.
TEST(optim, muon_has_adamw_for_the_rest)
{
    struct golden g = golden(OPTIM_MUON, -3.96241979e-05, -0.100166203381,
                             -0.264879053557, -0.739934616034, -0.205929694272);

    g.o.elementwise = true;
    T_TRUE(!optim_is_whole(&g.o));
    T_EQ(optim_slots(&g.o), 2);
    check(&g);
}

TEST(optim, nothing_is_nothing)
{
    struct optim o;

    optim_defaults(&o, OPTIM_SGD);
    optim_apply(&o, 1, 0.1, 0, NULL, NULL, NULL);
}

TEST(optim, a_nan_is_not_clipped_away)
{
    struct optim o;
    float w = 1, g = NAN;

    optim_defaults(&o, OPTIM_SGD);
    o.clipvalue = 0.5;
    optim_apply(&o, 1, 0.1, 1, &g, &w, NULL);
    T_TRUE(isnan(w));
}

// ---- Names and checks -----------------------------------------------------

TEST(optim, slots_have_keras_names)
{
    struct optim o;

    optim_defaults(&o, OPTIM_SGD);
    T_EQ(optim_slots(&o), 0);
    o.momentum = 0.9;
    T_EQ(optim_slots(&o), 1);
    T_STR(optim_slot_name(&o, 0), "momentum");
    optim_defaults(&o, OPTIM_ADAM);
    T_EQ(optim_slots(&o), 2);
    T_STR(optim_slot_name(&o, 1), "velocity");
    o.amsgrad = true;
    T_EQ(optim_slots(&o), 3);
    T_STR(optim_slot_name(&o, 2), "velocity_hat");
    optim_defaults(&o, OPTIM_RMSPROP);
    o.centered = true;
    T_EQ(optim_slots(&o), 2);
    T_STR(optim_slot_name(&o, 1), "average_gradient");
    T_STR(optim_slot_name(&o, 2), "?");
    optim_defaults(&o, OPTIM_ADAGRAD);
    T_NEAR(optim_slot_init(&o, 0), 0.1, 1e-8);
}

TEST(optim, every_kind_has_a_name_of_its_own)
{
    for (int kind = 1; kind < OPTIM_KIND_COUNT; kind++)
        for (int other = 0; other < kind; other++)
            T_TRUE(strcmp(optim_kind_name((enum optim_kind)kind),
                          optim_kind_name((enum optim_kind)other)) != 0);
    T_STR(optim_kind_name((enum optim_kind)99), "?");
}

TEST(optim, check_names_the_value)
{
    struct optim o;

    optim_defaults(&o, OPTIM_ADAM);
    o.beta_2 = 1;
    T_FAILS(SL_EINVAL, optim_check(&o, &err));
    T_HAS(err.text, "beta_2");
    optim_defaults(&o, OPTIM_SGD);
    o.clipvalue = -1;
    T_FAILS(SL_EINVAL, optim_check(&o, NULL));
    o.clipvalue = NAN;
    T_FAILS(SL_EINVAL, optim_check(&o, NULL));
    o.kind = OPTIM_NONE;
    T_FAILS(SL_EINVAL, optim_check(&o, NULL));
}
