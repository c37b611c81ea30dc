// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/admit.h"

#include "tests/harness/t.h"

TEST(admit, I1_memory_that_was_kept_keeps_its_incarnation)
{
    struct admit_case c = {.live = 3, .newest = 3, .cut = {3, 9}};

    T_EQ(admit_judge(&c), ADMIT_RENEW);
    c.live = 2; // a newer one was admitted: drop all and start over
    T_EQ(admit_judge(&c), ADMIT_RELOAD);
}

TEST(admit, I1_whatever_loaded_anything_gets_a_new_incarnation)
{
    struct admit_case c = {.loaded = {3, 9}, .newest = 3, .cut = {3, 9}};

    T_EQ(admit_judge(&c), ADMIT_NEW);
    c.loaded.sequence = 12; // newer than the cut: which one does not matter
    T_EQ(admit_judge(&c), ADMIT_NEW);
}

TEST(admit, K5_nobody_is_admitted_while_a_manifest_is_written)
{
    struct admit_case live = {.writing = true, .live = 3, .newest = 3};
    struct admit_case loaded = {.writing = true, .loaded = {3, 1}, .newest = 3};

    T_EQ(admit_judge(&live), ADMIT_WAIT);
    T_EQ(admit_judge(&loaded), ADMIT_WAIT);
}

TEST(admit, K7_what_lies_before_the_last_cut_is_refused)
{
    struct admit_case c = {.loaded = {3, 8}, .newest = 4, .cut = {3, 9}};

    T_EQ(admit_judge(&c), ADMIT_RELOAD);
    c.loaded = (struct wire_tag){2, 99}; // an older line
    T_EQ(admit_judge(&c), ADMIT_RELOAD);
    c.loaded = (struct wire_tag){4, 0};
    T_EQ(admit_judge(&c), ADMIT_NEW);
}

TEST(admit, K7_the_seed_passes_only_while_no_cut_exists)
{
    struct admit_case c = {.newest = 2};

    T_EQ(admit_judge(&c), ADMIT_NEW);
    c.cut = (struct wire_tag){1, 1};
    T_EQ(admit_judge(&c), ADMIT_RELOAD);
}

TEST(admit, I7_what_is_above_the_journal_shows_that_it_is_behind)
{
    struct admit_case live = {.live = 4, .newest = 3};
    struct admit_case loaded = {.loaded = {4, 1}, .newest = 3};

    T_EQ(admit_judge(&live), ADMIT_BEHIND);
    T_EQ(admit_judge(&loaded), ADMIT_BEHIND);
    live.writing = loaded.failed = true; // before everything else
    T_EQ(admit_judge(&live), ADMIT_BEHIND);
    T_EQ(admit_judge(&loaded), ADMIT_BEHIND);
}

TEST(admit, a_shard_that_can_load_nothing_is_stuck_not_refused)
{
    struct admit_case c = {.failed = true, .newest = 2, .cut = {1, 1}};

    T_EQ(admit_judge(&c), ADMIT_STUCK);
}
