// SPDX-License-Identifier: Apache-2.0
// Test vectors of workers that joined, and which of them is wrong.
#include "coordinator/rules/test_vectors.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/rules/witness.h"
#include "tests/harness/t.h"

static struct test_vectors known;
static struct test_vectors_verdict found;
static const struct vote *other;

// A worker tells its vector, of its own certificate and host if `host` is NULL.
// Returns true if something new is known.
static bool say_of(const char *name, const char *party, const char *host,
                   uint64_t kind, uint64_t output, uint64_t process)
{
    const struct vote vote = {.name = (char *)name,
                              .witness = witness_of(party, host),
                              .kind = kind,
                              .output = output};

    return test_vectors_take(&known, &vote, process, &other);
}

static bool say(const char *name, uint64_t output)
{
    return say_of(name, name, name, 5, output, 1);
}

// Returns what is known of a worker, or NULL.
static const struct vote *of(const char *name)
{
    for (uint32_t i = 0; i < known.count; i++)
        if (strcmp(known.list[i].vote.name, name) == 0)
            return &known.list[i].vote;
    return NULL;
}

// Returns the worker that is found wrong now, "nobody" if none is.
static const char *wrong(void)
{
    return test_vectors_judge(&known, &found) ? found.wrong->name : "nobody";
}

TEST(test_vectors, A7_two_outvote_a_third_whoever_joins_first)
{
    static const char *const order[][3] = {{"a", "b", "c"}, {"a", "c", "b"},
                                           {"b", "a", "c"}, {"b", "c", "a"},
                                           {"c", "a", "b"}, {"c", "b", "a"}};

    for (size_t i = 0; i < SL_COUNT(order); i++) {
        for (unsigned k = 0; k < 3; k++) {
            T_STR(wrong(), "nobody");
            T_TRUE(say(order[i][k], *order[i][k] == 'b' ? 99 : 7));
        }
        T_STR(wrong(), "b");
        T_EQ(found.wrong->output, 99);
        T_TRUE(found.right[0] != found.right[1]);
        T_EQ(found.right[0]->output, 7);
        T_EQ(found.right[1]->output, 7);
        T_STR(wrong(), "nobody");
        test_vectors_release(&known);
    }
}

TEST(test_vectors, A7_one_word_against_another_decides_nothing)
{
    T_TRUE(say("a", 7) && other == NULL);
    T_TRUE(say("b", 99));
    T_ASSERT(other != NULL);
    T_STR(other->name, "a");
    T_STR(wrong(), "nobody");
    T_TRUE(say("c", 55)); // three words
    T_STR(wrong(), "nobody");
    T_TRUE(say("d", 55));
    T_STR(wrong(), "a"); // both that are not what two say
    T_STR(wrong(), "b");
    T_STR(wrong(), "nobody");
    test_vectors_release(&known);
}

TEST(test_vectors, A7_only_independent_witnesses_of_one_kind_decide)
{
    T_TRUE(say("a", 99));
    T_TRUE(say_of("b", "b", "host", 5, 7, 1));
    T_TRUE(say_of("c", "c", "host", 5, 7, 1)); // another name of one host
    T_STR(wrong(), "nobody");
    T_TRUE(say_of("d", "b", "d", 5, 7, 1)); // another host of one certificate
    T_STR(wrong(), "a");                    // beside c, it is enough
    test_vectors_release(&known);
    T_TRUE(say("a", 99));
    T_TRUE(say("b", 7));
    T_TRUE(say_of("c", "c", "c", 6, 7, 1)); // another kind
    T_STR(wrong(), "nobody");
    T_TRUE(say_of("d", "d", "d", 6, 8, 1));
    T_STR(wrong(), "nobody");
    test_vectors_release(&known);
}

// Whoever was forgiven comes again with what it said: that is not heard. What
// its next process computes is.
TEST(test_vectors, A7_a_vector_is_judged_once)
{
    say("a", 7);
    say("b", 7);
    T_TRUE(say("c", 99));
    T_STR(wrong(), "c");
    for (unsigned i = 0; i < 3; i++) {
        T_FALSE(say("c", 99));
        T_STR(wrong(), "nobody");
        T_FALSE(say("a", 7));
    }
    T_TRUE(say_of("c", "c", "c", 5, 99, 2));
    T_STR(wrong(), "c");
    T_TRUE(say_of("c", "c", "c", 5, 7, 3));
    T_STR(wrong(), "nobody");
    T_EQ(known.count, 3);
    T_EQ(of("c")->output, 7);
    T_TRUE(of("d") == NULL);
    test_vectors_release(&known);
}

// However many names a host has, they push out each other and nobody else.
TEST(test_vectors, A7_they_are_bounded)
{
    char name[16];

    say("a", 7);
    say("b", 7);
    for (unsigned i = 0; i < 3 * TEST_VECTORS_MOST; i++) {
        snprintf(name, sizeof(name), "x-%u", i);
        say_of(name, name, "host", 5 + i % 3, i, i);
    }
    T_EQ(known.count, TEST_VECTORS_MOST);
    T_TRUE(of("a") && of("b"));
    T_TRUE(say("c", 99));
    T_STR(wrong(), "c");
    // Where all are independent, the oldest go.
    for (unsigned i = 0; i < 2 * TEST_VECTORS_MOST; i++) {
        snprintf(name, sizeof(name), "y-%u", i);
        T_TRUE(say(name, 7));
    }
    T_EQ(known.count, TEST_VECTORS_MOST);
    T_TRUE(of("a") == NULL);
    T_TRUE(of(name) != NULL);
    test_vectors_release(&known);
    T_EQ(known.count, 0);
}
