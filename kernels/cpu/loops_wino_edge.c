// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_wino_edge.c -- the last row and column of a gradient by
// data, where whole tiles leave one of each.
//
// Without padding these pixels read a single row (column) of the outputs'
// gradient, three pixels each: a plain product over 3 x channels, where another
// row of tiles would be four times as many pixels as are wanted.
#include "kernels/cpu/winograd.h"

static int64_t longer(const struct wino *w)
{
    return w->oh > w->ow ? w->oh : w->ow;
}

// A line of pixels with a zero on both sides, and the products.
size_t LOOPS(wino_edge_scratch)(const struct wino *w)
{
    return (size_t)((longer(w) + 2) * w->ic + longer(w) * w->ocp) *
           sizeof(float);
}

// A row (or column): where it is read, from which pixel on, and made.
struct wino_edge_line {
    const float *from;
    int64_t from_step, from_count, before;
    float *to;
    int64_t to_step, to_count;
    const float *filter;
};

static void make_line(float *space, const struct wino *w,
                      const struct wino_edge_line *l)
{
    float *out = space + (longer(w) + 2) * w->ic;
    size_t pixel = (size_t)w->ic * sizeof(float);

    for (int64_t i = 0; i < l->to_count + 2; i++) {
        int64_t at = i - l->before;

        if (at < 0 || at >= l->from_count)
            memset(space + i * w->ic, 0, pixel);
        else
            memcpy(space + i * w->ic, l->from + at * l->from_step, pixel);
    }
    wino_product(false, l->to_count, w->ocp, 3 * w->ic, space, w->ic, 1,
                 l->filter, out, w->ocp);
    for (int64_t i = 0; i < l->to_count; i++)
        memcpy(l->to + i * l->to_step, out + i * w->ocp,
               (size_t)w->oc * sizeof(float));
}

void LOOPS(wino_edges)(const struct loop_args *a, const struct wino *w,
                       int64_t image)
{
    const float *dy = (const float *)a->io[0] + image * w->ih * w->iw * w->ic;
    float *dx = (float *)a->io[a->d->inputs] + image * w->oh * w->ow * w->oc;
    const float *filter =
        (const float *)a->workspace + WINO_ALL * w->filter_step;
    struct wino_edge_line row = {.from = dy + (w->ih - 1) * w->iw * w->ic,
                                 .from_step = w->ic,
                                 .from_count = w->iw,
                                 .before = w->px,
                                 .to = dx + (w->oh - 1) * w->ow * w->oc,
                                 .to_step = w->oc,
                                 .to_count = w->ow,
                                 .filter = filter};
    struct wino_edge_line column = {.from = dy + (w->iw - 1) * w->ic,
                                    .from_step = w->iw * w->ic,
                                    .from_count = w->ih,
                                    .before = w->py,
                                    .to = dx + (w->ow - 1) * w->oc,
                                    .to_step = w->ow * w->oc,
                                    .to_count = w->oh - w->edge_y,
                                    .filter = filter + wino_edge_floats(w)};

    if (w->edge_y)
        make_line(a->scratch, w, &row);
    if (w->edge_x)
        make_line(a->scratch, w, &column);
}
