// SPDX-License-Identifier: Apache-2.0
// kernels/pack.c -- blocks in 4 bits and blocks of the largest elements: one
// source, compiled for each instruction set.
#include "kernels/pack.h"

#include <string.h>

#include "kernels/half.h"
#include "kernels/lanes.h"
#include "kernels/quant.h"

#define SCALE_BYTES 4
#define E3M0_BLOCK 256
#define PLACE_BITS 12
#define SENT_MOST (PACK_BLOCK_MOST / PACK_TOP)

// Copies the 4 bits of each of n of eight elements. One memcpy of either size
// would be a loop over bytes.
ALWAYS void pack_word(void *to, const void *from, size_t n)
{
    if (n >= LANES)
        memcpy(to, from, LANES / 2);
    else
        memcpy(to, from, (n + 1) / 2);
}

// ---- e3m0

static float pack_scale(float scale)
{
    if (!(scale < half_bits_f32(LANES_INF_BITS)))
        return half_bits_f32(LANES_NAN_BITS);
    if (scale < PACK_LEAST)
        return 0;
    return scale > QUANT_MOST ? QUANT_MOST : scale;
}

// A magnitude of at least 3/4 of a power of two is rounded up to it. Half of
// the least one is rounded up as well: what lies below is zero.
ALWAYS void narrow_e3m0_loop(size_t n, const float *in, uint8_t *out)
{
    const lanes_w8 shifts = {0, 4, 8, 12, 16, 20, 24, 28};
    float scale = pack_scale(half_bits_f32((uint32_t)lanes_largest(n, in)));

    memcpy(out, &scale, SCALE_BYTES);
    out += SCALE_BYTES;
    if (!(scale > 0)) {
        memset(out, 0, (n + 1) / 2);
        return;
    }
    for (size_t i = 0; i < n; i += LANES) {
        lanes_f8 x = {0};
        lanes_w8 c, bits;
        uint32_t word;

        lanes_some(&x, in + i, n - i, sizeof(float));
        bits = (lanes_w8)(x / scale);
        c = ((lanes_w8)((lanes_f8)(bits & LANES_MAGNITUDE) * (4.0f / 3)) >>
             23) -
            120;
        c = LANES_SELECT(
            c < 1, (lanes_w8)((bits & LANES_MAGNITUDE) >= 0x3c000000) & 1, c);
        c = LANES_SELECT(c > 7, (lanes_w8){0} + 7, c);
        c |= ((bits >> 31) & 8) & (c > 0);
        c <<= shifts;
        c |= __builtin_shufflevector(c, c, 4, 5, 6, 7, 0, 1, 2, 3);
        c |= __builtin_shufflevector(c, c, 2, 3, 0, 1, 6, 7, 4, 5);
        word = (uint32_t)(c[0] | c[1]);
        pack_word(out + i / 2, &word, n - i);
    }
}

ALWAYS void widen_e3m0_loop(size_t n, const uint8_t *in, float *out)
{
    const lanes_w8 shifts = {0, 4, 8, 12, 16, 20, 24, 28};
    float scale;

    memcpy(&scale, in, SCALE_BYTES);
    in += SCALE_BYTES;
    for (size_t i = 0; i < n; i += LANES) {
        uint32_t word = 0;
        lanes_w8 c, bits;
        lanes_f8 x;

        pack_word(&word, in + i / 2, n - i);
        c = ((lanes_w8){0} + (int32_t)word) >> shifts;
        bits = (((c & 7) + 120) << 23) & ((c & 7) > 0);
        bits |= (c & 8) << 28;
        x = (lanes_f8)bits * scale;
        lanes_some(out + i, &x, n - i, sizeof(float));
    }
}

// ---- topk2

// Counts the elements with a magnitude of at least `least`, which is not 0.
ALWAYS size_t count_from(size_t n, const float *in, int32_t least)
{
    lanes_w8 count = {0};
    size_t sum = 0;

    for (size_t i = 0; i < n; i += LANES) {
        lanes_w8 bits = {0};

        lanes_some(&bits, in + i, n - i, sizeof(float));
        count -= (bits & LANES_MAGNITUDE) >= least;
    }
    for (int k = 0; k < LANES; k++)
        sum += (size_t)count[k];
    return sum;
}

// Finds the largest magnitude that k elements reach, from its highest bit on.
ALWAYS uint32_t kth_loop(size_t n, const float *in, size_t k)
{
    int32_t found = 0;

    for (int bit = 30; bit >= 0; bit--)
        if (count_from(n, in, found | 1 << bit) >= k)
            found |= 1 << bit;
    return (uint32_t)found;
}

static void narrow_e3m0_base(size_t n, const float *in, uint8_t *out)
{
    narrow_e3m0_loop(n, in, out);
}

static void widen_e3m0_base(size_t n, const uint8_t *in, float *out)
{
    widen_e3m0_loop(n, in, out);
}

static uint32_t kth_base(size_t n, const float *in, size_t k)
{
    return kth_loop(n, in, k);
}

const struct pack_loops pack_loops_base = {narrow_e3m0_base, widen_e3m0_base,
                                           kth_base};

#ifdef __x86_64__

#include <immintrin.h>

#define VECTOR __attribute__((target("avx2")))

VECTOR static void narrow_e3m0_avx2(size_t n, const float *in, uint8_t *out)
{
    narrow_e3m0_loop(n, in, out);
}

// The eight magnitudes are made once, and each element chooses one.
VECTOR static void widen_e3m0_avx2(size_t n, const uint8_t *in, float *out)
{
    const lanes_w8 shifts = {0, 4, 8, 12, 16, 20, 24, 28};
    const lanes_w8 powers = {0, 121, 122, 123, 124, 125, 126, 127};
    lanes_f8 sizes;
    float scale;

    memcpy(&scale, in, SCALE_BYTES);
    in += SCALE_BYTES;
    sizes = (lanes_f8)(powers << 23) * scale;
    for (size_t i = 0; i < n; i += LANES) {
        uint32_t word = 0;
        lanes_w8 c;
        lanes_f8 x;

        pack_word(&word, in + i / 2, n - i);
        c = ((lanes_w8){0} + (int32_t)word) >> shifts;
        x = (lanes_f8)_mm256_permutevar8x32_ps((__m256)sizes, (__m256i)c);
        x = (lanes_f8)((lanes_w8)x ^ (c & 8) << 28);
        lanes_some(out + i, &x, n - i, sizeof(float));
    }
}

VECTOR static uint32_t kth_avx2(size_t n, const float *in, size_t k)
{
    return kth_loop(n, in, k);
}

const struct pack_loops pack_loops_avx2 = {narrow_e3m0_avx2, widen_e3m0_avx2,
                                           kth_avx2};

#endif

static const struct pack_loops *pack_host_loops(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &pack_loops_avx2;
#endif
    return &pack_loops_base;
}

static size_t sent_of(size_t n)
{
    return (n + PACK_TOP - 1) / PACK_TOP;
}

static size_t place_bytes(size_t sent)
{
    return (sent * PLACE_BITS + 7) / 8;
}

static size_t pack_place_at(const uint8_t *places, size_t i)
{
    size_t bit = i * PLACE_BITS;
    const uint8_t *at = places + bit / 8;

    return bit % 8 == 0 ? at[0] | (size_t)(at[1] & 15) << 8
                        : at[0] >> 4 | (size_t)at[1] << 4;
}

static void pack_place_put(uint8_t *places, size_t i, size_t place)
{
    size_t bit = i * PLACE_BITS;
    uint8_t *at = places + bit / 8;

    at[0] |= (uint8_t)(place << bit % 8);
    at[1] |= (uint8_t)(bit % 8 == 0 ? place >> 8 : place >> 4);
}

static uint32_t magnitude_of(float x)
{
    return half_f32_bits(x) & LANES_MAGNITUDE;
}

// Sets places[] to those of the elements that are sent; `least` is the smallest
// of their magnitudes.
static void choose(size_t n, const float *in, size_t sent, uint32_t least,
                   uint16_t *places)
{
    size_t above = 0, at = 0;

    for (size_t i = 0; i < n; i++)
        above += magnitude_of(in[i]) > least;
    for (size_t i = 0, equal = sent - above; i < n && at < sent; i++) {
        uint32_t of = magnitude_of(in[i]);

        if (of < least || (of == least && equal == 0))
            continue;
        equal -= of == least;
        places[at++] = (uint16_t)i;
    }
}

struct pack_levels {
    float low, high, middle;
};

// Splits the magnitudes in the middle, and takes the mean of each side.
static struct pack_levels levels_of(size_t sent, const float *in,
                                    const uint16_t *places, float least,
                                    float most)
{
    struct pack_levels l = {.middle = least / 2 + most / 2};
    double sums[2] = {0};
    size_t counts[2] = {0};

    for (size_t i = 0; i < sent; i++) {
        float of = half_bits_f32(magnitude_of(in[places[i]]));
        bool high = of >= l.middle;

        sums[high] += (double)of;
        counts[high]++;
    }
    l.low = counts[0] > 0 ? (float)(sums[0] / (double)counts[0]) : 0;
    l.high = counts[1] > 0 ? (float)(sums[1] / (double)counts[1]) : 0;
    return l;
}

static void narrow_topk2(size_t n, const float *in, uint8_t *out)
{
    const struct pack_loops *loops = pack_host_loops();
    size_t sent = sent_of(n);
    float least = half_bits_f32(loops->kth(n, in, sent));
    float most = half_bits_f32(loops->kth(n, in, 1));
    uint16_t places[SENT_MOST];
    struct pack_levels l;
    float scales[2];
    uint8_t *values;

    choose(n, in, sent, magnitude_of(least), places);
    l = levels_of(sent, in, places, least, most);
    scales[0] = pack_scale(most < half_bits_f32(LANES_INF_BITS) ? l.low : most);
    scales[1] =
        pack_scale(most < half_bits_f32(LANES_INF_BITS) ? l.high : most);
    memset(out, 0, pack_bytes(PACK_TOPK2, n));
    memcpy(out, scales, sizeof(scales));
    out += sizeof(scales);
    values = out + place_bytes(sent);
    for (size_t i = 0; i < sent; i++) {
        uint32_t bits = half_f32_bits(in[places[i]]);
        bool high = half_bits_f32(bits & LANES_MAGNITUDE) >= l.middle;

        pack_place_put(out, i, places[i]);
        values[i / 4] |=
            (uint8_t)((bits >> 31 | (unsigned)high << 1) << 2 * (i % 4));
    }
}

static void widen_topk2(size_t n, const uint8_t *in, float *out)
{
    size_t sent = sent_of(n);
    float scales[2];
    const uint8_t *values;

    memcpy(scales, in, sizeof(scales));
    in += sizeof(scales);
    values = in + place_bytes(sent);
    memset(out, 0, n * sizeof(*out));
    for (size_t i = 0; i < sent; i++) {
        unsigned of = values[i / 4] >> 2 * (i % 4) & 3;
        float scale = scales[of >> 1];

        out[pack_place_at(in, i)] = of & 1 ? -scale : scale;
    }
}

static bool valid_scale(const uint8_t *at)
{
    float scale;

    memcpy(&scale, at, SCALE_BYTES);
    return scale == 0 || (scale >= PACK_LEAST && scale <= QUANT_MOST);
}

static bool valid_topk2(size_t n, const uint8_t *in)
{
    const uint8_t *places = in + 2 * SCALE_BYTES;
    bool valid = valid_scale(in) && valid_scale(in + SCALE_BYTES);
    size_t next = 0;

    for (size_t i = 0; valid && i < sent_of(n); i++) {
        size_t place = pack_place_at(places, i);

        valid = place >= next && place < n;
        next = place + 1;
    }
    return valid;
}

// ---- by code

size_t pack_block(enum pack_code code)
{
    return code == PACK_TOPK2 ? PACK_BLOCK_MOST : E3M0_BLOCK;
}

size_t pack_bytes(enum pack_code code, size_t n)
{
    size_t sent = sent_of(n);

    if (code == PACK_INT8)
        return quant_row_bytes(n);
    if (code == PACK_E3M0)
        return SCALE_BYTES + (n + 1) / 2;
    return 2 * SCALE_BYTES + place_bytes(sent) + (sent + 3) / 4;
}

void pack_narrow(enum pack_code code, size_t n, const float *in, void *out)
{
    if (code == PACK_INT8)
        quant_narrow(n, in, out);
    else if (code == PACK_E3M0)
        pack_host_loops()->narrow_e3m0(n, in, out);
    else
        narrow_topk2(n, in, out);
}

void pack_widen(enum pack_code code, size_t n, const void *in, float *out)
{
    if (code == PACK_INT8)
        quant_widen(n, in, out);
    else if (code == PACK_E3M0)
        pack_host_loops()->widen_e3m0(n, in, out);
    else
        widen_topk2(n, in, out);
}

float pack_most(enum pack_code code, const void *in)
{
    float scales[2] = {0};

    memcpy(scales, in, code == PACK_TOPK2 ? sizeof(scales) : sizeof(*scales));
    if (code == PACK_INT8)
        return 128 * half_bits_f32(magnitude_of(scales[0]));
    return scales[1] > scales[0] ? scales[1] : scales[0];
}

bool pack_valid(enum pack_code code, size_t n, const void *in)
{
    if (code == PACK_INT8)
        return quant_finite(in);
    return code == PACK_E3M0 ? valid_scale(in) : valid_topk2(n, in);
}
