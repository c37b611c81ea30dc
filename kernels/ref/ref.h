// SPDX-License-Identifier: Apache-2.0
// kernels/ref/ref.h -- the reference backend: what is correct.
//
// Plain loops, every sum in double, each output rounded once. The files of ops
// are compiled twice: for float tensors, and (REF_F64) for double tensors,
// which only the check of gradients by differences uses. 16-bit tensors go
// through f32 (mixed.c).
//
// Threads  functions of their arguments; any.
// Memory   io[] as kern.h says; nothing is kept or allocated.
// Errors   none: descriptors were checked.
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include "kernels/desc.h"

// Computes one op, as the functions below do.
typedef void (*ref_fn)(const struct kern_desc *d, void *const *io);

// By op; no entry is NULL but the first.
extern const ref_fn ref_f32_table[KERN_OP_COUNT];
extern const ref_fn ref_f64_table[KERN_OP_COUNT];

extern const struct kern_backend kern_ref;

// Returns the bytes of workspace that an op with 16-bit tensors wants: f32
// copies of these. 0: it has no such tensors.
size_t ref_mixed_bytes(const struct kern_desc *d);
// Computes an op with 16-bit tensors in f32, and rounds its outputs.
// `workspace` has ref_mixed_bytes bytes, aligned for a float.
void ref_mixed_run(const struct kern_desc *d, void *const *io, void *workspace);

// Returns where element `i`, counted in row-major order, of a view that is not
// empty lies: its distance from the first one, in elements.
static inline int64_t ref_offset(const struct kern_shape *s, int64_t i)
{
    int64_t at = 0;

    for (unsigned k = s->nd; k-- > 0;) {
        at += i % s->dim[k] * s->stride[k];
        i /= s->dim[k];
    }
    return at;
}

#ifdef REF_F64
typedef double real;
#define REF(name) ref_f64_##name
#else
typedef float real;
#define REF(name) ref_f32_##name
#endif

// Computes one op, that of kern.h with the name in capitals, from and to the
// tensors at io[], before it returns; `d` was checked. So do those below.
void REF(matmul)(const struct kern_desc *d, void *const *io);
void REF(conv_fwd)(const struct kern_desc *d, void *const *io);
void REF(conv_dgrad)(const struct kern_desc *d, void *const *io);
void REF(conv_wgrad)(const struct kern_desc *d, void *const *io);
void REF(pool_fwd)(const struct kern_desc *d, void *const *io);
void REF(pool_bwd)(const struct kern_desc *d, void *const *io);
void REF(bn_fwd)(const struct kern_desc *d, void *const *io);
void REF(bn_infer)(const struct kern_desc *d, void *const *io);
void REF(bn_bwd)(const struct kern_desc *d, void *const *io);
void REF(unary_fwd)(const struct kern_desc *d, void *const *io);
void REF(unary_bwd)(const struct kern_desc *d, void *const *io);
void REF(binary)(const struct kern_desc *d, void *const *io);
void REF(axpby)(const struct kern_desc *d, void *const *io);
void REF(fill)(const struct kern_desc *d, void *const *io);
void REF(softmax_fwd)(const struct kern_desc *d, void *const *io);
void REF(softmax_bwd)(const struct kern_desc *d, void *const *io);
void REF(xent)(const struct kern_desc *d, void *const *io);
void REF(bce)(const struct kern_desc *d, void *const *io);
void REF(mse)(const struct kern_desc *d, void *const *io);
void REF(dropout)(const struct kern_desc *d, void *const *io);
void REF(image_u8)(const struct kern_desc *d, void *const *io);
void REF(reduce)(const struct kern_desc *d, void *const *io);
void REF(unscale_check)(const struct kern_desc *d, void *const *io);
void REF(pick)(const struct kern_desc *d, void *const *io);
void REF(ln_fwd)(const struct kern_desc *d, void *const *io);
void REF(ln_bwd)(const struct kern_desc *d, void *const *io);
void REF(gather)(const struct kern_desc *d, void *const *io);
void REF(gather_bwd)(const struct kern_desc *d, void *const *io);
void REF(penalty)(const struct kern_desc *d, void *const *io);

// Sets *y to v or, if the op has ACCUM, adds v to it.
static inline void ref_put(const struct kern_desc *d, real *y, double v)
{
    *y = (real)(kern_has(d, KERN_ACCUM) ? *y + v : v);
}

// Sets stats[0] and stats[1] to a and b or, if the op has ACCUM, adds a and b
// to them.
static inline void ref_stats(const struct kern_desc *d, double *stats, double a,
                             double b)
{
    stats[0] = (kern_has(d, KERN_ACCUM) ? stats[0] : 0) + a;
    stats[1] = (kern_has(d, KERN_ACCUM) ? stats[1] : 0) + b;
}

#endif
