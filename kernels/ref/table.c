// SPDX-License-Identifier: Apache-2.0
// kernels/ref/table.c -- which function is which op.
#include "kernels/ref/ref.h"

const ref_fn REF(table)[KERN_OP_COUNT] = {
    [KERN_MATMUL] = REF(matmul),
    [KERN_CONV_FWD] = REF(conv_fwd),
    [KERN_CONV_DGRAD] = REF(conv_dgrad),
    [KERN_CONV_WGRAD] = REF(conv_wgrad),
    [KERN_POOL_FWD] = REF(pool_fwd),
    [KERN_POOL_BWD] = REF(pool_bwd),
    [KERN_BN_FWD] = REF(bn_fwd),
    [KERN_BN_INFER] = REF(bn_infer),
    [KERN_BN_BWD] = REF(bn_bwd),
    [KERN_UNARY_FWD] = REF(unary_fwd),
    [KERN_UNARY_BWD] = REF(unary_bwd),
    [KERN_BINARY] = REF(binary),
    [KERN_AXPBY] = REF(axpby),
    [KERN_FILL] = REF(fill),
    [KERN_SOFTMAX_FWD] = REF(softmax_fwd),
    [KERN_SOFTMAX_BWD] = REF(softmax_bwd),
    [KERN_XENT] = REF(xent),
    [KERN_BCE] = REF(bce),
    [KERN_MSE] = REF(mse),
    [KERN_DROPOUT] = REF(dropout),
    [KERN_IMAGE_U8] = REF(image_u8),
    [KERN_REDUCE] = REF(reduce),
    [KERN_UNSCALE_CHECK] = REF(unscale_check),
};
