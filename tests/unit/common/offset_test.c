// SPDX-License-Identifier: Apache-2.0
// tests/unit/common/offset_test.c -- a clock that is off, and a network that
// makes what is known of it uncertain.
#include "common/base/offset.h"

#include "tests/harness/t.h"

// The peer's clock reads ours minus `off`; messages take `there` and `back`.
static void beat(struct offset *o, uint64_t seq, uint64_t ours, int64_t off,
                 uint64_t there, uint64_t back)
{
    offset_came(o, seq, ours - (uint64_t)off, ours + there);
    offset_heard(o, seq, ours + there + back - (uint64_t)off);
}

TEST(offset, nothing_is_known_before_an_answer_was_heard)
{
    struct offset o = {0};
    int64_t off = 7;
    uint64_t trip = 7;

    T_EQ(offset_best(&o, &off, &trip), false);
    offset_came(&o, 1, 1000, 2000);
    T_EQ(offset_best(&o, &off, &trip), false);
    T_EQ(off, 7);
    offset_heard(&o, 2, 3000); // of no message that we know
    T_EQ(offset_best(&o, &off, &trip), false);
    offset_heard(&o, 1, 1200);
    T_EQ(offset_best(&o, &off, &trip), true);
    T_EQ(trip, 200);
    T_EQ(off, 900);
}

TEST(offset, the_shortest_trip_is_believed_and_bounds_the_error)
{
    static const int64_t offs[] = {-18000000000, 0, 5000000, 86400000000};
    int64_t off;
    uint64_t trip;

    for (size_t i = 0; i < SL_COUNT(offs); i++) {
        struct offset o = {0};

        for (uint64_t seq = 1; seq <= 200; seq++) {
            beat(&o, seq, 100000000000 + seq * 500000, offs[i],
                 50 + t_below(20000), 50 + t_below(20000));
            T_EQ(offset_best(&o, &off, &trip), true);
            T_LE(llabs(off - offs[i]), (int64_t)(trip / 2 + 1));
        }
        T_LT(trip, 20000); // of 16 trips, one was short
    }
}

// It is 100 us a beat too fast: what was known long ago is wrong by now.
TEST(offset, old_trips_are_forgotten)
{
    struct offset o = {0};
    int64_t off;
    uint64_t trip;

    beat(&o, 1, 1000000, 0, 1, 1); // the best there ever was
    for (uint64_t seq = 2; seq <= 40; seq++)
        beat(&o, seq, 1000000 + seq * 500000, (int64_t)seq * 100, 300, 300);
    T_EQ(offset_best(&o, &off, &trip), true);
    T_EQ(trip, 600);
    T_GE(off, (40 - OFFSET_TRIPS) * 100);
}

TEST(offset, what_a_peer_cannot_have_meant_is_left_out)
{
    static const uint64_t strange[] = {0, 1, UINT64_C(1) << 62, UINT64_MAX - 1,
                                       UINT64_MAX};
    struct offset o = {0};
    int64_t off;
    uint64_t trip;

    for (unsigned i = 0; i < 10000; i++) {
        uint64_t seq = strange[t_below(5)];

        offset_came(&o, seq, strange[t_below(5)], t_below(1u << 30));
        offset_heard(&o, seq, strange[t_below(5)]);
        if (offset_best(&o, &off, &trip))
            T_LE(trip, UINT64_C(1) << 62);
    }
    offset_came(&o, 9, 5000, 100); // heard before it was sent
    offset_heard(&o, 9, 4000);
}
