// SPDX-License-Identifier: Apache-2.0
// Jobs that start from a cut, through the coordinator's own door (world.h).
#include "coordinator/core/coord.h"

#include "common/base/json.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "proto/pbjson.h"
#include "tests/unit/coordinator/world.h"

enum { LIMIT = 60000 };

static struct sl_error err; // of the call that a test looks at

// A job that has finished on a psserver, which then went away; and of which by
// now there is only a record.
static struct world *after_a_job(void)
{
    static struct world w;
    struct fake_member *ps;

    world_init(&w, t_seed());
    ps = world_add(&w, FAKE_PSSERVER, "ps-0");
    world_attach(&w, ps);
    world_attach(&w, world_add(&w, FAKE_WORKER, "w-0"));
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    world_kill(&w, ps);
    world_pass(&w, ENDED_STAYS_MS + 1000);
    return &w;
}

static enum sl_err resume(struct world *w, const char *what,
                          const char *request, uint64_t *job)
{
    return world_try_submit(w, request, what, job, &err);
}

static Sluice__V1__JobStatus *status_of(struct world *w, const char *id)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;

    request.id = (char *)id;
    T_OK(coord_get(w->coord, &request, &status, t_err()));
    return status;
}

TEST(coord_resume, what_it_starts_from_is_journalled_with_the_job)
{
    struct world *w = after_a_job();
    Sluice__V1__JobStatus *was = status_of(w, "j-1"), *s;
    uint64_t job = 0, again = 0;

    T_OK(resume(w, was->checkpoint, "r-2", &job));
    T_EQ(job, 2);
    // Neither the manifest nor this process is needed from here on.
    T_OK(fs_unlink(crash_fs_ops(w->fs), was->checkpoint, t_err()));
    world_stop_coord(w);
    world_start_coord(w);
    s = status_of(w, "j-2");
    T_STR(s->resumed_from, was->checkpoint);
    wire_free(&s->base);
    T_OK(resume(w, was->checkpoint, "r-2", &again)); // the same request
    T_EQ(again, job);
    T_FAILS(SL_EEXIST, resume(w, "", "r-2", NULL)); // another one
    wire_free(&was->base);
    world_release(w);
}

TEST(coord_resume, a_psserver_is_told_which_files_hold_its_rows)
{
    struct world *w = after_a_job();
    struct fake_member *ps = world_add(w, FAKE_PSSERVER, "ps-1");
    uint64_t job = 0;

    T_OK(resume(w, "j-1", "r-2", &job)); // its last cut
    w->job = job;
    memset(w->incarnations, 0, sizeof(w->incarnations));
    memset(w->holder, 0, sizeof(w->holder));
    world_attach(w, ps);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_EQ(ps->shards[0].sources, 1);
    T_EQ(ps->shards[0].from.incarnation, 0); // as with the seed (K7)
    world_release(w);
}

TEST(coord_resume, a_stopped_job_trained_only_what_it_did_itself)
{
    struct world *w = after_a_job();
    struct fake_member *ps = world_add(w, FAKE_PSSERVER, "ps-1");
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    uint64_t job = 0;

    T_OK(resume(w, "j-1", "r-2", &job)); // all of its steps are in the cut
    w->job = job;
    memset(w->incarnations, 0, sizeof(w->incarnations));
    memset(w->holder, 0, sizeof(w->holder));
    world_attach(w, ps);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_pass(w, 10);
    T_EQ(world_state(w), JOB_RUNNING);
    stop.id = "j-2";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    T_TRUE(s->resumed_steps > 0);
    T_EQ(s->steps_counted, s->resumed_steps);
    T_TRUE(s->elapsed_seconds > 0);
    T_TRUE(s->images_per_second == 0);
    wire_free(&s->base);
    world_release(w);
}

TEST(coord_resume, a_job_that_runs_or_is_not_here_is_not_resumed)
{
    struct world *w = after_a_job();

    T_FAILS(SL_ENOENT, resume(w, "j-9", "r-2", NULL));
    T_FAILS(SL_EDENIED, resume(w, "/etc/passwd", "r-2", NULL));
    T_HAS(err.text, "not in this coordinator's store");
    T_FAILS(SL_EDENIED, resume(w, "life/../../etc/passwd", "r-2", NULL));
    T_FAILS(SL_ENOENT, resume(w, "life/cut-1.json", "r-2", NULL));
    T_OK(resume(w, "", "r-3", NULL)); // from the seed
    T_FAILS(SL_ESTATE, resume(w, "j-2", "r-4", NULL));
    T_HAS(err.text, "no checkpoint");
    world_release(w);
}

TEST(coord_resume, files_that_another_job_starts_from_are_not_deleted)
{
    struct world *w = after_a_job();
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__DeleteReply *reply = NULL;
    Sluice__V1__JobStatus *s = NULL;

    T_OK(resume(w, "j-1", "r-2", NULL));
    request.id = "j-1";
    T_FAILS(SL_ESTATE, coord_delete(w->coord, &request, &reply, &err));
    T_HAS(err.text, "j-2");
    stop.id = "j-2";
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    T_OK(coord_delete(w->coord, &request, &reply, t_err()));
    wire_free(&s->base);
    wire_free(&reply->base);
    world_release(w);
}

// ---- weights

static enum sl_err submit_weights(struct world *w, const char *folder,
                                  const char *resumes, uint8_t first)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__WeightsFile file = SLUICE__V1__WEIGHTS_FILE__INIT;
    Sluice__V1__JobRequest get = SLUICE__V1__JOB_REQUEST__INIT;
    uint8_t sha[32] = {first};
    Sluice__V1__SubmitReply *reply = NULL;
    Sluice__V1__JobStatus *s = NULL;
    enum sl_err rc;

    get.id = "j-1";
    get.spec = true;
    T_OK(coord_get(w->coord, &get, &s, t_err()));
    file.folder = (char *)folder;
    file.file = "model.safetensors";
    file.sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
    request.spec = s->spec;
    request.request_id = "r-2";
    request.resume = (char *)resumes;
    request.weights = &file;
    rc = coord_submit(w->coord, &request, &reply, &err);
    wire_free((ProtobufCMessage *)reply);
    wire_free(&s->base);
    return rc;
}

TEST(coord_resume, weights_are_journalled_with_the_job_and_told_to_shards)
{
    struct world *w = after_a_job();
    struct fake_member *ps = world_add(w, FAKE_PSSERVER, "ps-1");
    Sluice__V1__JobStatus *s;

    T_FAILS(SL_EINVAL, submit_weights(w, "models", "", 1));
    T_HAS(err.text, "path from the root");
    T_FAILS(SL_EINVAL, submit_weights(w, "/models", "j-1", 1));
    T_HAS(err.text, "not with both");
    T_OK(submit_weights(w, "/models", "", 1));
    T_OK(submit_weights(w, "/models", "", 1));               // the same request
    T_FAILS(SL_EEXIST, submit_weights(w, "/models", "", 2)); // another one
    world_stop_coord(w);
    world_start_coord(w);
    s = status_of(w, "j-2");
    T_STR(s->weights, "/models/model.safetensors");
    T_STR(s->resumed_from, "");
    T_EQ(s->resumed_steps, 0);
    wire_free(&s->base);
    w->job = 2;
    memset(w->incarnations, 0, sizeof(w->incarnations));
    memset(w->holder, 0, sizeof(w->holder));
    world_attach(w, ps);
    world_attach(w, world_add(w, FAKE_WORKER, "w-1"));
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    T_EQ(ps->shards[0].sources, 1);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = status_of(w, "j-2");
    T_EQ(s->steps_counted, s->steps_asked);
    wire_free(&s->base);
    world_release(w);
}

static const char rows_job[] =
    "{\"name\":\"rows\",\"model\":{\"type\":\"external\",\"variables\":[{"
    "\"name\":\"w\",\"shape\":[8,2]}],\"tables\":[{\"name\":\"users\",\"dim\":"
    "16},{\"name\":\"items\",\"dim\":24}]},\"data\":{\"train\":{\"format\":"
    "\"external\",\"samples\":40}},\"optimizer\":{\"type\":\"adam\"},"
    "\"train\":{\"batch\":4,\"epochs\":2,\"steps_per_closure\":2}}";

// Submits a job whose tables, named in `tables`, begin with files.
static enum sl_err submit_rows(struct world *w, const char *const tables[2],
                               uint8_t first, uint64_t bytes)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__WeightsFile file = SLUICE__V1__WEIGHTS_FILE__INIT;
    Sluice__V1__TableFile rows[2], *list[2] = {&rows[0], &rows[1]};
    uint8_t sha[32] = {first};
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    enum sl_err rc;

    T_OK(sl_json_parse(&value, "job", rows_job, strlen(rows_job), NULL,
                       t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    file.folder = (char *)"/rows";
    file.file = (char *)"f.safetensors";
    file.bytes = bytes;
    file.sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
    for (unsigned i = 0; i < 2; i++) {
        sluice__v1__table_file__init(&rows[i]);
        rows[i].table = (char *)tables[i];
        rows[i].file = &file;
    }
    request.spec = (Sluice__V1__JobSpec *)spec;
    request.request_id = (char *)"r-2";
    request.table_weights = list;
    request.n_table_weights = 2;
    rc = coord_submit(w->coord, &request, &reply, &err);
    wire_free((ProtobufCMessage *)reply);
    wire_free(spec);
    return rc;
}

TEST(coord_resume,
     rows_of_tables_are_journalled_with_the_job_and_told_to_shards)
{
    static const char *const good[] = {"items", "users"},
                             *const turned[] = {"users", "items"},
                             *const twice[] = {"items", "items"},
                             *const other[] = {"items", "user"};
    struct world w;
    struct fake_member *ps;
    Sluice__V1__JobStatus *s;

    world_init(&w, t_seed());
    T_FAILS(SL_EINVAL, submit_rows(&w, other, 1, 9));
    T_HAS(err.text, "no table of this name");
    T_FAILS(SL_EINVAL, submit_rows(&w, twice, 1, 9));
    T_HAS(err.text, "two files with rows for table 'items'");
    T_FAILS(SL_EINVAL, submit_rows(&w, good, 1, 0));
    T_HAS(err.text, "has no size");
    T_OK(submit_rows(&w, good, 1, 9));
    T_OK(submit_rows(&w, good, 1, 9));               // the same request
    T_FAILS(SL_EEXIST, submit_rows(&w, good, 2, 9)); // another one
    T_FAILS(SL_EEXIST, submit_rows(&w, turned, 1, 9));
    world_stop_coord(&w);
    world_start_coord(&w);
    s = status_of(&w, "j-1");
    T_EQ(s->n_table_weights, 2);
    T_STR(s->table_weights[0], "items=/rows/f.safetensors");
    T_STR(s->weights, "");
    wire_free(&s->base);
    w.job = 1;
    w.schedule = (struct schedule){
        .samples = 40, .batch = 4, .epochs = 2, .steps_per_closure = 2};
    ps = world_add(&w, FAKE_PSSERVER, "ps-1");
    ps->edition = MODEL_EDITION_TABLES;
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    T_EQ(ps->shards[0].sources, 2);
    world_release(&w);
}
