// SPDX-License-Identifier: Apache-2.0
// trainer/push/evidence.c -- the bits that a shard has counted of one closure,
// and the first step that some shard lacks.
#include "trainer/push/evidence.h"

#include <string.h>

#include "common/base/num.h"

void evidence_void(struct step_evidence *e)
{
    memset(e, 0, sizeof(*e));
}

bool evidence_known(const struct step_evidence *e)
{
    return e->incarnation != 0;
}

void evidence_take(struct step_evidence *e, uint64_t incarnation,
                   const uint8_t *counted, size_t bytes)
{
    memset(e, 0, sizeof(*e));
    e->incarnation = incarnation;
    if (bytes > 0)
        memcpy(e->counted, counted, sl_min(bytes, EVIDENCE_BYTES));
}

bool evidence_note(struct step_evidence *e, uint64_t incarnation, uint32_t step)
{
    if (incarnation == 0 || e->incarnation != incarnation) {
        evidence_void(e);
        return false;
    }
    if (step < EVIDENCE_STEPS)
        e->counted[step / 8] |= (uint8_t)(1u << (step % 8));
    return true;
}

bool evidence_map(struct step_evidence *e, uint64_t incarnation)
{
    if (incarnation == 0 || e->incarnation == 0 ||
        e->incarnation == incarnation)
        return true;
    evidence_void(e);
    return false;
}

bool evidence_has(const struct step_evidence *e, uint32_t step)
{
    return step < EVIDENCE_STEPS && e->counted[step / 8] >> (step % 8) & 1;
}

enum evidence_next evidence_first_missing(const struct step_evidence *list,
                                          size_t stride, size_t shards,
                                          uint32_t steps, uint32_t from,
                                          uint32_t *step)
{
    const uint8_t *at = (const uint8_t *)list;
    uint32_t first = steps;

    for (size_t i = 0; i < shards; i++) {
        const struct step_evidence *e =
            (const struct step_evidence *)(const void *)(at + i * stride);
        uint32_t s = from;

        if (!evidence_known(e))
            return EVIDENCE_ASK;
        while (s < first && evidence_has(e, s))
            s++;
        if (s < first)
            first = s;
    }
    if (first >= steps)
        return EVIDENCE_FULL;
    *step = first;
    return EVIDENCE_STEP;
}
