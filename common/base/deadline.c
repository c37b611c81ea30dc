// SPDX-License-Identifier: Apache-2.0
// common/base/deadline.c -- the wait on a condition variable up to a monotonic
// moment.
#include "common/base/deadline.h"

#define NEVER_MS (UINT64_C(1) << 60) // 36 million years

struct deadline deadline_in_ms(uint64_t ms)
{
    struct deadline d;

    if (ms > NEVER_MS)
        ms = NEVER_MS;
    clock_gettime(CLOCK_MONOTONIC, &d.at);
    d.at.tv_sec += (time_t)(ms / 1000);
    d.at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (d.at.tv_nsec >= 1000000000) {
        d.at.tv_sec++;
        d.at.tv_nsec -= 1000000000;
    }
    return d;
}

const struct deadline *deadline_or_never(struct deadline *d, int64_t wait_ms)
{
    if (wait_ms < 0)
        return NULL;
    *d = deadline_in_ms((uint64_t)wait_ms);
    return d;
}

bool deadline_wait(const struct deadline *d, pthread_cond_t *changed,
                   pthread_mutex_t *lock)
{
    if (d != NULL)
        return pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &d->at) ==
               0;
    pthread_cond_wait(changed, lock);
    return true;
}
