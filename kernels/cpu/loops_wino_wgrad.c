// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_wino_wgrad.c -- the gradient of a 3x3 convolution by its
// filter, as Winograd does it.
//
// Tiles of the image and of the outputs' gradient are transformed and
// multiplied, summed over tiles; the 36 sums are transformed to 3x3 once, at
// the end. Tiles are shared among a few parts, which the shape fixes; their
// sums are joined in order.
#include "kernels/cpu/winograd.h"

#define PARTS 8
#define PART_BLOCKS 16 // at least, else joining costs more than it gives

// Floats of a part: the 36 sums, and those of the bias.
static int64_t wino_wgrad_part_floats(const struct wino *w)
{
    return WINO_ALL * w->filter_step + w->ocp;
}

static int64_t wino_wgrad_chunks(const struct kern_desc *d)
{
    struct wino w;
    int64_t parts;

    LOOPS(wino_shape)(&w, d);
    parts = w.blocks / PART_BLOCKS;
    return parts < 1 ? 1 : parts > PARTS ? PARTS : parts;
}

static size_t wino_wgrad_workspace_bytes(const struct kern_desc *d)
{
    struct wino w;

    LOOPS(wino_shape)(&w, d);
    return (size_t)(wino_wgrad_chunks(d) * wino_wgrad_part_floats(&w)) *
           sizeof(float);
}

static size_t wino_wgrad_scratch_bytes(const struct kern_desc *d)
{
    struct wino w;

    LOOPS(wino_shape)(&w, d);
    return (size_t)(WINO_ALL * (w.in_step + w.out_step)) * sizeof(float);
}

// ---- The outputs' gradient --------------------------------------------------

LOOPS_INLINE void load_outputs(vf d[16], const struct wino *w, const float *dy,
                               const struct wino_tile *t, int64_t n)
{
    for (int i = 0; i < WINO_OUT; i++) {
        for (int j = 0; j < WINO_OUT; j++) {
            const float *p = dy + (i * w->ow + j) * w->oc;

            if (i >= t->i1 || j >= t->j1)
                d[i * WINO_OUT + j] = (vf){0};
            else
                d[i * WINO_OUT + j] = n == VL ? *(const vf *)p : vf_some(p, n);
        }
    }
}

LOOPS_INLINE void transform(float *to, int64_t step, const vf d[16])
{
    vf half[24], row[6];

    LOOPS_UNROLL
    for (int j = 0; j < WINO_OUT; j++)
        wino_a(half + j, WINO_OUT, d + j, WINO_OUT);
    LOOPS_UNROLL
    for (int i = 0; i < WINO_IN; i++) {
        wino_a(row, 1, half + i * WINO_OUT, 1);
        for (int j = 0; j < WINO_IN; j++)
            *(vf *)(to + (i * WINO_IN + j) * step) = row[j];
    }
}

LOOPS_INLINE vf wino_wgrad_tile_sum(const vf d[16])
{
    vf sum = d[0];

    LOOPS_UNROLL
    for (int i = 1; i < WINO_OUT * WINO_OUT; i++)
        sum += d[i];
    return sum;
}

// Into panels of `count` rows; adds what there is to bias[ocp].
static void outputs_in(float *to, float *bias, const struct wino *w,
                       const float *dy, int64_t first, int64_t count)
{
    vf d[16];

    for (int64_t i = 0; i < count; i++, to += WINO_PANEL) {
        struct wino_tile t =
            wino_tile_of(w, first + i, w->oh, w->ow, WINO_OUT, 0, 0);
        const float *at = dy + ((t.image * w->oh + t.y) * w->ow + t.x) * w->oc;

        for (int64_t c = 0; c < w->ocp; c += VL) {
            int64_t left = w->oc - c;
            float *in =
                to + c / WINO_PANEL * count * WINO_PANEL + c % WINO_PANEL;

            if (left >= VL)
                load_outputs(d, w, at + c, &t, VL);
            else
                load_outputs(d, w, at + c, &t, left > 0 ? left : 0);
            transform(in, w->out_step, d);
            *(vf *)(bias + c) += wino_wgrad_tile_sum(d);
        }
    }
}

// ---- Parts ------------------------------------------------------------------

static void wino_wgrad_sums_part(const struct loop_args *a, int64_t chunk)
{
    struct wino w;
    float *in = a->scratch, *out, *sums, *bias;
    int64_t first, last;

    LOOPS(wino_shape)(&w, a->d);
    out = in + WINO_ALL * w.in_step;
    sums = (float *)a->workspace + chunk * wino_wgrad_part_floats(&w);
    bias = sums + WINO_ALL * w.filter_step;
    memset(bias, 0, (size_t)w.ocp * sizeof(float));
    first = w.blocks * chunk / a->chunks;
    last = w.blocks * (chunk + 1) / a->chunks;
    for (int64_t b = first; b < last; b++) {
        int64_t tile = b * w.block;
        int64_t count = w.tiles - tile < w.block ? w.tiles - tile : w.block;

        LOOPS(wino_image_in)(in, &w, a->io[0], tile, count);
        outputs_in(out, bias, &w, a->io[1], tile, count);
        for (int f = 0; f < WINO_ALL; f++)
            wino_product(b > first, w.ic, w.ocp, count, in + f * w.in_step, 1,
                         w.icv, out + f * w.out_step, sums + f * w.filter_step,
                         w.ocp);
    }
}

// ---- The end ----------------------------------------------------------------

// The filter's gradient for a vector of outputs' channels: 3x3 vectors.
static void filter_out(vf g[9], const struct loop_args *a, const struct wino *w,
                       int64_t i, int64_t c)
{
    vf all[36], half[18];

    for (int f = 0; f < WINO_ALL; f++) {
        const float *m =
            (const float *)a->workspace + f * w->filter_step + i * w->ocp + c;

        all[f] = *(const vf *)m;
        for (int64_t p = 1; p < a->chunks; p++)
            all[f] += *(const vf *)(m + p * wino_wgrad_part_floats(w));
    }
    for (int j = 0; j < WINO_IN; j++)
        wino_gt(half + j, WINO_IN, all + j, WINO_IN);
    for (int r = 0; r < 3; r++)
        wino_gt(g + r * 3, 1, half + r * WINO_IN, 1);
}

static void bias_out(const struct loop_args *a, const struct wino *w)
{
    const float *from =
        (const float *)a->workspace + wino_wgrad_part_floats(w) - w->ocp;
    float *to = a->io[3];

    for (int64_t o = 0; o < w->oc; o++) {
        float sum = kern_has(a->d, KERN_ACCUM) ? to[o] : 0;

        for (int64_t p = 0; p < a->chunks; p++)
            sum += from[p * wino_wgrad_part_floats(w) + o];
        to[o] = sum;
    }
}

static void wino_wgrad_filters_part(const struct loop_args *a, int64_t chunk)
{
    bool accum = kern_has(a->d, KERN_ACCUM);
    float *dw = a->io[2];
    struct wino w;
    vf g[9];

    LOOPS(wino_shape)(&w, a->d);
    for (int64_t i = chunk; i < w.ic; i += a->chunks) {
        for (int64_t c = 0; c < w.oc; c += VL) {
            filter_out(g, a, &w, i, c);
            for (int64_t o = c; o < w.oc && o < c + VL; o++) {
                for (int t = 0; t < 9; t++) {
                    float *to = dw + (o * 9 + t) * w.ic + i;

                    *to = g[t][o - c] + (accum ? *to : 0);
                }
            }
        }
    }
    if (chunk == 0 && kern_has(a->d, KERN_BGRAD))
        bias_out(a, &w);
}

const struct loop_op LOOPS(wino_wgrad) = {
    .can = LOOPS(wino_can),
    .chunks = wino_wgrad_chunks,
    .workspace_bytes = wino_wgrad_workspace_bytes,
    .scratch_bytes = wino_wgrad_scratch_bytes,
    .step = {{wino_wgrad_sums_part, NULL}, {wino_wgrad_filters_part, NULL}},
};
