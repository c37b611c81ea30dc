// SPDX-License-Identifier: Apache-2.0
// A store that does not answer for a while, as one over the network may: the
// coordinator neither waits for it nor ends (world.h).
#include "coordinator/core/coord.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/storemark.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/stored.h"
#include "proto/pbjson.h"
#include "tests/unit/coordinator/world.h"

enum { LIMIT = 60000 };

// ---- a store that answers, or nothing but reads, or not at all

enum answers { ALL, READS, NONE };

static enum answers answers;
static const struct fs_ops *real;
static unsigned asked; // ever

static enum sl_err away(const char *path, struct sl_error *err)
{
    // A long address: what is told last is what helps.
    return sl_fail(err, SL_EUNAVAIL, "%s: at %0200d nobody answers", path, 0);
}

static enum sl_err away_open(struct fs *fs, struct fs_file **out,
                             const char *path, enum fs_mode mode,
                             struct sl_error *err)
{
    asked++;
    if (answers == NONE || (answers == READS && mode != FS_READ))
        return away(path, err);
    return real->open(fs, out, path, mode, err);
}

static enum sl_err away_unlink(struct fs *fs, const char *path,
                               struct sl_error *err)
{
    asked++;
    return answers != ALL ? away(path, err) : real->unlink(fs, path, err);
}

static enum sl_err away_stat(struct fs *fs, const char *path,
                             struct fs_stat *out, struct sl_error *err)
{
    asked++;
    return answers == NONE ? away(path, err) : real->stat(fs, path, out, err);
}

static struct world *begin(void)
{
    static struct fs_ops ops;
    static struct world w;

    world_init(&w, t_seed());
    answers = ALL;
    real = crash_fs_ops(w.fs)->ops;
    ops = *real;
    ops.open = away_open;
    ops.unlink = away_unlink;
    ops.stat = away_stat;
    crash_fs_ops(w.fs)->ops = &ops;
    world_people(&w, 1, 2);
    return &w;
}

// ---- manifests

// A pool thread has the next manifest to write.
static void until_intent(struct world *w)
{
    w->hold_tasks = true;
    for (unsigned i = 0; i < LIMIT && w->tasks_count == 0; i++)
        world_step(w);
    T_GT(w->tasks_count, 0);
    w->hold_tasks = false;
}

static bool warns(struct world *w, const char *words)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool found = false;

    for (size_t i = 0; i < s->n_warnings; i++)
        found |= strstr(s->warnings[i], words) != NULL;
    wire_free(&s->base);
    return found;
}

static uint64_t steps(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    uint64_t counted = s->steps_counted;

    wire_free(&s->base);
    return counted;
}

static uint64_t cuts(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    uint64_t count = s->cuts;

    wire_free(&s->base);
    return count;
}

// The first cut of a job is being written, to a store that then goes away.
static void lose_manifest(struct world *w, enum answers then)
{
    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    until_intent(w);
    answers = then;
    world_task(w);
    T_EQ(w->fatal, SL_OK);
}

TEST(away, the_outcome_of_a_manifest_waits_for_the_store_and_training_does_not)
{
    struct world *w = begin();
    uint64_t before;

    lose_manifest(w, READS);
    T_TRUE(warns(w, "its manifest was not written: "));
    before = steps(w);
    for (unsigned i = 0; i < LIMIT && steps(w) <= before; i++)
        world_step(w);
    T_GT(steps(w), before);
    T_FALSE(world_run(w, JOB_FINISHED, 20000)); // which wants a checkpoint
    T_EQ(w->fatal, SL_OK);
    T_TRUE(warns(w, "nobody answers"));
    answers = ALL;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_FALSE(warns(w, "nobody answers"));
    world_release(w);
}

TEST(away, a_store_that_is_away_before_a_manifest_is_begun_leaves_none)
{
    struct world *w = begin();

    lose_manifest(w, NONE);
    T_EQ(w->tasks_count, 0); // nothing to look for
    T_TRUE(warns(w, "its manifest was not written: "));
    answers = ALL;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(away, K6_an_outcome_that_waits_is_settled_by_the_next_coordinator)
{
    struct world *w = begin();

    lose_manifest(w, READS);
    while (w->tasks_count > 0) // the manifest cannot be removed either
        world_task(w);
    world_stop_coord(w);
    answers = ALL;
    world_start_coord(w);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// What a new coordinator asks a store in S3 before it takes a term.
TEST(away, K6_a_recovery_without_an_answer_has_changed_nothing)
{
    static const char store[] = "s3://bucket/prefix";
    struct world *w = begin();
    struct fs *fs = crash_fs_ops(w->fs);
    struct sl_error err = SL_ERROR_INIT;
    struct stored *stored = NULL;
    uint64_t before = 0, after = 0, id = 0, hash, mark = 0;

    lose_manifest(w, READS);
    world_stop_coord(w);
    T_OK(journal_term(w->journal, &before, t_err()));
    T_OK(stored_new(&stored, w->journal, fs, store, 7, t_err()));
    answers = NONE;
    T_FAILS(SL_EUNAVAIL, stored_look(stored, &err));
    T_HAS(err.text, "nobody answers");
    answers = READS; // a store that is new has to be marked
    T_OK(fs_mkdirs(fs, store, t_err()));
    T_FAILS(SL_EUNAVAIL, stored_look(stored, &err));
    T_OK(journal_term(w->journal, &after, t_err()));
    T_EQ(after, before);
    answers = ALL;
    T_OK(stored_look(stored, t_err()));
    T_OK(stored_cluster(stored, &id, &hash, t_err()));
    T_OK(storemark_read(&mark, fs, store, t_err()));
    T_EQ(mark, id);
    stored_free(stored);
    world_start_coord(w);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(away, a_job_is_deleted_while_the_store_is_away)
{
    struct world *w = begin();
    Sluice__V1__JobRequest job = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    unsigned before;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    while (w->tasks_count > 0)
        world_task(w);
    answers = NONE;
    before = asked;
    job.id = "j-1";
    T_OK(coord_delete(w->coord, &job, &deleted, t_err()));
    wire_free(&deleted->base);
    T_EQ(asked, before); // by this thread, nothing
    while (w->tasks_count > 0)
        world_task(w);
    T_EQ(w->fatal, SL_OK);
    world_release(w);
}

// ---- submissions that resume

struct submission {
    struct world *w;
    Sluice__V1__SubmitRequest request;
    unsigned ready;
    enum sl_err rc;
    struct sl_error err;
    uint64_t job;
};

static void submit_now(void *arg)
{
    struct submission *s = arg;
    Sluice__V1__SubmitReply *reply = NULL;

    s->ready++;
    if (s->w->coord == NULL)
        return;
    s->rc = coord_submit(s->w->coord, &s->request, &reply, &s->err);
    if (s->rc == SL_OK)
        s->job = reply->job;
    wire_free((ProtobufCMessage *)reply);
}

static void submission_init(struct submission *s, struct world *w,
                            const char *resume)
{
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;

    *s = (struct submission){.w = w,
                             .request = SLUICE__V1__SUBMIT_REQUEST__INIT,
                             .err = SL_ERROR_INIT};
    T_OK(sl_json_parse(&value, "job", world_graph_job, strlen(world_graph_job),
                       NULL, t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    s->request.spec = (Sluice__V1__JobSpec *)spec;
    s->request.request_id = "r-2";
    s->request.resume = (char *)resume;
}

static void submission_release(struct submission *s)
{
    wire_free(&s->request.spec->base);
}

static struct world *after_a_job(void)
{
    struct world *w = begin();

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    while (w->tasks_count > 0)
        world_task(w);
    return w;
}

TEST(away, the_manifest_of_a_submission_is_read_elsewhere_and_once)
{
    struct world *w = after_a_job();
    struct submission s;
    unsigned before = asked;

    submission_init(&s, w, "j-1");
    T_TRUE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    T_EQ(asked, before);
    T_EQ(s.ready, 0);
    w->tasks[w->tasks_count - 1].work(w->tasks[w->tasks_count - 1].task);
    before = asked;
    answers = NONE;
    w->tasks_count--;
    w->tasks[w->tasks_count].done(w->tasks[w->tasks_count].task);
    T_EQ(s.ready, 1);
    T_OK(s.rc);
    T_EQ(s.job, 2);
    T_EQ(asked, before);
    answers = ALL;
    submission_release(&s);
    world_release(w);
}

TEST(away, a_submission_says_that_the_store_does_not_answer)
{
    struct world *w = after_a_job();
    struct submission s;

    submission_init(&s, w, "j-1");
    T_TRUE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    answers = NONE;
    world_task(w);
    T_EQ(s.ready, 1);
    T_EQ(s.rc, SL_EIO);
    T_TRUE(strstr(s.err.text, "nobody answers") != NULL);
    answers = ALL;
    submission_release(&s);
    world_release(w);
}

TEST(away, what_needs_no_manifest_or_names_none_waits_for_nothing)
{
    struct world *w = after_a_job();
    struct submission s;

    submission_init(&s, w, "");
    T_FALSE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    s.request.resume = "j-9";
    T_FALSE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    T_EQ(s.ready, 0);
    submission_release(&s);
    world_release(w);
}

TEST(away, a_submission_reads_nothing_else_than_what_was_read_elsewhere)
{
    struct world *w = after_a_job();
    struct submission s;
    unsigned before;

    submission_init(&s, w, "j-1");
    T_TRUE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    w->tasks[w->tasks_count - 1].work(w->tasks[w->tasks_count - 1].task);
    before = asked;
    s.request.resume = "a/cut-2.json"; // as if j-1 had got a newer one
    w->tasks_count--;
    w->tasks[w->tasks_count].done(w->tasks[w->tasks_count].task);
    T_EQ(s.ready, 1);
    T_EQ(s.rc, SL_EUNAVAIL);
    T_HAS(s.err.text, "submit it again");
    T_EQ(asked, before);
    submission_release(&s);
    world_release(w);
}

TEST(away, nothing_is_read_of_a_job_that_goes_on)
{
    struct world *w = begin();
    struct submission s;
    unsigned before;

    world_submit(w, world_graph_job);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    for (unsigned i = 0; i < LIMIT && cuts(w) == 0; i++)
        world_step(w);
    submission_init(&s, w, "j-1");
    before = asked;
    T_FALSE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    submit_now(&s);
    T_EQ(s.rc, SL_ESTATE);
    T_HAS(s.err.text, "stop it first");
    T_EQ(asked, before);
    submission_release(&s);
    world_release(w);
}

TEST(away, a_submission_hears_of_a_coordinator_that_went_meanwhile)
{
    struct world *w = after_a_job();
    struct submission s;

    submission_init(&s, w, "j-1");
    T_TRUE(coord_submit_reads(w->coord, &s.request, submit_now, &s));
    world_stop_coord(w);
    T_EQ(s.ready, 1);
    world_start_coord(w);
    submission_release(&s);
    world_release(w);
}

// One that is late may still be published.
TEST(away, the_words_of_a_reason_say_of_which_checkpoint_it_is)
{
    static struct job job;
    struct cut cut = {.late = 0};
    char text[80], short_of[20];

    cuts_trouble(&job, text, sizeof(text));
    T_STR(text, "");
    job.cuts.why = "a disk is full";
    cuts_trouble(&job, text, sizeof(text));
    T_STR(text, "the last checkpoint was given up: a disk is full");
    job.cuts.now = &cut;
    cuts_trouble(&job, text, sizeof(text));
    T_STR(text, "the last checkpoint was given up: a disk is full");
    cut.late = 1;
    cuts_trouble(&job, text, sizeof(text));
    T_STR(text, "the checkpoint under way is late: a disk is full");
    cuts_trouble(&job, short_of, sizeof(short_of));
    T_STR(short_of, "the checkpoint unde");
}
