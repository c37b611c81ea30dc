// SPDX-License-Identifier: Apache-2.0
// The sparse tables of a shard: a step's rows in its push, reads, snapshots.
// SGD at rate 1 from a constant, with gradients that are whole numbers.
#include "state/shard/shard_tables.h"

#include "common/base/mem.h"
#include "kernels/quant.h"
#include "plan/tables.h"
#include "state/snap/snap.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

enum { DIM = 3, IDS = 40, ELEMENTS = 47, TABLES = 2 };
#define FIRST KIT_FIRST

// A shard that has two tables, the second with min_count 2. Rows that more than
// `unused_steps` updates left alone go; 0: none go.
static struct shard *shard_that_forgets(struct kit *k, uint64_t unused_steps)
{
    struct shard *s = NULL;
    struct plan plan;

    T_ASSERT(plan_read(&plan, &k->spec, NULL) == SL_OK);
    plan.tables = sl_calloc(TABLES, sizeof(*plan.tables));
    T_ASSERT(plan.tables != NULL);
    plan.table_count = TABLES;
    plan.tables[0] = kit_plan_table("users", &plan, 0, DIM);
    plan.tables[1] = kit_plan_table("tags", &plan, 1, DIM);
    plan.tables[1].spec.min_count = 2;
    for (size_t i = 0; i < TABLES; i++)
        plan.tables[i].spec.unused_steps = unused_steps;
    T_ASSERT(shard_new(&s, &plan) == SL_OK);
    return s;
}

static struct shard *shard_with_tables(struct kit *k)
{
    return shard_that_forgets(k, 0);
}

// Makes a kit, and a shard of it that takes pushes.
static struct shard *admitted_with_tables(struct kit *k)
{
    struct shard *s;

    kit_init(k);
    s = shard_with_tables(k);
    shard_admit(s, 1);
    return s;
}

// A payload of gradients of 1 and, behind them, blocks of `n` ids of each table
// with gradients of `grad`.
struct with_rows {
    uint8_t bytes[4 * ELEMENTS + TABLES * (16 + IDS * 8 + IDS * DIM * 4 + 8)];
    uint64_t ids[IDS];
    struct sl_slice one;
};

static size_t put_blocks(struct with_rows *w, uint8_t *to, size_t n, float grad,
                         bool elements)
{
    uint8_t *at = to;

    qsort(w->ids, n, sizeof(w->ids[0]), kit_ids_by_hash);
    for (uint32_t t = 0; t < TABLES && n > 0; t++) {
        at = table_rows_head(at, t, (uint32_t)n, WIRE_F32);
        memcpy(at, w->ids, n * 8);
        at += n * 8;
        for (size_t i = 0; elements && i < n * DIM; i++)
            memcpy(at + 4 * i, &grad, 4);
        at += elements ? table_rows_elements_bytes((uint32_t)n, DIM, WIRE_F32)
                       : 0;
    }
    return (size_t)(at - to);
}

static struct wire_push push_rows(struct with_rows *w, uint32_t step, size_t n,
                                  float grad)
{
    struct wire_push push = kit_push(0, step, NULL);
    struct sl_slices all;
    float one = 1;

    memset(w->bytes, 0, sizeof(w->bytes));
    for (size_t i = 0; i < ELEMENTS; i++)
        memcpy(w->bytes + 4 * i, &one, 4);
    push.skip = false;
    push.rows_bytes = put_blocks(w, w->bytes + 4 * ELEMENTS, n, grad, true);
    w->one =
        (struct sl_slice){w->bytes, 4 * ELEMENTS + (size_t)push.rows_bytes};
    all = slices_one(&w->one);
    T_OK(slices_sub(&push.payload, &all, 0, 4 * ELEMENTS));
    T_OK(slices_sub(&push.rows, &all, 4 * ELEMENTS, (size_t)push.rows_bytes));
    return push;
}

// The first element of the rows of w->ids[n] in both tables: as they are, or in
// a snapshot.
static void read_rows_of(struct shard *s, const struct tagged_file *file,
                         struct with_rows *w, size_t n, float *users,
                         float *tags)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    size_t bytes, want = table_rows_elements_bytes((uint32_t)n, DIM, WIRE_F32);
    struct wire_pull_reply reply;
    uint8_t *out;

    w->one = (struct sl_slice){w->bytes, put_blocks(w, w->bytes, n, 0, false)};
    pull.payload = slices_one(&w->one);
    if (file == NULL)
        T_OK(shard_pull_rows(s, &pull, &reply, &out, &bytes, t_err()));
    else
        T_OK(shard_pull_tagged_rows(s, file, &pull, &out, &bytes, t_err()));
    T_EQ(bytes, 2 * want);
    for (size_t i = 0; i < n; i++) {
        memcpy(&users[i], out + i * DIM * 4, 4);
        memcpy(&tags[i], out + want + i * DIM * 4, 4);
    }
    sl_free(out);
}

static void read_rows(struct shard *s, struct with_rows *w, size_t n,
                      float *users, float *tags)
{
    read_rows_of(s, NULL, w, n, users, tags);
}

static uint64_t rows_of(const struct shard *s, uint32_t table)
{
    struct rowset_counts counts;

    rowset_counts(s->tables.sets[table], &counts);
    return counts.rows;
}

static void counted(struct shard *s, const struct wire_push *push,
                    enum wire_push_result want)
{
    struct wire_push_reply reply;

    T_OK(shard_push(s, push, &reply, NULL, t_err()));
    T_EQ(reply.result, want);
}

static struct with_rows w;

static void number_ids(size_t n)
{
    for (size_t i = 0; i < n; i++)
        w.ids[i] = i;
}

TEST(shard_tables, T1_a_step_s_rows_are_counted_with_it)
{
    float users[IDS], tags[IDS];
    struct wire_push push;
    struct shard *s;
    struct kit k;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    counted(s, &push, WIRE_PUSH_DUPLICATE);
    T_EQ(rows_of(s, 0), IDS);
    T_EQ(rows_of(s, 1), 0); // counted once each
    push = push_rows(&w, 1, 0, 0);
    counted(s, &push, WIRE_PUSH_COUNTED);
    push = push_rows(&w, 2, 5, 3);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_EQ(once_version(&s->once), 3);
    T_EQ(rows_of(s, 1), 5);
    read_rows(s, &w, 5, users, tags);
    for (size_t i = 0; i < 5; i++) {
        T_EQ(users[i], FIRST - 2 - 3);
        T_EQ(tags[i], FIRST - 3);
    }
    shard_unref(s);
}

// What /metrics of a psserver shows.
TEST(shard_tables, all_tables_are_counted_together)
{
    struct wire_push push;
    struct shard_brief brief;
    struct shard *s;
    struct kit k;
    uint64_t before;

    s = admitted_with_tables(&k);
    T_TRUE(shard_brief(s, true, &brief));
    before = brief.tables.bytes;
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.tables.rows, IDS);
    T_EQ(brief.tables.waiting, IDS); // a tag wants two updates
    T_EQ(brief.tables.admitted, IDS);
    T_EQ(brief.tables.unadmitted, IDS);
    T_TRUE(brief.tables.bytes >= before + IDS * (16 + 4 * DIM) + IDS * 16);
    shard_unref(s);
}

TEST(shard_tables, T1_a_skipped_step_has_no_rows)
{
    struct wire_push push = kit_push(0, 0, NULL);
    struct shard *s;
    struct kit k;

    s = admitted_with_tables(&k);
    push.skip = true;
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_EQ(rows_of(s, 0), 0);
    T_EQ(once_version(&s->once), 0);
    shard_unref(s);
}

// S4: neither the step nor any other row of it is counted.
TEST(shard_tables, T3_a_push_is_refused_as_a_whole)
{
    struct wire_push_reply reply;
    struct wire_push push;
    struct shard *s;
    struct kit k;
    uint8_t *second;
    float bad = INFINITY;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    second = w.bytes + 4 * ELEMENTS + push.rows_bytes / 2;
    memcpy(second + 16, second + 24, 8); // an id twice, in the second table
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, t_err()));
    push = push_rows(&w, 0, IDS, 2);
    memcpy(second + 16 + IDS * 8, &bad, 4);
    T_FAILS(SL_ENUMERIC, shard_push(s, &push, &reply, NULL, t_err()));
    push = push_rows(&w, 0, IDS, 2);
    push.rows.bytes -= 8;
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(rows_of(s, 0), 0);
    T_EQ(counted_steps(&s->once.counted), 0);
    push = push_rows(&w, 0, IDS, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    shard_unref(s);
}

// Rows in 8 bits: each is applied as what its bytes stand for, and a scale that
// is none makes the step one that is not finite. What is read is rounded for
// its way alone.
TEST(shard_tables, rows_may_come_and_go_in_8_bits)
{
    static const float grad[DIM] = {127, 1.5f, -3};
    static const float bad[] = {INFINITY, NAN, -1};
    uint8_t block[TABLE_ROWS_HEAD + 8 + 16] = {0}, *out;
    struct sl_slice one = {block, sizeof(block)};
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_push_reply reply;
    struct wire_pull_reply pulled;
    float user[DIM], exact, tag;
    struct shard *s;
    struct kit k;
    size_t bytes;

    s = admitted_with_tables(&k);
    number_ids(1);
    quant_narrow(DIM, grad, table_rows_head(block, 0, 1, WIRE_INT8) + 8);
    push = push_rows(&w, 0, 0, 0);
    push.rows_bytes =
        TABLE_ROWS_HEAD + 8 + table_rows_elements_bytes(1, DIM, WIRE_INT8);
    one.len = (size_t)push.rows_bytes;
    push.rows = slices_one(&one);
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        uint8_t was[4];

        memcpy(was, block + TABLE_ROWS_HEAD + 8, 4);
        memcpy(block + TABLE_ROWS_HEAD + 8, &bad[i], 4);
        T_FAILS(SL_ENUMERIC, shard_push(s, &push, &reply, NULL, t_err()));
        T_EQ(rows_of(s, 0), 0);
        memcpy(block + TABLE_ROWS_HEAD + 8, was, 4);
    }
    counted(s, &push, WIRE_PUSH_COUNTED);
    read_rows(s, &w, 1, &exact, &tag);
    T_EQ(exact, FIRST - 127);
    table_rows_head(block, 0, 1, WIRE_INT8);
    one.len = TABLE_ROWS_HEAD + 8;
    pull.payload = slices_one(&one);
    T_OK(shard_pull_rows(s, &pull, &pulled, &out, &bytes, t_err()));
    T_EQ(bytes, table_rows_elements_bytes(1, DIM, WIRE_INT8));
    quant_widen(DIM, out, user);
    sl_free(out);
    T_NEAR(user[0], FIRST - 127, 1e-4);
    T_NEAR(user[1], FIRST - 2, 0.51); // 1.5 is as near to 1 as to 2
    T_NEAR(user[2], FIRST + 3, 0.51);
    shard_unref(s);
}

// A job without tables takes no rows, and answers none.
TEST(shard_tables, a_shard_without_tables_refuses_rows)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_push_reply reply;
    struct wire_pull_reply pulled;
    struct wire_push push;
    struct shard *s;
    uint8_t *out;
    size_t bytes;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, t_err()));
    pull.payload = push.rows;
    T_FAILS(SL_EINVAL,
            shard_pull_rows(s, &pull, &pulled, &out, &bytes, t_err()));
    shard_unref(s);
}

TEST(shard_tables, T2_a_read_makes_no_row)
{
    float users[IDS], tags[IDS];
    struct shard *s;
    struct kit k;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    read_rows(s, &w, IDS, users, tags);
    for (size_t i = 0; i < IDS; i++)
        T_TRUE(users[i] == FIRST && tags[i] == FIRST);
    T_EQ(rows_of(s, 0) + rows_of(s, 1), 0);
    shard_unref(s);
}

// Loads the newest snapshot into a new shard with the same tables.
static struct shard *loaded(struct fs *fs, struct kit *k, struct wire_tag tag)
{
    struct shard *s = shard_with_tables(k);

    T_OK(snap_read(fs, "d", tag, tag, s, t_err()));
    shard_admit(s, 2);
    return s;
}

TEST(shard_tables, T6_a_snapshot_has_rows_and_waiting_ids_of_its_instant)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    float users[IDS], tags[IDS];
    struct shard_image image;
    struct snap_written out;
    struct shard *s, *back;
    struct wire_push push;
    struct kit k;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS / 2, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_OK(shard_freeze(s, 1, &image, t_err()));
    push = push_rows(&w, 1, IDS, 100); // not of the instant
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_OK(snap_write_image(fs, "d", &image, &out, t_err()));
    shard_image_release(&image);
    back = loaded(fs, &k, out.tag);
    T_EQ(once_version(&back->once), 1);
    T_EQ(rows_of(back, 0), IDS / 2);
    T_EQ(rows_of(back, 1), 0);
    // The lost step again: each tag is counted a second time, and admitted.
    number_ids(IDS);
    push = push_rows(&w, 1, IDS / 2, 3);
    push.incarnation = 2;
    counted(back, &push, WIRE_PUSH_COUNTED);
    T_EQ(rows_of(back, 1), IDS / 2);
    read_rows(back, &w, IDS / 2, users, tags);
    for (size_t i = 0; i < IDS / 2; i++) {
        T_EQ(users[i], FIRST - 2 - 3);
        T_EQ(tags[i], FIRST - 3);
    }
    snap_written_release(&out);
    shard_unref(s);
    shard_unref(back);
    crash_fs_free(disk);
}

// Makes a shard that has two tables and no variables.
static struct shard *shard_of_rows_alone(struct kit *k)
{
    static const char *const names[] = {"users", "tags"};
    struct shard *s = NULL;
    struct plan plan;

    kit_init(k);
    k->spec.n_pieces = 0;
    for (uint32_t i = 0; i < TABLES; i++)
        kit_table(k, names[i], DIM);
    T_ASSERT(plan_read(&plan, &k->spec, NULL) == SL_OK);
    for (uint32_t i = 0; i < TABLES; i++) {
        sl_free(plan.tables[i].name);
        plan.tables[i] = kit_plan_table(names[i], &plan, i, DIM);
    }
    T_ASSERT(shard_new(&s, &plan) == SL_OK);
    return s;
}

TEST(shard_tables, a_shard_may_have_rows_alone)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    float users[IDS], tags[IDS];
    struct wire_pull_reply reply;
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct tagged_file *file;
    struct wire_push push;
    struct shard *s, *back;
    struct sl_slices all;
    struct wire_tag tag;
    struct kit k;

    s = shard_of_rows_alone(&k);
    shard_admit(s, 1);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    all = push.payload;
    T_OK(slices_sub(&push.payload, &all, 0, 0));
    counted(s, &push, WIRE_PUSH_COUNTED);
    counted(s, &push, WIRE_PUSH_DUPLICATE);
    push = push_rows(&w, 1, IDS, 2); // with elements that it does not have
    T_FAILS(SL_EINVAL,
            shard_push(s, &push, &(struct wire_push_reply){0}, NULL, t_err()));
    T_OK(shard_pull(s, &pull, &reply, &tag, t_err()));
    tag = kit_snap(fs, "d", s);
    T_OK(snap_values(fs, "d", &s->plan, tag, &file, t_err()));
    T_EQ(file->bytes, 0);
    read_rows_of(s, file, &w, IDS, users, tags);
    T_EQ(users[0], FIRST - 2);
    tagged_file_unref(file);
    shard_unref(s);
    back = shard_of_rows_alone(&k);
    T_OK(snap_read(fs, "d", tag, tag, back, t_err()));
    shard_admit(back, 2);
    T_EQ(once_version(&back->once), 1);
    read_rows(back, &w, IDS, users, tags);
    for (size_t i = 0; i < IDS; i++)
        T_EQ(users[i] + tags[i], 2 * (FIRST - 2));
    shard_unref(back);
    s = admitted_with_tables(&k); // it has elements, and wants a payload
    push = push_rows(&w, 0, IDS, 2);
    all = push.payload;
    T_OK(slices_sub(&push.payload, &all, 0, 0));
    T_FAILS(SL_EINVAL,
            shard_push(s, &push, &(struct wire_push_reply){0}, NULL, t_err()));
    shard_unref(s);
    crash_fs_free(disk);
}

// Each of eight buckets is examined by an update that touches no row.
TEST(shard_tables, rows_of_a_snapshot_are_read_while_pushes_go_on)
{
    float users[IDS], tags[IDS];
    struct shard_image image;
    struct tagged_file *file;
    struct snap_written out;
    struct wire_pull pull = {.job = 7};
    struct wire_push push;
    struct shard *s;
    struct kit k;
    uint8_t *bytes;
    size_t n;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS / 2, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_OK(shard_freeze(s, 1, &image, t_err()));
    T_OK(snap_write_image(fs_posix(), t_tmpdir(), &image, &out, t_err()));
    shard_image_release(&image);
    push = push_rows(&w, 1, IDS, 100);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_OK(
        snap_values(fs_posix(), t_tmpdir(), &s->plan, out.tag, &file, t_err()));
    read_rows_of(s, file, &w, IDS, users, tags);
    for (size_t i = 0; i < IDS; i++) {
        T_EQ(users[i], w.ids[i] < IDS / 2 ? FIRST - 2 : FIRST);
        T_EQ(tags[i], FIRST); // they wait
    }
    w.one = (struct sl_slice){w.bytes, 24};
    memset(w.bytes, 0xff, 24);
    pull.payload = slices_one(&w.one);
    T_FAILS(SL_EINVAL,
            shard_pull_tagged_rows(s, file, &pull, &bytes, &n, t_err()));
    tagged_file_unref(file);
    snap_written_release(&out);
    shard_unref(s);
}

TEST(shard_tables, T5_rows_go_behind_a_step_that_touches_none)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct shard_image image;
    struct snap_written out;
    struct shard *s, *back;
    struct wire_push push;
    struct kit k;

    kit_init(&k);
    s = shard_that_forgets(&k, 1);
    shard_admit(s, 1);
    number_ids(IDS);
    push = push_rows(&w, 0, IDS, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    T_OK(shard_freeze(s, 1, &image, t_err()));
    for (uint32_t i = 1; i < 10; i++) {
        push = push_rows(&w, i % 4, 0, 0);
        push.closure = i / 4;
        counted(s, &push, WIRE_PUSH_COUNTED);
    }
    T_EQ(rows_of(s, 0), 0);
    T_OK(snap_write_image(fs, "d", &image, &out, t_err()));
    shard_image_release(&image);
    back = loaded(fs, &k, out.tag);
    T_EQ(rows_of(back, 0), IDS); // they are of the instant
    snap_written_release(&out);
    shard_unref(s);
    shard_unref(back);
    crash_fs_free(disk);
}

// ---- the memory of rows

static struct sl_error wrong;

// S4: neither the step nor a row of it is counted, and the step may come again.
TEST(shard_tables, a_push_without_memory_for_its_rows_is_refused_as_a_whole)
{
    float users[IDS], tags[IDS];
    struct wire_push_reply reply;
    struct wire_push push;
    struct shard *s;
    struct kit k;

    s = admitted_with_tables(&k);
    number_ids(IDS);
    push = push_rows(&w, 0, 5, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    row_memory_set(s->tables.account->bytes, 0);
    number_ids(IDS);
    push = push_rows(&w, 1, IDS, 2);
    T_FAILS(SL_ERANGE, shard_push(s, &push, &reply, NULL, &wrong));
    T_HAS(wrong.text, "table users: no memory for another row");
    T_HAS(wrong.text, "evict.max_rows");
    T_EQ(counted_steps(&s->once.counted), 1);
    T_TRUE(s->memory.values[0] == -1);
    push = push_rows(&w, 1, 0, 0);
    counted(s, &push, WIRE_PUSH_COUNTED);
    row_memory_set(0, 0);
    number_ids(IDS);
    push = push_rows(&w, 2, IDS, 2);
    counted(s, &push, WIRE_PUSH_COUNTED);
    read_rows(s, &w, IDS, users, tags);
    for (size_t i = 0; i < IDS; i++)
        T_EQ(users[i], FIRST - 2 - (w.ids[i] < 5 ? 2 : 0));
    shard_unref(s);
}

static void passed_over(void *arg, const char *file, const struct sl_error *why)
{
    (void)arg;
    T_FAIL("%s is passed over: %s", file, why->text);
}

// No older snapshot is taken instead, and the newest is loaded when it fits.
TEST(shard_tables, a_snapshot_whose_rows_do_not_fit_is_not_loaded)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct shard_image image;
    struct snap_written out;
    struct shard *s, *back;
    struct wire_push push;
    uint64_t empty;
    struct kit k;

    s = admitted_with_tables(&k);
    empty = s->tables.account->bytes;
    for (uint32_t step = 0; step < 2; step++) {
        number_ids(IDS);
        push = push_rows(&w, step, step == 0 ? 1 : IDS, 2);
        counted(s, &push, WIRE_PUSH_COUNTED);
        T_OK(shard_freeze(s, 1, &image, t_err()));
        T_OK(snap_write_image(fs, "d", &image, &out, t_err()));
        shard_image_release(&image);
        snap_written_release(&out);
    }
    shard_unref(s);
    back = shard_with_tables(&k);
    row_memory_set(empty + 10 * rowset_stride(back->tables.sets[0]), 0);
    T_FAILS(SL_ENOMEM, snap_load(fs, "d", (struct wire_tag){1, 1}, false, back,
                                 passed_over, NULL, &wrong));
    T_HAS(wrong.text, "table users with 40 records: no memory for another row");
    T_HAS(wrong.text, "--rows-memory");
    shard_unref(back);
    row_memory_set(0, 0);
    back = shard_with_tables(&k);
    T_OK(snap_load(fs, "d", (struct wire_tag){1, 1}, false, back, passed_over,
                   NULL, t_err()));
    T_EQ(rows_of(back, 0), IDS);
    shard_unref(back);
    crash_fs_free(disk);
}
