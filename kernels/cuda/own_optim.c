// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_optim.c -- the optimizers: launches of optim.cu.
#include "kernels/cuda/own.h"

static const enum cuda_kernel optim_kernels[OPTIM_RULES + 1] = {
#define RULE(name, ...) [OPTIM_RULE_##name] = CUDA_optim_##name,
#include "plan/optimizers.def"
    [OPTIM_RULES] = CUDA_KERNELS,
};

enum sl_err cuda_optim(struct kern_stream *s, const struct optim *o, size_t n,
                       const float *grad, float *w, float *const *slots,
                       const struct optim_consts *consts)
{
    struct cuda_dev *dev = cuda_dev(s->dev);
    enum cuda_kernel kernel =
        o ? optim_kernels[optim_rule(o)] : CUDA_optim_moving;
    struct args_optim a = {
        .grad = grad, .w = w, .consts = consts, .n = (int64_t)n};
    void *wide[5] = {(void *)(uintptr_t)grad, w};

    // A rule of whole variables has no row: its entry is kernel 0.
    if (kernel == CUDA_KERNELS || (o && optim_is_whole(o)))
        return SL_EINVAL;
    for (unsigned i = 0; o && i < optim_slots(o); i++)
        wide[2 + i] = a.slot[i] = slots[i];
    a.wide = own_wide(5, wide);
    return CUDA_LAUNCH(dev, cuda_stream(s), kernel, own_blocks(a.n, 4), 1, &a);
}
