// SPDX-License-Identifier: Apache-2.0
// What a job may be: refused when it is submitted, by the limit.
#include <string.h>

#include "common/base/buf.h"
#include "common/base/json.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "proto/pbjson.h"
#include "tests/unit/coordinator/world.h"

static struct sl_error err; // of the call that a test looks at

static enum sl_err submit(struct world *w, const char *json, bool dry_run)
{
    Sluice__V1__SubmitRequest message = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    enum sl_err rc;

    T_OK(sl_json_parse(&value, "job", json, strlen(json), NULL, t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    message.spec = (Sluice__V1__JobSpec *)spec;
    message.dry_run = dry_run;
    rc = coord_submit(w->coord, &message, &reply, &err);
    wire_free((ProtobufCMessage *)reply);
    wire_free(spec);
    return rc;
}

static unsigned jobs(struct world *w)
{
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply *list = NULL;
    unsigned count;

    T_OK(status_list(w->coord, &all, &list, t_err()));
    count = (unsigned)list->n_jobs;
    wire_free(&list->base);
    return count;
}

// So many variables of these rows, cut as `placement` says.
static struct buf external(unsigned variables, unsigned rows, unsigned epochs,
                           const char *placement)
{
    struct buf json = BUF_INIT;

    T_OK(buf_append_str(&json, "{\"name\":\"large\",\"model\":{\"type\":"
                               "\"external\",\"variables\":["));
    for (unsigned i = 0; i < variables; i++)
        T_OK(buf_appendf(&json, "%s{\"name\":\"v%u\",\"shape\":[%u,2]}",
                         i == 0 ? "" : ",", i, rows));
    T_OK(buf_appendf(&json,
                     "]},\"optimizer\":{\"type\":\"sgd\"},\"data\":{\"train\":{"
                     "\"format\":\"external\",\"samples\":40}},\"train\":{"
                     "\"batch\":4,\"epochs\":%u},\"placement\":{%s}}",
                     epochs, placement));
    return json;
}

static void expect(struct world *w, struct buf json, enum sl_err rc,
                   const char *words)
{
    unsigned had = jobs(w);

    for (unsigned dry_run = 2; dry_run-- > 0;) {
        T_EQ(submit(w, buf_text(&json), dry_run != 0), rc);
        if (rc != SL_OK)
            T_HAS(err.text, words);
    }
    T_EQ(jobs(w), had + (rc == SL_OK));
    buf_release(&json);
}

TEST(limits, a_shard_reports_only_so_many_epochs)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, external(1, 8, 65000, ""), SL_EINVAL, "train.epochs is 65000");
    T_HAS(err.text, "holds 39321");
    expect(&w, external(1, 8, 39000, ""), SL_OK, NULL);
    world_release(&w);
}

// A shard that says more than there is is not believed, now or later.
TEST(limits, a_shard_counts_no_more_than_there_is)
{
    static const Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;
    static struct world w;
    Sluice__V1__ShardCounts said[5] = {none, none, none, none, none};
    struct job_counts had;
    struct job *job;
    uint64_t all;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 1);
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_RUNNING, 60000));
    job = jobs_get(w.coord, w.job);
    all = schedule_steps(&job->shards.schedule);
    said[0].counted = said[0].applied = all + 1;
    said[1].counted = said[1].applied = said[1].version = UINT64_MAX;
    said[2].counted = all;
    said[2].applied = said[2].skipped = all;
    said[3].counted = said[3].applied = all;
    said[3].version = UINT64_C(1) << 63;
    said[4].counted = said[4].applied = said[4].version = all;
    said[4].low = job->shards.evidence.closures + 1;
    had = job->shards.list[0].counts;
    for (unsigned i = 0; i < SL_COUNT(said); i++) {
        job_counts_take(job, 0, &said[i]);
        T_MEM(&job->shards.list[0].counts, &had, sizeof(had));
    }
    said[4].low = job->shards.evidence.closures;
    job_counts_take(job, 0, &said[4]);
    T_EQ(job->shards.list[0].counts.counted, all);
    world_release(&w);
}

TEST(limits, a_cut_counts_only_so_many_epochs_of_all_shards)
{
    static const char rows[] = "\"shard_bytes\":8"; // each is a shard
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, external(1, 20000, 400, rows), SL_EINVAL,
           "20000 shards of 400 epochs");
    T_HAS(err.text, "at most 6710886");
    expect(&w, external(1, 20000, 100, rows), SL_OK, NULL);
    world_release(&w);
}

TEST(limits, a_layout_is_one_message)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, external(1, 60000, 1, "\"shard_bytes\":8"), SL_EINVAL,
           "a layout of 60000 shards");
    world_release(&w);
}

// A worker is sent pieces and map in one message.
TEST(limits, what_a_worker_is_sent_is_one_message)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, external(1, 30000, 1, "\"shard_bytes\":8"), SL_EINVAL,
           "the message to workers about a job of 30000 shards");
    expect(&w, external(1, 25000, 1, "\"shard_bytes\":8"), SL_OK, NULL);
    world_release(&w);
}

// 1,000 variables of a tenth more than a shard are 2,000 shards on a few
// psservers; on 1,100 they are 1,100.
TEST(limits, what_enough_psservers_hold_is_not_refused)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, external(1000, 11, 4461, "\"shard_bytes\":80"), SL_OK, NULL);
    expect(&w, external(1000, 11, 4461, "\"shard_bytes\":80,\"psservers\":9"),
           SL_EINVAL, "2000 shards of 4461 epochs");
    expect(&w, external(1000, 11, 39000, "\"shard_bytes\":80"), SL_EINVAL,
           "1100 shards of 39000 epochs");
    world_release(&w);
}

// A psserver would refuse the shard, and the job would wait for it.
TEST(limits, a_shard_is_no_larger_than_a_push)
{
    static const char fixed[] = "\"partitioner\":\"fixed\",\"shards\":1";
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 1);
    expect(&w, external(1, 9000000, 1, fixed), SL_EINVAL,
           "shard 0 of 1 would have 18000000 parameters: a push of them has "
           "72000000 bytes, and a message holds 67043328; leave "
           "placement.partitioner (fixed) out, or let it make more parts");
    expect(&w, external(1, 8000000, 1, fixed), SL_OK, NULL);
    expect(&w, external(1, 9000000, 1, ""), SL_OK, NULL);
    world_release(&w);
}

// 6,004,001 parameters, with two moments of each.
static struct buf with_moments(const char *inner, unsigned shard_bytes)
{
    struct buf json = BUF_INIT;

    T_OK(buf_appendf(
        &json,
        "{\"name\":\"large\",\"model\":{\"input_shape\":[3000],\"layers\":[{"
        "\"type\":\"dense\",\"units\":2000},{\"type\":\"dense\",\"units\":1,"
        "\"activation\":\"sigmoid\"}]},\"loss\":\"binary_crossentropy\","
        "\"optimizer\":{\"type\":\"adam\"},\"data\":{\"train\":{\"format\":"
        "\"synthetic\",\"generator\":\"binary\",\"samples\":8,\"seed\":1}},"
        "\"train\":{\"mode\":\"local\",\"batch\":1,\"inner\":{%s}},"
        "\"placement\":{\"shard_bytes\":%u}}",
        inner, shard_bytes));
    return json;
}

TEST(limits, a_shard_is_no_larger_than_a_push_with_its_moments)
{
    static const char store[] = "\"moments\":\"store\"";
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 1);
    expect(&w, with_moments(store, 32 << 20), SL_EINVAL,
           "a push of them with their moments has 72048012 bytes, and a "
           "message holds 67043328; leave placement.shard_bytes out, or set at "
           "most 22347776, or train.inner.moments: keep");
    expect(&w, with_moments(store, 22347776), SL_OK, NULL);
    expect(&w, with_moments("\"moments\":\"store\",\"up\":\"e3m0\"", 32 << 20),
           SL_OK, NULL);
    expect(&w, with_moments("\"moments\":\"keep\"", 32 << 20), SL_OK, NULL);
    world_release(&w);
}

// Psservers that come later decide how large shards are.
TEST(limits, without_psservers_a_shard_is_measured_when_it_is_placed)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    expect(&w, with_moments("\"moments\":\"store\"", 32 << 20), SL_OK, NULL);
    w.job = 1;
    world_people(&w, 1, 1);
    T_TRUE(world_run(&w, JOB_FAILED, 60000));
    T_HAS(world_reason(&w), "it cannot be placed: shard 0 of 1 would have ");
    world_release(&w);
}
