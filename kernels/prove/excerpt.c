// SPDX-License-Identifier: Apache-2.0
// kernels/prove/excerpt.c -- where the axes of an excerpt lie in each tensor of
// an op.
#include "kernels/prove/excerpt.h"

#include <math.h>
#include <string.h>

static void cut_axis(struct excerpt *c, int which, unsigned i, int axis)
{
    c->axis[which][i] = (int8_t)axis;
}

// Cuts these tensors (bits of io[]) along their first axis.
static void cut_first_axis(struct excerpt *c, uint32_t tensors)
{
    for (unsigned i = 0; i < KERN_IO; i++)
        if (tensors >> i & 1)
            cut_axis(c, CUT_ROWS, i, 0);
}

// Cuts these tensors along their first axis, unless that is the one over which
// the op sums.
static void cut_rows(struct excerpt *c, const struct kern_desc *d,
                     uint32_t tensors)
{
    if (d->io[0].nd > 1)
        cut_first_axis(c, tensors);
}

// Cuts these tensors along their last axis.
static void cut_last_axis(struct excerpt *c, const struct kern_desc *d,
                          uint32_t tensors)
{
    for (unsigned i = 0; i < KERN_IO; i++)
        if (tensors >> i & 1)
            cut_axis(c, CUT_COLUMNS, i, d->io[i].nd - 1);
}

static uint32_t all_tensors(const struct kern_desc *d)
{
    return (1u << (d->inputs + d->outputs)) - 1;
}

static void cut_matmul(struct excerpt *c, const struct kern_desc *d)
{
    int lead = d->io[d->inputs].nd - 2; // a batch's axis

    cut_axis(c, CUT_ROWS, 0, lead + (d->u.matmul.trans_a ? 1 : 0));
    cut_axis(c, CUT_ROWS, d->inputs, lead);
    cut_axis(c, CUT_COLUMNS, 1, lead + (d->u.matmul.trans_b ? 0 : 1));
    cut_axis(c, CUT_COLUMNS, d->inputs, lead + 1);
    if (kern_has(d, KERN_BIAS))
        cut_axis(c, CUT_COLUMNS, 2, 0);
    if (kern_has(d, KERN_BGRAD))
        cut_axis(c, CUT_ROWS, d->inputs + 1u, 0);
}

// Cuts tensor `i` along its axis of channels, so many of which make a group.
static void cut_groups(struct excerpt *c, int which, unsigned i, int axis,
                       int64_t unit)
{
    cut_axis(c, which, i, axis);
    c->unit[which][i] = unit;
}

// Returns the axis that is cut by groups, which tie channels of both sides
// together; -1: the op has none.
static int groups_axis(const struct kern_desc *d)
{
    if (d->op > KERN_CONV_WGRAD || d->op == KERN_MATMUL ||
        d->u.conv.groups == 1)
        return -1;
    return d->op == KERN_CONV_WGRAD ? CUT_ROWS : CUT_COLUMNS;
}

static void cut_conv_groups(struct excerpt *c, const struct kern_desc *d)
{
    bool wgrad = d->op == KERN_CONV_WGRAD;
    struct kern_conv_dims dims;
    int which = groups_axis(d);
    int64_t in, out;

    kern_conv_dims(&dims, d);
    in = dims.ci / dims.groups;
    out = dims.co / dims.groups;
    cut_groups(c, which, 0, 3, d->op == KERN_CONV_DGRAD ? out : in);
    cut_groups(c, which, 1, wgrad ? 3 : 0, out);
    cut_groups(c, which, d->inputs, wgrad ? 0 : 3,
               d->op == KERN_CONV_DGRAD ? in : out);
    if (kern_has(d, KERN_BIAS))
        cut_groups(c, which, 2, 0, out);
    if (kern_has(d, KERN_BGRAD))
        cut_groups(c, which, d->inputs + 1u, 0, out);
}

static void cut_conv(struct excerpt *c, const struct kern_desc *d)
{
    bool wgrad = d->op == KERN_CONV_WGRAD, dgrad = d->op == KERN_CONV_DGRAD;

    if (!wgrad) {
        cut_axis(c, CUT_ROWS, 0, 0);
        cut_axis(c, CUT_ROWS, d->inputs, 0);
    }
    if (groups_axis(d) >= 0) {
        cut_conv_groups(c, d);
        return;
    }
    if (wgrad) {
        cut_axis(c, CUT_ROWS, 1, 3);
        cut_axis(c, CUT_ROWS, 2, 0);
        cut_axis(c, CUT_COLUMNS, 0, 3);
    } else {
        cut_axis(c, CUT_COLUMNS, 1, dgrad ? 3 : 0);
    }
    cut_axis(c, CUT_COLUMNS, d->inputs, 3);
    if (kern_has(d, KERN_BGRAD))
        cut_axis(c, CUT_ROWS, 3, 0);
    if (kern_has(d, KERN_BIAS))
        cut_axis(c, CUT_COLUMNS, 2, 0);
}

// Losses: rows of the gradient; the sums over all rows are not a part's.
static void cut_loss(struct excerpt *c, const struct kern_desc *d)
{
    cut_rows(c, d,
             1u << 0 | 1u << 1 | 1u << d->inputs |
                 (kern_has(d, KERN_WEIGHT) ? 1u << 3 : 0));
    c->outs = 1u << d->inputs;
}

static void cut_axes(struct excerpt *c, const struct kern_desc *d)
{
    uint32_t all = all_tensors(d);

    switch (d->op) {
    case KERN_MATMUL:
        cut_matmul(c, d);
        break;
    case KERN_CONV_FWD:
    case KERN_CONV_DGRAD:
    case KERN_CONV_WGRAD:
        cut_conv(c, d);
        break;
    case KERN_POOL_FWD:
    case KERN_POOL_BWD:
        cut_last_axis(c, d, all);
        if (!kern_has(d, KERN_BGRAD))
            cut_first_axis(c, all);
        break;
    case KERN_BN_FWD:
    case KERN_BN_INFER:
    case KERN_BN_BWD:
    case KERN_REDUCE:
        cut_last_axis(c, d, all);
        break;
    case KERN_UNARY_FWD:
    case KERN_UNARY_BWD:
    case KERN_BINARY:
    case KERN_AXPBY:
    case KERN_FILL:
    case KERN_PICK:
        cut_first_axis(c, all);
        break;
    case KERN_SOFTMAX_FWD:
    case KERN_SOFTMAX_BWD:
    case KERN_IMAGE_U8:
        cut_rows(c, d, all);
        break;
    case KERN_DROPOUT: // not its key
        cut_first_axis(c, 1u << 0 | 1u << d->inputs);
        break;
    case KERN_LN_FWD:
        cut_rows(c, d, 1u << 0 | 1u << d->inputs);
        break;
    case KERN_LN_BWD:
        cut_rows(c, d, all & ~(1u << 2));
        break;
    case KERN_GATHER:
        cut_first_axis(c, 1u << 0 | 1u << d->inputs);
        cut_last_axis(c, d, 1u << 1 | 1u << d->inputs);
        break;
    case KERN_GATHER_BWD:
        cut_first_axis(c, 1u << d->inputs);
        cut_last_axis(c, d, 1u << 1 | 1u << d->inputs);
        break;
    case KERN_XENT:
    case KERN_BCE:
    case KERN_MSE:
        cut_loss(c, d);
        break;
    case KERN_UNSCALE_CHECK:
    case KERN_PENALTY:
        cut_first_axis(c, 1u << 0 | 1u << d->inputs);
        c->outs = 1u << d->inputs;
        break;
    default:
        break;
    }
}

void excerpt_whole(struct excerpt *c, const struct kern_desc *d)
{
    unsigned tensors = d->inputs + d->outputs;

    memset(c, 0, sizeof(*c));
    memset(c->axis, -1, sizeof(c->axis));
    c->outs = ((1u << d->outputs) - 1) << d->inputs;
    for (unsigned i = 0; i < KERN_IO; i++)
        c->unit[CUT_ROWS][i] = c->unit[CUT_COLUMNS][i] = 1;
    cut_axes(c, d);
    for (int which = 0; which < CUT_AXES; which++) {
        c->length[which] = 1;
        for (unsigned i = 0; i < tensors; i++) {
            int axis = c->axis[which][i];

            // A tensor of one axis has one cut, and rows are first.
            if (axis >= 0 && axis < d->io[i].nd &&
                !(which == CUT_COLUMNS && axis == c->axis[CUT_ROWS][i]))
                c->length[which] = d->io[i].dim[axis] / c->unit[which][i];
            else
                c->axis[which][i] = -1;
        }
        c->count[which] = c->length[which];
    }
}

double excerpt_work(const struct kern_desc *d)
{
    double most = 0, taps = 1;

    if (d->op <= KERN_CONV_WGRAD)
        return kern_desc_products(d);
    if (d->op == KERN_GATHER_BWD)
        return (double)kern_shape_count(&d->io[d->inputs]) *
               (double)d->io[0].dim[0];
    if (d->op == KERN_POOL_FWD || d->op == KERN_POOL_BWD)
        taps = (double)d->u.pool.win.size[0] * d->u.pool.win.size[1];
    // What ref does for an element, in multiplications of a product.
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        most += 8 * (double)kern_shape_count(&d->io[i]);
    return taps > 8 ? most * taps / 8 : most;
}

void excerpt_shrink(struct excerpt *c, const struct kern_desc *d, double most)
{
    double times = excerpt_work(d) / most;

    for (int which = 0; which < CUT_AXES && times > 1; which++) {
        int64_t left = (int64_t)((double)c->length[which] / times);

        c->count[which] = left < 1 ? 1 : left;
        times *= (double)c->count[which] / (double)c->length[which];
    }
    // A part of all rows and columns may be compared as a whole.
    if (c->count[0] == c->length[0] && c->count[1] == c->length[1])
        c->outs = ((1u << d->outputs) - 1) << d->inputs;
}

void excerpt_desc(struct kern_desc *part, const struct kern_desc *d,
                  const struct excerpt *c)
{
    *part = *d;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        int64_t dim[KERN_DIMS];

        memcpy(dim, d->io[i].dim, sizeof(dim));
        for (int which = 0; which < CUT_AXES; which++)
            if (c->axis[which][i] >= 0)
                dim[c->axis[which][i]] = c->count[which] * c->unit[which][i];
        part->io[i] =
            kern_shape((enum kern_dtype)d->io[i].dtype, d->io[i].nd, dim);
    }
    if (groups_axis(d) >= 0)
        part->u.conv.groups = (int32_t)c->count[groups_axis(d)];
    if (d->op == KERN_DROPOUT && d->io[0].nd > 0)
        part->u.dropout.first +=
            (uint64_t)(c->from[CUT_ROWS] * d->io[0].stride[0]);
}

// Returns where element `k` of the part's tensor `i` lies in the whole one,
// with these strides.
static int64_t place_by(const int64_t *stride, const struct kern_desc *part,
                        const struct excerpt *c, unsigned i, int64_t k)
{
    const struct kern_shape *s = &part->io[i];
    int64_t at = 0;

    for (unsigned n = s->nd; n-- > 0;) {
        int64_t x = k % s->dim[n];

        for (int which = 0; which < CUT_AXES; which++)
            if (c->axis[which][i] == (int)n)
                x += c->from[which] * c->unit[which][i];
        at += x * stride[n];
        k /= s->dim[n];
    }
    return at;
}

int64_t excerpt_place(const struct kern_desc *part, const struct kern_desc *d,
                      const struct excerpt *c, unsigned i, int64_t k)
{
    struct kern_shape dense =
        kern_shape((enum kern_dtype)d->io[i].dtype, d->io[i].nd, d->io[i].dim);

    return place_by(dense.stride, part, c, i, k);
}

// Makes numbers of a table's rows those of its rows from `from` on. What is
// behind the point goes: a row above the part would round to the first one.
static void number_rows(float *ids, int64_t n, int64_t from)
{
    for (int64_t i = 0; i < n; i++)
        ids[i] = floorf(ids[i]) - (float)from;
}

void excerpt_take(void *to, const struct kern_desc *part, const void *from,
                  const struct kern_desc *d, const struct excerpt *c,
                  unsigned i)
{
    const struct kern_shape *s = &part->io[i];
    size_t each = kern_dtype_bytes((enum kern_dtype)s->dtype);
    int64_t run = s->nd > 0 ? s->dim[s->nd - 1] : 1; // lies together
    bool dense = s->nd > 0 && d->io[i].stride[s->nd - 1] == 1;

    if (!dense)
        run = 1;
    for (int64_t k = 0; run > 0 && k < kern_shape_count(s); k += run)
        memcpy((char *)to + (size_t)k * each,
               (const char *)from +
                   (size_t)place_by(d->io[i].stride, part, c, i, k) * each,
               (size_t)run * each);
    if (d->op == KERN_GATHER_BWD && i == 0)
        number_rows(to, kern_shape_count(s), c->from[CUT_ROWS]);
}
