// SPDX-License-Identifier: Apache-2.0
// common/run/spans.c -- see spans.h. One lock for all: while it is on, a few
// thousand spans a second take it for some tens of nanoseconds each.
#include "common/run/spans.h"

#include <pthread.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

_Atomic bool spans_on;

static struct {
    pthread_mutex_t lock;
    struct span *ring; // owned; NULL: none
    uint64_t of;
    uint64_t first, next; // numbers of the oldest and of the one to come
    uint64_t lost;
} spans = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Threads that say SPANS_IO are counted as they come.
static _Atomic unsigned io_threads;
static _Thread_local unsigned io_thread; // from 1

static unsigned spans_lane_of(unsigned lane)
{
    if (lane != SPANS_IO)
        return lane;
    if (io_thread == 0)
        io_thread = atomic_fetch_add(&io_threads, 1) + 1;
    return SPANS_IO + (io_thread - 1) % (SPANS_CALL - SPANS_IO);
}

void spans_add(uint64_t start_us, const char *name, unsigned lane,
               struct span_of of)
{
    struct span one = {.name = name,
                       .lane = spans_lane_of(lane),
                       .start_us = start_us,
                       .end_us = sl_real_us(),
                       .of = of};

    pthread_mutex_lock(&spans.lock);
    if (spans.ring != NULL && of.of == spans.of && atomic_load(&spans_on)) {
        spans.ring[spans.next++ % SPANS_MOST] = one;
        if (spans.next - spans.first > SPANS_MOST) {
            spans.first++;
            spans.lost++;
        }
    }
    pthread_mutex_unlock(&spans.lock);
}

enum sl_err spans_start(uint64_t of)
{
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&spans.lock);
    if (spans.ring == NULL)
        spans.ring = sl_malloc_array(SPANS_MOST, sizeof(*spans.ring));
    if (spans.ring == NULL)
        rc = SL_ENOMEM;
    spans.of = of;
    spans.first = spans.next = spans.lost = 0;
    atomic_store(&spans_on, rc == SL_OK);
    pthread_mutex_unlock(&spans.lock);
    return rc;
}

void spans_stop(void)
{
    pthread_mutex_lock(&spans.lock);
    atomic_store(&spans_on, false);
    pthread_mutex_unlock(&spans.lock);
}

size_t spans_take(struct span *out, size_t most)
{
    size_t n = 0;

    pthread_mutex_lock(&spans.lock);
    while (n < most && spans.first < spans.next)
        out[n++] = spans.ring[spans.first++ % SPANS_MOST];
    pthread_mutex_unlock(&spans.lock);
    return n;
}

uint64_t spans_lost(void)
{
    uint64_t lost;

    pthread_mutex_lock(&spans.lock);
    lost = spans.lost;
    pthread_mutex_unlock(&spans.lock);
    return lost;
}

void spans_release(void)
{
    pthread_mutex_lock(&spans.lock);
    atomic_store(&spans_on, false);
    sl_free(spans.ring);
    spans.ring = NULL;
    spans.first = spans.next = 0;
    pthread_mutex_unlock(&spans.lock);
}
