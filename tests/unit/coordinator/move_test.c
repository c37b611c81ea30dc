// SPDX-License-Identifier: Apache-2.0
// Shards that move from one psserver to another: which, when, and who owns them
// meanwhile (coordinator/core/shards/move.h). See world.h.
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/move.h"
#include "coordinator/service/status_lists.h"
#include "proto/model.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, PS_0 = 0, PS_1, W_0, W_1, PS_2 };

static struct world world;

// Two psservers with a shard each, two workers, one store, and a job that runs.
// `feeds`: the psservers can feed a shard.
static struct world *move_begun(const char *json, bool feeds)
{
    struct world *w = &world;

    world_init(w, WORLD_SITUATION);
    w->one_store = true;
    w->feeds = feeds;
    world_people(w, 2, 2);
    world_submit(w, json);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    return w;
}

static struct world *move_running(const char *json)
{
    return move_begun(json, false);
}

static void drain(struct world *w, const char *name)
{
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__DrainReply *reply = NULL;

    request.name = (char *)name;
    request.role = "psserver";
    request.who = "ada";
    request.why = "";
    T_OK(status_drain(w->coord, &request, &reply, t_err()));
    wire_free(&reply->base);
}

static enum sl_err note_owner(void *arg, const struct journal_shard *row,
                              struct sl_error *err)
{
    snprintf((char *)arg + 32 * row->shard, 32, "%s", row->psserver);
    return SL_OK;
}

// The owner of a shard, as the journal says it.
static const char *owner(struct world *w, uint32_t shard)
{
    static char names[WORLD_SHARDS][32];

    memset(names, 0, sizeof(names));
    T_OK(journal_each_shard(w->journal, w->job, note_owner, names, t_err()));
    return names[shard];
}

// The first of these shards that lies on the psserver.
static uint32_t shard_on(struct world *w, const char *name)
{
    uint32_t i = 0;

    while (strcmp(owner(w, i), name) != 0)
        T_LT(++i, w->shards);
    return i;
}

// Whether a message to the psserver asks for the last snapshot of a shard.
static bool is_asked_for_last(const struct fake_member *m)
{
    for (unsigned i = 0; i < m->inbox_count; i++)
        if (m->inbox[i]->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT &&
            m->inbox[i]->snapshot->last)
            return true;
    return false;
}

// The journal names the target when the source has stopped and its last
// snapshot is written, and not before; no memory that was prepared serves.
TEST(move, M2_the_owner_changes_after_the_last_snapshot)
{
    struct world *w = move_running(world_graph_job);
    uint32_t shard = shard_on(w, "ps-1");
    struct fake_shard *from = &w->members[PS_1].shards[shard];
    uint64_t was = w->incarnations[shard];

    drain(w, "ps-1");
    for (int i = 0; i < LIMIT && strcmp(owner(w, shard), "ps-1") == 0; i++)
        world_step(w);
    T_STR(owner(w, shard), "ps-0");
    T_GE(from->lasts, 1);
    T_TRUE(from->handed || !from->loaded);
    T_EQ(from->want_snapshot, 0);
    T_EQ(w->incarnations[shard], was);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_GE(w->incarnations[shard], was + 1);
    T_FALSE(from->loaded);
    world_release(w);
}

// A hello from before the stop is answered by an admission, which sets the
// source going: what it wrote meanwhile is not its last snapshot.
TEST(move, M3_a_source_that_is_admitted_keeps_its_shard)
{
    struct world *w = move_running(world_graph_job);
    struct fake_member *m = &w->members[PS_1];
    uint32_t shard = shard_on(w, "ps-1");

    drain(w, "ps-1");
    for (int i = 0; i < LIMIT && !is_asked_for_last(m); i++)
        world_step(w);
    T_TRUE(is_asked_for_last(m));
    fake_hello_live(w, m);
    fake_deliver_all(w, m);
    fake_read_all(w, m); // stops, and goes on
    T_FALSE(m->shards[shard].handed);
    fake_psserver_work(w, m);
    fake_deliver_all(w, m); // the snapshot
    T_STR(owner(w, shard), "ps-1");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Runs until the psserver is asked to feed its shard; returns whether it is.
static bool runs_to_feed(struct world *w, struct fake_member *m, uint32_t shard)
{
    for (int i = 0; i < LIMIT && !m->shards[shard].feeds; i++)
        world_step(w);
    return m->shards[shard].feeds;
}

// It is admitted with what it was fed, and nothing is computed again.
TEST(move, M2_the_owner_changes_after_the_end_of_its_feed)
{
    struct world *w = move_begun(world_graph_job, true);
    uint32_t shard = shard_on(w, "ps-1");
    struct fake_shard *from = &w->members[PS_1].shards[shard];
    struct fake_shard *to = &w->members[PS_0].shards[shard];
    uint64_t was = w->incarnations[shard], steps;

    drain(w, "ps-1");
    T_TRUE(runs_to_feed(w, &w->members[PS_1], shard));
    T_TRUE(job_served(jobs_get(w->coord, w->job))); // it serves on
    T_STR(owner(w, shard), "ps-1");
    for (int i = 0; i < LIMIT && !to->whole; i++)
        world_step(w);
    steps = counted_steps(&to->counted);
    T_EQ(steps, counted_steps(&from->counted));
    for (int i = 0; i < LIMIT && !to->admitted; i++)
        world_step(w);
    T_STR(owner(w, shard), "ps-0");
    T_EQ(from->lasts, 0);
    T_GE(w->incarnations[shard], was + 1);
    T_GE(counted_steps(&to->counted), steps);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_FALSE(from->loaded);
    world_release(w);
}

// Its feed fails, and it goes on; the next time it goes by files.
TEST(move, M2_a_feed_that_fails_leaves_the_owner)
{
    struct world *w = move_begun(world_graph_job, true);
    uint32_t shard = shard_on(w, "ps-1");
    struct fake_shard *from = &w->members[PS_1].shards[shard];

    drain(w, "ps-1");
    T_TRUE(runs_to_feed(w, &w->members[PS_1], shard));
    w->members[PS_0].shards[shard].follow = 0;
    fake_psserver_work(w, &w->members[PS_1]); // stops, and finds nobody
    T_TRUE(from->handed);
    fake_deliver_all(w, &w->members[PS_1]);
    T_STR(owner(w, shard), "ps-1");
    T_TRUE(job_served(jobs_get(w->coord, w->job)));
    for (int i = 0; i < LIMIT && from->handed; i++)
        world_step(w);
    T_FALSE(from->handed);
    T_TRUE(jobs_get(w->coord, w->job)->shards.list[shard].by_files);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(move, M3_a_source_that_is_admitted_keeps_its_shard_although_it_was_fed)
{
    struct world *w = move_begun(world_graph_job, true);
    struct fake_member *m = &w->members[PS_1];
    uint32_t shard = shard_on(w, "ps-1");

    drain(w, "ps-1");
    T_TRUE(runs_to_feed(w, m, shard));
    fake_hello_live(w, m); // from before the stop
    fake_psserver_work(w, m);
    T_TRUE(m->shards[shard].handed);
    fake_deliver_all(w, m); // the hello, and then the end
    T_STR(owner(w, shard), "ps-1");
    fake_read_all(w, m);
    T_FALSE(m->shards[shard].handed);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// It owned the shard once, and an old hello of it is answered while it follows.
TEST(move, M3_a_target_that_is_refused_ends_its_move)
{
    struct world *w = move_begun(world_graph_job, true);
    struct fake_member *m = &w->members[PS_1], *to = &w->members[PS_0];
    uint32_t shard = shard_on(w, "ps-1");

    drain(w, "ps-1");
    T_TRUE(runs_to_feed(w, m, shard));
    to->shards[shard].prepares = false;
    to->shards[shard].incarnation = 1;
    fake_hello_live(w, to);
    fake_deliver_all(w, to);
    to->shards[shard].prepares = true;
    to->shards[shard].incarnation = 0;
    fake_psserver_work(w, m);
    fake_deliver_all(w, m); // the end
    T_STR(owner(w, shard), "ps-1");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static void stop_saved(struct world *w)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    stop.id = "j-1";
    stop.checkpoint = true;
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    wire_free(&s->base);
}

// Nobody serves the shard for a moment, and all that it has counted is safe.
TEST(move, a_stop_with_a_checkpoint_waits_for_a_shard_that_moves)
{
    struct world *w = move_running(world_graph_job);
    uint32_t shard = shard_on(w, "ps-1");

    drain(w, "ps-1");
    for (int i = 0; i < LIMIT && strcmp(owner(w, shard), "ps-1") == 0; i++)
        world_step(w);
    T_FALSE(job_served(jobs_get(w->coord, w->job)));
    stop_saved(w);
    T_TRUE(world_run(w, JOB_STOPPED, LIMIT));
    T_STR(world_reason(w), "stopped by request");
    world_release(w);
}

// Which of three psservers has how many shards, once nothing moves any more.
static void settle(struct world *w, unsigned ms)
{
    for (unsigned i = 0; i < ms / 50; i++) {
        world_pass(w, 50);
        for (int k = 0; k < 20; k++)
            world_step(w);
    }
}

TEST(move, a_psserver_that_does_not_know_moves_takes_no_part)
{
    struct world *w = move_running(world_graph_job);
    uint32_t shard = shard_on(w, "ps-1");

    w->members[PS_0].edition = MODEL_EDITION_MOVES - 1;
    world_break(w, &w->members[PS_0]);
    drain(w, "ps-1");
    settle(w, 3000);
    T_STR(owner(w, shard), "ps-1");
    world_release(w);
}

// ---- which shards move by themselves

// A job whose shards of `bytes` all lie on ps-0, as psserver ps-1 comes.
// `words`: more of its placement.
static struct world *alone_of(unsigned bytes, const char *words)
{
    static const char placement[] = "\"partitioner\":\"fixed\",\"shards\":2";
    const char *at = strstr(world_graph_job, placement);
    struct world *w = &world;
    char json[1500];

    T_ASSERT(at != NULL);
    snprintf(json, sizeof(json), "%.*s\"shard_bytes\":%u%s%s",
             (int)(at - world_graph_job), world_graph_job, bytes, words,
             at + strlen(placement));
    world_init(w, WORLD_SITUATION);
    w->one_store = true;
    world_people(w, 1, 1);
    world_submit(w, json);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    while (w->shards == 0) // until a worker has opened it
        world_step(w);
    w->members[1].hangs = true; // so the job does not end
    world_attach(w, world_add(w, FAKE_PSSERVER, "ps-1"));
    return w;
}

// The same with two shards.
static struct world *alone(const char *words)
{
    struct world *w = alone_of(48, words);

    T_EQ(w->shards, 2);
    return w;
}

static void lie(struct world *w, const char *first, const char *second)
{
    settle(w, 20000);
    T_STR(owner(w, 0), first);
    T_STR(owner(w, 1), second);
}

TEST(move, one_of_two_shards_goes_to_a_psserver_that_comes)
{
    struct world *w = alone("");

    lie(w, "ps-0", "ps-1"); // the smaller one
    world_release(w);
}

// The large one would only change places with the rest.
TEST(move, psservers_are_to_have_as_many_bytes_not_as_many_shards)
{
    struct world *w = alone("");

    jobs_get(w->coord, w->job)->shards.list[0].elements = 1 << 20;
    lie(w, "ps-0", "ps-1");
    jobs_get(w->coord, w->job)->shards.list[1].elements = 1 << 22;
    lie(w, "ps-0", "ps-1"); // neither would be better off
    world_release(w);
}

// Runs until so many shards lie on ps-1, and returns when that was.
static uint64_t shards_come(struct world *w, uint32_t wanted)
{
    for (int i = 0; i < LIMIT; i++) {
        uint32_t found = 0;

        for (uint32_t k = 0; k < w->shards; k++)
            found += strcmp(owner(w, k), "ps-1") == 0;
        if (found >= wanted)
            return sl_now_ms(&w->clock.clock);
        world_step(w);
    }
    T_FAIL("shards stay on ps-0");
    return 0;
}

// Runs until a shard moves, and returns when that began.
static uint64_t move_begins(struct world *w)
{
    for (int i = 0; i < LIMIT && list_empty(&w->coord->moves.list); i++)
        world_step(w);
    T_FALSE(list_empty(&w->coord->moves.list));
    return sl_now_ms(&w->clock.clock);
}

// Workers wait for the end of each move.
TEST(move, moves_that_only_even_out_leave_their_job_time_to_train)
{
    struct world *w = alone_of(16, "");
    uint64_t came;

    T_GE(w->shards, 5);
    came = shards_come(w, 1);
    T_GE(move_begins(w), came + MOVES_REST_MS);
    came = shards_come(w, 2);
    drain(w, "ps-0"); // which does not wait for that
    T_LT(move_begins(w), came + MOVES_REST_MS);
    shards_come(w, w->shards);
    world_release(w);
}

// Workers have waited for its stop.
TEST(move, a_move_that_is_given_up_leaves_time_to_train_as_well)
{
    struct world *w = alone_of(16, "");
    struct fake_member *m = &w->members[0];
    uint64_t began = move_begins(w), over;

    for (int i = 0; i < LIMIT && !is_asked_for_last(m); i++)
        world_step(w);
    T_TRUE(is_asked_for_last(m));
    fake_hello_live(w, m);
    fake_deliver_all(w, m);
    T_TRUE(list_empty(&w->coord->moves.list));
    over = sl_now_ms(&w->clock.clock);
    T_GT(over, began);
    T_GE(move_begins(w), over + MOVES_REST_MS);
    world_release(w);
}

TEST(move, moves_by_hand_are_of_drained_psservers_alone)
{
    struct world *w = alone(",\"move\":\"manual\"");

    lie(w, "ps-0", "ps-0");
    drain(w, "ps-0");
    lie(w, "ps-1", "ps-1");
    world_release(w);
}

TEST(move, a_job_gets_no_more_psservers_than_it_may_have)
{
    struct world *w = alone(",\"psservers\":1");

    lie(w, "ps-0", "ps-0");
    drain(w, "ps-0"); // it is replaced
    lie(w, "ps-1", "ps-1");
    world_release(w);
}

// ps-0 says that it has a memory of the shard that the journal does not know.
// `uid`: of the job, as it knows it; 0: it does not.
static void show_more(struct world *w, uint32_t shard, uint64_t uid)
{
    struct fake_shard *f = &w->members[PS_0].shards[shard];

    T_OK(counted_init(&f->counted, &w->schedule));
    f->placed = f->loaded = f->admitted = true;
    f->incarnation = w->incarnations[shard] + 1;
    w->uid = uid;
    fake_hello_live(w, &w->members[PS_0]);
    fake_deliver_all(w, &w->members[PS_0]);
}

// What a psserver shows beyond the journal pauses the job, although the journal
// names another owner: it is a copy from before the move.
TEST(move, I7_a_shard_that_moved_after_the_copy_of_the_journal)
{
    struct world *w = move_running(world_graph_job);
    uint32_t shard = shard_on(w, "ps-1");

    show_more(w, shard, 0);
    T_STR(world_reason(w), "");
    show_more(w, shard, jobs_get(w->coord, w->job)->uid);
    T_HAS(world_reason(w), "I7");
    world_release(w);
}

// Nothing begins the checkpoint that such a stop would wait for.
TEST(move, I7_a_stop_with_a_checkpoint_ends_a_paused_job_whose_shard_moves)
{
    struct world *w = move_running(world_graph_job);
    uint32_t shard = shard_on(w, "ps-1");

    drain(w, "ps-1");
    for (int i = 0; i < LIMIT && strcmp(owner(w, shard), "ps-1") == 0; i++)
        world_step(w);
    T_FALSE(job_served(jobs_get(w->coord, w->job)));
    show_more(w, 1 - shard, jobs_get(w->coord, w->job)->uid);
    T_HAS(world_reason(w), "I7");
    stop_saved(w);
    T_EQ(world_state(w), JOB_STOPPED);
    world_release(w);
}
