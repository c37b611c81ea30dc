// SPDX-License-Identifier: Apache-2.0
// Results that differed in several rounds, and who is wrong by them.
#include "coordinator/rules/differences.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "coordinator/rules/witness.h"
#include "tests/harness/t.h"

static struct differences list;
static struct differences_proof seen;

// The vote of worker k, of its own certificate and host: each of its results is
// one of its own.
static struct vote of(unsigned k)
{
    static char names[100][8];

    snprintf(names[k], sizeof(names[k]), "w-%u", k);
    return (struct vote){.name = names[k],
                         .witness = witness_of(names[k], names[k]),
                         .output = k};
}

// Two workers differ; *name is the one that is found wrong.
static const char *differ(unsigned a, unsigned b, uint64_t closure)
{
    struct vote x = of(a), y = of(b);

    differences_note(&list, closure, &x, &y);
    return differences_judge(&list, &seen) ? seen.wrong[1]->name : "nobody";
}

// Likewise, with a worker `a` of host `at`.
static const char *differ_at(unsigned a, const char *at, unsigned b,
                             uint64_t closure)
{
    struct vote x = of(a), y = of(b);

    x.witness = witness_of(x.name, at);
    differences_note(&list, closure, &x, &y);
    return differences_judge(&list, &seen) ? seen.wrong[1]->name : "nobody";
}

TEST(differences, A6_one_that_differs_from_two_others_is_wrong)
{
    T_STR(differ(1, 2, 10), "nobody");
    T_STR(differ(3, 1, 16), "w-1");
    T_EQ(seen.closure[0], 10);
    T_EQ(seen.closure[1], 16);
    T_STR(seen.right[0]->name, "w-2");
    T_STR(seen.right[1]->name, "w-3");
    T_EQ(seen.wrong[0]->output, 1);
    differences_release(&list);
}

TEST(differences, A6_one_difference_however_often_decides_nothing)
{
    for (uint64_t closure = 0; closure < 1000; closure++)
        T_STR(differ(1 + closure % 2, 2 - closure % 2, closure), "nobody");
    T_EQ(list.count, 1);
    T_EQ(list.list[0].closure, 999); // the newest
    differences_release(&list);
}

TEST(differences, A6_only_independent_witnesses_decide)
{
    // Two workers of one host differ from worker 3, which is right.
    T_STR(differ_at(1, "h", 3, 10), "nobody");
    T_STR(differ_at(2, "h", 3, 12), "nobody");
    // That does not put the word of worker 3 in doubt against their host.
    T_STR(differ_at(1, "h", 4, 14), "w-1");
    differences_release(&list);
    // The name is another worker since it is on another host.
    T_STR(differ_at(1, "h", 2, 10), "nobody");
    T_STR(differ_at(1, "i", 3, 12), "nobody");
    T_STR(differ_at(1, "i", 4, 14), "w-1");
    differences_release(&list);
}

// Workers 1 and 2 are wrong, each in its way, and both met worker 3.
TEST(differences, A6_whose_word_is_in_doubt_itself_accuses_nobody)
{
    T_STR(differ(1, 4, 10), "nobody");
    T_STR(differ(2, 3, 12), "nobody");
    T_STR(differ(1, 3, 14), "nobody"); // and worker 3 does not decide, either
    T_STR(differ(1, 5, 16), "w-1");    // 4 and 5 do
    differences_forget(&list, seen.wrong[1]->name);
    T_STR(differ(2, 4, 18), "w-2"); // the word of 3 and 4 stands again
    differences_release(&list);
}

TEST(differences, A6_three_words_about_one_slot_decide_nothing)
{
    for (unsigned first = 1; first <= 3; first++) {
        struct vote x = of(first), y = of(first % 3 + 1);

        differences_note(&list, 10, &x, &y);
    }
    T_FALSE(differences_judge(&list, &seen));
    differences_release(&list);
}

// However many honest workers one wrong one meets, and in which order.
TEST(differences, A6_with_one_wrong_worker_no_other_is_accused)
{
    struct rng rng;

    rng_init(&rng, t_seed(), 0);
    for (unsigned run = 0; run < 1000; run++) {
        unsigned met = 0, last = 0;

        for (uint64_t closure = 0; met < 2; closure++) {
            unsigned other = 1 + (unsigned)rng_below(&rng, 99);
            bool second = rng_below(&rng, 2) == 1;
            const char *wrong =
                second ? differ(other, 0, closure) : differ(0, other, closure);

            met += other != last;
            last = other;
            T_STR(wrong, met < 2 ? "nobody" : "w-0");
        }
        differences_release(&list);
    }
}

TEST(differences, A6_the_newest_pairs_are_kept)
{
    for (unsigned k = 0; k < 99; k++) { // more than there is room for
        struct vote x = of(k), y = of(k + 1);

        differences_note(&list, 100 + k, &x, &y);
    }
    T_EQ(list.count, DIFFERENCES_MOST);
    T_EQ(list.list[DIFFERENCES_MOST - 1].closure, 198);
    T_EQ(list.list[0].closure, 199 - DIFFERENCES_MOST);
    differences_release(&list);
    T_TRUE(list.list == NULL && list.count == 0);
}

TEST(differences, without_memory_a_difference_is_left_out)
{
    struct vote x = of(1), y = of(2);

    for (uint64_t n = 1;; n++) {
        sl_mem_fail_at(n);
        differences_note(&list, 1, &x, &y);
        if (!sl_mem_failed())
            break;
        T_EQ(list.count, 0);
    }
    sl_mem_fail_at(0);
    T_EQ(list.count, 1);
    differences_release(&list);
}
