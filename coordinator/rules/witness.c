// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/witness.c -- the number of a witness: its party in the
// lower half, its host in the upper one.
#include "coordinator/rules/witness.h"

#include <string.h>

#include "common/base/rng.h"

static uint32_t half(const char *text)
{
    return (uint32_t)sl_hash64(text, strlen(text));
}

uint64_t witness_of(const char *who, const char *where)
{
    return (uint64_t)half(where) << 32 | half(who);
}

bool witness_same_party(uint64_t a, uint64_t b)
{
    return (uint32_t)a == (uint32_t)b;
}

void witness_begin(struct witness_tally *t, uint32_t most)
{
    t->most = most == 0 ? 1 : most > WITNESS_MOST ? WITNESS_MOST : most;
    t->parties = t->hosts = 0;
}

static void witness_list_add(uint32_t *list, uint32_t *count, uint32_t most,
                             uint32_t one)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == one)
            return;
    if (*count < most)
        list[(*count)++] = one;
}

void witness_note(struct witness_tally *t, uint64_t witness)
{
    witness_list_add(t->party, &t->parties, t->most, (uint32_t)witness);
    witness_list_add(t->host, &t->hosts, t->most, (uint32_t)(witness >> 32));
}

bool witness_enough(const struct witness_tally *t)
{
    return witness_independent(t) == t->most;
}

uint32_t witness_independent(const struct witness_tally *t)
{
    return t->parties < t->hosts ? t->parties : t->hosts;
}
