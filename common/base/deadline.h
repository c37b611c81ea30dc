// SPDX-License-Identifier: Apache-2.0
// common/base/deadline.h -- waiting for a condition, but not for ever.
//
// A deadline is on the monotonic clock: setting the wall clock makes no wait
// shorter or longer. The condition variable needs no attribute for that.
//
//     struct deadline until = deadline_in_ms(10000);
//
//     pthread_mutex_lock(&lock);
//     while (!ended && deadline_wait(&until, &changed, &lock))
//         ;
//
// Threads  any.
// Memory   values.
#ifndef COMMON_BASE_DEADLINE_H
#define COMMON_BASE_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct deadline {
    struct timespec at; // CLOCK_MONOTONIC
};

// Returns the deadline that ends `ms` milliseconds from now; a number too large
// for the clock is never.
struct deadline deadline_in_ms(uint64_t ms);

// Sets *d to the deadline `wait_ms` milliseconds from now and returns d.
// Returns NULL, which deadline_wait takes for never, if `wait_ms` is negative;
// *d is then untouched.
const struct deadline *deadline_or_never(struct deadline *d, int64_t wait_ms);

// Waits until *changed is signalled or the deadline `d` (NULL: never) is over.
// Returns false once it is over, else true. It may return true without a
// signal, and false although a signal came too: check the condition again in
// both cases. The caller holds *lock; it is free during the wait, and held
// again on return.
bool deadline_wait(const struct deadline *d, pthread_cond_t *changed,
                   pthread_mutex_t *lock);

#endif
