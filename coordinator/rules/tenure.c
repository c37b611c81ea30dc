// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/tenure.c -- the end of a lease, by the own clock.
#include "coordinator/rules/tenure.h"

#define RENEWALS 3 // of one lease: one that fails leaves time for another
#define MARGIN 10  // this part of a lease is given up

static int64_t ms_until(uint64_t when_us, uint64_t now_us)
{
    return when_us > now_us ? (int64_t)((when_us - now_us) / 1000) : 0;
}

void tenure_renewed(struct tenure *t, uint64_t sent_us, int64_t granted_s)
{
    uint64_t length = (uint64_t)granted_s * 1000000;
    uint64_t until = sent_us + length - length / MARGIN;

    t->length_us = length;
    t->next_us = sent_us + length / RENEWALS;
    if (until > t->until_us)
        t->until_us = until;
}

void tenure_failed(struct tenure *t, uint64_t now_us)
{
    t->next_us = now_us + TENURE_AGAIN_MS * 1000;
}

int64_t tenure_left_ms(const struct tenure *t, uint64_t now_us)
{
    return ms_until(t->until_us, now_us);
}

int64_t tenure_wait_ms(const struct tenure *t, uint64_t now_us)
{
    int64_t next = ms_until(t->next_us, now_us);
    int64_t left = tenure_left_ms(t, now_us);

    return next < left ? next : left;
}

int64_t tenure_limit_ms(const struct tenure *t, uint64_t now_us)
{
    int64_t part = (int64_t)(t->length_us / 1000 / RENEWALS);
    int64_t left = tenure_left_ms(t, now_us);

    part = part < left ? part : left;
    return part > 0 ? part : 1;
}
