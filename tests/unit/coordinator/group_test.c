// SPDX-License-Identifier: Apache-2.0
// Places in groups: who gets which, and who leads.
#include "coordinator/rules/group.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/harness/t.h"

#define WORKERS 40

struct worker {
    uint64_t place;
    bool in;
    char host[8];
};

static uint64_t sit(struct groups *g, uint64_t member, const char *host)
{
    uint64_t place = groups_place(g, host);

    T_OK(groups_take(g, place, host));
    T_OK(ring_join(&groups_at(g, place)->ring, member, member, 1));
    return place;
}

// A generation of all who are there, until it goes.
static void run(struct groups *g, struct group *group)
{
    struct ring *r = &group->ring;

    ring_open(r, ++g->generation);
    for (uint32_t i = 0; i < r->count; i++)
        T_OK(ring_answer(r, r->rank[i].member, r->generation,
                         (struct wire_tag){0, 0}));
    ring_choose(r, (struct wire_tag){0, 0}, false);
    for (uint32_t i = 0; i < r->count; i++)
        T_OK(ring_ready(r, r->rank[i].member, r->generation,
                        (struct wire_tag){r->generation, 0}));
    T_EQ(r->state, RING_RUNNING);
}

TEST(group, the_first_member_leads_while_it_runs)
{
    struct groups g;
    struct group *group;
    uint64_t first;

    groups_init(&g, 3, true);
    first = sit(&g, 7, "a");
    T_EQ(sit(&g, 8, "a"), first + 1);
    group = groups_at(&g, first);
    T_TRUE(!group_leads(group, 7)); // it does not run yet
    run(&g, group);
    T_TRUE(group_leads(group, 7));
    T_TRUE(!group_leads(group, 8));
    groups_leave(&g, first, 7);
    T_TRUE(!group_leads(group, 8)); // until the next generation
    run(&g, group);
    T_TRUE(group_leads(group, 8));
    T_EQ(sit(&g, 9, "a"), first); // the place is free again
    T_TRUE(groups_at(&g, 3) == NULL);
    groups_release(&g);
}

TEST(group, hosts_are_kept_apart_if_asked)
{
    for (int by_host = 0; by_host < 2; by_host++) {
        struct groups g;

        groups_init(&g, 2, by_host != 0);
        (void)sit(&g, 1, "a");
        (void)sit(&g, 2, "b");
        T_EQ(g.count, by_host ? 2 : 1);
        (void)sit(&g, 3, "b");
        T_EQ(g.count, 2);
        groups_release(&g);
    }
}

// Two halves become one, and the half that is told to go is no larger.
TEST(group, what_is_left_of_groups_comes_together)
{
    struct groups g;
    uint64_t place[4];

    groups_init(&g, 3, true);
    for (uint64_t i = 0; i < 4; i++)
        place[i] = sit(&g, i + 1, "a");
    T_EQ(g.count, 2);
    run(&g, g.group[0]);
    run(&g, g.group[1]);
    T_TRUE(groups_spare(&g) == NULL); // 3 and 1
    groups_leave(&g, place[0], 1);
    T_TRUE(groups_spare(&g) == NULL); // one of them does not run
    run(&g, g.group[0]);
    T_TRUE(groups_spare(&g) == g.group[1]); // 2 and 1
    snprintf(g.group[1]->host, sizeof(g.group[1]->host), "b");
    T_TRUE(groups_spare(&g) == NULL); // another host
    groups_release(&g);
}

static void check(const struct groups *g, const struct worker *w)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        const struct group *group;

        if (!w[i].in)
            continue;
        group = groups_at(g, w[i].place);
        T_TRUE(ring_find(&group->ring, i + 1) != NULL);
        T_TRUE(group->taken >> w[i].place % g->size & 1);
        T_LE(group->ring.count, g->size);
        T_EQ(group->ring.count, group_places_taken(group));
        if (g->by_host)
            T_TRUE(strcmp(group->host, w[i].host) == 0);
        for (uint32_t k = 0; k < i; k++)
            T_TRUE(!w[k].in || w[k].place != w[i].place);
    }
}

TEST(group, workers_that_come_and_go_never_share_a_place)
{
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct rng rng;
        struct worker w[WORKERS] = {{0}};
        struct groups g;

        rng_init(&rng, t_seed() + seed, 0);
        groups_init(&g, 2 + (uint32_t)rng_below(&rng, 7), seed % 2 == 0);
        for (unsigned i = 0; i < 200; i++) {
            uint32_t k = (uint32_t)rng_below(&rng, WORKERS);

            snprintf(w[k].host, sizeof(w[k].host), "h%u", k % 5);
            if (w[k].in)
                groups_leave(&g, w[k].place, k + 1);
            else
                w[k].place = sit(&g, k + 1, w[k].host);
            w[k].in = !w[k].in;
            check(&g, w);
        }
        groups_release(&g);
    }
}
