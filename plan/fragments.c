// SPDX-License-Identifier: Apache-2.0
// plan/fragments.c -- the smallest fragment gets the next shard.
#include "plan/fragments.h"

uint32_t fragments_add(struct fragments *f, uint64_t elements)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < f->count; i++)
        if (f->elements[i] < f->elements[least])
            least = i;
    f->elements[least] += elements;
    return least;
}
