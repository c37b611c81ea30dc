// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_cases.c -- the shapes every backend has to pass: both
// reference nets, and what is awkward: 0, 1, 31, 33, primes, an empty batch,
// uneven pads, strides, dilation, groups.
#include <stdio.h>
#include <string.h>

#include "tests/conform/kc.h"
#include "tests/harness/draw.h"

struct list {
    struct kern_desc *at;
    unsigned n;
};

static struct kern_desc *next(struct list *l)
{
    return &l->at[l->n++];
}

// ---- Products -------------------------------------------------------------

static void matmul_cases(struct list *l, enum kern_op op)
{
    static const int64_t mnk[][3] = {
        {1, 1, 1},    {31, 33, 17}, {64, 64, 1600}, {64, 10, 64},
        {5, 10, 128}, {0, 7, 3},    {7, 3, 0},      {128, 1, 65},
    };
    static const uint32_t epilogue[] = {0, KERN_BIAS, KERN_BIAS | KERN_RELU,
                                        KERN_ACCUM};

    for (size_t i = 0; i < SL_COUNT(mnk); i++) {
        for (size_t e = 0; e < SL_COUNT(epilogue); e++)
            kern_desc_matmul(next(l), mnk[i][0], mnk[i][1], mnk[i][2], e == 3,
                             e != 3, epilogue[e]);
        kern_desc_matmul(next(l), mnk[i][0], mnk[i][1], mnk[i][2], false, false,
                         0);
        kern_desc_matmul(next(l), mnk[i][0], mnk[i][1], mnk[i][2], true, false,
                         KERN_BGRAD);
        kern_desc_matmul(next(l), mnk[i][0], mnk[i][1], mnk[i][2], true, true,
                         KERN_BGRAD | KERN_ACCUM);
    }
    kern_desc_matmul(next(l), 3, 4, 5, false, true, KERN_BGRAD);
    kern_desc_matmul_batch(next(l), 3, 5, 7, 11, false, true, 0);
    kern_desc_matmul_batch(next(l), 2, 16, 8, 4, true, false, KERN_ACCUM);
}

struct shape {
    int64_t x[4], co;
    struct kern_window w;
    int32_t groups;
};

static const struct shape convs[] = {
    // fashion
    {{4, 28, 28, 1}, 32, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{16, 13, 13, 32}, 64, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    // imagenette, smaller images: strides with uneven SAME pads
    {{2, 32, 32, 3}, 32, {{5, 5}, {2, 2}, {1, 1}, {1, 1}, {2, 2}}, 1},
    {{2, 16, 16, 32}, 64, {{7, 7}, {2, 2}, {1, 1}, {2, 2}, {3, 3}}, 1},
    {{1, 8, 8, 64}, 16, {{11, 11}, {2, 2}, {1, 1}, {4, 4}, {5, 5}}, 1},
    // odd ones
    {{1, 1, 1, 1}, 1, {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{3, 7, 5, 5}, 31, {{2, 4}, {1, 2}, {1, 1}, {1, 0}, {0, 3}}, 1},
    {{2, 9, 9, 33}, 17, {{3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}}, 1},
    {{2, 8, 8, 12}, 24, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 4},
    {{2, 8, 8, 16}, 16, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 16},
    {{2, 10, 1, 8}, 16, {{3, 1}, {3, 1}, {1, 1}, {1, 0}, {1, 0}}, 1},
    {{9, 12, 12, 16}, 48, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1},
    // Winograd's tiles over all edges, channels that fill no vector; many tiles
    {{50, 17, 18, 17}, 19, {{3, 3}, {1, 1}, {1, 1}, {1, 2}, {0, 1}}, 1},
    // By data: a column is left behind whole tiles, then a row
    {{20, 12, 9, 16}, 18, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{30, 5, 10, 17}, 16, {{3, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}}, 1},
    // few channels: tails of vectors, tiles and bands, uneven pads, holes; one
    // that reads nothing but padding on some sides; bands for several parts
    {{3, 11, 13, 3}, 37, {{3, 5}, {2, 1}, {1, 2}, {1, 0}, {2, 3}}, 1},
    {{2, 9, 30, 1}, 64, {{5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}}, 1},
    {{5, 7, 6, 4}, 100, {{2, 2}, {3, 2}, {2, 1}, {0, 1}, {1, 0}}, 1},
    {{1, 1, 2, 2}, 7, {{5, 7}, {1, 1}, {1, 1}, {3, 5}, {4, 6}}, 1},
    {{40, 10, 10, 3}, 48, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1},
    {{2, 30, 29, 8}, 24, {{7, 7}, {2, 3}, {1, 1}, {3, 3}, {3, 3}}, 1},
    {{0, 6, 6, 3}, 4, {{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
};

static void conv_cases(struct list *l, enum kern_op op)
{
    static const uint32_t fwd[] = {0, KERN_BIAS, KERN_BIAS | KERN_RELU};
    static const uint32_t wgrad[] = {0, KERN_BGRAD, KERN_BGRAD | KERN_ACCUM};

    for (size_t i = 0; i < SL_COUNT(convs); i++) {
        const struct shape *s = &convs[i];

        for (int e = 0; e < (op == KERN_CONV_DGRAD ? 1 : 3); e++)
            kern_desc_conv(next(l), op, s->x, s->co, &s->w, s->groups,
                           op == KERN_CONV_FWD     ? fwd[e]
                           : op == KERN_CONV_WGRAD ? wgrad[e]
                                                   : 0);
    }
}

static const struct shape pools[] = {
    {{4, 26, 26, 32}, 0, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{4, 11, 11, 64}, 0, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{2, 7, 9, 5}, 0, {{3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}}, 1},
    {{3, 8, 8, 33}, 0, {{3, 2}, {1, 1}, {1, 1}, {2, 0}, {0, 1}}, 1},
    {{1, 5, 5, 1}, 0, {{1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{2, 7, 7, 31}, 0, {{7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{1, 20, 20, 3}, 0, {{17, 17}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, 1},
    {{0, 4, 4, 2}, 0, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1},
    // whole images, in one part and in several
    {{3, 9, 9, 12}, 0, {{9, 9}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
    {{1, 6, 6, 68}, 0, {{8, 7}, {1, 1}, {1, 1}, {1, 0}, {1, 1}}, 1},
    {{5, 20, 20, 40}, 0, {{20, 20}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1},
};

static void pool_cases(struct list *l, enum kern_op op)
{
    for (size_t i = 0; i < SL_COUNT(pools); i++) {
        const struct shape *s = &pools[i];

        kern_desc_pool(next(l), op, KERN_POOL_AVG, s->x, &s->w, 0);
        kern_desc_pool(next(l), op, KERN_POOL_MAX, s->x, &s->w, 0);
        if (op == KERN_POOL_FWD) {
            kern_desc_pool(next(l), op, KERN_POOL_MAX, s->x, &s->w, KERN_AUX);
            kern_desc_pool(next(l), op, KERN_POOL_MAX, s->x, &s->w,
                           KERN_AUX | KERN_DRELU);
        } else {
            kern_desc_pool(next(l), op, KERN_POOL_MAX, s->x, &s->w, KERN_BGRAD);
            kern_desc_pool(next(l), op, KERN_POOL_MAX, s->x, &s->w,
                           KERN_BGRAD | KERN_ACCUM);
        }
    }
}

// ---- Everything over flat shapes ------------------------------------------

static const struct {
    unsigned nd;
    int64_t dim[4];
} flats[] = {
    {1, {1}},        {1, {31}},       {2, {0, 5}},        {2, {33, 10}},
    {2, {64, 10}},   {3, {7, 5, 3}},  {4, {2, 5, 5, 33}}, {2, {3, 1000}},
    {2, {20011, 1}}, {2, {257, 129}},
};

static void norm_cases(struct list *l, enum kern_op op)
{
    static const uint32_t back[] = {KERN_DRELU | KERN_ACCUM, KERN_BGRAD,
                                    KERN_DRELU | KERN_BGRAD | KERN_ACCUM};

    for (size_t i = 0; i < SL_COUNT(flats); i++) {
        kern_desc_norm(next(l), op, flats[i].nd, flats[i].dim, 1e-3f, 0);
        for (size_t e = 0; e < SL_COUNT(back) && op == KERN_BN_BWD; e++)
            kern_desc_norm(next(l), op, flats[i].nd, flats[i].dim, 1e-3f,
                           back[e]);
    }
}

static void unary_cases(struct list *l, enum kern_op op)
{
    for (int kind = 1; kind < KERN_UNARY_COUNT; kind++)
        for (size_t i = 0; i < SL_COUNT(flats); i += 2)
            kern_desc_unary(next(l), op, (enum kern_unary_kind)kind, 0.3f,
                            flats[i].nd, flats[i].dim);
}

static void binary_cases(struct list *l, enum kern_op op)
{
    for (size_t i = 0; i < SL_COUNT(flats); i++) {
        kern_desc_binary(next(l), KERN_ADD, 2 + i % 7, flats[i].nd,
                         flats[i].dim);
        kern_desc_binary(next(l), KERN_SUB, 2, flats[i].nd, flats[i].dim);
        kern_desc_binary(next(l), KERN_MUL, 3, flats[i].nd, flats[i].dim);
        kern_desc_binary(next(l), KERN_MAX, 3, flats[i].nd, flats[i].dim);
        kern_desc_binary(next(l), KERN_MIN, 2 + i % 7, flats[i].nd,
                         flats[i].dim);
    }
}

static void pick_cases(struct list *l, enum kern_op op)
{
    for (unsigned i = 0; i < SL_COUNT(flats); i++) {
        unsigned inputs = 2 + i % 7;

        kern_desc_pick(next(l), KERN_MAX, inputs, i % inputs, flats[i].nd,
                       flats[i].dim);
        kern_desc_pick(next(l), KERN_MIN, inputs, (i + 1) % inputs, flats[i].nd,
                       flats[i].dim);
    }
}

// Many ids for few rows, few for many, one column and many.
static void table_cases(struct list *l, enum kern_op op)
{
    static const int64_t nvc[][3] = {{1, 1, 1},   {31, 7, 33},  {0, 3, 5},
                                     {257, 5, 3}, {70, 300, 1}, {64, 9, 130},
                                     {33, 2, 600}};

    for (size_t i = 0; i < SL_COUNT(nvc); i++)
        kern_desc_gather(next(l), op, nvc[i][0], nvc[i][1], nvc[i][2]);
}

// A view of `dim` inside rows that are `row` elements wide.
static struct kern_shape inside(const int64_t dim[3], int64_t row)
{
    struct kern_shape s = kern_shape(KERN_F32, 3, dim);

    s.stride[1] = row;
    s.stride[0] = row * dim[1];
    return s;
}

static void view_cases(struct list *l, enum kern_op op)
{
    static const int64_t dims[][3] = {
        {3, 5, 7}, {1, 1, 1}, {2, 0, 3}, {4, 33, 8}, {2, 3, 9000}};
    static const float ab[][2] = {{1, 0}, {2.5f, 0}, {1, 1}, {-0.5f, 0.25f}};

    for (size_t i = 0; i < SL_COUNT(dims); i++) {
        struct kern_shape dense = kern_shape(KERN_F32, 3, dims[i]);
        struct kern_shape wide = inside(dims[i], dims[i][2] + 5);
        struct kern_shape even = inside(dims[i], dims[i][2] + 8); // in packs
        struct kern_shape turned = dense;

        turned.stride[2] = dims[i][1]; // transposed in memory
        turned.stride[1] = 1;
        for (size_t k = 0; k < SL_COUNT(ab) && op == KERN_AXPBY; k++) {
            kern_desc_axpby(next(l), &dense, &dense, ab[k][0], ab[k][1]);
            kern_desc_axpby(next(l), &dense, &wide, ab[k][0], ab[k][1]);
            kern_desc_axpby(next(l), &wide, &dense, ab[k][0], ab[k][1]);
            kern_desc_axpby(next(l), &turned, &wide, ab[k][0], ab[k][1]);
            kern_desc_axpby(next(l), &dense, &even, ab[k][0], ab[k][1]);
            kern_desc_axpby(next(l), &even, &dense, ab[k][0], ab[k][1]);
        }
        if (op == KERN_FILL) {
            kern_desc_fill(next(l), &dense, 0);
            kern_desc_fill(next(l), &wide, -1.5f);
            kern_desc_fill(next(l), &even, 0.75f);
        }
    }
}

static void absolute_case(struct list *l, unsigned nd, const int64_t *x,
                          uint32_t e)
{
    struct kern_desc *d = next(l);

    kern_desc_mse(d, nd, x, e);
    kern_desc_absolute(d);
}

static void bce_cases(struct list *l, enum kern_bce_kind kind, unsigned nd,
                      const int64_t *x, uint32_t e)
{
    struct kern_desc *d = next(l);

    kern_desc_bce(d, kind, nd, x, e);
    *next(l) = *d;
    kern_desc_smooth(d, 0.2f);
}

static void xent_cases(struct list *l, int64_t n, int64_t c, bool sparse,
                       uint32_t e)
{
    struct kern_desc *d = next(l);

    kern_desc_xent(d, n, c, sparse, e);
    *next(l) = *d;
    kern_desc_smooth(d, 0.1f);
    kern_desc_top(d, 3);
}

// A part of a batch may begin anywhere in a block of the mask.
static void dropout_case(struct list *l, unsigned i, unsigned nd,
                         const int64_t *x)
{
    struct kern_desc *d = next(l);

    kern_desc_dropout(d, (float)i * 0.09f, i, nd, x);
    d->u.dropout.first = i < 2 ? 0 : (UINT64_C(1) << 33) + i;
}

// The cases from `first` on once more, with weights.
static void weighted_cases(struct list *l, unsigned first)
{
    unsigned end = l->n;

    for (unsigned i = first; i < end && l->at[i].io[0].nd > 1; i++) {
        struct kern_desc *d = next(l);

        *d = l->at[i];
        kern_desc_weigh(d);
    }
}

static void loss_cases(struct list *l, enum kern_op op)
{
    for (size_t i = 0; i < SL_COUNT(flats); i++) {
        uint32_t e = i % 2 ? KERN_ACCUM : 0;
        unsigned nd = flats[i].nd;
        const int64_t *x = flats[i].dim;

        unsigned before = l->n;

        if (op == KERN_MSE) {
            kern_desc_mse(next(l), nd, x, e);
            absolute_case(l, nd, x, e);
        } else if (op == KERN_BCE) {
            bce_cases(l, KERN_BCE_LOGITS, nd, x, e);
            bce_cases(l, KERN_BCE_PROBABILITIES, nd, x, e);
        } else if (nd == 2) {
            xent_cases(l, x[0], x[1], true, e);
            xent_cases(l, x[0], x[1], false, e);
        }
        weighted_cases(l, before);
    }
}

static void image_case(struct list *l, unsigned nd, const int64_t *x,
                       int64_t more)
{
    struct kern_desc *d = next(l);

    kern_desc_image_u8(d, nd, x, 1 / 255.0f, -0.5f);
    if (more > 0)
        kern_desc_image_pad(d, x[nd - 1] + more);
}

static void other_cases(struct list *l, enum kern_op op)
{
    for (size_t i = 0; i < SL_COUNT(flats); i++) {
        uint32_t e = i % 2 ? KERN_ACCUM : 0;
        unsigned nd = flats[i].nd;
        const int64_t *x = flats[i].dim;

        if (op == KERN_DROPOUT)
            dropout_case(l, (unsigned)i, nd, x);
        else if (op == KERN_IMAGE_U8)
            image_case(l, nd, x, i % 3 ? 0 : 5);
        else if (op == KERN_REDUCE)
            kern_desc_reduce(next(l), nd, x, e);
        else if (op == KERN_UNSCALE_CHECK)
            kern_desc_unscale_check(next(l), nd, x, e);
        else if (op == KERN_PENALTY)
            kern_desc_penalty(next(l), i % 3 ? 0.25f : 0, i % 4 ? 0.5f : 0,
                              (float)i, nd, x, e);
        else if (op == KERN_LN_FWD || op == KERN_LN_BWD)
            kern_desc_ln(next(l), op, nd, x, 1e-3f);
        else
            kern_desc_softmax(next(l), op, nd, x);
    }
}

// The list check of main() finds an op without cases.
static void (*const cases_of[KERN_OP_COUNT])(struct list *, enum kern_op) = {
    [KERN_MATMUL] = matmul_cases,     [KERN_CONV_FWD] = conv_cases,
    [KERN_CONV_DGRAD] = conv_cases,   [KERN_CONV_WGRAD] = conv_cases,
    [KERN_POOL_FWD] = pool_cases,     [KERN_POOL_BWD] = pool_cases,
    [KERN_BN_FWD] = norm_cases,       [KERN_BN_INFER] = norm_cases,
    [KERN_BN_BWD] = norm_cases,       [KERN_UNARY_FWD] = unary_cases,
    [KERN_UNARY_BWD] = unary_cases,   [KERN_BINARY] = binary_cases,
    [KERN_PICK] = pick_cases,         [KERN_GATHER] = table_cases,
    [KERN_GATHER_BWD] = table_cases,  [KERN_AXPBY] = view_cases,
    [KERN_FILL] = view_cases,         [KERN_XENT] = loss_cases,
    [KERN_BCE] = loss_cases,          [KERN_MSE] = loss_cases,
    [KERN_DROPOUT] = other_cases,     [KERN_IMAGE_U8] = other_cases,
    [KERN_REDUCE] = other_cases,      [KERN_UNSCALE_CHECK] = other_cases,
    [KERN_PENALTY] = other_cases,     [KERN_LN_FWD] = other_cases,
    [KERN_LN_BWD] = other_cases,      [KERN_SOFTMAX_FWD] = other_cases,
    [KERN_SOFTMAX_BWD] = other_cases,
};

unsigned kc_cases(enum kern_op op, struct kern_desc *out)
{
    struct list l = {out, 0};

    if (cases_of[op] != NULL)
        cases_of[op](&l, op);
    return l.n;
}

// ---- Random descriptors ---------------------------------------------------

static int32_t below(struct rng *r, uint64_t n)
{
    return (int32_t)rng_below(r, n);
}

static void random_window(struct kern_window *w, struct rng *r, bool dilated)
{
    for (int i = 0; i < 2; i++) {
        int32_t reach;

        w->size[i] = 1 + below(r, 5);
        w->stride[i] = 1 + below(r, 3);
        w->dilation[i] = dilated && below(r, 4) == 0 ? 2 : 1;
        reach = w->dilation[i] * (w->size[i] - 1) + 1;
        w->pad_before[i] = below(r, (uint64_t)reach);
        w->pad_after[i] = below(r, (uint64_t)reach);
    }
}

static void random_spatial(enum kern_op op, struct kern_desc *out,
                           struct rng *r, uint32_t epilogue)
{
    int64_t x[4] = {1 + below(r, 4), 1 + below(r, 16), 1 + below(r, 16),
                    1 + below(r, 40)};
    bool pool = op == KERN_POOL_FWD || op == KERN_POOL_BWD;
    struct kern_window w = kern_window(1, 1, 1, 1);
    int32_t groups = below(r, 4) == 0 ? 1 + below(r, 4) : 1;

    random_window(&w, r, !pool);
    if (pool) {
        bool max = below(r, 2);

        if (below(r, 4) == 0) // the whole image
            w = kern_window((int32_t)x[1], (int32_t)x[2], 1, 1);
        kern_desc_pool(out, op, max ? KERN_POOL_MAX : KERN_POOL_AVG, x, &w,
                       max ? epilogue : 0);
    } else {
        x[3] *= groups;
        kern_desc_conv(out, op, x, groups * (1 + below(r, 40)), &w, groups,
                       epilogue);
    }
}

static void random_xent(struct kern_desc *out, int64_t n, int64_t c,
                        struct rng *r, uint32_t epilogue)
{
    kern_desc_xent(out, n, c, below(r, 2), epilogue);
    if (below(r, 2))
        kern_desc_smooth(out, draw_float(r) * 0.9f);
    kern_desc_top(out, below(r, 6));
}

static void random_flat(enum kern_op op, struct kern_desc *out, struct rng *r,
                        uint32_t bits)
{
    uint32_t epilogue = bits & ~(uint32_t)KERN_WEIGHT; // an input more
    unsigned nd = op == KERN_XENT ? 2 : 1 + (unsigned)below(r, 4);
    int64_t x[4];

    for (unsigned i = 0; i < nd; i++)
        x[i] = 1 + below(r, 24);
    if (op >= KERN_BN_FWD && op <= KERN_BN_BWD)
        kern_desc_norm(out, op, nd, x, 1e-3f, epilogue);
    else if (op == KERN_UNARY_FWD || op == KERN_UNARY_BWD)
        kern_desc_unary(
            out, op, (enum kern_unary_kind)(1 + below(r, KERN_UNARY_COUNT - 1)),
            draw_float(r), nd, x);
    else if (op == KERN_BINARY)
        kern_desc_binary(out, (enum kern_binary_kind)(1 + below(r, 5)), 2, nd,
                         x);
    else if (op == KERN_PICK)
        kern_desc_pick(out, below(r, 2) ? KERN_MAX : KERN_MIN,
                       3 + (unsigned)below(r, 6), (unsigned)below(r, 3), nd, x);
    else if (op == KERN_LN_FWD || op == KERN_LN_BWD)
        kern_desc_ln(out, op, nd, x, 1e-3f);
    else if (op == KERN_GATHER || op == KERN_GATHER_BWD)
        kern_desc_gather(out, op, x[0], 1 + below(r, 40), 1 + below(r, 200));
    else if (op == KERN_PENALTY)
        kern_desc_penalty(out, draw_float(r), draw_float(r), (float)x[0], nd, x,
                          epilogue);
    else if (op == KERN_XENT)
        random_xent(out, x[0], x[1], r, epilogue);
    else if (op == KERN_BCE)
        kern_desc_bce(out, (enum kern_bce_kind)(1 + below(r, 2)), nd, x,
                      epilogue);
    else if (op == KERN_MSE)
        kern_desc_mse(out, nd, x, epilogue);
    else if (op == KERN_DROPOUT) {
        kern_desc_dropout(out, draw_float(r) * 0.9f, (uint32_t)below(r, 9), nd,
                          x);
        out->u.dropout.first = below(r, 99);
    } else if (op == KERN_IMAGE_U8)
        kern_desc_image_u8(out, nd, x, draw_float(r), draw_float(r));
    else if (op == KERN_REDUCE)
        kern_desc_reduce(out, nd, x, epilogue);
    else if (op == KERN_UNSCALE_CHECK)
        kern_desc_unscale_check(out, nd, x, epilogue);
    else
        kern_desc_softmax(out, op, nd, x);
    if (bits & KERN_WEIGHT && nd > 1)
        kern_desc_weigh(out);
}

// Random steps between elements: rows with gaps of 0 to 3.
static struct kern_shape random_view(struct rng *r, unsigned nd,
                                     const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);
    int64_t step = 1;

    for (unsigned i = nd; i-- > 0;) {
        s.stride[i] = step;
        step = step * x[i] + below(r, 4);
    }
    return s;
}

static void random_views(enum kern_op op, struct kern_desc *out, struct rng *r)
{
    unsigned nd = 1 + (unsigned)below(r, 5);
    int64_t x[5];
    struct kern_shape a, b;

    for (unsigned i = 0; i < nd; i++)
        x[i] = 1 + below(r, 9);
    a = random_view(r, nd, x);
    b = random_view(r, nd, x);
    if (op == KERN_AXPBY)
        kern_desc_axpby(out, &a, &b, draw_float(r),
                        below(r, 2) ? draw_float(r) : 0);
    else
        kern_desc_fill(out, &a, draw_float(r));
}

void kc_random(enum kern_op op, struct kern_desc *out, struct rng *r)
{
    do {
        uint32_t epilogue = rng_u32(r) & kern_op_epilogues(op);

        if (op == KERN_MATMUL)
            kern_desc_matmul(out, 1 + below(r, 70), 1 + below(r, 70),
                             1 + below(r, 300), below(r, 2), below(r, 2),
                             epilogue);
        else if (op >= KERN_CONV_FWD && op <= KERN_POOL_BWD)
            random_spatial(op, out, r, epilogue);
        else if (op == KERN_AXPBY || op == KERN_FILL)
            random_views(op, out, r);
        else
            random_flat(op, out, r, epilogue);
    } while (kern_desc_check(out, NULL) != SL_OK);
}

int kc_in_place(const struct kern_desc *d)
{
    switch (d->op) {
    case KERN_BN_BWD:
    case KERN_UNARY_BWD:
    case KERN_SOFTMAX_BWD:
    case KERN_LN_BWD:
        return 1; // dy
    case KERN_UNSCALE_CHECK:
        return d->io[0].dtype == KERN_F32 ? 0 : -1;
    case KERN_AXPBY:
        return memcmp(&d->io[0], &d->io[1], sizeof(d->io[0])) == 0 &&
                       kern_shape_dense(&d->io[0])
                   ? 0
                   : -1;
    case KERN_PICK: // dy
    case KERN_LN_FWD:
    case KERN_BN_FWD:
    case KERN_BN_INFER:
    case KERN_UNARY_FWD:
    case KERN_BINARY:
    case KERN_SOFTMAX_FWD:
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
    case KERN_DROPOUT:
        return 0;
    default:
        return -1;
    }
}

const char *kc_text(const struct kern_desc *d)
{
    static char text[600];

    return kern_desc_text(text, sizeof(text), d);
}
