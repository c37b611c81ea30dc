// SPDX-License-Identifier: Apache-2.0
// Rules of the protocol that this room keeps and no other file here shows:
// each by its name. tests/history/RULES.md lists them all.
#include "tests/harness/t.h"

#include "trainer/push/sync_ps.h"
#include "trainer/push/sync_ps_inner.h"

static void no_map(void *arg, uint64_t job, uint64_t have)
{
}

// A map of two shards, in force when the compute thread looks next.
static void tell_map(struct sync *sync, uint64_t version, uint64_t first,
                     uint64_t second)
{
    struct sync_map_entry entries[] = {{.incarnation = first, .address = "a"},
                                       {.incarnation = second, .address = "b"}};
    struct sync_ps *s = sl_container_of(sync, struct sync_ps, sync);

    sync->ops->map(sync, version, entries, 2);
    pthread_mutex_lock(&s->shared.lock);
    ps_adopt_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

// Both shards have counted the closure. Then one is gone from the map, and
// its evidence stays what it was: a fact of the incarnation that said it. The
// completion names that one, whatever the map says.
TEST(rules, W2_a_completion_names_the_incarnations_of_its_evidence)
{
    static const struct elements ranges[] = {{.first = 0, .count = 4},
                                             {.first = 4, .count = 4}};
    struct sync_ps_options o = {.job = 7,
                                .job_incarnation = 1,
                                .shards = ranges,
                                .shards_count = 2,
                                .elements = 8,
                                .clock = sl_clock_real(),
                                .want_map = no_map};
    uint64_t named[2] = {0, 0};
    struct sync *sync = NULL;
    uint8_t steps = 0xff;
    struct sync_ps *s;

    T_OK(sync_ps_new(&sync, &o, t_err()));
    s = sl_container_of(sync, struct sync_ps, sync);
    tell_map(sync, 1, 5, 6);
    evidence_take(&s->shards[0].evidence, 5, &steps, 1);
    T_EQ(sync->ops->named(sync), 0); // of one there is no evidence
    evidence_take(&s->shards[1].evidence, 6, &steps, 1);
    T_EQ(sync->ops->named(sync), 1);
    tell_map(sync, 2, 5, 0);
    sync->ops->evidence(sync, named);
    T_EQ(named[0], 5);
    T_EQ(named[1], 6);
    T_EQ(sync->ops->named(sync), 0); // this map does not name the second
    tell_map(sync, 3, 7, 6); // the first was replaced: its word is void (W1)
    sync->ops->evidence(sync, named);
    T_EQ(named[0], 0);
    T_EQ(named[1], 6);
    T_EQ(sync->ops->named(sync), 0);
    sync->ops->free(sync);
}
