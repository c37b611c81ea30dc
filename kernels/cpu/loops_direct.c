// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_direct.c -- convolutions of few input channels, forward.
//
// The filter is turned into panels of vectors of output channels. Then, band
// by band of the outputs' rows, tiles of pixels x channels are summed over all
// taps in registers, and leave them once: with bias, cut off by ReLU.
#include "kernels/cpu/direct.h"

#define BAND_BYTES (32 << 10) // of outputs

static void direct_conv_shape(struct direct *s, const struct kern_desc *d)
{
    direct_shape(s, d, BAND_BYTES);
}

static int64_t direct_conv_chunks(const struct kern_desc *d)
{
    struct direct s;

    direct_conv_shape(&s, d);
    return s.c.n * s.bands;
}

// The filter, [panel][tap][channel], and the bias.
static size_t direct_conv_workspace_bytes(const struct kern_desc *d)
{
    struct direct s;

    direct_conv_shape(&s, d);
    return (size_t)((s.taps + 1) * s.cop) * sizeof(float);
}

static size_t direct_conv_scratch_bytes(const struct kern_desc *d)
{
    struct direct s;

    direct_conv_shape(&s, d);
    return (size_t)direct_copy(&s) * sizeof(float);
}

// ---- The filter -------------------------------------------------------------

static void filter_part(const struct loop_args *a, int64_t chunk)
{
    bool biased = kern_has(a->d, KERN_BIAS);
    const float *w = a->io[1], *bias = a->io[2];
    float *to = a->workspace, *panel = to;
    struct direct s;
    int64_t wide;

    direct_conv_shape(&s, a->d);
    for (int64_t o = 0; o < s.cop; o += wide, panel += wide * s.taps) {
        wide = direct_vectors(s.cop - o) * VL;
        for (int64_t i = chunk; i < wide; i += a->chunks) {
            bool there = o + i < s.c.co; // else zeros, which are multiplied

            for (int64_t t = 0; t < s.taps; t++)
                panel[t * wide + i] = there ? w[(o + i) * s.taps + t] : 0;
            to[s.cop * s.taps + o + i] = there && biased ? bias[o + i] : 0;
        }
    }
}

// ---- Tiles ------------------------------------------------------------------

struct tile {
    const float *x, *filter, *bias;
    float *y;
    int64_t last; // floats of the last vector
    bool relu;
};

LOOPS_INLINE void direct_conv_store(float *y, vf v, int64_t n)
{
    if (n == VL)
        *(vf *)y = v;
    else
        memcpy(y, &v, (size_t)n * sizeof(float));
}

LOOPS_INLINE void direct_conv_finish_tile(int pixels, int vectors, bool whole,
                                          const struct direct *s,
                                          const struct tile *t,
                                          vf sum[][DIRECT_NR])
{
    vf zero = {0};

    LOOPS_UNROLL
    for (int i = 0; i < pixels; i++) {
        for (int v = 0; v < vectors; v++) {
            vf y = sum[i][v];

            if (t->relu)
                y = vf_pick(y < zero, zero, y); // keeps NaN
            direct_conv_store(t->y + i * s->c.co + v * VL, y,
                              whole || v < vectors - 1 ? VL : t->last);
        }
    }
}

LOOPS_INLINE void direct_conv_tile(int pixels, int vectors, int64_t step,
                                   const struct direct *s, const struct tile *t)
{
    const float *filter = t->filter;
    vf sum[DIRECT_MR_MOST][DIRECT_NR];

    LOOPS_UNROLL
    for (int i = 0; i < pixels; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = *(const vf *)(t->bias + v * VL);
    for (int64_t k = 0; k < s->taps; k++, filter += vectors * VL) {
        const float *x = t->x + s->at[k];

#define X(i) x[(i)*step]
        DIRECT_ADD(sum, pixels, vectors, X, filter);
#undef X
    }
    if (t->last == VL)
        direct_conv_finish_tile(pixels, vectors, true, s, t, sum);
    else
        direct_conv_finish_tile(pixels, vectors, false, s, t, sum);
}

// A row of outputs.
struct direct_out_row {
    const float *x, *filters, *bias;
    float *y;
    bool relu;
};

// One panel of it.
LOOPS_INLINE void direct_conv_panel(int vectors, int64_t step,
                                    const struct direct *s,
                                    const struct direct_out_row *r, int64_t o)
{
    int64_t pixels, last = s->c.co - o - (vectors - 1) * VL;
    struct tile t = {.filter = r->filters + o * s->taps,
                     .bias = r->bias + o,
                     .last = last < VL ? last : VL,
                     .relu = r->relu};

    for (int64_t q = 0; q < s->c.ow; q += pixels) {
        pixels = direct_rows(s->c.ow - q, DIRECT_MR(vectors));
        t.x = r->x + q * step;
        t.y = r->y + q * s->c.co + o;
        switch (pixels) {
#define TILE(n) direct_conv_tile(n, vectors, step, s, &t)
            DIRECT_CASES(vectors)
#undef TILE
        default:
            break;
        }
    }
}

LOOPS_INLINE void direct_conv_row(int64_t step, const struct direct *s,
                                  const struct direct_out_row *r)
{
    int64_t vectors;

    for (int64_t o = 0; o < s->cop; o += vectors * VL) {
        vectors = direct_vectors(s->cop - o);
        if (vectors == 1)
            direct_conv_panel(1, step, s, r, o);
        else if (vectors == 2)
            direct_conv_panel(2, step, s, r, o);
        else if (vectors == 3)
            direct_conv_panel(3, step, s, r, o);
        else
            direct_conv_panel(4, step, s, r, o);
    }
}

static void band_part(const struct loop_args *a, int64_t chunk)
{
    struct direct_out_row r = {.filters = a->workspace,
                               .relu = kern_has(a->d, KERN_RELU)};
    struct direct_band b;
    struct direct s;

    direct_conv_shape(&s, a->d);
    b = direct_band_of(&s, a->io[0], a->scratch, chunk);
    r.x = b.x;
    r.y = (float *)a->io[a->d->inputs] +
          (b.image * s.c.oh + b.first) * s.c.ow * s.c.co;
    r.bias = r.filters + s.cop * s.taps;
    for (int64_t p = 0; p < b.rows; p++) {
        direct_conv_row(s.step, &s, &r);
        r.x += s.row;
        r.y += s.c.ow * s.c.co;
    }
}

const struct loop_op LOOPS(direct_conv) = {
    .can = direct_can,
    .chunks = direct_conv_chunks,
    .workspace_bytes = direct_conv_workspace_bytes,
    .scratch_bytes = direct_conv_scratch_bytes,
    .step = {{filter_part, NULL}, {band_part, NULL}},
};
