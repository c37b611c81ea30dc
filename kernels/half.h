// SPDX-License-Identifier: Apache-2.0
// kernels/half.h -- f16 and bf16 as bits: to f32 and back.
//
// To f32 is exact. Back rounds to nearest, ties to even; what is too large for
// an f16 becomes infinite (that is what loss scaling looks for), NaN stays NaN.
//
// Threads  any. Memory  values only. Errors  none.
#ifndef KERNELS_HALF_H
#define KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

// Returns the f32 that has the bits `u`.
static inline float half_bits_f32(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

// Returns the bits of the f32 `x`.
static inline uint32_t half_f32_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

// Returns the value of the bf16 that has the bits `h`.
static inline float half_from_bf16(uint16_t h)
{
    return half_bits_f32((uint32_t)h << 16);
}

// Returns the bits of the bf16 nearest to `x`; what is too large becomes
// infinite.
static inline uint16_t half_to_bf16(float x)
{
    uint32_t u = half_f32_bits(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40); // NaN, which rounding could make inf
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// Returns the value of the f16 that has the bits `h`.
static inline float half_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, low = h & 0x7fff;

    if (low >= 0x7c00) // infinite or NaN
        return half_bits_f32(sign | 0x7f800000u | (low & 0x3ff) << 13);
    // A number of f16 is one of f32 with an exponent 112 too small; the
    // product is exact and takes care of subnormals.
    return half_bits_f32(sign | low << 13) * 0x1p112f;
}

// Returns the bits of the f16 nearest to `x`; 65520 and more become infinite.
static inline uint16_t half_to_f16(float x)
{
    uint32_t u = half_f32_bits(x), sign = u >> 16 & 0x8000, low;

    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (u >= 0x47800000u) // 65536 and more
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000u) // below 2^-14: f16 is subnormal, in steps of 2^-24
        // Adding 1/2 leaves the count of steps, rounded by the addition.
        return (uint16_t)(sign | (half_f32_bits(half_bits_f32(u) + 0.5f) -
                                  0x3f000000u));
    low = u - 0x38000000u;
    return (uint16_t)(sign | (low + 0xfff + (low >> 13 & 1)) >> 13);
}

#endif
