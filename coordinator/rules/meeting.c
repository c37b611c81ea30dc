// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/meeting.c -- see meeting.h.
#include "coordinator/rules/meeting.h"

#include <stdlib.h>

#define WAIT_SHARE 0.125 // weight of the newest round in the mean

// Sets *since to when `is` became true; 0 while it is false.
static void meeting_note(uint64_t *since, bool is, uint64_t now_ms)
{
    if (!is)
        *since = 0;
    else if (*since == 0)
        *since = now_ms;
}

static void meeting_ended(struct meeting *m, uint64_t now_ms)
{
    double took = (double)(now_ms - m->first_ms);

    m->quorum_ms = m->told_ms = 0;
    if (m->first_ms != 0)
        m->wait_ms += (m->wait_ms > 0 ? WAIT_SHARE : 1) * (took - m->wait_ms);
    m->first_ms = 0;
}

bool meeting_ends(struct meeting *m, const struct meeting_now *now,
                  uint64_t now_ms)
{
    bool graced, idle;

    if (now->least < m->least)
        meeting_ended(m, now_ms);
    m->least = now->least;
    meeting_note(&m->first_ms, now->most > 0, now_ms);
    meeting_note(&m->quorum_ms, now->least > 0 && now->least >= now->quorum,
                 now_ms);
    meeting_note(&m->idle_ms, now->most > 0 && !now->under_way, now_ms);
    if (m->quorum_ms == 0 && m->idle_ms == 0)
        m->told_ms = 0; // the next round is another one
    graced = m->quorum_ms != 0 && now_ms - m->quorum_ms >= now->grace_ms;
    idle = m->idle_ms != 0 && now_ms - m->idle_ms >= MEETING_IDLE_MS;
    if ((!graced && !idle) ||
        (m->told_ms != 0 && now_ms - m->told_ms < MEETING_AGAIN_MS))
        return false;
    m->told_ms = now_ms;
    return true;
}

static int meeting_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

uint64_t meeting_grace_ms(double *times_ms, uint32_t count)
{
    if (count == 0)
        return 0;
    qsort(times_ms, count, sizeof(*times_ms), meeting_order);
    return (uint64_t)(times_ms[count / 2] / 2);
}
