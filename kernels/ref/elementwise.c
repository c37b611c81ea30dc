// SPDX-License-Identifier: Apache-2.0
// kernels/ref/elementwise.c -- binary, axpby, fill, dropout, image cast.
#include "kernels/dropout.h"
#include "kernels/ref/ref.h"

static double ref_binary_combine(int kind, double a, double b)
{
    switch (kind) {
    case KERN_SUB:
        return a - b;
    case KERN_MUL:
        return a * b;
    case KERN_MAX:
        return b > a ? b : a;
    case KERN_MIN:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

void REF(binary)(const struct kern_desc *d, void *const *io)
{
    real *y = io[d->inputs];

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++) {
        double v = ((const real *)io[0])[i];

        for (unsigned k = 1; k < d->inputs; k++)
            v = ref_binary_combine(d->u.unary.kind, v,
                                   ((const real *)io[k])[i]);
        y[i] = (real)v;
    }
}

void REF(pick)(const struct kern_desc *d, void *const *io)
{
    const real *dy = io[0];
    real *dx = io[d->inputs];
    bool max = d->u.pick.kind == KERN_MAX;

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++) {
        real best = ((const real *)io[1])[i];
        int which = 0;

        for (int k = 1; k < d->inputs - 1; k++) {
            real x = ((const real *)io[k + 1])[i];

            if (max ? x > best : x < best) {
                best = x;
                which = k;
            }
        }
        dx[i] = which == d->u.pick.which ? dy[i] : 0;
    }
}

void REF(axpby)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0];
    real *y = io[1];
    double a = d->u.unary.a, b = d->u.unary.b;

    for (int64_t i = 0; i < kern_shape_count(&d->io[1]); i++) {
        real *to = y + ref_offset(&d->io[1], i);
        double v = a * x[ref_offset(&d->io[0], i)];

        *to = (real)(b != 0 ? v + b * *to : v);
    }
}

void REF(fill)(const struct kern_desc *d, void *const *io)
{
    real *y = io[0];

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++)
        y[ref_offset(&d->io[0], i)] = (real)d->u.unary.a;
}

void REF(dropout)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0];
    const int64_t *key = io[1];
    real *y = io[2];
    struct dropout_key k = {.seed = (uint64_t)key[0],
                            .step = (uint64_t)key[1],
                            .layer = d->u.dropout.layer};
    uint64_t below = dropout_threshold(d->u.dropout.rate);
    double keep = 1 / (1 - (double)d->u.dropout.rate);
    uint32_t words[4];

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++) {
        uint64_t at = d->u.dropout.first + (uint64_t)i;

        if (i == 0 || at % 4 == 0)
            dropout_words(words, &k, at / 4);
        y[i] = words[at % 4] < below ? 0 : (real)(x[i] * keep);
    }
}

void REF(image_u8)(const struct kern_desc *d, void *const *io)
{
    const uint8_t *x = io[0];
    real *y = io[1];
    int64_t rows = kern_rows(&d->io[0]);
    int64_t cols = kern_cols(&d->io[0]), out = kern_cols(&d->io[1]);

    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < out; c++) {
            double v =
                c < cols ? (double)d->u.unary.a * x[i * cols + c] + d->u.unary.b
                         : 0;

            y[i * out + c] = (real)v;
        }
}
