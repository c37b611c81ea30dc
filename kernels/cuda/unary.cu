// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/unary.cu -- activations and their slopes, as ref/unary.c.
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/kern.h"

#define SELU_ALPHA 1.6732632423543772848f
#define SELU_SCALE 1.0507009873554804934f
#define TANH_GELU 0.79788456080286535588f // sqrt(2 / pi)
#define ROOT_HALF 0.70710678118654752440f

// ---- Each activation of x, and its slope, by the output y or the input x that
// ---- was saved: KERN_UNARY_MAP says which

DEV float cuda_linear(float x, float a)
{
    return x;
}
DEV float cuda_linear_slope(float y, float a)
{
    return 1;
}

DEV float cuda_relu(float x, float a)
{
    return x < 0 ? 0 : x;
}
DEV float cuda_relu_slope(float y, float a)
{
    return y > 0 ? 1 : 0;
}

DEV float cuda_relu6(float x, float a)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}
DEV float cuda_relu6_slope(float y, float a)
{
    return y > 0 && y < 6 ? 1 : 0;
}

DEV float cuda_leaky_relu(float x, float a)
{
    return x < 0 ? a * x : x;
}
DEV float cuda_leaky_relu_slope(float y, float a)
{
    return y > 0 ? 1 : a;
}

DEV float cuda_elu(float x, float a)
{
    return x < 0 ? a * expm1f(x) : x;
}
DEV float cuda_elu_slope(float y, float a)
{
    return y > 0 ? 1 : y + a;
}

DEV float cuda_selu(float x, float a)
{
    return SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1f(x) : x);
}
DEV float cuda_selu_slope(float y, float a)
{
    return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
}

DEV float cuda_sigmoid(float x, float a)
{
    return 1 / (1 + expf(-x));
}
DEV float cuda_sigmoid_slope(float y, float a)
{
    return y * (1 - y);
}

DEV float cuda_tanh(float x, float a)
{
    return tanhf(x);
}
DEV float cuda_tanh_slope(float y, float a)
{
    return (1 - y) * (1 + y); // keeps the digits near 1
}

DEV float cuda_gelu(float x, float a)
{
    return 0.5f * x * erfcf(-x * ROOT_HALF);
}
DEV float cuda_gelu_slope(float x, float a)
{
    return 0.5f * erfcf(-x * ROOT_HALF) +
           x * expf(-0.5f * x * x) * 0.39894228040143267794f;
}

// 0.5 (1 + tanh(u)) is sigmoid(2u), which keeps its digits where tanh is -1.
DEV float cuda_gelu_inner(float x)
{
    return 2 * TANH_GELU * (x + 0.044715f * x * x * x);
}
DEV float cuda_gelu_tanh(float x, float a)
{
    return x * cuda_sigmoid(cuda_gelu_inner(x), a);
}
DEV float cuda_gelu_tanh_slope(float x, float a)
{
    float t = cuda_gelu_inner(x);
    float s = cuda_sigmoid(t, a);

    return s + 2 * x * s * cuda_sigmoid(-t, a) * TANH_GELU *
                   (1 + 3 * 0.044715f * x * x);
}

DEV float cuda_softplus(float x, float a)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}
DEV float cuda_softplus_slope(float x, float a)
{
    return cuda_sigmoid(x, a);
}

DEV float cuda_silu(float x, float a)
{
    return x * cuda_sigmoid(x, a);
}
DEV float cuda_silu_slope(float x, float a)
{
    float s = cuda_sigmoid(x, a);

    return s * (1 + x * (1 - s));
}

DEV float cuda_softsign(float x, float a)
{
    return x / (1 + fabsf(x));
}
DEV float cuda_softsign_slope(float y, float a)
{
    return (1 - fabsf(y)) * (1 - fabsf(y));
}

DEV float cuda_exponential(float x, float a)
{
    return expf(x);
}
DEV float cuda_exponential_slope(float y, float a)
{
    return y;
}

DEV float cuda_hard_sigmoid(float x, float a)
{
    return fminf(fmaxf(x + 3, 0), 6) * (1.0f / 6);
}
DEV float cuda_hard_sigmoid_slope(float y, float a)
{
    return y > 0 && y < 1 ? 1.0f / 6 : 0;
}

DEV float cuda_hard_silu(float x, float a)
{
    return x * cuda_hard_sigmoid(x, a);
}
DEV float cuda_hard_silu_slope(float x, float a)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) * (1.0f / 6);
}

// tanh(log(1 + e)) = n / (n + 2), with e = exp(x); beyond 20 it is 1.
DEV float cuda_mish_inner(float x)
{
    float e = expf(fminf(x, 20));

    return e * (e + 2);
}
DEV float cuda_mish(float x, float a)
{
    return x * (cuda_mish_inner(x) / (cuda_mish_inner(x) + 2));
}
DEV float cuda_mish_slope(float x, float a)
{
    float s = cuda_mish_inner(x); // 1 - t = 2 / (n + 2) has all its digits
    float t = s / (s + 2);

    return t + x * (2 / (s + 2)) * (1 + t) * cuda_sigmoid(x, a);
}

DEV float cuda_hard_tanh(float x, float a)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}
DEV float cuda_hard_tanh_slope(float y, float a)
{
    return y > -1 && y < 1 ? 1 : 0;
}

// ---- The ops

DEV float unary_value(int kind, float a, float x)
{
    switch (kind) {
#define CUDA_VALUE(code, name, saves)                                          \
    case KERN_UNARY_##code:                                                    \
        return cuda_##name(x, a);
        KERN_UNARY_MAP(CUDA_VALUE)
#undef CUDA_VALUE
    default:
        return x;
    }
}

DEV float unary_slope(int kind, float a, float saved)
{
    switch (kind) {
#define CUDA_SLOPE(code, name, saves)                                          \
    case KERN_UNARY_##code:                                                    \
        return cuda_##name##_slope(saved, a);
        KERN_UNARY_MAP(CUDA_SLOPE)
#undef CUDA_SLOPE
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
