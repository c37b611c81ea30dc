// SPDX-License-Identifier: Apache-2.0
#include "trainer/lease/hybrid.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

enum { JOB = 7 };

static bool hear(void *arg, const Sluice__V1__AttendUp *up)
{
    (void)up;
    ++*(unsigned *)arg;
    return true;
}

static struct loop *loop_of_test(void)
{
    struct loop *l = NULL;

    T_OK(loop_new(&l, t_err()));
    return l;
}

// The coordinator of another edition may send what a group has no use for.
TEST(hybrid, an_order_to_copy_a_state_is_dropped)
{
    Sluice__V1__RingCopy copy = SLUICE__V1__RING_COPY__INIT;
    unsigned said = 0;
    struct loop *loop = loop_of_test();
    struct ring_env env = {.loop = loop,
                           .clock = sl_clock_real(),
                           .send = hear,
                           .arg = &said,
                           .address = "",
                           .host = ""};
    struct contributor by = {.ops = NULL};
    struct lease lease = {.job = JOB};
    struct hybrid *h = NULL;
    uint64_t live;

    T_OK(seat_new(&lease.seat, &env, JOB, 1));
    T_OK(hybrid_new(&h));
    hybrid_enter(h, &lease, &by);
    while (said == 0)
        loop_turn(loop);
    live = sl_mem_live();
    copy.generation = 1;
    seat_copy(lease.seat, &copy);
    T_TRUE(seat_has_news(lease.seat));
    hybrid_look(h);
    T_FALSE(seat_has_news(lease.seat));
    T_EQ(sl_mem_live(), live);
    hybrid_exit(h);
    hybrid_free(h);
    seat_retire(lease.seat);
    loop_free(loop);
}
