// SPDX-License-Identifier: Apache-2.0
// Quotas: their text, and who may have one job more.
#include "coordinator/rules/quota.h"

#include <string.h>

#include "common/base/json.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/service/status_lists.h"
#include "proto/model.h"
#include "proto/pbjson.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, RUNNING = 2, FINISHED = 4 };

static struct sl_error err; // of the call that a test looks at

// ---- the text

TEST(quota, is_read_from_a_line)
{
    struct quota q;

    T_OK(quota_read(&q, "a:jobs=3,shards=64,parameters=2GiB,checkpoints=10MiB",
                    t_err()));
    T_STR(q.tenant, "a");
    T_EQ(q.most[QUOTA_JOBS], 3);
    T_EQ(q.most[QUOTA_SHARDS], 64);
    T_EQ(q.most[QUOTA_PARAMETERS], 2ull << 30);
    T_EQ(q.most[QUOTA_CHECKPOINTS], 10ull << 20);
    T_OK(quota_read(&q, "*:jobs=0", t_err()));
    T_STR(q.tenant, "*");
    T_EQ(q.most[QUOTA_JOBS], 0);
    T_EQ(q.most[QUOTA_SHARDS], QUOTA_FREE);
    T_EQ(q.most[QUOTA_KEPT], QUOTA_FREE);
    T_OK(quota_read(&q, "a:kept=1000", t_err()));
    T_EQ(q.most[QUOTA_KEPT], 1000);
    T_EQ(q.most[QUOTA_ROWS], QUOTA_FREE);
    T_OK(quota_read(&q, "a:rows=3GiB", t_err()));
    T_EQ(q.most[QUOTA_ROWS], 3ull << 30);
    T_EQ(q.most[QUOTA_ROWS_DISK], QUOTA_FREE);
    T_OK(quota_read(&q, "a:rows_disk=5GiB", t_err()));
    T_EQ(q.most[QUOTA_ROWS], QUOTA_FREE);
    T_EQ(q.most[QUOTA_ROWS_DISK], 5ull << 30);
    T_OK(quota_read(&q, "-:checkpoints=1", t_err()));
    T_STR(q.tenant, "");
    T_OK(quota_read(&q, "team-1.x_Y:jobs=9223372036854775807", t_err()));
    T_STR(q.tenant, "team-1.x_Y");
}

TEST(quota, what_is_none_is_said)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "write it as TENANT:jobs=3"},
        {"a", "write it as TENANT:jobs=3"},
        {":jobs=3", "write it as TENANT:jobs=3"},
        {"a b:jobs=3", "write it as TENANT:jobs=3"},
        {"**:jobs=3", "write it as TENANT:jobs=3"},
        {"a:", "'' is none of jobs=N"},
        {"a:jobs", "'jobs' is none of jobs=N"},
        {"a:jobs=3,", "'' is none of jobs=N"},
        {"a:job=3", "'job=3' is none of jobs=N"},
        {"a:jobs=3,jobs=4", "jobs is said twice"},
        {"a:jobs=", "'' is no value for jobs"},
        {"a:jobs=-1", "jobs is -1"},
        {"a:jobs=3KiB", "'3KiB' is no value for jobs"},
        {"a:parameters=2GB", "'2GB' is no value for parameters"},
        {"a:shards=99999999999999999999", "no value for shards"},
    };
    struct quota q;

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        T_FAILS(SL_EINVAL, quota_read(&q, bad[i].text, &err));
        if (strstr(err.text, bad[i].words) == NULL)
            T_FAIL("'%s': %s", bad[i].text, err.text);
    }
}

TEST(quota, a_line_of_ones_own_comes_before_the_star)
{
    struct quota q[3];

    T_OK(quota_read(&q[0], "*:jobs=1", t_err()));
    T_OK(quota_read(&q[1], "a:jobs=2", t_err()));
    T_OK(quota_read(&q[2], "-:jobs=3", t_err()));
    T_EQ(quota_of(q, 3, "a")->most[QUOTA_JOBS], 2);
    T_EQ(quota_of(q, 3, "b")->most[QUOTA_JOBS], 1);
    T_EQ(quota_of(q, 3, "-")->most[QUOTA_JOBS], 1); // a tenant's odd name
    T_EQ(quota_of(q, 3, "")->most[QUOTA_JOBS], 3);
    T_TRUE(quota_of(q, 2, "") == NULL); // nobody's are not limited
    T_TRUE(quota_of(&q[1], 1, "b") == NULL);
}

TEST(quota, sums_do_not_wrap)
{
    struct quota_use used = {.n = {0, 0, UINT64_MAX - 5, 0}};
    struct quota_use more = {.n = {1, 1, 10, 0}};
    struct quota q;

    T_OK(quota_read(&q, "a:parameters=1TiB", t_err()));
    T_FAILS(SL_EBUSY, quota_allow(&q, "a", &used, &more, &err));
    quota_add(&used, &more);
    T_EQ(used.n[QUOTA_PARAMETERS], UINT64_MAX);
    T_FAILS(SL_EBUSY, quota_allow(&q, "a", &used, &more, &err));
}

// ---- at submit. A job of the world has 23 parameters and no slots, in 2
// shards on two psservers, and keeps 2 checkpoints, whose files have 10 bytes
// each.

static struct world *begin(const char *one, const char *two)
{
    static struct quota q[2];
    static struct world w;

    T_OK(quota_read(&q[0], one, t_err()));
    T_OK(quota_read(&q[1], two, t_err()));
    world_init(&w, WORLD_SITUATION);
    world_stop_coord(&w);
    w.quotas = q;
    w.quotas_count = 2;
    world_start_coord(&w);
    world_people(&w, 2, 2);
    return &w;
}

static const char *submitted = world_graph_job;

static enum sl_err submit(struct world *w, const char *tenant,
                          const char *request, bool dry)
{
    Sluice__V1__SubmitRequest message = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    enum sl_err rc;

    T_OK(sl_json_parse(&value, "job", submitted, strlen(submitted), NULL,
                       t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    message.spec = (Sluice__V1__JobSpec *)spec;
    message.request_id = (char *)request;
    message.dry_run = dry;
    coord_ask_as(w->coord, tenant, tenant[0] != '\0');
    rc = coord_submit(w->coord, &message, &reply, &err);
    coord_ask_as(w->coord, "", false);
    wire_free((ProtobufCMessage *)reply);
    wire_free(spec);
    return rc;
}

// One that the world's members then work on.
static void submit_and_follow(struct world *w, const char *tenant)
{
    coord_ask_as(w->coord, tenant, true);
    w->job = world_submit(w, world_graph_job);
    coord_ask_as(w->coord, "", false);
}

static void refused(struct world *w, const char *tenant, const char *words)
{
    T_FAILS(SL_EBUSY, submit(w, tenant, "", true));
    T_HAS(err.text, words);
    err = (struct sl_error)SL_ERROR_INIT;
    T_FAILS(SL_EBUSY, submit(w, tenant, "r-refused", false));
    T_HAS(err.text, words);
    T_HAS(err.text, "ask the operator for more (coordinator --quota)");
}

static void stop(struct world *w, const char *id)
{
    Sluice__V1__StopRequest request = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;

    request.id = (char *)id;
    T_OK(coord_stop(w->coord, &request, &status, t_err()));
    wire_free(&status->base);
}

TEST(quota, the_last_job_is_had_once_and_by_a_restart_too)
{
    struct world *w = begin("a:jobs=2", "b:jobs=1");

    T_OK(submit(w, "a", "r-1", false));
    T_OK(submit(w, "a", "r-2", true));
    T_OK(submit(w, "a", "r-2", false));
    refused(w, "a", "tenant a has 2 of 2 jobs; stop one of them, ");
    T_OK(submit(w, "a", "r-2", false)); // the same request, the same job
    T_OK(submit(w, "b", "r-4", false)); // has its own
    T_OK(submit(w, "c", "r-5", false)); // has no quota
    T_OK(submit(w, "", "r-6", false));
    world_stop_coord(w);
    world_start_coord(w);
    refused(w, "a", "tenant a has 2 of 2 jobs");
    stop(w, "j-1");
    T_OK(submit(w, "a", "r-7", false));
    refused(w, "a", "tenant a has 2 of 2 jobs");
    world_release(w);
}

TEST(quota, shards_and_parameters_are_counted_before_and_after_the_placing)
{
    struct world *w = begin("a:shards=5", "b:parameters=200");

    submit_and_follow(w, "a");
    T_OK(submit(w, "b", "r-2", false));
    T_TRUE(world_run(w, RUNNING, LIMIT));
    T_OK(submit(w, "a", "r-3", false));
    refused(w, "a", "tenant a has 4 of 5 shards, and this job would have 2");
    T_OK(submit(w, "b", "r-4", false));
    refused(w, "b",
            "tenant b has 184 B of 200 B for parameters and optimizer slots, "
            "and this job would take 92 B");
    world_release(w);
}

// Of 92 bytes each: the parameters, three contributions of a round, and the
// parameters before it; or the versions that a delay of three looks back on.
TEST(quota, what_rounds_and_delays_keep_is_counted)
{
    static const char late[] =
        "{\"name\":\"late\",\"model\":{\"input_shape\":[4],\"layers\":["
        "{\"type\":\"dense\",\"units\":3},{\"type\":\"dense\",\"units\":2}]},"
        "\"loss\":\"sparse_categorical_crossentropy\","
        "\"optimizer\":{\"type\":\"sgd\"},"
        "\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"}},"
        "\"train\":{\"batch\":4,\"staleness\":\"dc\",\"max_delay\":3},"
        "\"placement\":{\"partitioner\":\"fixed\",\"shards\":2}}";
    struct world *w = begin("a:parameters=459", "b:parameters=367");

    submitted = world_sync_job;
    refused(w, "a", "this job would take 460 B");
    submitted = late;
    refused(w, "b", "this job would take 368 B");
    T_OK(submit(w, "a", "r-1", false));
    submitted = world_graph_job;
    world_release(w);
}

static Sluice__V1__QuotaReply *list_as(struct world *w, const char *tenant)
{
    Sluice__V1__QuotaRequest request = SLUICE__V1__QUOTA_REQUEST__INIT;
    Sluice__V1__QuotaReply *reply = NULL;

    coord_ask_as(w->coord, tenant, tenant[0] != '\0');
    T_OK(status_quota(w->coord, &request, &reply, t_err()));
    coord_ask_as(w->coord, "", false);
    return reply;
}

static uint64_t checkpoints_of_a(struct world *w)
{
    Sluice__V1__QuotaReply *reply = list_as(w, "a");
    uint64_t bytes = reply->tenants[0]->checkpoints->used;

    T_EQ(reply->n_tenants, 1);
    wire_free(&reply->base);
    return bytes;
}

// A list of quotas makes no model anew for each job that waits.
TEST(quota, a_job_that_waits_is_measured_once)
{
    struct world *w = begin("a:shards=5", "b:jobs=1");
    Sluice__V1__QuotaReply *reply;
    struct job *job;

    submit_and_follow(w, "a"); // its data is not known: it waits
    wire_free(&list_as(w, "a")->base);
    job = jobs_get(w->coord, 1);
    T_TRUE(!job->shards.placed);
    T_EQ(job->measured.shards, 2);
    job->measured.shards = 3; // as if it were measured, and kept
    reply = list_as(w, "a");
    T_EQ(reply->tenants[0]->shards->used, 3);
    wire_free(&reply->base);
    T_TRUE(world_run(w, RUNNING, LIMIT));
    reply = list_as(w, "a");
    T_EQ(reply->tenants[0]->shards->used, 2); // those it has
    wire_free(&reply->base);
    world_release(w);
}

// Each is a record and rows of the journal, until it is deleted.
TEST(quota, jobs_that_have_ended_are_kept_by_number)
{
    struct world *w = begin("a:kept=1", "b:kept=0");
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;

    refused(w, "b", "tenant b has 0 of 0 jobs kept");
    submit_and_follow(w, "a");
    refused(w, "a", "tenant a has 1 of 1 jobs kept, ended ones too; delete");
    T_TRUE(world_run(w, FINISHED, LIMIT));
    refused(w, "a", "tenant a has 1 of 1 jobs kept");
    world_pass(w, 20000); // only a record is left of it
    refused(w, "a", "tenant a has 1 of 1 jobs kept");
    request.id = (char *)"j-1";
    T_OK(coord_delete(w->coord, &request, &deleted, t_err()));
    wire_free(&deleted->base);
    submit_and_follow(w, "a");
    world_release(w);
}

// While it may grow, what it may come to; then what is there, until it is
// deleted.
TEST(quota, checkpoints_of_ended_jobs_count_until_they_are_deleted)
{
    struct world *w = begin("a:checkpoints=223", "b:jobs=1");
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;

    submit_and_follow(w, "a");
    T_EQ(checkpoints_of_a(w), 2 * 92);
    refused(w, "a",
            "tenant a has 184 B of 223 B for checkpoints, counted as what "
            "checkpoint.keep may come to, and this job's would take 184 B");
    T_TRUE(world_run(w, FINISHED, LIMIT));
    T_EQ(checkpoints_of_a(w), 2 * 20);
    refused(w, "a", "tenant a has 40 B of 223 B for checkpoints");
    world_pass(w, 20000); // only a record is left of it
    T_EQ(checkpoints_of_a(w), 2 * 20);
    world_stop_coord(w);
    world_start_coord(w);
    T_EQ(checkpoints_of_a(w), 2 * 20);
    refused(w, "a", "tenant a has 40 B of 223 B for checkpoints");
    request.id = (char *)"j-1";
    T_OK(coord_delete(w->coord, &request, &deleted, t_err()));
    wire_free(&deleted->base);
    T_EQ(checkpoints_of_a(w), 0);
    T_OK(submit(w, "a", "r-2", false));
    world_release(w);
}

TEST(quota, jobs_of_nobody_have_a_line_of_their_own)
{
    struct world *w = begin("*:jobs=1", "-:jobs=1");

    T_OK(submit(w, "c", "r-1", false));
    refused(w, "c", "tenant c has 1 of 1 jobs");
    T_OK(submit(w, "d", "r-2", false)); // each has its own of the star's
    T_OK(submit(w, "", "r-3", false));
    refused(w, "", "tenant '-' (callers without a tenant) has 1 of 1 jobs");
    world_release(w);
    w = begin("*:jobs=0", "b:jobs=1"); // the star is not nobody
    T_OK(submit(w, "", "r-1", false));
    refused(w, "c", "tenant c has 0 of 0 jobs");
    world_release(w);
}

TEST(quota, is_shown_to_its_tenant_and_all_to_who_sees_all)
{
    struct world *w = begin("a:jobs=2,parameters=1KiB", "b:shards=7");
    Sluice__V1__QuotaReply *reply;

    T_OK(submit(w, "a", "r-1", false));
    T_OK(submit(w, "c", "r-2", false));
    reply = list_as(w, "a");
    T_EQ(reply->n_tenants, 1);
    T_STR(reply->tenants[0]->tenant, "a");
    T_EQ(reply->tenants[0]->jobs->used, 1);
    T_TRUE(reply->tenants[0]->jobs->limited);
    T_EQ(reply->tenants[0]->jobs->most, 2);
    T_EQ(reply->tenants[0]->shards->used, 2);
    T_FALSE(reply->tenants[0]->shards->limited);
    T_EQ(reply->tenants[0]->parameters->used, 92);
    T_EQ(reply->tenants[0]->parameters->most, 1024);
    wire_free(&reply->base);
    reply = list_as(w, "d"); // one that has nothing
    T_EQ(reply->n_tenants, 1);
    T_EQ(reply->tenants[0]->jobs->used, 0);
    wire_free(&reply->base);
    reply = list_as(w, ""); // a, c, and b, which has a quota
    T_EQ(reply->n_tenants, 3);
    wire_free(&reply->base);
    world_release(w);
}

// ---- rows of sparse tables, which psservers count

static const char rows_job[] =
    "{\"name\":\"rows\",\"model\":{\"type\":\"external\",\"variables\":[{"
    "\"name\":\"w\",\"shape\":[8,2]}],\"tables\":[{\"name\":\"users\",\"dim\":"
    "16},{\"name\":\"items\",\"dim\":24}]},\"optimizer\":{\"type\":\"adam\"},"
    "\"data\":{\"train\":{\"format\":\"external\",\"samples\":40}},\"train\":{"
    "\"batch\":4,\"epochs\":2,\"steps_per_closure\":2}}";

static void report_rows(struct job *job, uint32_t shard, uint64_t bytes)
{
    Sluice__V1__TableFigures figures[2], *list[2] = {&figures[0], &figures[1]};
    Sluice__V1__ShardReport report = SLUICE__V1__SHARD_REPORT__INIT;

    for (uint32_t i = 0; i < 2; i++) {
        sluice__v1__table_figures__init(&figures[i]);
        figures[i].table = i;
        figures[i].bytes = bytes / 2;
        figures[i].disk_bytes = 10 * bytes / 2;
    }
    report.tables = list;
    report.n_tables = 2;
    shard_rows_take(&job->shards.list[shard].rows, &report, 2,
                    job->shards.count, 1000);
}

static uint64_t rows_of_a(struct world *w, bool *limited)
{
    Sluice__V1__QuotaReply *reply = list_as(w, "a");
    uint64_t bytes = reply->tenants[0]->rows->used;

    T_EQ(reply->tenants[0]->rows_disk->used, 10 * bytes);
    T_EQ(reply->tenants[0]->rows_disk->most, 4096);
    *limited = reply->tenants[0]->rows->limited;
    wire_free(&reply->base);
    return bytes;
}

// A job of tenant a with two shards on two psservers runs.
static struct job *run_rows(struct world *w)
{
    coord_ask_as(w->coord, "a", true);
    w->job = world_submit(w, rows_job);
    coord_ask_as(w->coord, "", false);
    T_FALSE(world_run(w, FINISHED, 4000)); // no program works on it
    T_EQ(jobs_get(w->coord, w->job)->state, RUNNING);
    return jobs_get(w->coord, w->job);
}

// Checks what every shard was told, and returns the fewest times.
static unsigned told(struct world *w, uint64_t most)
{
    unsigned placed = 0, least = 1000;

    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        for (unsigned shard = 0; shard < 2; shard++) {
            const struct fake_shard *f = &w->members[i].shards[shard];

            if (f->rows_told == 0)
                continue;
            placed++;
            T_EQ(f->rows_most, most);
            T_EQ(f->rows_disk_most, 4096);
            if (f->rows_told < least)
                least = f->rows_told;
        }
    T_EQ(placed, 2);
    return least;
}

TEST(quota, psservers_are_told_what_rows_may_take)
{
    struct world *w = begin("a:rows=1KiB,rows_disk=4KiB", "b:jobs=1");
    struct job *job = run_rows(w);
    bool limited = false;

    T_GE(told(w, 1024), 2); // when they are placed and admitted
    T_EQ(rows_of_a(w, &limited), 0);
    T_TRUE(limited);
    for (uint32_t i = 0; i < 2; i++) {
        report_rows(job, i, 500 + 200 * i);
        job->shards.list[i].server = 7 + i;
    }
    T_EQ(rows_of_a(w, &limited), 700); // the larger
    job->shards.list[1].server = 7;
    T_EQ(rows_of_a(w, &limited), 1200);
    world_release(w);
}

// With the admission that follows a coordinator's start.
TEST(quota, psservers_are_told_a_quota_that_has_changed)
{
    struct world *w = begin("a:rows=1KiB,rows_disk=4KiB", "b:jobs=1");
    static struct quota q[2];

    (void)run_rows(w);
    (void)told(w, 1024);
    world_stop_coord(w);
    T_OK(quota_read(&q[0], "a:rows=1MiB,rows_disk=4KiB", t_err()));
    T_OK(quota_read(&q[1], "b:jobs=1", t_err()));
    w->quotas = q;
    world_start_coord(w);
    T_FALSE(world_run(w, FINISHED, 4000));
    (void)told(w, 1 << 20);
    world_release(w);
}
