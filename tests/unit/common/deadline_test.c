// SPDX-License-Identifier: Apache-2.0
#include "common/base/deadline.h"

#include "tests/harness/t.h"

#define FAR_MS 3600000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
} shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void *finish(void *arg)
{
    pthread_mutex_lock(&shared.lock);
    shared.done = true;
    pthread_cond_broadcast(&shared.changed);
    pthread_mutex_unlock(&shared.lock);
    return arg;
}

// The monotonic clock is far behind the wall clock, so a wait that took the
// one for the other would be over at once.
TEST(deadline, a_far_one_leaves_time_for_the_signal)
{
    struct deadline until = deadline_in_ms(FAR_MS);
    bool in_time = true;
    pthread_t thread;

    shared.done = false;
    pthread_mutex_lock(&shared.lock); // finish() runs while we wait
    T_EQ(pthread_create(&thread, NULL, finish, NULL), 0);
    while (!shared.done && in_time)
        in_time = deadline_wait(&until, &shared.changed, &shared.lock);
    pthread_mutex_unlock(&shared.lock);
    pthread_join(thread, NULL);
    T_TRUE(in_time);
    T_TRUE(shared.done);
}

TEST(deadline, one_that_is_over_ends_the_wait)
{
    struct deadline now = deadline_in_ms(0);

    pthread_mutex_lock(&shared.lock);
    while (deadline_wait(&now, &shared.changed, &shared.lock))
        ;
    pthread_mutex_unlock(&shared.lock);
}

static int64_t ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

TEST(deadline, counts_from_now_by_the_monotonic_clock)
{
    const uint64_t ms[] = {0, 1, 999, 1000, 1001, 12345, FAR_MS};
    struct timespec before, after;

    for (int i = 0; i < 7000; i++) { // every part of a second
        uint64_t n = ms[i % SL_COUNT(ms)];
        struct deadline d;

        clock_gettime(CLOCK_MONOTONIC, &before);
        d = deadline_in_ms(n);
        clock_gettime(CLOCK_MONOTONIC, &after);
        T_GE(ns(&d.at), ns(&before) + (int64_t)n * 1000000);
        T_LE(ns(&d.at), ns(&after) + (int64_t)n * 1000000);
        T_LT(d.at.tv_nsec, 1000000000);
    }
}

TEST(deadline, never_is_not_in_the_past)
{
    const uint64_t ms[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2};
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0; i < SL_COUNT(ms); i++)
        T_GT(deadline_in_ms(ms[i]).at.tv_sec, now.tv_sec + 1000000000);
}
