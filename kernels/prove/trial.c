// SPDX-License-Identifier: Apache-2.0
// kernels/prove/trial.c -- tensors between guards, and what is in them.
#include "kernels/prove/trial.h"

#include <string.h>

#include "common/base/mem.h"
#include "kernels/half.h"
#include "kernels/prove/pages.h"
#include "kernels/ref/ref.h"

#define GUARD_BYTE 0xA5
#define IMAGES 3 // no power of two: tiles of a batch are powers of two

double trial_get(const struct kern_shape *s, const void *at, int64_t i)
{
    switch (s->dtype) {
    case KERN_F64:
        return ((const double *)at)[i];
    case KERN_U8:
        return ((const uint8_t *)at)[i];
    case KERN_I32:
        return ((const int32_t *)at)[i];
    case KERN_I64:
        return (double)((const int64_t *)at)[i];
    case KERN_F16:
        return half_from_f16(((const uint16_t *)at)[i]);
    case KERN_BF16:
        return half_from_bf16(((const uint16_t *)at)[i]);
    default:
        return ((const float *)at)[i];
    }
}

// Of the float dtypes; rounded once.
static void put(const struct kern_shape *s, void *at, int64_t i, double x)
{
    if (s->dtype == KERN_F64)
        ((double *)at)[i] = x;
    else if (s->dtype == KERN_F16)
        ((uint16_t *)at)[i] = half_to_f16((float)x);
    else if (s->dtype == KERN_BF16)
        ((uint16_t *)at)[i] = half_to_bf16((float)x);
    else
        ((float *)at)[i] = (float)x;
}

static bool is_real(const struct kern_shape *s)
{
    return s->dtype == KERN_F32 || s->dtype == KERN_F64 ||
           s->dtype == KERN_F16 || s->dtype == KERN_BF16;
}

// Writes the guards of a tensor: whatever is around it in its memory.
static void guard(struct trial *b, unsigned i)
{
    char *end = b->base[i] + b->whole[i];
    char *io = b->io[i];

    memset(b->base[i], GUARD_BYTE, (size_t)(io - b->base[i]));
    memset(io + b->bytes[i], GUARD_BYTE, (size_t)(end - io) - b->bytes[i]);
}

// Returns true if the tensor means the same when its contents repeat after
// PAGES_PERIOD bytes, wherever in a row or an image that is: not so places in a
// window, row numbers of a table, and numbers of 8 bytes.
static bool may_repeat(const struct kern_desc *d, unsigned i)
{
    size_t each = kern_dtype_bytes((enum kern_dtype)d->io[i].dtype);

    if (each > 4 || d->io[i].dtype == KERN_I32 || !kern_shape_dense(&d->io[i]))
        return false;
    if (d->op == KERN_POOL_BWD && d->inputs == 2 && i == 1)
        return false;
    if (d->op == KERN_POOL_FWD && i == d->inputs + 1u)
        return false;
    return i > 0 || (d->op != KERN_GATHER && d->op != KERN_GATHER_BWD &&
                     d->op != KERN_BCE);
}

// Gets memory for one tensor.
static char *tensor_new(struct trial *b, unsigned i, bool thin)
{
    char *base = NULL;

    if (!b->mapped)
        return sl_aligned(64, (b->whole[i] + 63) & ~(size_t)63);
    if (thin && b->bytes[i] > TRIAL_THIN && may_repeat(&b->d, i))
        base = pages_new_repeated(b->whole[i]);
    b->thin[i] = base != NULL;
    return base ? base
                : pages_new(b->whole[i]); // pages alone, if no file repeats
}

static enum sl_err make(struct trial *b, const struct kern_desc *d,
                        size_t shift, bool mapped, bool thin)
{
    memset(b, 0, sizeof(*b));
    b->d = *d;
    b->mapped = mapped;
    b->repeats = thin;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        size_t each = kern_dtype_bytes((enum kern_dtype)d->io[i].dtype);

        b->bytes[i] = (size_t)kern_shape_extent(&d->io[i]) * each;
        b->whole[i] = b->bytes[i] + 3 * TRIAL_GUARD;
        b->base[i] = tensor_new(b, i, thin);
        if (!b->base[i]) {
            trial_free(b);
            return SL_ENOMEM;
        }
        // Small elements take the shift as it is, f64 at least its own size.
        b->io[i] =
            b->base[i] + TRIAL_GUARD + (each == 8 && shift % 8 ? 8 : shift);
        if (!b->thin[i])
            guard(b, i);
    }
    return SL_OK;
}

enum sl_err trial_new(struct trial *b, const struct kern_desc *d, size_t shift)
{
    return make(b, d, shift, false, false);
}

enum sl_err trial_new_mapped(struct trial *b, const struct kern_desc *d,
                             size_t shift)
{
    return make(b, d, shift, true, false);
}

enum sl_err trial_new_thin(struct trial *b, const struct kern_desc *d,
                           size_t shift)
{
    return make(b, d, shift, true, true);
}

void trial_free(struct trial *b)
{
    for (unsigned i = 0; i < b->d.inputs + b->d.outputs; i++) {
        if (b->mapped)
            pages_free(b->base[i], b->whole[i]);
        else
            sl_free(b->base[i]);
    }
    memset(b, 0, sizeof(*b));
}

// ---- Thin tensors -----------------------------------------------------------

static size_t row_bytes(const struct kern_shape *s)
{
    return (size_t)kern_cols(s) * kern_dtype_bytes((enum kern_dtype)s->dtype);
}

// Chooses the windows of a thin output. Each has two rows at least, so that
// there is a whole one in it.
static void choose_windows(struct trial *b, unsigned i, size_t middle)
{
    size_t rows = 2 * row_bytes(&b->d.io[i]), most = b->bytes[i];
    size_t n = rows > TRIAL_WINDOW ? rows : TRIAL_WINDOW;
    struct trial_window *w = b->window[i];

    if (n > most)
        n = most;
    middle -= middle < n / 2 ? middle : n / 2;
    w[0] = (struct trial_window){0, n};
    w[1] = (struct trial_window){most - n, most};
    w[2] = (struct trial_window){middle, middle + n < most ? middle + n : most};
}

// The guards of an input are in pages of its own, which windows of no bytes at
// both ends are.
static enum sl_err settle(struct trial *b, unsigned i, size_t middle)
{
    size_t before = (size_t)((char *)b->io[i] - b->base[i]);

    b->window[i][1] = (struct trial_window){b->bytes[i], b->bytes[i]};
    if (i >= b->d.inputs)
        choose_windows(b, i, middle);
    for (int k = 0; k < TRIAL_WINDOWS; k++) {
        const struct trial_window *w = &b->window[i][k];
        size_t from = w->from == 0 ? 0 : before + w->from;
        size_t to = w->to == b->bytes[i] ? b->whole[i] : before + w->to;

        if (!pages_own(b->base[i], b->whole[i], from, to))
            return SL_ENOMEM;
    }
    guard(b, i);
    return SL_OK;
}

enum sl_err trial_settle(struct trial *b, const size_t middle[KERN_IO])
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < b->d.inputs + b->d.outputs && rc == SL_OK; i++)
        if (b->thin[i])
            rc = settle(b, i, middle[i]);
    return rc;
}

bool trial_owns(const struct trial *b, unsigned i, int64_t k)
{
    const struct kern_shape *s = &b->d.io[i];
    size_t row = row_bytes(s);
    size_t at = (size_t)k * kern_dtype_bytes((enum kern_dtype)s->dtype);

    for (int n = 0; b->thin[i] && n < TRIAL_WINDOWS; n++) {
        const struct trial_window *w = &b->window[i][n];

        if ((w->from == 0 || at >= w->from + row) &&
            (w->to == b->bytes[i] || at + row < w->to) && at >= w->from &&
            at < w->to)
            return true;
    }
    return !b->thin[i];
}

bool trial_holds(const struct trial *b)
{
    for (unsigned i = 0; i < b->d.inputs + b->d.outputs; i++) {
        const unsigned char *from = (unsigned char *)b->base[i];
        const unsigned char *io = b->io[i];
        const unsigned char *end = from + b->whole[i];

        if (io < from || io >= end)
            continue; // in place of another tensor, which is looked at
        for (const unsigned char *p = from; p < io; p++)
            if (*p != GUARD_BYTE)
                return false;
        for (const unsigned char *p = io + b->bytes[i]; p < end; p++)
            if (*p != GUARD_BYTE)
                return false;
    }
    return true;
}

void trial_copy(struct trial *to, const struct trial *from)
{
    for (unsigned i = 0; i < to->d.inputs + to->d.outputs; i++)
        memcpy(to->io[i], from->io[i], from->bytes[i]);
}

enum sl_err trial_run_ref(const struct kern_desc *d, void *const *io)
{
    bool wide =
        d->io[0].dtype == KERN_F64 || d->io[d->inputs].dtype == KERN_F64;
    size_t bytes = ref_mixed_bytes(d);
    void *workspace;

    if (bytes == 0) {
        (wide ? ref_f64_table : ref_f32_table)[d->op](d, io);
        return SL_OK;
    }
    workspace = sl_aligned(64, bytes);
    if (!workspace)
        return SL_ENOMEM;
    ref_mixed_run(d, io, workspace);
    sl_free(workspace);
    return SL_OK;
}

// ---- Contents -------------------------------------------------------------

// Returns a number in [0, 1), a multiple of 2^-24.
static float draw(struct rng *r)
{
    return (float)(rng_u32(r) >> 8) * 0x1p-24f;
}

static float uniform(struct rng *r, float low, float high)
{
    return low + (high - low) * draw(r);
}

// Returns the number of elements of a tensor that are drawn: all, or so many
// that repeat in the rest of it.
static int64_t drawn(const struct trial *b, unsigned i)
{
    int64_t n = kern_shape_extent(&b->d.io[i]);

    return b->repeats && n > TRIAL_PERIOD ? TRIAL_PERIOD : n;
}

// Returns the bytes of a tensor to fill: those of a thin one repeat by
// themselves.
static size_t filled(const struct trial *b, unsigned i)
{
    return b->thin[i] ? PAGES_PERIOD : b->bytes[i];
}

// Repeats the first n elements in the rest of the tensor.
static void repeat(const struct trial *b, unsigned i, int64_t n)
{
    size_t each = kern_dtype_bytes((enum kern_dtype)b->d.io[i].dtype);
    char *at = b->io[i];

    for (size_t done = (size_t)n * each; n > 0 && done < filled(b, i);) {
        size_t left = filled(b, i) - done, some = done < left ? done : left;

        memcpy(at + done, at, some);
        done += some;
    }
}

// Float tensors in [low, high), every 16th element 0 where that is in
// range: exact zeros are where masks and ties live.
static void fill_real(const struct trial *b, unsigned i, struct rng *r,
                      float low, float high)
{
    const struct kern_shape *s = &b->d.io[i];

    for (int64_t k = 0; k < drawn(b, i); k++) {
        float x = uniform(r, low, high);

        if (low < 0 && rng_u32(r) % 16 == 0)
            x = 0;
        put(s, b->io[i], k, x);
    }
    repeat(b, i, drawn(b, i));
}

static void fill_whole(const struct trial *b, unsigned i, struct rng *r,
                       int64_t below)
{
    const struct kern_shape *s = &b->d.io[i];

    for (int64_t k = 0; k < drawn(b, i); k++) {
        uint64_t x = rng_u64(r);

        if (s->dtype == KERN_U8)
            ((uint8_t *)b->io[i])[k] = (uint8_t)x;
        else if (s->dtype == KERN_I32)
            ((int32_t *)b->io[i])[k] = (int32_t)(x % (uint64_t)below);
        else
            ((int64_t *)b->io[i])[k] = (int64_t)x;
    }
    repeat(b, i, drawn(b, i));
}

// What a forward pass would have left for POOL_BWD; of large tensors, for a few
// images that the others repeat.
static enum sl_err fill_aux(const struct trial *b, struct rng *r)
{
    const struct kern_shape *x = &b->d.io[b->d.inputs];
    int64_t dim[4] = {x->dim[0], x->dim[1], x->dim[2], x->dim[3]};
    struct kern_desc d;
    struct trial f;
    enum sl_err rc;

    if (drawn(b, b->d.inputs) < kern_shape_extent(x) && dim[0] > IMAGES)
        dim[0] = IMAGES;
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_MAX, dim, &b->d.u.pool.win,
                   KERN_AUX | KERN_DRELU);
    rc = trial_new(&f, &d, 0);
    if (rc != SL_OK)
        return rc;
    f.repeats = b->repeats;
    fill_real(&f, 0, r, -0.5f, 1);
    rc = trial_run_ref(&d, f.io);
    if (rc == SL_OK) {
        memcpy(b->io[1], f.io[2], f.bytes[2]);
        repeat(b, 1, kern_shape_extent(&d.io[2]));
    }
    trial_free(&f);
    return rc;
}

// What a forward pass would have left for UNARY_BWD.
static enum sl_err fill_saved(const struct trial *b, struct rng *r)
{
    enum kern_unary_kind kind = (enum kern_unary_kind)b->d.u.unary.kind;
    int64_t n = drawn(b, 0);
    struct kern_desc d;
    struct trial f;
    enum sl_err rc;

    if (kern_unary_saves_input(kind)) {
        fill_real(b, 0, r, -6, 6);
        return SL_OK;
    }
    kern_desc_unary(&d, KERN_UNARY_FWD, kind, b->d.u.unary.a, 1, &n);
    rc = trial_new(&f, &d, 0);
    if (rc != SL_OK)
        return rc;
    fill_real(&f, 0, r, -6, 8);
    rc = trial_run_ref(&d, f.io);
    for (int64_t i = 0; i < n && rc == SL_OK; i++)
        put(&b->d.io[0], b->io[0], i, ((float *)f.io[1])[i]);
    repeat(b, 0, n);
    trial_free(&f);
    return rc;
}

// Rows that sum to 1, of f32 [n,c].
static void fill_distribution(const struct trial *b, unsigned i, struct rng *r)
{
    int64_t rows = kern_rows(&b->d.io[i]), cols = kern_cols(&b->d.io[i]);

    fill_real(b, i, r, 0, 1);
    if (b->thin[i]) // of the rows that repeat
        rows = drawn(b, i) / cols;
    for (int64_t k = 0; k < rows; k++) {
        double sum = 1e-9;

        for (int64_t c = 0; c < cols; c++)
            sum += trial_get(&b->d.io[i], b->io[i], k * cols + c);
        for (int64_t c = k * cols; c < (k + 1) * cols; c++)
            put(&b->d.io[i], b->io[i], c,
                trial_get(&b->d.io[i], b->io[i], c) / sum);
    }
    if (b->thin[i])
        repeat(b, i, rows * cols);
}

// Probabilities, with the ends that are clipped.
static void fill_probabilities(const struct trial *b, struct rng *r)
{
    fill_real(b, 0, r, 0.01f, 0.99f);
    for (int64_t i = 0;
         b->d.io[0].dtype != KERN_F64 && i < kern_shape_extent(&b->d.io[0]);
         i += 13)
        put(&b->d.io[0], b->io[0], i, i % 26 ? 0 : 1);
}

static void trial_fill_loss(const struct trial *b, struct rng *r)
{
    bool probabilities =
        b->d.op == KERN_BCE && b->d.u.loss.kind == KERN_BCE_PROBABILITIES;

    if (probabilities)
        fill_probabilities(b, r);
    else
        fill_real(b, 0, r, -8, 8);
    if (b->d.io[1].dtype == KERN_I32)
        fill_whole(b, 1, r, kern_cols(&b->d.io[0]));
    else if (b->d.op == KERN_XENT)
        fill_distribution(b, 1, r);
    else
        fill_real(b, 1, r, 0, 1);
    fill_real(b, 2, r, 0.1f, 2);
    if (kern_has(&b->d, KERN_WEIGHT))
        fill_real(b, 3, r, 0, 4);
}

// Whole numbers below the table's rows, some with a part behind the point; a
// few are none of its rows where that is not looked at in differences.
static void fill_ids(const struct trial *b, struct rng *r)
{
    const struct kern_shape *table =
        &b->d.io[b->d.op == KERN_GATHER ? 1 : b->d.inputs];

    for (int64_t i = 0; i < b->d.io[0].dim[0]; i++) {
        double id = (double)rng_below(r, (uint64_t)table->dim[0]);

        id += rng_u32(r) % 4 == 0 ? 0.5 : 0;
        if (b->d.op == KERN_GATHER_BWD && rng_u32(r) % 8 == 0)
            id = rng_u32(r) % 2 == 0 ? -1 : (double)table->dim[0];
        put(&b->d.io[0], b->io[0], i, id);
    }
}

static enum sl_err fill_inputs(const struct trial *b, struct rng *r)
{
    uint32_t op = b->d.op;

    for (unsigned i = 0; i < b->d.inputs; i++) {
        if (is_real(&b->d.io[i]))
            fill_real(b, i, r, -1, 1);
        else
            fill_whole(b, i, r, 1000);
    }
    if (op == KERN_POOL_BWD && b->d.inputs == 2)
        return fill_aux(b, r);
    if (op == KERN_UNARY_BWD)
        return fill_saved(b, r);
    if (op == KERN_UNARY_FWD)
        fill_real(b, 0, r, -6, 6);
    else if (op == KERN_SOFTMAX_FWD)
        fill_real(b, 0, r, -10, 10);
    else if (op == KERN_SOFTMAX_BWD)
        fill_distribution(b, 0, r);
    else if (op == KERN_BN_INFER || op == KERN_BN_BWD)
        fill_real(b, 4, r, 0.05f, 2); // var
    else if (op == KERN_XENT || op == KERN_BCE || op == KERN_MSE)
        trial_fill_loss(b, r);
    else if (op == KERN_GATHER || op == KERN_GATHER_BWD)
        fill_ids(b, r);
    return SL_OK;
}

bool trial_adds(const struct kern_desc *d)
{
    return kern_has(d, KERN_ACCUM) ||
           (d->op == KERN_AXPBY && d->u.unary.b != 0);
}

enum sl_err trial_fill(struct trial *b, struct rng *r)
{
    bool adds = trial_adds(&b->d);
    enum sl_err rc = fill_inputs(b, r);

    if (rc != SL_OK)
        return rc;
    for (unsigned i = b->d.inputs; i < b->d.inputs + b->d.outputs; i++) {
        // Of a convolution or BN only the gradients of parameters are added
        // to; elsewhere ACCUM means every output but an element-wise one.
        memset(b->io[i], 0xFF, filled(b, i)); // NaN in every float
        if (adds && is_real(&b->d.io[i]))
            fill_real(b, i, r, -1, 1);
    }
    return SL_OK;
}
