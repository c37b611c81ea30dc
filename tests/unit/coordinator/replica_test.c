// SPDX-License-Identifier: Apache-2.0
// Psservers that follow the psserver of a shard: which is in the set, and who
// takes over (coordinator/core/shards/replicas.h). See world.h.
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/service/status_lists.h"
#include "proto/model.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct world world;

static const char replica_job[] =
    "{\"name\":\"life\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"}},"
    "\"train\":{\"batch\":4,\"epochs\":6,\"steps_per_closure\":3,"
    "\"max_attempts\":8,\"window_closures\":6},"
    "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2,\"replicas\":1},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":1000}}";

struct row {
    char owner[32], replica[32];
    uint64_t feed;
};

static enum sl_err note_row(void *arg, const struct journal_shard *row,
                            struct sl_error *err)
{
    struct row *r = (struct row *)arg + row->shard;

    snprintf(r->owner, sizeof(r->owner), "%s", row->psserver);
    snprintf(r->replica, sizeof(r->replica), "%s", row->replica);
    r->feed = row->feed;
    return SL_OK;
}

// What the journal says of a shard.
static struct row row_of(struct world *w, uint32_t shard)
{
    struct row rows[WORLD_SHARDS];

    memset(rows, 0, sizeof(rows));
    T_OK(journal_each_shard(w->journal, w->job, note_row, rows, t_err()));
    return rows[shard];
}

static struct fake_member *named(struct world *w, const char *name)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        if (w->members[i].used && strcmp(w->members[i].name, name) == 0)
            return &w->members[i];
    t_fail(__FILE__, __LINE__, "there is no %s", name);
    return NULL;
}

static bool in_set(struct world *w, uint32_t shard)
{
    const struct row r = row_of(w, shard);

    return r.replica[0] != '\0' && strcmp(r.replica, r.owner) != 0;
}

// Two psservers with a shard each, and with the replica of the other's.
static struct world *replicated(void)
{
    struct world *w = &world;

    world_init(w, WORLD_SITUATION);
    w->one_store = w->feeds = true;
    world_people(w, 2, 2);
    world_submit(w, replica_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (int i = 0; i < LIMIT && !(in_set(w, 0) && in_set(w, 1)); i++)
        world_step(w);
    T_TRUE(in_set(w, 0));
    T_TRUE(in_set(w, 1));
    return w;
}

static uint64_t steps_of(struct world *w, const char *name, uint32_t shard)
{
    return counted_steps(&named(w, name)->shards[shard].counted);
}

TEST(replica, P2_it_is_in_the_set_by_the_report_of_its_own_feed)
{
    struct world *w = replicated();
    struct row was = row_of(w, 0);
    struct fake_member *m = named(w, was.owner);
    struct fake_shard *f = &m->shards[0];

    T_NE(was.feed, 0);
    T_EQ(f->feed, was.feed);
    f->misses = true;
    fake_replica_report(w, m, 0);
    fake_deliver_all(w, m);
    T_FALSE(in_set(w, 0));
    f->misses = false; // a report from before, that came late
    fake_replica_report(w, m, 0);
    fake_deliver_all(w, m);
    T_FALSE(in_set(w, 0));
    fake_read_all(w, m);
    T_FALSE(f->bound);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// The owner goes on without its replica when the journal has it, and another
// feed begins; whoever was left drops its memory.
TEST(replica, P3_the_journal_has_it_before_the_owner_goes_on)
{
    struct world *w = replicated();
    struct row was = row_of(w, 1);
    struct fake_member *m = named(w, was.owner);
    struct fake_member *to = named(w, was.replica);

    m->shards[1].misses = true;
    fake_replica_report(w, m, 1);
    T_TRUE(in_set(w, 1));
    T_TRUE(m->shards[1].bound);
    fake_deliver_all(w, m);
    T_STR(row_of(w, 1).replica, "");
    T_TRUE(m->shards[1].bound); // it has not read that yet
    fake_read_all(w, m);
    fake_read_all(w, to);
    T_FALSE(m->shards[1].bound);
    T_FALSE(to->shards[1].loaded);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(replica, P4_it_takes_over_with_all_that_was_answered)
{
    struct world *w = replicated();
    struct row was = row_of(w, 0);
    struct fake_shard *to = &named(w, was.replica)->shards[0];
    uint64_t steps = steps_of(w, was.replica, 0), number = w->incarnations[0];

    world_kill(w, named(w, was.owner));
    world_step(w);
    T_STR(row_of(w, 0).owner, was.replica);
    T_STR(row_of(w, 0).replica, was.replica);
    for (int i = 0; i < LIMIT && !to->admitted; i++)
        world_step(w);
    T_GT(w->incarnations[0], number);
    T_GE(counted_steps(&to->counted), steps);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// What says that it is the memory of that feed is in the journal, too.
TEST(replica, P4_another_coordinator_knows_which_memory_takes_over)
{
    struct world *w = replicated();
    struct row was = row_of(w, 0);
    struct fake_shard *to = &named(w, was.replica)->shards[0];
    uint64_t steps;

    for (int i = 0; i < LIMIT && steps_of(w, was.replica, 0) < 3; i++)
        world_step(w);
    steps = steps_of(w, was.replica, 0);
    T_GE(steps, 3);
    world_kill(w, named(w, was.owner));
    T_STR(row_of(w, 0).owner, was.replica);
    world_stop_coord(w); // before anybody is told
    world_start_coord(w);
    for (int i = 0; i < LIMIT && !to->admitted; i++)
        world_step(w);
    T_TRUE(to->admitted);
    T_GE(counted_steps(&to->counted), steps);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// A psserver that was taken out of the set is no heir.
TEST(replica, P4_what_has_left_the_set_does_not_take_over)
{
    struct world *w = replicated();
    struct row was = row_of(w, 0);
    struct fake_member *m = named(w, was.owner);

    m->shards[0].misses = true;
    fake_replica_report(w, m, 0);
    fake_deliver_all(w, m);
    world_kill(w, m);
    world_step(w);
    T_STR(row_of(w, 0).owner, was.owner);
    world_restart(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Its process is back before the coordinator could miss it, and perhaps before
// the replica's.
TEST(replica, P5_an_owner_without_its_memory_is_not_admitted)
{
    struct world *w = replicated();
    struct row was = row_of(w, 0);
    struct fake_member *m = named(w, was.owner);
    struct fake_shard *to = &named(w, was.replica)->shards[0];
    uint64_t steps = steps_of(w, was.replica, 0);

    world_stop_coord(w);
    world_kill(w, m);
    world_restart(w, m);
    world_start_coord(w);
    for (int i = 0; i < LIMIT && !to->admitted; i++) {
        world_step(w);
        T_FALSE(m->shards[0].admitted);
    }
    T_STR(row_of(w, 0).owner, was.replica);
    T_GE(counted_steps(&to->counted), steps);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Drained: its replica takes over, and nothing is computed again.
TEST(replica, a_drained_owner_gives_way)
{
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__DrainReply *reply = NULL;
    struct world *w = replicated();
    struct row was = row_of(w, 0);

    request.name = was.owner;
    request.role = "psserver";
    request.who = "ada";
    request.why = "";
    T_OK(status_drain(w->coord, &request, &reply, t_err()));
    wire_free(&reply->base);
    for (int i = 0; i < LIMIT && strcmp(row_of(w, 0).owner, was.owner) == 0;
         i++)
        world_step(w);
    T_STR(row_of(w, 0).owner, was.replica);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Whoever dies whenever: the world checks counts and incarnations.
TEST(replica, lives_with_losses_come_to_their_end)
{
    for (unsigned life = 0; life < 10; life++) {
        struct world *w = &world;

        world_init(w, t_seed() + life);
        w->one_store = w->feeds = true;
        world_people(w, 3, 2);
        world_submit(w, replica_job);
        T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
        for (int i = 0; i < 2000 && !w->fatal; i++) {
            struct fake_member *m = &w->members[world_below(w, 3)];

            world_step(w);
            if (world_below(w, 400) == 0 && m->alive)
                world_kill(w, m);
            else if (world_below(w, 100) == 0 && !m->alive)
                world_restart(w, m);
            else if (world_below(w, 800) == 0) {
                world_stop_coord(w);
                world_start_coord(w);
            }
        }
        for (unsigned i = 0; i < 3; i++)
            if (!w->members[i].alive)
                world_restart(w, &w->members[i]);
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        world_release(w);
    }
}
