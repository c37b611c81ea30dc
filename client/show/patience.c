// SPDX-License-Identifier: Apache-2.0
// client/show/patience.c -- pauses between two questions, and an end of them.
#include "client/show/patience.h"

#include <time.h>

#include "common/base/clock.h"

#define FIRST_MS 50
#define MOST_MS 1000

struct patience patience_of(const struct conf *conf)
{
    struct patience p = {.pause_ms = FIRST_MS};

    if (conf_origin(conf, "timeout") != CONF_DEFAULT)
        p.until_ms = sl_real_ms() + (uint64_t)conf_int(conf, "timeout");
    return p;
}

bool patience_wait(struct patience *p)
{
    uint64_t now = sl_real_ms(), ms = p->pause_ms;
    struct timespec pause;

    if (p->until_ms != 0 && now >= p->until_ms)
        return false;
    if (p->until_ms != 0 && ms > p->until_ms - now)
        ms = p->until_ms - now;
    pause = (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
    if (p->pause_ms < MOST_MS)
        p->pause_ms *= 2;
    return true;
}
