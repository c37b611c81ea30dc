// SPDX-License-Identifier: Apache-2.0
// bench/op_work.c -- see op_work.h.
#include "bench/op_work.h"

#include <string.h>

#include "kernels/desc.h"

const struct gpu_rates gpu_rates[GPU_RATES] = {
    {"NVIDIA H100 80GB HBM3", "H100", 3.35e12, 67e12, 494.7e12, 989.4e12},
    {"NVIDIA H200", "H200", 4.8e12, 67e12, 494.7e12, 989.4e12},
    {"NVIDIA A100-SXM4-80GB", "A100", 2.039e12, 19.5e12, 156e12, 312e12},
};

const struct gpu_rates *gpu_rates_of(const char *text)
{
    for (unsigned i = 0; i < GPU_RATES; i++)
        if (strstr(text, gpu_rates[i].name) != NULL)
            return &gpu_rates[i];
    return NULL;
}

double op_work_flop(const struct kern_desc *d)
{
    return 2 * kern_desc_products(d);
}

double op_work_bytes(const struct kern_desc *d)
{
    bool twice = d->op == KERN_BN_FWD || d->op == KERN_BN_BWD;
    double bytes = 0;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        double b = (double)kern_shape_bytes(&d->io[i]);
        bool summed = kern_has(d, KERN_ACCUM) && i >= d->inputs;

        bytes += (twice && i < d->inputs) || summed ? 2 * b : b;
    }
    return bytes;
}

// A bias gradient is a kernel of ours behind the product.
double op_work_extra_bytes(const struct kern_desc *d)
{
    return !kern_has(d, KERN_BGRAD)   ? 0
           : d->op == KERN_MATMUL     ? (double)kern_shape_bytes(&d->io[0])
           : d->op == KERN_CONV_WGRAD ? (double)kern_shape_bytes(&d->io[1])
                                      : 0;
}

bool op_work_tensor_cores(const struct kern_desc *d)
{
    return d->io[0].dtype != KERN_F32 || d->math == KERN_MATH_TF32;
}

double op_work_seconds(const struct kern_desc *d, const struct gpu_rates *r)
{
    double flop_s = d->io[0].dtype != KERN_F32 ? r->half
                    : op_work_tensor_cores(d)  ? r->tf32
                                               : r->f32;
    double memory = op_work_bytes(d) / r->bytes_s,
           compute = op_work_flop(d) / flop_s;

    return (memory > compute ? memory : compute) +
           op_work_extra_bytes(d) / r->bytes_s;
}
