// SPDX-License-Identifier: Apache-2.0
// kernels/ref/unary.c -- activations, as Keras defines them.
#include "kernels/ref/ref.h"

#include <math.h>

#define SELU_ALPHA 1.6732632423543772848
#define SELU_SCALE 1.0507009873554804934
#define TANH_GELU 0.79788456080286535588 // sqrt(2 / pi)

// ---- Each activation of x, and its slope, by the output y or the input x that
// ---- was saved: KERN_UNARY_MAP says which

static double ref_linear(double x, double a)
{
    return x;
}
static double ref_linear_slope(double y, double a)
{
    return 1;
}

static double ref_relu(double x, double a)
{
    return x < 0 ? 0 : x;
}
static double ref_relu_slope(double y, double a)
{
    return y > 0 ? 1 : 0;
}

static double ref_relu6(double x, double a)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}
static double ref_relu6_slope(double y, double a)
{
    return y > 0 && y < 6 ? 1 : 0;
}

static double ref_leaky_relu(double x, double a)
{
    return x < 0 ? a * x : x;
}
static double ref_leaky_relu_slope(double y, double a)
{
    return y > 0 ? 1 : a;
}

static double ref_elu(double x, double a)
{
    return x < 0 ? a * expm1(x) : x;
}
static double ref_elu_slope(double y, double a)
{
    return y > 0 ? 1 : y + a;
}

static double ref_selu(double x, double a)
{
    return SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1(x) : x);
}
static double ref_selu_slope(double y, double a)
{
    return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
}

static double ref_sigmoid(double x, double a)
{
    return 1 / (1 + exp(-x));
}
static double ref_sigmoid_slope(double y, double a)
{
    return y * (1 - y);
}

static double ref_tanh(double x, double a)
{
    return tanh(x);
}
static double ref_tanh_slope(double y, double a)
{
    return 1 - y * y;
}

static double ref_gelu(double x, double a)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double ref_gelu_slope(double x, double a)
{
    return 0.5 * erfc(-x * M_SQRT1_2) +
           x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

static double ref_gelu_tanh(double x, double a)
{
    return 0.5 * x * (1 + tanh(TANH_GELU * (x + 0.044715 * x * x * x)));
}
static double ref_gelu_tanh_slope(double x, double a)
{
    double t = tanh(TANH_GELU * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * TANH_GELU * (1 + 3 * 0.044715 * x * x);
}

static double ref_softplus(double x, double a)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double ref_softplus_slope(double x, double a)
{
    return ref_sigmoid(x, a);
}

static double ref_silu(double x, double a)
{
    return x * ref_sigmoid(x, a);
}
static double ref_silu_slope(double x, double a)
{
    double s = ref_sigmoid(x, a);

    return s * (1 + x * (1 - s));
}

static double ref_softsign(double x, double a)
{
    return x / (1 + fabs(x));
}
static double ref_softsign_slope(double y, double a)
{
    return (1 - fabs(y)) * (1 - fabs(y));
}

static double ref_exponential(double x, double a)
{
    return exp(x);
}
static double ref_exponential_slope(double y, double a)
{
    return y;
}

static double ref_hard_sigmoid(double x, double a)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}
static double ref_hard_sigmoid_slope(double y, double a)
{
    return y > 0 && y < 1 ? 1.0 / 6 : 0;
}

static double ref_hard_silu(double x, double a)
{
    return x * ref_hard_sigmoid(x, a);
}
static double ref_hard_silu_slope(double x, double a)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
}

static double ref_mish(double x, double a)
{
    return x * tanh(ref_softplus(x, a));
}
static double ref_mish_slope(double x, double a)
{
    double t = tanh(ref_softplus(x, a));

    return t + x * (1 - t * t) * ref_sigmoid(x, a);
}

static double ref_hard_tanh(double x, double a)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}
static double ref_hard_tanh_slope(double y, double a)
{
    return y > -1 && y < 1 ? 1 : 0;
}

// ---- The ops

static double ref_unary_value(int kind, double a, double x)
{
    switch (kind) {
#define REF_VALUE(code, name, saves)                                           \
    case KERN_UNARY_##code:                                                    \
        return ref_##name(x, a);
        KERN_UNARY_MAP(REF_VALUE)
#undef REF_VALUE
    default:
        return x;
    }
}

static double ref_unary_slope(int kind, double a, double saved)
{
    switch (kind) {
#define REF_SLOPE(code, name, saves)                                           \
    case KERN_UNARY_##code:                                                    \
        return ref_##name##_slope(saved, a);
        KERN_UNARY_MAP(REF_SLOPE)
#undef REF_SLOPE
    default:
        return 1;
    }
}

void REF(unary_fwd)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0];
    real *y = io[1];

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++)
        y[i] = (real)ref_unary_value(d->u.unary.kind, d->u.unary.a, x[i]);
}

void REF(unary_bwd)(const struct kern_desc *d, void *const *io)
{
    const real *saved = io[0], *dy = io[1];
    real *dx = io[2];

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++)
        dx[i] = (real)(dy[i] * ref_unary_slope(d->u.unary.kind, d->u.unary.a,
                                               saved[i]));
}
