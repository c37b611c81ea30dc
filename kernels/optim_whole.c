// SPDX-License-Identifier: Apache-2.0
// kernels/optim_whole.c -- updates that look at a whole variable.
#include <math.h>

#include "kernels/optim.h"
#include "kernels/optim_loops.h"

#define LANES 8

// Returns the sum of the squares, in double. Its order is that of the elements
// in LANES sums, so the compiler's vectors change no bit.
static double whole_squares(const float *x, size_t n)
{
    double sum[LANES] = {0}, all = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            sum[l] += (double)x[i + l] * x[i + l];
    for (; i < n; i++)
        all += (double)x[i] * x[i];
    for (int l = 0; l < LANES; l++)
        all += sum[l];
    return all;
}

static void whole_step(float *w, const float *direction, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= by * direction[i];
}

// A variable of zeroes, and a direction of zeroes, take the rate alone.
static void whole_lamb(float rate, const float *direction, float *w, size_t n)
{
    double of_w = sqrt(whole_squares(w, n));
    double of_step = sqrt(whole_squares(direction, n));
    double ratio = of_w > 0 && of_step > 0 ? of_w / of_step : 1;

    whole_step(w, direction, n, (float)(ratio * rate));
}

// ---- muon

// Coefficients of the quintic iteration.
static const float ns_a = 3.4445f, ns_b = -4.7750f, ns_c = 2.0315f;

#define NS_STEPS 5

static void whole_transpose(float *out, const float *x, size_t rows,
                            size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            out[k * rows + i] = x[i * cols + k];
}

// Makes x [short, long] about orthogonal; `other` is as large, and each of
// `square` short * short. Returns where the result lies: at x or at `other`.
static float *whole_orthogonal(float *x, float *other, float *const square[2],
                               size_t shorter, size_t longer)
{
    const struct optim_loops *loops = optim_host_loops();
    size_t n = shorter * longer;
    float norm = (float)sqrt(whole_squares(x, n)) + 1e-7f, *was;

    for (size_t i = 0; i < n; i++)
        x[i] /= norm;
    for (int step = 0; step < NS_STEPS; step++) {
        loops->gram(x, shorter, longer, square[0]);
        loops->product(square[0], square[0], shorter, shorter, ns_b, ns_c,
                       square[1]);
        loops->product(square[1], x, shorter, longer, ns_a, 1, other);
        was = x;
        x = other;
        other = was;
    }
    return x;
}

// The iteration is symmetric under transposition: the squares are of the
// shorter side.
static void whole_muon(const struct optim_consts *k, size_t rows, size_t cols,
                       float *direction, float *w, float *space)
{
    size_t n = rows * cols, shorter = rows < cols ? rows : cols;
    size_t longer = n / shorter;
    float *const square[] = {space + n, space + n + shorter * shorter};
    float *x = direction, *other = space, *step;
    float by = k->outer > 0 ? k->lr * sqrtf((float)longer) * k->outer : k->lr;

    if (rows > cols) {
        whole_transpose(space, direction, rows, cols);
        x = space;
        other = direction;
    }
    step = whole_orthogonal(x, other, square, shorter, longer);
    if (rows > cols) {
        other = step == space ? direction : space;
        whole_transpose(other, step, cols, rows);
        step = other;
    }
    whole_step(w, step, n, by);
}

size_t optim_whole_space(const struct optim *o, size_t rows, size_t cols)
{
    size_t shorter = rows < cols ? rows : cols;

    return optim_rule(o) == OPTIM_RULE_muon
               ? rows * cols + 2 * shorter * shorter
               : 0;
}

void optim_whole(const struct optim *o, const struct optim_consts *k,
                 size_t rows, size_t cols, float *grad, float *w,
                 float *const *slots, float *space)
{
    struct optim_call c = {
        .n = rows * cols, .grad = grad, .direction = grad, .w = w, .k = *k};
    enum optim_rule rule = optim_rule(o);

    if (!optim_rule_is_whole(rule) || c.n == 0)
        return;
    for (unsigned i = 0; i < optim_rule_slots(rule); i++)
        c.slot[i] = slots[i];
    optim_host_loops()->loop[rule](&c);
    if (rule == OPTIM_RULE_muon)
        whole_muon(k, rows, cols, grad, w, space);
    else
        whole_lamb(k->lr, grad, w, c.n);
}
