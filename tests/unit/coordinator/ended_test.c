// SPDX-License-Identifier: Apache-2.0
// Jobs that have ended: what is left of them in memory, and what is still said
// of them.
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "coordinator/core/jobs.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, MANY = 10000 };

static struct world *begin(void)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 2);
    world_submit(&w, world_graph_job);
    return &w;
}

static void stop_job(struct world *w)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    stop.id = "j-1";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    wire_free(&s->base);
}

static void delete_job(struct world *w, const char *id, enum sl_err expected)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;

    request.id = (char *)id;
    if (coord_delete(w->coord, &request, &reply, &err) != expected)
        T_FAIL("deleting %s: %s", id, err.text);
    wire_free((ProtobufCMessage *)reply);
}

static Sluice__V1__JobStatus *get(struct world *w, const char *id, bool all)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    request.id = (char *)id;
    request.shards = request.spec = all;
    T_OK(coord_get(w->coord, &request, &s, t_err()));
    s->term = 0; // of the coordinator that answers
    return s;
}

static void add(struct buf *out, ProtobufCMessage *reply)
{
    struct buf packed = BUF_INIT;

    T_OK(wire_pack(reply, &packed));
    T_OK(buf_append(out, packed.data, packed.len));
    buf_release(&packed);
    wire_free(reply);
}

// All that clients are told of job 1, in bytes.
static struct buf told(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts = NULL;
    Sluice__V1__ListReply *list = NULL;
    struct buf out = BUF_INIT;

    add(&out, &get(w, "j-1", false)->base);
    add(&out, &get(w, "life", true)->base);
    T_OK(status_list(w->coord, &all, &list, t_err()));
    T_EQ(list->n_jobs, 1);
    list->jobs[0]->term = 0;
    add(&out, &list->base);
    request.id = "j-1";
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    T_GT(cuts->n_checkpoints, 0);
    add(&out, &cuts->base);
    return out;
}

static void expect_told(struct world *w, const struct buf *before)
{
    struct buf now = told(w);

    T_EQ(now.len, before->len);
    T_MEM(now.data, before->data, now.len);
    buf_release(&now);
}

TEST(ended, what_is_said_of_a_job_is_the_same_a_while_after_its_end)
{
    struct world *w = begin();
    struct buf before;
    bool over = false;

    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    before = told(w);
    T_TRUE(jobs_get(w->coord, 1) != NULL);
    world_pass(w, ENDED_STAYS_MS + 1000);
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    T_TRUE(jobs_ended(w->coord, 1) != NULL);
    expect_told(w, &before);
    T_GT(coord_changes(w->coord, 1, &over), 0);
    T_TRUE(over);

    world_stop_coord(w);
    world_start_coord(w);
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    expect_told(w, &before);
    delete_job(w, "life", SL_OK);
    T_EQ(coord_changes(w->coord, 1, &over), 0);
    delete_job(w, "life", SL_ENOENT);
    buf_release(&before);
    world_release(w);
}

// ---- many

struct copy {
    struct buf spec, layout, final;
};

static enum sl_err copy_row(void *arg, const struct journal_job *row,
                            struct sl_error *err)
{
    struct copy *to = arg;

    T_OK(buf_append(&to->spec, row->spec.data, row->spec.bytes));
    T_OK(buf_append(&to->layout, row->layout.data, row->layout.bytes));
    return buf_append(&to->final, row->final.data, row->final.bytes);
}

static void release_copy(struct copy *row)
{
    buf_release(&row->spec);
    buf_release(&row->layout);
    buf_release(&row->final);
}

static void add_ended(struct world *w, const struct copy *from, unsigned n)
{
    static const char *const names[WORLD_SHARDS] = {"ps-0", "ps-0"};
    struct journal_job row = {.uid = n,
                              .incarnation = 1,
                              .state = 1,
                              .spec = {from->spec.data, from->spec.len}};
    struct journal_blob layout = {from->layout.data, from->layout.len};
    struct journal_blob final = {from->final.data, from->final.len};
    struct journal_facts facts = {40, 20, 1, 1};
    struct journal_counters none = {0};
    char name[32];
    uint64_t id = 0;

    snprintf(name, sizeof(name), "old-%u", n);
    row.name = name;
    T_OK(journal_job_add(w->journal, &row, &id, t_err()));
    T_OK(journal_job_facts(w->journal, id, &facts, t_err()));
    T_OK(journal_job_place(w->journal, id, layout, names, w->shards, t_err()));
    T_OK(journal_job_end(w->journal, id, JOB_FINISHED, "", 5, final, &none,
                         t_err()));
}

// A turn of the loop is a few lines of a list, however many are asked for.
static void list_in_turns(struct world *w, uint32_t limit)
{
    Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply *list = NULL;
    size_t had = 0;

    request.limit = limit;
    do {
        T_OK(status_list_turn(w->coord, &request, &list, t_err()));
        T_GT(list->n_jobs, had);
        T_LE(list->n_jobs, had + STATUS_LIST_TURN);
        had = list->n_jobs;
    } while (status_list_goes_on(&request, list));
    T_EQ(list->n_jobs, limit);
    T_TRUE(list->more);
    for (size_t i = 1; i < list->n_jobs; i++)
        T_EQ(list->jobs[i]->job, list->jobs[i - 1]->job - 1);
    wire_free(&list->base);
}

TEST(ended, ten_thousand_jobs_that_have_ended_cost_a_record_each)
{
    struct world *w = begin();
    struct copy row = {.spec = BUF_INIT};
    uint64_t few, many;
    Sluice__V1__JobStatus *s;

    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_stop_coord(w);
    few = sl_mem_live();
    world_start_coord(w);
    few = sl_mem_live() - few;
    T_OK(journal_job_read(w->journal, 1, copy_row, &row, t_err()));
    world_stop_coord(w);
    for (unsigned n = 0; n < MANY; n++)
        add_ended(w, &row, n);
    many = sl_mem_live();
    world_start_coord(w);
    many = sl_mem_live() - many;
    T_LE(many, few + MANY);
    list_in_turns(w, 100);

    s = get(w, "old-4321", true);
    T_EQ(s->state, SLUICE__V1__JOB_STATE__JOB_FINISHED);
    T_EQ(s->n_shards, w->shards);
    wire_free(&s->base);
    delete_job(w, "old-4321", SL_OK);
    release_copy(&row);
    world_release(w);
}

// ---- what comes after the end

// A shard's own last word, of a job that is only a record.
static void report(struct world *w, const struct fake_member *m,
                   const Sluice__V1__JobStatus *s, uint64_t counted,
                   uint64_t uid)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__ShardReport r = SLUICE__V1__SHARD_REPORT__INIT, *list[] = {&r};
    Sluice__V1__ShardCounts k = SLUICE__V1__SHARD_COUNTS__INIT;

    k.counted = k.applied = counted;
    r.job = 1;
    r.job_uid = uid;
    r.incarnation = s->shards[0]->incarnation;
    r.counts = &k;
    beat.shards = list;
    beat.n_shards = 1;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &beat;
    coord_receive(w->coord, m->stream, &up);
}

static uint64_t told_counted(struct world *w)
{
    Sluice__V1__JobStatus *s = get(w, "j-1", true);
    uint64_t counted = s->shards[0]->counts->counted;

    wire_free(&s->base);
    return counted;
}

// The job is stopped, and becomes a record. Nobody reads, so no shard is
// closed.
static Sluice__V1__JobStatus *stop_unread(struct world *w)
{
    Sluice__V1__JobStatus *s;

    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    stop_job(w);
    s = get(w, "j-1", true);
    T_EQ(s->shards[0]->counts->counted, 0);
    T_GT(s->shards[0]->incarnation, 0);
    for (unsigned i = 0; i < ENDED_STAYS_MS; i += 100) {
        clock_fake_advance_ms(&w->clock, 100);
        for (unsigned m = 0; m < 3; m++)
            fake_beat(w, &w->members[m]);
        coord_tick(w->coord);
    }
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    return s;
}

TEST(ended, a_shard_that_reports_late_is_heard)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *before, *after;
    uint64_t uid;

    before = stop_unread(w);
    uid = jobs_ended(w->coord, 1)->uid;
    report(w, &w->members[0], before, 7, uid + 1); // a namesake's
    report(w, &w->members[0], before, 5, uid);
    for (unsigned round = 0; round < 2; round++) {
        after = get(w, "j-1", true);
        T_EQ(after->shards[0]->counts->counted, 5);
        T_EQ(after->shards[0]->counts->applied, 5);
        wire_free(&after->base);
        world_stop_coord(w); // it is in the journal
        world_start_coord(w);
    }
    wire_free(&before->base);
    world_release(w);
}

// Who was not told to close its shards says nothing of them: no worker of the
// psserver's name, while the job is as it was and later; no process that took
// that name since the end.
TEST(ended, nobody_else_reports_of_it)
{
    struct world *w = begin();
    struct fake_member *other = world_add(w, FAKE_WORKER, "ps-0");
    Sluice__V1__JobStatus *before;
    uint64_t uid;

    world_attach(w, other);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    stop_job(w);
    before = get(w, "j-1", true);
    uid = jobs_get(w->coord, 1)->uid;
    report(w, other, before, 9, uid);
    T_EQ(told_counted(w), 0);
    world_kill(w, &w->members[0]);
    world_restart(w, &w->members[0]);
    report(w, &w->members[0], before, 9, uid);
    T_EQ(told_counted(w), 0);
    world_pass(w, ENDED_STAYS_MS + 1000);
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    report(w, other, before, 9, uid);
    report(w, &w->members[0], before, 9, uid);
    T_EQ(told_counted(w), 0);
    wire_free(&before->base);
    world_release(w);
}

// Each costs a reading of the journal.
TEST(ended, late_reports_are_heard_as_often_as_there_are_shards_twice)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *before = stop_unread(w);
    uint64_t uid = jobs_ended(w->coord, 1)->uid;

    for (unsigned i = 1; i <= 100; i++)
        report(w, &w->members[0], before, i, uid);
    T_EQ(told_counted(w), 2 * before->n_shards);
    wire_free(&before->base);
    world_release(w);
}

// Its manifest is under way, and stays so until the task is let go.
static void stop_while_it_writes(struct world *w)
{
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    w->hold_tasks = true;
    while (w->tasks_count == 0)
        world_step(w);
    stop_job(w);
}

TEST(ended, a_job_stays_while_its_manifest_is_written)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;
    uint64_t cuts;

    stop_while_it_writes(w);
    world_pass(w, ENDED_STAYS_MS + 1000);
    T_TRUE(jobs_get(w->coord, 1) != NULL);
    delete_job(w, "j-1", SL_EBUSY);
    s = get(w, "j-1", false);
    cuts = s->cuts;
    wire_free(&s->base);
    world_task(w);
    world_pass(w, 100);
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    s = get(w, "j-1", false);
    T_EQ(s->cuts, cuts + 1);
    T_TRUE(fs_exists(crash_fs_ops(w->fs), s->checkpoint));
    wire_free(&s->base);
    delete_job(w, "j-1", SL_OK);
    world_release(w);
}

// The coordinator dies between the manifest and its outcome, of a job that has
// ended meanwhile.
TEST(ended, K6_an_ended_jobs_intent_is_settled_at_the_next_start)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;
    uint64_t cuts;

    stop_while_it_writes(w);
    s = get(w, "j-1", false);
    cuts = s->cuts;
    wire_free(&s->base);
    w->tasks[0].work(w->tasks[0].task); // and its outcome is not heard
    world_stop_coord(w);
    world_start_coord(w);
    T_TRUE(jobs_get(w->coord, 1) == NULL);
    s = get(w, "j-1", false);
    T_EQ(s->cuts, cuts + 1);
    T_EQ(s->state, SLUICE__V1__JOB_STATE__JOB_STOPPED);
    wire_free(&s->base);
    world_release(w);
}

// ---- one that cannot be read

TEST(ended, one_that_cannot_be_read_says_so_and_the_list_goes_on)
{
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply *list = NULL;
    struct world *w = begin();
    struct copy row = {.spec = BUF_INIT};
    Sluice__V1__JobStatus *s;

    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_stop_coord(w);
    T_OK(journal_job_read(w->journal, 1, copy_row, &row, t_err()));
    add_ended(w, &row, 2);
    T_OK(journal_job_final(w->journal, 1, (struct journal_blob){"\xff", 1},
                           t_err()));
    world_start_coord(w);
    T_OK(status_list(w->coord, &all, &list, t_err()));
    T_EQ(list->n_jobs, 2);
    T_FALSE(list->jobs[0]->unreadable);
    T_TRUE(list->jobs[1]->unreadable); // the older one
    wire_free(&list->base);
    s = get(w, "j-1", true);
    T_TRUE(s->unreadable);
    T_HAS(s->reason, "a last status");
    wire_free(&s->base);
    delete_job(w, "j-1", SL_OK);
    T_TRUE(jobs_ended(w->coord, 1) == NULL);
    release_copy(&row);
    world_release(w);
}
