// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/onednn_conv.c -- convolution, its two gradients.
//
// Candidates in order: Winograd where its saving is real (in its own layouts,
// with reorders around it), then direct on NHWC with weights as oneDNN likes
// them, then direct with everything as it likes. The first that is not
// reference code is taken: by rule, not by timing, so that runs repeat.
#include "kernels/cpu/product.h"

#include <stdio.h>
#include <string.h>

// The three tensors of a convolution, whichever are inputs.
enum { SRC, WEIGHTS, DST, TENSORS };

struct onednn_conv {
    const struct kern_desc *d;
    struct kern_conv_dims c;
    struct ob_conv ob; // dims and geometry; tags per candidate
    int io[TENSORS];   // index of io[]
    int out;           // which tensor is computed
    int bias_io;       // of forward; -1: none
};

static void set_md(struct ob_md *m, const struct kern_shape *s, int nd,
                   const int64_t *dims)
{
    m->nd = nd;
    m->type = product_type(s);
    for (int i = 0; i < nd; i++)
        m->dims[i] = dims[i];
}

static void onednn_conv_describe(struct onednn_conv *v,
                                 const struct kern_desc *d)
{
    const struct kern_conv_dims *c = &v->c;
    const struct kern_window *w;
    int64_t kh, kw;

    memset(v, 0, sizeof(*v));
    v->d = d;
    kern_conv_dims(&v->c, d);
    w = &v->c.win;
    kh = w->size[0];
    kw = w->size[1];
    for (int i = 0; i < 2; i++) {
        v->ob.stride[i] = w->stride[i];
        v->ob.dilation[i] = w->dilation[i] - 1;
        v->ob.before[i] = w->pad_before[i];
        v->ob.after[i] = w->pad_after[i];
    }
    v->bias_io = kern_has(d, KERN_BIAS) ? 2 : -1;
    if (d->op == KERN_CONV_FWD) {
        v->ob.way = OB_FWD;
        v->out = DST;
        memcpy(v->io, (int[]){0, 1, d->inputs}, sizeof(v->io));
    } else if (d->op == KERN_CONV_DGRAD) {
        v->ob.way = OB_DGRAD;
        v->out = SRC;
        memcpy(v->io, (int[]){2, 1, 0}, sizeof(v->io));
    } else {
        v->ob.way = OB_WGRAD;
        v->out = WEIGHTS;
        memcpy(v->io, (int[]){0, 2, 1}, sizeof(v->io));
    }
    set_md(&v->ob.src, &d->io[v->io[SRC]], 4,
           (int64_t[]){c->n, c->ci, c->h, c->w});
    set_md(&v->ob.dst, &d->io[v->io[DST]], 4,
           (int64_t[]){c->n, c->co, c->oh, c->ow});
    if (c->groups == 1)
        set_md(&v->ob.weights, &d->io[v->io[WEIGHTS]], 4,
               (int64_t[]){c->co, c->ci, kh, kw});
    else
        set_md(&v->ob.weights, &d->io[v->io[WEIGHTS]], 5,
               (int64_t[]){c->groups, c->co / c->groups, c->ci / c->groups, kh,
                           kw});
    if (v->bias_io >= 0) {
        set_md(&v->ob.bias, &d->io[v->bias_io], 1, &c->co);
        v->ob.bias.tag = dnnl_a;
    }
}

// How the caller has the tensor: NHWC, or OHWI with or without groups.
static enum sl_err user_desc(struct ob_space *space,
                             const struct onednn_conv *v, int t,
                             struct sl_error *err)
{
    const struct kern_conv_dims *c = &v->c;
    int64_t kh = c->win.size[0], kw = c->win.size[1];
    int64_t ig = c->ci / c->groups, og = c->co / c->groups;
    dnnl_data_type_t type = product_type(&v->d->io[v->io[t]]);
    dnnl_status_t st;

    if (t == WEIGHTS && c->groups > 1)
        st = ob_desc_init_strides(
            space, 5, type, v->ob.weights.dims,
            (dnnl_dims_t){og * kh * kw * ig, kh * kw * ig, 1, kw * ig, ig});
    else if (t == WEIGHTS)
        st = ob_desc_init_strides(space, 4, type, v->ob.weights.dims,
                                  (dnnl_dims_t){kh * kw * ig, 1, kw * ig, ig});
    else if (t == SRC)
        st = ob_desc_init_strides(
            space, 4, type, v->ob.src.dims,
            (dnnl_dims_t){c->h * c->w * c->ci, 1, c->w * c->ci, c->ci});
    else
        st = ob_desc_init_strides(
            space, 4, type, v->ob.dst.dims,
            (dnnl_dims_t){c->oh * c->ow * c->co, 1, c->ow * c->co, c->co});
    return prog_status(st, "describe a tensor", err);
}

// ---- Candidates -----------------------------------------------------------

// Winograd F(4,3) does a quarter of the multiplications on 4x4 tiles of the
// output; tiles that hang over the edge are lost, and its layouts cost two
// reorders. Backward-data gained nothing where it was measured.
static bool winograd_pays(const struct onednn_conv *v,
                          const struct cpu_dev *dev)
{
    const struct kern_conv_dims *c = &v->c;
    const struct kern_window *w = &c->win;
    int64_t tiles = (c->oh + 3) / 4 * ((c->ow + 3) / 4) * 16;

    return dev->winograd && v->ob.way != OB_DGRAD && c->groups == 1 &&
           w->size[0] == 3 && w->size[1] == 3 && w->stride[0] == 1 &&
           w->stride[1] == 1 && w->dilation[0] == 1 && w->dilation[1] == 1 &&
           c->ci >= 16 && c->co >= 16 && c->n * c->oh * c->ow >= 1024 &&
           c->oh * c->ow * 4 >= tiles * 3;
}

static enum sl_err onednn_conv_attr(dnnl_primitive_attr_t *attr, bool relu,
                                    struct sl_error *err)
{
    dnnl_post_ops_t ops;
    dnnl_status_t st;
    enum sl_err rc = prog_attr(attr, err);

    if (rc != SL_OK || !relu)
        return rc;
    st = dnnl_post_ops_create(&ops);
    if (st == dnnl_success) {
        st = ob_append_relu(ops);
        if (st == dnnl_success)
            st = dnnl_primitive_attr_set_post_ops(*attr, ops);
        dnnl_post_ops_destroy(ops);
    }
    rc = prog_status(st, "make post-ops", err);
    if (rc != SL_OK)
        dnnl_primitive_attr_destroy(*attr);
    return rc;
}

// Gradients want a forward descriptor as a hint; if there is none by the same
// algorithm, one by the direct algorithm will do.
static dnnl_status_t hint_of(dnnl_primitive_desc_t *hint,
                             const struct ob_conv *like, dnnl_engine_t engine,
                             const_dnnl_primitive_attr_t attr)
{
    struct ob_conv fwd = *like;
    dnnl_status_t st;

    fwd.way = OB_FWD;
    fwd.weights.type = fwd.src.type; // a gradient may be f32
    st = ob_conv_pd(hint, &fwd, engine, NULL, attr, 0);
    if (st == dnnl_success || fwd.alg == dnnl_convolution_direct)
        return st;
    fwd.alg = dnnl_convolution_direct;
    return ob_conv_pd(hint, &fwd, engine, NULL, attr, 0);
}

// Takes oneDNN's first implementation that may compute this; false if there is
// none, or only reference code, which oneDNN has behind all others.
static bool first_usable(dnnl_primitive_desc_t *pd, const struct onednn_conv *v,
                         const struct cpu_dev *dev,
                         const_dnnl_primitive_desc_t hint,
                         const_dnnl_primitive_attr_t attr)
{
    for (unsigned skip = 0; ob_conv_pd(pd, &v->ob, dev->onednn->engine, hint,
                                       attr, skip) == dnnl_success;
         skip++) {
        const char *impl = ob_impl(*pd);
        bool ref = product_is_ref(impl);

        if (!ref && !product_is_wrong(v->d, impl) &&
            !product_left_out(dev, v->d, impl))
            return true;
        dnnl_primitive_desc_destroy(*pd);
        if (ref)
            return false;
    }
    return false;
}

// Tries one candidate: algorithm, and the tag of the activations.
static bool try_candidate(dnnl_primitive_desc_t *pd, struct onednn_conv *v,
                          const struct cpu_dev *dev, dnnl_alg_kind_t alg,
                          dnnl_format_tag_t tag,
                          const_dnnl_primitive_attr_t attr)
{
    struct ob_conv *ob = &v->ob;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t st = dnnl_success;
    bool ok;

    ob->alg = alg;
    ob->src.tag = ob->dst.tag = tag;
    ob->weights.tag = dnnl_format_tag_any;
    if (ob->way != OB_FWD)
        st = hint_of(&hint, ob, dev->onednn->engine, attr);
    ok = st == dnnl_success && first_usable(pd, v, dev, hint, attr);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return ok;
}

static enum sl_err onednn_conv_choose_pd(dnnl_primitive_desc_t *pd,
                                         struct onednn_conv *v,
                                         const struct cpu_dev *dev,
                                         struct sl_error *err)
{
    dnnl_primitive_attr_t attr;
    enum sl_err rc = onednn_conv_attr(&attr, kern_has(v->d, KERN_RELU), err);
    bool ok;

    if (rc != SL_OK)
        return rc;
    ok = winograd_pays(v, dev) &&
         try_candidate(pd, v, dev, dnnl_convolution_winograd,
                       dnnl_format_tag_any, attr);
    ok = ok ||
         try_candidate(pd, v, dev, dnnl_convolution_direct, dnnl_nhwc, attr);
    ok = ok || try_candidate(pd, v, dev, dnnl_convolution_direct,
                             dnnl_format_tag_any, attr);
    dnnl_primitive_attr_destroy(attr);
    if (!ok)
        return sl_fail(err, SL_ENOTSUP,
                       "oneDNN has only reference code, or none that is right, "
                       "for this %s",
                       kern_op_name((enum kern_op)v->d->op));
    return SL_OK;
}

// ---- Building -------------------------------------------------------------

static const struct {
    int fwd, dgrad, wgrad; // arguments
    dnnl_query_t query[3];
} roles[TENSORS] = {
    [SRC] = {DNNL_ARG_SRC,
             DNNL_ARG_DIFF_SRC,
             DNNL_ARG_SRC,
             {dnnl_query_src_md, dnnl_query_diff_src_md, dnnl_query_src_md}},
    [WEIGHTS] = {DNNL_ARG_WEIGHTS,
                 DNNL_ARG_WEIGHTS,
                 DNNL_ARG_DIFF_WEIGHTS,
                 {dnnl_query_weights_md, dnnl_query_weights_md,
                  dnnl_query_diff_weights_md}},
    [DST] = {DNNL_ARG_DST,
             DNNL_ARG_DIFF_DST,
             DNNL_ARG_DIFF_DST,
             {dnnl_query_dst_md, dnnl_query_diff_dst_md,
              dnnl_query_diff_dst_md}},
};

static int arg_of(const struct onednn_conv *v, int t)
{
    return v->ob.way == OB_FWD     ? roles[t].fwd
           : v->ob.way == OB_DGRAD ? roles[t].dgrad
                                   : roles[t].wgrad;
}

// A tensor as the caller has it, and as the primitive wants it.
struct onednn_conv_tensor {
    ob_desc user, own;
    int user_slot, own_slot;
    size_t at; // in the workspace, of a result that is added later
};

// Gives tensor t its slots, and reorders an input that wants it.
static enum sl_err onednn_conv_place_tensor(struct product *p,
                                            const struct onednn_conv *v, int t,
                                            const_dnnl_primitive_desc_t pd,
                                            struct onednn_conv_tensor *pair,
                                            struct sl_error *err)
{
    bool later = t == v->out && kern_has(v->d, KERN_ACCUM);

    pair->own = ob_query(pd, roles[t].query[v->ob.way]);
    if (later) {
        pair->at = p->prog.bytes;
        pair->user_slot = prog_temp(&p->prog, pair->user);
    } else {
        pair->user_slot = prog_io(&p->prog, pair->user, v->io[t]);
    }
    if (ob_same(pair->user, pair->own)) {
        pair->own_slot = pair->user_slot;
        return SL_OK;
    }
    pair->own_slot = prog_temp(&p->prog, pair->own);
    if (t == v->out)
        return SL_OK;
    return prog_reorder(&p->prog, pair->user, pair->user_slot, pair->own,
                        pair->own_slot, err);
}

static enum sl_err onednn_conv_build(struct product *p,
                                     const struct onednn_conv *v,
                                     const_dnnl_primitive_desc_t pd,
                                     struct onednn_conv_tensor pair[TENSORS],
                                     struct sl_error *err)
{
    struct onednn_conv_tensor *out = &pair[v->out];
    struct prog_arg args[4];
    enum sl_err rc = SL_OK;
    int nargs = 0;

    for (int t = 0; t < TENSORS && rc == SL_OK; t++) {
        rc = onednn_conv_place_tensor(p, v, t, pd, &pair[t], err);
        args[nargs++] = (struct prog_arg){arg_of(v, t), pair[t].own_slot};
    }
    if (v->bias_io >= 0)
        args[nargs++] = (struct prog_arg){
            DNNL_ARG_BIAS,
            prog_io(&p->prog,
                    dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1),
                    v->bias_io)};
    if (rc == SL_OK)
        rc = prog_add(&p->prog, pd, args, nargs, err);
    if (rc == SL_OK && out->own_slot != out->user_slot)
        rc = prog_reorder(&p->prog, out->own, out->own_slot, out->user,
                          out->user_slot, err);
    return rc;
}

// What oneDNN does not do, or does slowly: its bias gradient costs more than
// our own sum (conv 1 of fashion: 0.52 ms against 0.23 without).
static void add_tails(struct product *p, const struct onednn_conv *v, size_t at)
{
    const struct kern_conv_dims *c = &v->c;
    bool accum = kern_has(v->d, KERN_ACCUM);

    if (accum)
        product_add(p, kern_shape_count(&v->d->io[2]), at, 2);
    if (kern_has(v->d, KERN_BGRAD))
        product_sum_rows(p, c->n * c->oh * c->ow, c->co, 1, 3, accum);
}

enum sl_err product_conv(struct product *p, struct cpu_dev *dev,
                         const struct kern_desc *d, struct sl_error *err)
{
    struct onednn_conv_tensor pair[TENSORS] = {{0}};
    struct ob_space space[TENSORS];
    dnnl_primitive_desc_t pd = NULL;
    struct onednn_conv v;
    enum sl_err rc;
    int spaces = 0;

    onednn_conv_describe(&v, d);
    rc = onednn_conv_choose_pd(&pd, &v, dev, err);
    if (rc != SL_OK)
        return rc;
    snprintf(p->impl, sizeof(p->impl), "%s", ob_impl(pd));
    for (; spaces < TENSORS && rc == SL_OK; spaces++) {
        rc = user_desc(&space[spaces], &v, spaces, err);
        if (rc != SL_OK)
            break;
        pair[spaces].user = ob_desc_of(&space[spaces]);
    }
    if (rc == SL_OK)
        rc = onednn_conv_build(p, &v, pd, pair, err);
    if (rc == SL_OK)
        add_tails(p, &v, pair[WEIGHTS].at);
    while (spaces-- > 0)
        ob_desc_free(&space[spaces]);
    dnnl_primitive_desc_destroy(pd);
    return rc;
}
