// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <string.h>

#include "psserver/finite.h"
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
static uint8_t *fill(uint8_t *room, size_t n, unsigned late)
{
    for (size_t i = 0; i < n; i++)
        memcpy(room + late + 4 * i, &fine[i % SL_COUNT(fine)], 4);
    return room + late;
}

TEST(finite, every_length_at_every_address)
{
    uint8_t room[4 * ROOM + 4];

    for (unsigned late = 0; late < 4; late++)
        for (size_t n = 0; n < ROOM; n++) {
            const uint8_t *at = fill(room, n, late);

            T_TRUE(finite_all(at, n));
            T_EQ(finite_find(at, n), n);
        }
}

TEST(finite, one_bad_element_anywhere_is_found)
{
    uint8_t room[4 * ROOM + 4];

    for (size_t n = 1; n < ROOM; n++)
        for (size_t i = 0; i < n; i++) {
            uint8_t *at = fill(room, n, (unsigned)(i % 4));

            memcpy(at + 4 * i, &bad[(n + i) % SL_COUNT(bad)], 4);
            T_TRUE(!finite_all(at, n));
            T_EQ(finite_find(at, n), i);
        }
}

TEST(finite, a_bad_element_behind_the_end_is_not_looked_at)
{
    uint8_t room[4 * ROOM + 4];

    for (size_t n = 0; n < ROOM - 1; n++) {
        uint8_t *at = fill(room, n, 1);

        memcpy(at + 4 * n, &bad[0], 4);
        T_TRUE(finite_all(at, n));
    }
}
