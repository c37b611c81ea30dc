// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/onednn.h -- oneDNN 2.6/2.7 and 3.x behind one set of names.
//
// Between the majors the operation descriptors went away and memory
// descriptors became opaque. Here a tensor is a `struct ob_md` (up to five
// dimensions in oneDNN's logical order, a type and a format tag), and each
// function returns a primitive descriptor that is ready to query.
//
// Threads  as oneDNN: objects may be shared once made; we do not.
// Memory   the caller destroys what it gets; descriptors that are passed are
//          read during the call.
// Errors   dnnl_status_t as oneDNN gives it: dnnl_unimplemented is an answer.
//          After any but dnnl_success outputs are undefined, and nothing is to
//          be destroyed.
#ifndef KERNELS_CPU_ONEDNN_H
#define KERNELS_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdbool.h>
#include <stddef.h>

#define OB_V3 (DNNL_VERSION_MAJOR >= 3)

#if OB_V3
typedef const_dnnl_memory_desc_t ob_desc; // borrowed from its owner
#else
typedef const dnnl_memory_desc_t *ob_desc;
#endif

struct ob_md {
    int nd;
    dnnl_dims_t dims;
    dnnl_data_type_t type;
    dnnl_format_tag_t tag; // dnnl_format_tag_any: let oneDNN choose
};

// Which way a convolution runs.
enum ob_way { OB_FWD, OB_DGRAD, OB_WGRAD };

struct ob_conv {
    enum ob_way way;
    dnnl_alg_kind_t alg;
    struct ob_md src, weights, bias, dst;        // bias.nd 0: none
    dnnl_dims_t stride, dilation, before, after; // dilation 0 is dense
};

// A memory descriptor that lives in *space (2.x) or is owned (3.x); give
// it back with ob_desc_free.
struct ob_space {
    dnnl_memory_desc_t md;
};

// Makes the descriptor of `m` in *space, for ob_desc_free.
static inline dnnl_status_t ob_desc_init(struct ob_space *space,
                                         const struct ob_md *m)
{
#if OB_V3
    return dnnl_memory_desc_create_with_tag(&space->md, m->nd, m->dims, m->type,
                                            m->tag);
#else
    return dnnl_memory_desc_init_by_tag(&space->md, m->nd, m->dims, m->type,
                                        m->tag);
#endif
}

// Makes a descriptor of a plain tensor with the strides given, in elements, for
// ob_desc_free.
static inline dnnl_status_t ob_desc_init_strides(struct ob_space *space, int nd,
                                                 dnnl_data_type_t type,
                                                 const dnnl_dims_t dims,
                                                 const dnnl_dims_t strides)
{
#if OB_V3
    return dnnl_memory_desc_create_with_strides(&space->md, nd, dims, type,
                                                strides);
#else
    return dnnl_memory_desc_init_by_strides(&space->md, nd, dims, type,
                                            strides);
#endif
}

// Returns the descriptor that *space holds, borrowed from it.
static inline ob_desc ob_desc_of(const struct ob_space *space)
{
#if OB_V3
    return space->md;
#else
    return &space->md;
#endif
}

// Frees what ob_desc_init or ob_desc_init_strides made.
static inline void ob_desc_free(struct ob_space *space)
{
#if OB_V3
    dnnl_memory_desc_destroy(space->md);
#endif
}

// Appends to `ops` a ReLU of the result.
static inline dnnl_status_t ob_append_relu(dnnl_post_ops_t ops)
{
#if OB_V3
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
#else
    return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
#endif
}

// Appends to `ops` adding the result to what C was; comes before any other.
static inline dnnl_status_t ob_append_sum(dnnl_post_ops_t ops)
{
#if OB_V3
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1);
#endif
}

// Makes *pd as ob_conv_pd does, of the descriptors of its tensors, which are
// borrowed for the call; `bias` is NULL if there is none.
#if OB_V3
static inline dnnl_status_t
ob_conv_make(dnnl_primitive_desc_t *pd, const struct ob_conv *c,
             dnnl_engine_t engine, ob_desc src, ob_desc weights, ob_desc bias,
             ob_desc dst, const_dnnl_primitive_desc_t hint,
             const_dnnl_primitive_attr_t attr, unsigned skip)
{
    dnnl_status_t st;

    if (c->way == OB_FWD)
        st = dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, c->alg, src, weights, bias, dst,
            c->stride, c->dilation, c->before, c->after, attr);
    else if (c->way == OB_DGRAD)
        st = dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, c->alg, src, weights, dst, c->stride, c->dilation,
            c->before, c->after, hint, attr);
    else
        st = dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, c->alg, src, weights, bias, dst, c->stride, c->dilation,
            c->before, c->after, hint, attr);
    if (st != dnnl_success)
        return st;
    while (skip-- > 0 && st == dnnl_success)
        st = dnnl_primitive_desc_next_impl(*pd);
    if (st == dnnl_success)
        return st;
    dnnl_primitive_desc_destroy(*pd);
    return st == dnnl_last_impl_reached ? dnnl_unimplemented : st;
}
#else
static inline dnnl_status_t
ob_conv_make(dnnl_primitive_desc_t *pd, const struct ob_conv *c,
             dnnl_engine_t engine, ob_desc src, ob_desc weights, ob_desc bias,
             ob_desc dst, const_dnnl_primitive_desc_t hint,
             const_dnnl_primitive_attr_t attr, unsigned skip)
{
    dnnl_primitive_desc_iterator_t candidates;
    dnnl_convolution_desc_t desc;
    dnnl_status_t st;

    if (c->way == OB_FWD)
        st = dnnl_dilated_convolution_forward_desc_init(
            &desc, dnnl_forward_training, c->alg, src, weights, bias, dst,
            c->stride, c->dilation, c->before, c->after);
    else if (c->way == OB_DGRAD)
        st = dnnl_dilated_convolution_backward_data_desc_init(
            &desc, c->alg, src, weights, dst, c->stride, c->dilation, c->before,
            c->after);
    else
        st = dnnl_dilated_convolution_backward_weights_desc_init(
            &desc, c->alg, src, weights, bias, dst, c->stride, c->dilation,
            c->before, c->after);
    if (st != dnnl_success)
        return st;
    st = dnnl_primitive_desc_iterator_create(&candidates, &desc, attr, engine,
                                             hint);
    if (st != dnnl_success)
        return st;
    while (skip-- > 0 && st == dnnl_success)
        st = dnnl_primitive_desc_iterator_next(candidates);
    if (st == dnnl_success &&
        !(*pd = dnnl_primitive_desc_iterator_fetch(candidates)))
        st = dnnl_out_of_memory;
    dnnl_primitive_desc_iterator_destroy(candidates);
    return st == dnnl_iterator_ends ? dnnl_unimplemented : st;
}
#endif

// Sets *pd to how oneDNN computes a convolution. `hint` is a forward descriptor
// for the two gradients, NULL for forward. oneDNN has its implementations in an
// order of its own, the fastest first: the first `skip` are passed over, and
// dnnl_unimplemented says that there are no more, or none at all. The caller
// destroys *pd, here and below.
static inline dnnl_status_t
ob_conv_pd(dnnl_primitive_desc_t *pd, const struct ob_conv *c,
           dnnl_engine_t engine, const_dnnl_primitive_desc_t hint,
           const_dnnl_primitive_attr_t attr, unsigned skip)
{
    const struct ob_md *md[4] = {&c->src, &c->weights, &c->bias, &c->dst};
    struct ob_space space[4];
    ob_desc desc[4] = {NULL, NULL, NULL, NULL};
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < 4 && st == dnnl_success; i++) {
        if (md[i]->nd == 0)
            continue;
        st = ob_desc_init(&space[i], md[i]);
        if (st == dnnl_success)
            desc[i] = ob_desc_of(&space[i]);
    }
    if (st == dnnl_success)
        st = ob_conv_make(pd, c, engine, desc[0], desc[1], desc[2], desc[3],
                          hint, attr, skip);
    for (int i = 0; i < 4; i++)
        if (desc[i])
            ob_desc_free(&space[i]);
    return st;
}

// Sets *pd to how oneDNN computes c = a b + bias; `bias` may be NULL.
static inline dnnl_status_t ob_matmul_pd(dnnl_primitive_desc_t *pd,
                                         dnnl_engine_t engine, ob_desc a,
                                         ob_desc b, ob_desc bias, ob_desc c,
                                         const_dnnl_primitive_attr_t attr)
{
#if OB_V3
    return dnnl_matmul_primitive_desc_create(pd, engine, a, b, bias, c, attr);
#else
    dnnl_matmul_desc_t desc;
    dnnl_status_t st = dnnl_matmul_desc_init(&desc, a, b, bias, c);

    if (st != dnnl_success)
        return st;
    return dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
#endif
}

// Sets *pd to how oneDNN copies a tensor of layout `from` to layout `to`.
static inline dnnl_status_t ob_reorder_pd(dnnl_primitive_desc_t *pd,
                                          dnnl_engine_t engine, ob_desc from,
                                          ob_desc to,
                                          const_dnnl_primitive_attr_t attr)
{
    return dnnl_reorder_primitive_desc_create(pd, from, engine, to, engine,
                                              attr);
}

// Returns what a primitive descriptor wants of argument `what`; NULL, or of 0
// bytes, if it has no such. Belongs to pd.
static inline ob_desc ob_query(const_dnnl_primitive_desc_t pd,
                               dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

// Returns true if both describe the same layout.
static inline bool ob_same(ob_desc a, ob_desc b)
{
    return dnnl_memory_desc_equal(a, b) != 0;
}

// Returns the bytes that a tensor takes; 0 for NULL.
static inline size_t ob_bytes(ob_desc d)
{
    return d ? dnnl_memory_desc_get_size(d) : 0;
}

// Returns the implementation's name, "jit:avx512_core", "brgconv:avx2",
// "ref:any"; "?" if oneDNN does not say. Belongs to pd.
static inline const char *ob_impl(const_dnnl_primitive_desc_t pd)
{
    const char *name = "?";

    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name;
}

#endif
