// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/onednn_parts.c -- what the plans of products share: types, which
// implementations are left out, and the loops behind the primitives.
#include "kernels/cpu/product.h"

#include <string.h>

dnnl_data_type_t product_type(const struct kern_shape *s)
{
    return s->dtype == KERN_BF16  ? dnnl_bf16
           : s->dtype == KERN_F16 ? dnnl_f16
                                  : dnnl_f32;
}

bool product_is_ref(const char *impl)
{
    return strstr(impl, "ref") != NULL || strstr(impl, "naive") != NULL;
}

// oneDNN 2.6.3 on a host with AMX: the weight gradient of a dilated window in
// bf16 is NaN (x [2,9,9,33], dy [2,9,9,17], window 3x3, dilation 2). Later
// versions have the same name, and are not trusted either.
bool product_is_wrong(const struct kern_desc *d, const char *impl)
{
    struct kern_conv_dims c;

    if (d->op != KERN_CONV_WGRAD || strstr(impl, "amx") == NULL)
        return false;
    kern_conv_dims(&c, d);
    return c.win.dilation[0] > 1 || c.win.dilation[1] > 1;
}

bool product_left_out(const struct cpu_dev *dev, const struct kern_desc *d,
                      const char *impl)
{
    return (dev->without[0] != '\0' && strstr(impl, dev->without) != NULL) ||
           prover_avoids(dev->base.prover, d, impl);
}

static struct product_tail *add_tail(struct product *p)
{
    return &p->tail[p->tails++];
}

void product_sum_rows(struct product *p, int64_t rows, int64_t cols, int x,
                      int y, bool accum)
{
    struct product_tail *t = add_tail(p);

    kern_desc_reduce(&t->desc, 2, (int64_t[]){rows, cols},
                     accum ? KERN_ACCUM : 0);
    t->io[0] = x;
    t->io[1] = y;
}

void product_add(struct product *p, int64_t count, size_t at, int y)
{
    struct product_tail *t = add_tail(p);
    struct kern_shape s = kern_shape(KERN_F32, 1, &count);

    kern_desc_axpby(&t->desc, &s, &s, 1, 1);
    t->io[0] = -1;
    t->at[0] = at;
    t->io[1] = y;
}
