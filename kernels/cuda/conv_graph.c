// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv_graph.c -- the descriptors of a convolution's cuDNN graph,
// forward and both gradients.
#include "kernels/cuda/conv_graph.h"

#include "kernels/desc.h"

// uids of what lives only inside a graph.
#define UID_SUM 100
#define UID_BIASED 101

bool conv_graph_has(const struct kern_desc *d)
{
    uint8_t t = d->io[0].dtype;

    if (d->op != KERN_CONV_FWD && d->op != KERN_CONV_DGRAD &&
        d->op != KERN_CONV_WGRAD)
        return false;
    if (t != KERN_F32 && t != KERN_F16 && t != KERN_BF16)
        return false;
    for (unsigned i = 1; i < conv_graph_tensors(d); i++)
        if (d->io[i].dtype != t)
            return false;
    return !kern_has(d, KERN_ACCUM) || t == KERN_F32;
}

bool conv_graph_relu(const struct kern_desc *d)
{
    // cuDNN 9.19 fuses ReLU only behind a bias.
    return kern_has(d, KERN_BIAS) && kern_has(d, KERN_RELU);
}

unsigned conv_graph_tensors(const struct kern_desc *d)
{
    return d->op == KERN_CONV_FWD && kern_has(d, KERN_BIAS) ? 4 : 3;
}

// Ours are n,h,w,c; filters o,h,w,i; both in memory as cuDNN's NHWC.
static cudnnBackendDescriptor_t
conv_graph_add_tensor(struct graph *g, const struct kern_shape *s, int64_t uid,
                      bool between)
{
    int64_t n = s->dim[0], h = s->dim[1], w = s->dim[2], c = s->dim[3];
    const struct graph_tensor t = {
        .uid = uid,
        .dtype = between ? KERN_F32 : (enum kern_dtype)s->dtype,
        .between = between,
        .dim = {n, c, h, w},
        .stride = {h * w * c, 1, w * c, c},
    };

    return graph_tensor(g, &t);
}

static cudnnBackendDescriptor_t
conv_graph_add_vector(struct graph *g, const struct kern_shape *s, int64_t uid)
{
    int64_t c = s->dim[0];
    const struct graph_tensor t = {
        .uid = uid,
        .dtype = (enum kern_dtype)s->dtype,
        .dim = {1, c, 1, 1},
        .stride = {c, 1, c, c},
    };

    return graph_tensor(g, &t);
}

// x, w, (bias) -> y; between the steps values are f32.
static void conv_graph_forward(struct graph *g, const struct kern_desc *d)
{
    bool bias = kern_has(d, KERN_BIAS), relu = conv_graph_relu(d);
    const struct kern_shape *out = &d->io[d->inputs];
    cudnnBackendDescriptor_t x =
        conv_graph_add_tensor(g, &d->io[0], CONV_UID(0), false);
    cudnnBackendDescriptor_t w =
        conv_graph_add_tensor(g, &d->io[1], CONV_UID(1), false);
    cudnnBackendDescriptor_t y =
        conv_graph_add_tensor(g, out, CONV_UID(d->inputs), false);
    cudnnBackendDescriptor_t sum =
        bias ? conv_graph_add_tensor(g, out, UID_SUM, true) : y;
    cudnnBackendDescriptor_t biased = y;

    graph_conv(g, KERN_CONV_FWD, &d->u.conv.win, x, w, sum, 0);
    if (relu)
        biased = conv_graph_add_tensor(g, out, UID_BIASED, true);
    if (bias)
        graph_pointwise(
            g, sum, conv_graph_add_vector(g, &d->io[2], CONV_UID(2)), biased);
    if (relu)
        graph_pointwise(g, biased, NULL, y);
}

// dgrad: dy, w -> dx;  wgrad: x, dy -> dw.
static void conv_graph_backward(struct graph *g, const struct kern_desc *d)
{
    bool wgrad = d->op == KERN_CONV_WGRAD;
    unsigned x = wgrad ? 0 : 2, w = wgrad ? 2 : 1, y = wgrad ? 1 : 0;

    graph_conv(g, (enum kern_op)d->op, &d->u.conv.win,
               conv_graph_add_tensor(g, &d->io[x], CONV_UID(x), false),
               conv_graph_add_tensor(g, &d->io[w], CONV_UID(w), false),
               conv_graph_add_tensor(g, &d->io[y], CONV_UID(y), false),
               kern_has(d, KERN_ACCUM) ? 1.0f : 0.0f);
}

enum sl_err conv_graph(struct graph *g, const struct kern_desc *d,
                       const struct graph_target *t, struct sl_error *err)
{
    graph_init(g, err);
    if (d->op == KERN_CONV_FWD)
        conv_graph_forward(g, d);
    else
        conv_graph_backward(g, d);
    return graph_seal(g, t);
}
