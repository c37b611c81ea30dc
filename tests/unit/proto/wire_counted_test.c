// SPDX-License-Identifier: Apache-2.0
// Counted sets as messages.
#include "tests/unit/proto/t_proto.h"

static const struct schedule schedule = {
    .samples = 1000, .batch = 10, .epochs = 2, .steps_per_closure = 12};

TEST(wire_counted, any_set_comes_back)
{
    for (unsigned i = 0; i < 100; i++) {
        struct counted set, back;
        struct wire_counted w;

        T_OK(counted_init(&set, &schedule));
        for (uint64_t n = t_below(300); n > 0; n--)
            (void)counted_add(&set, t_below(18), (uint32_t)t_below(12));
        T_OK(wire_counted_init(&w, &set));
        T_OK(wire_check(&w.msg.base, t_err()));
        T_OK(wire_counted_read(&back, &schedule, &w.msg, t_err()));
        T_TRUE(counted_equal(&set, &back));
        wire_counted_release(&w);
        counted_release(&set);
        counted_release(&back);
    }
}

TEST(wire_counted, a_set_of_another_geometry_is_refused)
{
    static const char *const texts[] = {
        "{'low':19}",                                 // 18 closures
        "{'sparse':[{'closure':18,'steps':'AQ=='}]}", // beyond the end
        "{'sparse':[{'closure':1,'steps':'AQ=='}]}",  // 12 steps: 2 bytes
        "{'sparse':[{'closure':1,'steps':'AAA='}]}",  // empty
        "{'sparse':[{'closure':8,'steps':'AgA='}]}",  // 4 steps: 1 byte
    };

    for (unsigned i = 0; i < SL_COUNT(texts); i++) {
        ProtobufCMessage *m =
            t_make(&sluice__v1__counted_set__descriptor, texts[i]);
        struct counted set;

        T_FAILS(SL_ECORRUPT,
                wire_counted_read(&set, &schedule, (Sluice__V1__CountedSet *)m,
                                  NULL));
        wire_free(m);
    }
}

TEST(wire_counted, no_message_is_the_empty_set)
{
    struct counted set;

    T_OK(wire_counted_read(&set, &schedule, NULL, t_err()));
    T_EQ(counted_steps(&set), 0);
    counted_release(&set);
}

TEST(wire_counted, geometry_and_schedule_are_the_same_numbers)
{
    Sluice__V1__Geometry g = wire_geometry(&schedule);
    struct schedule back = wire_schedule(&g);

    T_MEM(&back, &schedule, sizeof(back));
}

TEST(wire_counted, out_of_memory_at_every_step)
{
    struct counted set;
    bool failed = true;

    T_OK(counted_init(&set, &schedule));
    T_OK(counted_add(&set, 3, 1));
    for (uint64_t n = 1; failed; n++) {
        struct wire_counted w = {0};
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = wire_counted_init(&w, &set);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        wire_counted_release(&w);
    }
    counted_release(&set);
}
