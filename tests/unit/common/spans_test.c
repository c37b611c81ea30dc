// SPDX-License-Identifier: Apache-2.0
// tests/unit/common/spans_test.c -- kept while somebody asks, the newest, of
// one thing.
#include "common/run/spans.h"

#include <pthread.h>

#include "tests/harness/t.h"

static struct span taken[SPANS_MOST];

static void say(uint64_t of, uint64_t closure)
{
    span_end(span_begin(), "work", SPANS_COMPUTE, span_of_closure(of, closure));
}

TEST(spans, nothing_is_kept_before_somebody_asks)
{
    T_EQ(span_begin(), 0);
    say(7, 1);
    T_EQ(spans_take(taken, SPANS_MOST), 0);
    T_OK(spans_start(7));
    T_GT(span_begin(), 0);
    spans_release();
    T_EQ(span_begin(), 0);
}

// One that began before, or while it was off, is none.
TEST(spans, of_one_thing_and_of_what_began_inside)
{
    uint64_t before = span_begin();

    T_OK(spans_start(7));
    span_end(before, "work", SPANS_LOOP, span_of_closure(7, 0));
    say(7, 1);
    say(8, 2); // another job's
    say(7, 3);
    spans_stop();
    say(7, 4);
    T_EQ(spans_take(taken, 1), 1);
    T_EQ(taken[0].of.closure, 2); // plus 1
    T_EQ(spans_take(taken, SPANS_MOST), 1);
    T_EQ(taken[0].of.closure, 4);
    T_GE(taken[0].end_us, taken[0].start_us);
    T_STR(taken[0].name, "work");
    T_EQ(spans_take(taken, SPANS_MOST), 0);
    T_OK(spans_start(7)); // what was is forgotten
    T_EQ(spans_take(taken, SPANS_MOST), 0);
    spans_release();
}

TEST(spans, the_newest_are_kept_and_the_others_counted)
{
    T_OK(spans_start(7));
    for (uint64_t i = 0; i < SPANS_MOST + 100; i++)
        say(7, i);
    spans_stop();
    T_EQ(spans_lost(), 100);
    T_EQ(spans_take(taken, SPANS_MOST), SPANS_MOST);
    T_EQ(taken[0].of.closure, 101);
    T_EQ(taken[SPANS_MOST - 1].of.closure, SPANS_MOST + 100);
    spans_release();
}

static void *say_io(void *arg)
{
    for (unsigned i = 0; i < 1000; i++)
        span_end(span_begin(), arg, SPANS_IO, span_of_step(7, 1, 2));
    return NULL;
}

TEST(spans, each_io_thread_has_a_lane)
{
    pthread_t threads[2];
    uint32_t lanes[2] = {0, 0};
    unsigned counts[2] = {0, 0};

    T_OK(spans_start(7));
    T_EQ(pthread_create(&threads[0], NULL, say_io, "one"), 0);
    T_EQ(pthread_create(&threads[1], NULL, say_io, "two"), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    T_EQ(spans_take(taken, SPANS_MOST), 2000);
    for (unsigned i = 0; i < 2000; i++) {
        unsigned which = strcmp(taken[i].name, "two") == 0;

        counts[which]++;
        T_EQ(lanes[which] == 0 || lanes[which] == taken[i].lane, true);
        lanes[which] = taken[i].lane;
    }
    T_EQ(counts[0], 1000);
    T_NE(lanes[0], lanes[1]);
    T_GE(lanes[0], SPANS_IO);
    T_LT(lanes[1], SPANS_CALL);
    spans_release();
}
