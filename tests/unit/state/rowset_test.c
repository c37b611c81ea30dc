// SPDX-License-Identifier: Apache-2.0
// Sets of rows: one test for each promise of rowset.h. rowset_model_test.c
// compares whole lives with a model.
#include "common/base/mem.h"

#include "tests/unit/state/rowset_kit.h"

static struct kit_dump before, after;
static struct sl_error wrong;

static void read_one(struct rowset *r, uint64_t id, float *values)
{
    T_OK(rowset_read(r, 1, &id, values, t_err()));
}

static uint64_t rows_of(const struct rowset *r)
{
    struct rowset_counts c;

    rowset_counts(r, &c);
    return c.rows;
}

// ---- T2

TEST(rowset, T2_a_read_makes_nothing)
{
    struct rowset_spec spec = kit_spec(8);
    float first[40][KIT_DIM], again[40][KIT_DIM];
    uint64_t ids[40];
    struct rowset *r;

    spec.initial = (struct initial){SLUICE__V1__INIT_KIND__INIT_UNIFORM, -1, 1};
    spec.min_count = 2;
    r = kit_new(&spec);
    for (uint64_t i = 0; i < 40; i++)
        ids[i] = i * 1000003;
    T_OK(rowset_read(r, 40, ids, first[0], t_err()));
    kit_push_range(r, 1, 0, 500); // none of these ids but 0
    for (unsigned times = 0; times < 3; times++)
        T_OK(rowset_read(r, 40, ids, again[0], t_err()));
    T_EQ(rows_of(r), 0); // that would be the second use of id 0
    T_MEM(first, again, sizeof(first));
    kit_push_range(r, 2, 1, 500);
    T_OK(rowset_read(r, 40, ids, again[0], t_err()));
    T_MEM(first, again, sizeof(first));
    T_EQ(rows_of(r), 500);
    rowset_free(r);
}

// Two shards, of which one has the row's bucket, and two processes read alike;
// another table and another seed differ.
TEST(rowset, T2_all_read_the_same_of_an_id_without_a_row)
{
    struct rowset_spec spec = kit_spec(16);
    float one[KIT_DIM], other[KIT_DIM];
    struct rowset *r, *s;

    spec.initial = (struct initial){SLUICE__V1__INIT_KIND__INIT_NORMAL, 0, 1};
    r = kit_new(&spec);
    spec.shards = 4;
    spec.shard = 3;
    s = kit_new(&spec);
    for (uint64_t id = 0; id < 100; id++) {
        read_one(r, id, one);
        read_one(s, id, other);
        T_MEM(one, other, sizeof(one));
    }
    rowset_free(s);
    spec.table++;
    s = kit_new(&spec);
    read_one(s, 5, one);
    read_one(r, 5, other);
    T_TRUE(memcmp(one, other, sizeof(one)) != 0);
    rowset_free(s);
    rowset_free(r);
}

TEST(rowset, T2_a_row_begins_with_what_was_read)
{
    struct rowset_spec spec = kit_spec(4);
    float was[KIT_DIM], is[KIT_DIM];
    struct rowset *r;

    spec.initial = (struct initial){SLUICE__V1__INIT_KIND__INIT_UNIFORM, 0, 1};
    r = kit_new(&spec);
    read_one(r, 77, was);
    kit_push_range(r, 1, 77, 77);
    read_one(r, 77, is);
    for (unsigned k = 0; k < KIT_DIM; k++)
        T_TRUE(is[k] == was[k] - kit_gradient(77, 1, k));
    rowset_free(r);
}

// ---- T3

TEST(rowset, T3_ids_rise_by_hash_and_stand_once)
{
    struct rowset_spec spec = kit_spec(8);
    uint64_t ids[3] = {10, 20, 30}, swapped[3];
    float grads[3 * KIT_DIM] = {0};
    struct rowset *r = kit_new(&spec);

    qsort(ids, 3, sizeof(*ids), kit_by_hash);
    T_OK(rowset_check(r, 3, ids, WIRE_F32, grads, t_err()));
    memcpy(swapped, (uint64_t[]){ids[0], ids[2], ids[1]}, sizeof(ids));
    T_FAILS(SL_EINVAL, rowset_check(r, 3, swapped, WIRE_F32, grads, &wrong));
    T_HAS(wrong.text, "table 3: id ");
    memcpy(swapped, (uint64_t[]){ids[0], ids[1], ids[1]}, sizeof(ids));
    T_FAILS(SL_EINVAL, rowset_check(r, 3, swapped, WIRE_F32, grads, &wrong));
    T_HAS(wrong.text, "twice");
    T_OK(rowset_check(r, 0, NULL, WIRE_F32, NULL, t_err()));
    rowset_free(r);
}

TEST(rowset, T3_an_id_of_another_shard_is_refused)
{
    struct rowset_spec spec = kit_spec(16);
    struct rowset *r[5];
    unsigned owners;

    spec.shards = 5;
    for (spec.shard = 0; spec.shard < 5; spec.shard++)
        r[spec.shard] = kit_new(&spec);
    for (uint64_t id = 0; id < 200; id++) {
        owners = 0;
        for (unsigned i = 0; i < 5; i++)
            owners +=
                rowset_check(r[i], 1, &id, WIRE_F32, NULL, &wrong) == SL_OK;
        T_EQ(owners, 1);
        T_HAS(wrong.text, "is of shard");
    }
    for (unsigned i = 0; i < 5; i++)
        rowset_free(r[i]);
}

TEST(rowset, T3_a_gradient_that_is_not_finite_is_refused_by_name)
{
    struct rowset_spec spec = kit_spec(8);
    uint64_t ids[2] = {10, 20};
    float grads[2 * KIT_DIM] = {0};
    struct rowset *r = kit_new(&spec);
    char want[64];

    qsort(ids, 2, sizeof(*ids), kit_by_hash);
    grads[KIT_DIM + 1] = -1.0f / 0.0f;
    T_FAILS(SL_ENUMERIC, rowset_check(r, 2, ids, WIRE_F32, grads, &wrong));
    snprintf(want, sizeof(want), "the gradient of id %d is not finite",
             (int)ids[1]);
    T_HAS(wrong.text, want);
    T_EQ(rows_of(r), 0);
    rowset_free(r);
}

// ---- T4

TEST(rowset, T4_an_id_is_counted_once_for_each_update)
{
    struct rowset_spec spec = kit_spec(8);
    uint64_t id = 42;
    struct rowset_counts c;
    struct rowset *r;
    float v[KIT_DIM];

    spec.min_count = 3;
    r = kit_new(&spec);
    for (uint32_t version = 1; version <= 3; version++) {
        rowset_counts(r, &c);
        T_EQ(c.rows, 0);
        T_EQ(c.waiting, version > 1);
        T_EQ(c.unadmitted, version - 1);
        for (unsigned times = 0; times < 5; times++) { // asked, but not applied
            read_one(r, id, v);
            T_TRUE(v[0] == 7 && v[1] == 7);
            T_OK(rowset_check(r, 1, &id, WIRE_F32, NULL, t_err()));
            T_OK(rowset_reserve(r, 1, &id));
        }
        kit_push_range(r, version, id, id);
    }
    rowset_counts(r, &c);
    T_EQ(c.rows, 1);
    T_EQ(c.waiting, 0);
    T_EQ(c.admitted, 1);
    T_EQ(c.unadmitted, 2);
    read_one(r, id, v); // the gradients before it was admitted changed nothing
    T_TRUE(v[0] == 7 - kit_gradient(id, 3, 0));
    rowset_free(r);
}

// Two shards of another past are pushed the same step, at other versions.
TEST(rowset, T4_a_step_that_is_done_again_tosses_the_same)
{
    struct rowset_spec spec = kit_spec(8);
    static uint64_t ids[1000];
    float *grads = sl_calloc(1000 * KIT_DIM, sizeof(float));
    struct rowset_step step = {
        .closure = 5, .step = 1, .version = 1, .rate = 1, .factor = 1};
    struct rowset *r, *s;

    spec.probability = 0.25;
    r = kit_new(&spec);
    s = kit_new(&spec);
    for (uint64_t i = 0; i < 1000; i++)
        ids[i] = i;
    qsort(ids, 1000, sizeof(*ids), kit_by_hash);
    T_OK(rowset_reserve(r, 1000, ids));
    rowset_apply(r, &step, 1000, ids, WIRE_F32, grads);
    T_TRUE(rows_of(r) > 200 && rows_of(r) < 300);
    step.version = 9;
    T_OK(rowset_reserve(s, 1000, ids));
    rowset_apply(s, &step, 1000, ids, WIRE_F32, grads);
    kit_dump(&before, r);
    kit_dump(&after, s);
    T_EQ(before.count[0], after.count[0]);
    for (size_t i = 0; i < before.count[0]; i++)
        T_MEM(before.rows[i], after.rows[i], 8); // the ids
    step.step++; // the next step tosses for the others
    step.version++;
    T_OK(rowset_reserve(s, 1000, ids));
    rowset_apply(s, &step, 1000, ids, WIRE_F32, grads);
    T_TRUE(rows_of(s) > 400 && rows_of(s) < 480);
    rowset_free(r);
    rowset_free(s);
    sl_free(grads);
}

// ---- T5

// Sets of the same records, which lie elsewhere and came another way, evict the
// same rows: the oldest are many, all of one update.
TEST(rowset, T5_which_rows_go_depends_on_the_records_alone)
{
    struct rowset_spec spec = kit_spec(2);
    struct rowset *r, *s;
    struct rowset_counts c;

    spec.max_rows = 1000;
    r = kit_new(&spec);
    kit_push_range(r, 1, 1, 600);
    kit_push_range(r, 2, 601, 1000);
    kit_dump(&before, r);
    s = kit_load(&spec, &before);
    for (uint32_t version = 3; version < 9; version++) {
        kit_push_range(r, version, version * 1000, version * 1000 + 99);
        kit_push_range(s, version, version * 1000, version * 1000 + 99);
    }
    T_EQ(rows_of(r), 1000);
    kit_dump(&before, r);
    kit_dump(&after, s);
    kit_same(&before, &after);
    rowset_counts(r, &c);
    T_EQ(c.evicted_full, 600);
    rowset_free(r);
    rowset_free(s);
}

TEST(rowset, T5_a_full_table_evicts_what_was_unused_for_long)
{
    struct rowset_spec spec = kit_spec(4);
    unsigned old = 0;
    struct rowset *r;

    spec.max_rows = 1000;
    r = kit_new(&spec);
    for (uint32_t i = 0; i < 10; i++)
        kit_push_range(r, 1 + i, 100 * i, 100 * i + 99);
    kit_push_range(r, 11, 5000, 5199);
    T_EQ(rows_of(r), 1000);
    kit_dump(&before, r);
    for (size_t i = 0; i < before.count[0]; i++)
        old += ((struct row_header *)(void *)before.rows[i])->changed <= 5;
    T_TRUE(old < 320); // were 500; at random 400 would be left
    rowset_free(r);
}

// A push of more new ids than there may be rows: those that come first get one,
// and no row that it changes goes.
TEST(rowset, T5_no_row_that_an_update_changes_makes_place)
{
    struct rowset_spec spec = kit_spec(4);
    struct rowset_counts c;
    struct rowset *r;
    float v[KIT_DIM];

    spec.max_rows = 50;
    r = kit_new(&spec);
    kit_push_range(r, 1, 0, 49);
    kit_push_range(r, 2, 0, 499);
    T_EQ(rows_of(r), 50);
    rowset_counts(r, &c);
    T_EQ(c.evicted_full, 0);
    T_EQ(c.unadmitted, 450);
    for (uint64_t id = 0; id < 50; id++) {
        read_one(r, id, v);
        T_TRUE(v[0] == 7 - kit_gradient(id, 1, 0) - kit_gradient(id, 2, 0));
    }
    rowset_free(r);
}

// An update has a turn of each bucket, also one that touches no row.
TEST(rowset, T5_rows_unused_for_long_go_with_updates)
{
    struct rowset_spec spec = kit_spec(8);
    struct rowset_counts c;
    struct rowset *r;
    uint32_t version = 1;

    spec.unused_steps = 20;
    spec.min_count = 2;
    r = kit_new(&spec);
    kit_push_range(r, version++, 0, 99);
    kit_push_range(r, version++, 0, 49); // rows; 50 to 99 wait
    while (version <= 21)
        kit_push_none(r, version++);
    T_EQ(rows_of(r), 50);
    while (version <= 29)
        kit_push_none(r, version++);
    rowset_counts(r, &c);
    T_EQ(c.waiting, 0);
    T_EQ(c.forgotten, 50);
    while (version <= 31)
        kit_push_none(r, version++);
    rowset_counts(r, &c);
    T_EQ(c.rows, 0);
    T_EQ(c.evicted_unused, 50);
    rowset_free(r);
}

TEST(rowset, T5_rows_of_a_small_norm_go)
{
    struct rowset_spec spec = kit_spec(1);
    struct rowset_counts c;
    struct rowset *r;
    unsigned small = 0;
    uint64_t id;

    spec.initial.a = 0;
    spec.least_norm = 4;
    r = kit_new(&spec);
    kit_push_range(r, 1, 0, 99);
    for (id = 0; id < 100; id++) {
        float sum = 0;

        for (unsigned k = 0; k < KIT_DIM; k++)
            sum += kit_gradient(id, 1, k) * kit_gradient(id, 1, k);
        small += sum < 16;
    }
    T_EQ(rows_of(r), 100); // not by the update that changes them
    kit_push_none(r, 2);
    rowset_counts(r, &c);
    T_TRUE(small > 10 && small < 90);
    T_EQ(c.evicted_small, small);
    T_EQ(c.rows, 100 - small);
    rowset_free(r);
}

// ---- T6

// While it is walked, rows are changed, evicted, made again, and admitted.
TEST(rowset, T6_a_walk_is_of_one_instant)
{
    struct rowset_spec spec = kit_spec(4);
    uint32_t version = 0;
    uint64_t ids[200];
    struct rowset *r;

    spec.max_rows = 300;
    spec.min_count = 2;
    spec.unused_steps = 15;
    r = kit_new(&spec);
    for (; version < 20; version++) {
        for (size_t i = 0; i < 200; i++)
            ids[i] = version * 37 % 400 + i * 3;
        kit_push(r, version + 1, 200, ids);
    }
    kit_dump(&before, r);
    T_GT(before.count[0], 50);
    T_GT(before.count[1], 20);
    memset(&after, 0, sizeof(after));
    rowset_freeze(r, version);
    T_TRUE(rowset_is_frozen(r));
    while (kit_walk(r, &after, 7)) {
        for (size_t i = 0; i < 200; i++)
            ids[i] = version * 41 % 500 + i * 3;
        kit_push(r, ++version, 200, ids);
    }
    kit_sort(&after, r);
    rowset_thaw(r);
    kit_same(&before, &after);
    rowset_free(r);
}

// The walk of one part may end, or be given up, in any state.
TEST(rowset, T6_an_instant_may_end_before_its_walk)
{
    struct rowset_spec spec = kit_spec(4);
    struct rowset *r = kit_new(&spec);
    uint64_t live = sl_mem_live();

    kit_push_range(r, 1, 0, 299);
    for (uint32_t version = 1; version < 60; version++) {
        rowset_freeze(r, version);
        memset(&after, 0, sizeof(after));
        for (uint32_t i = 0; i < version; i++)
            (void)kit_walk(r, &after, 7);
        kit_push_range(r, version + 1, version, 299);
        rowset_thaw(r);
        T_FALSE(rowset_is_frozen(r));
    }
    kit_dump(&before, r);
    T_EQ(before.count[0], 300);
    rowset_free(r);
    T_TRUE(sl_mem_live() < live);
}

TEST(rowset, T6_a_record_that_cannot_be_is_refused)
{
    struct rowset_spec spec = kit_spec(4);
    struct {
        struct row_header h;
        float values[4];
    } good = {{5, 3, 1}, {1, 2, 3, 0}}, bad;
    struct rowset *r;

#define REFUSED(what, says)                                                    \
    do {                                                                       \
        r = kit_new(&spec);                                                    \
        T_EQ(sizeof(bad), rowset_stride(r));                                   \
        T_OK(rowset_put(r, ROWSET_ROWS, 3, 1, &good, t_err()));                \
        bad = good;                                                            \
        bad.h.id = 6;                                                          \
        what;                                                                  \
        T_FAILS(SL_ECORRUPT, rowset_put(r, ROWSET_ROWS, 3, 1, &bad, &wrong));  \
        T_HAS(wrong.text, says);                                               \
        rowset_free(r);                                                        \
    } while (0)
    REFUSED(bad.h.id = 5, "id 5 stands there twice");
    REFUSED(bad.h.score = 0, "has no updates");
    REFUSED(bad.h.changed = 4, "was changed after");
    REFUSED(bad.values[2] = 0.0f / 0.0f, "is not finite");
    spec.max_rows = 1;
    REFUSED(bad.h.id = 6, "is above the limit of rows");
    spec.max_rows = 0;
    spec.shards = 2;
    spec.shard = table_shard(table_bucket(table_hash(5), 4), 4, 2);
    REFUSED(while (table_shard(table_bucket(table_hash(bad.h.id), 4), 4, 2) ==
                   spec.shard) bad.h.id++;
            , "is of another shard");
#undef REFUSED
}

// ---- memory, types, limits

// Each allocation fails in turn: what failed has changed nothing, and what
// follows does the same as ever.
// The records of a job on one shard go to three, each to that of its bucket.
TEST(rowset, shards_of_another_job_take_what_is_theirs)
{
    struct rowset_spec spec = kit_spec(64);
    uint64_t rows = 0, waiting = 0;
    struct rowset *r;

    spec.min_count = 2;
    r = kit_new(&spec);
    kit_push_range(r, 1, 0, 299);
    kit_push_range(r, 2, 0, 199);
    kit_dump(&before, r);
    rowset_free(r);
    spec.shards = 3;
    for (spec.shard = 0; spec.shard < spec.shards; spec.shard++) {
        struct rowset_counts counts;

        r = kit_new(&spec);
        for (enum rowset_part part = 0; part < ROWSET_PARTS; part++)
            T_OK(rowset_take(r, part, 2, before.count[part],
                             kit_records(&before, part), t_err()));
        rowset_counts(r, &counts);
        rows += counts.rows;
        waiting += counts.waiting;
        T_GT(counts.rows, 40);
        rowset_free(r);
    }
    T_EQ(rows, 200);
    T_EQ(waiting, 100);
}

static void hottest_is(const struct rowset *r, uint64_t id, uint64_t updates)
{
    struct rowset_counts c;

    rowset_counts(r, &c);
    T_EQ(c.hot[0].updates, updates);
    if (updates > 0)
        T_EQ(c.hot[0].id, id);
}

TEST(rowset, the_row_with_most_updates_is_known)
{
    struct rowset_spec spec = kit_spec(1);
    struct rowset *r;
    uint32_t version = 1;

    spec.unused_steps = 3;
    r = kit_new(&spec);
    hottest_is(r, 0, 0);
    for (; version <= 4; version++)
        kit_push_range(r, version, 10, 10);
    kit_push_range(r, version++, 10, 14); // 10 has five
    kit_push_range(r, version++, 11, 11);
    hottest_is(r, 10, 5);
    kit_dump(&before, r);
    rowset_free(r);

    r = kit_load(&spec, &before);
    hottest_is(r, 10, 5);
    while (version <= 10) // 10 goes, as unused; then 11 has most
        kit_push_range(r, version++, 11, 11);
    T_EQ(rows_of(r), 1);
    hottest_is(r, 11, 6);
    rowset_free(r);
}

// As many of the rows with most updates, in this order, as are kept: those that
// a sort of all has.
static void hottest_are(struct rowset *r, const uint64_t *updates, size_t ids)
{
    struct rowset_counts c;
    size_t n = 0, above;

    rowset_counts(r, &c);
    for (; n < TABLE_HOT && c.hot[n].updates > 0; n++) {
        T_LT(c.hot[n].id, ids);
        T_EQ(c.hot[n].updates, updates[c.hot[n].id]);
        above = 0;
        for (size_t id = 0; id < ids; id++)
            above += updates[id] > c.hot[n].updates;
        T_LE(above, n);
        for (size_t k = 0; k < n; k++) {
            T_ASSERT(c.hot[k].id != c.hot[n].id);
            T_GE(c.hot[k].updates, c.hot[n].updates);
        }
    }
    T_EQ(n, ids < TABLE_HOT ? ids : TABLE_HOT);
}

TEST(rowset, the_rows_with_most_updates_are_known)
{
    enum { MANY = 40 };
    struct rowset_spec spec = kit_spec(1);
    struct rowset *r = kit_new(&spec);
    uint64_t updates[MANY] = {0};
    struct rowset_counts c;

    kit_push_range(r, 1, 0, MANY - 1);
    for (size_t id = 0; id < MANY; id++)
        updates[id] = 1;
    for (uint32_t version = 2; version < 400; version++) {
        uint64_t id = t_below(t_below(MANY) + 1); // low ones more often

        kit_push_range(r, version, id, id);
        updates[id]++;
        hottest_are(r, updates, MANY);
    }
    rowset_counts(r, &c);
    T_EQ(c.gradients, MANY + 398);
    kit_dump(&before, r);
    rowset_free(r);
    r = kit_load(&spec, &before);
    hottest_are(r, updates, MANY);
    rowset_free(r);
}

// The rows that were updated last are those that stay.
TEST(rowset, a_full_shard_takes_newer_rows_for_older_ones)
{
    struct rowset_spec spec = kit_spec(4);
    struct record {
        struct row_header h;
        float values[4];
    } record = {.values = {1, 2, 3, 0}};
    struct rowset_counts counts;
    struct rowset *r;

    spec.max_rows = 10;
    r = kit_new(&spec);
    for (uint32_t i = 0; i < 40; i++) {
        record.h = (struct row_header){i, 1 + i % 20, 1};
        T_OK(rowset_take(r, ROWSET_ROWS, 20, 1, &record, t_err()));
    }
    rowset_counts(r, &counts);
    T_EQ(counts.rows, 10);
    kit_dump(&after, r);
    for (size_t i = 0; i < 10; i++)
        T_GE(((struct record *)(void *)kit_records(&after, ROWSET_ROWS))[i]
                 .h.changed,
             10);
    rowset_free(r);
}

// Each shard takes its own; whichever process loads the file, and in whatever
// order the rows stand there, the records are the same.
TEST(rowset, T2_rows_that_a_job_begins_with_are_of_no_update)
{
    enum { IDS = 100 };
    struct rowset_spec spec = kit_spec(8);
    float values[2][IDS][KIT_DIM];
    uint64_t ids[2][IDS], own = 0;
    struct rowset *r;

    row_rule_defaults(&spec.rule, ROW_RULE_FTRL, OPTIM_SGD);
    spec.shards = 2;
    spec.min_count = 3;
    for (uint64_t i = 0; i < IDS; i++) {
        ids[0][i] = ids[1][IDS - 1 - i] = i;
        for (unsigned k = 0; k < KIT_DIM; k++)
            values[0][i][k] = values[1][IDS - 1 - i][k] = (float)(i * 4 + k);
    }
    for (spec.shard = 0; spec.shard < 2; spec.shard++) {
        for (unsigned order = 0; order < 2; order++) {
            struct row_header *h = (void *)before.rows;

            r = kit_new(&spec);
            T_OK(rowset_start(r, IDS, ids[order], values[order], t_err()));
            T_EQ(rows_of(r), rowset_own(r, IDS, ids[order]));
            rowset_freeze(r, 0);
            T_EQ(rowset_stride(r), 56); // 9 values and slots, zeroes
            while (rowset_walk(r, ROWSET_ROWS, 1, h, &(size_t){0})) {
                float first[2 * KIT_DIM], *row = (float *)(void *)(h + 1);

                row_rule_begin(&spec.rule, KIT_DIM, first);
                T_EQ(h->changed, 0);
                T_EQ(h->score, 1);
                T_MEM(row, values[0][h->id], sizeof(values[0][0]));
                T_MEM(row + KIT_DIM, first, sizeof(first));
                T_EQ(((uint32_t *)row)[3 * KIT_DIM], 0);
            }
            rowset_thaw(r);
            own += rowset_own(r, IDS, ids[order]);
            rowset_free(r);
        }
    }
    T_EQ(own, 2 * IDS);
}

TEST(rowset, rows_to_begin_with_that_cannot_be_are_refused)
{
    struct rowset_spec spec = kit_spec(4);
    float values[3 * KIT_DIM] = {0};
    uint64_t ids[3] = {7, 8, 7};
    struct rowset *r = kit_new(&spec);

    T_FAILS(SL_ECORRUPT, rowset_start(r, 3, ids, values, &wrong));
    T_HAS(wrong.text, "id 7 stands there twice");
    values[KIT_DIM] = 1.0f / 0.0f;
    ids[1] = 9;
    T_FAILS(SL_ECORRUPT, rowset_start(r, 1, ids + 1, values + KIT_DIM, &wrong));
    T_HAS(wrong.text, "id 9 has a value that is not finite");
    rowset_free(r);
    spec.max_rows = 1;
    r = kit_new(&spec);
    T_EQ(rowset_room(r), 1);
    T_FAILS(SL_ECORRUPT, rowset_start(r, 3, ids, values, &wrong));
    T_HAS(wrong.text, "id 9 ");
    rowset_free(r);
}

TEST(rowset, an_update_without_memory_changes_nothing)
{
    struct rowset_spec spec = kit_spec(2);
    static uint64_t ids[600];
    struct rowset *r;
    uint64_t n, live = sl_mem_live();
    enum sl_err rc;

    spec.min_count = 2;
    spec.max_rows = 500;
    for (n = 1;; n++) {
        sl_mem_fail_at(n);
        rc = rowset_new(&r, &spec, t_err());
        if (!sl_mem_failed())
            break;
        T_EQ(rc, SL_ENOMEM);
        T_EQ(sl_mem_live(), live);
    }
    T_TRUE(n > 4);
    for (uint32_t version = 1; version < 40; version++) {
        for (size_t i = 0; i < 600; i++)
            ids[i] = i * 2 + version % 3 + version * 20;
        qsort(ids, 600, sizeof(*ids), kit_by_hash);
        kit_dump(&before, r);
        if (version % 2 != 0)
            rowset_freeze(r, version - 1);
        for (n = 1;; n++) {
            sl_mem_fail_at(n);
            rc = rowset_reserve(r, 600, ids);
            if (!sl_mem_failed())
                break;
            T_EQ(rc, SL_ENOMEM);
            rowset_thaw(r);
            kit_dump(&after, r);
            kit_same(&before, &after);
            if (version % 2 != 0)
                rowset_freeze(r, version - 1);
        }
        T_OK(rc);
        sl_mem_fail_at(1); // an update takes none
        struct rowset_step step = {.version = version, .rate = 1, .factor = 1};
        static float grads[600 * KIT_DIM];

        rowset_apply(r, &step, 600, ids, WIRE_F32, grads);
        T_FALSE(sl_mem_failed());
        rowset_thaw(r);
    }
    rowset_free(r);
    T_EQ(sl_mem_live(), live);
}

TEST(rowset, gradients_of_16_bits_and_factors)
{
    struct rowset_spec spec = kit_spec(4);
    struct rowset_step step = {.version = 1, .rate = 0.5, .factor = 0.25f};
    // 8, 4, 2 as f16 and bf16
    const uint16_t f16[] = {0x4800, 0x4400, 0x4000};
    const uint16_t bf16[] = {0x4100, 0x4080, 0x4000};
    struct rowset *r;
    uint64_t id = 9;
    float v[KIT_DIM];

    spec.scale = 2;
    r = kit_new(&spec);
    T_OK(rowset_check(r, 1, &id, WIRE_F16, f16, t_err()));
    T_OK(rowset_reserve(r, 1, &id));
    rowset_apply(r, &step, 1, &id, WIRE_F16, f16);
    read_one(r, id, v);
    T_TRUE(v[0] == 7 - 2 && v[1] == 7 - 1 && v[2] == 6.5f);
    step.version = 2;
    T_OK(rowset_reserve(r, 1, &id));
    rowset_apply(r, &step, 1, &id, WIRE_BF16, bf16);
    read_one(r, id, v);
    T_TRUE(v[0] == 7 - 4 && v[1] == 7 - 2 && v[2] == 6);
    rowset_free(r);
}

TEST(rowset, a_spec_out_of_range_is_refused)
{
    struct rowset *r;

#define REFUSED(change, says)                                                  \
    do {                                                                       \
        struct rowset_spec s = kit_spec(4);                                    \
        s.change;                                                              \
        T_FAILS(SL_EINVAL, rowset_new(&r, &s, &wrong));                        \
        T_HAS(wrong.text, "table 3: ");                                        \
        T_HAS(wrong.text, says);                                               \
    } while (0)
    REFUSED(dim = 0, "dim is 0");
    REFUSED(dim = 4097, "not in [1, 4096]");
    REFUSED(buckets = 0, "0 buckets");
    REFUSED(shard = 1, "shard 1 of 1");
    REFUSED(probability = 0, "probability is 0");
    REFUSED(probability = 0.0 / 0.0, "probability is");
    REFUSED(least_norm = -1, "least norm -1");
    REFUSED(scale = -1, "scale -1");
    REFUSED(rule.optim.momentum = -1, "momentum is -1");
    REFUSED(rule.kind = (enum row_rule_kind)9, "unknown kind 9");
#undef REFUSED
}

// The parts of the shards are all of the table: each bucket is of one shard,
// each limit adds up.
TEST(rowset, shards_have_the_table_between_them)
{
    for (uint32_t shards = 1; shards < 40; shards++)
        for (uint32_t buckets = 1; buckets < 60; buckets += 7) {
            uint64_t limit = 0;

            for (uint32_t shard = 0; shard < shards; shard++) {
                for (uint32_t b = table_first(shard, buckets, shards);
                     b < table_first(shard + 1, buckets, shards); b++)
                    T_EQ(table_shard(b, buckets, shards), shard);
                limit += table_part(1001, shard, buckets, shards);
            }
            T_EQ(limit, 1001);
            T_EQ(table_first(shards, buckets, shards), buckets);
        }
}

// Hashes cross machines and versions.
TEST(rowset, hashes_are_what_they_were)
{
    T_EQ(table_hash(0), UINT64_C(0x891eae35451d6049));
    T_EQ(table_hash(1000000007), UINT64_C(0x33d599ddd274aef0));
    T_EQ(table_hash(UINT64_MAX), UINT64_C(0x91fa4af7b501fc4e));
    T_EQ(table_bucket(table_hash(0), 4096), 2193);
    T_EQ(table_bucket(table_hash(0), 1000), 535);
    T_EQ(table_bucket(UINT64_MAX, 4096), 4095);
    T_EQ(table_bucket(0, 4096), 0);
}
