// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_unary.c -- activations; formulas in ref/unary.c.
//
// One loop per kind, so that each becomes vector code. gelu and softplus call
// the C library per element. A new kind is one block here: its two functions
// and their loops.
#include "kernels/cpu/loops.h"

#include <math.h>

#include "kernels/cpu/vmath.h"

#define SELU_ALPHA 1.6732632423543772848f
#define SELU_SCALE 1.0507009873554804934f
#define TANH_GELU 0.79788456080286535588f

// ---- Each activation, its slope by what was saved, and their loops ---------

#define VECTOR LOOPS_IVDEP
#define SCALAR // it calls the C library: such a loop stays scalar
#define UNARY_LOOPS(name, forward, backward)                                   \
    static void cpu_##name##_fwd(const float *x, float *y, int64_t n,          \
                                 float slope)                                  \
    {                                                                          \
        forward for (int64_t i = 0; i < n; i++) y[i] =                         \
            cpu_##name(x[i], slope);                                           \
    }                                                                          \
    static void cpu_##name##_bwd(const float *s, const float *dy, float *dx,   \
                                 int64_t n, float slope)                       \
    {                                                                          \
        backward for (int64_t i = 0; i < n; i++) dx[i] =                       \
            dy[i] * cpu_##name##_slope(s[i], slope);                           \
    }

static inline float cpu_linear(float x, float a)
{
    return x;
}
static inline float cpu_linear_slope(float y, float a)
{
    return 1;
}
UNARY_LOOPS(linear, VECTOR, VECTOR)

static inline float cpu_relu(float x, float a)
{
    return x < 0 ? 0 : x;
}
static inline float cpu_relu_slope(float y, float a)
{
    return y > 0 ? 1 : 0;
}
UNARY_LOOPS(relu, VECTOR, VECTOR)

static inline float cpu_relu6(float x, float a)
{
    float low = x < 0 ? 0 : x;

    return low > 6 ? 6 : low;
}
static inline float cpu_relu6_slope(float y, float a)
{
    return (y > 0) & (y < 6);
}
UNARY_LOOPS(relu6, VECTOR, VECTOR)

static inline float cpu_leaky_relu(float x, float a)
{
    return x < 0 ? a * x : x;
}
static inline float cpu_leaky_relu_slope(float y, float a)
{
    return y > 0 ? 1 : a;
}
UNARY_LOOPS(leaky_relu, VECTOR, VECTOR)

static inline float cpu_elu(float x, float a)
{
    float e = a * vm_expm1(x < 0 ? x : 0);

    return x < 0 ? e : x;
}
static inline float cpu_elu_slope(float y, float a)
{
    return y > 0 ? 1 : y + a;
}
UNARY_LOOPS(elu, VECTOR, VECTOR)

static inline float cpu_selu(float x, float a)
{
    float e = SELU_ALPHA * vm_expm1(x < 0 ? x : 0);

    return SELU_SCALE * (x < 0 ? e : x);
}
static inline float cpu_selu_slope(float y, float a)
{
    return y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA;
}
UNARY_LOOPS(selu, VECTOR, VECTOR)

static inline float cpu_sigmoid(float x, float a)
{
    return vm_sigmoid(x);
}
static inline float cpu_sigmoid_slope(float y, float a)
{
    return y * (1 - y);
}
UNARY_LOOPS(sigmoid, VECTOR, VECTOR)

static inline float cpu_tanh(float x, float a)
{
    return vm_tanh(x);
}
static inline float cpu_tanh_slope(float y, float a)
{
    return (1 - y) * (1 + y); // 1 - y^2 without its cancellation
}
UNARY_LOOPS(tanh, VECTOR, VECTOR)

static inline float cpu_gelu(float x, float a)
{
    return 0.5f * x * erfcf(x * (float)-M_SQRT1_2);
}
static inline float cpu_gelu_slope(float x, float a)
{
    return 0.5f * erfcf(x * (float)-M_SQRT1_2) +
           x * vm_exp(-0.5f * x * x) * 0.39894228040143267794f;
}
UNARY_LOOPS(gelu, SCALAR, SCALAR)

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
UNARY_LOOPS(gelu_tanh, VECTOR, VECTOR)

static inline float cpu_softplus(float x, float a)
{
    return (x > 0 ? x : 0) + log1pf(vm_exp(x > 0 ? -x : x));
}
static inline float cpu_softplus_slope(float x, float a)
{
    return vm_sigmoid(x);
}
UNARY_LOOPS(softplus, SCALAR, VECTOR)

static inline float cpu_silu(float x, float a)
{
    return x * vm_sigmoid(x);
}
static inline float cpu_silu_slope(float x, float a)
{
    float s = vm_sigmoid(x);

    return s * (1 + x * vm_sigmoid(-x));
}
UNARY_LOOPS(silu, VECTOR, VECTOR)

static inline float cpu_softsign(float x, float a)
{
    return x / (1 + (x < 0 ? -x : x));
}
static inline float cpu_softsign_slope(float y, float a)
{
    float far = 1 - (y < 0 ? -y : y);

    return far * far;
}
UNARY_LOOPS(softsign, VECTOR, VECTOR)

static inline float cpu_exponential(float x, float a)
{
    return vm_exp(x);
}
static inline float cpu_exponential_slope(float y, float a)
{
    return y;
}
UNARY_LOOPS(exponential, VECTOR, VECTOR)

static inline float cpu_hard_sigmoid(float x, float a)
{
    float low = x < -3 ? -3 : x, t = low > 3 ? 3 : low;

    return (t + 3) * (1.0f / 6);
}
static inline float cpu_hard_sigmoid_slope(float y, float a)
{
    return (y > 0) & (y < 1) ? 1.0f / 6 : 0;
}
UNARY_LOOPS(hard_sigmoid, VECTOR, VECTOR)

static inline float cpu_hard_silu(float x, float a)
{
    return x * cpu_hard_sigmoid(x, a);
}
static inline float cpu_hard_silu_slope(float x, float a)
{
    float t = (2 * x + 3) * (1.0f / 6), low = x <= -3 ? 0 : t;

    return x >= 3 ? 1 : low;
}
UNARY_LOOPS(hard_silu, VECTOR, VECTOR)

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
UNARY_LOOPS(mish, VECTOR, VECTOR)

static inline float cpu_hard_tanh(float x, float a)
{
    float low = x < -1 ? -1 : x;

    return low > 1 ? 1 : low;
}
static inline float cpu_hard_tanh_slope(float y, float a)
{
    return (y > -1) & (y < 1);
}
UNARY_LOOPS(hard_tanh, VECTOR, VECTOR)

// ---- The ops ----------------------------------------------------------------

static const struct unary_loops {
    void (*fwd)(const float *x, float *y, int64_t n, float slope);
    void (*bwd)(const float *s, const float *dy, float *dx, int64_t n,
                float slope);
} unary_loops[KERN_UNARY_COUNT] = {
#define UNARY_ROW(code, name, saves)                                           \
    [KERN_UNARY_##code] = {cpu_##name##_fwd, cpu_##name##_bwd},
    KERN_UNARY_MAP(UNARY_ROW)
#undef UNARY_ROW
};

static void cpu_unary_fwd_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);

    unary_loops[a->d->u.unary.kind].fwd((const float *)a->io[0] + first,
                                        (float *)a->io[1] + first, n,
                                        a->d->u.unary.a);
}

static void cpu_unary_bwd_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);

    unary_loops[a->d->u.unary.kind].bwd(
        (const float *)a->io[0] + first, (const float *)a->io[1] + first,
        (float *)a->io[2] + first, n, a->d->u.unary.a);
}

const struct loop_op LOOPS(unary_fwd) = {.chunks = LOOPS(flat_chunks),
                                         .step = {{cpu_unary_fwd_part, NULL}}};
const struct loop_op LOOPS(unary_bwd) = {.chunks = LOOPS(flat_chunks),
                                         .step = {{cpu_unary_bwd_part, NULL}}};
