// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_loss.c -- softmax and the losses; formulas in ref/loss.c.
//
// Losses leave two partial sums per chunk in the workspace, f64, and the join
// adds them in order.
#include "kernels/cpu/loops.h"

#include <math.h>

#include "kernels/cpu/vmath.h"

static float cpu_largest_at(const float *x, int64_t n, int64_t *at)
{
    *at = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[*at])
            *at = i;
    return x[*at];
}

// y = exp(x - max), and their sum. y may be x.
static double exps(const float *x, float max, float *y, int64_t n)
{
    LOOPS_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = vm_exp(x[i] - max);
    return row_sum(y, n);
}

static void softmax_fwd_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    const float *x = (const float *)a->io[0] + r.first * r.cols;
    float *y = (float *)a->io[1] + r.first * r.cols;

    for (int64_t i = 0; i < r.count; i++, x += r.cols, y += r.cols) {
        float max = row_largest(x, r.cols);
        float scale = (float)(1 / exps(x, max, y, r.cols));

        for (int64_t c = 0; c < r.cols; c++)
            y[c] *= scale;
    }
}

const struct loop_op LOOPS(softmax_fwd) = {.chunks = LOOPS(row_chunks),
                                           .step = {{softmax_fwd_part, NULL}}};

static void softmax_bwd_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    const float *y = (const float *)a->io[0] + r.first * r.cols;
    const float *dy = (const float *)a->io[1] + r.first * r.cols;
    float *dx = (float *)a->io[2] + r.first * r.cols;

    for (int64_t i = 0; i < r.count; i++) {
        float mean = (float)row_dot(y, dy, r.cols);

        LOOPS_IVDEP
        for (int64_t c = 0; c < r.cols; c++)
            dx[c] = y[c] * (dy[c] - mean);
        y += r.cols;
        dy += r.cols;
        dx += r.cols;
    }
}

const struct loop_op LOOPS(softmax_bwd) = {.chunks = LOOPS(row_chunks),
                                           .step = {{softmax_bwd_part, NULL}}};

// ---- Losses ---------------------------------------------------------------

static size_t flat_partials(const struct kern_desc *d)
{
    return (size_t)LOOPS(flat_chunks)(d) * 2 * sizeof(double);
}

static size_t row_partials(const struct kern_desc *d)
{
    return (size_t)LOOPS(row_chunks)(d) * 2 * sizeof(double);
}

static void partial(const struct loop_args *a, int64_t chunk, double one,
                    double two)
{
    double *sums = (double *)a->workspace + chunk * 2;

    sums[0] = one;
    sums[1] = two;
}

static void stats_join(const struct loop_args *a)
{
    double *stats = a->io[a->d->inputs + 1], one = 0, two = 0;
    const double *sums = a->workspace;

    for (int64_t i = 0; i < a->chunks; i++) {
        one += sums[2 * i];
        two += sums[2 * i + 1];
    }
    stats[0] = (kern_has(a->d, KERN_ACCUM) ? stats[0] : 0) + one;
    stats[1] = (kern_has(a->d, KERN_ACCUM) ? stats[1] : 0) + two;
}

// Returns the weight of element `i`, of the first axis's row; 1 without
// weights. *end: as many elements as `n`, if not fewer have that weight.
static float cpu_weight(const struct loop_args *a, int64_t i, int64_t n,
                        int64_t *end)
{
    int64_t each = kern_each(&a->d->io[0]), row = i / each;

    *end = n;
    if (!kern_has(a->d, KERN_WEIGHT))
        return 1;
    if ((row + 1) * each - i < n)
        *end = (row + 1) * each - i;
    return ((const float *)a->io[3])[row];
}

// What one row is compared with: a distribution, or 1 at `label`.
struct truth {
    const float *target; // or NULL
    int64_t label;
};

// Fewer than `top` come before class `want`.
static bool cpu_is_in_top(const float *x, int64_t cols, int64_t want,
                          int64_t top)
{
    int64_t before = 0;

    for (int64_t c = 0; c < want; c++)
        before += x[c] >= x[want];
    for (int64_t c = want + 1; c < cols; c++)
        before += x[c] > x[want];
    return before < top && x[want] == x[want];
}

// Labels (1 - even) labels + even / cols, of what cpu_xent_row leaves in dx for
// those that are not smoothed; x may be gone. Returns the loss, `far` is the
// sum of max - x.
static double smoothed(double loss, double log_sum, double far, float even,
                       int64_t cols, float scale, const struct truth *t,
                       float *dx)
{
    float each = scale * even / (float)cols;

    for (int64_t c = 0; c < cols && t->target; c++)
        dx[c] += scale * even * t->target[c] - each;
    for (int64_t c = 0; c < cols && !t->target; c++)
        dx[c] -= each;
    if (!t->target)
        dx[t->label] += scale * even;
    return (1 - (double)even) * loss +
           (double)even * (far / (double)cols + log_sum);
}

// Reads x, then writes dx, which may be x. Returns the loss.
static double cpu_xent_row(const struct kern_desc *d, const float *x,
                           struct truth t, float scale, float *dx, bool *right)
{
    int64_t cols = kern_cols(&d->io[0]), best;
    float max = cpu_largest_at(x, cols, &best), p, even = d->u.loss.smoothing;
    double loss = 0, weight = 1, sum, far = 0;

    if (t.target) {
        weight = 0;
        for (int64_t c = 0; c < cols; c++) {
            weight += t.target[c];
            if (t.target[c] != 0)
                loss -= (double)t.target[c] * ((double)x[c] - max);
        }
        cpu_largest_at(t.target, cols, &t.label);
    } else {
        loss = (double)max - x[t.label];
    }
    *right = best == t.label;
    if (d->u.loss.top > 1)
        *right = cpu_is_in_top(x, cols, t.label, d->u.loss.top);
    for (int64_t c = 0; c < cols && even > 0; c++)
        far += (double)max - x[c];
    sum = exps(x, max, dx, cols);
    p = (float)(1 / sum);
    if (t.target) {
        for (int64_t c = 0; c < cols; c++)
            dx[c] = scale * (dx[c] * p - t.target[c]);
    } else {
        // The label's own share first: dx[label] is still exp(x - max).
        float own = dx[t.label] * p - 1;

        for (int64_t c = 0; c < cols; c++)
            dx[c] = scale * (dx[c] * p);
        dx[t.label] = scale * own;
    }
    loss += weight * log(sum);
    return even > 0 ? smoothed(loss, log(sum), far, even, cols, scale, &t, dx)
                    : loss;
}

static void xent_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    const float *x = (const float *)a->io[0] + r.first * r.cols;
    float *dx = (float *)a->io[a->d->inputs] + r.first * r.cols;
    float scale = *(const float *)a->io[2];
    const float *weights = kern_has(a->d, KERN_WEIGHT) ? a->io[3] : NULL;
    bool sparse = a->d->io[1].dtype == KERN_I32, right = false;
    int64_t each = kern_each(&a->d->io[1]);
    double loss = 0, count = 0;

    for (int64_t i = r.first; i < r.first + r.count; i++) {
        struct truth t = {
            .target = sparse ? NULL : (const float *)a->io[1] + i * r.cols,
            .label = sparse ? ((const int32_t *)a->io[1])[i * each] : 0};
        float weight = weights ? weights[i] : 1;

        if (t.label < 0 || t.label >= r.cols) {
            for (int64_t c = 0; c < r.cols; c++)
                dx[c] = NAN;
            loss = NAN;
        } else {
            loss += (double)weight *
                    cpu_xent_row(a->d, x, t, weight * scale, dx, &right);
            count += right;
        }
        x += r.cols;
        dx += r.cols;
    }
    partial(a, chunk, loss, count);
}

const struct loop_op LOOPS(xent) = {.chunks = LOOPS(row_chunks),
                                    .workspace_bytes = row_partials,
                                    .step = {{xent_part, stats_join}}};

// As in ref/loss.c: Keras' 1e-7, as f32 has it.
static const float clip_low = 1e-7f, clip_high = 1.0f - 1e-7f;

static double cpu_bce_logit(float x, float t, float *slope)
{
    *slope = vm_sigmoid(x) - t;
    return (x > 0 ? x : 0) - (double)x * t + log1pf(vm_exp(x > 0 ? -x : x));
}

static double cpu_bce_probability(float p, float t, float *slope)
{
    float c = p < clip_low ? clip_low : p > clip_high ? clip_high : p;

    *slope = c == p ? (p - t) / (p * (1 - p)) : 0;
    return -(double)t * log((double)c) - (1.0 - t) * log1p(-(double)c);
}

static void bce_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first, end,
        i = 0,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *x = (const float *)a->io[0] + first;
    const float *target = (const float *)a->io[1] + first;
    float *dx = (float *)a->io[a->d->inputs] + first, slope;
    bool logits = a->d->u.loss.kind == KERN_BCE_LOGITS;
    double cols = (double)kern_cols(&a->d->io[0]), loss = 0, right = 0;
    float scale = (float)(*(const float *)a->io[2] / cols);
    float even = a->d->u.loss.smoothing;

    while (i < n) {
        float weight = cpu_weight(a, first + i, n - i, &end);
        double sum = 0;

        for (end += i; i < end; i++) {
            bool yes = x[i] > (logits ? 0 : 0.5f);
            float t = target[i] * (1 - even) + even / 2;

            right += yes == (target[i] > 0.5f);
            sum += logits ? cpu_bce_logit(x[i], t, &slope)
                          : cpu_bce_probability(x[i], t, &slope);
            dx[i] = weight * scale * slope;
        }
        loss += (double)weight * sum;
    }
    partial(a, chunk, loss / cols, right / cols);
}

const struct loop_op LOOPS(bce) = {.chunks = LOOPS(flat_chunks),
                                   .workspace_bytes = flat_partials,
                                   .step = {{bce_part, stats_join}}};

static void mse_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first, end,
        i = 0,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *x = (const float *)a->io[0] + first;
    const float *target = (const float *)a->io[1] + first;
    float *dx = (float *)a->io[a->d->inputs] + first;
    double cols = (double)kern_cols(&a->d->io[0]), loss = 0, absolute = 0;
    bool linear = a->d->u.loss.kind == KERN_MSE_ABSOLUTE;
    float scale = (float)((linear ? 1 : 2) * *(const float *)a->io[2] / cols);

    while (i < n) {
        float weight = cpu_weight(a, first + i, n - i, &end);
        float step = weight * scale;
        double square = 0, far = 0;

        for (end += i; i < end; i++) {
            float diff = x[i] - target[i];

            square += (double)diff * diff;
            far += fabsf(diff);
            dx[i] =
                linear ? (float)((diff > 0) - (diff < 0)) * step : step * diff;
        }
        loss += (double)weight * (linear ? far : square);
        absolute += far;
    }
    partial(a, chunk, loss / cols, absolute / cols);
}

const struct loop_op LOOPS(mse) = {.chunks = LOOPS(flat_chunks),
                                   .workspace_bytes = flat_partials,
                                   .step = {{mse_part, stats_join}}};
