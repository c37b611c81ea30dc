// SPDX-License-Identifier: Apache-2.0
// Rows of tables in a push and a pull.
#include "proto/table_rows.h"

#include <string.h>

#include "tests/harness/t.h"

static const uint32_t dims[] = {4, 3, 1};

// Two blocks: three rows of table 0 in f32, one of table 1 in bf16.
static size_t two_blocks(uint8_t *to, bool elements)
{
    uint8_t *at = table_rows_head(to, 0, 3, WIRE_F32);

    memset(at, 1, 3 * 8 + (elements ? 3 * 4 * 4 : 0));
    at += 3 * 8 + (elements ? 3 * 4 * 4 : 0);
    at = table_rows_head(at, 1, 1, WIRE_BF16);
    memset(at, 2, 8 + (elements ? 8 : 0)); // three of 16 bits, filled up
    return (size_t)(at + 8 + (elements ? 8 : 0) - to);
}

TEST(table_rows, blocks_come_one_behind_another)
{
    for (int elements = 0; elements < 2; elements++) {
        uint8_t bytes[256];
        struct table_rows_at at = {bytes, two_blocks(bytes, elements), 0};
        struct table_rows block;

        T_OK(table_rows_next(&block, &at, dims, 3, elements, t_err()));
        T_EQ(block.table, 0);
        T_EQ(block.count, 3);
        T_EQ(block.type, WIRE_F32);
        T_TRUE(block.ids == bytes + TABLE_ROWS_HEAD);
        T_TRUE(block.elements == (elements ? block.ids + 24 : NULL));
        T_OK(table_rows_next(&block, &at, dims, 3, elements, t_err()));
        T_EQ(block.table, 1);
        T_EQ(block.count, 1);
        T_EQ(block.type, WIRE_BF16);
        T_EQ(at.left, 0);
    }
    T_EQ(table_rows_elements_bytes(1, 3, WIRE_BF16), 8);
    T_EQ(table_rows_elements_bytes(3, 4, WIRE_F32), 48);
    T_EQ(table_rows_elements_bytes(2, 3, WIRE_INT8), 16); // two of 4 + 3
    T_EQ(table_rows_elements_bytes(UINT32_MAX, 4096, WIRE_INT8),
         (UINT64_C(4100) * UINT32_MAX + 7) / 8 * 8);
}

// Whoever can send a message can send any bytes.
TEST(table_rows, what_does_not_fit_is_refused)
{
    uint8_t bytes[256], whole[256];
    size_t n = two_blocks(whole, true);
    struct table_rows block;

    for (size_t cut = 0; cut < n; cut++) {
        struct table_rows_at at = {bytes, cut, 0};
        enum sl_err rc = SL_OK;

        memcpy(bytes, whole, n);
        for (unsigned i = 0; i < 2 && rc == SL_OK; i++)
            rc = table_rows_next(&block, &at, dims, 3, true, t_err());
        T_EQ(rc, SL_EINVAL);
    }
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {{0, 3}, {4, 0}, {8, WIRE_ROW_TYPES}, {12, 1}, {7, 0xff}};

    for (size_t i = 0; i < SL_COUNT(wrong); i++) {
        struct table_rows_at at = {bytes, n, 0};

        memcpy(bytes, whole, n);
        bytes[wrong[i].at] = wrong[i].byte;
        if (wrong[i].at == 4)
            bytes[5] = bytes[6] = bytes[7] = 0;
        T_FAILS(SL_EINVAL,
                table_rows_next(&block, &at, dims, 3, true, t_err()));
        T_EQ(at.left, n);
    }
}

TEST(table_rows, tables_rise)
{
    uint8_t bytes[64];
    uint8_t *at = table_rows_head(bytes, 1, 1, WIRE_F32);
    struct table_rows_at from = {bytes, 48, 0};
    struct table_rows block;

    table_rows_head(at + 8, 1, 1, WIRE_F32);
    T_OK(table_rows_next(&block, &from, dims, 3, false, t_err()));
    T_FAILS(SL_EINVAL, table_rows_next(&block, &from, dims, 3, false, t_err()));
}
