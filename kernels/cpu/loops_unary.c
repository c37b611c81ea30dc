// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_unary.c -- activations; formulas in ref/unary.c.
//
// One loop per kind, so that each becomes vector code. gelu and softplus call
// the C library per element.
#include "kernels/cpu/loops.h"

#include <math.h>

#include "kernels/cpu/vmath.h"

#define SELU_ALPHA 1.6732632423543772848f
#define SELU_SCALE 1.0507009873554804934f
#define TANH_GELU 0.79788456080286535588f

// ---- The functions, and their slopes by saved output or input -------------

static inline float cpu_linear(float x, float a)
{
    return x;
}
static inline float cpu_linear_slope(float y, float a)
{
    return 1;
}
static inline float cpu_relu(float x, float a)
{
    return x < 0 ? 0 : x;
}
static inline float cpu_relu_slope(float y, float a)
{
    return y > 0 ? 1 : 0;
}
static inline float cpu_relu6(float x, float a)
{
    float low = x < 0 ? 0 : x;

    return low > 6 ? 6 : low;
}
static inline float cpu_relu6_slope(float y, float a)
{
    return (y > 0) & (y < 6);
}
static inline float cpu_leaky(float x, float a)
{
    return x < 0 ? a * x : x;
}
static inline float cpu_leaky_slope(float y, float a)
{
    return y > 0 ? 1 : a;
}
static inline float cpu_elu(float x, float a)
{
    float e = a * vm_expm1(x < 0 ? x : 0);

    return x < 0 ? e : x;
}
static inline float cpu_elu_slope(float y, float a)
{
    return y > 0 ? 1 : y + a;
}
static inline float cpu_selu(float x, float a)
{
    float e = SELU_ALPHA * vm_expm1(x < 0 ? x : 0);

    return SELU_SCALE * (x < 0 ? e : x);
}
static inline float cpu_selu_slope(float y, float a)
{
    return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
}
static inline float cpu_sigmoid(float x, float a)
{
    return vm_sigmoid(x);
}
static inline float cpu_sigmoid_slope(float y, float a)
{
    return y * (1 - y);
}
static inline float cpu_tanh(float x, float a)
{
    return vm_tanh(x);
}
static inline float cpu_tanh_slope(float y, float a)
{
    return (1 - y) * (1 + y); // 1 - y^2 without its cancellation
}
static inline float cpu_gelu(float x, float a)
{
    return 0.5f * x * erfcf(x * (float)-M_SQRT1_2);
}
static inline float cpu_gelu_slope(float x, float a)
{
    return 0.5f * erfcf(x * (float)-M_SQRT1_2) +
           x * vm_exp(-0.5f * x * x) * 0.39894228040143267794f;
}
static inline float cpu_gelu_tanh(float x, float a)
{
    // 1 + tanh(z) = 2 sigmoid(2 z), which keeps its digits where z < 0.
    float z = TANH_GELU * (x + 0.044715f * x * x * x);

    return x * vm_sigmoid(2 * z);
}
static inline float cpu_gelu_tanh_slope(float x, float a)
{
    // 1 - sigmoid(2 z) is sigmoid(-2 z), without the cancellation.
    float z = TANH_GELU * (x + 0.044715f * x * x * x), s = vm_sigmoid(2 * z);

    return s + 2 * x * s * vm_sigmoid(-2 * z) * TANH_GELU *
                   (1 + 3 * 0.044715f * x * x);
}
static inline float cpu_softplus(float x, float a)
{
    return (x > 0 ? x : 0) + log1pf(vm_exp(x > 0 ? -x : x));
}
static inline float cpu_softplus_slope(float x, float a)
{
    return vm_sigmoid(x);
}
static inline float cpu_silu(float x, float a)
{
    return x * vm_sigmoid(x);
}
static inline float cpu_silu_slope(float x, float a)
{
    float s = vm_sigmoid(x);

    return s * (1 + x * vm_sigmoid(-x));
}

static inline float cpu_softsign(float x, float a)
{
    return x / (1 + (x < 0 ? -x : x));
}
static inline float cpu_softsign_slope(float y, float a)
{
    float far = 1 - (y < 0 ? -y : y);

    return far * far;
}
static inline float cpu_exponential(float x, float a)
{
    return vm_exp(x);
}
static inline float cpu_exponential_slope(float y, float a)
{
    return y;
}
static inline float cpu_hard_sigmoid(float x, float a)
{
    float low = x < -3 ? -3 : x, t = low > 3 ? 3 : low;

    return (t + 3) * (1.0f / 6);
}
static inline float cpu_hard_sigmoid_slope(float y, float a)
{
    return (y > 0) & (y < 1) ? 1.0f / 6 : 0;
}
static inline float cpu_hard_silu(float x, float a)
{
    return x * cpu_hard_sigmoid(x, a);
}
static inline float cpu_hard_silu_slope(float x, float a)
{
    float t = (2 * x + 3) * (1.0f / 6), low = x <= -3 ? 0 : t;

    return x >= 3 ? 1 : low;
}
// tanh(log(1 + e)) = n / (n + 2), with e = exp(x) and n = e (e + 2); beyond 20
// it is 1.
static inline float cpu_mish_inner(float x)
{
    float e = vm_exp(x > 20 ? 20 : x);

    return e * (e + 2);
}
static inline float cpu_mish(float x, float a)
{
    float n = cpu_mish_inner(x);

    return x * (n / (n + 2));
}
static inline float cpu_mish_slope(float x, float a)
{
    // 1 - t^2 = (1 - t) (1 + t), and 1 - t = 2 / (n + 2) has all its digits.
    float n = cpu_mish_inner(x), t = n / (n + 2);

    return t + x * (2 / (n + 2)) * (1 + t) * vm_sigmoid(x);
}

// ---- The loops ------------------------------------------------------------

// _CALL: of functions that call the C library; such a loop stays scalar.
#define EACH(statement)                                                        \
    for (int64_t i = 0; i < n; i++)                                            \
        statement;                                                             \
    break
#define FORWARD(fn) LOOPS_IVDEP EACH(y[i] = fn(x[i], slope))
#define FORWARD_CALL(fn) EACH(y[i] = fn(x[i], slope))
#define BACKWARD(fn) LOOPS_IVDEP EACH(dx[i] = dy[i] * fn(s[i], slope))
#define BACKWARD_CALL(fn) EACH(dx[i] = dy[i] * fn(s[i], slope))

static void cpu_unary_fwd_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *x = (const float *)a->io[0] + first;
    float *y = (float *)a->io[1] + first, slope = a->d->u.unary.a;

    switch (a->d->u.unary.kind) {
    case KERN_UNARY_RELU:
        FORWARD(cpu_relu);
    case KERN_RELU6:
        FORWARD(cpu_relu6);
    case KERN_LEAKY_RELU:
        FORWARD(cpu_leaky);
    case KERN_ELU:
        FORWARD(cpu_elu);
    case KERN_SELU:
        FORWARD(cpu_selu);
    case KERN_SIGMOID:
        FORWARD(cpu_sigmoid);
    case KERN_TANH:
        FORWARD(cpu_tanh);
    case KERN_GELU:
        FORWARD_CALL(cpu_gelu);
    case KERN_GELU_TANH:
        FORWARD(cpu_gelu_tanh);
    case KERN_SOFTPLUS:
        FORWARD_CALL(cpu_softplus);
    case KERN_SILU:
        FORWARD(cpu_silu);
    case KERN_SOFTSIGN:
        FORWARD(cpu_softsign);
    case KERN_EXPONENTIAL:
        FORWARD(cpu_exponential);
    case KERN_HARD_SIGMOID:
        FORWARD(cpu_hard_sigmoid);
    case KERN_HARD_SILU:
        FORWARD(cpu_hard_silu);
    case KERN_MISH:
        FORWARD(cpu_mish);
    default:
        FORWARD(cpu_linear);
    }
}

static void cpu_unary_bwd_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *s = (const float *)a->io[0] + first;
    const float *dy = (const float *)a->io[1] + first;
    float *dx = (float *)a->io[2] + first, slope = a->d->u.unary.a;

    switch (a->d->u.unary.kind) {
    case KERN_UNARY_RELU:
        BACKWARD(cpu_relu_slope);
    case KERN_RELU6:
        BACKWARD(cpu_relu6_slope);
    case KERN_LEAKY_RELU:
        BACKWARD(cpu_leaky_slope);
    case KERN_ELU:
        BACKWARD(cpu_elu_slope);
    case KERN_SELU:
        BACKWARD(cpu_selu_slope);
    case KERN_SIGMOID:
        BACKWARD(cpu_sigmoid_slope);
    case KERN_TANH:
        BACKWARD(cpu_tanh_slope);
    case KERN_GELU:
        BACKWARD_CALL(cpu_gelu_slope);
    case KERN_GELU_TANH:
        BACKWARD(cpu_gelu_tanh_slope);
    case KERN_SOFTPLUS:
        BACKWARD(cpu_softplus_slope);
    case KERN_SILU:
        BACKWARD(cpu_silu_slope);
    case KERN_SOFTSIGN:
        BACKWARD(cpu_softsign_slope);
    case KERN_EXPONENTIAL:
        BACKWARD(cpu_exponential_slope);
    case KERN_HARD_SIGMOID:
        BACKWARD(cpu_hard_sigmoid_slope);
    case KERN_HARD_SILU:
        BACKWARD(cpu_hard_silu_slope);
    case KERN_MISH:
        BACKWARD(cpu_mish_slope);
    default:
        BACKWARD(cpu_linear_slope);
    }
}

const struct loop_op LOOPS(unary_fwd) = {.chunks = LOOPS(flat_chunks),
                                         .step = {{cpu_unary_fwd_part, NULL}}};
const struct loop_op LOOPS(unary_bwd) = {.chunks = LOOPS(flat_chunks),
                                         .step = {{cpu_unary_bwd_part, NULL}}};
