// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_wino.c -- 3x3 convolutions and their gradient by data, as
// Winograd does them.
//
// The gradient by data is a convolution of the output's gradient with the
// filter turned around, so both are one loop. First the filter is transformed,
// then block by block of tiles: the image's tiles, 36 products, the outputs. A
// block's tensors stay in the second cache. Where one row and one column of the
// gradient by data are left behind whole tiles (loops_wino_edge.c), they are
// made last.
#include "kernels/cpu/winograd.h"

#define BLOCK_BYTES (256 << 10)

// ---- Shapes -----------------------------------------------------------------

void LOOPS(wino_shape)(struct wino *w, const struct kern_desc *d)
{
    struct kern_conv_dims c;
    bool back = d->op == KERN_CONV_DGRAD;
    int64_t rows;

    kern_conv_dims(&c, d);
    *w = (struct wino){.n = c.n,
                       .ih = back ? c.oh : c.h,
                       .iw = back ? c.ow : c.w,
                       .ic = back ? c.co : c.ci,
                       .oh = back ? c.h : c.oh,
                       .ow = back ? c.w : c.ow,
                       .oc = back ? c.ci : c.co,
                       .py = c.win.pad_before[0],
                       .px = c.win.pad_before[1]};
    if (back) {
        w->py = 2 - w->py;
        w->px = 2 - w->px;
    }
    w->th = (w->oh + WINO_OUT - 1) / WINO_OUT;
    w->tw = (w->ow + WINO_OUT - 1) / WINO_OUT;
    if (back) {
        w->th = wino_tiles(w->oh, w->ih, w->py);
        w->tw = wino_tiles(w->ow, w->iw, w->px);
        w->edge_y = w->th * WINO_OUT < w->oh;
        w->edge_x = w->tw * WINO_OUT < w->ow;
    }
    w->tiles = w->n * w->th * w->tw;
    w->icv = loops_up(w->ic, VL);
    w->ocp = loops_up(w->oc, WINO_PANEL);
    rows = BLOCK_BYTES / (WINO_ALL * 4 * (w->icv + w->ocp)) / WINO_MR * WINO_MR;
    w->block = rows < 24 ? 24 : rows > 96 ? 96 : rows;
    w->blocks = (w->tiles + w->block - 1) / w->block;
    // Not a power of two apart: they would share a few lines of the cache.
    w->in_step = w->block * w->icv + 16;
    w->out_step = w->block * w->ocp + 16;
    w->filter_step = w->ic * w->ocp + 16;
}

bool LOOPS(wino_can)(const struct kern_desc *d)
{
    struct kern_conv_dims c;

    kern_conv_dims(&c, d);
    for (int i = 0; i < 2; i++)
        if (c.win.size[i] != 3 || c.win.stride[i] != 1 ||
            c.win.dilation[i] != 1 || c.win.pad_before[i] > 2)
            return false;
    return c.groups == 1;
}

static int64_t wino_conv_chunks(const struct kern_desc *d)
{
    struct wino w;

    LOOPS(wino_shape)(&w, d);
    return w.blocks;
}

static size_t wino_conv_workspace_bytes(const struct kern_desc *d)
{
    struct wino w;

    LOOPS(wino_shape)(&w, d);
    return (size_t)(WINO_ALL * w.filter_step + 2 * wino_edge_floats(&w)) *
           sizeof(float);
}

static size_t wino_conv_scratch_bytes(const struct kern_desc *d)
{
    struct wino w;
    size_t blocks, edges;

    LOOPS(wino_shape)(&w, d);
    blocks = (size_t)(WINO_ALL * (w.in_step + w.out_step)) * sizeof(float);
    edges = LOOPS(wino_edge_scratch)(&w);
    return edges > blocks ? edges : blocks;
}

// ---- The filter -------------------------------------------------------------

// g[3][3] of channel i that is read, for a vector of channels from `o` on that
// are made, of which n are: forward from OHWI at w[o][.][i], the gradient by
// data from w[i][.][o], turned around.
static void filter_of(vf g[9], const struct kern_desc *d, const struct wino *w,
                      const float *weights, int64_t o, int64_t n, int64_t i)
{
    float lane[9][VL] = {{0}};

    if (d->op == KERN_CONV_DGRAD) {
        for (int64_t t = 0; t < 9; t++)
            g[t] = vf_some(weights + (i * 9 + 8 - t) * w->oc + o, n);
        return;
    }
    for (int64_t l = 0; l < n; l++)
        for (int64_t t = 0; t < 9; t++)
            lane[t][l] = weights[((o + l) * 9 + t) * w->ic + i];
    for (int64_t t = 0; t < 9; t++)
        g[t] = *(const vf *)lane[t];
}

// The three taps that the last row (tap 0, 1, 2) and column (0, 3, 6) read, as
// the right sides of products over three pixels.
static void edge_filters(float *to, const struct wino *w, const vf g[9])
{
    for (int t = 0; t < 3; t++, to += w->ic * WINO_PANEL) {
        *(vf *)to = g[t];
        *(vf *)(to + wino_edge_floats(w)) = g[3 * t];
    }
}

// Columns behind the last channel are not read, but multiplied: they are zeros,
// since what lies in memory may be numbers that are slow.
static void filters_in(const struct loop_args *a, const struct wino *w,
                       int64_t o)
{
    float *to = (float *)a->workspace + o / WINO_PANEL * w->ic * WINO_PANEL +
                o % WINO_PANEL;
    int64_t left = w->oc - o, n = left < 0 ? 0 : left > VL ? VL : left;
    float *edge = (float *)a->workspace + WINO_ALL * w->filter_step +
                  o / WINO_PANEL * 3 * w->ic * WINO_PANEL + o % WINO_PANEL;
    vf g[9], half[18], row[6];

    for (int64_t i = 0; i < w->ic; i++, to += WINO_PANEL) {
        filter_of(g, a->d, w, a->io[1], o, n, i);
        if (w->edge_y || w->edge_x)
            edge_filters(edge + i * WINO_PANEL, w, g);
        LOOPS_UNROLL
        for (int j = 0; j < 3; j++)
            wino_g(half + j, 3, g + j, 3);
        LOOPS_UNROLL
        for (int r = 0; r < WINO_IN; r++) {
            wino_g(row, 1, half + r * 3, 1);
            for (int j = 0; j < WINO_IN; j++)
                *(vf *)(to + (r * WINO_IN + j) * w->filter_step) = row[j];
        }
    }
}

static void wino_conv_filters_part(const struct loop_args *a, int64_t chunk)
{
    struct wino w;

    LOOPS(wino_shape)(&w, a->d);
    for (int64_t o = chunk * VL; o < w.ocp; o += a->chunks * VL)
        filters_in(a, &w, o);
}

// ---- The image --------------------------------------------------------------

// A tile's vectors of channels [first, first + n), 0 outside of the image.
LOOPS_INLINE void load_tile(vf d[36], const struct wino *w, const float *x,
                            const struct wino_tile *t, bool inside, int64_t n)
{
    for (int i = 0; i < WINO_IN; i++) {
        for (int j = 0; j < WINO_IN; j++) {
            const float *p = x + (i * w->iw + j) * w->ic;

            if (!inside && (i < t->i0 || i >= t->i1 || j < t->j0 || j >= t->j1))
                d[i * WINO_IN + j] = (vf){0};
            else
                d[i * WINO_IN + j] = n == VL ? *(const vf *)p : vf_some(p, n);
        }
    }
}

LOOPS_INLINE void transform_in(float *to, int64_t step, const vf d[36])
{
    vf half[36], row[6];

    LOOPS_UNROLL
    for (int j = 0; j < WINO_IN; j++)
        wino_bt(half + j, WINO_IN, d + j, WINO_IN);
    LOOPS_UNROLL
    for (int i = 0; i < WINO_IN; i++) {
        wino_bt(row, 1, half + i * WINO_IN, 1);
        for (int j = 0; j < WINO_IN; j++)
            *(vf *)(to + (i * WINO_IN + j) * step) = row[j];
    }
}

void LOOPS(wino_image_in)(float *to, const struct wino *w, const float *x,
                          int64_t first, int64_t count)
{
    vf d[36];

    for (int64_t i = 0; i < count; i++, to += w->icv) {
        struct wino_tile t =
            wino_tile_of(w, first + i, w->ih, w->iw, WINO_IN, w->py, w->px);
        const float *at = x + ((t.image * w->ih + t.y) * w->iw + t.x) * w->ic;
        bool inside = t.i1 - t.i0 == WINO_IN && t.j1 - t.j0 == WINO_IN;

        for (int64_t c = 0; c < w->ic; c += VL) {
            if (inside && w->ic - c >= VL)
                load_tile(d, w, at + c, &t, true, VL);
            else
                load_tile(d, w, at + c, &t, false,
                          w->ic - c < VL ? w->ic - c : VL);
            transform_in(to + c, w->in_step, d);
        }
    }
}

// ---- The outputs ------------------------------------------------------------

LOOPS_INLINE void transform_out(vf y[16], const float *from, int64_t step)
{
    vf half[24], column[6];

    LOOPS_UNROLL
    for (int j = 0; j < WINO_IN; j++) {
        for (int i = 0; i < WINO_IN; i++)
            column[i] = *(const vf *)(from + (i * WINO_IN + j) * step);
        wino_at(half + j, WINO_IN, column, 1);
    }
    LOOPS_UNROLL
    for (int i = 0; i < WINO_OUT; i++)
        wino_at(y + i * WINO_OUT, 1, half + i * WINO_IN, 1);
}

struct wino_conv_output {
    float *y;
    const float *bias; // or NULL
    bool relu;
};

LOOPS_INLINE void store_tile(const vf y[16], const struct wino *w, float *to,
                             const struct wino_tile *t,
                             const struct wino_conv_output *o, int64_t c,
                             int64_t n)
{
    vf zero = {0}, bias = o->bias ? vf_some(o->bias + c, n) : zero;

    for (int i = 0; i < t->i1; i++) {
        for (int j = 0; j < t->j1; j++) {
            vf v = y[i * WINO_OUT + j] + bias;
            float *p = to + (i * w->ow + j) * w->oc;

            if (o->relu)
                v = vf_pick(v < zero, zero, v); // keeps NaN
            if (n == VL)
                *(vf *)p = v;
            else
                memcpy(p, &v, (size_t)n * sizeof(float));
        }
    }
}

static void image_out(const struct wino_conv_output *o, const struct wino *w,
                      const float *from, int64_t first, int64_t count)
{
    vf y[16];

    for (int64_t i = 0; i < count; i++, from += w->ocp) {
        struct wino_tile t =
            wino_tile_of(w, first + i, w->oh, w->ow, WINO_OUT, 0, 0);
        float *at = o->y + ((t.image * w->oh + t.y) * w->ow + t.x) * w->oc;

        for (int64_t c = 0; c < w->oc; c += VL) {
            transform_out(y, from + c, w->out_step);
            if (w->oc - c >= VL)
                store_tile(y, w, at + c, &t, o, c, VL);
            else
                store_tile(y, w, at + c, &t, o, c, w->oc - c);
        }
    }
}

// ---- A block ----------------------------------------------------------------

static void block_part(const struct loop_args *a, int64_t chunk)
{
    struct wino w;
    struct wino_conv_output o = {.y = a->io[a->d->inputs],
                                 .relu = kern_has(a->d, KERN_RELU),
                                 .bias = kern_has(a->d, KERN_BIAS) ? a->io[2]
                                                                   : NULL};
    float *in = a->scratch, *out;
    int64_t first, count;

    LOOPS(wino_shape)(&w, a->d);
    first = chunk * w.block;
    count = w.tiles - first < w.block ? w.tiles - first : w.block;
    out = in + WINO_ALL * w.in_step;
    LOOPS(wino_image_in)(in, &w, a->io[0], first, count);
    for (int f = 0; f < WINO_ALL; f++)
        wino_product(false, count, w.ocp, w.ic, in + f * w.in_step, w.icv, 1,
                     (const float *)a->workspace + f * w.filter_step,
                     out + f * w.out_step, w.ocp);
    image_out(&o, &w, out, first, count);
}

static void edges_part(const struct loop_args *a, int64_t chunk)
{
    struct wino w;

    LOOPS(wino_shape)(&w, a->d);
    for (int64_t i = chunk; i < w.n && (w.edge_y || w.edge_x); i += a->chunks)
        LOOPS(wino_edges)(a, &w, i);
}

const struct loop_op LOOPS(wino_conv) = {
    .can = LOOPS(wino_can),
    .chunks = wino_conv_chunks,
    .workspace_bytes = wino_conv_workspace_bytes,
    .scratch_bytes = wino_conv_scratch_bytes,
    .step = {{wino_conv_filters_part, NULL},
             {block_part, NULL},
             {edges_part, NULL}},
};
