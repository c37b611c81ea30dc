// SPDX-License-Identifier: Apache-2.0
// tests/unit/worker/kept_test.c -- which jobs a worker keeps, and what they
// take.
#include "worker/lease/kept.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define JOBS (KEPT_MOST + 8)
#define BUDGET 1000

struct world {
    struct kept kept;
    Sluice__V1__JobOpen open[JOBS];
    struct record record[JOBS];
    struct worker_job job[JOBS];
};

static struct world *world_new(void)
{
    struct world *w = sl_calloc(1, sizeof(*w));

    T_ASSERT(w != NULL);
    kept_init(&w->kept, BUDGET);
    for (unsigned i = 0; i < JOBS; i++) {
        sluice__v1__job_open__init(&w->open[i]);
        w->open[i].job = i;
        w->record[i].open = &w->open[i];
        w->job[i].record = &w->record[i];
    }
    return w;
}

static void keep(struct world *w, unsigned i, uint64_t bytes)
{
    kept_add(&w->kept, &w->job[i]);
    kept_weigh(&w->kept, &w->job[i], bytes);
}

TEST(kept, small_jobs_are_kept_up_to_a_number)
{
    struct world *w = world_new();

    for (unsigned i = 0; i < KEPT_MOST; i++) {
        T_TRUE(kept_surplus(&w->kept, 1, 10) == NULL);
        keep(w, i, 10);
    }
    T_TRUE(kept_surplus(&w->kept, 0, 0) == NULL);
    T_TRUE(kept_surplus(&w->kept, 1, 0) == &w->job[0]);
    T_TRUE(kept_find(&w->kept, 7) == &w->job[7]);
    T_TRUE(kept_find(&w->kept, KEPT_MOST) == NULL);
    sl_free(w);
}

TEST(kept, a_few_are_kept_whatever_they_take)
{
    struct world *w = world_new();

    for (unsigned i = 0; i < KEPT_ALWAYS; i++) {
        T_TRUE(kept_surplus(&w->kept, 1, BUDGET) == NULL);
        keep(w, i, 10 * BUDGET);
    }
    T_TRUE(kept_surplus(&w->kept, 0, 0) == NULL);
    T_TRUE(kept_surplus(&w->kept, 1, 0) == &w->job[0]);
    sl_free(w);
}

TEST(kept, the_least_used_goes_when_a_new_one_does_not_fit)
{
    struct world *w = world_new();

    for (unsigned i = 0; i < 8; i++)
        keep(w, i, 100);
    kept_use(&w->kept, &w->job[0]);
    T_TRUE(kept_surplus(&w->kept, 1, 200) == NULL);
    T_TRUE(kept_surplus(&w->kept, 1, 201) == &w->job[1]);
    // One that grows, as it opens its data, makes others go.
    kept_weigh(&w->kept, &w->job[0], 350);
    T_TRUE(kept_surplus(&w->kept, 0, 0) == &w->job[1]);
    kept_remove(&w->kept, &w->job[1]);
    T_TRUE(kept_surplus(&w->kept, 0, 0) == NULL);
    T_EQ(w->kept.bytes, 950);
    kept_weigh(&w->kept, &w->job[0], 100);
    T_EQ(w->kept.bytes, 700);
    T_EQ(w->kept.count, 7);
    sl_free(w);
}

TEST(kept, nothing_that_is_not_there_has_to_go)
{
    struct world *w = world_new();

    T_TRUE(kept_surplus(&w->kept, KEPT_MOST + 1, BUDGET + 1) == NULL);
    sl_free(w);
}
