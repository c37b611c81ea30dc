// SPDX-License-Identifier: Apache-2.0
// kernels/desc.c -- builders of descriptors, and how backends read them.
#include "kernels/desc.h"

#include <string.h>

static const char *const op_names[KERN_OP_COUNT] = {"?",
#define KERN_OP_TEXT(name, text) text,
                                                    KERN_OP_MAP(KERN_OP_TEXT)
#undef KERN_OP_TEXT
};

const char *kern_op_name(enum kern_op op)
{
    return (unsigned)op < KERN_OP_COUNT ? op_names[op] : "?";
}

// ---- Shapes and windows ---------------------------------------------------

size_t kern_dtype_bytes(enum kern_dtype dtype)
{
    switch (dtype) {
    case KERN_I8:
    case KERN_U8:
    case KERN_BOOL:
        return 1;
    case KERN_F16:
    case KERN_BF16:
        return 2;
    case KERN_F32:
    case KERN_I32:
        return 4;
    case KERN_F64:
    case KERN_I64:
        return 8;
    }
    return 0;
}

struct kern_shape kern_shape(enum kern_dtype dtype, unsigned nd,
                             const int64_t *dim)
{
    struct kern_shape s;
    int64_t stride = 1;

    memset(&s, 0, sizeof(s));
    s.dtype = (uint8_t)dtype;
    if (nd > KERN_DIMS)
        return s; // what reads its dimensions before the check finds none
    s.nd = (uint8_t)nd;
    for (unsigned i = nd; i-- > 0;) {
        s.dim[i] = dim[i];
        s.stride[i] = stride;
        // A product that overflows is refused by kern_desc_check.
        if (__builtin_mul_overflow(stride, dim[i], &stride))
            stride = 0;
    }
    return s;
}

static struct kern_shape desc_vector(enum kern_dtype dtype, int64_t n)
{
    return kern_shape(dtype, 1, &n);
}

int64_t kern_shape_count(const struct kern_shape *s)
{
    int64_t count = 1;

    for (unsigned i = 0; i < s->nd; i++)
        count *= s->dim[i];
    return count;
}

size_t kern_shape_bytes(const struct kern_shape *s)
{
    return (size_t)kern_shape_count(s) *
           kern_dtype_bytes((enum kern_dtype)s->dtype);
}

int64_t kern_shape_extent(const struct kern_shape *s)
{
    int64_t last = 0;

    for (unsigned i = 0; i < s->nd; i++) {
        if (s->dim[i] == 0)
            return 0;
        last += (s->dim[i] - 1) * s->stride[i];
    }
    return last + 1;
}

bool kern_shape_dense(const struct kern_shape *s)
{
    int64_t stride = 1;

    for (unsigned i = s->nd; i-- > 0;) {
        if (s->dim[i] != 1 && s->stride[i] != stride)
            return false;
        stride *= s->dim[i];
    }
    return true;
}

int64_t kern_cols(const struct kern_shape *s)
{
    return s->nd ? s->dim[s->nd - 1] : 1;
}

int64_t kern_rows(const struct kern_shape *s)
{
    int64_t rows = 1;

    for (unsigned i = 0; i + 1 < s->nd; i++)
        rows *= s->dim[i];
    return rows;
}

int64_t kern_each(const struct kern_shape *s)
{
    int64_t each = 1;

    for (unsigned i = 1; i < s->nd; i++)
        each *= s->dim[i];
    return each;
}

int64_t kern_window_reach(const struct kern_window *w, int axis)
{
    return w->dilation[axis] * ((int64_t)w->size[axis] - 1) + 1;
}

int64_t kern_window_out(const struct kern_window *w, int axis, int64_t in)
{
    int64_t space = in + w->pad_before[axis] + w->pad_after[axis] -
                    kern_window_reach(w, axis);

    if (w->size[axis] < 1 || w->stride[axis] < 1 || space < 0)
        return 0;
    return space / w->stride[axis] + 1;
}

struct kern_window kern_window(int32_t kh, int32_t kw, int32_t sh, int32_t sw)
{
    return (struct kern_window){
        .size = {kh, kw}, .stride = {sh, sw}, .dilation = {1, 1}};
}

// ---- Builders -------------------------------------------------------------

static void desc_begin(struct kern_desc *d, enum kern_op op, uint32_t epilogue)
{
    memset(d, 0, sizeof(*d));
    d->size = sizeof(*d);
    d->op = op;
    d->epilogue = epilogue;
}

// Inputs first: an output may only follow.
static void desc_add_input(struct kern_desc *d, struct kern_shape s)
{
    d->io[d->inputs++] = s;
}

static void desc_add_output(struct kern_desc *d, struct kern_shape s)
{
    d->io[d->inputs + d->outputs++] = s;
}

void kern_desc_matmul(struct kern_desc *d, int64_t m, int64_t n, int64_t k,
                      bool trans_a, bool trans_b, uint32_t epilogue)
{
    desc_begin(d, KERN_MATMUL, epilogue);
    d->u.matmul.trans_a = trans_a;
    d->u.matmul.trans_b = trans_b;
    d->u.matmul.batch = 1;
    desc_add_input(
        d,
        kern_shape(KERN_F32, 2, (int64_t[]){trans_a ? k : m, trans_a ? m : k}));
    desc_add_input(
        d,
        kern_shape(KERN_F32, 2, (int64_t[]){trans_b ? n : k, trans_b ? k : n}));
    if (epilogue & KERN_BIAS)
        desc_add_input(d, desc_vector(KERN_F32, n));
    desc_add_output(d, kern_shape(KERN_F32, 2, (int64_t[]){m, n}));
    if (epilogue & KERN_BGRAD)
        desc_add_output(d, desc_vector(KERN_F32, m));
}

void kern_desc_matmul_batch(struct kern_desc *d, int64_t batch, int64_t m,
                            int64_t n, int64_t k, bool trans_a, bool trans_b,
                            uint32_t epilogue)
{
    desc_begin(d, KERN_MATMUL, epilogue);
    d->u.matmul.trans_a = trans_a;
    d->u.matmul.trans_b = trans_b;
    d->u.matmul.batch = (int32_t)batch;
    desc_add_input(
        d, kern_shape(KERN_F32, 3,
                      (int64_t[]){batch, trans_a ? k : m, trans_a ? m : k}));
    desc_add_input(
        d, kern_shape(KERN_F32, 3,
                      (int64_t[]){batch, trans_b ? n : k, trans_b ? k : n}));
    desc_add_output(d, kern_shape(KERN_F32, 3, (int64_t[]){batch, m, n}));
}

void kern_desc_conv(struct kern_desc *d, enum kern_op op, const int64_t x[4],
                    int64_t co, const struct kern_window *w, int32_t groups,
                    uint32_t epilogue)
{
    struct kern_shape sx = kern_shape(KERN_F32, 4, x);
    struct kern_shape sw = kern_shape(
        KERN_F32, 4,
        (int64_t[]){co, w->size[0], w->size[1], groups ? x[3] / groups : 0});
    struct kern_shape sy =
        kern_shape(KERN_F32, 4,
                   (int64_t[]){x[0], kern_window_out(w, 0, x[1]),
                               kern_window_out(w, 1, x[2]), co});

    desc_begin(d, op, epilogue);
    d->u.conv.win = *w;
    d->u.conv.groups = groups;
    if (op == KERN_CONV_FWD) {
        desc_add_input(d, sx);
        desc_add_input(d, sw);
        if (epilogue & KERN_BIAS)
            desc_add_input(d, desc_vector(KERN_F32, co));
        desc_add_output(d, sy);
    } else if (op == KERN_CONV_DGRAD) {
        desc_add_input(d, sy);
        desc_add_input(d, sw);
        desc_add_output(d, sx);
    } else {
        desc_add_input(d, sx);
        desc_add_input(d, sy);
        desc_add_output(d, sw);
        if (epilogue & KERN_BGRAD)
            desc_add_output(d, desc_vector(KERN_F32, co));
    }
}

void kern_desc_pool(struct kern_desc *d, enum kern_op op,
                    enum kern_pool_kind kind, const int64_t x[4],
                    const struct kern_window *w, uint32_t epilogue)
{
    int64_t y[4] = {x[0], kern_window_out(w, 0, x[1]),
                    kern_window_out(w, 1, x[2]), x[3]};
    int64_t taps = (int64_t)w->size[0] * w->size[1];
    enum kern_dtype aux = taps <= 254 ? KERN_U8 : KERN_I32;

    desc_begin(d, op, epilogue);
    d->u.pool.win = *w;
    d->u.pool.kind = kind;
    if (op == KERN_POOL_FWD) {
        desc_add_input(d, kern_shape(KERN_F32, 4, x));
        desc_add_output(d, kern_shape(KERN_F32, 4, y));
        if (epilogue & KERN_AUX)
            desc_add_output(d, kern_shape(aux, 4, y));
    } else {
        desc_add_input(d, kern_shape(KERN_F32, 4, y));
        if (kind == KERN_POOL_MAX)
            desc_add_input(d, kern_shape(aux, 4, y));
        desc_add_output(d, kern_shape(KERN_F32, 4, x));
        if (epilogue & KERN_BGRAD)
            desc_add_output(d, desc_vector(KERN_F32, x[3]));
    }
}

void kern_desc_norm(struct kern_desc *d, enum kern_op op, unsigned nd,
                    const int64_t *x, float epsilon, uint32_t epilogue)
{
    struct kern_shape sx = kern_shape(KERN_F32, nd, x);
    struct kern_shape sc = desc_vector(KERN_F32, kern_cols(&sx));

    desc_begin(d, op, epilogue);
    d->u.norm.epsilon = epsilon;
    desc_add_input(d, sx);
    if (op == KERN_BN_BWD)
        desc_add_input(d, sx); // dy
    desc_add_input(d, sc);     // gamma
    if (op != KERN_BN_BWD)
        desc_add_input(d, sc); // beta
    if (op != KERN_BN_FWD) {
        desc_add_input(d, sc); // mean
        desc_add_input(d, sc); // var
    }
    desc_add_output(d, sx);
    if (op != KERN_BN_INFER) {
        desc_add_output(d, sc); // mean, or dgamma
        desc_add_output(d, sc); // var, or dbeta
    }
    if (epilogue & KERN_BGRAD)
        desc_add_output(d, sc); // dsum
}

void kern_desc_unary(struct kern_desc *d, enum kern_op op,
                     enum kern_unary_kind kind, float a, unsigned nd,
                     const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, op, 0);
    d->u.unary.kind = kind;
    d->u.unary.a = a;
    desc_add_input(d, s);
    if (op == KERN_UNARY_BWD)
        desc_add_input(d, s);
    desc_add_output(d, s);
}

void kern_desc_binary(struct kern_desc *d, enum kern_binary_kind kind,
                      unsigned inputs, unsigned nd, const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_BINARY, 0);
    d->u.unary.kind = kind;
    for (unsigned i = 0; i < inputs && i + 1 < KERN_IO; i++)
        desc_add_input(d, s);
    desc_add_output(d, s);
}

void kern_desc_axpby(struct kern_desc *d, const struct kern_shape *x,
                     const struct kern_shape *y, float a, float b)
{
    desc_begin(d, KERN_AXPBY, 0);
    d->u.unary.a = a;
    d->u.unary.b = b;
    desc_add_input(d, *x);
    desc_add_output(d, *y);
}

void kern_desc_fill(struct kern_desc *d, const struct kern_shape *y, float a)
{
    desc_begin(d, KERN_FILL, 0);
    d->u.unary.a = a;
    desc_add_output(d, *y);
}

void kern_desc_softmax(struct kern_desc *d, enum kern_op op, unsigned nd,
                       const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, op, 0);
    desc_add_input(d, s);
    if (op == KERN_SOFTMAX_BWD)
        desc_add_input(d, s);
    desc_add_output(d, s);
}

// What all losses end with.
static void loss_tail(struct kern_desc *d, struct kern_shape s)
{
    desc_add_input(d, desc_vector(KERN_F32, 1));
    desc_add_output(d, s);
    desc_add_output(d, desc_vector(KERN_F64, 2));
}

void kern_desc_xent(struct kern_desc *d, int64_t n, int64_t c, bool sparse,
                    uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, 2, (int64_t[]){n, c});

    desc_begin(d, KERN_XENT, epilogue);
    desc_add_input(d, s);
    desc_add_input(d, sparse ? desc_vector(KERN_I32, n) : s);
    loss_tail(d, s);
}

void kern_desc_bce(struct kern_desc *d, enum kern_bce_kind kind, unsigned nd,
                   const int64_t *x, uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_BCE, epilogue);
    d->u.loss.kind = kind;
    desc_add_input(d, s);
    desc_add_input(d, s);
    loss_tail(d, s);
}

void kern_desc_mse(struct kern_desc *d, unsigned nd, const int64_t *x,
                   uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_MSE, epilogue);
    desc_add_input(d, s);
    desc_add_input(d, s);
    loss_tail(d, s);
}

void kern_desc_dropout(struct kern_desc *d, float rate, uint32_t layer,
                       unsigned nd, const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_DROPOUT, 0);
    d->u.dropout.rate = rate;
    d->u.dropout.layer = layer;
    desc_add_input(d, s);
    desc_add_input(d, desc_vector(KERN_I64, 2));
    desc_add_output(d, s);
}

void kern_desc_image_u8(struct kern_desc *d, unsigned nd, const int64_t *x,
                        float a, float b)
{
    desc_begin(d, KERN_IMAGE_U8, 0);
    d->u.unary.a = a;
    d->u.unary.b = b;
    desc_add_input(d, kern_shape(KERN_U8, nd, x));
    desc_add_output(d, kern_shape(KERN_F32, nd, x));
}

void kern_desc_reduce(struct kern_desc *d, unsigned nd, const int64_t *x,
                      uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_REDUCE, epilogue);
    desc_add_input(d, s);
    desc_add_output(d, desc_vector(KERN_F32, kern_cols(&s)));
}

void kern_desc_unscale_check(struct kern_desc *d, unsigned nd, const int64_t *x,
                             uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_UNSCALE_CHECK, epilogue);
    desc_add_input(d, s);
    loss_tail(d, s);
}

void kern_desc_pick(struct kern_desc *d, enum kern_binary_kind kind,
                    unsigned inputs, unsigned which, unsigned nd,
                    const int64_t *x)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_PICK, 0);
    d->u.pick.kind = kind;
    d->u.pick.which = (int32_t)which;
    desc_add_input(d, s); // dy
    for (unsigned i = 0; i < inputs && i + 2 < KERN_IO; i++)
        desc_add_input(d, s);
    desc_add_output(d, s);
}

void kern_desc_ln(struct kern_desc *d, enum kern_op op, unsigned nd,
                  const int64_t *x, float epsilon)
{
    struct kern_shape sx = kern_shape(KERN_F32, nd, x);
    struct kern_shape sc = desc_vector(KERN_F32, kern_cols(&sx));

    desc_begin(d, op, 0);
    d->u.norm.epsilon = epsilon;
    desc_add_input(d, sx);
    if (op == KERN_LN_BWD)
        desc_add_input(d, sx); // dy
    desc_add_input(d, sc);     // gamma
    if (op == KERN_LN_FWD)
        desc_add_input(d, sc); // beta
    desc_add_output(d, sx);
    if (op == KERN_LN_BWD)
        desc_add_output(d, sx); // t
}

void kern_desc_gather(struct kern_desc *d, enum kern_op op, int64_t n,
                      int64_t v, int64_t c)
{
    struct kern_shape table = kern_shape(KERN_F32, 2, (int64_t[]){v, c});
    struct kern_shape y = kern_shape(KERN_F32, 2, (int64_t[]){n, c});

    desc_begin(d, op, 0);
    desc_add_input(d, desc_vector(KERN_F32, n));
    desc_add_input(d, op == KERN_GATHER ? table : y);
    desc_add_output(d, op == KERN_GATHER ? y : table);
}

void kern_desc_penalty(struct kern_desc *d, float l1, float l2, float rows,
                       unsigned nd, const int64_t *x, uint32_t epilogue)
{
    struct kern_shape s = kern_shape(KERN_F32, nd, x);

    desc_begin(d, KERN_PENALTY, epilogue);
    d->u.penalty.l1 = l1;
    d->u.penalty.l2 = l2;
    d->u.penalty.rows = rows;
    desc_add_input(d, s);
    desc_add_input(d, desc_vector(KERN_F32, 1));
    loss_tail(d, s);
}

void kern_desc_smooth(struct kern_desc *d, float smoothing)
{
    d->u.loss.smoothing = smoothing;
}

void kern_desc_top(struct kern_desc *d, int32_t top)
{
    d->u.loss.top = top;
}

void kern_desc_absolute(struct kern_desc *d)
{
    d->u.loss.kind = KERN_MSE_ABSOLUTE;
}

void kern_desc_weigh(struct kern_desc *d)
{
    int64_t n = d->io[0].dim[0];

    d->io[5] = d->io[4];
    d->io[4] = d->io[3];
    d->io[3] = desc_vector(KERN_F32, n);
    d->inputs++;
    d->epilogue |= KERN_WEIGHT;
    if (d->io[1].dtype == KERN_I32)
        d->io[1] = kern_shape(KERN_I32, 2, (int64_t[]){n, 2});
}

void kern_desc_image_pad(struct kern_desc *d, int64_t channels)
{
    int64_t dim[KERN_DIMS];
    unsigned nd = d->io[1].nd;

    if (nd < 1 || nd > KERN_DIMS)
        return; // kern_desc_check refuses it
    memcpy(dim, d->io[1].dim, sizeof(dim));
    dim[nd - 1] = channels;
    d->io[1] = kern_shape((enum kern_dtype)d->io[1].dtype, nd, dim);
}

static bool is_float(const struct kern_shape *s)
{
    return s->dtype == KERN_F32 || s->dtype == KERN_F16 ||
           s->dtype == KERN_BF16;
}

void kern_desc_f64(struct kern_desc *d)
{
    for (unsigned i = 0; i < d->inputs + d->outputs && i < KERN_IO; i++)
        if (is_float(&d->io[i]))
            d->io[i].dtype = KERN_F64;
}

uint32_t kern_typed(const struct kern_desc *d)
{
    uint32_t in = (1u << d->inputs) - 1, out = 1u << d->inputs;

    switch (d->op) {
    case KERN_POOL_FWD:
    case KERN_POOL_BWD:
    case KERN_BN_FWD:
    case KERN_BN_INFER:
    case KERN_DROPOUT:
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
        return 1 | out;
    case KERN_LN_FWD:
        return 1 | out;
    case KERN_BN_BWD:
    case KERN_LN_BWD:
        return 3 | out;
    case KERN_GATHER_BWD:
        return 2;
    case KERN_IMAGE_U8:
    case KERN_GATHER:
        return out;
    case KERN_PENALTY:
    case KERN_REDUCE:
    case KERN_UNSCALE_CHECK:
        return 1;
    default:
        return in | out;
    }
}

void kern_desc_dtype(struct kern_desc *d, enum kern_dtype t)
{
    bool sums = (d->op == KERN_MATMUL || d->op == KERN_CONV_WGRAD) &&
                kern_has(d, KERN_ACCUM);
    uint32_t typed = kern_typed(d);

    for (unsigned i = 0; i < d->inputs + d->outputs && i < KERN_IO; i++)
        if (typed >> i & 1 && is_float(&d->io[i]) && !(sums && i == d->inputs))
            d->io[i].dtype = (uint8_t)t;
}

bool kern_desc_plain(const struct kern_desc *d)
{
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        if (d->io[i].dtype == KERN_F16 || d->io[i].dtype == KERN_BF16)
            return false;
    return d->op != KERN_IMAGE_U8 ||
           kern_cols(&d->io[0]) == kern_cols(&d->io[1]);
}

// ---- Reading --------------------------------------------------------------

void kern_conv_dims(struct kern_conv_dims *out, const struct kern_desc *d)
{
    bool pool = d->op == KERN_POOL_FWD || d->op == KERN_POOL_BWD;
    bool backward = d->op == KERN_CONV_DGRAD || d->op == KERN_POOL_BWD;
    const struct kern_shape *small, *x;

    // io[] of each direction: FWD x,..,y; DGRAD dy,w,dx; WGRAD x,dy,..;
    // POOL_BWD dy,..,dx.
    x = backward ? &d->io[d->inputs] : &d->io[0];
    small = backward                   ? &d->io[0]
            : d->op == KERN_CONV_WGRAD ? &d->io[1]
                                       : &d->io[d->inputs];
    *out = (struct kern_conv_dims){
        .n = x->dim[0],
        .h = x->dim[1],
        .w = x->dim[2],
        .ci = x->dim[3],
        .oh = small->dim[1],
        .ow = small->dim[2],
        .co = small->dim[3],
        .groups = pool ? 1 : d->u.conv.groups,
        .win = pool ? d->u.pool.win : d->u.conv.win,
    };
}

void kern_matmul_dims(struct kern_matmul_dims *out, const struct kern_desc *d)
{
    const struct kern_shape *a = &d->io[0], *c = &d->io[d->inputs];
    unsigned nd = a->nd;

    *out = (struct kern_matmul_dims){
        .m = c->dim[nd - 2],
        .n = c->dim[nd - 1],
        .k = a->dim[d->u.matmul.trans_a ? nd - 2 : nd - 1],
        .batch = d->u.matmul.batch,
    };
}

bool kern_desc_empty(const struct kern_desc *d)
{
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        if (kern_shape_count(&d->io[i]) == 0)
            return true;
    return false;
}

enum sl_err kern_desc_fits(const struct kern_desc *d, size_t workspace_bytes,
                           size_t cap_bytes, struct sl_error *err)
{
    if (workspace_bytes <= cap_bytes)
        return SL_OK;
    return sl_fail(
        err, SL_ENOMEM, "op %s wants %zu bytes of workspace, %zu are allowed",
        kern_op_name((enum kern_op)d->op), workspace_bytes, cap_bytes);
}

double kern_desc_products(const struct kern_desc *d)
{
    struct kern_matmul_dims m;
    struct kern_conv_dims c;

    if (d->op == KERN_MATMUL) {
        kern_matmul_dims(&m, d);
        return (double)m.batch * (double)m.m * (double)m.n * (double)m.k;
    }
    if (d->op > KERN_CONV_WGRAD)
        return 0;
    kern_conv_dims(&c, d);
    return (double)(c.n * c.oh * c.ow) * (double)(c.co * c.ci / c.groups) *
           c.win.size[0] * c.win.size[1];
}

uint64_t kern_desc_hash(const struct kern_desc *d)
{
    const uint8_t *at = (const uint8_t *)d;
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a

    for (size_t i = 0; i < sizeof(*d); i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

bool kern_desc_equal(const struct kern_desc *a, const struct kern_desc *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}
