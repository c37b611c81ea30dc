// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/kinds.c -- see kinds.h.
#include "coordinator/rules/kinds.h"

// Returns the place of a pair, or count.
static uint32_t kinds_index(const struct kinds *k, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const uint64_t *of = k->list[i].kinds;

        if ((of[0] == a && of[1] == b) || (of[0] == b && of[1] == a))
            return i;
    }
    return k->count;
}

void kinds_note(struct kinds *k, uint64_t a, uint64_t b, double norm)
{
    uint32_t i = kinds_index(k, a, b);

    if (i == KINDS_MOST)
        i = k->next++ % KINDS_MOST;
    else if (i == k->count)
        k->count++;
    k->list[i] = (struct kinds_pair){{a, b}, norm};
}

double kinds_norm(const struct kinds *k, uint64_t a, uint64_t b)
{
    uint32_t i = kinds_index(k, a, b);

    return i < k->count ? k->list[i].norm : 0;
}
