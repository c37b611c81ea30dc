// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <string.h>

#include "state/base/finite.h"
#include "tests/harness/t.h"

#define ROOM 80

static const uint32_t fine[] = {
    0,          0x80000000, // both zeroes
    1,          0x807fffff, // denormal
    0x7f7fffff, 0xff7fffff, // the largest
    0x3f800000, 0xc2f6e979,
};

static const uint32_t bad[] = {
    0x7f800000, 0xff800000, // infinite
    0x7f800001, 0x7fffffff, // not a number: signalling, quiet
    0xffc00000, 0xff800001,
};

// `n` elements at a byte address of no alignment.
static uint8_t *fill(uint8_t *space, size_t n, unsigned late)
{
    for (size_t i = 0; i < n; i++)
        memcpy(space + late + 4 * i, &fine[i % SL_COUNT(fine)], 4);
    return space + late;
}

TEST(finite, every_length_at_every_address)
{
    uint8_t space[4 * ROOM + 4];

    for (unsigned late = 0; late < 4; late++)
        for (size_t n = 0; n < ROOM; n++) {
            const uint8_t *at = fill(space, n, late);

            T_TRUE(finite_all(WIRE_F32, at, n));
            T_EQ(finite_find(WIRE_F32, at, n), n);
        }
}

TEST(finite, one_bad_element_anywhere_is_found)
{
    uint8_t space[4 * ROOM + 4];

    for (size_t n = 1; n < ROOM; n++)
        for (size_t i = 0; i < n; i++) {
            uint8_t *at = fill(space, n, (unsigned)(i % 4));

            memcpy(at + 4 * i, &bad[(n + i) % SL_COUNT(bad)], 4);
            T_TRUE(!finite_all(WIRE_F32, at, n));
            T_EQ(finite_find(WIRE_F32, at, n), i);
        }
}

TEST(finite, a_bad_element_behind_the_end_is_not_looked_at)
{
    uint8_t space[4 * ROOM + 4];

    for (size_t n = 0; n < ROOM - 1; n++) {
        uint8_t *at = fill(space, n, 1);

        memcpy(at + 4 * n, &bad[0], 4);
        T_TRUE(finite_all(WIRE_F32, at, n));
    }
}

// Of 16 bits every pattern: alone, and anywhere among those that are fine.
TEST(finite, every_pattern_of_16_bits)
{
    static const struct {
        enum wire_type type;
        uint16_t exponent;
    } types[] = {{WIRE_BF16, 0x7f80}, {WIRE_F16, 0x7c00}};

    for (size_t t = 0; t < SL_COUNT(types); t++) {
        for (unsigned h = 0; h < 0x10000; h++) {
            bool want = (h & types[t].exponent) != types[t].exponent;
            uint16_t row[41] = {0};

            row[h % 40 + 1] = (uint16_t)h;
            T_EQ(finite_all(types[t].type, row + 1, 40), want);
            T_EQ(finite_find(types[t].type, row + 1, 40), want ? 40 : h % 40);
            T_TRUE(finite_all(types[t].type, row + 1, h % 40));
        }
    }
}
