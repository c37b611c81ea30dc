// SPDX-License-Identifier: Apache-2.0
// Workers that join with a test vector: see
// coordinator/core/leases/arrivals.h.
#include <stdio.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/suspects.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, WORKERS = 4, KIND = 5, RIGHT = 7, WRONG = 99 };

static const char *const hosts[] = {"h-0", "h-1", "h-2", "h-3"};

// A psserver and four workers, which have not joined.
static struct world *begin(uint64_t seed)
{
    static struct world w;

    world_init(&w, seed);
    world_people(&w, 1, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        world_break(&w, &w.members[1 + i]);
        w.members[1 + i].host = hosts[i];
    }
    return &w;
}

// Submits a job of rounds of three slots, without copies.
static void submit(struct world *w)
{
    char json[4096];

    snprintf(json, sizeof(json), "%s", world_sync_job);
    memcpy(strstr(json, "\"backup\":1"), "\"backup\":0", 10);
    world_submit(w, json);
}

static struct fake_member *worker(struct world *w, unsigned k)
{
    return &w->members[1 + k];
}

static void join(struct world *w, unsigned k, uint64_t vector)
{
    worker(w, k)->test_kind = vector == 0 ? 0 : KIND;
    worker(w, k)->test_vector = vector;
    world_break(w, worker(w, k)); // it may be attached, and have told none
    world_attach(w, worker(w, k));
}

static const struct drain *suspect(struct world *w, unsigned k)
{
    const struct drain *d =
        drains_find(w->coord, MEMBER_WORKER, worker(w, k)->name);

    return d != NULL && drain_is_audit(d) ? d : NULL;
}

static void forgive(struct world *w, unsigned k)
{
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    bool changed = false;

    request.name = worker(w, k)->name;
    request.undrain = true;
    request.who = "ada";
    request.why = "";
    T_OK(coord_drain(w->coord, &request, &changed, t_err()));
    T_TRUE(changed && suspect(w, k) == NULL);
}

TEST(arrivals, A7_a_worker_that_joins_with_a_wrong_vector_is_leased_nothing)
{
    struct world *w = begin(WORLD_SITUATION);

    join(w, 0, RIGHT);
    join(w, 1, RIGHT);
    join(w, 3, 0); // an older program
    submit(w);
    join(w, 2, WRONG);
    T_ASSERT(suspect(w, 2) != NULL);
    T_HAS(suspect(w, 2)->why, "its test vector is 0000000000000063; w-0 and "
                              "w-1, of the same kind, computed "
                              "0000000000000007");
    for (unsigned i = 0; i < 100; i++) {
        world_pass(w, 50);
        fake_turn(w);
        T_EQ(worker(w, 2)->leases_count, 0);
    }
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 1);
    world_release(w);
}

// The worker that is found wrong has leases by then: they go to others.
TEST(arrivals, A7_a_third_worker_decides_about_one_that_joined_before)
{
    struct world *w = begin(WORLD_SITUATION);

    join(w, 2, WRONG);
    submit(w);
    for (unsigned i = 0; i < LIMIT && worker(w, 2)->leases_count == 0; i++)
        world_step(w);
    T_TRUE(worker(w, 2)->leases_count > 0);
    join(w, 0, RIGHT);
    T_EQ(suspects_count(w->coord), 0); // one word against another
    join(w, 1, RIGHT);
    T_ASSERT(suspect(w, 2) != NULL);
    T_EQ(suspects_count(w->coord), 1);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(arrivals, A7_a_forgiven_worker_is_not_blamed_by_the_same_vector_again)
{
    struct world *w = begin(WORLD_SITUATION);

    join(w, 0, RIGHT);
    join(w, 1, RIGHT);
    join(w, 2, WRONG);
    T_ASSERT(suspect(w, 2) != NULL);
    forgive(w, 2);
    for (unsigned i = 0; i < 3; i++) {
        world_break(w, worker(w, 2));
        join(w, 2, WRONG);
        T_TRUE(suspect(w, 2) == NULL);
    }
    world_break(w, worker(w, 2));
    world_restart(w, worker(w, 2)); // a new process says it anew
    T_ASSERT(suspect(w, 2) != NULL);
    world_release(w);
}

// A coordinator that starts anew hears all vectors again.
TEST(arrivals, A7_a_coordinator_that_comes_back_compares_again)
{
    struct world *w = begin(WORLD_SITUATION);

    join(w, 0, RIGHT);
    join(w, 2, WRONG);
    world_stop_coord(w);
    world_start_coord(w);
    join(w, 1, RIGHT);
    join(w, 2, WRONG);
    T_EQ(suspects_count(w->coord), 0); // what w-0 said is forgotten
    join(w, 0, RIGHT);
    T_ASSERT(suspect(w, 2) != NULL);
    world_release(w);
}

// Two names of one host, and one of no certificate but its own, against two.
TEST(arrivals, A7_the_words_of_one_host_blame_nobody_else)
{
    struct world *w = begin(WORLD_SITUATION);

    worker(w, 2)->host = worker(w, 3)->host = "the liar's";
    join(w, 2, WRONG);
    join(w, 3, WRONG);
    join(w, 0, RIGHT);
    T_EQ(suspects_count(w->coord), 0);
    join(w, 1, RIGHT);
    T_TRUE(suspect(w, 2) != NULL && suspect(w, 3) != NULL);
    T_EQ(suspects_count(w->coord), 2);
    world_release(w);
}
