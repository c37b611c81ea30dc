// SPDX-License-Identifier: Apache-2.0
// What contributions changed: coordinator/rules/changes.h.
#include "coordinator/rules/changes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/t.h"

static struct changes c;
static float sums[FOLD_SUMS];

// A contribution to a round of two that changes the first sum or the second.
static struct changes_one one(const char *worker, uint64_t closure, double norm)
{
    return (struct changes_one){.worker = worker,
                                .closure = closure,
                                .samples = 10,
                                .weight = 10,
                                .round_first = closure / 2 * 2,
                                .round_count = 2,
                                .pushed_bytes = 400,
                                .pulled_bytes = 300,
                                .loss = 2,
                                .norm = norm,
                                .sums = sums};
}

static void take(const char *worker, uint64_t closure, double norm,
                 unsigned along)
{
    struct changes_one o = one(worker, closure, norm);

    memset(sums, 0, sizeof(sums));
    sums[along] = (float)norm;
    changes_take(&c, &o);
}

static const struct changes_worker *worker(const char *name)
{
    for (unsigned i = 0; i < CHANGES_WORKERS; i++)
        if (strcmp(c.workers[i].name, name) == 0)
            return &c.workers[i];
    return NULL;
}

TEST(changes, the_median_is_of_the_last_norms)
{
    memset(&c, 0, sizeof(c));
    for (unsigned i = 0; i < CHANGES_LEAST - 1; i++)
        take("w-0", i, 5, 0);
    T_EQ(changes_median(&c), 0); // too few
    take("w-0", 7, 5, 0);
    T_EQ(changes_median(&c), 5);
    take("w-0", 8, -1, 0); // one that is not finite has none
    take("w-0", 9, 1e9, 0);
    T_EQ(changes_median(&c), 5);
    for (unsigned i = 0; i < CHANGES_NORMS; i++)
        take("w-0", 10 + i, 3, 0);
    T_EQ(changes_median(&c), 3);
}

TEST(changes, a_round_tells_its_angles)
{
    memset(&c, 0, sizeof(c));
    take("w-0", 0, 1, 0);
    T_TRUE(isnan(worker("w-0")->angle));
    take("w-1", 1, 1, 1);
    T_NEAR(worker("w-0")->angle, 45, 1e-3);
    T_NEAR(worker("w-1")->angle, 45, 1e-3);
    take("w-0", 2, 1, 0);
    take("w-0", 2, 1, 1); // once more: it counts once
    T_NEAR(worker("w-0")->angle, 45, 1e-3);
    take("w-1", 3, 1, 0);
    T_NEAR(worker("w-0")->angle, 0, 1e-3);
    T_EQ(c.samples, 50);
    T_EQ(c.pushed_bytes, 2000);
    T_EQ(worker("w-0")->contributions, 3);
}

TEST(changes, a_round_that_is_too_large_or_not_known_has_no_angles)
{
    struct changes_one o = one("w-0", 0, 1);

    memset(&c, 0, sizeof(c));
    o.round_count = 0;
    changes_take(&c, &o);
    T_TRUE(isnan(worker("w-0")->angle));
    o.round_count = CHANGES_ROUND + 1;
    for (o.closure = 0; o.closure <= CHANGES_ROUND; o.closure++)
        changes_take(&c, &o);
    T_TRUE(isnan(worker("w-0")->angle));
}

static void take_open(const char *worker, uint64_t closure, unsigned along)
{
    struct changes_one o = one(worker, closure, 1);

    memset(sums, 0, sizeof(sums));
    sums[along] = 1;
    o.round_first = 0;
    o.round_count = 3;
    o.open = true;
    changes_take(&c, &o);
}

// Its own is among the last three.
TEST(changes, where_rounds_have_no_slots_an_angle_is_to_the_last_ones)
{
    memset(&c, 0, sizeof(c));
    take_open("w-0", 7, 0);
    take_open("w-0", 7, 0); // once more: it counts once
    take_open("w-1", 3, 1);
    T_TRUE(isnan(worker("w-0")->angle) && isnan(worker("w-1")->angle));
    take_open("w-2", 9, 2);
    T_NEAR(worker("w-2")->angle, acos(1 / sqrt(3)) * 180 / M_PI, 1e-3);
    T_TRUE(isnan(worker("w-0")->angle)); // of its last, which was too early
    take_open("w-0", 8, 2);              // in place of the first one
    T_NEAR(worker("w-0")->angle, acos(2 / sqrt(5)) * 180 / M_PI, 1e-3);
    take_open("w-1", 12, 2);
    T_NEAR(worker("w-1")->angle, 0, 0.1);
}

TEST(changes, the_worker_that_contributed_longest_ago_is_forgotten)
{
    char name[16];

    memset(&c, 0, sizeof(c));
    for (unsigned i = 0; i <= CHANGES_WORKERS; i++) {
        snprintf(name, sizeof(name), "w-%u", i);
        take(name, i, 1, 0);
    }
    T_TRUE(worker("w-0") == NULL);
    T_EQ(worker("w-64")->contributions, 1);
    T_EQ(worker("w-63")->contributions, 1);
}

TEST(changes, another_workers_word_decides)
{
    struct changes_one o = one("w-1", 4, 3);
    const struct changes_worker *w;

    memset(&c, 0, sizeof(c));
    changes_put_aside(&c, 4, "w-0", 10, 7);
    T_EQ(changes_aside(&c, 4)->since_ms, 7);
    w = changes_decide(&c, &o);
    T_STR(w->name, "w-0");
    T_EQ(w->wrong, 1);
    T_TRUE(changes_aside(&c, 4) == NULL);
    T_TRUE(changes_decide(&c, &o) == NULL);
}

// A step that is large for every worker, and a worker that is alone.
TEST(changes, one_word_decides_nothing)
{
    struct changes_one large = one("w-1", 4, 900), own = one("w-0", 5, 3),
                       not_finite = one("w-1", 6, -1);

    memset(&c, 0, sizeof(c));
    for (uint64_t at = 4; at < 7; at++)
        changes_put_aside(&c, at, "w-0", 10, 7);
    T_TRUE(changes_decide(&c, &large) == NULL);
    T_TRUE(changes_decide(&c, &own) == NULL);
    T_TRUE(changes_decide(&c, &not_finite) == NULL);
    T_EQ(worker("w-0")->wrong, 0);
    T_EQ(worker("w-0")->set_aside, 3);
    T_EQ(c.set_aside, 3);
}

// Its place is kept, though nothing of it was ever taken.
TEST(changes, a_worker_that_is_wrong_from_the_beginning_is_found)
{
    const struct changes_worker *w = NULL;
    char name[16];

    memset(&c, 0, sizeof(c));
    for (unsigned i = 0; i < CHANGES_WORKERS - 2; i++) {
        snprintf(name, sizeof(name), "w-%u", i);
        take(name, 100 + i, 3, 0);
    }
    for (uint64_t at = 0; at < CHANGES_WRONG; at++) {
        struct changes_one o = one("w-3", at, 3);

        changes_put_aside(&c, at, at % 2 ? "bad" : "worse", 10, 7);
        w = changes_decide(&c, &o);
        changes_take(&c, &o);
        T_STR(w->name, at % 2 ? "bad" : "worse");
    }
    T_EQ(w->wrong, 2);
    T_EQ(worker("bad")->wrong, 1);
}

// Norms near the bound differ by chance; and one that was wrong long ago is
// forgiven.
TEST(changes, what_is_near_the_bound_is_not_wrong)
{
    struct changes_one near = one("w-1", 4, 9.9), small = one("w-1", 5, 5);

    memset(&c, 0, sizeof(c));
    changes_put_aside(&c, 4, "w-0", 10, 7);
    T_TRUE(changes_decide(&c, &near) == NULL);
    for (unsigned i = 0; i < 2; i++) {
        changes_put_aside(&c, 5, "w-0", 10, 7);
        T_EQ(changes_decide(&c, &small)->wrong, 1 + i);
    }
    for (unsigned i = 0; i < CHANGES_NORMS; i++)
        take("w-0", 100 + i, 3, 0);
    changes_put_aside(&c, 5, "w-0", 10, 7);
    T_EQ(changes_decide(&c, &small)->wrong, 1);
}

TEST(changes, a_closure_that_another_one_tells_of_is_aside_no_more)
{
    memset(&c, 0, sizeof(c));
    changes_put_aside(&c, 4, "w-0", 10, 7);
    changes_also(&c, &(struct changes_one){
                         .closure = 4, .samples = 30, .pushed_bytes = 8});
    T_EQ(c.samples, 30);
    T_EQ(c.pushed_bytes, 8);
    T_EQ(c.norms_count, 0);
    T_TRUE(changes_aside(&c, 4) == NULL);
}
