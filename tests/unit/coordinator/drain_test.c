// SPDX-License-Identifier: Apache-2.0
// Members that an admin drains. See world.h.
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/rules/member.h"
#include "coordinator/service/status_lists.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct sl_error err;

static struct world *begin(unsigned psservers, unsigned workers)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, psservers, workers);
    return &w;
}

static enum sl_err ask(struct world *w, const char *name, const char *role,
                       bool undrain, bool *changed)
{
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__DrainReply *reply = NULL;
    enum sl_err rc;

    request.name = (char *)name;
    request.role = (char *)role;
    request.undrain = undrain;
    request.who = "ada@host";
    request.why = undrain ? "" : "a new disk";
    rc = status_drain(w->coord, &request, &reply, &err);
    if (rc != SL_OK)
        return rc;
    *changed = reply->changed;
    wire_free(&reply->base);
    return SL_OK;
}

static bool drain(struct world *w, const char *name)
{
    bool changed = false;

    T_OK(ask(w, name, "", false, &changed));
    return changed;
}

static bool undrain(struct world *w, const char *name)
{
    bool changed = false;

    T_OK(ask(w, name, "", true, &changed));
    return changed;
}

// "STATE LEASES REASON" of a member.
static const char *see(struct world *w, const char *name)
{
    static char seen[600];
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    seen[0] = '\0';
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];

        if (strcmp(m->name, name) == 0)
            snprintf(seen, sizeof(seen), "%s %u %s", m->state, m->leases,
                     m->reason);
    }
    wire_free(&reply->base);
    return seen;
}

static void settle(struct world *w)
{
    for (unsigned i = 0; i < 100; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
}

TEST(drain, a_worker_ends_what_it_computes_and_gets_nothing_more)
{
    struct world *w = begin(1, 2);
    struct fake_member *m = &w->members[1];
    Sluice__V1__JobStatus *status;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (!world_trains(m))
        world_step(w);
    T_TRUE(drain(w, "w-0"));
    T_FALSE(drain(w, "w-0")); // the same again
    T_HAS(see(w, "w-0"), "draining 1 drained by ada@host: a new disk");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_HAS(see(w, "w-0"), "draining 0");
    status = world_status(w);
    T_EQ(status->closures_retried, 0);
    T_EQ(status->workers_lost, 0);
    wire_free(&status->base);
    world_release(w);
}

TEST(drain, it_lasts_over_restarts_of_anybody_until_it_is_taken_back)
{
    struct world *w = begin(1, 1);
    struct fake_member *m = &w->members[1];

    T_TRUE(drain(w, "w-0"));
    world_submit(w, world_graph_job);
    world_restart(w, m);
    settle(w);
    T_HAS(see(w, "w-0"), "draining 0 drained by ada@host");
    world_stop_coord(w);
    world_start_coord(w);
    for (unsigned i = 0; i < 2000; i++)
        world_step(w);
    T_HAS(see(w, "w-0"), "draining 0 drained by ada@host");
    T_NE(world_state(w), JOB_RUNNING);
    T_TRUE(undrain(w, "w-0"));
    T_FALSE(undrain(w, "w-0"));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(drain, a_psserver_gets_no_shards_of_new_jobs)
{
    struct world *w = begin(2, 1);
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;

    T_TRUE(drain(w, "ps-0"));
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    request.id = "j-1";
    request.shards = true;
    T_OK(coord_get(w->coord, &request, &status, t_err()));
    T_GT(status->n_shards, 0);
    for (size_t i = 0; i < status->n_shards; i++)
        T_STR(status->shards[i]->psserver, "ps-1");
    wire_free(&status->base);
    world_release(w);
}

TEST(drain, a_rank_leaves_its_ring)
{
    struct world *w = begin(0, 3);

    world_submit(w, world_ring_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_TRUE(drain(w, "w-0"));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_HAS(see(w, "w-0"), "draining 0 drained by");
    world_release(w);
}

TEST(drain, who_is_not_here_is_said)
{
    struct world *w = begin(1, 1);
    bool changed;

    T_FAILS(SL_ENOENT, ask(w, "w-9", "", false, &changed));
    T_HAS(err.text, "no worker or psserver 'w-9' is attached");
    T_FAILS(SL_ENOENT, ask(w, "w-0", "psserver", false, &changed));
    T_FAILS(SL_EINVAL, ask(w, "w-0", "driver", false, &changed));
    T_TRUE(drain(w, "w-0"));
    world_kill(w, &w->members[1]);
    settle(w);
    T_TRUE(undrain(w, "w-0")); // it is drained, if not here
    T_FAILS(SL_ENOENT, ask(w, "w-0", "", true, &changed));
    world_release(w);
}
