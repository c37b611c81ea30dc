// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_optim.c -- the optimizers: launches of optim.cu.
#include "kernels/cuda/own.h"

static enum cuda_kernel kernel_of(const struct optim *o)
{
    static const enum cuda_kernel rmsprop[2][2] = {
        {CUDA_optim_rmsprop, CUDA_optim_rmsprop_momentum},
        {CUDA_optim_rmsprop_centered, CUDA_optim_rmsprop_both},
    };

    switch (o->kind) {
    case OPTIM_SGD:
        return o->momentum == 0 ? CUDA_optim_sgd
               : o->nesterov    ? CUDA_optim_sgd_nesterov
                                : CUDA_optim_sgd_momentum;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
        return o->amsgrad ? CUDA_optim_adam_amsgrad : CUDA_optim_adam;
    case OPTIM_ADAGRAD:
        return CUDA_optim_adagrad;
    case OPTIM_RMSPROP:
        return rmsprop[o->centered][o->momentum != 0];
    default:
        return CUDA_KERNELS;
    }
}

enum sl_err cuda_optim(struct kern_stream *s, const struct optim *o, size_t n,
                       const float *grad, float *w, float *const *slots,
                       const struct optim_consts *consts)
{
    struct cuda_dev *dev = cuda_dev(s->dev);
    enum cuda_kernel kernel = o ? kernel_of(o) : CUDA_optim_moving;
    struct args_optim a = {
        .grad = grad, .w = w, .consts = consts, .n = (int64_t)n};
    void *wide[5] = {(void *)(uintptr_t)grad, w};

    if (kernel == CUDA_KERNELS)
        return SL_EINVAL;
    for (unsigned i = 0; o && i < optim_slots(o); i++)
        wide[2 + i] = a.slot[i] = slots[i];
    a.wide = own_wide(5, wide);
    return CUDA_LAUNCH(dev, cuda_stream(s), kernel, own_blocks(a.n, 4), 1, &a);
}
