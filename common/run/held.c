// SPDX-License-Identifier: Apache-2.0
// common/run/held.c -- see held.h.
#include "common/run/held.h"

#include <pthread.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/num.h"
#include "common/run/log.h"

#define SAY_MS 60000 // between two lines of the log

struct holder {
    const char *what;
    uint64_t times, worst_us;
};

static struct histogram took = HISTOGRAM_DURATIONS;

static struct {
    pthread_mutex_t lock;
    struct holder list[HELD_NAMES];
    struct held last;
    uint64_t said_ms, unsaid; // the last line; handlers since
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct holder *holder_locked(const char *what)
{
    size_t i = 0;

    while (i < HELD_NAMES - 1 && held.list[i].what != NULL &&
           strcmp(held.list[i].what, what) != 0)
        i++;
    if (held.list[i].what == NULL)
        held.list[i].what = i < HELD_NAMES - 1 ? what : "others";
    return &held.list[i];
}

static void held_record(const char *what, uint64_t us)
{
    uint64_t now = sl_real_ms(), unsaid = 0;
    struct holder *h;

    pthread_mutex_lock(&held.lock);
    h = holder_locked(what);
    h->times++;
    h->worst_us = us > h->worst_us ? us : h->worst_us;
    held.last = (struct held){what, held.last.times + 1, us, now};
    held.unsaid++;
    if (held.said_ms == 0 || now - held.said_ms >= SAY_MS) {
        held.said_ms = now;
        unsaid = held.unsaid;
        held.unsaid = 0;
    }
    pthread_mutex_unlock(&held.lock);
    if (unsaid > 0)
        LOG(WARN, "event loop was blocked", "what=%s ms=%llu times=%llu", what,
            (unsigned long long)us / 1000, (unsigned long long)unsaid);
}

void held_took(const char *what, uint64_t us)
{
    histogram_add(&took, us);
    if (us > HELD_US)
        held_record(what, us);
}

bool held_last(struct held *out)
{
    pthread_mutex_lock(&held.lock);
    *out = held.last;
    pthread_mutex_unlock(&held.lock);
    return out->times > 0;
}

void held_measure(struct expo *e)
{
    struct holder list[HELD_NAMES];

    pthread_mutex_lock(&held.lock);
    memcpy(list, held.list, sizeof(list));
    pthread_mutex_unlock(&held.lock);
    expo_family(e, "sluice_event_loop_handler_seconds", EXPO_HISTOGRAM,
                "Time that one handler of the event loop ran.");
    expo_histogram(e, &took, NULL);
    expo_family(e, "sluice_event_loop_held_total", EXPO_COUNTER,
                "Handlers that ran for longer than 0.1 s, by their name.");
    for (size_t i = 0; i < HELD_NAMES && list[i].what != NULL; i++)
        expo_value(e, (double)list[i].times, "handler", list[i].what, NULL);
    expo_family(e, "sluice_event_loop_held_seconds", EXPO_GAUGE,
                "Longest run of a handler above 0.1 s, by its name.");
    for (size_t i = 0; i < HELD_NAMES && list[i].what != NULL; i++)
        expo_value(e, (double)list[i].worst_us * 1e-6, "handler", list[i].what,
                   NULL);
}
