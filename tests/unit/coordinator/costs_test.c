// SPDX-License-Identifier: Apache-2.0
// What the bearer of a certificate may cost, by a clock driven by hand.
#include "coordinator/service/costs.h"

#include "tests/harness/t.h"

static const struct access_who named = {.role = ACCESS_WORKER, .name = "w7"},
                               other = {.role = ACCESS_PSSERVER, .name = "w7"},
                               any = {.role = ACCESS_WORKER, .name = "*"},
                               local = {.role = ACCESS_LOCAL};

// Messages of so many us each, sent as fast as they are read: how many ms they
// took in the first ten seconds.
static uint64_t flood(uint64_t us)
{
    struct cost_time t = {0};
    uint64_t now = 5000, busy = 0;

    while (now < 15000) {
        uint32_t wait;

        now += us / 1000;
        wait = cost_time_spend(&t, us, now);
        T_LE(wait, COSTS_WAIT_MS);
        busy += us / 1000;
        now += wait;
    }
    return busy;
}

TEST(costs, a_flood_has_its_part_of_the_time)
{
    uint64_t burst = 2 * COSTS_BURST_US / 1000;

    T_LE(flood(1000), 10000 / COSTS_PART + burst);
    T_LE(flood(20000), 10000 / COSTS_PART + burst);
    T_GE(flood(1000), 10000 / COSTS_PART - burst);
}

TEST(costs, who_stays_below_it_never_waits)
{
    struct cost_time t = {0};

    T_EQ(cost_time_spend(&t, COSTS_BURST_US, 1000), 0);
    for (uint64_t now = 1010; now < 60000; now += 10)
        T_EQ(cost_time_spend(&t, 10000 / COSTS_PART, now), 0);
    T_EQ(cost_time_spend(&t, (uint64_t)3600 * 1000000, 60000), COSTS_WAIT_MS);
}

TEST(costs, a_certificate_opens_so_many_streams_a_minute)
{
    struct costs all;
    struct sl_error err = SL_ERROR_INIT;

    costs_init(&all);
    for (unsigned i = 0; i < COSTS_OPENS; i++)
        T_OK(cost_open(costs_of(&all, &named), &named, 1000 + i, t_err()));
    T_FAILS(SL_EBUSY, cost_open(costs_of(&all, &named), &named, 60999, &err));
    T_HAS(err.text, "worker 'w7' has attached 120 times within a minute");
    T_OK(cost_open(costs_of(&all, &other), &other, 60999, t_err()));
    T_OK(cost_open(costs_of(&all, &named), &named, 61000, t_err()));
    for (unsigned i = 0; i < COSTS_OPENS_ANY; i++) {
        T_OK(cost_open(costs_of(&all, &any), &any, 70000, t_err()));
        T_OK(cost_open(costs_of(&all, &local), &local, 70000, t_err()));
    }
    T_FAILS(SL_EBUSY, cost_open(costs_of(&all, &any), &any, 70000, &err));
    T_OK(cost_open(costs_of(&all, &local), &local, 70000, t_err()));
    costs_release(&all);
}

TEST(costs, accounts_are_bounded)
{
    struct costs all;
    struct access_who who = named;

    costs_init(&all);
    for (unsigned i = 0; i < 3 * COSTS_ACCOUNTS; i++) {
        snprintf(who.name, sizeof(who.name), "w%u", i);
        T_ASSERT(costs_of(&all, &who) != NULL);
        T_LE(all.of.len, COSTS_ACCOUNTS);
    }
    costs_release(&all);
}
