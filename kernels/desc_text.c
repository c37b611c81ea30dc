// SPDX-License-Identifier: Apache-2.0
// kernels/desc_text.c -- a descriptor in words.
#include "kernels/desc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct desc_text {
    char *out;
    size_t n, used;
};

__attribute__((format(printf, 2, 3))) static void
text_add(struct desc_text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->out + t->used, t->n - t->used, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n;
    if (t->used >= t->n)
        t->used = t->n - 1;
}

static void text_add_shape(struct desc_text *t, const struct kern_shape *s)
{
    static const char *const dtypes[] = {
        "", "", "f16 ", "bf16 ", "f64 ", "i8 ", "u8 ", "i32 ", "i64 ", "bool "};

    text_add(t, "%s[", dtypes[s->dtype]);
    for (unsigned k = 0; k < s->nd; k++)
        text_add(t, k ? ",%" PRId64 : "%" PRId64, s->dim[k]);
    text_add(t, "]");
}

const char *kern_desc_text(char *out, size_t n, const struct kern_desc *d)
{
    const struct kern_window *w = &d->u.conv.win;
    struct desc_text t = {.out = out, .n = n};

    text_add(&t, "%s epilogue %u kind %d", kern_op_name((enum kern_op)d->op),
             d->epilogue,
             d->op == KERN_POOL_FWD || d->op == KERN_POOL_BWD
                 ? d->u.pool.kind
                 : d->u.unary.kind);
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        text_add(&t, i == d->inputs ? " -> " : " ");
        text_add_shape(&t, &d->io[i]);
    }
    if (d->op >= KERN_CONV_FWD && d->op <= KERN_POOL_BWD)
        text_add(&t,
                 " window %dx%d stride %d,%d dilation %d,%d pads %d,%d %d,%d",
                 w->size[0], w->size[1], w->stride[0], w->stride[1],
                 w->dilation[0], w->dilation[1], w->pad_before[0],
                 w->pad_after[0], w->pad_before[1], w->pad_after[1]);
    return out;
}
