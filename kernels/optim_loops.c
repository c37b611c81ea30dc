// SPDX-License-Identifier: Apache-2.0
// kernels/optim_loops.c -- the element loops of the optimizers.
//
// Memory is the bound: each loop touches every array once. The gradient may
// lie at any address, as it came from the wire, so it is read through a type
// without alignment; compilers turn that into unaligned vector loads. The build
// forbids contraction to FMA here: an element's bits depend on the update
// alone, not on where a run begins or on the instruction set.
#include "kernels/optim_loops.h"

#include <math.h>
#include <stdbool.h>

#define NAME2(isa) optim_loops_##isa
#define NAME(isa) NAME2(isa)

typedef float f32_anywhere __attribute__((aligned(1), may_alias));

#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

// Opens a loop over the elements with g clipped and w decayed.
#define EACH(c)                                                                \
    const float lr = (c)->k.lr;                                                \
    EACH_DIRECTION(c)

// The same, where another pass takes the step.
#define EACH_DIRECTION(c)                                                      \
    const f32_anywhere *grad = (c)->grad;                                      \
    float *restrict w = (c)->w;                                                \
    const float clip = (c)->k.clip, decay = (c)->k.decay;                      \
    const size_t n = (c)->n;                                                   \
    IVDEP                                                                      \
    for (size_t i = 0; i < n; i++)

// NaN passes through: both comparisons are false.
static inline float optim_clipped(float g, float clip)
{
    float low = g < -clip ? -clip : g;

    return low > clip ? clip : low;
}

static void sgd(const struct optim_call *c)
{
    EACH(c)
    {
        w[i] = w[i] - w[i] * decay - lr * optim_clipped(grad[i], clip);
    }
}

static void sgd_momentum(const struct optim_call *c)
{
    float *restrict m = c->slot[0];
    const float mu = c->k.a, far = c->k.far;

    EACH(c)
    {
        m[i] = mu * m[i] - lr * optim_clipped(grad[i], clip);
        w[i] = w[i] - w[i] * decay + far * m[i];
    }
}

static void sgd_nesterov(const struct optim_call *c)
{
    float *restrict m = c->slot[0];
    const float mu = c->k.a, far = c->k.far;

    EACH(c)
    {
        float step = lr * optim_clipped(grad[i], clip);

        m[i] = mu * m[i] - step;
        w[i] = w[i] - w[i] * decay + far * (mu * m[i] - step);
    }
}

// Delayed Nesterov: the sum of as many updates is that of one by their mean.
static void sgd_delayed(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict sum = c->slot[1];
    const float mu = c->k.a, share = c->k.b;
    const bool moves = c->k.rest != 0;

    EACH(c)
    {
        float g = share * optim_clipped(grad[i], clip);
        float all = sum[i] + g, to = mu * m[i] + all;

        sum[i] = moves ? 0 : all;
        m[i] = moves ? to : m[i];
        w[i] = w[i] - w[i] * decay - lr * (moves ? g + mu * to : g);
    }
}

static void adam(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict v = c->slot[1];
    const float a = c->k.a, b = c->k.b, epsilon = c->k.epsilon;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        m[i] += (g - m[i]) * a;
        v[i] += (g * g - v[i]) * b;
        w[i] = w[i] - w[i] * decay - lr * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

static void adam_amsgrad(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict v = c->slot[1];
    float *restrict top = c->slot[2];
    const float a = c->k.a, b = c->k.b, epsilon = c->k.epsilon;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        m[i] += (g - m[i]) * a;
        v[i] += (g * g - v[i]) * b;
        top[i] = v[i] > top[i] ? v[i] : top[i];
        w[i] = w[i] - w[i] * decay - lr * m[i] / (sqrtf(top[i]) + epsilon);
    }
}

// torch adds its epsilon to each |g|, before the largest is taken.
static void adamax(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict u = c->slot[1];
    const float a = c->k.a, b = c->k.b, epsilon = c->k.epsilon,
                outer = c->k.outer;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);
        float size = fabsf(g) + outer, kept = b * u[i];

        m[i] += (g - m[i]) * a;
        u[i] = kept > size ? kept : size;
        w[i] = w[i] - w[i] * decay - lr * m[i] / (u[i] + epsilon);
    }
}

static void adagrad(const struct optim_call *c)
{
    float *restrict s = c->slot[0];
    const float epsilon = c->k.epsilon, outer = c->k.outer;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        s[i] += g * g;
        w[i] = w[i] - w[i] * decay - lr * g / (sqrtf(s[i] + epsilon) + outer);
    }
}

static void rmsprop(const struct optim_call *c)
{
    float *restrict v = c->slot[0];
    const float rho = c->k.b, rest = c->k.rest, epsilon = c->k.epsilon,
                outer = c->k.outer;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        v[i] = rho * v[i] + rest * (g * g);
        w[i] = w[i] - w[i] * decay - lr * g / (sqrtf(v[i] + epsilon) + outer);
    }
}

static void rmsprop_momentum(const struct optim_call *c)
{
    float *restrict v = c->slot[0], *restrict m = c->slot[1];
    const float rho = c->k.b, rest = c->k.rest, epsilon = c->k.epsilon,
                outer = c->k.outer, mu = c->k.a, far = c->k.far;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        v[i] = rho * v[i] + rest * (g * g);
        m[i] = mu * m[i] + lr * g / (sqrtf(v[i] + epsilon) + outer);
        w[i] = w[i] - w[i] * decay - far * m[i];
    }
}

// v - a^2 may be a little negative; epsilon is the only guard, as in Keras (and
// none where it is added after the root, as in torch).
static void rmsprop_centered(const struct optim_call *c)
{
    float *restrict v = c->slot[0], *restrict mean = c->slot[1];
    const float rho = c->k.b, rest = c->k.rest, epsilon = c->k.epsilon,
                outer = c->k.outer;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        v[i] = rho * v[i] + rest * (g * g);
        mean[i] = rho * mean[i] + rest * g;
        w[i] = w[i] - w[i] * decay -
               lr * g / (sqrtf(v[i] - mean[i] * mean[i] + epsilon) + outer);
    }
}

static void rmsprop_both(const struct optim_call *c)
{
    float *restrict v = c->slot[0], *restrict m = c->slot[1];
    float *restrict mean = c->slot[2];
    const float rho = c->k.b, rest = c->k.rest, epsilon = c->k.epsilon,
                outer = c->k.outer, mu = c->k.a, far = c->k.far;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        v[i] = rho * v[i] + rest * (g * g);
        mean[i] = rho * mean[i] + rest * g;
        m[i] = mu * m[i] +
               lr * g / (sqrtf(v[i] - mean[i] * mean[i] + epsilon) + outer);
        w[i] = w[i] - w[i] * decay - far * m[i];
    }
}

static void nadam(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict v = c->slot[1];
    const float a = c->k.a, b = c->k.b, epsilon = c->k.epsilon, far = c->k.far;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip);

        m[i] += (g - m[i]) * a;
        v[i] += (g * g - v[i]) * b;
        w[i] = w[i] - w[i] * decay -
               (lr * m[i] + far * g) / (sqrtf(v[i]) + epsilon);
    }
}

// A step of the rate in the direction of the sign; none where it is 0.
static void lion(const struct optim_call *c)
{
    float *restrict m = c->slot[0];
    const float a = c->k.a, outer = c->k.outer, b = c->k.b, rest = c->k.rest;

    EACH(c)
    {
        float g = optim_clipped(grad[i], clip), to = m[i] * a + g * outer;
        float step = to > 0 ? lr : to < 0 ? -lr : 0;

        w[i] = w[i] - w[i] * decay - step;
        m[i] = m[i] * b + g * rest;
    }
}

// ---- Directions of WHOLE rules

static void lamb(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *restrict v = c->slot[1];
    float *to = c->direction;
    const float a = c->k.a, b = c->k.b, epsilon = c->k.epsilon, far = c->k.far,
                rest = c->k.rest;

    EACH_DIRECTION(c)
    {
        float g = optim_clipped(grad[i], clip);

        m[i] += (g - m[i]) * a;
        v[i] += (g * g - v[i]) * b;
        w[i] = w[i] - w[i] * decay;
        to[i] = m[i] * far / (sqrtf(v[i] * rest) + epsilon);
    }
}

static void muon(const struct optim_call *c)
{
    float *restrict m = c->slot[0], *to = c->direction;
    const float mu = c->k.a, b = c->k.b, rest = c->k.rest;

    EACH_DIRECTION(c)
    {
        float g = optim_clipped(grad[i], clip);

        m[i] = mu * m[i] + g;
        w[i] = w[i] - w[i] * decay;
        to[i] = rest * g + b * m[i];
    }
}

// ---- Products of matrices

#define LANES 16

typedef float lanes
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define LANES_AT(p) (*(const lanes *)(p))

// Rows of a tile; of rows past the last, the last is read again.
#define TILE 4

static inline size_t tile_row(size_t row, size_t rows)
{
    return row < rows ? row : rows - 1;
}

// Makes TILE times 2 elements of a gram.
static void gram_tile(const float *const a[TILE], const float *const b[2],
                      size_t n, float out[TILE][2])
{
    lanes sum[TILE][2] = {0};
    size_t k = 0;

    for (; k + LANES <= n; k += LANES)
        for (int p = 0; p < TILE; p++)
            for (int q = 0; q < 2; q++)
                sum[p][q] += LANES_AT(a[p] + k) * LANES_AT(b[q] + k);
    for (int p = 0; p < TILE; p++)
        for (int q = 0; q < 2; q++) {
            out[p][q] = 0;
            for (int l = 0; l < LANES; l++)
                out[p][q] += sum[p][q][l];
            for (size_t rest = k; rest < n; rest++)
                out[p][q] += a[p][rest] * b[q][rest];
        }
}

// A gram is symmetric: tiles below the diagonal are not made.
static void matrix_gram(const float *x, size_t rows, size_t cols, float *out)
{
    const float *a[TILE], *b[2];
    float is[TILE][2];

    for (size_t i = 0; i < rows; i += TILE)
        for (size_t j = i; j < rows; j += 2) {
            for (size_t p = 0; p < TILE; p++)
                a[p] = x + tile_row(i + p, rows) * cols;
            for (size_t q = 0; q < 2; q++)
                b[q] = x + tile_row(j + q, rows) * cols;
            gram_tile(a, b, cols, is);
            for (size_t p = 0; p < TILE && i + p < rows; p++)
                for (size_t q = 0; q < 2 && j + q < rows; q++)
                    out[(i + p) * rows + j + q] = out[(j + q) * rows + i + p] =
                        is[p][q];
        }
}

// Makes TILE rows of a product, in 2 * LANES columns from `x` on.
static void product_tile(const float *const m[TILE], const float *x,
                         size_t rows, size_t cols, lanes out[TILE][2])
{
    for (size_t k = 0; k < rows; k++)
        for (int p = 0; p < TILE; p++)
            for (int q = 0; q < 2; q++)
                out[p][q] += m[p][k] * LANES_AT(x + k * cols + q * LANES);
}

static float product_element(const float *m, const float *x, size_t rows,
                             size_t cols)
{
    float sum = 0;

    for (size_t k = 0; k < rows; k++)
        sum += m[k] * x[k * cols];
    return sum;
}

// Columns outside: a strip of x stays in the cache for all rows of m.
static void matrix_product(const float *m, const float *x, size_t rows,
                           size_t cols, float scale, float factor, float *out)
{
    const float *of[TILE];
    size_t at = 0;

    for (; at + 2 * LANES <= cols; at += 2 * LANES)
        for (size_t i = 0; i < rows; i += TILE) {
            lanes sum[TILE][2] = {0};

            for (size_t p = 0; p < TILE; p++)
                of[p] = m + tile_row(i + p, rows) * rows;
            product_tile(of, x + at, rows, cols, sum);
            for (size_t p = 0; p < TILE && i + p < rows; p++)
                for (size_t q = 0; q < 2; q++) {
                    size_t to = (i + p) * cols + at + q * LANES;

                    *(lanes *)(out + to) =
                        scale * LANES_AT(x + to) + factor * sum[p][q];
                }
        }
    for (; at < cols; at++)
        for (size_t i = 0; i < rows; i++)
            out[i * cols + at] =
                scale * x[i * cols + at] +
                factor * product_element(m + i * rows, x + at, rows, cols);
}

const struct optim_loops NAME(LOOPS_ISA) = {
    .loop =
        {
#define RULE(name, ...) [OPTIM_RULE_##name] = name,
#define WHOLE(name, ...) RULE(name)
#include "plan/optimizers.def"
        },
    .gram = matrix_gram,
    .product = matrix_product,
};
