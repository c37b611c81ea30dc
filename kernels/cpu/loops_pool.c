// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_pool.c -- max and average pools, vectors along channels.
//
// Memory is the bound: the max pool reads x once and writes one byte of aux
// per output, and backward reads only dy and aux. A chunk is one image.
#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/vmath.h"

// The window of one output, cut to the image.
struct cpu_pool_span {
    int64_t h0, h1, w0, w1;
    int64_t top, left;
};

static struct cpu_pool_span cpu_pool_span_of(const struct kern_conv_dims *c,
                                             int64_t p, int64_t q)
{
    const struct kern_window *w = &c->win;
    struct cpu_pool_span s = {.top = p * w->stride[0] - w->pad_before[0],
                              .left = q * w->stride[1] - w->pad_before[1]};

    s.h0 = s.top < 0 ? 0 : s.top;
    s.w0 = s.left < 0 ? 0 : s.left;
    s.h1 = s.top + w->size[0] > c->h ? c->h : s.top + w->size[0];
    s.w1 = s.left + w->size[1] > c->w ? c->w : s.left + w->size[1];
    return s;
}

static bool can(const struct kern_desc *d)
{
    // An i32 aux is for windows of more than 254 taps: not worth a loop.
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        if (d->io[i].dtype == KERN_I32)
            return false;
    return true;
}

// One image each.
static int64_t fwd_chunks(const struct kern_desc *d)
{
    return d->io[0].dim[0];
}

// What forward needs for one output pixel.
struct max_pixel {
    const float *image;
    float *y;
    uint8_t *aux; // or NULL
    bool drelu;
};

// best and tap become those of x where x is larger.
static inline void challenge(vf *best, vi *tap, const float *x, int32_t t)
{
    vf v = *(const vf *)x;
    vi wins = v > *best;

    *best = vf_pick(wins, v, *best);
    *tap = (wins & t) | (~wins & *tap);
}

static inline void store_max(const struct max_pixel *m, int64_t i, vf best,
                             vi tap)
{
    *(vf *)(m->y + i) = best;
    if (m->drelu)
        tap |= ~(best > 0);
    if (m->aux)
        *(vb *)(m->aux + i) = __builtin_convertvector(tap & 255, vb);
}

static inline void max_vector(const struct kern_conv_dims *c,
                              const struct cpu_pool_span *s,
                              const struct max_pixel *m, int64_t i)
{
    const float *image = m->image + i;
    int first = (int)((s->h0 - s->top) * c->win.size[1] + s->w0 - s->left);
    vf best = *(const vf *)(image + (s->h0 * c->w + s->w0) * c->ci);
    vi tap = first - (vi){0};

    for (int64_t h = s->h0; h < s->h1; h++) {
        const float *row = image + (h * c->w + s->w0) * c->ci;
        int32_t t = (int32_t)((h - s->top) * c->win.size[1] + s->w0 - s->left);

        for (int64_t w = s->w0; w < s->w1; w++, t++, row += c->ci)
            challenge(&best, &tap, row, t);
    }
    store_max(m, i, best, tap);
}

// The common window: 2x2, step 2, whole vectors of channels. One row of y.
static void max_row_2x2(const struct kern_conv_dims *c, struct max_pixel *m,
                        const float *top)
{
    const float *low = top + c->w * c->ci;

    for (int64_t q = 0; q < c->ow; q++) {
        for (int64_t i = 0; i < c->ci; i += VL) {
            vf best = *(const vf *)(top + i);
            vi tap = {0};

            challenge(&best, &tap, top + c->ci + i, 1);
            challenge(&best, &tap, low + i, 2);
            challenge(&best, &tap, low + c->ci + i, 3);
            store_max(m, i, best, tap);
        }
        top += 2 * c->ci;
        low += 2 * c->ci;
        m->y += c->ci;
        m->aux = m->aux ? m->aux + c->ci : NULL;
    }
}

static void max_scalar(const struct kern_conv_dims *c,
                       const struct cpu_pool_span *s, const struct max_pixel *m,
                       int64_t i)
{
    const float *image = m->image + i;
    float best = -INFINITY;
    int tap = -1;

    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++) {
            float v = image[(h * c->w + w) * c->ci];

            if (tap < 0 || v > best) {
                best = v;
                tap = (int)((h - s->top) * c->win.size[1] + w - s->left);
            }
        }
    m->y[i] = best;
    if (m->aux)
        m->aux[i] = (uint8_t)(m->drelu && !(best > 0) ? 255 : tap);
}

static void mean_pixel(const struct kern_conv_dims *c,
                       const struct cpu_pool_span *s, const float *image,
                       float *y)
{
    float scale = 1 / (float)((s->h1 - s->h0) * (s->w1 - s->w0));

    memset(y, 0, (size_t)c->ci * sizeof(*y));
    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++) {
            const float *x = image + (h * c->w + w) * c->ci;

            for (int64_t i = 0; i < c->ci; i++)
                y[i] += x[i];
        }
    for (int64_t i = 0; i < c->ci; i++)
        y[i] *= scale;
}

// Windows that tile the image from its corner: each element of x has at most
// one window.
static bool tiles(const struct kern_conv_dims *c)
{
    const struct kern_window *w = &c->win;

    return w->stride[0] == w->size[0] && w->stride[1] == w->size[1] &&
           w->pad_before[0] == 0 && w->pad_before[1] == 0 &&
           w->pad_after[0] == 0 && w->pad_after[1] == 0;
}

static bool tiles_2x2(const struct kern_conv_dims *c)
{
    return tiles(c) && c->win.size[0] == 2 && c->win.size[1] == 2 &&
           c->ci % VL == 0;
}

// One row of y, any window.
static void max_row(const struct kern_conv_dims *c, struct max_pixel *m,
                    int64_t p)
{
    for (int64_t q = 0; q < c->ow; q++) {
        struct cpu_pool_span s = cpu_pool_span_of(c, p, q);
        int64_t i = 0;

        for (; i + VL <= c->ci; i += VL)
            max_vector(c, &s, m, i);
        for (; i < c->ci; i++)
            max_scalar(c, &s, m, i);
        m->y += c->ci;
        m->aux = m->aux ? m->aux + c->ci : NULL;
    }
}

static void mean_row(const struct kern_conv_dims *c, struct max_pixel *m,
                     int64_t p)
{
    for (int64_t q = 0; q < c->ow; q++, m->y += c->ci) {
        struct cpu_pool_span s = cpu_pool_span_of(c, p, q);

        mean_pixel(c, &s, m->image, m->y);
    }
}

static void cpu_pool_fwd_part(const struct loop_args *a, int64_t n)
{
    struct kern_conv_dims c;
    struct max_pixel m = {.drelu = kern_has(a->d, KERN_DRELU)};

    kern_conv_dims(&c, a->d);
    m.image = (const float *)a->io[0] + n * c.h * c.w * c.ci;
    m.y = (float *)a->io[1] + n * c.oh * c.ow * c.ci;
    m.aux = kern_has(a->d, KERN_AUX)
                ? (uint8_t *)a->io[2] + n * c.oh * c.ow * c.ci
                : NULL;
    for (int64_t p = 0; p < c.oh; p++) {
        if (a->d->u.pool.kind == KERN_POOL_AVG)
            mean_row(&c, &m, p);
        else if (tiles_2x2(&c))
            max_row_2x2(&c, &m, m.image + 2 * p * c.w * c.ci);
        else
            max_row(&c, &m, p);
    }
}

const struct loop_op LOOPS(pool_fwd) = {
    .can = can, .chunks = fwd_chunks, .step = {{cpu_pool_fwd_part, NULL}}};

// ---- Backward -------------------------------------------------------------

// dx of one tap gets dy where aux names the tap. add: += instead of =.
static void cpu_pool_scatter_tap(const float *dy, const uint8_t *aux,
                                 int32_t tap, float *dx, int64_t n, bool add)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vi won = __builtin_convertvector(*(const vb *)(aux + i), vi) == tap;
        vf g = (vf)(won & *(const vi *)(dy + i));

        if (add)
            g += *(const vf *)(dx + i);
        *(vf *)(dx + i) = g;
    }
    for (; i < n; i++)
        dx[i] = (aux[i] == tap ? dy[i] : 0) + (add ? dx[i] : 0);
}

// One row of dy of the common window.
static void cpu_pool_scatter_row_2x2(const struct kern_conv_dims *c,
                                     const float *dy, const uint8_t *aux,
                                     float *top)
{
    float *low = top + c->w * c->ci;

    for (int64_t q = 0; q < c->ow; q++) {
        for (int64_t i = 0; i < c->ci; i += VL) {
            vi tap = __builtin_convertvector(*(const vb *)(aux + i), vi);
            vi g = *(const vi *)(dy + i);

            *(vi *)(top + i) = g & (tap == 0);
            *(vi *)(top + c->ci + i) = g & (tap == 1);
            *(vi *)(low + i) = g & (tap == 2);
            *(vi *)(low + c->ci + i) = g & (tap == 3);
        }
        dy += c->ci;
        aux += c->ci;
        top += 2 * c->ci;
        low += 2 * c->ci;
    }
}

static void max_back(const struct kern_conv_dims *c,
                     const struct cpu_pool_span *s, const float *dy,
                     const uint8_t *aux, float *image, bool add)
{
    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++)
            cpu_pool_scatter_tap(
                dy, aux, (int32_t)((h - s->top) * c->win.size[1] + w - s->left),
                image + (h * c->w + w) * c->ci, c->ci, add);
}

static void mean_back(const struct kern_conv_dims *c,
                      const struct cpu_pool_span *s, const float *dy,
                      float *image, bool add)
{
    float scale = 1 / (float)((s->h1 - s->h0) * (s->w1 - s->w0));

    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++) {
            float *dx = image + (h * c->w + w) * c->ci;

            for (int64_t i = 0; i < c->ci; i++)
                dx[i] = dy[i] * scale + (add ? dx[i] : 0);
        }
}

// Of a tiled image, what no window covers: zero.
static void zero_margins(const struct kern_conv_dims *c, float *image)
{
    int64_t h = c->oh * c->win.size[0], w = c->ow * c->win.size[1];

    for (int64_t i = 0; i < h && w < c->w; i++)
        memset(image + (i * c->w + w) * c->ci, 0,
               (size_t)((c->w - w) * c->ci) * sizeof(float));
    memset(image + h * c->w * c->ci, 0,
           (size_t)((c->h - h) * c->w * c->ci) * sizeof(float));
}

// Adds to sum[c] what each channel of one image hands on.
static void cpu_pool_sum_scattered(const struct kern_conv_dims *c,
                                   const float *dy, const uint8_t *aux,
                                   float *sum)
{
    int64_t pixels = c->oh * c->ow, i = 0;

    for (; i + VL <= c->ci; i += VL) {
        vf total = {0};

        for (int64_t t = 0; t < pixels; t++) {
            vi tap =
                __builtin_convertvector(*(const vb *)(aux + t * c->ci + i), vi);

            total += (vf)(*(const vi *)(dy + t * c->ci + i) & (tap != 255));
        }
        *(vf *)(sum + i) = total;
    }
    for (; i < c->ci; i++) {
        sum[i] = 0;
        for (int64_t t = i; t < pixels * c->ci; t += c->ci)
            sum[i] += aux[t] == 255 ? 0 : dy[t];
    }
}

// One row of dy, any window. aux is NULL for an average.
static void cpu_pool_scatter_row(const struct kern_conv_dims *c, int64_t p,
                                 const float *dy, const uint8_t *aux,
                                 float *image)
{
    bool add = !tiles(c);

    for (int64_t q = 0; q < c->ow; q++, dy += c->ci) {
        struct cpu_pool_span s = cpu_pool_span_of(c, p, q);

        if (aux)
            max_back(c, &s, dy, aux + q * c->ci, image, add);
        else
            mean_back(c, &s, dy, image, add);
    }
}

static void cpu_pool_bwd_part(const struct loop_args *a, int64_t n)
{
    bool avg = a->d->u.pool.kind == KERN_POOL_AVG;
    struct kern_conv_dims c;
    const float *dy;
    const uint8_t *aux;
    float *image;
    int64_t row;

    kern_conv_dims(&c, a->d);
    row = c.ow * c.ci;
    dy = (const float *)a->io[0] + n * c.oh * row;
    aux = avg ? NULL : (const uint8_t *)a->io[1] + n * c.oh * row;
    image = (float *)a->io[a->d->inputs] + n * c.h * c.w * c.ci;
    if (kern_has(a->d, KERN_BGRAD))
        cpu_pool_sum_scattered(&c, dy, aux, (float *)a->workspace + n * c.ci);
    if (tiles(&c))
        zero_margins(&c, image);
    else
        memset(image, 0, (size_t)(c.h * c.w * c.ci) * sizeof(float));
    for (int64_t p = 0; p < c.oh; p++) {
        const uint8_t *taps = aux ? aux + p * row : NULL;

        if (aux && tiles_2x2(&c))
            cpu_pool_scatter_row_2x2(&c, dy + p * row, taps,
                                     image + 2 * p * c.w * c.ci);
        else
            cpu_pool_scatter_row(&c, p, dy + p * row, taps, image);
    }
}

static void bwd_join(const struct loop_args *a)
{
    const float *partial = a->workspace;
    int64_t cols = kern_cols(&a->d->io[0]);
    float *dsum;

    if (!kern_has(a->d, KERN_BGRAD))
        return;
    dsum = a->io[3];
    for (int64_t i = 0; i < cols; i++) {
        double sum = kern_has(a->d, KERN_ACCUM) ? dsum[i] : 0;

        for (int64_t n = 0; n < a->chunks; n++)
            sum += partial[n * cols + i];
        dsum[i] = (float)sum;
    }
}

static size_t bwd_workspace(const struct kern_desc *d)
{
    return kern_has(d, KERN_BGRAD)
               ? (size_t)(d->io[0].dim[0] * kern_cols(&d->io[0])) *
                     sizeof(float)
               : 0;
}

const struct loop_op LOOPS(pool_bwd) = {
    .can = can,
    .chunks = fwd_chunks,
    .workspace_bytes = bwd_workspace,
    .step = {{cpu_pool_bwd_part, bwd_join}}};
