// SPDX-License-Identifier: Apache-2.0
// Shards beside a ring: which state of a rank they can make.
#include "coordinator/core/modes/ring_rows.h"

#include "coordinator/core/job.h"
#include "tests/harness/t.h"

enum { PARTS = 2, ROWS = 2 };

// A job with a cut of generation 3, 20 rounds, in which each shard of rows has
// written its second file.
struct a_job {
    struct job job;
    struct job_shard list[PARTS + ROWS];
    Sluice__V1__ShardHello hello[ROWS];
    Sluice__V1__Tag loaded[ROWS], base[ROWS];
};

static void job_init(struct a_job *j)
{
    *j = (struct a_job){.job = {.id = 1}};
    j->job.shards.parts = PARTS;
    j->job.shards.count = PARTS + ROWS;
    j->job.shards.list = j->list;
    for (uint32_t i = 0; i < PARTS; i++)
        j->list[i].cut = (struct wire_tag){3, 20};
    for (uint32_t i = 0; i < ROWS; i++) {
        sluice__v1__shard_hello__init(&j->hello[i]);
        j->list[PARTS + i].cut = (struct wire_tag){3, 2};
        j->list[PARTS + i].waiting = &j->hello[i];
        j->loaded[i] = wire_tag_msg((struct wire_tag){3, 2});
        j->hello[i].loaded = &j->loaded[i];
    }
}

// A shard that kept its memory, of `generation` with `rounds`, which began with
// `base`.
static void says(struct a_job *j, uint32_t i, uint64_t generation,
                 struct wire_tag base, uint64_t rounds, bool whole)
{
    j->base[i] = wire_tag_msg(base);
    j->hello[i].live_incarnation = generation;
    j->hello[i].base_tag = &j->base[i];
    j->hello[i].rounds = rounds;
    j->hello[i].whole = whole;
}

static bool fit(const struct a_job *j, uint64_t generation, uint64_t rounds)
{
    return ring_rows_fit(&j->job, (struct wire_tag){generation, rounds});
}

TEST(ring_rows, R9_a_base_is_one_that_every_shard_can_make)
{
    const struct wire_tag first = {4, 30};
    static struct a_job j;

    job_init(&j);
    says(&j, 0, 5, first, 40, false);
    says(&j, 1, 5, first, 40, true);
    T_TRUE(fit(&j, 5, 40));
    T_FALSE(fit(&j, 5, 41)); // the first holds a part of the next round
    T_FALSE(fit(&j, 5, 42));
    T_FALSE(fit(&j, 5, 39));
    T_FALSE(fit(&j, 4, 40)); // as many rounds of another generation
    says(&j, 0, 5, first, 40, true);
    T_TRUE(fit(&j, 5, 41));
    says(&j, 1, 5, first, 41, false);
    T_TRUE(fit(&j, 5, 41));
    T_FALSE(fit(&j, 5, 40));
}

TEST(ring_rows, R9_a_shard_that_has_done_nothing_since_is_at_its_base)
{
    const struct wire_tag first = {4, 30};
    static struct a_job j;

    job_init(&j);
    says(&j, 0, 5, first, 30, true);
    says(&j, 1, 5, first, 30, false);
    T_TRUE(fit(&j, 4, 30)); // no rank had begun with it
    T_TRUE(fit(&j, 5, 30));
    T_FALSE(fit(&j, 4, 31));
    T_FALSE(fit(&j, 3, 30));
}

TEST(ring_rows, R9_a_shard_that_was_loaded_has_the_last_cut_or_nothing)
{
    static struct a_job j;

    job_init(&j);
    T_TRUE(fit(&j, 3, 20));
    T_FALSE(fit(&j, 3, 21));
    T_FALSE(fit(&j, 4, 20));
    j.loaded[1] = wire_tag_msg((struct wire_tag){3, 3}); // of no cut
    T_FALSE(fit(&j, 3, 20));
    j.loaded[1] = wire_tag_msg((struct wire_tag){3, 2});
    says(&j, 0, 3, (struct wire_tag){2, 9}, 20, false);
    T_TRUE(fit(&j, 3, 20));
    T_FALSE(fit(&j, 3, 22));
}

TEST(ring_rows, a_job_without_tables_waits_for_none)
{
    static struct a_job j;

    job_init(&j);
    j.job.shards.count = PARTS;
    T_TRUE(fit(&j, 9, 9));
    T_FALSE(ring_rows_due(&j.job));
}
