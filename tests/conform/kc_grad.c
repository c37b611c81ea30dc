// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_grad.c -- is backward the derivative of forward?
//
// In double, on ref. L = sum(weights * y) for random weights, which play dy;
// each gradient is compared with (L(x + h) - L(x - h)) / 2h at up to 64 random
// coordinates and along one random direction, h = 1e-6 max(1, |x|). Relative
// error below 1e-6.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/kc.h"
#include "tests/harness/draw.h"

#define H 1e-6
#define TOLERANCE 1e-6
#define COORDINATES 64

// A forward op, the input of it that moves, and what backward says of it.
struct slope {
    struct trial *fwd;
    unsigned input;
    const double *weights;  // of output 0; NULL: L is stats[0]
    const double *gradient; // dL / d input
};

static double evaluate(const struct slope *s)
{
    const struct kern_desc *d = &s->fwd->d;
    const double *y = s->fwd->io[d->inputs];
    long double sum = 0; // of tens of thousands, of which few change by h

    trial_run_ref(d, s->fwd->io);
    if (!s->weights)
        return ((double *)s->fwd->io[d->inputs + 1])[0];
    for (int64_t i = 0; i < kern_shape_count(&d->io[d->inputs]); i++)
        sum += (long double)s->weights[i] * y[i];
    return (double)sum;
}

static bool agree(const struct slope *s, const char *what, double analytic,
                  double numeric, double size)
{
    if (fabs(analytic - numeric) <= TOLERANCE * fmax(size, 1))
        return true;
    printf("FAILED gradient of %s by input %u, %s: %.12g, by differences "
           "%.12g\n",
           kc_text(&s->fwd->d), s->input, what, analytic, numeric);
    return false;
}

static int coordinates(const struct slope *s, struct rng *rng)
{
    double *x = s->fwd->io[s->input];
    int64_t n = kern_shape_count(&s->fwd->d.io[s->input]);
    int failed = 0;

    for (int k = 0; k < COORDINATES && k < n; k++) {
        int64_t i = n <= COORDINATES ? k : (int64_t)rng_below(rng, (uint64_t)n);
        double old = x[i], h = H * fmax(1, fabs(old)), up, down;

        x[i] = old + h;
        up = evaluate(s);
        x[i] = old - h;
        down = evaluate(s);
        x[i] = old;
        failed += !agree(s, "a coordinate", s->gradient[i],
                         (up - down) / (2 * h), fabs(s->gradient[i]));
    }
    return failed;
}

static int direction(const struct slope *s, struct rng *rng)
{
    double *x = s->fwd->io[s->input], analytic = 0, size = 0, up, down;
    int64_t n = kern_shape_count(&s->fwd->d.io[s->input]);
    double *old = calloc((size_t)n + 1, sizeof(*old));
    double *way = calloc((size_t)n + 1, sizeof(*way));
    int failed;

    memcpy(old, x, (size_t)n * sizeof(*x));
    for (int64_t i = 0; i < n; i++) {
        way[i] = draw_normal(rng);
        analytic += way[i] * s->gradient[i];
        size += fabs(way[i] * s->gradient[i]);
        x[i] = old[i] + H * way[i];
    }
    up = evaluate(s);
    for (int64_t i = 0; i < n; i++)
        x[i] = old[i] - H * way[i];
    down = evaluate(s);
    memcpy(x, old, (size_t)n * sizeof(*x));
    failed = !agree(s, "a direction", analytic, (up - down) / (2 * H), size);
    free(old);
    free(way);
    return failed;
}

static int check(const struct slope *s, struct rng *rng)
{
    return coordinates(s, rng) + direction(s, rng);
}

// ---- Pairs ----------------------------------------------------------------

// The f64 twin of fwd, filled and run once; weights random of y's shape.
static double *forward(struct trial *b, struct kern_desc fwd, struct rng *rng)
{
    const struct kern_shape *y;
    double *weights;

    kern_desc_f64(&fwd);
    trial_new(b, &fwd, 0);
    trial_fill(b, rng);
    // Kinks and ties have no derivative: no exact zeros here.
    for (int64_t i = 0; i < kern_shape_count(&fwd.io[0]); i++)
        while (((double *)b->io[0])[i] == 0)
            ((double *)b->io[0])[i] = draw_float(rng) - 0.5;
    trial_run_ref(&fwd, b->io);
    y = &fwd.io[fwd.inputs];
    weights = calloc((size_t)kern_shape_count(y) + 1, sizeof(*weights));
    for (int64_t i = 0; i < kern_shape_count(y); i++)
        weights[i] = draw_normal(rng);
    return weights;
}

// Runs bwd's twin with inputs taken from where `from` says; b keeps results.
static void backward(struct trial *b, struct kern_desc bwd,
                     const void *const *from)
{
    kern_desc_f64(&bwd);
    trial_new(b, &bwd, 0);
    for (unsigned i = 0; i < bwd.inputs; i++)
        memcpy(b->io[i], from[i], b->bytes[i]);
    trial_run_ref(&bwd, b->io);
}

static int conv_pair(const struct kern_desc *fwd, struct rng *rng)
{
    struct kern_conv_dims c;
    struct trial f, dgrad, wgrad;
    struct kern_desc d;
    double *dy = forward(&f, *fwd, rng);
    int failed = 0;

    kern_conv_dims(&c, fwd);
    kern_desc_conv(&d, KERN_CONV_DGRAD, fwd->io[0].dim, c.co, &c.win,
                   (int32_t)c.groups, 0);
    backward(&dgrad, d, (const void *[]){dy, f.io[1]});
    kern_desc_conv(&d, KERN_CONV_WGRAD, fwd->io[0].dim, c.co, &c.win,
                   (int32_t)c.groups, KERN_BGRAD);
    backward(&wgrad, d, (const void *[]){f.io[0], dy});
    failed += check(&(struct slope){&f, 0, dy, dgrad.io[2]}, rng);
    failed += check(&(struct slope){&f, 1, dy, wgrad.io[2]}, rng);
    failed += check(&(struct slope){&f, 2, dy, wgrad.io[3]}, rng);
    trial_free(&f);
    trial_free(&dgrad);
    trial_free(&wgrad);
    free(dy);
    return failed;
}

static int dense_pair(int64_t m, int64_t n, int64_t k, struct rng *rng)
{
    struct trial f, dgrad, wgrad;
    struct kern_desc d;
    double *dy;
    int failed = 0;

    kern_desc_matmul(&d, m, n, k, false, true, KERN_BIAS);
    dy = forward(&f, d, rng);
    kern_desc_matmul(&d, m, k, n, false, false, 0);
    backward(&dgrad, d, (const void *[]){dy, f.io[1]});
    kern_desc_matmul(&d, n, k, m, true, false, KERN_BGRAD);
    backward(&wgrad, d, (const void *[]){dy, f.io[0]});
    failed += check(&(struct slope){&f, 0, dy, dgrad.io[2]}, rng);
    failed += check(&(struct slope){&f, 1, dy, wgrad.io[2]}, rng);
    failed += check(&(struct slope){&f, 2, dy, wgrad.io[3]}, rng);
    trial_free(&f);
    trial_free(&dgrad);
    trial_free(&wgrad);
    free(dy);
    return failed;
}

// Ops whose backward takes (dy), (dy, aux), (saved, dy) or (y, dy).
static int simple_pair(const struct kern_desc *fwd, const struct kern_desc *bwd,
                       struct rng *rng)
{
    struct trial f, b;
    double *dy = forward(&f, *fwd, rng);
    const void *from[2] = {dy, f.io[2]};
    int failed;

    if (fwd->op == KERN_UNARY_FWD)
        from[0] =
            f.io[kern_unary_saves_input((enum kern_unary_kind)fwd->u.unary.kind)
                     ? 0
                     : 1];
    if (fwd->op == KERN_SOFTMAX_FWD)
        from[0] = f.io[1];
    if (fwd->op == KERN_UNARY_FWD || fwd->op == KERN_SOFTMAX_FWD)
        from[1] = dy;
    if (fwd->op == KERN_DROPOUT)
        from[1] = f.io[1]; // the same op, the same key
    backward(&b, *bwd, from);
    failed = check(&(struct slope){&f, 0, dy, b.io[bwd->inputs]}, rng);
    trial_free(&f);
    trial_free(&b);
    free(dy);
    return failed;
}

static int bn_pair(struct rng *rng)
{
    const int64_t x[] = {5, 3, 3, 7};
    struct trial f, b;
    struct kern_desc d;
    double *dy;
    int failed = 0;

    kern_desc_norm(&d, KERN_BN_FWD, 4, x, 1e-3f, 0);
    dy = forward(&f, d, rng);
    kern_desc_norm(&d, KERN_BN_BWD, 4, x, 1e-3f, 0);
    backward(&b, d, (const void *[]){f.io[0], dy, f.io[1], f.io[4], f.io[5]});
    failed += check(&(struct slope){&f, 0, dy, b.io[5]}, rng);
    failed += check(&(struct slope){&f, 1, dy, b.io[6]}, rng);
    failed += check(&(struct slope){&f, 2, dy, b.io[7]}, rng);
    trial_free(&f);
    trial_free(&b);
    free(dy);
    return failed;
}

// A loss is its own backward: dL/dx is an output, L is stats[0] times scale.
static int loss_pair_of(struct kern_desc d, struct rng *rng)
{
    struct trial f;
    double *gradient;
    size_t bytes;
    int failed;

    free(forward(&f, d, rng));
    *(double *)f.io[2] = 1;
    trial_run_ref(&f.d, f.io);
    bytes = f.bytes[d.inputs];
    gradient = calloc(1, bytes + 8);
    memcpy(gradient, f.io[d.inputs], bytes);
    failed = check(&(struct slope){&f, 0, NULL, gradient}, rng);
    trial_free(&f);
    free(gradient);
    return failed;
}

// The same with a weight for each row, too.
static int loss_pair(const struct kern_desc *loss, struct rng *rng)
{
    struct kern_desc weighed = *loss;

    kern_desc_weigh(&weighed);
    return loss_pair_of(*loss, rng) + loss_pair_of(weighed, rng);
}

// The largest or smallest of three, each input's share.
static int pick_pairs(struct rng *rng)
{
    static const enum kern_binary_kind kinds[] = {KERN_MAX, KERN_MIN};
    const int64_t x[] = {6, 11};
    int failed = 0;

    for (unsigned k = 0; k < 2 * 3; k++) {
        struct trial f, b;
        struct kern_desc d;
        double *dy;

        kern_desc_binary(&d, kinds[k % 2], 3, 2, x);
        dy = forward(&f, d, rng);
        for (int i = 0; i < 66; i++) // no two alike
            ((double *)f.io[1])[i] += 1e-3, ((double *)f.io[2])[i] += 3e-3;
        kern_desc_pick(&d, kinds[k % 2], 3, k / 2, 2, x);
        backward(&b, d, (const void *[]){dy, f.io[0], f.io[1], f.io[2]});
        failed += check(&(struct slope){&f, k / 2, dy, b.io[4]}, rng);
        trial_free(&f);
        trial_free(&b);
        free(dy);
    }
    return failed;
}

static int ln_pair(struct rng *rng)
{
    const int64_t x[] = {5, 3, 13};
    struct trial f, b, dgamma, dbeta;
    struct kern_desc d;
    double *dy;
    int failed = 0;

    kern_desc_ln(&d, KERN_LN_FWD, 3, x, 1e-3f);
    dy = forward(&f, d, rng);
    kern_desc_ln(&d, KERN_LN_BWD, 3, x, 1e-3f);
    backward(&b, d, (const void *[]){f.io[0], dy, f.io[1]});
    kern_desc_reduce(&d, 3, x, 0);
    backward(&dgamma, d, (const void *[]){b.io[4]});
    backward(&dbeta, d, (const void *[]){dy});
    failed += check(&(struct slope){&f, 0, dy, b.io[3]}, rng);
    failed += check(&(struct slope){&f, 1, dy, dgamma.io[1]}, rng);
    failed += check(&(struct slope){&f, 2, dy, dbeta.io[1]}, rng);
    trial_free(&f);
    trial_free(&b);
    trial_free(&dgamma);
    trial_free(&dbeta);
    free(dy);
    return failed;
}

static int gather_pair(struct rng *rng)
{
    struct trial f, b;
    struct kern_desc d;
    double *dy;
    int failed;

    kern_desc_gather(&d, KERN_GATHER, 40, 7, 5);
    dy = forward(&f, d, rng);
    kern_desc_gather(&d, KERN_GATHER_BWD, 40, 7, 5);
    backward(&b, d, (const void *[]){f.io[0], dy});
    failed = check(&(struct slope){&f, 1, dy, b.io[2]}, rng);
    trial_free(&f);
    trial_free(&b);
    free(dy);
    return failed;
}

// h is the slope of stats[0], which neither scale touches.
static int penalty_pair(struct rng *rng)
{
    const int64_t x[] = {6, 11};
    struct trial f;
    struct kern_desc d;
    double *gradient;
    int failed;

    kern_desc_penalty(&d, 0.3f, 0.7f, 5, 2, x, 0);
    free(forward(&f, d, rng));
    *(double *)f.io[1] = *(double *)f.io[2] = 1;
    for (int i = 0; i < 66; i++) // away from the corner of |w|
        ((double *)f.io[0])[i] += ((double *)f.io[0])[i] < 0 ? -0.01 : 0.01;
    trial_run_ref(&f.d, f.io);
    gradient = calloc(1, f.bytes[3] + 8);
    memcpy(gradient, f.io[3], f.bytes[3]);
    failed = check(&(struct slope){&f, 0, NULL, gradient}, rng);
    trial_free(&f);
    free(gradient);
    return failed;
}

// ---- All ------------------------------------------------------------------

static int spatial_pairs(struct rng *rng)
{
    struct kern_desc *d = calloc(KC_CASES, sizeof(*d)), bwd;
    unsigned n = kc_cases(KERN_CONV_FWD, d);
    int failed = 0;

    // Those with a bias and without ReLU, and not too large for this.
    for (unsigned i = 0; i < n; i++)
        if (d[i].epilogue == KERN_BIAS && !kern_desc_empty(&d[i]) &&
            kern_shape_count(&d[i].io[0]) < 3000)
            failed += conv_pair(&d[i], rng);
    n = kc_cases(KERN_POOL_FWD, d);
    for (unsigned i = 0; i < n; i++) {
        bool max = d[i].u.pool.kind == KERN_POOL_MAX;

        if (kern_desc_empty(&d[i]) || d[i].epilogue != (max ? KERN_AUX : 0) ||
            kern_shape_count(&d[i].io[0]) > 5000)
            continue;
        kern_desc_pool(&bwd, KERN_POOL_BWD,
                       (enum kern_pool_kind)d[i].u.pool.kind, d[i].io[0].dim,
                       &d[i].u.pool.win, 0);
        failed += simple_pair(&d[i], &bwd, rng);
    }
    free(d);
    return failed;
}

static int other_losses(struct rng *rng)
{
    const int64_t x[] = {6, 11};
    struct kern_desc fwd;
    int failed = 0;

    for (int sparse = 0; sparse < 2; sparse++) {
        kern_desc_xent(&fwd, 6, 11, sparse, 0);
        kern_desc_smooth(&fwd, 0.2f);
        failed += loss_pair(&fwd, rng);
    }
    kern_desc_mse(&fwd, 2, x, 0);
    kern_desc_absolute(&fwd);
    failed += loss_pair(&fwd, rng);
    kern_desc_bce(&fwd, KERN_BCE_LOGITS, 2, x, 0);
    kern_desc_smooth(&fwd, 0.2f);
    failed += loss_pair(&fwd, rng);
    kern_desc_bce(&fwd, KERN_BCE_PROBABILITIES, 2, x, 0);
    kern_desc_smooth(&fwd, 0.2f);
    return failed + loss_pair(&fwd, rng);
}

static int flat_pairs(struct rng *rng)
{
    const int64_t x[] = {6, 11};
    struct kern_desc fwd, bwd;
    int failed = 0;

    for (int k = 1; k < KERN_UNARY_COUNT; k++) {
        enum kern_unary_kind kind = (enum kern_unary_kind)k;

        kern_desc_unary(&fwd, KERN_UNARY_FWD, kind, 0.3f, 2, x);
        kern_desc_unary(&bwd, KERN_UNARY_BWD, kind, 0.3f, 2, x);
        failed += simple_pair(&fwd, &bwd, rng);
    }
    kern_desc_softmax(&fwd, KERN_SOFTMAX_FWD, 2, x);
    kern_desc_softmax(&bwd, KERN_SOFTMAX_BWD, 2, x);
    failed += simple_pair(&fwd, &bwd, rng);
    kern_desc_dropout(&fwd, 0.4f, 3, 2, x);
    failed += simple_pair(&fwd, &fwd, rng);
    kern_desc_xent(&fwd, 6, 11, true, 0);
    failed += loss_pair(&fwd, rng);
    kern_desc_xent(&fwd, 6, 11, false, 0);
    failed += loss_pair(&fwd, rng);
    kern_desc_mse(&fwd, 2, x, 0);
    failed += loss_pair(&fwd, rng);
    kern_desc_bce(&fwd, KERN_BCE_LOGITS, 2, x, 0);
    failed += loss_pair(&fwd, rng);
    kern_desc_bce(&fwd, KERN_BCE_PROBABILITIES, 2, x, 0);
    failed += loss_pair(&fwd, rng);
    return failed + other_losses(rng);
}

int kc_grad(struct rng *rng)
{
    return dense_pair(5, 7, 11, rng) + dense_pair(1, 1, 1, rng) +
           spatial_pairs(rng) + bn_pair(rng) + flat_pairs(rng) +
           pick_pairs(rng) + ln_pair(rng) + gather_pair(rng) +
           penalty_pair(rng);
}
