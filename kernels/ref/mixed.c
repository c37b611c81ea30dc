// SPDX-License-Identifier: Apache-2.0
// kernels/ref/mixed.c -- 16-bit tensors: the op in f32, then one rounding.
//
// 16-bit inputs become f32 in the workspace, f32's twin of the op runs there,
// and its outputs are rounded. That is what mixed precision means: arithmetic
// and sums as in f32, and storage in 16 bits.
#include <string.h>

#include "kernels/half.h"
#include "kernels/ref/ref.h"

static size_t ref_mixed_twin_bytes(const struct kern_shape *s)
{
    return ((size_t)kern_shape_extent(s) * sizeof(float) + 63) & ~(size_t)63;
}

size_t ref_mixed_bytes(const struct kern_desc *d)
{
    size_t sum = 0;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        if (kern_is_half(&d->io[i]))
            sum += ref_mixed_twin_bytes(&d->io[i]);
    return sum;
}

static void ref_mixed_widen(float *to, const struct kern_shape *s,
                            const uint16_t *from)
{
    for (int64_t i = 0; i < kern_shape_extent(s); i++)
        to[i] = s->dtype == KERN_F16 ? half_from_f16(from[i])
                                     : half_from_bf16(from[i]);
}

// Only what the shape names: what lies in the gaps of a view stays.
static void ref_mixed_narrow(uint16_t *to, const struct kern_shape *s,
                             const float *from)
{
    for (int64_t i = 0; i < kern_shape_count(s); i++) {
        int64_t at = ref_offset(s, i);

        to[at] = s->dtype == KERN_F16 ? half_to_f16(from[at])
                                      : half_to_bf16(from[at]);
    }
}

void ref_mixed_run(const struct kern_desc *d, void *const *io, void *workspace)
{
    struct kern_desc twin = *d;
    char *at = workspace;
    void *real_io[KERN_IO];

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        real_io[i] = io[i];
        if (!kern_is_half(&d->io[i]))
            continue;
        twin.io[i].dtype = KERN_F32;
        real_io[i] = at;
        ref_mixed_widen(real_io[i], &d->io[i],
                        io[i]); // outputs too: some are added to
        at += ref_mixed_twin_bytes(&d->io[i]);
    }
    ref_f32_table[d->op](&twin, real_io);
    for (unsigned i = d->inputs; i < d->inputs + d->outputs; i++)
        if (kern_is_half(&d->io[i]))
            ref_mixed_narrow(io[i], &d->io[i], real_io[i]);
}
