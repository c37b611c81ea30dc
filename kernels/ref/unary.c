// SPDX-License-Identifier: Apache-2.0
// kernels/ref/unary.c -- activations, as Keras defines them.
#include "kernels/ref/ref.h"

#include <math.h>

#define SELU_ALPHA 1.6732632423543772848
#define SELU_SCALE 1.0507009873554804934
#define TANH_GELU 0.79788456080286535588 // sqrt(2 / pi)

static double ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double ref_softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double ref_hard_sigmoid(double x)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

static double ref_unary_value(int kind, double a, double x)
{
    switch (kind) {
    case KERN_UNARY_RELU:
        return x < 0 ? 0 : x;
    case KERN_RELU6:
        return x < 0 ? 0 : x > 6 ? 6 : x;
    case KERN_LEAKY_RELU:
        return x < 0 ? a * x : x;
    case KERN_ELU:
        return x < 0 ? a * expm1(x) : x;
    case KERN_SELU:
        return SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1(x) : x);
    case KERN_SIGMOID:
        return ref_sigmoid(x);
    case KERN_TANH:
        return tanh(x);
    case KERN_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case KERN_GELU_TANH:
        return 0.5 * x * (1 + tanh(TANH_GELU * (x + 0.044715 * x * x * x)));
    case KERN_SOFTPLUS:
        return ref_softplus(x);
    case KERN_SILU:
        return x * ref_sigmoid(x);
    case KERN_SOFTSIGN:
        return x / (1 + fabs(x));
    case KERN_EXPONENTIAL:
        return exp(x);
    case KERN_HARD_SIGMOID:
        return ref_hard_sigmoid(x);
    case KERN_HARD_SILU:
        return x * ref_hard_sigmoid(x);
    case KERN_MISH:
        return x * tanh(ref_softplus(x));
    default:
        return x;
    }
}

// The slope, of the saved output y.
static double slope_of_output(int kind, double a, double y)
{
    switch (kind) {
    case KERN_UNARY_RELU:
        return y > 0 ? 1 : 0;
    case KERN_RELU6:
        return y > 0 && y < 6 ? 1 : 0;
    case KERN_LEAKY_RELU:
        return y > 0 ? 1 : a;
    case KERN_ELU:
        return y > 0 ? 1 : y + a;
    case KERN_SELU:
        return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
    case KERN_SIGMOID:
        return y * (1 - y);
    case KERN_TANH:
        return 1 - y * y;
    case KERN_SOFTSIGN:
        return (1 - fabs(y)) * (1 - fabs(y));
    case KERN_EXPONENTIAL:
        return y;
    case KERN_HARD_SIGMOID:
        return y > 0 && y < 1 ? 1.0 / 6 : 0;
    default:
        return 1;
    }
}

// The slope, of the saved input x.
static double slope_of_input(int kind, double x)
{
    double s, t;

    switch (kind) {
    case KERN_GELU:
        return 0.5 * erfc(-x * M_SQRT1_2) +
               x * exp(-0.5 * x * x) * 0.39894228040143267794;
    case KERN_GELU_TANH:
        t = tanh(TANH_GELU * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + t) +
               0.5 * x * (1 - t * t) * TANH_GELU * (1 + 3 * 0.044715 * x * x);
    case KERN_SOFTPLUS:
        return ref_sigmoid(x);
    case KERN_HARD_SILU:
        return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
    case KERN_MISH:
        t = tanh(ref_softplus(x));
        return t + x * (1 - t * t) * ref_sigmoid(x);
    default: // silu
        s = ref_sigmoid(x);
        return s * (1 + x * (1 - s));
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
    int kind = d->u.unary.kind;
    bool input = kern_unary_saves_input((enum kern_unary_kind)kind);

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++)
        dx[i] = (real)(dy[i] *
                       (input ? slope_of_input(kind, saved[i])
                              : slope_of_output(kind, d->u.unary.a, saved[i])));
}
