// SPDX-License-Identifier: Apache-2.0
// Lists of ids, sorted and cut; sums of gradients, as the wire has them.
#include "trainer/push/job_tables.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "tests/harness/t.h"
#include "trainer/push/distinct.h"

#define MOST 3000

static void check_list(const struct distinct *d, size_t n, const uint64_t *ids,
                       uint32_t buckets, uint32_t shards)
{
    static bool seen[MOST];

    memset(seen, 0, sizeof(seen));
    T_EQ(d->first[0], 0);
    T_EQ(d->first[shards], d->count);
    T_EQ(d->from[0], 0);
    T_EQ(d->from[d->count], n);
    for (uint32_t s = 0; s < shards; s++) {
        for (uint32_t k = d->first[s]; k < d->first[s + 1]; k++) {
            uint64_t hash = table_hash(d->ids[k]);

            T_EQ(table_shard(table_bucket(hash, buckets), buckets, shards), s);
            T_TRUE(k == 0 || table_hash(d->ids[k - 1]) < hash);
            T_LT(d->from[k], d->from[k + 1]);
            for (uint32_t i = d->from[k]; i < d->from[k + 1]; i++) {
                uint32_t at = d->sorted[i].at;

                T_EQ(ids[at], d->ids[k]);
                T_FALSE(seen[at]);
                T_TRUE(i == d->from[k] || d->sorted[i - 1].at < at);
                seen[at] = true;
            }
        }
    }
}

TEST(job_tables, a_list_is_sorted_by_hash_and_cut_by_shard)
{
    static uint64_t ids[MOST];
    struct distinct d = {.count = 0};
    struct rng rng;

    rng_init(&rng, t_seed(), 1);
    for (unsigned round = 0; round < 200; round++) {
        size_t n = rng_below(&rng, round % 10 == 0 ? MOST : 40);
        uint64_t of = 1 + rng_below(&rng, 2 * n + 1);
        uint32_t buckets = 1 + (uint32_t)rng_below(&rng, 64);
        uint32_t shards = 1 + (uint32_t)rng_below(&rng, 70); // some have none

        for (size_t i = 0; i < n; i++)
            ids[i] = sl_mix64(rng_below(&rng, of));
        T_OK(distinct_make(&d, n, ids, buckets, shards, t_err()));
        check_list(&d, n, ids, buckets, shards);
    }
    distinct_release(&d);
}

// Ids whose hashes begin with the same bits, as a file of data may have them.
TEST(job_tables, ids_that_were_chosen_to_lie_together_are_sorted)
{
    static uint64_t ids[MOST];
    struct distinct d = {.count = 0};
    struct rng rng;

    rng_init(&rng, t_seed(), 2);
    for (size_t i = 0; i < MOST; i++) {
        do
            ids[i] = rng_u32(&rng);
        while (i % 8 != 0 && table_hash(ids[i]) >> 55 != 5);
        if (i % 16 == 5)
            ids[i] = ids[i / 2];
    }
    T_OK(distinct_make(&d, MOST, ids, 64, 3, t_err()));
    check_list(&d, MOST, ids, 64, 3);
    T_TRUE(distinct_is_of(&d, MOST, ids));
    T_FALSE(distinct_is_of(&d, MOST - 1, ids));
    ids[MOST / 2]++;
    T_FALSE(distinct_is_of(&d, MOST, ids));
    distinct_release(&d);
    T_FALSE(distinct_is_of(&d, 0, ids));
}

TEST(job_tables, without_memory_a_list_is_refused)
{
    const uint64_t ids[] = {3, 1, 3};

    for (uint64_t n = 1;; n++) {
        struct distinct d = {.count = 0};
        enum sl_err rc;
        bool failed;

        sl_mem_fail_at(n);
        rc = distinct_make(&d, 3, ids, 4, 2, t_err());
        failed = sl_mem_failed();
        sl_mem_fail_at(0);
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        T_OK(distinct_make(&d, 3, ids, 4, 2, t_err()));
        T_EQ(d.count, 2);
        distinct_release(&d);
        if (!failed)
            break;
    }
}

static struct job_tables *tables(uint32_t dim0, uint32_t dim1, uint32_t shards)
{
    Sluice__V1__TableSpec spec[] = {SLUICE__V1__TABLE_SPEC__INIT,
                                    SLUICE__V1__TABLE_SPEC__INIT};
    Sluice__V1__TableSpec *list[] = {&spec[0], &spec[1]};
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    struct job_tables *t = NULL;

    spec[0].name = "users";
    spec[1].name = "items";
    spec[0].dim = dim0;
    spec[1].dim = dim1;
    spec[0].buckets = spec[1].buckets = 4;
    model.tables = list;
    model.n_tables = 2;
    T_OK(job_tables_new(&t, &model, shards, t_err()));
    return t;
}

// Finds the gradient of an id in what is pushed with a shard; false: it is not
// there.
static bool find(const struct sync_step *step, const uint32_t dims[2],
                 uint32_t table, uint64_t id, float *out)
{
    struct table_rows_at at = {step->rows, step->rows_bytes, 0};
    struct table_rows b;

    while (at.left > 0) {
        T_OK(table_rows_next(&b, &at, dims, 2, true, t_err()));
        for (uint32_t i = 0; i < b.count; i++) {
            if (b.table == table && memcmp(b.ids + i * 8, &id, 8) == 0) {
                T_EQ(b.type, WIRE_F32);
                memcpy(out, b.elements + i * dims[table] * 4, dims[table] * 4);
                return true;
            }
        }
    }
    return false;
}

TEST(job_tables, T3_an_id_stands_once_with_the_sum_of_its_gradients)
{
    static const uint32_t dims[] = {1, 3};
    static const struct elements ranges[] = {{0, 7}, {7, 7}};
    const uint64_t ids[] = {7, UINT64_MAX, 7, 0, 7};
    // Of which the sum depends on the order: (1e8 + 1) - 1e8 is 0 in f32.
    const float one[] = {1e8f, 5, 1, 2, -1e8f};
    const float three[] = {1, 2, 3, 4, 5, 6};
    struct job_tables *t = tables(1, 3, 2);
    unsigned found = 0;

    T_OK(job_tables_add(t, 0, 2, ids, one, t_err()));
    T_OK(job_tables_add(t, 0, 3, ids + 2, one + 2, t_err()));
    T_OK(job_tables_add(t, 1, 2, ids, three, t_err()));
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    for (uint32_t s = 0; s < 2; s++) {
        struct sync_step step = {.step = 0};
        float g[3];

        T_TRUE(job_tables_fill(t, s, &step));
        T_EQ(step.rows_bytes % 8, 0);
        if (find(&step, dims, 0, 7, g) && ++found)
            T_EQ(g[0], 0);
        if (find(&step, dims, 0, UINT64_MAX, g) && ++found)
            T_EQ(g[0], 5);
        if (find(&step, dims, 0, 0, g) && ++found)
            T_EQ(g[0], 2);
        if (find(&step, dims, 1, 7, g) && ++found)
            T_MEM(g, three, sizeof(g));
        if (find(&step, dims, 1, UINT64_MAX, g) && ++found)
            T_MEM(g, three + 3, sizeof(g));
    }
    T_EQ(found, 5);
    job_tables_begin(t); // of the next step: nothing
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    for (uint32_t s = 0; s < 2; s++) {
        struct sync_step step = {.step = 1};

        T_TRUE(job_tables_fill(t, s, &step));
        T_EQ(step.rows_bytes, 0);
    }
    job_tables_free(t);
}

// Also where each of the gradients is finite, and their sum is not.
TEST(job_tables, a_gradient_that_is_not_finite_is_told_of_its_shard_alone)
{
    static const struct elements ranges[] = {{0, 7}, {7, 7}};
    static const float large[] = {3e38f, 3e38f};
    struct job_tables *t = tables(1, 1, 2);
    uint64_t ids[2] = {0, 0};
    uint32_t shard = table_shard(table_bucket(table_hash(0), 4), 4, 2);
    struct sync_step step = {.step = 0};

    T_OK(job_tables_add(t, 1, 2, ids, large, t_err()));
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    T_FALSE(job_tables_fill(t, shard, &step));
    T_TRUE(job_tables_fill(t, 1 - shard, &step));
    job_tables_begin(t);
    T_OK(job_tables_add(t, 1, 1, ids, large, t_err()));
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    T_TRUE(job_tables_fill(t, shard, &step));
    job_tables_free(t);
}

TEST(job_tables, more_than_a_message_has_is_refused_by_name)
{
    static const struct elements full[] = {{0, SYNC_ROWS_BYTES / 4}};
    static uint64_t ids[5000];
    static const float grad[4096];
    struct sl_error err = SL_ERROR_INIT;
    struct job_tables *t = tables(4096, 1, 1);
    struct sync_step step = {.step = 0};

    for (uint64_t i = 0; i < SL_COUNT(ids); i++)
        ids[i] = i;
    job_tables_forget(t);
    T_FAILS(SL_ERANGE,
            job_tables_want(t, 0, SL_COUNT(ids), ids, WIRE_F32, &err));
    T_HAS(err.text, "table users: 5000 rows of shard 0");
    T_OK(job_tables_want(t, 0, 4000, ids, WIRE_F32, t_err()));
    T_OK(job_tables_want(t, 1, SL_COUNT(ids), ids, WIRE_F32, t_err()));
    job_tables_forget(t);
    T_OK(job_tables_want(t, 0, SL_COUNT(ids), ids, WIRE_BF16, t_err()));
    T_OK(job_tables_add(t, 0, 1, ids, grad, t_err()));
    T_FAILS(SL_ERANGE, job_tables_pack(t, WIRE_F32, WIRE_F32, full, &err));
    T_HAS(err.text, "of table users");
    T_TRUE(job_tables_fill(t, 0, &step));
    T_EQ(step.rows_bytes, 0);
    T_FAILS(SL_ERANGE, job_tables_add(t, 0, UINT32_MAX, NULL, NULL, &err));
    T_HAS(err.text, "table users");
    T_FAILS(SL_ERANGE, job_tables_pack(t, WIRE_INT8, WIRE_F32, full, &err));
    // Half of the bytes.
    T_OK(job_tables_pack(t, WIRE_BF16, WIRE_BF16, full, t_err()));
    T_OK(job_tables_pack(t, WIRE_INT8, WIRE_BF16, full, t_err()));
    job_tables_free(t);
}

// All rows of a sync have this number.
static float pulled;

static enum sync_result plain_rows(struct sync *s, const struct sync_rows *rows,
                                   struct sl_error *err)
{
    for (uint32_t i = 0; i < rows->count; i++)
        for (uint32_t k = 0; k < rows->tables[i].first[2]; k++)
            for (uint32_t d = 0; d < rows->tables[i].dim; d++)
                rows->tables[i].values[k * rows->tables[i].dim + d] = pulled;
    return SYNC_OK;
}

static void no_wait(struct sync *s, const struct sync_rows *rows)
{
}

// Rows are taken by the step behind the one that asked for them, once.
TEST(job_tables, what_a_step_asks_for_is_for_the_next_one)
{
    static const struct sync_ops ops = {.rows = plain_rows,
                                        .ask_rows = no_wait};
    static const uint64_t ids[] = {8, 3, 8}, others[] = {8, 3, 9};
    struct sync sync = {.ops = &ops};
    struct job_tables *t = tables(1, 1, 2);
    float rows[3] = {0};

    pulled = 4;
    job_tables_begin(t);
    T_FALSE(job_tables_take(t, 1, 3, ids, rows));
    job_tables_forget(t);
    T_OK(job_tables_want(t, 1, 3, ids, WIRE_F32, t_err()));
    job_tables_ask(t, &sync);
    T_EQ(job_tables_pull(t, &sync, t_err()), SYNC_OK);
    T_FALSE(job_tables_take(t, 1, 3, ids, rows)); // the same step
    job_tables_begin(t);
    T_FALSE(job_tables_take(t, 0, 3, ids, rows));
    T_FALSE(job_tables_take(t, 1, 3, others, rows));
    T_FALSE(job_tables_take(t, 1, 2, ids, rows));
    T_TRUE(job_tables_take(t, 1, 3, ids, rows));
    T_TRUE(rows[0] == 4 && rows[1] == 4 && rows[2] == 4);
    T_FALSE(job_tables_take(t, 1, 3, ids, rows)); // twice
    job_tables_forget(t);
    T_OK(job_tables_want(t, 1, 3, ids, WIRE_F32, t_err()));
    job_tables_ask(t, &sync);
    job_tables_begin(t);
    job_tables_begin(t);
    T_FALSE(job_tables_take(t, 1, 3, ids, rows)); // a step later
    job_tables_free(t);
}

struct audited_step {
    uint64_t inputs, output;
    struct sketch sketch;
};

// What is said of a step of two ids on rows that are `row`.
static struct audited_step audited_step(const uint64_t ids[2],
                                        const float grads[2], float row)
{
    static const struct elements ranges[] = {{0, 7}, {7, 7}};
    static const struct sync_ops ops = {.rows = plain_rows};
    struct sync sync = {.ops = &ops};
    struct job_tables *t = tables(1, 1, 2);
    struct audited_step said = {.inputs = 5};

    pulled = row;
    job_tables_begin(t);
    job_tables_forget(t);
    T_OK(job_tables_want(t, 1, 2, ids, WIRE_F32, t_err()));
    T_EQ(job_tables_pull(t, &sync, t_err()), SYNC_OK);
    T_OK(job_tables_keep(t, t_err()));
    T_OK(job_tables_add(t, 1, 2, ids, grads, t_err()));
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, ranges, t_err()));
    said.inputs = job_tables_inputs(t, 5);
    said.output = job_tables_output(t, 6);
    job_tables_sketch(t, &said.sketch, 7, 14);
    job_tables_free(t);
    return said;
}

// The rows that a step pulled are among its inputs; ids, and gradients to the
// last bit, are part of what it computed.
TEST(job_tables, A1_rows_are_part_of_what_is_compared)
{
    static const uint64_t ids[] = {3, 8}, others[] = {3, 9};
    static const float grads[] = {1, 2}, flipped[] = {1, 2.0000002f};
    struct audited_step a = audited_step(ids, grads, 1);
    struct audited_step b = audited_step(ids, grads, 1);

    T_MEM(&a, &b, sizeof(a));
    T_TRUE(a.inputs != 5 && a.output != 6);
    T_TRUE(a.sketch.of[0] == 5); // the sum of squares
    b = audited_step(ids, grads, 1.0000001f);
    T_TRUE(b.inputs != a.inputs && b.output == a.output);
    b = audited_step(ids, flipped, 1);
    T_TRUE(b.inputs == a.inputs && b.output != a.output);
    T_NE(memcmp(&a.sketch, &b.sketch, sizeof(a.sketch)), 0);
    T_NE(audited_step(others, grads, 1).output, a.output);
    T_EQ(job_tables_inputs(NULL, 5), 5);
    T_EQ(job_tables_output(NULL, 6), 6);
}

// A step is computed again from what each of its micro-batches was given,
// whatever a psserver would give by now.
TEST(job_tables, A1_the_rows_of_all_micro_batches_are_kept)
{
    static const struct sync_ops ops = {.rows = plain_rows};
    static const uint64_t ids[] = {8, 3, 3}, other = 9;
    struct sync sync = {.ops = &ops};
    struct job_tables *t = tables(1, 1, 2);
    struct sl_error err;
    float rows[3] = {0};
    uint64_t first;

    for (uint64_t k = 0; k < 2; k++) { // ids 3 and 8, and then 9
        job_tables_forget(t);
        T_OK(job_tables_want(t, 1, 3 - 2 * k, k == 0 ? ids : &other, WIRE_F32,
                             t_err()));
        pulled = (float)(k + 1);
        T_EQ(job_tables_pull(t, &sync, t_err()), SYNC_OK);
        T_OK(job_tables_keep(t, t_err()));
        if (k == 0)
            first = job_tables_inputs(t, 5);
    }
    T_NE(job_tables_inputs(t, 5), first);
    T_OK(job_tables_kept_rows(t, 0, 1, 3, ids, rows, t_err()));
    T_TRUE(rows[0] == 1 && rows[1] == 1 && rows[2] == 1);
    T_OK(job_tables_kept_rows(t, 1, 1, 1, &other, rows, t_err()));
    T_TRUE(rows[0] == 2);
    T_FAILS(SL_EINVAL, job_tables_kept_rows(t, 0, 1, 1, &other, rows, &err));
    T_HAS(err.text, "micro-batch 0");
    T_FAILS(SL_EINVAL, job_tables_kept_rows(t, 2, 1, 1, &other, rows, NULL));
    T_FAILS(SL_EINVAL, job_tables_kept_rows(t, 1, 0, 1, &other, rows, NULL));
    job_tables_unkeep(t);
    T_EQ(job_tables_inputs(t, 5), 5);
    job_tables_free(t);
}

TEST(job_tables, a_model_without_tables_has_none)
{
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    Sluice__V1__TableSpec spec = SLUICE__V1__TABLE_SPEC__INIT;
    Sluice__V1__TableSpec *list[] = {&spec};
    struct sl_error err = SL_ERROR_INIT;
    struct job_tables *t = NULL;
    struct sync_step step = {.step = 0};

    T_OK(job_tables_new(&t, &model, 2, t_err()));
    T_PTR(t, NULL);
    T_EQ(job_tables_count(t), 0);
    job_tables_begin(t);
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, NULL, t_err()));
    T_TRUE(job_tables_fill(t, 0, &step));
    T_EQ(step.rows_bytes, 0);
    model.tables = list;
    model.n_tables = 1;
    spec.name = "users";
    T_FAILS(SL_EINVAL, job_tables_new(&t, &model, 2, &err));
    T_HAS(err.text, "table users has 0 buckets");
}
