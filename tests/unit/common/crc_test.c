// SPDX-License-Identifier: Apache-2.0
#include "common/base/crc.h"

#include "tests/harness/t.h"

// RFC 3720 B.4, and the customary check value.
TEST(crc, known_answers)
{
    uint8_t bytes[32];

    T_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
    memset(bytes, 0, 32);
    T_EQ(crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    T_EQ(crc32c(0, bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    T_EQ(crc32c(0, bytes, 32), 0x46dd794eu);
    T_EQ(crc32c(0, bytes, 0), 0);
}

// The instruction and the table agree, at every length and alignment, in one
// piece or in two.
TEST(crc, both_ways_agree)
{
    uint8_t bytes[300];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)t_rand();
    for (size_t start = 0; start < 9; start++) {
        for (size_t n = 0; n + start <= sizeof(bytes); n++) {
            size_t cut = t_below(n + 1);
            uint32_t want = crc32c_table(0, bytes + start, n);
            uint32_t part = crc32c(0, bytes + start, cut);

            T_EQ(crc32c(0, bytes + start, n), want);
            T_EQ(crc32c(part, bytes + start + cut, n - cut), want);
        }
    }
}

// Three CRCs at once are those of the words one after the other.
TEST(crc, words_are_those_of_three_checksums)
{
    uint8_t bytes[8 * 40], parts[3][sizeof(bytes)];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)t_rand();
    for (size_t words = 0; words <= sizeof(bytes) / 8; words++) {
        size_t n[3] = {0};
        uint32_t crc[3];

        for (size_t i = 0; i < words; i++) {
            size_t k = i < words / 3 * 3 ? i % 3 : 0;

            memcpy(parts[k] + n[k], bytes + 8 * i, 8);
            n[k] += 8;
        }
        for (size_t k = 0; k < 3; k++)
            crc[k] = crc32c_table(0, parts[k], n[k]);
        T_EQ(crc32c_words(bytes, words), crc32c_table(0, crc, sizeof(crc)));
    }
}

TEST(crc, masking)
{
    T_EQ(crc32c_unmask(crc32c_mask(0x12345678u)), 0x12345678u);
    T_NE(crc32c_mask(0), 0);
}
