// SPDX-License-Identifier: Apache-2.0
// Shards that start from files of another job: what comes of parts of several
// must be, to the bit, the shard that was never cut.
#include "state/snap/snap.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

#define FILES 3

// Every element has a value of its own, so that a row at the wrong place shows.
static Sluice__V1__Variable *add(struct kit *k, const char *name,
                                 const uint64_t *shape)
{
    Sluice__V1__Variable *v = kit_variable(k, name, shape);

    v->init = SLUICE__V1__INIT_KIND__INIT_UNIFORM;
    v->init_a = -1;
    v->init_b = 1;
    return v;
}

static const uint64_t kernel[] = {8, 5, 0}, mean[] = {3, 0}, bias[] = {9, 0};

static void add_mean(struct kit *k)
{
    Sluice__V1__Variable *v = add(k, "mean", mean);

    v->kind = SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING;
    v->momentum = 0.5;
}

static void begin_kit(struct kit *k, uint32_t shard)
{
    kit_clear(k);
    kit_optimizer(k, "adam", 0.1);
    k->spec.shard = shard;
}

// Rows [first, first + rows) of the kernel; with the rest of the model, or not.
// The numbers of variables decide about the seed, so they must not change.
static void cut_kit(struct kit *k, uint32_t shard, uint64_t first,
                    uint64_t rows, bool rest)
{
    begin_kit(k, shard);
    add(k, "kernel", kernel);
    kit_rows(k, first, rows);
    if (rest) {
        add_mean(k);
        add(k, "bias", bias);
    }
}

struct files {
    struct crash_fs *disk;
    struct fs *fs;
    Sluice__V1__SourceFile file[FILES];
    Sluice__V1__SourceFile *list[FILES];
    struct snap_written written[FILES];
    size_t count;
};

static void files_init(struct files *f)
{
    memset(f, 0, sizeof(*f));
    f->disk = crash_fs_new(t_seed());
    f->fs = crash_fs_ops(f->disk);
}

static void files_release(struct files *f)
{
    for (size_t i = 0; i < f->count; i++)
        snap_written_release(&f->written[i]);
    crash_fs_free(f->disk);
}

// Two steps, the same for every shard of the job.
static void train(struct shard *s)
{
    kit_count(s, 0, 1, 0.5f);
    kit_count(s, 29, 3, -0.25f);
}

// Writes a shard, and names the file as a source.
static void add_file(struct files *f, struct shard *s)
{
    size_t n = f->count++;
    Sluice__V1__SourceFile *file = &f->file[n];

    T_ASSERT(n < FILES);
    T_OK(snap_write(f->fs, "disk/old", s, s->incarnation, &f->written[n],
                    t_err()));
    sluice__v1__source_file__init(file);
    file->folder = (char *)"disk/old";
    file->file = f->written[n].file;
    file->sha256.data = f->written[n].sha256;
    file->sha256.len = SHA256_BYTES;
    f->list[n] = file;
    shard_unref(s);
}

// The model in two shards, cut in the midst of the kernel.
static void two_files(struct files *f)
{
    struct shard *s;
    struct kit k;

    files_init(f);
    cut_kit(&k, 0, 0, 3, false);
    s = kit_admitted(&k);
    train(s);
    add_file(f, s);
    cut_kit(&k, 1, 3, 5, true);
    s = kit_admitted(&k);
    train(s);
    add_file(f, s);
}

// A new job's shard with these files as its sources.
static enum sl_err resume_from(struct files *f, struct kit *k,
                               const struct snap_from *from, struct shard **out,
                               struct sl_error *err)
{
    enum sl_err rc;

    k->spec.job = 8;
    k->spec.job_uid = 99;
    k->spec.sources = f->list;
    k->spec.n_sources = f->count;
    *out = kit_shard(k);
    rc = snap_sources(from, *out, err);
    if (rc != SL_OK) {
        shard_unref(*out);
        *out = NULL;
    }
    return rc;
}

static enum sl_err resume(struct files *f, struct kit *k, struct shard **out,
                          struct sl_error *err)
{
    const struct snap_from from = {.fs = f->fs, .store = "store"};

    return resume_from(f, k, &from, out, err);
}

static void check_same(const struct shard *got, const struct shard *want)
{
    T_EQ(got->region.bytes, want->region.bytes);
    T_MEM(got->region.data, want->region.data, want->region.bytes);
    T_TRUE(counted_equal(&got->once.counted, &want->once.counted));
    T_MEM(&got->once.counts, &want->once.counts, sizeof(want->once.counts));
    T_EQ(got->once.epoch_count, want->once.epoch_count);
    T_EQ(got->once.passed_count, want->once.passed_count);
    T_MEM(got->once.passed, want->once.passed,
          want->once.passed_count * sizeof(*want->once.passed));
    T_EQ(got->from.incarnation, 0); // it stands where the seed stood (K7)
    T_EQ(got->incarnation, 0);
}

// Cut anew in any way: one shard, two others, a part of one file only.
TEST(source, rows_of_several_files_are_the_shard_that_was_never_cut)
{
    static const struct {
        uint64_t first, rows;
        bool rest;
    } cuts[] = {{0, 8, true},
                {0, 5, false},
                {5, 3, true},
                {1, 1, false},
                {2, 2, false}};
    struct shard *got, *want;
    struct files f;
    struct kit k;

    two_files(&f);
    for (size_t i = 0; i < SL_COUNT(cuts); i++) {
        cut_kit(&k, 0, cuts[i].first, cuts[i].rows, cuts[i].rest);
        want = kit_admitted(&k);
        train(want);
        if (cuts[i].first + cuts[i].rows <= 3) // nobody names the other file
            f.count = 1;
        T_OK(resume(&f, &k, &got, t_err()));
        f.count = 2;
        check_same(got, want);
        shard_unref(got);
        shard_unref(want);
    }
    files_release(&f);
}

// A step in which the kernel has no gradient.
static void pass_over(struct shard *s, uint64_t closure, uint32_t step)
{
    size_t n = s->plan.elements;
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_equal(&payload, 0.25f, n, 0);
    push = kit_push(closure, step, &payload);
    push.absent_bytes = 1;
    push.absent[0] = 1;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    kit_payload_release(&payload);
}

// The kernel has counted fewer updates than the rest, in whatever shards.
TEST(source, what_was_passed_over_follows_its_rows)
{
    struct shard *got, *want;
    struct files f;
    struct kit k;

    files_init(&f);
    for (uint32_t i = 0; i < 2; i++) {
        cut_kit(&k, i, i == 0 ? 0 : 3, i == 0 ? 3 : 5, i == 1);
        want = kit_admitted(&k);
        train(want);
        pass_over(want, 2, 1);
        add_file(&f, want);
    }
    cut_kit(&k, 0, 1, 6, true);
    want = kit_admitted(&k);
    train(want);
    pass_over(want, 2, 1);
    T_OK(resume(&f, &k, &got, t_err()));
    check_same(got, want);
    T_EQ(got->once.passed[0], 1);
    T_EQ(got->once.passed[2], 0);
    shard_unref(got);
    shard_unref(want);
    files_release(&f);
}

TEST(source, I6_rows_that_counted_different_steps_are_never_merged)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    cut_kit(&k, 0, 0, 3, false);
    s = kit_admitted(&k);
    train(s);
    add_file(&f, s);
    cut_kit(&k, 1, 3, 5, true);
    s = kit_admitted(&k);
    train(s);
    kit_count(s, 1, 0, 1); // one step more
    add_file(&f, s);
    cut_kit(&k, 0, 0, 8, true);
    T_FAILS(SL_ESTATE, resume(&f, &k, &s, &err));
    T_HAS(err.text, f.file[1].file);
    T_HAS(err.text, "counted 3 steps");
    T_HAS(err.text, "cannot share a counted set");
    // As it was cut each goes on with its own set.
    cut_kit(&k, 1, 3, 5, true);
    f.list[0] = f.list[1];
    f.count = 1;
    T_OK(resume(&f, &k, &s, t_err()));
    f.count = 2;
    T_EQ(counted_steps(&s->once.counted), 3);
    shard_unref(s);
    files_release(&f);
}

// The same number of steps, but one was applied here and skipped there: the
// next update would be the third of some rows and the second of others.
TEST(source, rows_of_different_versions_are_never_merged)
{
    struct wire_push push = kit_push(1, 0, NULL);
    struct wire_push_reply reply;
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    for (uint32_t i = 0; i < 2; i++) {
        cut_kit(&k, i, i == 0 ? 0 : 3, i == 0 ? 3 : 5, i == 1);
        s = kit_admitted(&k);
        train(s);
        push.shard = i;
        push.skip = true;
        if (i == 0)
            kit_count(s, 1, 0, 1);
        else
            T_OK(shard_push(s, &push, &reply, NULL, t_err()));
        add_file(&f, s);
    }
    cut_kit(&k, 0, 0, 8, true);
    T_FAILS(SL_ESTATE, resume(&f, &k, &s, &err));
    T_HAS(err.text, "2 applied");
    files_release(&f);
}

TEST(source, what_is_missing_or_not_the_file_is_named)
{
    struct sl_error err = SL_ERROR_INIT;
    uint8_t sha256[SHA256_BYTES] = {0};
    Sluice__V1__SourceFile *file;
    struct shard *s;
    struct files f;
    struct kit k;

    two_files(&f);
    file = f.list[1];
    file->sha256.data = sha256;
    cut_kit(&k, 0, 0, 8, true);
    T_FAILS(SL_ECORRUPT, resume(&f, &k, &s, &err));
    T_HAS(err.text, file->file);
    T_HAS(err.text, "SHA-256");
    file->sha256.data = f.written[1].sha256;

    file->folder = (char *)"elsewhere/old";
    T_FAILS(SL_ENOENT, resume(&f, &k, &s, &err));
    T_HAS(err.text, "elsewhere/old/shard-1");

    f.count = 1; // nobody says where the other rows are
    T_FAILS(SL_ECORRUPT, resume(&f, &k, &s, &err));
    T_HAS(err.text, "3 of 8 rows of kernel");
    f.count = 2;
    files_release(&f);
}

TEST(source, a_file_that_was_brought_to_our_store_is_found_there)
{
    struct shard *s, *old;
    struct files f;
    struct kit k;

    files_init(&f);
    cut_kit(&k, 0, 0, 8, true);
    old = shard_ref(kit_admitted(&k));
    train(old);
    add_file(&f, old);
    T_OK(fs_mkdirs(f.fs, "store/old", t_err()));
    T_OK(fs_rename(f.fs, "disk/old/shard-0.i1.n1.safetensors",
                   "store/old/shard-0.i1.n1.safetensors", t_err()));
    T_OK(resume(&f, &k, &s, t_err()));
    check_same(s, old);
    shard_unref(s);
    shard_unref(old);
    files_release(&f);
}

// ---- weights: a file that is no snapshot

static float value_at(uint64_t row, uint64_t column)
{
    return (float)(100 * row + column);
}

static float odd_value; // not 0: of the kernel's [1, 6] in the file

// The kernel with its axes turned, and a bias; written by anybody, who submits
// this folder.
static void weights_file_in(struct files *f, const char *folder,
                            const uint64_t shape[2], bool turned)
{
    char *path = fs_join(folder, "model.safetensors");
    float values[40], nine[9];
    struct tensor_info tensors[2] = {
        {.name = "kernel",
         .dtype = TENSOR_F32,
         .rank = 2,
         .shape = {shape[0], shape[1]}},
        {.name = "bias", .dtype = TENSOR_F32, .rank = 1, .shape = {9}},
    };
    struct tensorfile_writer *w = NULL;
    Sluice__V1__SourceFile *file = &f->file[0];
    static uint8_t sha[SHA256_BYTES];

    for (uint64_t row = 0; row < 8; row++)
        for (uint64_t column = 0; column < 5; column++)
            values[turned ? column * 8 + row : row * 5 + column] =
                value_at(row, column);
    if (odd_value != 0)
        values[1 * 8 + 6] = odd_value;
    for (unsigned i = 0; i < 9; i++)
        nine[i] = (float)i - 4;
    T_OK(tensorfile_layout(tensors, 2, t_err()));
    T_OK(fs_mkdirs(f->fs, folder, t_err()));
    T_OK(tensorfile_create(&w, f->fs, path, tensors, 2, NULL, 0, false,
                           t_err()));
    for (unsigned i = 0; i < 2; i++) {
        if (strcmp(tensors[i].name, "kernel") == 0)
            T_OK(tensorfile_append(w, values, sizeof(values), t_err()));
        else
            T_OK(tensorfile_append(w, nine, sizeof(nine), t_err()));
    }
    T_OK(tensorfile_finish(w, NULL, t_err()));
    T_OK(sha256_file(f->fs, path, sha, t_err()));
    sl_free(path);
    sluice__v1__source_file__init(file);
    file->folder = (char *)folder;
    file->file = (char *)"model.safetensors";
    file->sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
    file->weights = true;
    f->list[0] = file;
    f->count = 1;
}

static void weights_file(struct files *f, const uint64_t shape[2], bool turned)
{
    weights_file_in(f, "disk/any", shape, turned);
}

static void weights_kit(struct kit *k, uint64_t first, uint64_t rows)
{
    static uint32_t turned[] = {1, 0};
    Sluice__V1__Variable *v;

    begin_kit(k, 0);
    v = add(k, "kernel", kernel);
    v->keras_order = turned;
    v->n_keras_order = 2;
    kit_rows(k, first, rows);
    add(k, "bias", bias);
}

TEST(source, weights_are_values_alone_whatever_rows_a_shard_has)
{
    static const struct {
        uint64_t first, rows;
    } cuts[] = {{0, 8}, {0, 3}, {3, 5}, {7, 1}};
    static const uint64_t keras[2] = {5, 8};
    struct shard *got, *seed;
    struct files f;
    struct kit k;

    files_init(&f);
    weights_file(&f, keras, true);
    for (size_t i = 0; i < SL_COUNT(cuts); i++) {
        size_t n = cuts[i].rows * 5;

        weights_kit(&k, cuts[i].first, cuts[i].rows);
        seed = kit_shard(&k);
        T_OK(resume(&f, &k, &got, t_err()));
        for (size_t e = 0; e < n; e++)
            T_TRUE(got->memory.values[e] ==
                   value_at(cuts[i].first + e / 5, e % 5));
        for (size_t e = 0; e < 9; e++)
            T_TRUE(got->memory.values[n + e] == (float)e - 4);
        T_MEM(got->memory.slots[0], seed->memory.slots[0],
              (n + 9) * sizeof(float));
        T_EQ(counted_steps(&got->once.counted), 0);
        T_EQ(got->once.counts.version, 0);
        T_EQ(got->from.incarnation, 0); // it stands where the seed stood (K7)
        shard_unref(got);
        shard_unref(seed);
    }
    files_release(&f);
}

// By the shard that has the row: others are not hindered, and nobody trains.
TEST(source, weights_that_are_not_finite_are_refused_with_their_place)
{
    static const uint64_t keras[2] = {5, 8};
    static const struct {
        float value;
        const char *text;
    } odd[] = {{NAN, "kernel[1, 6] is nan"},
               {INFINITY, "kernel[1, 6] is inf"},
               {-INFINITY, "kernel[1, 6] is -inf"}};
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    for (size_t i = 0; i < SL_COUNT(odd); i++) {
        files_init(&f);
        odd_value = odd[i].value;
        weights_file(&f, keras, true);
        odd_value = 0;
        weights_kit(&k, 0, 8);
        T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
        T_HAS(err.text, odd[i].text);
        T_HAS(err.text, "model.safetensors");
        weights_kit(&k, 0, 3);
        T_OK(resume(&f, &k, &s, t_err()));
        shard_unref(s);
        files_release(&f);
    }
}

TEST(source, weights_that_do_not_fit_are_refused_and_named)
{
    static const uint64_t keras[2] = {5, 8}, other[2] = {8, 5};
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    weights_file(&f, other, false);
    weights_kit(&k, 0, 8);
    T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
    T_HAS(err.text, "model.safetensors");
    T_HAS(err.text, "'kernel' is F32 (8, 5)");
    weights_file(&f, keras, true);
    weights_kit(&k, 0, 8);
    add_mean(&k);
    T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
    T_HAS(err.text, "no tensor 'mean'");
    f.file[0].sha256.data[0] ^= 1;
    weights_kit(&k, 0, 8);
    T_FAILS(SL_ECORRUPT, resume(&f, &k, &s, &err));
    T_HAS(err.text, "SHA-256");
    files_release(&f);
}

// ---- rows that a table begins with

enum { ROWS = 3000, ROW_DIM = 3 }; // more than are read at once

static uint64_t row_ids[ROWS];
static float row_values[ROWS][ROW_DIM];

static void number_rows(void)
{
    for (uint64_t i = 0; i < ROWS; i++) {
        row_ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        for (unsigned k = 0; k < ROW_DIM; k++)
            row_values[i][k] = (float)(i * 4 + k);
    }
}

// Writes ids of `type` and rows of `dim` values; the source is of table users.
static void rows_file(struct files *f, enum tensor_dtype type, uint64_t dim)
{
    struct tensor_info tensors[2] = {
        {.name = "ids", .dtype = type, .rank = 1, .shape = {ROWS}},
        {.name = "values",
         .dtype = TENSOR_F32,
         .rank = 2,
         .shape = {ROWS * ROW_DIM / dim, dim}},
    };
    struct tensorfile_writer *w = NULL;
    static uint8_t sha[SHA256_BYTES];
    Sluice__V1__SourceFile *file = &f->file[0];

    T_OK(tensorfile_layout(tensors, 2, t_err()));
    T_OK(fs_mkdirs(f->fs, "disk/any", t_err()));
    T_OK(tensorfile_create(&w, f->fs, "disk/any/rows", tensors, 2, NULL, 0,
                           false, t_err()));
    T_OK(tensorfile_append(w, row_ids, sizeof(row_ids), t_err()));
    T_OK(tensorfile_append(w, row_values, sizeof(row_values), t_err()));
    T_OK(tensorfile_finish(w, NULL, t_err()));
    T_OK(sha256_file(f->fs, "disk/any/rows", sha, t_err()));
    sluice__v1__source_file__init(file);
    file->folder = (char *)"disk/any";
    file->file = (char *)"rows";
    file->sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
    file->weights = true;
    file->table = (char *)"users";
    f->list[0] = file;
    f->count = 1;
}

// A shard with two tables.
static void rows_kit(struct kit *k, uint32_t shard, uint64_t max_rows)
{
    begin_kit(k, shard);
    add(k, "bias", bias);
    kit_table(k, "items", 5);
    kit_table(k, "users", ROW_DIM)->max_rows = max_rows;
}

TEST(source, rows_of_a_file_go_to_the_shards_of_their_buckets)
{
    struct rowset_counts counts;
    uint64_t rows = 0;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    number_rows();
    rows_file(&f, TENSOR_U64, ROW_DIM);
    for (uint32_t shard = 0; shard < 4; shard++) {
        struct rowset *users;

        rows_kit(&k, shard, 0);
        T_OK(resume(&f, &k, &s, t_err()));
        users = s->tables.sets[1];
        for (size_t i = 0; i < ROWS; i++) {
            float row[ROW_DIM], none[ROW_DIM] = {0};
            bool own = rowset_own(users, 1, &row_ids[i]) == 1;

            T_OK(rowset_read(users, 1, &row_ids[i], row, t_err()));
            T_MEM(row, own ? row_values[i] : none, sizeof(row));
        }
        rowset_counts(users, &counts);
        rows += counts.rows;
        rowset_counts(s->tables.sets[0], &counts);
        T_EQ(counts.rows, 0);
        T_EQ(counted_steps(&s->once.counted), 0);
        T_EQ(s->from.incarnation, 0); // it stands where the seed stood (K7)
        shard_unref(s);
    }
    T_EQ(rows, ROWS);
    files_release(&f);
}

TEST(source, rows_that_do_not_fit_are_refused_and_named)
{
    static const struct {
        enum tensor_dtype type;
        uint64_t dim, most;
        const char *text;
    } odd[] = {{TENSOR_I64, 3, 0, "tensor 'ids' is I64"},
               {TENSOR_U64, 1, 0, "3000 ids and values of 9000 rows"},
               {TENSOR_U64, 3, 1000, "part of evict.max_rows is 250"}};
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    number_rows();
    for (size_t i = 0; i < SL_COUNT(odd); i++) {
        rows_file(&f, odd[i].type, odd[i].dim);
        rows_kit(&k, 1, odd[i].most);
        T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
        T_HAS(err.text, "cannot start with the weights of disk/any/rows: ");
        T_HAS(err.text, "table users: ");
        T_HAS(err.text, odd[i].text);
    }
    rows_file(&f, TENSOR_U64, ROW_DIM);
    rows_kit(&k, 1, 0);
    k.table_list[1]->dim = 4;
    T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
    T_HAS(err.text, "its rows have 3 values, the table's dim is 4");
    f.file[0].table = (char *)"user";
    rows_kit(&k, 1, 0);
    T_FAILS(SL_EINVAL, resume(&f, &k, &s, &err));
    T_HAS(err.text, "table user: the job has no such table");
    row_values[2000][1] = NAN;
    row_ids[10] = row_ids[9];
    rows_file(&f, TENSOR_U64, ROW_DIM);
    for (unsigned refused = 0, shard = 0; shard < 4; shard++) {
        rows_kit(&k, shard, 0);
        if (resume(&f, &k, &s, &err) == SL_OK)
            shard_unref(s);
        else
            refused++;
        T_TRUE(shard < 3 || (refused >= 1 && refused <= 2));
    }
    files_release(&f);
}

// Rows that find no memory are not a reason to give the job up: the shard is
// loaded when there is some.
TEST(source, rows_of_a_file_take_of_the_memory_of_rows)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s;
    struct files f;
    struct kit k;

    files_init(&f);
    number_rows();
    rows_file(&f, TENSOR_U64, ROW_DIM);
    rows_kit(&k, 1, 0);
    row_memory_set(16384, 0);
    T_FAILS(SL_ENOMEM, resume(&f, &k, &s, &err));
    T_HAS(err.text, "no memory for another row");
    row_memory_set(0, 0);
    T_OK(resume(&f, &k, &s, t_err()));
    shard_unref(s);
    files_release(&f);
}

// ---- weights: what a stranger may name

static const uint64_t keras_shape[2] = {5, 8};

struct bed {
    struct files files;
    struct kit kit;
    struct roots *roots; // "in"
    char *in, *out;      // folders; the weights lie in "in"
    struct snap_from from;
};

static void bed_init(struct bed *b)
{
    memset(b, 0, sizeof(*b));
    b->files.fs = fs_posix();
    b->in = sl_strdup(t_path("in"));
    b->out = sl_strdup(t_path("out"));
    weights_file_in(&b->files, b->in, keras_shape, true);
    T_OK(fs_mkdirs(fs_posix(), b->out, t_err()));
    T_OK(roots_new(&b->roots, "psserver", "--weights-root", t_err()));
    T_OK(roots_add(b->roots, b->in, t_err()));
    b->from =
        (struct snap_from){.fs = fs_posix(), .store = "", .weights = b->roots};
    weights_kit(&b->kit, 0, 8);
}

static void bed_release(struct bed *b)
{
    roots_free(b->roots);
    sl_free(b->in);
    sl_free(b->out);
}

static enum sl_err bed_load(struct bed *b, const char *folder, const char *file,
                            struct sl_error *err)
{
    struct shard *s = NULL;
    enum sl_err rc;

    b->files.file[0].folder = (char *)folder;
    b->files.file[0].file = (char *)file;
    rc = resume_from(&b->files, &b->kit, &b->from, &s, err);
    shard_unref(s);
    return rc;
}

static const char *in_bed(const char *folder, const char *file)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return path;
}

TEST(source, weights_are_regular_files_below_the_roots_and_nothing_else)
{
    struct sl_error there = SL_ERROR_INIT, missing = SL_ERROR_INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct bed b;

    bed_init(&b);
    T_OK(bed_load(&b, b.in, "model.safetensors", t_err()));
    T_EQ(mkfifo(in_bed(b.in, "fifo"), 0600), 0);
    T_FAILS(SL_EDENIED, bed_load(&b, b.in, "fifo", &err)); // nor waits for it
    T_HAS(err.text, "is a FIFO");
    T_EQ(link(in_bed(b.in, "model.safetensors"), t_path("out/m")), 0);
    T_EQ(symlink("../out/m", in_bed(b.in, "leads-out")), 0);
    T_FAILS(SL_EDENIED, bed_load(&b, b.in, "leads-out", &err));
    T_FAILS(SL_EDENIED, bed_load(&b, "/dev", "zero", &err));
    T_FAILS(SL_EDENIED, bed_load(&b, b.out, "m", &there));
    T_FAILS(SL_EDENIED, bed_load(&b, b.out, "n", &missing));
    T_HAS(there.text, "lies elsewhere");
    *strstr(there.text, "/out/m") = *strstr(missing.text, "/out/n") = '\0';
    T_STR(there.text, missing.text);
    b.from.weights = roots_all();
    T_FAILS(SL_EDENIED, bed_load(&b, "/dev", "zero", &err));
    T_FAILS(SL_EDENIED, bed_load(&b, "/proc/self", "environ", &err));
    T_OK(bed_load(&b, b.out, "m", t_err()));
    bed_release(&b);
}

TEST(source, why_weights_cannot_be_read_may_be_for_the_log_alone)
{
    static const struct {
        const char *folder, *file, *secret;
    } all[] = {{"/", "nothing-is-here", "does not exist"},
               {"/etc", "passwd", "SHA-256"},
               {"/dev", "zero", "is a device"},
               {"/etc", "ssl", "is a folder"}};
    struct sl_error secret = SL_ERROR_INIT, err = SL_ERROR_INIT;
    struct bed b;

    bed_init(&b);
    b.from.weights = roots_all();
    b.from.secret = &secret;
    for (size_t i = 0; i < SL_COUNT(all); i++) {
        T_FAILS(SL_EDENIED, bed_load(&b, all[i].folder, all[i].file, &err));
        T_HAS(err.text, "this host cannot read it, or it is not the file");
        T_HAS(secret.text, all[i].secret);
    }
    add_mean(&b.kit); // but of the file that was submitted all is said
    T_FAILS(SL_EINVAL, bed_load(&b, b.in, "model.safetensors", &err));
    T_HAS(err.text, "no tensor 'mean'");
    bed_release(&b);
}

static bool after(void *arg)
{
    unsigned *looks = arg;

    return (*looks)-- == 0;
}

TEST(source, reading_weights_has_an_end)
{
    struct sl_error err = SL_ERROR_INIT, hidden = SL_ERROR_INIT;
    unsigned looks;
    struct bed b;

    bed_init(&b);
    b.from.stopped = after;
    b.from.arg = &looks;
    for (unsigned i = 0; i < 3; i++) {
        looks = i;
        T_FAILS(SL_ECANCELED, bed_load(&b, b.in, "model.safetensors", &err));
    }
    b.from.secret = &hidden; // that it was stopped is no secret
    looks = 0;
    T_FAILS(SL_ECANCELED, bed_load(&b, b.in, "model.safetensors", &err));
    b.from.secret = NULL;
    looks = 3;
    T_OK(bed_load(&b, b.in, "model.safetensors", t_err()));
    b.files.file[0].most_bytes = 1000;
    T_EQ(truncate(in_bed(b.in, "model.safetensors"), (off_t)1 << 40), 0);
    looks = 0; // nothing of it is read
    T_FAILS(SL_ERANGE, bed_load(&b, b.in, "model.safetensors", &err));
    T_HAS(err.text, "the limit is 1000 bytes");
    bed_release(&b);
}

// When it was hashed, before anything of it is taken.
static bool cut_short(void *arg)
{
    static unsigned looks;

    if (++looks == 2)
        T_EQ(truncate(arg, 300), 0);
    return false;
}

TEST(source, weights_that_are_cut_short_while_they_are_read_end_nothing)
{
    struct sl_error err = SL_ERROR_INIT;
    struct bed b;

    bed_init(&b);
    b.from.stopped = cut_short;
    b.from.arg = (void *)in_bed(b.in, "model.safetensors");
    T_FAILS(SL_ECORRUPT, bed_load(&b, b.in, "model.safetensors", &err));
    T_HAS(err.text, "cut short while it was read");
    bed_release(&b);
}
