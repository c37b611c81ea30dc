// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/meeting.h"

#include "tests/harness/t.h"

static struct meeting_now of(uint32_t least, uint32_t most, bool under_way)
{
    return (struct meeting_now){least, most, 2, under_way, 100};
}

TEST(meeting, L2_a_round_is_ended_when_it_has_its_quorum_and_the_grace_is_over)
{
    struct meeting m = {0};
    struct meeting_now one = of(1, 1, true), two = of(2, 3, true);

    T_FALSE(meeting_ends(&m, &one, 1000));
    T_FALSE(meeting_ends(&m, &one, 2000)); // a worker will end it
    T_FALSE(meeting_ends(&m, &two, 2000));
    T_FALSE(meeting_ends(&m, &two, 2099));
    T_TRUE(meeting_ends(&m, &two, 2100));
    T_FALSE(meeting_ends(&m, &two, 2101)); // the message is under way
    T_TRUE(meeting_ends(&m, &two, 2100 + MEETING_AGAIN_MS));
    // The next round waits for nothing of this one.
    one = of(0, 0, true);
    T_FALSE(meeting_ends(&m, &one, 2700));
    T_FALSE(meeting_ends(&m, &two, 2701));
    T_TRUE(meeting_ends(&m, &two, 2801));
}

// It was ended by its last contribution, and others came before the shard said
// so.
TEST(meeting, L2_a_round_that_ends_by_itself_leaves_no_grace_to_the_next)
{
    struct meeting m = {0};
    struct meeting_now many = of(8, 11, true), next = of(3, 3, true);

    T_FALSE(meeting_ends(&m, &many, 1000));
    T_FALSE(meeting_ends(&m, &next, 1099));
    T_FALSE(meeting_ends(&m, &next, 1198));
    T_TRUE(meeting_ends(&m, &next, 1199));
}

TEST(meeting, L2_a_round_that_nothing_more_comes_to_is_ended)
{
    struct meeting m = {0};
    struct meeting_now held = of(0, 1, false), none = of(0, 0, false),
                       under_way = of(1, 1, true);

    T_FALSE(meeting_ends(&m, &none, 1000));
    T_FALSE(meeting_ends(&m, &held, 5000));
    T_FALSE(meeting_ends(&m, &under_way, 5100));
    T_FALSE(meeting_ends(&m, &held, 6000));
    T_TRUE(meeting_ends(&m, &held, 6000 + MEETING_IDLE_MS));
    T_FALSE(meeting_ends(&m, &none, 9000));
}

// From the first contribution to the round's end, whatever ended it.
TEST(meeting, tells_how_long_a_round_waits)
{
    struct meeting m = {0};
    struct meeting_now none = of(0, 0, true), some = of(0, 1, true),
                       two = of(2, 2, true), next = of(1, 2, true);

    T_FALSE(meeting_ends(&m, &none, 500));
    T_FALSE(meeting_ends(&m, &some, 1000));
    T_FALSE(meeting_ends(&m, &two, 1050));
    T_NEAR(m.wait_ms, 0, 0); // none has ended
    // One of the next round has come by then.
    T_FALSE(meeting_ends(&m, &next, 1080));
    T_NEAR(m.wait_ms, 80, 0);
    T_FALSE(meeting_ends(&m, &none, 1240));
    T_NEAR(m.wait_ms, 80 + (160 - 80) / 8.0, 1e-9);
    // Where nothing is held no time passes.
    T_FALSE(meeting_ends(&m, &none, 9000));
    T_FALSE(meeting_ends(&m, &two, 9100));
    T_FALSE(meeting_ends(&m, &none, 9190));
    T_NEAR(m.wait_ms, 90, 1e-9);
}

TEST(meeting, the_grace_is_half_of_the_usual_time)
{
    double times[] = {90000, 40, 60, 50, 70};

    T_EQ(meeting_grace_ms(times, 5), 30);
    T_EQ(meeting_grace_ms(times, 0), 0);
}
