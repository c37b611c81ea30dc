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
    const f32_anywhere *grad = (c)->grad;                                      \
    float *restrict w = (c)->w;                                                \
    const float clip = (c)->k.clip, decay = (c)->k.decay, lr = (c)->k.lr;      \
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

const struct optim_loops NAME(LOOPS_ISA) = {.loop = {
#define RULE(name, ...) [OPTIM_RULE_##name] = name,
#include "plan/optimizers.def"
                                            }};
