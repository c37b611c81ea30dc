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

// ---- hosts of different kinds

// Worker k of a kind; its gradient has that norm, and differs from the right
// one by `off` norms. The digests of two kinds are never equal.
static void say_kind(unsigned k, uint64_t kind, uint64_t closure, double norm,
                     double off)
{
    struct vote vote = {.name = (char *)name_of(k),
                        .witness = witness_of(name_of(k), name_of(k)),
                        .kind = kind,
                        .inputs = 1,
                        .output = 100 * kind + (off != 0),
                        .sketch = {{norm * norm, norm}},
                        .bound = votes_bound(SPEC_F32)};

    vote.sketch.of[3] = norm * off + 1e-6 * norm * (double)kind;
    votes_take(&votes, ROUND, closure, &vote, &seen);
}

// Kinds 5, 6 and 7 are near each other from here on, at a norm of 1.
static void make_near(void)
{
    for (unsigned k = 0; k < 3; k++)
        say_kind(k, 5 + k, 0, 1, 0);
    T_TRUE(seen.compared || seen.agrees);
    T_FALSE(seen.differs);
}

TEST(votes, A2_right_results_of_two_kinds_differ_in_bits_and_blame_nobody)
{
    for (uint64_t closure = 1; closure < 9; closure++) {
        for (unsigned k = 0; k < 4; k++) {
            say_kind(k, k == 3 ? 6 : 5, closure, 1, 0);
            T_STR(wrong(), "nobody");
            T_FALSE(seen.differs);
        }
        T_TRUE(seen.agrees);
    }
    votes_release(&votes);
}

// Once may be a kink that rounding moved an element over.
TEST(votes, A2_a_result_far_from_two_of_other_kinds_is_wrong_the_second_time)
{
    for (unsigned third = 5; third <= 6; third++) { // one or two other kinds
        make_near();
        for (uint64_t closure = 1; closure < 3; closure++) {
            say_kind(1, 6, closure, 1, 0);
            say_kind(0, 7, closure, 1, 0.1);
            T_TRUE(seen.differs);
            say_kind(2, third, closure, 1, 0);
            T_STR(wrong(), closure == 1 ? "nobody" : "w-0");
        }
        T_TRUE(seen.right[0] != seen.right[1]);
        votes_release(&votes);
        seen.wrong = NULL;
    }
}

// Two of one kind have other bits: one of them is wrong, and the third, of
// another kind, says which one.
TEST(votes, A2_one_of_another_kind_decides_between_two_of_one_kind)
{
    make_near();
    say_kind(0, 5, 1, 1, 0.1);
    say_kind(1, 5, 1, 1, 0);
    T_TRUE(seen.differs);
    say_kind(2, 6, 1, 1, 0);
    T_STR(wrong(), "w-0");
    say_kind(0, 5, 2, 1, 1e-9); // too little for a sketch
    say_kind(1, 5, 2, 1, 0);
    T_TRUE(seen.differs);
    say_kind(2, 6, 2, 1, 0);
    T_STR(wrong(), "nobody");
    votes_release(&votes);
}

// Rounding is all that a gradient is of which nothing is left to learn.
TEST(votes, A2_kinds_that_were_never_near_are_not_compared)
{
    for (uint64_t closure = 1; closure < 9; closure++) {
        say_kind(0, 5, closure, 1e-6, 0.5);
        say_kind(1, 6, closure, 1e-6, 0);
        T_FALSE(seen.compared);
        say_kind(2, 6, closure, 1e-6, 0);
        T_STR(wrong(), "nobody");
    }
    votes_release(&votes);
    make_near();
    for (uint64_t closure = 1; closure < 9; closure++) {
        say_kind(0, 5, closure, 1e-6, 0.5); // 5e-7 of the norm of before
        say_kind(1, 6, closure, 1e-6, 0);
        T_FALSE(seen.differs);
        say_kind(2, 6, closure, 1e-6, 0);
        T_STR(wrong(), "nobody");
    }
    votes_release(&votes);
}

// An older worker tells none; and whatever numbers one tells, nobody else is
// blamed.
TEST(votes, A2_a_result_without_a_sketch_is_compared_with_its_kind_alone)
{
    make_near();
    for (uint64_t closure = 1; closure < 9; closure++) {
        say(0, closure, 1, 99); // of kind 5
        say_kind(1, 6, closure, 1, 0);
        T_FALSE(seen.compared);
        say_kind(2, 6, closure, 1, 0);
        T_STR(wrong(), "nobody");
        say_kind(3, 7, closure, 1e200, 1e200);
        T_STR(wrong(), closure == 1 ? "nobody" : "w-3");
    }
    votes_release(&votes);
}

// A gradient that is not finite is far from one that is, if that is not so long
// that another kind may have gone beyond the largest number.
TEST(votes, A2_a_result_that_is_not_finite_is_wrong_by_two_of_another_kind)
{
    struct vote vote = {.name = (char *)"w-0",
                        .witness = witness_of("w-0", "w-0"),
                        .kind = 7,
                        .inputs = 1,
                        .sketch = {{-1}},
                        .bound = votes_bound(SPEC_F32)};

    for (unsigned run = 0; run < 2; run++) {
        make_near();
        for (uint64_t closure = 1; closure < 3; closure++) {
            say_kind(1, 6, closure, run == 0 ? 1 : 1e20, 0);
            say_kind(2, 6, closure, run == 0 ? 1 : 1e20, 0);
            votes_take(&votes, ROUND, closure, &vote, &seen);
        }
        T_STR(wrong(), run == 0 ? "w-0" : "nobody");
        votes_release(&votes);
    }
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
