// SPDX-License-Identifier: Apache-2.0
#include "common/base/copy.h"

#include <stdint.h>
#include <string.h>

#include "tests/harness/t.h"

enum { ROOM = 16384, EDGE = 64 };

static uint8_t from[ROOM + 2 * EDGE], to[ROOM + 2 * EDGE],
    expected[ROOM + 2 * EDGE];

// All that is copied, and nothing beside it.
static void is_copied(void (*copy)(void *, const void *, size_t), size_t to_at,
                      size_t from_at, size_t n)
{
    memset(to, 0xee, sizeof(to));
    memset(expected, 0xee, sizeof(expected));
    memcpy(expected + to_at, from + from_at, n);
    copy(to + to_at, from + from_at, n);
    T_MEM(to, expected, sizeof(to));
}

TEST(copy, any_size_at_any_address)
{
    static const size_t sizes[] = {0,    1,    127,  128,  2047, 2048,
                                   2049, 2175, 2176, 4096, 8191, ROOM};

    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 31 + i / 256 * 7);
    for (size_t k = 0; k < SL_COUNT(sizes); k++)
        for (size_t a = 0; a < EDGE; a += 7)
            for (size_t b = 0; b < EDGE; b += 5) {
                is_copied(sl_copy, a, b, sizes[k]);
                is_copied(sl_copy_away, a, b, sizes[k]);
            }
}
