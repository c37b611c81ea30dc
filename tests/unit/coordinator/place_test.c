// SPDX-License-Identifier: Apache-2.0
// How many shards psservers are asked to take in one turn of the loop, and what
// may happen between two: see coordinator/core/shards/place.h.
#include "coordinator/core/job.h"
#include "coordinator/core/shards/place.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/jobs.h"
#include "proto/wire_ps.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { SHARDS = 1000, TICK_MS = 250, TICKS = 400 };

// What a psserver was asked since the last look: how often for each shard, of
// jobs 1 and 2.
struct asked {
    unsigned all;
    unsigned char of[3][SHARDS];
};

// Reads all that lies there, as a psserver that answers nothing.
static unsigned look(struct fake_member *m, struct asked *sum)
{
    unsigned places = 0;

    for (unsigned i = 0; i < m->inbox_count; i++) {
        const Sluice__V1__AttendDown *down = m->inbox[i];

        if (down->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_PLACE) {
            sum->of[down->place->shard->job][down->place->shard->shard]++;
            places++;
        }
        wire_free(&m->inbox[i]->base);
    }
    m->inbox_count = 0;
    sum->all += places;
    return places;
}

static void tick(struct world *w)
{
    clock_fake_advance_ms(&w->clock, TICK_MS);
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (m->stream != 0) {
            fake_beat(w, m);
            fake_deliver_all(w, m);
        }
    }
    coord_tick(w->coord);
}

static void submit(struct world *w, const char *name)
{
    static const char of[] =
        "{\"name\":\"%s\",\"model\":{\"type\":\"external\",\"variables\":["
        "{\"name\":\"w\",\"shape\":[%d,2]}]},\"optimizer\":{\"type\":\"sgd\"},"
        "\"data\":{\"train\":{\"format\":\"external\",\"samples\":40}},"
        "\"train\":{\"batch\":4,\"epochs\":2,\"steps_per_closure\":2},"
        "\"placement\":{\"shard_bytes\":8}}";
    char json[1024];

    snprintf(json, sizeof(json), of, name, SHARDS);
    world_submit(w, json);
}

// A psserver that reads nothing by itself, and a job of many shards on it, all
// of which it was asked to take.
static struct world *begin(struct asked *sum)
{
    static struct world w;
    struct fake_member *ps;

    memset(sum, 0, sizeof(*sum));
    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 0);
    ps = &w.members[0];
    submit(&w, "wide");
    for (int i = 0; i < TICKS && sum->all < SHARDS; i++) {
        T_LE(look(ps, sum), PLACE_AHEAD);
        tick(&w);
    }
    T_EQ(jobs_get(w.coord, 1)->shards.count, SHARDS);
    T_EQ(sum->all, SHARDS);
    tick(&w);
    T_EQ(look(ps, sum), 0);
    memset(sum, 0, sizeof(*sum));
    return &w;
}

static void come_back(struct world *w)
{
    world_kill(w, &w->members[0]);
    world_restart(w, &w->members[0]);
}

// Ticks until nothing more is asked for; the shards of a job that were, once
// each.
static unsigned rest(struct world *w, struct asked *sum, int job)
{
    unsigned count = 0;

    for (int i = 0; i < 8; i++) {
        tick(w);
        T_LE(look(&w->members[0], sum), PLACE_AHEAD);
    }
    for (int i = 0; i < SHARDS; i++) {
        T_LE(sum->of[job][i], 1);
        count += sum->of[job][i];
    }
    return count;
}

static void hello(struct world *w, uint32_t shard, const char *failure)
{
    struct fake_member *m = &w->members[0];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__ShardHello h = SLUICE__V1__SHARD_HELLO__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__Tag seed = SLUICE__V1__TAG__INIT;
    struct wire_counted set;
    struct counted none;

    T_OK(counted_init(&none, &w->schedule));
    T_OK(wire_counted_init(&set, &none));
    h.job = 1;
    h.job_incarnation = 1;
    h.shard = shard;
    h.loaded = &seed;
    h.counted = &set.msg;
    h.counts = &counts;
    h.failure = (char *)failure;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO;
    up.shard_hello = &h;
    fake_send(m, &up);
    fake_deliver_all(w, m);
    wire_counted_release(&set);
    counted_release(&none);
}

TEST(place, a_psserver_that_comes_is_asked_for_some_shards_a_turn)
{
    struct asked sum;
    struct world *w = begin(&sum);
    struct fake_member *ps = &w->members[0];

    come_back(w);
    T_EQ(look(ps, &sum), PLACE_AHEAD);
    for (uint32_t i = 0; i < 4; i++) {
        hello(w, i, "");
        T_EQ(look(ps, &sum), 1); // the next one
    }
    T_EQ(rest(w, &sum, 1), SHARDS);
    world_release(w);
}

TEST(place, two_jobs_share_a_turn)
{
    struct asked sum;
    struct world *w = begin(&sum);

    submit(w, "more");
    T_LE(look(&w->members[0], &sum), PLACE_AHEAD);
    T_EQ(rest(w, &sum, 2), SHARDS);
    memset(&sum, 0, sizeof(sum));
    come_back(w);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    for (int i = 0; i < 8; i++) {
        tick(w);
        T_LE(look(&w->members[0], &sum), PLACE_AHEAD);
    }
    T_EQ(rest(w, &sum, 1), SHARDS);
    T_EQ(rest(w, &sum, 2), SHARDS);
    world_release(w);
}

static void stop_now(struct world *w)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    stop.id = "j-1";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    wire_free(&s->base);
}

static void delete_job(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *reply = NULL;

    request.id = "j-1";
    T_OK(coord_delete(w->coord, &request, &reply, t_err()));
    wire_free(&reply->base);
}

TEST(place, a_job_that_ends_and_is_deleted_between_two_turns_asks_no_more)
{
    struct asked sum;
    struct world *w = begin(&sum);

    come_back(w);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    stop_now(w);
    tick(w);
    T_EQ(look(&w->members[0], &sum), 0);
    delete_job(w);
    T_EQ(rest(w, &sum, 1), PLACE_AHEAD);
    world_release(w);
}

TEST(place,
     a_psserver_that_goes_between_two_turns_is_asked_for_all_of_them_anew)
{
    struct asked sum;
    struct world *w = begin(&sum);

    come_back(w);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    world_kill(w, &w->members[0]);
    tick(w);
    tick(w);
    memset(&sum, 0, sizeof(sum));
    world_restart(w, &w->members[0]);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    T_EQ(rest(w, &sum, 1), SHARDS);
    world_release(w);
}

TEST(place, a_coordinator_that_restarts_between_two_turns_asks_for_all_of_them)
{
    struct asked sum;
    struct world *w = begin(&sum);

    come_back(w);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    world_stop_coord(w);
    memset(&sum, 0, sizeof(sum));
    world_start_coord(w);
    tick(w);
    world_attach(w, &w->members[0]);
    T_EQ(look(&w->members[0], &sum), PLACE_AHEAD);
    T_EQ(rest(w, &sum, 1), SHARDS);
    world_release(w);
}

// Its store is away, say: none of its shards can be loaded.
TEST(place, shards_that_could_not_be_loaded_are_asked_for_some_a_turn)
{
    struct asked sum;
    struct world *w = begin(&sum);
    unsigned most = 0;

    for (uint32_t i = 0; i < SHARDS; i++)
        hello(w, i, "the store is away");
    T_EQ(look(&w->members[0], &sum), 0);
    for (int i = 0; i < TICKS && sum.all < SHARDS; i++) {
        unsigned now;

        tick(w);
        now = look(&w->members[0], &sum);
        most = now > most ? now : most;
    }
    T_EQ(most, PLACE_AHEAD);
    T_EQ(rest(w, &sum, 1), SHARDS);
    world_release(w);
}

// One that is silent is not asked, and need not come anew to be.
TEST(place, a_psserver_that_was_silent_is_asked_for_what_it_missed)
{
    struct asked sum;
    struct world *w = begin(&sum);

    for (int i = 0; i < 6; i++) {
        clock_fake_advance_ms(&w->clock, TICK_MS);
        coord_tick(w->coord);
    }
    T_TRUE(members_psserver(&w->coord->members, "ps-0") == NULL);
    jobs_get(w->coord, 1)->shards.list[7].asked =
        0; // as if it was placed meanwhile
    tick(w);
    T_EQ(look(&w->members[0], &sum), 1);
    T_EQ(sum.of[1][7], 1);
    world_release(w);
}
