// SPDX-License-Identifier: Apache-2.0
// Results of audited slots, and which of them is wrong.
#include "coordinator/rules/votes.h"

#include <string.h>

#include "coordinator/rules/witness.h"
#include "tests/harness/t.h"

enum { ROUND = 4 };

static struct votes votes;
static struct votes_result seen;

static const char *name_of(unsigned k)
{
    static const char *const names[] = {"w-0", "w-1", "w-2", "w-3", "w-4"};

    return names[k];
}

// Worker k, of its own certificate and host.
static void say(unsigned k, uint64_t closure, uint64_t inputs, uint64_t output)
{
    const struct vote vote = {
        .name = (char *)name_of(k),
        .witness = witness_of(name_of(k), name_of(k)),
        .kind = 5,
        .inputs = inputs,
        .output = output,
    };

    votes_take(&votes, ROUND, closure, &vote, &seen);
}

// Worker k, with a certificate and a host that others may have.
static void say_as(unsigned k, const char *party, const char *host,
                   uint64_t output)
{
    const struct vote vote = {.name = (char *)name_of(k),
                              .witness = witness_of(party, host),
                              .inputs = 1,
                              .output = output};

    votes_take(&votes, ROUND, 8, &vote, &seen);
}

static const char *wrong(void)
{
    return seen.wrong == NULL ? "nobody" : seen.wrong->name;
}

TEST(votes, A2_two_outvote_a_third_whoever_comes_first)
{
    static const unsigned order[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    for (size_t i = 0; i < SL_COUNT(order); i++) {
        for (unsigned k = 0; k < 3; k++) {
            T_STR(wrong(), "nobody");
            say(order[i][k], 8, 1, order[i][k] == 1 ? 99 : 7);
        }
        T_STR(wrong(), "w-1");
        T_TRUE(seen.right[0] != seen.right[1]);
        T_EQ(seen.right[0]->output, 7);
        T_EQ(seen.right[1]->output, 7);
        say(3, 8, 1, 7); // it is said once
        T_STR(wrong(), "nobody");
        votes_release(&votes);
        seen.wrong = NULL;
    }
}

TEST(votes, A2_one_word_against_another_decides_nothing)
{
    say(0, 8, 1, 7);
    T_FALSE(seen.compared);
    say(1, 8, 1, 99);
    T_TRUE(seen.compared && seen.differs && !seen.agrees);
    T_STR(wrong(), "nobody");
    say(2, 8, 1, 55); // three words
    T_STR(wrong(), "nobody");
    T_FALSE(seen.compared || seen.differs); // the slot was counted
    say(1, 8, 1, 55);                       // nobody votes twice
    T_STR(wrong(), "nobody");
    say(3, 8, 1, 55);
    T_STR(wrong(), "w-0");
    votes_release(&votes);
}

// A right result has other bits on another kind of host, or after a shard fell
// back.
TEST(votes, A2_results_of_other_inputs_or_kinds_are_not_compared)
{
    struct vote other = {.name = "w-4",
                         .witness = witness_of("w-4", "w-4"),
                         .kind = 6,
                         .inputs = 1,
                         .output = 99};

    say(0, 8, 1, 7);
    say(1, 8, 2, 99);
    T_FALSE(seen.compared);
    votes_take(&votes, ROUND, 8, &other, &seen);
    T_FALSE(seen.compared);
    say(2, 8, 1, 7);
    T_TRUE(seen.compared && seen.agrees && !seen.differs);
    T_STR(wrong(), "nobody");
    votes_release(&votes);
}

// Many workers of one host, or of one certificate, are one voice, and one that
// is accused is not outvoted by its own kin.
TEST(votes, A2_only_independent_witnesses_decide)
{
    say_as(0, "a", "h0", 99);
    say_as(1, "b", "h0", 99);
    say_as(2, "c", "h1", 7);
    T_STR(wrong(), "nobody"); // the two share a host
    votes_release(&votes);
    say_as(0, "a", "h0", 99);
    say_as(1, "a", "h1", 99);
    say_as(2, "c", "h2", 7);
    T_STR(wrong(), "nobody"); // the two share a certificate
    say_as(3, "d", "h3", 7);
    T_STR(wrong(), "w-0"); // two others do not
    votes_release(&votes);
}

TEST(votes, A3_a_newer_round_takes_the_place_of_an_old_one)
{
    say(0, 3, 1, 7);
    say(0, 3 + 4 * ROUND, 1, 7);
    T_EQ(votes.capacity, 4 * ROUND);
    say(1, 3, 1, 99); // too late
    T_FALSE(seen.compared);
    say(1, 3 + 4 * ROUND, 1, 7);
    T_TRUE(seen.agrees);
    votes_release(&votes);
    T_EQ(votes.capacity, 0);
}
