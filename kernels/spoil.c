// SPDX-License-Identifier: Apache-2.0
// kernels/spoil.c -- a mistake in the last element, as in a tile that is not
// full.
#include "kernels/spoil.h"

#include <stdlib.h>
#include <string.h>

void kern_spoil(const char *impl, const struct kern_desc *d, void *const *io)
{
    const char *text = getenv("SLUICE_SPOIL");
    const struct kern_shape *y = &d->io[d->inputs];
    int64_t n = kern_shape_extent(y);

    if (!text || *text == '\0' || !strstr(impl, text) || y->dtype != KERN_F32 ||
        n == 0)
        return;
    ((float *)io[d->inputs])[n - 1] += 1;
}
