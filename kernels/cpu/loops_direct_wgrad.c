// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_direct_wgrad.c -- the gradient of a convolution of few
// input channels by its filter, and by its bias.
//
// Tiles of taps x output channels are summed over a band's pixels in registers.
// A band of the outputs' gradient stays in the first cache while all tiles read
// it. The bias gradient is one more tap, which reads ones. Bands are shared
// among a few parts, which the shape fixes; their sums are joined in order.
#include "kernels/cpu/direct.h"

#define BAND_BYTES (16 << 10) // of the outputs' gradient
#define PARTS 8
#define PART_BANDS 16 // at least, else joining costs more than it gives

static void direct_wgrad_shape(struct direct *s, const struct kern_desc *d)
{
    direct_shape(s, d, BAND_BYTES);
}

// Sums of a part: [tap][channel], those of the bias behind.
static int64_t direct_wgrad_part_floats(const struct direct *s)
{
    return (s->taps + 1) * s->cop;
}

static int64_t direct_wgrad_chunks(const struct kern_desc *d)
{
    struct direct s;
    int64_t parts;

    direct_wgrad_shape(&s, d);
    parts = s.c.n * s.bands / PART_BANDS;
    return parts < 1 ? 1 : parts > PARTS ? PARTS : parts;
}

static size_t direct_wgrad_workspace_bytes(const struct kern_desc *d)
{
    struct direct s;

    direct_wgrad_shape(&s, d);
    return (size_t)(direct_wgrad_chunks(d) * direct_wgrad_part_floats(&s)) *
           sizeof(float);
}

// The ones, and the band's outputs where they fill no vectors.
static int64_t ones_floats(const struct direct *s)
{
    return loops_up(s->c.ow * s->step, 16);
}

static int64_t outputs_floats(const struct direct *s)
{
    return s->cop == s->c.co ? 0 : s->rows * s->c.ow * s->cop;
}

static size_t direct_wgrad_scratch_bytes(const struct kern_desc *d)
{
    struct direct s;

    direct_wgrad_shape(&s, d);
    return (size_t)(direct_copy(&s) + ones_floats(&s) + outputs_floats(&s)) *
           sizeof(float);
}

// ---- Tiles ------------------------------------------------------------------

// What all tiles of a band read.
struct direct_wgrad_band {
    const struct direct *s;
    const float *x, *dy; // dy: cop channels of a pixel
    const float *ones;
    float *sums;
    int64_t rows;
};

LOOPS_INLINE void direct_wgrad_tile(int taps, int vectors,
                                    const struct direct_wgrad_band *w,
                                    int64_t first, int64_t o)
{
    const struct direct *s = w->s;
    float *sums = w->sums + first * s->cop + o;
    vf sum[DIRECT_MR_MOST][DIRECT_NR];
    const float *x[DIRECT_MR_MOST], *dy = w->dy + o;

    LOOPS_UNROLL
    for (int i = 0; i < taps; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = (vf){0};
    for (int64_t p = 0; p < w->rows; p++) {
        LOOPS_UNROLL
        for (int i = 0; i < taps; i++)
            x[i] = first + i < s->taps ? w->x + p * s->row + s->at[first + i]
                                       : w->ones;
        for (int64_t q = 0; q < s->c.ow; q++, dy += s->cop) {
#define X(i) x[i][q * s->step]
            DIRECT_ADD(sum, taps, vectors, X, dy);
#undef X
        }
    }
    LOOPS_UNROLL
    for (int i = 0; i < taps; i++)
        for (int v = 0; v < vectors; v++)
            *(vf *)(sums + i * s->cop + v * VL) += sum[i][v];
}

LOOPS_INLINE void direct_wgrad_panel(int vectors,
                                     const struct direct_wgrad_band *w,
                                     int64_t taps, int64_t o)
{
    int64_t some;

    for (int64_t first = 0; first < taps; first += some) {
        some = direct_rows(taps - first, DIRECT_MR(vectors));
        switch (some) {
#define TILE(n) direct_wgrad_tile(n, vectors, w, first, o)
            DIRECT_CASES(vectors)
#undef TILE
        default:
            break;
        }
    }
}

static void direct_wgrad_band_sums(const struct direct_wgrad_band *w,
                                   int64_t taps)
{
    int64_t cop = w->s->cop, vectors;

    for (int64_t o = 0; o < cop; o += vectors * VL) {
        vectors = direct_vectors(cop - o);
        if (vectors == 1)
            direct_wgrad_panel(1, w, taps, o);
        else if (vectors == 2)
            direct_wgrad_panel(2, w, taps, o);
        else if (vectors == 3)
            direct_wgrad_panel(3, w, taps, o);
        else
            direct_wgrad_panel(4, w, taps, o);
    }
}

// ---- Parts ------------------------------------------------------------------

// A band's outputs with zeros behind a pixel's last channel.
static const float *outputs_of(float *to, const struct direct *s,
                               const float *dy, int64_t pixels)
{
    if (s->cop == s->c.co)
        return dy;
    memset(to, 0, (size_t)(pixels * s->cop) * sizeof(float));
    for (int64_t i = 0; i < pixels; i++)
        memcpy(to + i * s->cop, dy + i * s->c.co,
               (size_t)s->c.co * sizeof(float));
    return to;
}

static void direct_wgrad_sums_part(const struct loop_args *a, int64_t chunk)
{
    bool bias = kern_has(a->d, KERN_BGRAD);
    struct direct s;
    struct direct_wgrad_band w = {.s = &s};
    float *copy = a->scratch, *ones, *outputs;
    int64_t bands;

    direct_wgrad_shape(&s, a->d);
    bands = s.c.n * s.bands;
    ones = copy + direct_copy(&s);
    outputs = ones + ones_floats(&s);
    for (int64_t i = 0; i < ones_floats(&s); i++)
        ones[i] = 1;
    w.ones = ones;
    w.sums = (float *)a->workspace + chunk * direct_wgrad_part_floats(&s);
    memset(w.sums, 0, (size_t)direct_wgrad_part_floats(&s) * sizeof(float));
    for (int64_t i = bands * chunk / a->chunks;
         i < bands * (chunk + 1) / a->chunks; i++) {
        struct direct_band b = direct_band_of(&s, a->io[0], copy, i);
        const float *dy = (const float *)a->io[1] +
                          (b.image * s.c.oh + b.first) * s.c.ow * s.c.co;

        w.x = b.x;
        w.rows = b.rows;
        w.dy = outputs_of(outputs, &s, dy, b.rows * s.c.ow);
        direct_wgrad_band_sums(&w, s.taps + bias);
    }
}

// ---- The end ----------------------------------------------------------------

static void join_part(const struct loop_args *a, int64_t chunk)
{
    bool accum = kern_has(a->d, KERN_ACCUM), bias = kern_has(a->d, KERN_BGRAD);
    const float *sums = a->workspace;
    struct direct s;

    direct_wgrad_shape(&s, a->d);
    for (int64_t o = chunk; o < s.c.co; o += a->chunks) {
        for (int64_t t = 0; t < s.taps + bias; t++) {
            float *to = t < s.taps ? (float *)a->io[2] + o * s.taps + t
                                   : (float *)a->io[3] + o;
            float sum = accum ? *to : 0;

            for (int64_t p = 0; p < a->chunks; p++)
                sum += sums[p * direct_wgrad_part_floats(&s) + t * s.cop + o];
            *to = sum;
        }
    }
}

const struct loop_op LOOPS(direct_wgrad) = {
    .can = direct_can,
    .chunks = direct_wgrad_chunks,
    .workspace_bytes = direct_wgrad_workspace_bytes,
    .scratch_bytes = direct_wgrad_scratch_bytes,
    .step = {{direct_wgrad_sums_part, NULL}, {join_part, NULL}},
};
