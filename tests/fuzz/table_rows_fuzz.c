// SPDX-License-Identifier: Apache-2.0
// Blocks of rows of tables, as a push or a pull brings them, and the update
// that they are.
//
//     u8: bit 0: a push, with elements; blocks
#include "proto/table_rows.h"
#include "state/rows/rowset.h"
#include "tests/fuzz/fuzz.h"

#define TABLES 3
#define UNTOUCHED 0x5a

static const uint32_t dims[TABLES] = {1, 3, 8};

static struct rowset *new_set(uint32_t table)
{
    struct rowset_spec spec = {.table = table,
                               .dim = dims[table],
                               .buckets = 4,
                               .shards = 1,
                               .min_count = table, // 0: as 1
                               .probability = 1,
                               .scale = 1,
                               .max_rows = 16};
    struct rowset *set = NULL;

    row_rule_defaults(&spec.rule, ROW_RULE_OPTIM, OPTIM_SGD);
    FUZZ_TRUE(rowset_new(&set, &spec, NULL) == SL_OK);
    return set;
}

// Writes a block that was accepted as its writer does; the same bytes.
static void write_again(const struct table_rows *b, const uint8_t *from)
{
    uint8_t head[TABLE_ROWS_HEAD];

    FUZZ_TRUE(table_rows_head(head, b->table, b->count, b->type) ==
              head + sizeof(head));
    FUZZ_TRUE(memcmp(head, from, sizeof(head)) == 0);
    FUZZ_TRUE(b->ids == from + sizeof(head));
}

// A block that its set takes makes at most a record for each id.
static void apply(const struct table_rows *b)
{
    const struct rowset_step step = {.version = 1, .rate = 1, .factor = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct rowset *set = new_set(b->table);
    struct rowset_counts counts;
    enum sl_err rc =
        rowset_check(set, b->count, b->ids, b->type, b->elements, &err);

    if (rc != SL_OK)
        fuzz_refused(rc, &err);
    if (rc == SL_OK && b->elements != NULL) {
        FUZZ_TRUE(rowset_reserve(set, b->count, b->ids) == SL_OK);
        rowset_apply(set, &step, b->count, b->ids, b->type, b->elements);
        rowset_counts(set, &counts);
        FUZZ_TRUE(counts.rows + counts.waiting <= b->count);
        FUZZ_TRUE(counts.rows + counts.waiting > 0);
    }
    rowset_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct table_rows_at at = {.at = data + 1, .left = size - 1};
    struct sl_error err = SL_ERROR_INIT;
    struct table_rows block;
    const uint8_t *from;
    enum sl_err rc = SL_OK;

    while (size > 0 && at.left > 0) {
        from = at.at;
        memset(&block, UNTOUCHED, sizeof(block));
        fuzz_budget(0);
        rc = table_rows_next(&block, &at, dims, TABLES, data[0] & 1, &err);
        fuzz_budget(SIZE_MAX);
        if (rc != SL_OK) {
            fuzz_refused(rc, &err);
            FUZZ_TRUE(at.at == from);
            FUZZ_TRUE(fuzz_all(&block, UNTOUCHED, sizeof(block)));
            return 0;
        }
        FUZZ_TRUE(at.at + at.left == data + size);
        FUZZ_TRUE(at.least == (uint64_t)block.table + 1);
        write_again(&block, from);
        apply(&block);
    }
    return 0;
}
