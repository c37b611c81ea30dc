// SPDX-License-Identifier: Apache-2.0
// common/base/offset.c -- see offset.h.
#include "common/base/offset.h"

#define MOST (UINT64_C(1) << 62) // sums of two, and differences, are numbers

void offset_came(struct offset *o, uint64_t seq, uint64_t sent_us,
                 uint64_t came_us)
{
    if (seq == 0 || sent_us == 0 || sent_us > MOST || came_us > MOST)
        return;
    o->beats[o->beat].seq = seq;
    o->beats[o->beat].sent_us = sent_us;
    o->beats[o->beat].came_us = came_us;
    o->beat = (o->beat + 1) % OFFSET_BEATS;
}

void offset_heard(struct offset *o, uint64_t seq, uint64_t heard_us)
{
    for (unsigned i = 0; i < OFFSET_BEATS && seq != 0; i++) {
        uint64_t sent = o->beats[i].sent_us;

        if (o->beats[i].seq != seq || heard_us < sent || heard_us > MOST)
            continue;
        o->trips[o->trip].trip_us = heard_us - sent + 1;
        o->trips[o->trip].offset_us =
            (int64_t)o->beats[i].came_us - (int64_t)((sent + heard_us) / 2);
        o->trip = (o->trip + 1) % OFFSET_TRIPS;
        o->beats[i].seq = 0; // once
    }
}

bool offset_best(const struct offset *o, int64_t *offset_us, uint64_t *trip_us)
{
    uint64_t best = 0;

    for (unsigned i = 0; i < OFFSET_TRIPS; i++) {
        if (o->trips[i].trip_us == 0 ||
            (best != 0 && o->trips[i].trip_us >= best))
            continue;
        best = o->trips[i].trip_us;
        *offset_us = o->trips[i].offset_us;
        *trip_us = best - 1;
    }
    return best != 0;
}
