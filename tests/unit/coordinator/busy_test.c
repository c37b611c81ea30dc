// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/busy.h"

#include <math.h>

#include "tests/harness/t.h"

// What a member counts that tells no pushes.
static struct busy_counts older(uint64_t cpu_us, uint64_t sent,
                                uint64_t received)
{
    return (struct busy_counts){
        .cpu_us = cpu_us, .sent_bytes = sent, .received_bytes = received};
}

TEST(busy, rates_are_of_the_last_window)
{
    struct busy b = {0};
    struct busy_times seen = {0};

    busy_beat(&b, 1000, older(5000000, 100, 200));
    T_TRUE(!b.known);
    busy_did(&b, &seen, (struct busy_times){1500, 400, 100});
    busy_did(&b, &seen, (struct busy_times){1500, 400, 100}); // again
    busy_beat(&b, 2000, older(6000000, 100, 200));
    T_TRUE(!b.known); // half a window
    busy_beat(&b, 3000, older(8000000, 4100, 1200));
    T_TRUE(b.known);
    T_NEAR(b.cpu_cores, 1.5, 1e-9);
    T_NEAR(b.sent_per_second, 2000, 1e-9);
    T_NEAR(b.received_per_second, 500, 1e-9);
    T_NEAR(b.computing, 0.75, 1e-9);
    T_NEAR(b.waiting, 0.2, 1e-9);
    T_NEAR(b.reading, 0.05, 1e-9);
    busy_beat(&b, 5000, older(8000001, 4100, 1200));
    T_NEAR(b.computing, 0, 0);
    T_NEAR(b.sent_per_second, 0, 0);
}

TEST(busy, counts_that_fall_and_reports_that_lie_give_no_nonsense)
{
    struct busy b = {0};
    struct busy_times seen = {0};

    busy_beat(&b, 1000, older(0, 7, 7)); // it does not say
    T_EQ(b.since_ms, 0);
    busy_beat(&b, 2000, older(1000, 700, 700));
    busy_beat(&b, 5000, older(2000, 5, 5)); // the host's restarted
    T_TRUE(!b.known);
    busy_did(&b, &seen, (struct busy_times){1e300, -5, 3});
    busy_did(&b, &seen, (struct busy_times){1, -9, 2}); // less than before
    busy_beat(&b, 7000, older(3000, 5, 5));
    T_TRUE(b.known);
    T_NEAR(b.computing, 1, 0);
    T_NEAR(b.waiting, 0, 0);
    T_NEAR(b.reading, 0.0015, 1e-9);
}

TEST(busy, pushes_are_a_rate_between_two_heartbeats_that_both_tell_them)
{
    struct busy b = {0};

    busy_beat(&b, 1000, older(1000, 7, 7)); // an older psserver
    busy_beat(&b, 3000, older(2000, 7, 7));
    T_TRUE(b.known);
    T_TRUE(isnan(b.pushes_per_second));
    busy_beat(&b, 5000, (struct busy_counts){3000, 7, 7, true, 50000});
    T_TRUE(isnan(b.pushes_per_second)); // of how long, nobody knows
    busy_beat(&b, 7000, (struct busy_counts){4000, 7, 7, true, 50600});
    T_NEAR(b.pushes_per_second, 300, 1e-9);
    busy_beat(&b, 8000, (struct busy_counts){5000, 7, 7, true, 20}); // anew
    T_NEAR(b.pushes_per_second, 300, 1e-9);
    busy_beat(&b, 10000, (struct busy_counts){6000, 7, 7, true, 20});
    T_NEAR(b.pushes_per_second, 0, 0); // it is idle, and says so
}
