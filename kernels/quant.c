// SPDX-License-Identifier: Apache-2.0
// kernels/quant.c -- rows of f32 to 8 bits with a scale and back, eight
// elements at a time: one source, compiled for each instruction set.
#include "kernels/quant.h"

#include <string.h>

#include "kernels/half.h"
#include "kernels/lanes.h"

// Added to an f32 of magnitude below 2^22 it leaves the nearest whole number in
// the lowest bits, ties to even.
#define WHOLE 0x1.8p23f
#define WHOLE_BITS 0x4b400000

typedef int8_t quant_c8 __attribute__((vector_size(8)));

static float quant_scale(int32_t largest)
{
    float scale = half_bits_f32((uint32_t)largest) / 127;

    if (largest >= LANES_INF_BITS)
        return half_bits_f32(LANES_NAN_BITS);
    if (scale < QUANT_LEAST)
        return 0;
    return scale > QUANT_MOST ? QUANT_MOST : scale;
}

ALWAYS void quant_narrow_loop(size_t n, const void *in, void *out)
{
    const uint8_t *from = in;
    uint8_t *to = out;
    float scale = quant_scale(lanes_largest(n, from));

    memcpy(to, &scale, QUANT_HEAD);
    to += QUANT_HEAD;
    if (!(scale > 0)) {
        memset(to, 0, n);
        return;
    }
    for (size_t i = 0; i < n; i += LANES) {
        lanes_f8 x = {0};
        lanes_w8 q;
        quant_c8 c;

        lanes_some(&x, from + 4 * i, n - i, 4);
        q = (lanes_w8)(x / scale + WHOLE) - WHOLE_BITS;
        // Only a scale of QUANT_MOST has more.
        q = LANES_SELECT(q > 127, (lanes_w8){0} + 127, q);
        q = LANES_SELECT(q < -127, (lanes_w8){0} - 127, q);
        c = __builtin_convertvector(q, quant_c8);
        lanes_some(to + i, &c, n - i, 1);
    }
}

ALWAYS void quant_widen_loop(size_t n, const void *in, void *out)
{
    const uint8_t *from = in;
    uint8_t *to = out;
    float scale;

    memcpy(&scale, from, QUANT_HEAD);
    from += QUANT_HEAD;
    for (size_t i = 0; i < n; i += LANES) {
        quant_c8 c = {0};
        lanes_f8 x;

        lanes_some(&c, from + i, n - i, 1);
        x = __builtin_convertvector(c, lanes_f8) * scale;
        lanes_some(to + 4 * i, &x, n - i, 4);
    }
}

static void quant_narrow_base(size_t n, const void *in, void *out)
{
    quant_narrow_loop(n, in, out);
}

static void quant_widen_base(size_t n, const void *in, void *out)
{
    quant_widen_loop(n, in, out);
}

const struct quant_loops quant_loops_base = {quant_narrow_base,
                                             quant_widen_base};

#ifdef __x86_64__

#define VECTOR __attribute__((target("avx2")))

VECTOR static void quant_narrow_avx2(size_t n, const void *in, void *out)
{
    quant_narrow_loop(n, in, out);
}

VECTOR static void quant_widen_avx2(size_t n, const void *in, void *out)
{
    quant_widen_loop(n, in, out);
}

const struct quant_loops quant_loops_avx2 = {quant_narrow_avx2,
                                             quant_widen_avx2};

#endif

static const struct quant_loops *quant_host_loops(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &quant_loops_avx2;
#endif
    return &quant_loops_base;
}

void quant_narrow(size_t n, const void *in, void *out)
{
    quant_host_loops()->narrow(n, in, out);
}

void quant_widen(size_t n, const void *in, void *out)
{
    quant_host_loops()->widen(n, in, out);
}

bool quant_finite(const void *row)
{
    float scale;

    memcpy(&scale, row, QUANT_HEAD);
    return scale >= 0 && scale <= QUANT_MOST;
}
