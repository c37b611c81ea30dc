// SPDX-License-Identifier: Apache-2.0
// kernels/ref/loss.c -- softmax and the losses, each row by itself.
//
// All passes over a row read it before the last one writes it, so gradients
// may replace logits.
#include "kernels/ref/ref.h"

#include <math.h>

// The largest of a row; *at is the first of equals.
static double ref_largest_at(const real *x, int64_t cols, int64_t *at)
{
    *at = 0;
    for (int64_t c = 1; c < cols; c++)
        if (x[c] > x[*at])
            *at = c;
    return x[*at];
}

static double sum_exp(const real *x, int64_t cols, double max)
{
    double sum = 0;

    for (int64_t c = 0; c < cols; c++)
        sum += exp(x[c] - max);
    return sum;
}

void REF(softmax_fwd)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]), at;

    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)io[0] + i * cols;
        real *y = (real *)io[1] + i * cols;
        double max = ref_largest_at(x, cols, &at), sum = sum_exp(x, cols, max);

        for (int64_t c = 0; c < cols; c++)
            y[c] = (real)(exp(x[c] - max) / sum);
    }
}

void REF(softmax_bwd)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]);

    for (int64_t i = 0; i < rows; i++) {
        const real *y = (const real *)io[0] + i * cols;
        const real *dy = (const real *)io[1] + i * cols;
        real *dx = (real *)io[2] + i * cols;
        double dot = 0;

        for (int64_t c = 0; c < cols; c++)
            dot += (double)y[c] * dy[c];
        for (int64_t c = 0; c < cols; c++)
            dx[c] = (real)(y[c] * (dy[c] - dot));
    }
}

// Are fewer than `top` before class `want`, which are larger or equal and come
// earlier?
static bool ref_is_in_top(const real *x, int64_t cols, int64_t want,
                          int64_t top)
{
    int64_t before = 0;

    for (int64_t c = 0; c < cols; c++)
        before += x[c] > x[want] || (c < want && x[c] >= x[want]);
    return before < (top > 1 ? top : 1) && !isnan(x[want]);
}

// Returns the weight of row `row` of the first axis: 1 without weights.
static double ref_weight(const struct kern_desc *d, void *const *io,
                         int64_t row)
{
    return kern_has(d, KERN_WEIGHT) ? ((const real *)io[3])[row] : 1;
}

// One row against its label's distribution t, which is `target`, or 1 at
// `label`. Returns the loss.
static double ref_xent_row(const struct kern_desc *d, const real *x,
                           const real *target, int64_t label, double scale,
                           real *dx, bool *right)
{
    int64_t cols = kern_cols(&d->io[0]), at, want = label;
    double even = d->u.loss.smoothing, own = 1 - even;
    double max = ref_largest_at(x, cols, &at), sum = sum_exp(x, cols, max);
    double log_sum = log(sum), loss = 0;

    if (target)
        ref_largest_at(target, cols, &want);
    *right = ref_is_in_top(x, cols, want, d->u.loss.top);
    for (int64_t c = 0; c < cols; c++) {
        double t =
            (target ? target[c] : c == label) * own + even / (double)cols;

        if (t != 0)
            loss -= t * (x[c] - max - log_sum);
        dx[c] = (real)(scale * (exp(x[c] - max) / sum - t));
    }
    return loss;
}

void REF(xent)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]);
    bool sparse = d->io[1].dtype == KERN_I32, right;
    int64_t each = kern_each(&d->io[1]);
    double scale = *(const real *)io[2], loss = 0, count = 0;

    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)io[0] + i * cols;
        const real *target = sparse ? NULL : (const real *)io[1] + i * cols;
        int64_t label = sparse ? ((const int32_t *)io[1])[i * each] : 0;
        real *dx = (real *)io[d->inputs] + i * cols;
        double weight = ref_weight(d, io, i);

        if (label < 0 || label >= cols) {
            for (int64_t c = 0; c < cols; c++)
                dx[c] = (real)NAN;
            loss = NAN;
            continue;
        }
        loss += weight *
                ref_xent_row(d, x, target, label, weight * scale, dx, &right);
        count += right;
    }
    ref_stats(d, io[d->inputs + 1], loss, count);
}

// Keras' 1e-7 as f32 has it: 1 - 1e-7 is 0.99999988 there, and the loss of a
// confident mistake is 15.94, not 16.12.
static const double clip_low = 1e-7f, clip_high = 1.0f - 1e-7f;

// Loss of one element and *slope = its derivative by x.
static double ref_bce_logit(double x, double t, double *slope)
{
    // max(x, 0) - x t + log(1 + exp(-|x|)), which cannot overflow.
    *slope = 1 / (1 + exp(-x)) - t;
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static double ref_bce_probability(double p, double t, double *slope)
{
    double clipped = p < clip_low ? clip_low : p > clip_high ? clip_high : p;

    *slope = clipped == p ? (p - t) / (p * (1 - p)) : 0;
    return -t * log(clipped) - (1 - t) * log1p(-clipped);
}

void REF(bce)(const struct kern_desc *d, void *const *io)
{
    int64_t n = kern_shape_count(&d->io[0]);
    double cols = (double)kern_cols(&d->io[0]);
    const real *x = io[0], *target = io[1];
    double scale = *(const real *)io[2] / cols;
    bool logits = d->u.loss.kind == KERN_BCE_LOGITS;
    real *dx = io[d->inputs];
    double loss = 0, right = 0, slope, even = d->u.loss.smoothing;
    int64_t each = kern_each(&d->io[0]);

    for (int64_t i = 0; i < n; i++) {
        double weight = ref_weight(d, io, i / each);
        bool yes = x[i] > (logits ? 0 : 0.5);
        double t = target[i] * (1 - even) + even / 2;

        right += yes == (target[i] > 0.5);
        loss += weight * (logits ? ref_bce_logit(x[i], t, &slope)
                                 : ref_bce_probability(x[i], t, &slope));
        dx[i] = (real)(weight * scale * slope);
    }
    ref_stats(d, io[d->inputs + 1], loss / cols, right / cols);
}

void REF(mse)(const struct kern_desc *d, void *const *io)
{
    int64_t n = kern_shape_count(&d->io[0]);
    double cols = (double)kern_cols(&d->io[0]);
    const real *x = io[0], *target = io[1];
    double scale = *(const real *)io[2] / cols;
    bool linear = d->u.loss.kind == KERN_MSE_ABSOLUTE;
    real *dx = io[d->inputs];
    double loss = 0, absolute = 0;
    int64_t each = kern_each(&d->io[0]);

    for (int64_t i = 0; i < n; i++) {
        double weight = ref_weight(d, io, i / each);
        double diff = (double)x[i] - target[i];
        double sign = diff > 0 ? 1 : diff < 0 ? -1 : 0;

        loss += weight * (linear ? fabs(diff) : diff * diff);
        absolute += fabs(diff);
        dx[i] = (real)(weight * scale * (linear ? sign : 2 * diff));
    }
    ref_stats(d, io[d->inputs + 1], loss / cols, absolute / cols);
}
