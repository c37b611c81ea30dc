// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/rules.c -- which ops our own loops compute, and which loops.
#include "kernels/cpu/cpu.h"

#include <string.h>

// Where our Winograd is faster than the best of oneDNN, from a sweep over 23
// shapes, 3 directions and both kinds of vectors (README.md). By shape and
// instruction set, not by a measurement at this start: two workers on one kind
// of processor then compute the same bits (docs/modes.md).
struct wino_rule {
    int64_t channels;    // least number of channels of both images
    int64_t per_tile[2]; // at most, of both together: forward and by data, and
};                       // by the filter: its transforms do not shrink
static const struct wino_rule wino_avx512 = {16, {4, 2}};
static const struct wino_rule wino_narrow = {8, {8, 8}};

// It multiplies a quarter as often, on tiles of 4x4 of what is made. Those that
// hang over the edge are lost, and below 1.8 times so are the transforms.
static bool wino_pays(const struct cpu_dev *dev, const struct kern_desc *d)
{
    const struct wino_rule *r =
        strcmp(dev->isa, "avx512") == 0 ? &wino_avx512 : &wino_narrow;
    struct kern_conv_dims c;
    int64_t h, w, tiles;

    kern_conv_dims(&c, d);
    h = d->op == KERN_CONV_DGRAD ? c.h : c.oh;
    w = d->op == KERN_CONV_DGRAD ? c.w : c.ow;
    tiles = (h + 3) / 4 * ((w + 3) / 4);
    if (d->op == KERN_CONV_DGRAD)
        tiles = wino_tiles(h, c.oh, 2 - c.win.pad_before[0]) *
                wino_tiles(w, c.ow, 2 - c.win.pad_before[1]);
    return c.ci >= r->channels && c.co >= r->channels && c.n * h * w >= 1024 &&
           c.ci + c.co <= c.n * tiles * r->per_tile[d->op == KERN_CONV_WGRAD] &&
           c.oh * c.ow * 5 >= tiles * 36;
}

// Where our direct loops are faster, by the same means (README.md): the
// gradient by the filter where the outputs' channels fill three quarters of
// their vectors; forward up to so many taps. AVX2 is oneDNN's best case, in
// blocks of four vectors.
struct direct_rule {
    int64_t width;        // floats of a vector
    int64_t taps, uneven; // at most, forward; without whole blocks
};

static bool direct_pays(const struct cpu_dev *dev, const struct kern_desc *d)
{
    static const struct direct_rule avx512 = {16, 64, 127}, avx2 = {8, 15, 127},
                                    base = {4, 255, 255};
    const struct direct_rule *r = strcmp(dev->isa, "avx512") == 0 ? &avx512
                                  : strcmp(dev->isa, "avx2") == 0 ? &avx2
                                                                  : &base;
    struct kern_conv_dims c;
    int64_t taps, vectors;

    kern_conv_dims(&c, d);
    taps = c.win.size[0] * c.win.size[1] * c.ci;
    vectors = (c.co + r->width - 1) / r->width;
    if (c.ci > 4)
        return false;
    if (d->op == KERN_CONV_WGRAD)
        return c.co * 4 >= vectors * r->width * 3;
    return taps <= (c.co % (4 * r->width) == 0 ? r->taps : r->uneven);
}

const struct loop_op *cpu_own_product(const struct cpu_dev *dev,
                                      const struct kern_desc *d,
                                      const char **impl)
{
    struct prover *prover = dev->base.prover;
    const struct loop_op *op = dev->products->wino[d->op];
    const char *name = dev->wino_name;
    bool take = op && dev->winograd && op->can(d) && wino_pays(dev, d) &&
                !prover_avoids(prover, d, name);

    if (!take) {
        op = dev->products->direct[d->op];
        name = dev->direct_name;
        take = op && dev->direct != DIRECT_OFF && op->can(d) &&
               !prover_avoids(prover, d, name) &&
               (dev->direct == DIRECT_ALWAYS || !dev->onednn ||
                direct_pays(dev, d));
    }
    if (take && impl)
        *impl = name;
    return take ? op : NULL;
}

const struct loop_op *cpu_own_loop(const struct cpu_dev *dev,
                                   const struct kern_desc *d, const char **impl)
{
    for (unsigned i = 0; i < dev->own_count; i++) {
        const struct loop_op *op = dev->own[i].loops[d->op];

        if (!op || (op->can && !op->can(d)) ||
            prover_avoids(dev->base.prover, d, dev->own[i].name))
            continue;
        *impl = dev->own[i].name;
        return op;
    }
    return NULL;
}
