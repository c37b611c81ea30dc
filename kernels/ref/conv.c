// SPDX-License-Identifier: Apache-2.0
// kernels/ref/conv.c -- convolution and its two gradients, NHWC and OHWI.
//
// y[n,p,q,o] = bias[o] + sum over r,s,i of
//              x[n, p sh - ph + r dh, q sw - pw + s dw, i] w[o,r,s,i]
// where i runs over the input channels of o's group and x is 0 outside.
#include <string.h>

#include "kernels/ref/ref.h"

struct ref_conv {
    struct kern_conv_dims c;
    int64_t ig, og; // channels of one group: input, output
};

static void conv_open(struct ref_conv *v, const struct kern_desc *d)
{
    kern_conv_dims(&v->c, d);
    v->ig = v->c.ci / v->c.groups;
    v->og = v->c.co / v->c.groups;
}

// The place in x of tap r of output p along one axis; false: in the padding.
static bool ref_conv_tap_at(const struct kern_window *w, int axis, int64_t in,
                            int64_t p, int64_t r, int64_t *at)
{
    *at = p * w->stride[axis] - w->pad_before[axis] + r * w->dilation[axis];
    return *at >= 0 && *at < in;
}

static double one_output(const struct ref_conv *v, const real *x, const real *w,
                         int64_t n, int64_t p, int64_t q, int64_t o)
{
    const struct kern_conv_dims *c = &v->c;
    const struct kern_window *win = &c->win;
    int64_t first = o / v->og * v->ig, ih, iw;
    double sum = 0;

    for (int64_t r = 0; r < win->size[0]; r++) {
        for (int64_t s = 0; s < win->size[1]; s++) {
            if (!ref_conv_tap_at(win, 0, c->h, p, r, &ih) ||
                !ref_conv_tap_at(win, 1, c->w, q, s, &iw))
                continue;
            for (int64_t i = 0; i < v->ig; i++)
                sum +=
                    (double)
                        x[((n * c->h + ih) * c->w + iw) * c->ci + first + i] *
                    w[((o * win->size[0] + r) * win->size[1] + s) * v->ig + i];
        }
    }
    return sum;
}

void REF(conv_fwd)(const struct kern_desc *d, void *const *io)
{
    const real *bias = kern_has(d, KERN_BIAS) ? io[2] : NULL;
    real *y = io[d->inputs];
    struct ref_conv v;

    conv_open(&v, d);
    for (int64_t n = 0; n < v.c.n; n++)
        for (int64_t p = 0; p < v.c.oh; p++)
            for (int64_t q = 0; q < v.c.ow; q++)
                for (int64_t o = 0; o < v.c.co; o++) {
                    double sum = one_output(&v, io[0], io[1], n, p, q, o);

                    sum += bias ? bias[o] : 0;
                    if (kern_has(d, KERN_RELU) && sum < 0)
                        sum = 0;
                    *y++ = (real)sum;
                }
}

// Finds the output *p that reads position `at` with its tap r; false: none
// does.
static bool origin(const struct kern_window *w, int axis, int64_t out,
                   int64_t at, int64_t r, int64_t *p)
{
    int64_t far = at + w->pad_before[axis] - r * w->dilation[axis];

    *p = far / w->stride[axis];
    return far >= 0 && far % w->stride[axis] == 0 && *p < out;
}

static double ref_conv_one_dx(const struct ref_conv *v, const real *dy,
                              const real *w, int64_t n, int64_t ih, int64_t iw,
                              int64_t i)
{
    const struct kern_conv_dims *c = &v->c;
    const struct kern_window *win = &c->win;
    int64_t first = i / v->ig * v->og, p, q;
    double sum = 0;

    for (int64_t r = 0; r < win->size[0]; r++) {
        for (int64_t s = 0; s < win->size[1]; s++) {
            if (!origin(win, 0, c->oh, ih, r, &p) ||
                !origin(win, 1, c->ow, iw, s, &q))
                continue;
            for (int64_t o = first; o < first + v->og; o++)
                sum += (double)dy[((n * c->oh + p) * c->ow + q) * c->co + o] *
                       w[((o * win->size[0] + r) * win->size[1] + s) * v->ig +
                         i % v->ig];
        }
    }
    return sum;
}

void REF(conv_dgrad)(const struct kern_desc *d, void *const *io)
{
    real *dx = io[2];
    struct ref_conv v;

    conv_open(&v, d);
    for (int64_t n = 0; n < v.c.n; n++)
        for (int64_t ih = 0; ih < v.c.h; ih++)
            for (int64_t iw = 0; iw < v.c.w; iw++)
                for (int64_t i = 0; i < v.c.ci; i++)
                    *dx++ =
                        (real)ref_conv_one_dx(&v, io[0], io[1], n, ih, iw, i);
}

#define TOGETHER 16 // input channels: one look at the padding for all of them

// sum[0..count): the gradients of count weights from input channel i on, each
// summed in the order of the outputs.
static void some_dw(const struct ref_conv *v, const real *x, const real *dy,
                    int64_t o, int64_t r, int64_t s, int64_t i, int64_t count,
                    double *sum)
{
    const struct kern_conv_dims *c = &v->c;
    int64_t first = o / v->og * v->ig + i, ih, iw;

    memset(sum, 0, (size_t)count * sizeof(*sum));
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t p = 0; p < c->oh; p++) {
            if (!ref_conv_tap_at(&c->win, 0, c->h, p, r, &ih))
                continue;
            for (int64_t q = 0; q < c->ow; q++) {
                double slope = dy[((n * c->oh + p) * c->ow + q) * c->co + o];
                const real *at;

                if (!ref_conv_tap_at(&c->win, 1, c->w, q, s, &iw))
                    continue;
                at = x + ((n * c->h + ih) * c->w + iw) * c->ci + first;
                for (int64_t k = 0; k < count; k++)
                    sum[k] += (double)at[k] * slope;
            }
        }
}

void REF(conv_wgrad)(const struct kern_desc *d, void *const *io)
{
    const real *dy = io[1];
    real *dw = io[2];
    double sums[TOGETHER];
    struct ref_conv v;

    conv_open(&v, d);
    for (int64_t o = 0; o < v.c.co; o++)
        for (int64_t r = 0; r < v.c.win.size[0]; r++)
            for (int64_t s = 0; s < v.c.win.size[1]; s++)
                for (int64_t i = 0; i < v.ig; i += TOGETHER) {
                    int64_t count = v.ig - i < TOGETHER ? v.ig - i : TOGETHER;

                    some_dw(&v, io[0], dy, o, r, s, i, count, sums);
                    for (int64_t k = 0; k < count; k++)
                        ref_put(d, dw++, sums[k]);
                }

    for (int64_t o = 0; kern_has(d, KERN_BGRAD) && o < v.c.co; o++) {
        double sum = 0;

        for (int64_t t = 0; t < v.c.n * v.c.oh * v.c.ow; t++)
            sum += dy[t * v.c.co + o];
        ref_put(d, (real *)io[3] + o, sum);
    }
}
