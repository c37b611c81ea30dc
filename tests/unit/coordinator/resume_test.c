// SPDX-License-Identifier: Apache-2.0
// Whether a job may start from a cut: the pure part, and what a manifest that
// somebody has edited can do.
#include "coordinator/core/cuts/cut_fits.h"
#include "coordinator/core/job.h"

#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/pbjson.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

// ---- what it says, as JSON

// A kernel of 8 rows and a bias of 2, on two shards.
#define VARIABLES                                                              \
    "\"variables\":[{\"name\":\"kernel\",\"shape\":[8,3]},"                    \
    "{\"name\":\"bias\",\"shape\":[2]}]"
#define PIECES                                                                 \
    "\"pieces\":["                                                             \
    "{\"variable\":0,\"first_row\":0,\"rows\":5,\"shard\":0,\"elements\":15}," \
    "{\"variable\":0,\"first_row\":5,\"rows\":3,\"shard\":1,\"elements\":9},"  \
    "{\"variable\":1,\"first_row\":0,\"rows\":2,\"shard\":1,\"elements\":2}]"
#define SHARD(n, file, rest)                                                   \
    "{\"shard\":" #n ",\"psserver\":\"ps-" #n "\","                            \
    "\"tag\":{\"incarnation\":1,\"sequence\":1},\"folder\":\"/ps\","           \
    "\"file\":\"" file "\"" rest "}"

static const char layout_text[] = "{" VARIABLES "," PIECES "}";
static const char three_text[] =
    "{" VARIABLES ",\"pieces\":["
    "{\"variable\":0,\"first_row\":0,\"rows\":3,\"shard\":0,\"elements\":9},"
    "{\"variable\":0,\"first_row\":3,\"rows\":2,\"shard\":1,\"elements\":6},"
    "{\"variable\":0,\"first_row\":5,\"rows\":3,\"shard\":2,\"elements\":9},"
    "{\"variable\":1,\"first_row\":0,\"rows\":2,\"shard\":2,\"elements\":2}]}";
static const char source_text[] =
    "{\"cut\":{\"job\":1," VARIABLES "," PIECES ",\"checkpoints\":[{\"cut\":4,"
    "\"shards\":[" SHARD(0, "a", "") "," SHARD(
        1, "b", "") "]}]},"
                    "\"geometry\":{\"samples\":40,\"batch\":4,\"epochs\":3,"
                    "\"steps_per_closure\":3},\"apart\":\"shard 0 has 7, shard "
                    "1 has 8\"}";

static void *make(const ProtobufCMessageDescriptor *of, const char *text)
{
    ProtobufCMessage *m = NULL;
    json_t *value = NULL;

    T_OK(sl_json_parse(&value, "text", text, strlen(text), NULL, t_err()));
    T_OK(pbjson_read(&m, of, value, "text", t_err()));
    json_decref(value);
    return m;
}

static Sluice__V1__CheckpointsReply *layout(const char *text)
{
    return make(&sluice__v1__checkpoints_reply__descriptor, text);
}

static Sluice__V1__ResumeSource *source(bool even)
{
    Sluice__V1__ResumeSource *m =
        make(&sluice__v1__resume_source__descriptor, source_text);

    m->even = even;
    return m;
}

// ---- even

TEST(resume, shards_are_even_that_counted_the_same_with_the_same_result)
{
    Sluice__V1__EpochCount epoch[2] = {SLUICE__V1__EPOCH_COUNT__INIT,
                                       SLUICE__V1__EPOCH_COUNT__INIT};
    Sluice__V1__EpochCount *epochs[2][1] = {{&epoch[0]}, {&epoch[1]}};
    Sluice__V1__ShardCounts one[2] = {SLUICE__V1__SHARD_COUNTS__INIT,
                                      SLUICE__V1__SHARD_COUNTS__INIT};
    Sluice__V1__ShardCounts *counts[2] = {&one[0], &one[1]};
    char apart[RESUME_APART_BYTES];

    for (int i = 0; i < 2; i++) {
        one[i].counted = one[i].applied = 120;
        one[i].epochs = epochs[i];
        one[i].n_epochs = 1;
        epoch[i].digest = 5;
    }
    one[1].duplicates = 3; // says nothing about rows
    T_TRUE(resume_even(counts, 2, apart));
    epoch[1].digest = 6; // as many steps, but others
    T_FALSE(resume_even(counts, 2, apart));
    T_HAS(apart, "but other steps");
    epoch[1].digest = 5;
    one[1].applied = 119;
    one[1].skipped = 1;
    T_FALSE(resume_even(counts, 2, apart));
    one[1].counted = 133;
    T_FALSE(resume_even(counts, 2, apart));
    T_STR(apart, "shard 0 has counted 120 steps, shard 1 133");
    T_TRUE(resume_even(counts, 1, apart));
}

// ---- the layout

TEST(resume, I6_an_uneven_cut_is_placed_only_as_it_was_cut)
{
    Sluice__V1__CheckpointsReply *same = layout(layout_text);
    Sluice__V1__CheckpointsReply *three = layout(three_text);
    Sluice__V1__ResumeSource *even = source(true), *uneven = source(false);
    struct sl_error err = SL_ERROR_INIT;

    T_OK(resume_fits(even, same, 40, t_err()));
    T_OK(resume_fits(even, three, 0, t_err()));
    T_OK(resume_fits(uneven, same, 0, t_err()));
    T_FAILS(SL_ESTATE, resume_fits(uneven, three, 40, &err));
    T_HAS(err.text, "shard 0 has 7, shard 1 has 8");
    T_HAS(err.text, "placement.psservers=2");
    wire_free(&same->base);
    wire_free(&three->base);
    wire_free(&even->base);
    wire_free(&uneven->base);
}

TEST(resume, other_data_or_another_model_is_refused)
{
    Sluice__V1__CheckpointsReply *now = layout(three_text);
    Sluice__V1__ResumeSource *even = source(true);
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, resume_fits(even, now, 41, &err));
    T_HAS(err.text, "samples");
    now->variables[1]->shape[0] = 4;
    T_FAILS(SL_EINVAL, resume_fits(even, now, 40, &err));
    T_HAS(err.text, "variable 1, 'bias', has the shape (4,), but (");
    wire_free(&now->base);
    wire_free(&even->base);
}

static void rename_variable(Sluice__V1__CheckpointsReply *l, const char *name)
{
    sl_free(l->variables[1]->name);
    l->variables[1]->name = sl_strdup(name);
    T_ASSERT(l->variables[1]->name != NULL);
}

// Never two that look the same.
TEST(resume, what_differs_of_a_variable_is_what_is_said)
{
    Sluice__V1__CheckpointsReply *now = layout(three_text);
    Sluice__V1__ResumeSource *even = source(true);
    struct sl_error err = SL_ERROR_INIT;
    char name[121];

    now->variables[1]->kind = 1 - now->variables[1]->kind;
    T_FAILS(SL_EINVAL, resume_fits(even, now, 40, &err));
    T_HAS(err.text, "only one of the model and the cut trains variable 1, 'b");
    now->variables[1]->kind = 1 - now->variables[1]->kind;
    rename_variable(now, "bias2");
    T_FAILS(SL_EINVAL, resume_fits(even, now, 40, &err));
    T_HAS(err.text, "variable 1 is 'bias2', but 'bias' in the cut");
    memset(name, 'x', 120);
    name[120] = '\0';
    rename_variable(now, name);
    name[110] = 'y'; // behind what fits
    rename_variable(even->cut, name);
    T_FAILS(SL_EINVAL, resume_fits(even, now, 40, &err));
    T_HAS(err.text, "is '...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                    "', but '...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxyxxxx"
                    "xxxxx' in the cut");
    wire_free(&now->base);
    wire_free(&even->base);
}

TEST(resume, a_shard_is_given_the_files_that_hold_its_rows_and_no_others)
{
    static const bool want[3][2] = {
        {true, false}, {true, false}, {false, true}};
    Sluice__V1__CheckpointsReply *three = layout(three_text);
    Sluice__V1__CheckpointsReply *same = layout(layout_text);
    Sluice__V1__ResumeSource *from = source(true);
    bool needed[2];

    for (uint32_t s = 0; s < 3; s++) {
        resume_needs(from, three, s, needed);
        T_MEM(needed, want[s], sizeof(needed));
    }
    for (size_t i = 0; i < same->n_pieces; i++)
        same->pieces[i]->shard = 0; // all on one
    resume_needs(from, same, 0, needed);
    T_TRUE(needed[0] && needed[1]);
    wire_free(&three->base);
    wire_free(&same->base);
    wire_free(&from->base);
}

// ---- the manifest

#define SHA                                                                    \
    ",\"sha256\":\"000102030405060708090a0b0c0d0e0f"                           \
    "000102030405060708090a0b0c0d0e0f\",\"counts\":{\"counted\":7}"
#define JOB_SPEC                                                               \
    "\"spec\":{\"name\":\"x\",\"model\":{\"type\":\"external\","               \
    "\"variables\":[{\"name\":\"kernel\",\"shape\":[8,3]},"                    \
    "{\"name\":\"bias\",\"shape\":[2]}]},\"optimizer\":{\"type\":\"sgd\"},"    \
    "\"data\":{\"train\":{\"format\":\"external\",\"samples\":40}},"           \
    "\"train\":{\"batch\":4,\"epochs\":3,\"steps_per_closure\":3}}"
#define HEAD                                                                   \
    "\"job\":1,\"job_uid\":\"0x1122334455667788\",\"cut\":4,\"steps\":7,"      \
    "\"epoch\":1"
#define GEOMETRY                                                               \
    "\"geometry\":{\"samples\":40,\"batch\":4,\"epochs\":3,"                   \
    "\"steps_per_closure\":3}"
#define SHARDS "\"shards\":[" SHARD(0, "a", SHA) "," SHARD(1, "b", SHA) "]"
#define WITH(head, spec, pieces, shards)                                       \
    "{\"format\":1," head "," spec "," GEOMETRY "," VARIABLES "," pieces       \
    "," shards "}"

static enum sl_err read_text(struct manifest_found *m, const char *text,
                             struct sl_error *err)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    enum sl_err rc;

    T_OK(fs_mkdirs(fs, "/s", t_err()));
    T_OK(fs_write_durable(fs, "/s/cut-4.json", text, strlen(text), t_err()));
    rc = manifest_load(m, fs, "/s/cut-4.json", err);
    crash_fs_free(disk);
    return rc;
}

TEST(resume, a_manifest_says_what_is_needed)
{
    const Sluice__V1__Checkpoint *cut;
    struct manifest_found m = {0};

    T_OK(read_text(&m, WITH(HEAD, JOB_SPEC, PIECES, SHARDS), t_err()));
    cut = m.source->cut->checkpoints[0];
    T_EQ(m.source->job_uid, UINT64_C(0x1122334455667788));
    T_EQ(m.source->cut->job, 1);
    T_EQ(cut->cut, 4);
    T_EQ(cut->epoch, 1);
    T_STR(cut->manifest, "/s/cut-4.json");
    T_EQ(m.shards, 2);
    T_EQ(m.counts[1]->counted, 7);
    T_STR(cut->shards[1]->file, "b");
    T_EQ(cut->shards[1]->sha256.data[31], 15);
    T_EQ(m.spec->train->batch, 4);
    T_OK(resume_check_spec(&m, m.spec, t_err()));
    manifest_found_release(&m);
}

TEST(resume, a_manifest_that_was_edited_is_refused)
{
    static const char *const bad[] = {
        "{}",
        "{\"format\":1}",
        WITH("\"job\":1,\"cut\":4,\"steps\":7,\"epoch\":1", JOB_SPEC, PIECES,
             SHARDS), // no uid
        WITH(HEAD, "\"spec\":{}", PIECES, SHARDS),
        WITH(HEAD, JOB_SPEC, "\"pieces\":[]", SHARDS),
        WITH(HEAD, JOB_SPEC,
             "\"pieces\":[{\"variable\":0,\"first_row\":0,\"rows\":8,"
             "\"shard\":0,\"elements\":24}]",
             SHARDS), // rows are missing
        WITH(HEAD, JOB_SPEC, PIECES, "\"shards\":[" SHARD(0, "a", SHA) "]"),
        WITH(HEAD, JOB_SPEC, PIECES,
             "\"shards\":[" SHARD(1, "a", SHA) "," SHARD(0, "b", SHA) "]"),
        WITH(HEAD, JOB_SPEC, PIECES,
             "\"shards\":[" SHARD(0, "a", "") "," SHARD(1, "b", "") "]"),
        WITH(HEAD, JOB_SPEC, PIECES,
             "\"shards\":[" SHARD(0, "../a", SHA) "," SHARD(1, "b", SHA) "]"),
    };
    struct manifest_found m = {0};
    struct sl_error err = SL_ERROR_INIT;

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        T_FAILS(SL_ECORRUPT, read_text(&m, bad[i], &err));
        T_HAS(err.text, "/s/cut-4.json");
    }
    T_FAILS(SL_ENOTSUP, read_text(&m, "{\"format\":3}", &err));
}

TEST(resume, what_trains_something_else_is_refused_by_its_key)
{
    struct manifest_found m = {0};
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__TrainSpec *train;
    Sluice__V1__JobSpec *now;
    ProtobufCMessage *copy;

    T_OK(read_text(&m, WITH(HEAD, JOB_SPEC, PIECES, SHARDS), t_err()));
    T_OK(wire_dup(&copy, &m.spec->base));
    now = (Sluice__V1__JobSpec *)copy;
    train = now->train;
    train->epochs = 9; // more is what one resumes for
    T_OK(resume_check_spec(&m, now, t_err()));
    train->epochs = 2;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "train.epochs");
    train->epochs = 3;
    train->shuffle = !train->shuffle;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "train.shuffle");
    train->shuffle = !train->shuffle;
    train->batch = 2;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "train.batch: 2, but the cut is of a job with 4");
    train->has_accumulate = 1;
    train->accumulate = 2; // the same samples are a step
    T_OK(resume_check_spec(&m, now, t_err()));
    train->accumulate = 3;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "train.batch * train.accumulate: 6");
    train->batch = 4;
    train->has_accumulate = 0;
    now->optimizer->momentum = 0.9;
    now->optimizer->has_momentum = true;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "optimizer.momentum");
    wire_free(copy);
    manifest_found_release(&m);
}

TEST(resume, tables_are_those_of_the_cut)
{
    Sluice__V1__OptimizerSpec sgd = SLUICE__V1__OPTIMIZER_SPEC__INIT, ftrl;
    Sluice__V1__TableSpec table = SLUICE__V1__TABLE_SPEC__INIT, then;
    Sluice__V1__TableSpec *tables = &table, *tables_then = &then;
    struct manifest_found m = {0};
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__JobSpec *now;
    ProtobufCMessage *copy;

    sgd.type = (char *)"sgd";
    ftrl = sgd;
    ftrl.type = (char *)"ftrl";
    table.name = (char *)"users";
    table.dim = 16;
    table.buckets = 64;
    table.optimizer = &sgd;
    then = table;
    T_OK(read_text(&m, WITH(HEAD, JOB_SPEC, PIECES, SHARDS), t_err()));
    T_OK(wire_dup(&copy, &m.spec->base));
    now = (Sluice__V1__JobSpec *)copy;
    now->model->tables = &tables;
    now->model->n_tables = 1;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "cannot resume from /s/cut-4.json: model.tables: 1, but "
                    "the cut is of a job with 0");
    m.spec->model->tables = &tables_then;
    m.spec->model->n_tables = 1;
    T_OK(resume_check_spec(&m, now, t_err()));
#define REFUSED(what, says)                                                    \
    do {                                                                       \
        then = table;                                                          \
        what;                                                                  \
        T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));                  \
        T_HAS(err.text, says);                                                 \
    } while (0)
    REFUSED(then.name = (char *)"items", "is 'users', but 'items' in the cut");
    REFUSED(then.dim = 8, "dim 16, buckets 64, optimizer sgd, but 8, 64, sgd");
    REFUSED(then.buckets = 9, "but 16, 9, sgd in the cut");
    REFUSED(then.optimizer = &ftrl, "but 16, 64, ftrl in the cut");
#undef REFUSED
    now->model->tables = NULL;
    now->model->n_tables = 0;
    T_FAILS(SL_EINVAL, resume_check_spec(&m, now, &err));
    T_HAS(err.text, "model.tables: 0, but the cut is of a job with 1");
    m.spec->model->tables = NULL;
    m.spec->model->n_tables = 0;
    wire_free(copy);
    manifest_found_release(&m);
}
