// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/unary.cu -- activations and their slopes, as ref/unary.c.
#include "kernels/cuda/device.cuh"
#include "kernels/kern.h"

#define SELU_ALPHA 1.6732632423543772848f
#define SELU_SCALE 1.0507009873554804934f
#define TANH_GELU 0.79788456080286535588f // sqrt(2 / pi)
#define ROOT_HALF 0.70710678118654752440f

DEV float cuda_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// 0.5 (1 + tanh(u)) is sigmoid(2u), which keeps its digits where tanh is -1.
DEV float cuda_gelu_inner(float x)
{
    return 2 * TANH_GELU * (x + 0.044715f * x * x * x);
}

DEV float cuda_hard_sigmoid(float x)
{
    return fminf(fmaxf(x + 3, 0), 6) * (1.0f / 6);
}

// tanh(log(1 + e)) = n / (n + 2), with e = exp(x); beyond 20 it is 1.
DEV float cuda_mish_inner(float x)
{
    float e = expf(fminf(x, 20));

    return e * (e + 2);
}

DEV float unary_value(int kind, float a, float x)
{
    switch (kind) {
    case KERN_UNARY_RELU:
        return x < 0 ? 0 : x;
    case KERN_RELU6:
        return x < 0 ? 0 : x > 6 ? 6 : x;
    case KERN_LEAKY_RELU:
        return x < 0 ? a * x : x;
    case KERN_ELU:
        return x < 0 ? a * expm1f(x) : x;
    case KERN_SELU:
        return SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1f(x) : x);
    case KERN_SIGMOID:
        return cuda_sigmoid(x);
    case KERN_TANH:
        return tanhf(x);
    case KERN_GELU:
        return 0.5f * x * erfcf(-x * ROOT_HALF);
    case KERN_GELU_TANH:
        return x * cuda_sigmoid(cuda_gelu_inner(x));
    case KERN_SOFTPLUS:
        return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
    case KERN_SILU:
        return x * cuda_sigmoid(x);
    case KERN_SOFTSIGN:
        return x / (1 + fabsf(x));
    case KERN_EXPONENTIAL:
        return expf(x);
    case KERN_HARD_SIGMOID:
        return cuda_hard_sigmoid(x);
    case KERN_HARD_SILU:
        return x * cuda_hard_sigmoid(x);
    case KERN_MISH:
        return x * (cuda_mish_inner(x) / (cuda_mish_inner(x) + 2));
    default:
        return x;
    }
}

// The slope, of the saved output or input: kern_unary_saves_input().
DEV float unary_slope(int kind, float a, float y)
{
    float s, t;

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
        return (1 - y) * (1 + y); // keeps the digits near 1
    case KERN_GELU:
        return 0.5f * erfcf(-y * ROOT_HALF) +
               y * expf(-0.5f * y * y) * 0.39894228040143267794f;
    case KERN_GELU_TANH:
        t = cuda_gelu_inner(y);
        s = cuda_sigmoid(t);
        return s + 2 * y * s * cuda_sigmoid(-t) * TANH_GELU *
                       (1 + 3 * 0.044715f * y * y);
    case KERN_SOFTPLUS:
        return cuda_sigmoid(y);
    case KERN_SILU:
        s = cuda_sigmoid(y);
        return s * (1 + y * (1 - s));
    case KERN_SOFTSIGN:
        return (1 - fabsf(y)) * (1 - fabsf(y));
    case KERN_EXPONENTIAL:
        return y;
    case KERN_HARD_SIGMOID:
        return y > 0 && y < 1 ? 1.0f / 6 : 0;
    case KERN_HARD_SILU:
        return y <= -3 ? 0 : y >= 3 ? 1 : (2 * y + 3) * (1.0f / 6);
    case KERN_MISH:
        s = cuda_mish_inner(y); // 1 - t = 2 / (n + 2) has all its digits
        t = s / (s + 2);
        return t + y * (2 / (s + 2)) * (1 + t) * cuda_sigmoid(y);
    default:
        return 1;
    }
}

template <class T> DEV void unary_fwd_of(const struct args_unary &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float x[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(x, (const T *)a.x + at, m, a.wide);
#pragma unroll
    for (int l = 0; l < V; l++)
        x[l] = unary_value(a.kind, a.a, x[l]);
    pack_store((T *)a.y + at, x, m, a.wide);
}

template <class T> DEV void unary_bwd_of(const struct args_unary &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float saved[V], dy[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(saved, (const T *)a.x + at, m, a.wide);
    pack_load(dy, (const T *)a.dy + at, m, a.wide);
#pragma unroll
    for (int l = 0; l < V; l++)
        dy[l] *= unary_slope(a.kind, a.a, saved[l]);
    pack_store((T *)a.y + at, dy, m, a.wide);
}

TYPED_ENTRY(unary_fwd, unary)
TYPED_ENTRY(unary_bwd, unary)
