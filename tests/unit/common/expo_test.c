// SPDX-License-Identifier: Apache-2.0
#include "common/run/expo.h"

#include <math.h>
#include <pthread.h>

#include "tests/harness/t.h"

static struct buf text;
static struct expo e;

static void begin(bool open)
{
    buf_reset(&text);
    expo_begin(&e, &text, open);
}

static const char *end(void)
{
    T_OK(expo_end(&e));
    return buf_text(&text);
}

TEST(expo, writes_a_family)
{
    begin(false);
    expo_family(&e, "sluice_jobs", EXPO_GAUGE, "Jobs, by state.");
    expo_value(&e, 3, "state", "running", NULL);
    expo_value(&e, 0.25, "state", "ended", "why", "x", NULL);
    expo_single(&e, "sluice_steps_total", EXPO_COUNTER, "Steps.", 1e12);
    T_STR(end(), "# HELP sluice_jobs Jobs, by state.\n"
                 "# TYPE sluice_jobs gauge\n"
                 "sluice_jobs{state=\"running\"} 3\n"
                 "sluice_jobs{state=\"ended\",why=\"x\"} 0.25\n"
                 "# HELP sluice_steps_total Steps.\n"
                 "# TYPE sluice_steps_total counter\n"
                 "sluice_steps_total 1000000000000\n");
}

TEST(expo, open_metrics_differ)
{
    begin(true);
    expo_single(&e, "sluice_steps_total", EXPO_COUNTER, "Steps.", 7);
    T_STR(end(), "# HELP sluice_steps Steps.\n"
                 "# TYPE sluice_steps counter\n"
                 "sluice_steps_total 7\n"
                 "# EOF\n");
}

TEST(expo, escapes)
{
    begin(false);
    expo_family(&e, "a", EXPO_GAUGE, "b\\c\n\"d\"");
    expo_value(&e, 1, "l", "b\\c\n\"d\"", NULL);
    T_STR(end(), "# HELP a b\\\\c\\n\"d\"\n# TYPE a gauge\n"
                 "a{l=\"b\\\\c\\n\\\"d\\\"\"} 1\n");
}

TEST(expo, numbers_are_read_back)
{
    begin(false);
    expo_family(&e, "a", EXPO_GAUGE, "b");
    expo_value(&e, 0.1, NULL);
    expo_value(&e, NAN, NULL);
    expo_value(&e, INFINITY, NULL);
    expo_value(&e, -INFINITY, NULL);
    expo_value(&e, -5, NULL);
    T_HAS(end(), "a 0.10000000000000001\na NaN\na +Inf\na -Inf\na -5\n");
}

// promtool does not see a histogram whose last bucket is not its count.
TEST(expo, a_histogram_adds_up)
{
    static struct histogram h = HISTOGRAM_DURATIONS;

    histogram_add(&h, 0);
    histogram_add(&h, 500);
    histogram_add(&h, 501);
    histogram_add(&h, 30000001);
    T_EQ(histogram_count(&h), 4);
    begin(false);
    expo_family(&e, "sluice_wait_seconds", EXPO_HISTOGRAM, "Waits.");
    expo_histogram(&e, &h, "kind", "a", NULL);
    T_HAS(end(), "sluice_wait_seconds_bucket{kind=\"a\",le=\"0.0005\"} 2\n"
                 "sluice_wait_seconds_bucket{kind=\"a\",le=\"0.001\"} 3\n");
    T_HAS(buf_text(&text),
          "_bucket{kind=\"a\",le=\"30\"} 3\n"
          "sluice_wait_seconds_bucket{kind=\"a\",le=\"+Inf\"} 4\n"
          "sluice_wait_seconds_sum{kind=\"a\"} 30.001002\n"
          "sluice_wait_seconds_count{kind=\"a\"} 4\n");
}

TEST(expo, a_histogram_of_updates_has_its_own_bounds)
{
    static struct histogram h = HISTOGRAM_UPDATES;

    histogram_add(&h, 0);
    histogram_add(&h, 256);
    histogram_add(&h, 1000);
    begin(false);
    expo_family(&e, "s", EXPO_HISTOGRAM, "S.");
    expo_histogram(&e, &h, NULL);
    T_HAS(end(), "s_bucket{le=\"0\"} 1\n");
    T_HAS(buf_text(&text), "s_bucket{le=\"128\"} 1\ns_bucket{le=\"256\"} 2\n"
                           "s_bucket{le=\"+Inf\"} 3\ns_sum 1256\ns_count 3\n");
}

#define THREADS 4
#define EACH 20000

static struct histogram shared = HISTOGRAM_UPDATES;

static void *add_many(void *arg)
{
    for (int i = 0; i < EACH; i++)
        histogram_add(&shared, (uint64_t)(i % 300));
    return NULL;
}

TEST(expo, threads_lose_nothing_of_a_histogram)
{
    pthread_t threads[THREADS];
    uint64_t n = 0;

    for (int i = 0; i < THREADS; i++)
        T_EQ(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= HISTOGRAM_BOUNDS; i++)
        n += atomic_load(&shared.count[i]);
    T_EQ(n, THREADS * EACH);
}
