// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_table.c -- which loop is which op.
#include "kernels/cpu/loops.h"

// Tables cannot copy constants of other files, so ops are found by address.
const struct loop_op *const LOOPS(table)[KERN_OP_COUNT] = {
    [KERN_POOL_FWD] = &LOOPS(pool_fwd),
    [KERN_POOL_BWD] = &LOOPS(pool_bwd),
    [KERN_BN_FWD] = &LOOPS(bn_fwd),
    [KERN_BN_INFER] = &LOOPS(bn_infer),
    [KERN_BN_BWD] = &LOOPS(bn_bwd),
    [KERN_UNARY_FWD] = &LOOPS(unary_fwd),
    [KERN_UNARY_BWD] = &LOOPS(unary_bwd),
    [KERN_BINARY] = &LOOPS(binary),
    [KERN_AXPBY] = &LOOPS(axpby),
    [KERN_FILL] = &LOOPS(fill),
    [KERN_SOFTMAX_FWD] = &LOOPS(softmax_fwd),
    [KERN_SOFTMAX_BWD] = &LOOPS(softmax_bwd),
    [KERN_XENT] = &LOOPS(xent),
    [KERN_BCE] = &LOOPS(bce),
    [KERN_MSE] = &LOOPS(mse),
    [KERN_DROPOUT] = &LOOPS(dropout),
    [KERN_IMAGE_U8] = &LOOPS(image_u8),
    [KERN_REDUCE] = &LOOPS(reduce),
    [KERN_UNSCALE_CHECK] = &LOOPS(unscale_check),
    [KERN_PICK] = &LOOPS(pick),
    [KERN_LN_FWD] = &LOOPS(ln_fwd),
    [KERN_LN_BWD] = &LOOPS(ln_bwd),
    [KERN_GATHER] = &LOOPS(gather),
    [KERN_GATHER_BWD] = &LOOPS(gather_bwd),
    [KERN_PENALTY] = &LOOPS(penalty),
};

const struct loops_products LOOPS(products) = {
    .wino = {[KERN_CONV_FWD] = &LOOPS(wino_conv),
             [KERN_CONV_DGRAD] = &LOOPS(wino_conv),
             [KERN_CONV_WGRAD] = &LOOPS(wino_wgrad)},
    .direct = {[KERN_CONV_FWD] = &LOOPS(direct_conv),
               [KERN_CONV_WGRAD] = &LOOPS(direct_wgrad)},
};
