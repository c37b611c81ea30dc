// SPDX-License-Identifier: Apache-2.0
// Psservers that follow the psserver of a shard: which is in the set, and who
// takes over (coordinator/core/shards/replicas.h). See world.h.
#include <string.h>

#include "common/base/histogram.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/shards/move.h"
#include "coordinator/feed/feed.h"
#include "coordinator/service/status_lists.h"
#include "proto/model.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct world world;

static const char replica_format[] =
    "{\"name\":\"life\",\"model\":{\"input_shape\":[4],\"layers\":["
    "{\"type\":\"dense\",\"units\":6},{\"type\":\"dense\",\"units\":2}]},"
    "\"loss\":\"sparse_categorical_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\"},"
    "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"}},"
    "\"train\":{\"batch\":4,\"epochs\":6,\"steps_per_closure\":3,"
    "\"max_attempts\":8,\"window_closures\":6},"
    "\"placement\":{\"shard_bytes\":%u,\"replicas\":1%s},"
    "\"checkpoint\":{\"keep\":2,\"every_seconds\":1000}}";

enum { TWO_SHARDS = 88, EIGHT_SHARDS = 29 }; // bytes of one

// A job with shards of so many bytes, with more keys of its placement; until
// the next call.
static const char *replica_job_with(unsigned bytes, const char *keys)
{
    static char text[sizeof(replica_format) + 60];

    snprintf(text, sizeof(text), replica_format, bytes, keys);
    return text;
}

static const char *replica_job(unsigned bytes)
{
    return replica_job_with(bytes, "");
}

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

static bool in_set(struct world *w, uint32_t shard)
{
    const struct row r = row_of(w, shard);

    return r.replica[0] != '\0' && strcmp(r.replica, r.owner) != 0;
}

// A world in which psservers feed each other, and which events are kept of.
static struct world *begin(uint64_t seed)
{
    struct world *w = &world;
    struct feed_options options = {0};

    world_init(w, seed);
    options.clock = &w->clock.clock;
    T_OK(feed_new(&w->feed, &options, t_err()));
    world_stop_coord(w);
    world_start_coord(w);
    w->one_store = w->feeds = true;
    return w;
}

static void end(struct world *w)
{
    struct feed *f = w->feed;

    world_release(w);
    feed_free(f);
}

static void finishes(struct world *w)
{
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    end(w);
}

static uint32_t shards_of(struct world *w)
{
    uint32_t shards = 0;

    while (shards < WORLD_SHARDS && row_of(w, shards).owner[0] != '\0')
        shards++;
    return shards;
}

static bool all_in_set(struct world *w)
{
    for (uint32_t s = 0; s < shards_of(w); s++)
        if (!in_set(w, s))
            return false;
    return true;
}

// Time passes, and psservers do all that they can, until all shards have a
// replica.
static void wait_replicas(struct world *w)
{
    for (int i = 0; i < 100 && !all_in_set(w); i++) {
        fake_turn(w);
        world_pass(w, 2 * MOVES_LOOK_MS); // so that several begin
    }
    T_TRUE(all_in_set(w));
}

static struct fake_member *named(struct world *w, const char *name)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        if (w->members[i].used && strcmp(w->members[i].name, name) == 0)
            return &w->members[i];
    t_fail(__FILE__, __LINE__, "there is no %s", name);
    return NULL;
}

// Submits a job of eight shards, and waits until each has a replica. Nobody
// trains until worker w-0 is restarted.
static void replicate(struct world *w)
{
    world_people(w, 0, 1);
    world_submit(w, replica_job(EIGHT_SHARDS));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_EQ(shards_of(w), 8);
    world_kill(w, named(w, "w-0"));
    wait_replicas(w);
}

// Two psservers with a shard each, and with the replica of the other's, of a
// job with these keys of its placement.
static struct world *replicated_with(const char *keys)
{
    struct world *w = begin(WORLD_SITUATION);

    world_people(w, 2, 2);
    world_submit(w, replica_job_with(TWO_SHARDS, keys));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (int i = 0; i < LIMIT && !all_in_set(w); i++)
        world_step(w);
    T_TRUE(all_in_set(w));
    return w;
}

static struct world *replicated(void)
{
    return replicated_with("");
}

static const char follow_keys[] = ",\"replicate\":\"follow\"";

// Replicas that may lack what was answered.
static struct world *followed(void)
{
    return replicated_with(follow_keys);
}

// How many events of this kind there are, of which the last says `words`.
static unsigned events(struct world *w, const char *kind, const char *words)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *reply = NULL;
    const char *last = "";
    unsigned count = 0;

    request.id = "j-1";
    T_OK(status_events(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_events; i++) {
        if (strcmp(reply->events[i]->kind, kind) != 0)
            continue;
        last = reply->events[i]->text;
        count++;
    }
    T_HAS(last, words);
    wire_free(&reply->base);
    return count;
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
    coord_tick(w->coord);
    T_FALSE(in_set(w, 0));
    f->misses = false; // a report from before, that came late
    fake_replica_report(w, m, 0);
    fake_deliver_all(w, m);
    T_FALSE(in_set(w, 0));
    fake_read_all(w, m);
    T_FALSE(f->bound);
    finishes(w);
}

static bool feeds_replica(struct world *w, uint32_t shard)
{
    list_for(n, &w->coord->moves.list)
    {
        const struct move *v = list_entry(n, struct move, node);

        if (v->replica && v->shard == shard && v->phase == MOVE_FEEDS)
            return true;
    }
    return false;
}

// The end of the feed of a shard that moves makes the target the owner. A
// psserver that says so of a replica's feed is wrong.
TEST(replica, P4_the_end_of_a_feed_hands_nothing_over)
{
    struct world *w = begin(WORLD_SITUATION);
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__FeedEnded ended = SLUICE__V1__FEED_ENDED__INIT;
    struct fake_member *m;
    struct row was;

    world_people(w, 2, 2);
    world_submit(w, replica_job(TWO_SHARDS));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    was = row_of(w, 0);
    m = named(w, was.owner);
    for (int i = 0; i < LIMIT && !feeds_replica(w, 0); i++)
        world_step(w);
    T_TRUE(feeds_replica(w, 0));
    T_FALSE(in_set(w, 0));
    ended.job = w->job;
    ended.job_incarnation = 1;
    ended.incarnation = m->shards[0].incarnation;
    ended.order = m->shards[0].feed;
    ended.failure = "";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FEED_ENDED;
    up.feed_ended = &ended;
    fake_send(m, &up);
    fake_deliver_all(w, m);
    T_STR(row_of(w, 0).owner, was.owner);
    T_EQ(jobs_get(w->coord, w->job)->shards.list[0].moving, false);
    finishes(w);
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
    coord_tick(w->coord);
    T_STR(row_of(w, 1).replica, "");
    T_TRUE(m->shards[1].bound); // it has not read that yet
    fake_read_all(w, m);
    fake_read_all(w, to);
    T_FALSE(m->shards[1].bound);
    T_FALSE(to->shards[1].loaded);
    finishes(w);
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
    finishes(w);
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
    finishes(w);
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
    coord_tick(w->coord);
    world_kill(w, m);
    world_step(w);
    T_STR(row_of(w, 0).owner, was.owner);
    world_restart(w, m);
    finishes(w);
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
    finishes(w);
}

// The owner is told by its feed; people see it of the shard and of the
// psserver.
TEST(replica, P6_an_owner_is_told_that_its_answers_wait_for_nothing)
{
    struct world *w = followed();
    struct row was = row_of(w, 0);
    Sluice__V1__JobStatus *status = world_status(w);

    T_TRUE(named(w, was.owner)->shards[0].follows);
    T_TRUE(status->shards[0]->follows);
    wire_free(&status->base);
    T_GE(events(w, "replica-in", ", which follows, and may take over"), 2);
    finishes(w);
    w = replicated();
    status = world_status(w);
    T_FALSE(named(w, row_of(w, 0).owner)->shards[0].follows);
    T_FALSE(status->shards[0]->follows);
    wire_free(&status->base);
    finishes(w);
}

static void until_admitted(struct world *w, const struct fake_shard *f)
{
    for (int i = 0; i < LIMIT && !f->admitted; i++)
        world_step(w);
    T_TRUE(f->admitted);
}

// The evidence becomes what the replica's hello says (C2), so its closures are
// issued again.
TEST(replica, P6_what_a_replica_lacks_is_computed_again)
{
    struct world *w = followed();
    struct row was = row_of(w, 0);
    struct fake_member *m = named(w, was.owner);
    struct fake_shard *to = &named(w, was.replica)->shards[0];
    uint64_t steps = steps_of(w, was.replica, 0);

    m->shards[0].lags = true;
    for (int i = 0; i < LIMIT && steps_of(w, was.owner, 0) < steps + 2; i++)
        world_step(w);
    T_GE(steps_of(w, was.owner, 0), steps + 2);
    T_EQ(steps_of(w, was.replica, 0), steps);
    T_TRUE(in_set(w, 0));
    world_kill(w, m);
    until_admitted(w, to);
    T_STR(row_of(w, 0).owner, was.replica);
    T_GE(steps_of(w, was.replica, 0), steps);
    finishes(w);
}

// The tag of its hello is that of the newest snapshot of which it has all.
TEST(replica, P7_one_that_lacks_what_the_last_cut_holds_loads_that)
{
    struct world *w = followed();
    struct row was = row_of(w, 0);
    struct fake_member *m = named(w, was.owner);
    struct fake_shard *to = &named(w, was.replica)->shards[0];
    const struct job_shard *s = &jobs_get(w->coord, 1)->shards.list[0];
    struct wire_tag cut;

    m->shards[0].lags = true;
    for (int i = 0; i < LIMIT && wire_tag_cmp(s->cut, to->from) <= 0; i++)
        world_step(w);
    cut = s->cut;
    T_GT(wire_tag_cmp(cut, to->from), 0);
    T_TRUE(in_set(w, 0));
    world_kill(w, m);
    until_admitted(w, to); // which the world checks (K7)
    T_STR(row_of(w, 0).owner, was.replica);
    T_GE(wire_tag_cmp(to->from, cut), 0);
    finishes(w);
}

// It has the edition of replicas, and would have answers wait.
TEST(replica, an_older_psserver_has_no_shard_whose_replica_follows)
{
    struct world *w = begin(WORLD_SITUATION);

    world_add(w, FAKE_PSSERVER, "ps-8")->edition = MODEL_EDITION_FOLLOWS - 1;
    world_attach(w, named(w, "ps-8"));
    world_people(w, 1, 1);
    world_submit(w, replica_job_with(TWO_SHARDS, follow_keys));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (uint32_t i = 0; i < shards_of(w); i++)
        T_NE(strcmp(row_of(w, i).owner, "ps-8"), 0);
    for (int i = 0; i < 10; i++) {
        fake_turn(w);
        world_pass(w, 2 * MOVES_LOOK_MS);
    }
    T_FALSE(in_set(w, 0)); // nor the replica of one
    finishes(w);
}

static uint64_t commits(struct world *w)
{
    const struct histogram *h = journal_commits(w->journal);
    uint64_t sum = 0;

    for (size_t i = 0; i < SL_COUNT(h->count); i++)
        sum += h->count[i];
    return sum;
}

// Four of its shards are taken over, and four others lose their replica.
TEST(replica, P3_P4_a_psserver_that_falls_is_one_commit_and_few_events)
{
    struct world *w = begin(WORLD_SITUATION);
    uint64_t before;

    world_people(w, 2, 0);
    replicate(w);
    before = commits(w);
    world_kill(w, named(w, "ps-0"));
    T_EQ(commits(w), before + 1);
    T_EQ(events(w, "replica-promoted",
                "replica ps-1 takes over 4 shards of life from ps-0"),
         1);
    T_EQ(events(w, "replica-out",
                "ps-0 is no longer a replica of 4 shards of life"),
         1);
    for (uint32_t s = 0; s < 8; s++)
        T_STR(row_of(w, s).owner, "ps-1");
    world_restart(w, named(w, "ps-0"));
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// One host has three psservers, and another host one, which can begin a single
// replica at a time: it has all of theirs, however long that takes.
TEST(replica, a_host_that_is_only_busy_is_waited_for)
{
    struct world *w = begin(WORLD_SITUATION);

    for (unsigned i = 0; i < 4; i++) {
        char name[8];

        snprintf(name, sizeof(name), "ps-%u", i);
        world_add(w, FAKE_PSSERVER, name)->host = i < 3 ? "one" : "two";
        world_attach(w, named(w, name));
    }
    replicate(w);
    for (uint32_t s = 0; s < 8; s++) {
        const struct row r = row_of(w, s);

        T_EQ(strcmp(r.owner, "ps-3") != 0, strcmp(r.replica, "ps-3") == 0);
    }
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// The connection of an owner, with replicas of others, breaks in the middle. It
// is back before the coordinator could see that.
TEST(replica, a_process_that_redials_keeps_its_place_in_all_sets)
{
    struct world *w = begin(WORLD_SITUATION);
    struct row rows[8];

    world_people(w, 2, 0);
    replicate(w);
    for (uint32_t s = 0; s < 8; s++)
        rows[s] = row_of(w, s);
    fake_disconnected(named(w, "ps-0"));
    world_attach(w, named(w, "ps-0"));
    world_pass(w, 3000);
    for (uint32_t s = 0; s < 8; s++) {
        T_STR(row_of(w, s).owner, rows[s].owner);
        T_STR(row_of(w, s).replica, rows[s].replica);
        T_EQ(row_of(w, s).feed, rows[s].feed);
    }
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// Both were away for longer than a lease. The owner is back first, and its
// replica has as long as a lease from then on.
TEST(replica, P5_a_replica_is_waited_for_from_when_its_owner_has_no_memory)
{
    struct world *w = begin(WORLD_SITUATION);
    uint32_t shard = 0;

    world_people(w, 2, 0);
    replicate(w);
    while (strcmp(row_of(w, shard).owner, "ps-0") != 0)
        shard++;
    world_stop_coord(w);
    world_kill(w, named(w, "ps-0"));
    world_start_coord(w);
    world_pass(w, 6000);
    world_restart(w, named(w, "ps-0"));
    for (int i = 0; i < 5; i++) {
        fake_turn(w);
        world_pass(w, 200);
    }
    world_attach(w, named(w, "ps-1"));
    world_pass(w, 100);
    T_STR(row_of(w, shard).owner, "ps-1");
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// A hello that waits for a manifest (K5) would be judged as that of the
// psserver that has the shard by then.
TEST(replica, P4_the_hello_of_a_psserver_that_has_the_shard_no_more_is_dropped)
{
    struct world *w = begin(WORLD_SITUATION);
    Sluice__V1__ShardHello hello = SLUICE__V1__SHARD_HELLO__INIT;
    ProtobufCMessage *copy = NULL;
    struct job_shard *s;

    world_people(w, 2, 0);
    replicate(w);
    s = &jobs_get(w->coord, 1)->shards.list[0];
    T_OK(wire_dup(&copy, &hello.base));
    s->waiting = (Sluice__V1__ShardHello *)copy;
    world_kill(w, named(w, row_of(w, 0).owner));
    T_TRUE(s->waiting == NULL);
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// It is never asked to load the shard, so it never says that it has no memory.
TEST(replica, an_owner_that_comes_back_as_an_older_program_is_not_waited_for)
{
    struct world *w = begin(WORLD_SITUATION);
    struct fake_member *m;

    world_people(w, 2, 0);
    replicate(w);
    m = named(w, "ps-0");
    world_stop_coord(w);
    world_kill(w, m);
    m->edition = MODEL_EDITION_REPLICAS - 1;
    world_start_coord(w);
    world_restart(w, m);
    world_attach(w, named(w, "ps-1"));
    for (int i = 0; i < 10; i++) {
        fake_turn(w);
        world_pass(w, 500);
    }
    for (uint32_t s = 0; s < 8; s++)
        T_STR(row_of(w, s).owner, "ps-1");
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// What is said of a member for people.
static bool member_says(struct world *w, const char *name, const char *words)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;
    bool found = false;

    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++)
        found = found || (strcmp(reply->members[i]->name, name) == 0 &&
                          strstr(reply->members[i]->reason, words) != NULL);
    wire_free(&reply->base);
    return found;
}

// None was in any set. Each shard is tried again after 10 s, 20, 40, ...
TEST(replica, one_that_cannot_be_made_is_tried_less_and_less)
{
    struct world *w = begin(WORLD_SITUATION);
    unsigned tries;

    w->feeds = false;
    world_people(w, 2, 1);
    world_submit(w, replica_job(EIGHT_SHARDS));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_kill(w, named(w, "w-0"));
    world_pass(w, MOVES_LOOK_MS);
    T_TRUE(member_says(w, "ps-0", "gets a replica on ps-"));
    for (int i = 0; i < 120; i++) {
        fake_turn(w);
        world_pass(w, 1000);
    }
    T_EQ(events(w, "replica-out", ""), 0);
    tries = events(w, "replica-failed",
                   "of life gets no replica now: there is no feed to follow");
    T_GE(tries, 8);
    T_LE(tries, 8 * 4);
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// What the list of psservers says of one.
static void expect_replicas(struct world *w, const char *name,
                            uint32_t replicas, uint64_t lag)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++) {
        if (strcmp(reply->members[i]->name, name) != 0)
            continue;
        T_EQ(reply->members[i]->replicas, replicas);
        T_EQ(reply->members[i]->replica_lag, lag);
    }
    wire_free(&reply->base);
}

static unsigned looks;

static void note_look(struct coord *c, struct job *job)
{
    looks++;
}

// Each shard tells its lag with each heartbeat. All jobs and workers are looked
// at when a report changes more.
TEST(replica, how_far_it_is_behind_makes_no_work)
{
    struct world *w = begin(WORLD_SITUATION);
    struct fake_member *m;
    struct job *job;
    struct mode mode;
    Sluice__V1__JobStatus *status;

    world_people(w, 2, 0);
    replicate(w);
    job = jobs_get(w->coord, 1);
    mode = *job->mode;
    mode.check = note_look;
    job->mode = &mode;
    m = named(w, row_of(w, 5).owner);
    m->shards[5].lag = 17;
    looks = 0;
    fake_replica_report(w, m, 5);
    fake_deliver_all(w, m);
    T_EQ(looks, 0);
    status = world_status(w);
    T_EQ(status->shards[5]->replica_lag, 17);
    wire_free(&status->base);
    expect_replicas(w, row_of(w, 5).replica, 4, 17);
    expect_replicas(w, m->name, 4, 0);
    m->shards[5].misses = true;
    fake_replica_report(w, m, 5);
    fake_deliver_all(w, m);
    T_GT(looks, 0);
    coord_tick(w->coord);
    T_FALSE(in_set(w, 5));
    m = named(w, row_of(w, 4).owner);
    m->shards[4].lag = 9;
    fake_replica_report(w, m, 4);
    fake_deliver_all(w, m);
    status = world_status(w);
    T_EQ(status->shards[4]->replica_lag, 9);
    wire_free(&status->base);
    world_restart(w, named(w, "w-0"));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    status = world_status(w);
    T_STR(status->shards[4]->replica, "");
    T_EQ(status->shards[4]->replica_lag, 0);
    wire_free(&status->base);
    end(w);
}

static bool warns(struct world *w, const char *words)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool found = false;

    for (size_t i = 0; i < s->n_warnings; i++)
        found = found || strstr(s->warnings[i], words) != NULL;
    wire_free(&s->base);
    return found;
}

// Its own four shards fit, with the copy of one, and four more do not.
TEST(replica, what_follows_needs_memory_too)
{
    struct world *w = begin(WORLD_SITUATION);

    world_add(w, FAKE_PSSERVER, "ps-0")->memory_bytes = 150;
    world_attach(w, named(w, "ps-0"));
    world_attach(w, world_add(w, FAKE_PSSERVER, "ps-1"));
    replicate(w);
    T_TRUE(warns(w, "psserver ps-0 needs at least 1 MiB for its 4 shards and 4 "
                    "replicas of this job"));
    T_EQ(events(w, "memory-short", "ps-0"), 1);
    world_kill(w, named(w, "ps-0"));
    T_FALSE(warns(w, "ps-0"));
    world_restart(w, named(w, "w-0"));
    finishes(w);
}

// It stands still, so the feeds to it end, all at once. Its own shards go on.
TEST(replica, P3_replicas_that_are_missed_leave_in_one_commit)
{
    struct world *w = begin(WORLD_SITUATION);
    struct fake_member *m;
    uint64_t before;

    world_people(w, 2, 0);
    replicate(w);
    m = named(w, "ps-1");
    for (uint32_t s = 0; s < 8; s++) {
        if (strcmp(row_of(w, s).owner, "ps-1") != 0)
            continue;
        m->shards[s].misses = true;
        fake_replica_report(w, m, s);
    }
    fake_deliver_all(w, m);
    before = commits(w);
    coord_tick(w->coord);
    T_EQ(commits(w), before + 1);
    T_EQ(events(w, "replica-out",
                "ps-0 is no longer a replica of 4 shards of life: it does not "
                "answer"),
         1);
    for (uint32_t s = 0; s < 8; s++)
        T_EQ(in_set(w, s), strcmp(row_of(w, s).owner, "ps-0") == 0);
    world_restart(w, named(w, "w-0"));
    finishes(w);
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
    finishes(w);
}

// Whoever dies whenever: the world checks counts and incarnations. In half of
// the lives replicas follow behind the answers.
TEST(replica, lives_with_losses_come_to_their_end)
{
    for (unsigned life = 0; life < 16; life++) {
        struct world *w = begin(t_seed() + life);

        world_people(w, 3, 2);
        world_submit(
            w, replica_job_with(TWO_SHARDS, life % 2 == 0 ? "" : follow_keys));
        T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
        for (int i = 0; i < 2000 && !w->fatal; i++) {
            struct fake_member *m = &w->members[world_below(w, 3)];

            world_step(w);
            if (world_below(w, 400) == 0 && m->alive)
                world_kill(w, m);
            else if (world_below(w, 100) == 0 && !m->alive)
                world_restart(w, m);
            else if (world_below(w, 300) == 0 && m->alive) { // it redials
                fake_disconnected(m);
                world_attach(w, m);
            } else if (world_below(w, 800) == 0) {
                world_stop_coord(w);
                world_start_coord(w);
            }
        }
        for (unsigned i = 0; i < 3; i++)
            if (!w->members[i].alive)
                world_restart(w, &w->members[i]);
        finishes(w);
    }
}
