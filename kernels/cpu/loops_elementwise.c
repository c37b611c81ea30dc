// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_elementwise.c -- binary, pick, axpby, fill, dropout, image
// cast.
#include "kernels/cpu/loops.h"

#include <string.h>

#include "kernels/dropout.h"

// ---- Binary ---------------------------------------------------------------

// y = y op x.
static void cpu_binary_combine(int kind, float *y, const float *x, int64_t n)
{
    switch (kind) {
    case KERN_SUB:
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] -= x[i];
        break;
    case KERN_MUL:
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] *= x[i];
        break;
    case KERN_MAX:
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] > y[i] ? x[i] : y[i];
        break;
    case KERN_MIN:
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < y[i] ? x[i] : y[i];
        break;
    default:
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i];
        break;
    }
}

#define BLOCK 1024 // elements combined before they are stored

static void binary_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    float *y = (float *)a->io[a->d->inputs] + first, block[BLOCK];

    // y may be any input, so a block is written after all inputs are read.
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;

        memcpy(block, (const float *)a->io[0] + first + i,
               (size_t)m * sizeof(float));
        for (unsigned k = 1; k < a->d->inputs; k++)
            cpu_binary_combine(a->d->u.unary.kind, block,
                               (const float *)a->io[k] + first + i, m);
        memcpy(y + i, block, (size_t)m * sizeof(float));
    }
}

const struct loop_op LOOPS(binary) = {.chunks = LOOPS(flat_chunks),
                                      .step = {{binary_part, NULL}}};

// Updates the best value so far and the number of the first x that has it.
static void pick_best(float *best, float *who, const float *x, float k,
                      bool max, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool better = max ? x[i] > best[i] : x[i] < best[i];

        who[i] = better ? k : who[i];
        best[i] = better ? x[i] : best[i];
    }
}

static void pick_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *dy = (const float *)a->io[0] + first;
    float *dx = (float *)a->io[a->d->inputs] + first, best[BLOCK], who[BLOCK];
    float which = (float)a->d->u.pick.which;

    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;

        memcpy(best, (const float *)a->io[1] + first + i,
               (size_t)m * sizeof(float));
        memset(who, 0, (size_t)m * sizeof(float));
        for (unsigned k = 2; k < a->d->inputs; k++)
            pick_best(best, who, (const float *)a->io[k] + first + i,
                      (float)(k - 1), a->d->u.pick.kind == KERN_MAX, m);
        LOOPS_IVDEP
        for (int64_t k = 0; k < m; k++)
            dx[i + k] = who[k] == which ? dy[i + k] : 0;
    }
}

const struct loop_op LOOPS(pick) = {.chunks = LOOPS(flat_chunks),
                                    .step = {{pick_part, NULL}}};

// ---- Views ----------------------------------------------------------------

// A view as rows of an inner run: trailing axes that lie dense in all given
// shapes are one run.
struct cpu_view {
    int64_t inner, outer;
    unsigned axes; // outer ones
    int64_t run_x, run_y;
};

static bool joins(const struct kern_shape *s, unsigned axis, int64_t inner,
                  int64_t run)
{
    return s->dim[axis] == 1 || s->stride[axis] == inner * run;
}

static struct cpu_view cpu_view_of(const struct kern_shape *x,
                                   const struct kern_shape *y)
{
    unsigned last = y->nd - 1u;
    struct cpu_view v = {.inner = y->dim[last],
                         .outer = 1,
                         .axes = last,
                         .run_x = x->stride[last],
                         .run_y = y->stride[last]};

    while (v.axes > 0 && joins(x, v.axes - 1, v.inner, v.run_x) &&
           joins(y, v.axes - 1, v.inner, v.run_y))
        v.inner *= y->dim[--v.axes];
    for (unsigned i = 0; i < v.axes; i++)
        v.outer *= y->dim[i];
    return v;
}

// Where outer row `row` of a view begins.
static int64_t row_at(const struct kern_shape *s, unsigned axes, int64_t row)
{
    int64_t at = 0;

    for (unsigned k = axes; k-- > 0;) {
        at += row % s->dim[k] * s->stride[k];
        row /= s->dim[k];
    }
    return at;
}

// A chunk is a piece of a row if rows are long, else some rows.
struct piece {
    int64_t row, rows, first, count;
};

static int64_t pieces_per_row(const struct cpu_view *v)
{
    return (v->inner + LOOPS_CHUNK - 1) / LOOPS_CHUNK;
}

static int64_t rows_per_piece(const struct cpu_view *v)
{
    return v->inner >= LOOPS_CHUNK ? 1 : LOOPS_CHUNK / v->inner;
}

static struct piece piece_of(const struct cpu_view *v, int64_t chunk)
{
    int64_t each = pieces_per_row(v), rows = rows_per_piece(v);
    struct piece p = {.row = chunk / each * rows, .rows = rows};

    p.first = chunk % each * LOOPS_CHUNK;
    p.count =
        v->inner - p.first < LOOPS_CHUNK ? v->inner - p.first : LOOPS_CHUNK;
    if (p.rows > v->outer - p.row)
        p.rows = v->outer - p.row;
    return p;
}

static int64_t view_chunks(const struct kern_desc *d)
{
    struct cpu_view v = cpu_view_of(&d->io[0], &d->io[d->inputs]);
    int64_t rows = rows_per_piece(&v);

    return (v.outer + rows - 1) / rows * pieces_per_row(&v);
}

static void axpby_dense(const float *x, float *y, float p, float q, int64_t n)
{
    if (q == 0 && p == 1) {
        memmove(y, x, (size_t)n * sizeof(float)); // y may be x
    } else if (q == 0) {
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] = p * x[i];
    } else {
        LOOPS_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[i] = p * x[i] + q * y[i];
    }
}

static void axpby_part(const struct loop_args *a, int64_t chunk)
{
    const struct kern_shape *sx = &a->d->io[0], *sy = &a->d->io[1];
    struct cpu_view v = cpu_view_of(sx, sy);
    struct piece p = piece_of(&v, chunk);
    float fa = a->d->u.unary.a, fb = a->d->u.unary.b;

    for (int64_t r = p.row; r < p.row + p.rows; r++) {
        const float *x =
            (const float *)a->io[0] + row_at(sx, v.axes, r) + p.first * v.run_x;
        float *y =
            (float *)a->io[1] + row_at(sy, v.axes, r) + p.first * v.run_y;

        if (v.run_x == 1 && v.run_y == 1) {
            axpby_dense(x, y, fa, fb, p.count);
            continue;
        }
        for (int64_t i = 0; i < p.count; i++) {
            float t = fa * x[i * v.run_x];

            y[i * v.run_y] = fb != 0 ? t + fb * y[i * v.run_y] : t;
        }
    }
}

const struct loop_op LOOPS(axpby) = {.chunks = view_chunks,
                                     .step = {{axpby_part, NULL}}};

static void fill_part(const struct loop_args *a, int64_t chunk)
{
    const struct kern_shape *sy = &a->d->io[0];
    struct cpu_view v = cpu_view_of(sy, sy);
    struct piece p = piece_of(&v, chunk);

    for (int64_t r = p.row; r < p.row + p.rows; r++) {
        float *y =
            (float *)a->io[0] + row_at(sy, v.axes, r) + p.first * v.run_y;

        for (int64_t i = 0; i < p.count; i++)
            y[i * v.run_y] = a->d->u.unary.a;
    }
}

const struct loop_op LOOPS(fill) = {.chunks = view_chunks,
                                    .step = {{fill_part, NULL}}};

// ---- Dropout and images ---------------------------------------------------

static void dropout_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *x = (const float *)a->io[0] + first;
    const int64_t *key = a->io[1];
    float *y = (float *)a->io[2] + first;
    struct dropout_key k = {.seed = (uint64_t)key[0],
                            .step = (uint64_t)key[1],
                            .layer = a->d->u.dropout.layer};
    uint64_t below = dropout_threshold(a->d->u.dropout.rate);
    float keep = (float)(1 / (1 - (double)a->d->u.dropout.rate));
    uint64_t at = a->d->u.dropout.first + (uint64_t)first;
    uint32_t words[4];

    for (int64_t i = 0; i < n; i++, at++) {
        if (i == 0 || at % 4 == 0)
            dropout_words(words, &k, at / 4);
        y[i] = words[at % 4] < below ? 0 : x[i] * keep;
    }
}

const struct loop_op LOOPS(dropout) = {.chunks = LOOPS(flat_chunks),
                                       .step = {{dropout_part, NULL}}};

// Element k of x is channel k % c; behind the last one there may be zeroes.
static void image_padded(const struct loop_args *a, int64_t first, int64_t n)
{
    int64_t c = kern_cols(&a->d->io[0]), pad = kern_cols(&a->d->io[1]) - c;
    const uint8_t *x = (const uint8_t *)a->io[0] + first;
    float *y = (float *)a->io[1] + first + first / c * pad;
    int64_t channel = first % c;

    for (int64_t i = 0; i < n; i++) {
        *y++ = a->d->u.unary.a * (float)x[i] + a->d->u.unary.b;
        if (++channel < c)
            continue;
        for (channel = 0; channel < pad; channel++)
            *y++ = 0;
        channel = 0;
    }
}

static void image_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const uint8_t *x = (const uint8_t *)a->io[0] + first;
    float *y = (float *)a->io[1] + first;
    float scale = a->d->u.unary.a, offset = a->d->u.unary.b;

    if (kern_cols(&a->d->io[0]) != kern_cols(&a->d->io[1])) {
        image_padded(a, first, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = scale * (float)x[i] + offset;
}

const struct loop_op LOOPS(image_u8) = {.chunks = LOOPS(flat_chunks),
                                        .step = {{image_part, NULL}}};
