// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/busy.c -- see busy.h.
#include "coordinator/rules/busy.h"

#include <math.h>

static double busy_increase(double now, double before)
{
    return now > before ? now - before : 0;
}

void busy_did(struct busy *b, struct busy_times *seen, struct busy_times now)
{
    b->did.computing_ms += busy_increase(now.computing_ms, seen->computing_ms);
    b->did.waiting_ms += busy_increase(now.waiting_ms, seen->waiting_ms);
    b->did.reading_ms += busy_increase(now.reading_ms, seen->reading_ms);
    *seen = now;
}

// Attempts report when they like, so a window may hold more than its own time.
static double busy_share(double part_ms, double whole_ms)
{
    return part_ms < whole_ms ? part_ms / whole_ms : 1;
}

static void busy_close_window(struct busy *b, double ms,
                              const struct busy_counts *now)
{
    b->known = true;
    b->cpu_cores = (double)(now->cpu_us - b->since.cpu_us) / 1000 / ms;
    b->sent_per_second =
        (double)(now->sent_bytes - b->since.sent_bytes) * 1000 / ms;
    b->received_per_second =
        (double)(now->received_bytes - b->since.received_bytes) * 1000 / ms;
    b->pushes_per_second =
        b->since.has_pushes && now->has_pushes
            ? (double)(now->pushes - b->since.pushes) * 1000 / ms
            : (double)NAN;
    b->computing = busy_share(b->did.computing_ms, ms);
    b->waiting = busy_share(b->did.waiting_ms, ms);
    b->reading = busy_share(b->did.reading_ms, ms);
}

void busy_beat(struct busy *b, uint64_t now_ms, struct busy_counts now)
{
    bool fell = now.cpu_us < b->since.cpu_us ||
                now.sent_bytes < b->since.sent_bytes ||
                now.received_bytes < b->since.received_bytes ||
                now.pushes < b->since.pushes;

    if (now.cpu_us == 0)
        return;
    if (b->since_ms != 0 && !fell && now_ms - b->since_ms < BUSY_WINDOW_MS)
        return;
    if (b->since_ms != 0 && !fell)
        busy_close_window(b, (double)(now_ms - b->since_ms), &now);
    b->did = (struct busy_times){0};
    b->since = now;
    b->since_ms = now_ms;
}
