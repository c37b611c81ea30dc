// SPDX-License-Identifier: Apache-2.0
// kernels/ref/pool.c -- max and average pools, NHWC.
//
// Max: padding is -inf; equals: the first wins. The winner's place in its
// window is noted in aux, so that backward needs neither x nor y. Average:
// divides by the taps that lie inside.
#include "kernels/ref/ref.h"

#include <math.h>

// The window of one output, cut to the image.
struct ref_pool_span {
    int64_t h0, h1, w0, w1; // rows and columns of x
    int64_t top, left;      // where the window would start
};

static struct ref_pool_span ref_pool_span_of(const struct kern_conv_dims *c,
                                             int64_t p, int64_t q)
{
    const struct kern_window *w = &c->win;
    struct ref_pool_span s = {.top = p * w->stride[0] - w->pad_before[0],
                              .left = q * w->stride[1] - w->pad_before[1]};

    s.h0 = s.top < 0 ? 0 : s.top;
    s.w0 = s.left < 0 ? 0 : s.left;
    s.h1 = s.top + w->size[0] > c->h ? c->h : s.top + w->size[0];
    s.w1 = s.left + w->size[1] > c->w ? c->w : s.left + w->size[1];
    return s;
}

static void put_aux(const struct kern_shape *s, void *aux, int64_t at, int tap)
{
    if (s->dtype == KERN_U8)
        ((uint8_t *)aux)[at] = (uint8_t)tap; // -1 becomes 255
    else
        ((int32_t *)aux)[at] = tap;
}

static int get_aux(const struct kern_shape *s, const void *aux, int64_t at)
{
    if (s->dtype == KERN_U8) {
        uint8_t tap = ((const uint8_t *)aux)[at];

        return tap == 255 ? -1 : tap;
    }
    return ((const int32_t *)aux)[at];
}

static real ref_pool_max(const struct kern_conv_dims *c, const real *image,
                         const struct ref_pool_span *s, int *tap)
{
    real best = (real)-INFINITY;

    *tap = -1;
    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++) {
            real v = image[(h * c->w + w) * c->ci];

            if (*tap < 0 || v > best) {
                best = v;
                *tap = (int)((h - s->top) * c->win.size[1] + w - s->left);
            }
        }
    return best;
}

static double ref_pool_mean(const struct kern_conv_dims *c, const real *image,
                            const struct ref_pool_span *s)
{
    double sum = 0;

    for (int64_t h = s->h0; h < s->h1; h++)
        for (int64_t w = s->w0; w < s->w1; w++)
            sum += image[(h * c->w + w) * c->ci];
    return sum / (double)((s->h1 - s->h0) * (s->w1 - s->w0));
}

void REF(pool_fwd)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0];
    real *y = io[1];
    struct kern_conv_dims c;
    int64_t at = 0;

    kern_conv_dims(&c, d);
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t p = 0; p < c.oh; p++)
            for (int64_t q = 0; q < c.ow; q++)
                for (int64_t i = 0; i < c.ci; i++, at++) {
                    struct ref_pool_span s = ref_pool_span_of(&c, p, q);
                    const real *image = x + n * c.h * c.w * c.ci + i;
                    int tap;

                    if (d->u.pool.kind == KERN_POOL_AVG) {
                        y[at] = (real)ref_pool_mean(&c, image, &s);
                        continue;
                    }
                    y[at] = ref_pool_max(&c, image, &s, &tap);
                    if (kern_has(d, KERN_DRELU) && !(y[at] > 0))
                        tap = -1;
                    if (kern_has(d, KERN_AUX))
                        put_aux(&d->io[2], io[2], at, tap);
                }
}

// Returns the first window along an axis that ends behind place `at`.
static int64_t ref_pool_first(const struct kern_window *w, int axis, int64_t at)
{
    int64_t skipped = at + w->pad_before[axis] - w->size[axis];

    return skipped < 0 ? 0 : skipped / w->stride[axis] + 1;
}

// Returns one more than the last window along an axis that may hold place `at`,
// of `out` windows.
static int64_t ref_pool_end(const struct kern_window *w, int axis, int64_t at,
                            int64_t out)
{
    int64_t end = (at + w->pad_before[axis]) / w->stride[axis] + 1;

    return end < out ? end : out;
}

// What element (h, w) of one image and channel gets from all windows.
static double ref_pool_one_dx(const struct kern_desc *d,
                              const struct kern_conv_dims *c, void *const *io,
                              int64_t n, int64_t h, int64_t w, int64_t i)
{
    int64_t rows = ref_pool_end(&c->win, 0, h, c->oh);
    int64_t cols = ref_pool_end(&c->win, 1, w, c->ow);
    const real *dy = io[0];
    double sum = 0;

    for (int64_t p = ref_pool_first(&c->win, 0, h); p < rows; p++) {
        for (int64_t q = ref_pool_first(&c->win, 1, w); q < cols; q++) {
            struct ref_pool_span s = ref_pool_span_of(c, p, q);
            int64_t at = ((n * c->oh + p) * c->ow + q) * c->ci + i;

            if (h < s.h0 || h >= s.h1 || w < s.w0 || w >= s.w1)
                continue;
            if (d->u.pool.kind == KERN_POOL_AVG)
                sum += dy[at] / (double)((s.h1 - s.h0) * (s.w1 - s.w0));
            else if (get_aux(&d->io[1], io[1], at) ==
                     (h - s.top) * c->win.size[1] + w - s.left)
                sum += dy[at];
        }
    }
    return sum;
}

// Per channel, the sum of all dx.
static void sum_dx(const struct kern_desc *d, const struct kern_conv_dims *c,
                   void *const *io)
{
    const real *dx = io[2];

    for (int64_t i = 0; i < c->ci; i++) {
        double sum = 0;

        for (int64_t t = 0; t < c->n * c->h * c->w; t++)
            sum += dx[t * c->ci + i];
        ref_put(d, (real *)io[3] + i, sum);
    }
}

void REF(pool_bwd)(const struct kern_desc *d, void *const *io)
{
    real *dx = io[d->inputs];
    struct kern_conv_dims c;

    kern_conv_dims(&c, d);
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t h = 0; h < c.h; h++)
            for (int64_t w = 0; w < c.w; w++)
                for (int64_t i = 0; i < c.ci; i++)
                    *dx++ = (real)ref_pool_one_dx(d, &c, io, n, h, w, i);
    if (kern_has(d, KERN_BGRAD))
        sum_dx(d, &c, io);
}
