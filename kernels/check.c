// SPDX-License-Identifier: Apache-2.0
// kernels/check.c -- is this a descriptor?
//
// A descriptor is right if its parameters are in range and a builder, given
// the same parameters, makes the same bytes. So the shapes that belong
// together are told in one place only: the builders.
#include "kernels/desc.h"

#include <string.h>

enum { UNARY_OUTPUT, UNARY_INPUT };
static const bool unary_saves_input[KERN_UNARY_COUNT] = {
#define UNARY_SAVES(code, name, saves) [KERN_UNARY_##code] = UNARY_##saves,
    KERN_UNARY_MAP(UNARY_SAVES)
#undef UNARY_SAVES
};

bool kern_unary_saves_input(enum kern_unary_kind kind)
{
    return kind >= 1 && kind < KERN_UNARY_COUNT && unary_saves_input[kind];
}

// ---- Checking -------------------------------------------------------------

uint32_t kern_op_epilogues(enum kern_op op)
{
    switch (op) {
    case KERN_MATMUL:
        return KERN_BIAS | KERN_RELU | KERN_BGRAD | KERN_ACCUM;
    case KERN_CONV_FWD:
        return KERN_BIAS | KERN_RELU;
    case KERN_CONV_WGRAD:
        return KERN_BGRAD | KERN_ACCUM;
    case KERN_POOL_FWD:
        return KERN_AUX | KERN_DRELU;
    case KERN_POOL_BWD:
        return KERN_BGRAD | KERN_ACCUM;
    case KERN_BN_BWD:
        return KERN_DRELU | KERN_BGRAD | KERN_ACCUM;
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
        return KERN_ACCUM | KERN_WEIGHT;
    case KERN_REDUCE:
    case KERN_UNSCALE_CHECK:
    case KERN_PENALTY:
        return KERN_ACCUM;
    default:
        return 0;
    }
}

static enum sl_err check_fail(const struct kern_desc *d, const char *why,
                              struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "op %s: %s",
                   kern_op_name((enum kern_op)d->op), why);
}

static enum sl_err check_desc_shapes(const struct kern_desc *d,
                                     struct sl_error *err)
{
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        const struct kern_shape *s = &d->io[i];
        int64_t bytes = (int64_t)kern_dtype_bytes((enum kern_dtype)s->dtype);

        if (bytes == 0 || s->nd < 1 || s->nd > KERN_DIMS)
            return check_fail(d, "unknown dtype, or not 1 to 6 dimensions",
                              err);
        for (unsigned k = 0; k < s->nd; k++) {
            if (s->dim[k] < 0 || s->stride[k] < 0)
                return check_fail(d, "negative dimension or stride", err);
            if (__builtin_mul_overflow(bytes, s->dim[k] ? s->dim[k] : 1,
                                       &bytes))
                return check_fail(d, "tensor too large", err);
        }
    }
    return SL_OK;
}

static enum sl_err check_desc_window(const struct kern_desc *d,
                                     const struct kern_window *w,
                                     struct sl_error *err)
{
    struct kern_conv_dims c;

    for (int i = 0; i < 2; i++) {
        int64_t reach = kern_window_reach(w, i);

        if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1)
            return check_fail(
                d, "window, stride and dilation must be 1 or more", err);
        // A window that sees only padding has no maximum and no average.
        if (w->pad_before[i] < 0 || w->pad_after[i] < 0 ||
            w->pad_before[i] >= reach || w->pad_after[i] >= reach)
            return check_fail(
                d, "padding must be 0 or more and less than the window", err);
    }
    kern_conv_dims(&c, d);
    if (c.h < 1 || c.w < 1 || c.ci < 1 || c.co < 1)
        return check_fail(d, "only the batch may be empty", err);
    if (c.oh < 1 || c.ow < 1)
        return sl_fail(err, SL_EINVAL,
                       "op %s: window %dx%d does not fit the padded input "
                       "%lldx%lld; use padding \"same\" or a smaller window",
                       kern_op_name((enum kern_op)d->op), w->size[0],
                       w->size[1], (long long)c.h, (long long)c.w);
    return SL_OK;
}

static enum sl_err check_conv(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x =
        &d->io[d->op == KERN_CONV_DGRAD ? d->inputs : 0];
    const struct kern_shape *w =
        &d->io[d->op == KERN_CONV_WGRAD ? d->inputs : 1];
    int32_t groups = d->u.conv.groups;

    if (groups < 1 || x->dim[3] % groups || w->dim[0] % groups)
        return check_fail(
            d, "groups must divide the input channels and the filters", err);
    kern_desc_conv(want, (enum kern_op)d->op, x->dim, w->dim[0], &d->u.conv.win,
                   groups, d->epilogue);
    return check_desc_window(d, &d->u.conv.win, err);
}

static enum sl_err check_pool(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x = &d->io[d->op == KERN_POOL_FWD ? 0 : d->inputs];
    int32_t kind = d->u.pool.kind;

    if (kind != KERN_POOL_MAX && kind != KERN_POOL_AVG)
        return check_fail(d, "unknown kind of pool", err);
    if (d->u.pool.win.dilation[0] != 1 || d->u.pool.win.dilation[1] != 1)
        return check_fail(d, "a pool has no dilation", err);
    if (d->epilogue && kind != KERN_POOL_MAX)
        return check_fail(d, "an average pool has no epilogue", err);
    if ((kern_has(d, KERN_DRELU) && !kern_has(d, KERN_AUX)) ||
        (kern_has(d, KERN_ACCUM) && !kern_has(d, KERN_BGRAD)))
        return check_fail(d, "DRELU needs AUX, and ACCUM needs BGRAD", err);
    kern_desc_pool(want, (enum kern_op)d->op, (enum kern_pool_kind)kind, x->dim,
                   &d->u.pool.win, d->epilogue);
    return check_desc_window(d, &d->u.pool.win, err);
}

static enum sl_err check_matmul(const struct kern_desc *d,
                                struct kern_desc *want, struct sl_error *err)
{
    struct kern_matmul_dims s;
    bool trans_a = d->u.matmul.trans_a, trans_b = d->u.matmul.trans_b;

    if (d->io[0].nd < 2 || d->io[0].nd > 3)
        return check_fail(d, "matrices have two dimensions, three with a batch",
                          err);
    kern_matmul_dims(&s, d);
    if (d->io[0].nd == 2) {
        kern_desc_matmul(want, s.m, s.n, s.k, trans_a, trans_b, d->epilogue);
    } else {
        if (d->epilogue & (KERN_BIAS | KERN_BGRAD))
            return check_fail(d, "a batch of products has no bias or row sum",
                              err);
        kern_desc_matmul_batch(want, s.batch, s.m, s.n, s.k, trans_a, trans_b,
                               d->epilogue);
    }
    return SL_OK;
}

static enum sl_err check_view(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x = &d->io[0], *y = &d->io[d->inputs];

    if (d->op == KERN_AXPBY) {
        if (x->nd != y->nd || memcmp(x->dim, y->dim, sizeof(x->dim)) != 0)
            return check_fail(d, "the two views differ in their dimensions",
                              err);
        kern_desc_axpby(want, x, y, d->u.unary.a, d->u.unary.b);
    } else {
        kern_desc_fill(want, y, d->u.unary.a);
    }
    if (x->dtype != KERN_F32 || y->dtype != KERN_F32)
        return check_fail(d, "views are f32", err);
    for (unsigned i = 0; i < y->nd && kern_shape_count(y) > 0; i++)
        if (y->dim[i] > 1 && y->stride[i] == 0)
            return check_fail(d, "the output writes one element twice", err);
    return SL_OK;
}

static enum sl_err check_unary(const struct kern_desc *d,
                               struct kern_desc *want, struct sl_error *err)
{
    int32_t kind = d->u.unary.kind;
    const struct kern_shape *x = &d->io[0];

    if (d->op == KERN_BINARY) {
        if (kind < KERN_ADD || kind > KERN_MIN)
            return check_fail(d, "unknown kind", err);
        if (d->inputs < 2 || d->inputs > 8 ||
            (kind == KERN_SUB && d->inputs != 2))
            return check_fail(d, "takes 2 to 8 inputs, sub exactly two", err);
        kern_desc_binary(want, (enum kern_binary_kind)kind, d->inputs, x->nd,
                         x->dim);
    } else {
        if (kind < 1 || kind >= KERN_UNARY_COUNT)
            return check_fail(d, "unknown activation", err);
        kern_desc_unary(want, (enum kern_op)d->op, (enum kern_unary_kind)kind,
                        d->u.unary.a, x->nd, x->dim);
    }
    return SL_OK;
}

static enum sl_err check_pick(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x = &d->io[0];
    int32_t kind = d->u.pick.kind, which = d->u.pick.which;

    if (kind != KERN_MAX && kind != KERN_MIN)
        return check_fail(d, "unknown kind", err);
    if (d->inputs < 3 || d->inputs > 9)
        return check_fail(d, "takes dy and 2 to 8 inputs", err);
    if (which < 0 || which >= d->inputs - 1)
        return check_fail(d, "no such input", err);
    kern_desc_pick(want, (enum kern_binary_kind)kind, d->inputs - 1u,
                   (unsigned)which, x->nd, x->dim);
    return SL_OK;
}

static enum sl_err check_table(const struct kern_desc *d,
                               struct kern_desc *want, struct sl_error *err)
{
    const struct kern_shape *table =
        &d->io[d->op == KERN_GATHER ? 1 : d->inputs];

    if (table->nd != 2 || table->dim[0] < 1 || table->dim[1] < 1)
        return check_fail(d, "the table is empty", err);
    kern_desc_gather(want, (enum kern_op)d->op, d->io[0].dim[0], table->dim[0],
                     table->dim[1]);
    return SL_OK;
}

static enum sl_err check_penalty(const struct kern_desc *d,
                                 struct kern_desc *want, struct sl_error *err)
{
    float l1 = d->u.penalty.l1, l2 = d->u.penalty.l2, rows = d->u.penalty.rows;

    if (!(l1 >= 0) || !(l2 >= 0) || !(rows >= 0))
        return check_fail(d, "l1, l2 and rows must be 0 or more", err);
    kern_desc_penalty(want, l1, l2, rows, d->io[0].nd, d->io[0].dim,
                      d->epilogue);
    return SL_OK;
}

static enum sl_err check_loss(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x = &d->io[0];
    int32_t kind = d->u.loss.kind;
    uint32_t epilogue = d->epilogue & ~(uint32_t)KERN_WEIGHT;

    if (kern_cols(x) < 1)
        return check_fail(d, "the last axis is empty", err);
    if (!(d->u.loss.smoothing >= 0 && d->u.loss.smoothing < 1) ||
        d->u.loss.top < 0)
        return check_fail(d, "smoothing must be in [0, 1), and top 0 or more",
                          err);
    if (kern_has(d, KERN_WEIGHT) && x->nd < 2)
        return check_fail(d, "weights want rows of two axes or more", err);
    if (d->op == KERN_XENT) {
        kern_desc_xent(want, x->dim[0], x->dim[1], d->io[1].dtype == KERN_I32,
                       epilogue);
        kern_desc_top(want, d->u.loss.top);
        kern_desc_smooth(want, d->u.loss.smoothing);
    } else if (d->op == KERN_BCE) {
        if (kind != KERN_BCE_LOGITS && kind != KERN_BCE_PROBABILITIES)
            return check_fail(d, "unknown kind", err);
        kern_desc_bce(want, (enum kern_bce_kind)kind, x->nd, x->dim, epilogue);
        kern_desc_smooth(want, d->u.loss.smoothing);
    } else {
        kern_desc_mse(want, x->nd, x->dim, epilogue);
        if (kind == KERN_MSE_ABSOLUTE)
            kern_desc_absolute(want);
    }
    if (kern_has(d, KERN_WEIGHT))
        kern_desc_weigh(want);
    return SL_OK;
}

static enum sl_err check_rest(const struct kern_desc *d, struct kern_desc *want,
                              struct sl_error *err)
{
    const struct kern_shape *x = &d->io[0];
    enum kern_op op = (enum kern_op)d->op;

    switch (op) {
    case KERN_BN_FWD:
    case KERN_BN_INFER:
    case KERN_BN_BWD:
        if (kern_cols(x) < 1 || !(d->u.norm.epsilon >= 0))
            return check_fail(d, "needs channels, and an epsilon of 0 or more",
                              err);
        kern_desc_norm(want, op, x->nd, x->dim, d->u.norm.epsilon, d->epilogue);
        return SL_OK;
    case KERN_LN_FWD:
    case KERN_LN_BWD:
        if (kern_cols(x) < 1 || !(d->u.norm.epsilon >= 0))
            return check_fail(d, "needs channels, and an epsilon of 0 or more",
                              err);
        kern_desc_ln(want, op, x->nd, x->dim, d->u.norm.epsilon);
        return SL_OK;
    case KERN_SOFTMAX_FWD:
    case KERN_SOFTMAX_BWD:
        if (kern_cols(x) < 1)
            return check_fail(d, "the last axis is empty", err);
        kern_desc_softmax(want, op, x->nd, x->dim);
        return SL_OK;
    case KERN_DROPOUT:
        if (!(d->u.dropout.rate >= 0 && d->u.dropout.rate < 1))
            return check_fail(d, "rate must be in [0, 1)", err);
        if (d->u.dropout.layer > 0xffff)
            return check_fail(d, "layer must be below 65536", err);
        if (d->u.dropout.first >= UINT64_C(1) << 50)
            return check_fail(d, "first must be below 2^50", err);
        kern_desc_dropout(want, d->u.dropout.rate, d->u.dropout.layer, x->nd,
                          x->dim);
        want->u.dropout.first = d->u.dropout.first;
        return SL_OK;
    case KERN_IMAGE_U8:
        kern_desc_image_u8(want, x->nd, x->dim, d->u.unary.a, d->u.unary.b);
        if (kern_cols(&d->io[1]) > kern_cols(x))
            kern_desc_image_pad(want, kern_cols(&d->io[1]));
        return SL_OK;
    case KERN_REDUCE:
        kern_desc_reduce(want, x->nd, x->dim, d->epilogue);
        return SL_OK;
    default:
        kern_desc_unscale_check(want, x->nd, x->dim, d->epilogue);
        return SL_OK;
    }
}

static enum sl_err check_op(const struct kern_desc *d, struct kern_desc *want,
                            struct sl_error *err)
{
    switch (d->op) {
    case KERN_MATMUL:
        return check_matmul(d, want, err);
    case KERN_CONV_FWD:
    case KERN_CONV_DGRAD:
    case KERN_CONV_WGRAD:
        return check_conv(d, want, err);
    case KERN_POOL_FWD:
    case KERN_POOL_BWD:
        return check_pool(d, want, err);
    case KERN_UNARY_FWD:
    case KERN_UNARY_BWD:
    case KERN_BINARY:
        return check_unary(d, want, err);
    case KERN_AXPBY:
    case KERN_FILL:
        return check_view(d, want, err);
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
        return check_loss(d, want, err);
    case KERN_PICK:
        return check_pick(d, want, err);
    case KERN_GATHER:
    case KERN_GATHER_BWD:
        return check_table(d, want, err);
    case KERN_PENALTY:
        return check_penalty(d, want, err);
    default:
        return check_rest(d, want, err);
    }
}

// Doubles are f32's twin: judge the twin.
static void f32_twin(struct kern_desc *d)
{
    bool loss = d->op == KERN_XENT || d->op == KERN_BCE || d->op == KERN_MSE;
    unsigned stats =
        loss || d->op == KERN_UNSCALE_CHECK || d->op == KERN_PENALTY ? 1 : 0;

    for (unsigned i = 0; i + stats < d->inputs + d->outputs; i++)
        if (d->io[i].dtype == KERN_F64)
            d->io[i].dtype = KERN_F32;
}

// Mixed precision: are the dtypes those of kern_desc_dtype, or of the two
// exceptions? Then leaves f32's twin in *d, to be judged like any other.
static bool mixed_twin(struct kern_desc *d)
{
    uint32_t typed = kern_typed(d);
    uint8_t t = d->io[__builtin_ctz(typed)].dtype;
    bool product = d->op == KERN_MATMUL || d->op == KERN_CONV_WGRAD;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        struct kern_shape *s = &d->io[i];
        bool wide = product && i == d->inputs && s->dtype == KERN_F32;
        bool half = kern_is_half(s);

        if (half && !(typed >> i & 1))
            return false;
        if (typed >> i & 1 && s->dtype != t && d->op != KERN_AXPBY &&
            !(wide && kern_dtype_bytes((enum kern_dtype)t) == 2))
            return false;
        if (half && product && i == d->inputs && kern_has(d, KERN_ACCUM))
            return false;
        if (half)
            s->dtype = KERN_F32;
    }
    return true;
}

enum sl_err kern_desc_check(const struct kern_desc *desc, struct sl_error *err)
{
    struct kern_desc d = *desc, want;
    enum sl_err rc;

    if (d.size != sizeof(d) || d.op == KERN_OP_NONE || d.op >= KERN_OP_COUNT)
        return sl_fail(err, SL_EINVAL,
                       "op descriptor of size %u and op %u: not of this build",
                       d.size, d.op);
    if (d.outputs < 1 || d.inputs + d.outputs > KERN_IO)
        return check_fail(&d, "wrong number of inputs or outputs", err);
    if (d.epilogue & ~kern_op_epilogues((enum kern_op)d.op))
        return check_fail(&d, "an epilogue that this op does not take", err);
    if (d.math > KERN_MATH_TF32)
        return check_fail(&d, "an unknown way to compute", err);
    d.math = 0; // any op may set it, and only some ops look at it
    f32_twin(&d);
    if (!mixed_twin(&d))
        return check_fail(&d, "dtypes that do not go together", err);
    rc = check_desc_shapes(&d, err);
    if (rc == SL_OK)
        rc = check_op(&d, &want, err);
    if (rc == SL_OK && !kern_desc_equal(&d, &want))
        return check_fail(&d, "shapes or parameters do not fit together", err);
    return rc;
}
