// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/vmath.h -- exp and friends that the compiler can vectorise.
//
// Scalar code without branches or calls, so that a loop over it becomes vector
// code under any instruction set. Good to about 2 units in the last place.
//
// Threads  any. Memory  values only. Errors  none.
#ifndef KERNELS_CPU_VMATH_H
#define KERNELS_CPU_VMATH_H

#include <stdint.h>
#include <string.h>

// Returns the float that has these bits.
static inline float vm_from_bits(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

// Returns r, and n in *n, of x = n ln 2 + r, |r| <= ln 2 / 2. Adding and taking
// away 1.5 2^23 rounds to the nearest integer without a call. A NaN gives the
// least n, which scales by a normal number, and r is NaN.
static inline float vm_reduce(float x, int32_t *n)
{
    float k = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;

    *n = (int32_t)(k > -126.0f ? k : -126.0f);
    return (x - k * 0.693359375f) + k * 2.12194440e-4f;
}

// Returns exp(r) - 1 for |r| <= ln 2 / 2.
static inline float vm_expm1_core(float r)
{
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * r * r + r;
}

// Returns exp(x): below -87.3 it is 0, above 88.72 inf. NaN stays NaN.
static inline float vm_exp(float x)
{
    float low = x < -87.3f ? -87.3f : x, t = low > 88.72f ? 88.72f : low;
    int32_t n;
    float r = vm_reduce(t, &n);
    int32_t half = n >> 1; // 2^n in two factors: n may be 128
    float y = (vm_expm1_core(r) + 1) * vm_from_bits((half + 127) << 23) *
              vm_from_bits((n - half + 127) << 23);

    y = x > 88.72f ? __builtin_inff() : y;
    return x < -87.3f ? 0 : y;
}

// Returns exp(x) - 1, for x <= 0, without the loss of digits near 0.
static inline float vm_expm1(float x)
{
    float t = x < -60.0f ? -60.0f : x;
    int32_t n;
    float r = vm_reduce(t, &n);
    float scale = vm_from_bits((n + 127) << 23);

    return scale * vm_expm1_core(r) + (scale - 1);
}

// Returns 1 / (1 + exp(-x)).
static inline float vm_sigmoid(float x)
{
    return 1 / (1 + vm_exp(-x));
}

// Returns tanh x: tanh |x| = -expm1(-2|x|) / (2 + expm1(-2|x|)), with x's sign.
static inline float vm_tanh(float x)
{
    float a = x < 0 ? -x : x, e = vm_expm1(-2 * a), t = -e / (2 + e);

    return x < 0 ? -t : t;
}

#endif
