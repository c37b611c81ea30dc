// SPDX-License-Identifier: Apache-2.0
// Rules of the protocol that the coordinator keeps as a whole: each by its
// name, in a world of scripted members. tests/history/RULES.md lists all rules,
// with the mistake that must make the test fail.
#include <string.h>

#include "coordinator/core/job.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct world world;

enum { PS, OTHER_PS, W_0, W_1, MEMBERS };

// One that holds the first shard.
static struct fake_member *ps(struct world *w)
{
    return &w->members[PS];
}

// Two psservers with a shard each, two workers, and the usual job; it runs, and
// the psservers have heard that they are admitted.
static struct world *running(void)
{
    struct world *w = &world;

    world_init(w, WORLD_SITUATION);
    world_people(w, 2, 2);
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    fake_read_all(w, ps(w));
    fake_read_all(w, &w->members[OTHER_PS]);
    T_EQ(w->incarnations[0], 1);
    T_EQ(w->incarnations[1], 1);
    T_EQ(ps(w)->shards[0].incarnation, 1);
    return w;
}

// From here on the journal takes nothing: a write that failed is final.
static void spoil(struct journal *j)
{
    struct journal_job row = {
        .name = "x", .request_id = "r-1", .spec = {"s", 1}, .state = 1};
    uint64_t id = 0;

    T_FAILS(SL_EIO, journal_job_add(j, &row, &id, NULL)); // r-1 is there
}

// ---- identity

static enum sl_err compare_shard(void *arg, const struct journal_shard *row,
                                 struct sl_error *err)
{
    const struct world *w = arg;

    T_EQ(row->incarnation, w->incarnations[row->shard]);
    return SL_OK;
}

TEST(rules, I1_an_incarnation_is_committed_before_it_is_told)
{
    struct world *w = running();
    uint64_t was = w->incarnations[0];

    T_OK(journal_each_shard(w->journal, w->job, compare_shard, w, t_err()));
    world_kill(w, ps(w));
    world_restart(w, ps(w));
    for (int i = 0; i < LIMIT && w->incarnations[0] == was; i++)
        world_step(w);
    T_EQ(w->incarnations[0], was + 1);
    fake_deliver_all(w, ps(w));
    fake_read_all(w, ps(w));
    T_OK(journal_each_shard(w->journal, w->job, compare_shard, w, t_err()));

    // What cannot be committed is not told.
    world_kill(w, ps(w));
    spoil(w->journal);
    world_restart(w, ps(w));
    fake_read_all(w, ps(w));
    fake_deliver_all(w, ps(w));
    for (unsigned i = 0; i < ps(w)->inbox_count; i++)
        T_NE(ps(w)->inbox[i]->kind_case, SLUICE__V1__ATTEND_DOWN__KIND_ADMIT);
    T_EQ(w->fatal, SL_EIO);
    world_release(w);
}

// The version of the newest map that the member has not read yet; 0: none.
// Each entry names the incarnation that was admitted.
static uint64_t newest_map(const struct world *w, const struct fake_member *m)
{
    const Sluice__V1__JobMap *map = NULL;

    for (unsigned i = 0; i < m->inbox_count; i++)
        if (m->inbox[i]->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_MAP)
            map = m->inbox[i]->map;
    for (size_t i = 0; map != NULL && i < map->n_shards; i++)
        T_EQ(map->shards[i]->incarnation, w->incarnations[i]);
    return map == NULL ? 0 : map->version;
}

TEST(rules, I2_every_admission_is_a_new_map_version_also_in_place)
{
    struct world *w = running();
    struct fake_member *worker = &w->members[W_0];
    uint64_t first, second;

    world_pass(w, 200); // leases: so the worker was told of the job
    fake_read_all(w, worker);
    fake_hello_live(w, ps(w)); // as after a moment without a stream
    fake_deliver_all(w, ps(w));
    first = newest_map(w, worker);
    T_GT(first, 0);
    fake_read_all(w, worker);
    fake_hello_live(w, ps(w));
    fake_deliver_all(w, ps(w));
    second = newest_map(w, worker);
    T_GT(second, first);
    world_release(w);
}

// ---- evidence

TEST(rules, C3_what_a_lost_worker_had_is_issued_again)
{
    struct world *w = running();

    world_pass(w, 200);
    world_kill(w, &w->members[W_0]);
    T_TRUE(world_run(w, JOB_FINISHED, 20000));
    world_release(w);
}

static Sluice__V1__CheckpointsReply *cuts_of(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts = NULL;
    char id[24];

    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)w->job);
    request.id = id;
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    return cuts;
}

// Of the snapshot that a cut names of a shard.
static uint64_t low_of_file(struct world *w, uint32_t shard,
                            struct wire_tag tag)
{
    for (unsigned m = PS; m <= OTHER_PS; m++) {
        struct fake_shard *f = &w->members[m].shards[shard];

        for (unsigned i = 0; i < f->snaps_count; i++)
            if (wire_tag_cmp(f->snaps[i].tag, tag) == 0)
                return counted_low(&f->snaps[i].counted);
    }
    T_FAIL("no snapshot has the tag that the last cut names of shard %u",
           shard);
}

struct low {
    uint64_t cut, low, seen; // of the newest cut that was looked at; how many
};

static enum sl_err see_low(void *arg, const struct journal_cut *row,
                           struct sl_error *err)
{
    struct low *low = arg;

    if (row->cut == low->cut)
        low->low = row->low;
    return SL_OK;
}

// What the journal says of the last cut is what its files hold.
static void look_at_last_cut(struct world *w, struct low *low)
{
    Sluice__V1__CheckpointsReply *cuts = cuts_of(w);
    const Sluice__V1__Checkpoint *last =
        cuts->n_checkpoints == 0 ? NULL
                                 : cuts->checkpoints[cuts->n_checkpoints - 1];
    uint64_t was = low->low, least = UINT64_MAX, file;

    if (last != NULL && last->cut > low->cut) {
        low->cut = last->cut;
        low->seen++;
        T_OK(journal_each_cut(w->journal, w->job, see_low, low, t_err()));
        for (uint32_t s = 0; s < last->n_shards; s++) {
            file = low_of_file(w, s, wire_tag_of(last->shards[s]->tag));
            least = file < least ? file : least;
        }
        T_EQ(low->low, least);
        T_GE(low->low, was);
    }
    wire_free(&cuts->base);
}

TEST(rules, C4_the_journals_watermark_is_durable_and_never_falls)
{
    struct world *w = running();
    struct low low = {0, 0, 0};

    for (int i = 0; i < LIMIT && world_state(w) != JOB_FINISHED; i++) {
        world_step(w);
        look_at_last_cut(w, &low);
        if (i % 150 == 149 && i < 1000) { // falls back, again and again
            world_kill(w, ps(w));
            world_restart(w, ps(w));
        }
    }
    T_EQ(low.low, schedule_closures(&w->schedule));
    T_GT(low.seen, 2);
    world_release(w);
}

// ---- cuts

// Until a manifest waits to be written.
static void until_intent(struct world *w)
{
    w->hold_tasks = true;
    while (w->tasks_count == 0)
        world_step(w);
    w->hold_tasks = false;
}

static void run_task(struct world *w)
{
    T_EQ(w->tasks_count, 1);
    world_task(w);
}

static enum sl_err see_intent(void *arg, const struct journal_cut *row,
                              struct sl_error *err)
{
    unsigned *intents = arg;

    *intents += row->cut == 1 && row->state == JOURNAL_CUT_INTENT;
    return SL_OK;
}

TEST(rules, K4_the_intent_is_journalled_before_the_manifest)
{
    Sluice__V1__CheckpointsReply *cuts;
    struct world *w = running();
    unsigned intents = 0;

    until_intent(w);
    T_OK(journal_each_cut(w->journal, w->job, see_intent, &intents, t_err()));
    T_EQ(intents, 1);
    cuts = cuts_of(w);
    T_EQ(cuts->n_checkpoints, 0); // and is no cut yet
    wire_free(&cuts->base);
    run_task(w);
    intents = 0;
    T_OK(journal_each_cut(w->journal, w->job, see_intent, &intents, t_err()));
    T_EQ(intents, 0); // published
    world_release(w);
}

TEST(rules, K4_a_published_cut_has_a_manifest_that_survives)
{
    Sluice__V1__CheckpointsReply *cuts;
    struct world *w = running();

    until_intent(w);
    run_task(w);
    cuts = cuts_of(w);
    T_EQ(cuts->n_checkpoints, 1);
    crash_fs_reboot(w->fs); // the mains fail as soon as it is published
    T_TRUE(fs_exists(crash_fs_ops(w->fs), cuts->checkpoints[0]->manifest));
    wire_free(&cuts->base);
    world_release(w);
}

TEST(rules, K4_a_cut_names_every_shard)
{
    Sluice__V1__CheckpointsReply *cuts;
    struct world *w = running();

    until_intent(w);
    run_task(w);
    cuts = cuts_of(w);
    T_EQ(cuts->checkpoints[0]->n_shards, w->shards);
    wire_free(&cuts->base);
    world_release(w);
}

// How many Keeps the member has not read yet. Each names what the cuts name.
static unsigned check_keeps(const struct fake_member *m,
                            const Sluice__V1__CheckpointsReply *cuts)
{
    const Sluice__V1__Keep *keep;
    unsigned keeps = 0;

    for (unsigned i = 0; i < m->inbox_count; i++) {
        if (m->inbox[i]->kind_case != SLUICE__V1__ATTEND_DOWN__KIND_KEEP)
            continue;
        keep = m->inbox[i]->keep;
        keeps++;
        T_EQ(keep->n_tags, cuts->n_checkpoints);
        for (size_t n = 0; n < keep->n_tags; n++)
            T_EQ(wire_tag_cmp(
                     wire_tag_of(keep->tags[n]),
                     wire_tag_of(
                         cuts->checkpoints[n]->shards[keep->shard]->tag)),
                 0);
    }
    return keeps;
}

TEST(rules, K3_a_keep_names_what_every_kept_cut_names)
{
    Sluice__V1__CheckpointsReply *cuts;
    struct world *w = running();

    until_intent(w);
    run_task(w);
    until_intent(w);
    fake_read_all(w, ps(w));
    fake_read_all(w, &w->members[OTHER_PS]);
    run_task(w);
    cuts = cuts_of(w);
    T_EQ(cuts->n_checkpoints, 2); // the job keeps two
    T_EQ(check_keeps(ps(w), cuts), 1);
    T_EQ(check_keeps(&w->members[OTHER_PS], cuts), 1);
    wire_free(&cuts->base);
    world_release(w);
}

// ---- the end

TEST(rules, E1_counted_is_finishing_until_a_full_cut_is_published)
{
    Sluice__V1__CheckpointsReply *cuts;
    struct world *w = running();

    w->hold_tasks = true; // no manifest is written
    T_TRUE(world_run(w, JOB_FINISHING, LIMIT));
    for (int i = 0; i < 1000; i++)
        world_step(w);
    T_EQ(world_state(w), JOB_FINISHING);
    w->hold_tasks = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    cuts = cuts_of(w);
    T_TRUE(cuts->checkpoints[cuts->n_checkpoints - 1]->complete);
    wire_free(&cuts->base);
    world_release(w);
}

// Its psserver takes no snapshot: when it dies, all is gone.
TEST(rules, E1_a_shard_that_is_back_with_less_makes_it_running_again)
{
    struct world *w = running();

    while (world_state(w) != JOB_FINISHING) {
        ps(w)->shards[0].want_snapshot = 0;
        world_step(w);
    }
    world_kill(w, ps(w));
    world_restart(w, ps(w));
    T_TRUE(world_run(w, JOB_RUNNING, 5000));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(rules, E2_an_end_that_is_not_committed_is_told_to_nobody)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    struct world *w = running();

    world_pass(w, 200);
    for (unsigned i = 0; i < MEMBERS; i++)
        fake_read_all(w, &w->members[i]);
    spoil(w->journal);
    stop.id = (char *)"j-1";
    T_FAILS(SL_EIO, coord_stop(w->coord, &stop, &status, t_err()));
    T_EQ(w->fatal, SL_EIO);
    for (unsigned i = 0; i < MEMBERS; i++)
        T_EQ(w->members[i].inbox_count, 0); // no CloseJob, no Revoke
    world_release(w);
}
