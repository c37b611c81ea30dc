// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/onednn_matmul.c -- dense layers and their gradients.
//
// A transposed operand is the same memory with other strides.
#include "kernels/cpu/product.h"

#include <stdio.h>

// [batch?, rows, cols] at io[index], or its transpose in memory.
static enum sl_err matrix(struct ob_space *space, const struct kern_shape *s,
                          bool transposed, struct sl_error *err)
{
    dnnl_dims_t dims, strides;
    int nd = s->nd, last = nd - 1, before = nd - 2;

    for (int i = 0; i < nd; i++) {
        dims[i] = s->dim[i];
        strides[i] = s->stride[i];
    }
    if (transposed) {
        dims[before] = s->dim[last];
        dims[last] = s->dim[before];
        strides[before] = s->stride[last];
        strides[last] = s->stride[before];
    }
    return prog_status(
        ob_desc_init_strides(space, nd, product_type(s), dims, strides),
        "describe a matrix", err);
}

static enum sl_err onednn_matmul_attr(dnnl_primitive_attr_t *attr,
                                      const struct kern_desc *d,
                                      struct sl_error *err)
{
    dnnl_post_ops_t ops;
    dnnl_status_t st;
    enum sl_err rc = prog_attr(attr, err);

    if (rc != SL_OK || !(d->epilogue & (KERN_ACCUM | KERN_RELU)))
        return rc;
    st = dnnl_post_ops_create(&ops);
    if (st == dnnl_success) {
        if (kern_has(d, KERN_ACCUM))
            st = ob_append_sum(ops);
        if (st == dnnl_success && kern_has(d, KERN_RELU))
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

enum { A, B, BIAS, C, TENSORS };

static enum sl_err onednn_matmul_describe(struct ob_space space[TENSORS],
                                          ob_desc desc[TENSORS],
                                          const struct kern_desc *d,
                                          struct sl_error *err)
{
    const struct kern_shape *c = &d->io[d->inputs];
    enum sl_err rc = matrix(&space[A], &d->io[0], d->u.matmul.trans_a, err);

    if (rc != SL_OK)
        return rc;
    desc[A] = ob_desc_of(&space[A]);
    rc = matrix(&space[B], &d->io[1], d->u.matmul.trans_b, err);
    if (rc != SL_OK)
        return rc;
    desc[B] = ob_desc_of(&space[B]);
    rc = matrix(&space[C], c, false, err);
    if (rc != SL_OK || !kern_has(d, KERN_BIAS)) {
        desc[C] = rc == SL_OK ? ob_desc_of(&space[C]) : NULL;
        return rc;
    }
    desc[C] = ob_desc_of(&space[C]);
    // Bias is a row: [1, n], of memory [n].
    rc = prog_status(ob_desc_init_strides(&space[BIAS], 2,
                                          product_type(&d->io[2]),
                                          (dnnl_dims_t){1, c->dim[1]},
                                          (dnnl_dims_t){c->dim[1], 1}),
                     "describe a bias", err);
    if (rc == SL_OK)
        desc[BIAS] = ob_desc_of(&space[BIAS]);
    return rc;
}

static enum sl_err onednn_matmul_build(struct product *p,
                                       const struct kern_desc *d,
                                       ob_desc desc[TENSORS],
                                       struct sl_error *err)
{
    struct prog_arg args[4];
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
    enum sl_err rc = onednn_matmul_attr(&attr, d, err);
    int nargs = 0;

    if (rc != SL_OK)
        return rc;
    rc = prog_status(ob_matmul_pd(&pd, p->prog.onednn->engine, desc[A], desc[B],
                                  desc[BIAS], desc[C], attr),
                     "plan a matrix product", err);
    dnnl_primitive_attr_destroy(attr);
    if (rc != SL_OK)
        return rc;
    snprintf(p->impl, sizeof(p->impl), "%s", ob_impl(pd));
    if (product_is_ref(p->impl) || product_left_out(p->base.dev, d, p->impl)) {
        rc = sl_fail(err, SL_ENOTSUP, "oneDNN has only %s", p->impl);
        goto done;
    }
    args[nargs++] =
        (struct prog_arg){DNNL_ARG_SRC, prog_io(&p->prog, desc[A], 0)};
    args[nargs++] =
        (struct prog_arg){DNNL_ARG_WEIGHTS, prog_io(&p->prog, desc[B], 1)};
    if (desc[BIAS])
        args[nargs++] =
            (struct prog_arg){DNNL_ARG_BIAS, prog_io(&p->prog, desc[BIAS], 2)};
    args[nargs++] =
        (struct prog_arg){DNNL_ARG_DST, prog_io(&p->prog, desc[C], d->inputs)};
    rc = prog_add(&p->prog, pd, args, nargs, err);
done:
    dnnl_primitive_desc_destroy(pd);
    return rc;
}

enum sl_err product_matmul(struct product *p, struct cpu_dev *dev,
                           const struct kern_desc *d, struct sl_error *err)
{
    struct ob_space space[TENSORS];
    ob_desc desc[TENSORS] = {NULL};
    enum sl_err rc;

    // The sum of rows of A as it lies is a sum along the wrong axis for our
    // loop; no gradient asks for it.
    if (kern_has(d, KERN_BGRAD) && !d->u.matmul.trans_a)
        return sl_fail(err, SL_ENOTSUP, "BGRAD without trans_a");
    rc = onednn_matmul_describe(space, desc, d, err);
    if (rc == SL_OK)
        rc = onednn_matmul_build(p, d, desc, err);
    for (int i = 0; i < TENSORS; i++)
        if (desc[i])
            ob_desc_free(&space[i]);
    if (rc == SL_OK && kern_has(d, KERN_BGRAD))
        product_sum_rows(p, d->io[0].dim[0], d->io[0].dim[1], 0, d->inputs + 1,
                         kern_has(d, KERN_ACCUM));
    return rc;
}
