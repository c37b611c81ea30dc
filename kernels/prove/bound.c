// SPDX-License-Identifier: Apache-2.0
// kernels/prove/bound.c -- how far off an element may be; no number here
// is set by hand.
//
// For sums of products S is the op itself, in double, on absolute values. For
// the others S follows from one rule: a rounding error of u in an
// intermediate value v, times how much the output depends on v.
#include "kernels/prove/bound.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/prove/allow.h"

#define U ALLOW_UNIT

// What the bound of one output is made of.
struct scale {
    double *s; // per element
    double k;  // length of the sum
    bool exact;
};

// ---- Ops that are linear in absolute values --------------------------------

static void make_absolute(struct kern_desc *d)
{
    d->epilogue &= ~(uint32_t)KERN_RELU;
    if (d->op == KERN_BINARY && d->u.unary.kind == KERN_SUB)
        d->u.unary.kind = KERN_ADD;
    if (d->op == KERN_AXPBY || d->op == KERN_IMAGE_U8) {
        d->u.unary.a = fabsf(d->u.unary.a);
        d->u.unary.b = fabsf(d->u.unary.b);
    }
    kern_desc_f64(d);
}

// Runs the op's f64 twin on absolute values.
static enum sl_err run_absolute(const struct trial *before, unsigned out,
                                double *s)
{
    struct kern_desc d = before->d;
    struct trial b;
    enum sl_err rc;

    make_absolute(&d);
    rc = before->mapped ? trial_new_mapped(&b, &d, 0) : trial_new(&b, &d, 0);
    if (rc != SL_OK)
        return rc;
    for (unsigned i = 0; i < d.inputs + d.outputs; i++) {
        if (d.io[i].dtype != KERN_F64) {
            memcpy(b.io[i], before->io[i], before->bytes[i]);
            continue;
        }
        for (int64_t k = 0; k < kern_shape_extent(&d.io[i]); k++)
            ((double *)b.io[i])[k] =
                fabs(trial_get(&before->d.io[i], before->io[i], k));
    }
    rc = trial_run_ref(&d, b.io);
    if (rc == SL_OK)
        memcpy(s, b.io[out],
               (size_t)kern_shape_extent(&d.io[out]) * sizeof(double));
    trial_free(&b);
    return rc;
}

static double sum_length(const struct kern_desc *d, unsigned out)
{
    struct kern_matmul_dims m;
    struct kern_conv_dims c;
    double taps;

    if (d->op == KERN_MATMUL) {
        kern_matmul_dims(&m, d);
        return (double)m.k + 2;
    }
    if (d->op == KERN_REDUCE)
        return (double)kern_rows(&d->io[0]);
    if (d->op == KERN_GATHER_BWD)
        return (double)d->io[0].dim[0];
    if (d->op == KERN_BINARY)
        return d->inputs;
    if (d->op == KERN_UNARY_FWD || d->op == KERN_UNARY_BWD ||
        d->op == KERN_AXPBY || d->op == KERN_IMAGE_U8)
        return 1;
    kern_conv_dims(&c, d);
    taps = (double)c.win.size[0] * c.win.size[1];
    if (d->op == KERN_CONV_WGRAD || out > d->inputs)
        return (double)(c.n * c.oh * c.ow); // also the per-channel sums
    if (d->op == KERN_CONV_FWD)
        return (double)(c.ci / c.groups) * taps + 1;
    if (d->op == KERN_CONV_DGRAD)
        return (double)(c.co / c.groups) * taps;
    return taps; // pools
}

// ---- Batch norm -----------------------------------------------------------

struct channel {
    double mean, var, x, dy, dot, square; // x, dy, ..: means of absolutes
    double scale;                         // |gamma| / sqrt(var + eps)
    double off;                           // relative error of scale, in u
};

static double at(const struct trial *b, unsigned i, int64_t k)
{
    return trial_get(&b->d.io[i], b->io[i], k);
}

static struct channel channel_of(const struct trial *b, const struct trial *ref,
                                 int64_t c)
{
    bool forward = b->d.op == KERN_BN_FWD, back = b->d.op == KERN_BN_BWD;
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);
    struct channel ch = {
        .mean = forward ? at(ref, 4, c) : at(b, 3, c),
        .var = forward ? at(ref, 5, c) : at(b, 4, c),
    };
    double room = ch.var + b->d.u.norm.epsilon;

    for (int64_t i = 0; i < rows; i++) {
        double x = fabs(at(b, 0, i * cols + c));
        double dy = back ? fabs(at(b, 1, i * cols + c)) : 0;
        double far = x + fabs(ch.mean);

        ch.x += x / (double)rows;
        ch.dy += dy / (double)rows;
        ch.dot += dy * far / sqrt(room) / (double)rows;
        ch.square += far * far / (double)rows;
    }
    ch.scale = fabs(at(b, back ? 2 : 1, c)) / sqrt(room);
    ch.off = forward ? ch.square / room : 0;
    return ch;
}

static double bn_element(const struct trial *b, const struct channel *ch,
                         int64_t i, int64_t c)
{
    double far = fabs(at(b, 0, i)) + fabs(ch->mean);
    double room = ch->var + b->d.u.norm.epsilon;

    if (b->d.op == KERN_BN_BWD)
        return ch->scale *
               (fabs(at(b, 1, i)) + ch->dy + far / sqrt(room) * ch->dot);
    if (b->d.op == KERN_BN_FWD)
        far += ch->x; // the mean has an error too
    return far * ch->scale * (1 + ch->off) + fabs(at(b, 2, c));
}

static double sum_of_elements(const struct trial *b, const struct channel *ch,
                              int64_t c)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);
    double sum = 0;

    for (int64_t i = 0; i < rows; i++)
        sum += bn_element(b, ch, i * cols + c, c);
    return sum;
}

static void scale_bn(const struct trial *b, const struct trial *ref,
                     unsigned out, struct scale *sc)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);
    bool back = b->d.op == KERN_BN_BWD;
    unsigned first = b->d.inputs;

    sc->k = b->d.op == KERN_BN_INFER ? 1 : (double)rows;
    for (int64_t c = 0; c < cols; c++) {
        struct channel ch = channel_of(b, ref, c);
        double old = kern_has(&b->d, KERN_ACCUM) && out > first
                         ? fabs(at(b, out, c))
                         : 0;

        if (out == first)
            for (int64_t i = 0; i < rows; i++)
                sc->s[i * cols + c] = bn_element(b, &ch, i * cols + c, c);
        else if (out == first + 3)
            sc->s[c] = sum_of_elements(b, &ch, c) + old;
        else if (out == first + 1)
            sc->s[c] = back ? ch.dot * (double)rows + old : ch.x;
        else
            sc->s[c] = back ? ch.dy * (double)rows + old : ch.square;
    }
}

// ---- Layer norm -----------------------------------------------------------

// As a channel of a batch norm, of one row and with gamma by column.
struct line {
    double mean, rstd, x, dy, dot; // x, dy, dot: means of absolutes
    double off;                    // relative error of rstd, in u
};

// |xhat| and what an error of the mean adds.
static double line_far(const struct trial *b, const struct line *l, int64_t i)
{
    return (fabs(at(b, 0, i)) + fabs(l->mean) + l->x) * l->rstd * (1 + l->off);
}

static struct line line_of(const struct trial *b, int64_t first)
{
    int64_t cols = kern_cols(&b->d.io[0]);
    double n = (double)cols, var = 0, square = 0;
    bool back = b->d.op == KERN_LN_BWD;
    struct line l = {0};

    for (int64_t c = 0; c < cols; c++) {
        l.mean += at(b, 0, first + c) / n;
        l.x += fabs(at(b, 0, first + c)) / n;
    }
    for (int64_t c = 0; c < cols; c++) {
        double x = at(b, 0, first + c), far = fabs(x) + fabs(l.mean);

        var += (x - l.mean) * (x - l.mean) / n;
        square += far * far / n;
    }
    l.rstd = 1 / sqrt(var + b->d.u.norm.epsilon);
    l.off = square * l.rstd * l.rstd;
    for (int64_t c = 0; c < cols && back; c++) {
        double g = fabs(at(b, 1, first + c) * at(b, 2, c));

        l.dy += g / n;
        l.dot += g * line_far(b, &l, first + c) / n;
    }
    return l;
}

static void scale_ln(const struct trial *b, unsigned out, struct scale *sc)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);
    bool back = b->d.op == KERN_LN_BWD;
    struct line l = {0};

    sc->k = (double)cols;
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t c = i % cols;
        double far;

        if (c == 0)
            l = line_of(b, i);
        far = line_far(b, &l, i);

        if (!back)
            sc->s[i] = far * fabs(at(b, 1, c)) + fabs(at(b, 2, c));
        else if (out > b->d.inputs)
            sc->s[i] = far * fabs(at(b, 1, i));
        else
            sc->s[i] = l.rstd * (1 + l.off) *
                       (fabs(at(b, 1, i) * at(b, 2, c)) + l.dy + far * l.dot);
    }
}

// ---- Softmax and losses ---------------------------------------------------

static double row_max(const struct trial *b, int64_t row)
{
    int64_t cols = kern_cols(&b->d.io[0]);
    double max = -INFINITY;

    for (int64_t c = 0; c < cols; c++)
        max = fmax(max, trial_get(&b->d.io[0], b->io[0], row * cols + c));
    return max;
}

// exp(x - max) / sum: the argument t = x - max is rounded, which moves exp by
// |t| u, for this element and on average for the sum.
static void scale_softmax(const struct trial *b, const struct trial *ref,
                          double *s)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);

    for (int64_t i = 0; i < rows; i++) {
        double max = row_max(b, i);

        for (int64_t c = i * cols; c < (i + 1) * cols; c++)
            s[c] = at(ref, 1, c) * (2 + max - at(b, 0, c));
    }
}

static void scale_softmax_bwd(const struct trial *b, double *s)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);

    for (int64_t i = 0; i < rows; i++) {
        double dot = 0;

        for (int64_t c = i * cols; c < (i + 1) * cols; c++)
            dot += fabs(at(b, 0, c) * at(b, 1, c));
        for (int64_t c = i * cols; c < (i + 1) * cols; c++)
            s[c] = fabs(at(b, 0, c)) * (fabs(at(b, 1, c)) + dot);
    }
}

static double target_of(const struct trial *b, int64_t row, int64_t c)
{
    int64_t cols = kern_cols(&b->d.io[0]);

    double even = b->d.u.loss.smoothing;
    double t =
        b->d.io[1].dtype == KERN_I32
            ? ((const int32_t *)b->io[1])[row * kern_each(&b->d.io[1])] == c
            : at(b, 1, row * cols + c);

    return t * (1 - even) + even / (double)cols;
}

// Returns the weight of row `row` of the first axis; 1 without weights.
static double weight_of(const struct trial *b, int64_t row)
{
    return kern_has(&b->d, KERN_WEIGHT) ? at(b, 3, row) : 1;
}

// Per element of dx, and (returned) of the loss.
static double scale_xent(const struct trial *b, double *s)
{
    int64_t rows = kern_rows(&b->d.io[0]), cols = kern_cols(&b->d.io[0]);
    double loss = 0, scale = fabs(at(b, 2, 0));

    for (int64_t i = 0; i < rows; i++) {
        double max = row_max(b, i), sum = 0, far = 0, mine = 0;
        double weight = weight_of(b, i);

        for (int64_t c = 0; c < cols; c++)
            sum += exp(at(b, 0, i * cols + c) - max);
        for (int64_t c = 0; c < cols; c++) {
            double t = max - at(b, 0, i * cols + c), p = exp(-t) / sum;
            double want = target_of(b, i, c);

            mine += want * t;
            far += p * t;
            if (s)
                s[i * cols + c] = weight * scale * (p * (2 + t) + want);
        }
        loss += weight * (mine + fabs(log(sum)) + 1 + far);
    }
    return loss;
}

// (p - t) / (p (1 - p)): a smoothed t has an error of its own.
static double scale_probability(const struct trial *b, const struct trial *ref,
                                double scale, int64_t i, double t)
{
    double p = at(b, 0, i), dx = fabs(at(ref, b->d.inputs, i));

    return b->d.u.loss.smoothing > 0 && dx > 0
               ? 3 * scale * (p + t) / (p * (1 - p))
               : 3 * dx;
}

static double scale_bce(const struct trial *b, const struct trial *ref,
                        double *s)
{
    int64_t n = kern_shape_count(&b->d.io[0]);
    double cols = (double)kern_cols(&b->d.io[0]), loss = 0;
    double scale = fabs(at(b, 2, 0)) / cols;

    for (int64_t i = 0; i < n; i++) {
        double even = b->d.u.loss.smoothing;
        double x = at(b, 0, i), t = at(b, 1, i) * (1 - even) + even / 2;
        bool logits = b->d.u.loss.kind == KERN_BCE_LOGITS;
        double weight = weight_of(b, i / kern_each(&b->d.io[0]));

        if (s)
            s[i] = logits
                       ? weight * scale * (1 + fabs(x) / (1 + exp(fabs(x))) + t)
                       : scale_probability(b, ref, weight * scale, i, t);
        loss +=
            weight *
            (logits ? fabs(x) * (1 + t) + 1
                    : fabs(log(fmax(x, 1e-7))) + fabs(log(fmax(1 - x, 1e-7)))) /
            cols;
    }
    return loss;
}

static const double *bound_stats(const struct trial *loss)
{
    return loss->io[loss->d.inputs + 1];
}

static void scale_loss(const struct trial *b, const struct trial *ref,
                       unsigned out, struct scale *sc)
{
    bool stats = out == b->d.inputs + 1u;
    double loss = 0;

    sc->k = stats ? (double)kern_shape_count(&b->d.io[0])
                  : (double)kern_cols(&b->d.io[0]);
    if (b->d.op == KERN_XENT) {
        loss = scale_xent(b, stats ? NULL : sc->s);
    } else if (b->d.op == KERN_BCE) {
        loss = scale_bce(b, ref, stats ? NULL : sc->s);
    } else {
        loss = fabs(bound_stats(ref)[0]);
        for (int64_t i = 0; !stats && i < kern_shape_count(&b->d.io[0]); i++)
            sc->s[i] = fabs(at(ref, b->d.inputs, i));
    }
    for (int i = 0; stats && i < 2; i++)
        sc->s[i] = fmax(loss, fabs(bound_stats(ref)[i])) + 2;
    // A count is a whole number: nothing may be off, beyond what a sum of
    // 1/cols in double is.
    if (stats && b->d.op != KERN_MSE)
        sc->s[1] *= 0x1p-24;
}

// ---- The bound ------------------------------------------------------------

static enum sl_err scales(const struct trial *before, const struct trial *ref,
                          unsigned out, struct scale *sc)
{
    const struct kern_desc *d = &before->d;

    sc->k = 1;
    switch (d->op) {
    case KERN_FILL:
    case KERN_PICK:
    case KERN_GATHER:
        sc->exact = true;
        return SL_OK;
    case KERN_LN_FWD:
    case KERN_LN_BWD:
        scale_ln(before, out, sc);
        return SL_OK;
    case KERN_POOL_FWD:
    case KERN_POOL_BWD:
        // A maximum is one of the inputs; overlapping windows add.
        if (d->op == KERN_POOL_FWD && d->u.pool.kind == KERN_POOL_MAX) {
            sc->exact = true;
            return SL_OK;
        }
        break;
    case KERN_BN_FWD:
    case KERN_BN_INFER:
    case KERN_BN_BWD:
        scale_bn(before, ref, out, sc);
        return SL_OK;
    case KERN_SOFTMAX_FWD:
        sc->k = (double)kern_cols(&d->io[0]);
        scale_softmax(before, ref, sc->s);
        return SL_OK;
    case KERN_SOFTMAX_BWD:
        sc->k = (double)kern_cols(&d->io[0]);
        scale_softmax_bwd(before, sc->s);
        return SL_OK;
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
        scale_loss(before, ref, out, sc);
        return SL_OK;
    case KERN_DROPOUT:
    case KERN_UNSCALE_CHECK:
    case KERN_PENALTY:
        for (int64_t i = 0; i < kern_shape_extent(&d->io[out]); i++)
            sc->s[i] = fabs(trial_get(&d->io[out], ref->io[out], i));
        return SL_OK;
    default:
        break;
    }
    sc->k = sum_length(d, out);
    return run_absolute(before, out, sc->s);
}

// What is summed of batch norm's dx is what was stored of it.
static double stored_parts(const struct trial *before, const struct trial *ref,
                           unsigned out, int64_t c)
{
    const struct kern_shape *dx = &before->d.io[before->d.inputs];
    struct allow a = allow_of((enum kern_dtype)dx->dtype, 1, false);
    double sum = 0;

    if (before->d.op != KERN_BN_BWD || out != before->d.inputs + 3u)
        return 0;
    for (int64_t i = c; i < kern_shape_count(dx); i += kern_cols(dx))
        sum += allow_rounding(&a, trial_get(dx, ref->io[before->d.inputs], i));
    return sum;
}

double *trial_bound(const struct trial *before, const struct trial *ref,
                    unsigned out)
{
    const struct kern_shape *s = &before->d.io[out];
    int64_t n = kern_shape_extent(s);
    double *bound = sl_calloc((size_t)n + 2, sizeof(*bound));
    struct scale sc = {.s = bound};
    bool tf32 = before->d.op <= KERN_CONV_WGRAD && out == before->d.inputs &&
                before->d.io[0].dtype == KERN_F32 &&
                before->d.math == KERN_MATH_TF32;
    struct allow a;

    if (!bound || scales(before, ref, out, &sc) != SL_OK) {
        sl_free(bound);
        return NULL;
    }
    a = allow_of((enum kern_dtype)s->dtype, sc.k, tf32);
    for (int64_t i = 0; i < n; i++)
        bound[i] =
            sc.exact ? 0
                     : allow_sum(&a, bound[i], trial_get(s, ref->io[out], i)) +
                           stored_parts(before, ref, out, i);
    return bound;
}
