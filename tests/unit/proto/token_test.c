// SPDX-License-Identifier: Apache-2.0
#include "proto/token.h"

#include "tests/harness/t.h"

TEST(token, a_proof_is_of_one_lease)
{
    static const uint64_t of[][5] = {{7, 1, 3, 2, 9}, {8, 1, 3, 2, 9},
                                     {7, 2, 3, 2, 9}, {7, 1, 4, 2, 9},
                                     {7, 1, 3, 3, 9}, {7, 1, 3, 2, 10}};
    struct wire_token made[SL_COUNT(of)], job;
    uint8_t key[TOKEN_KEY_BYTES] = {1};

    T_OK(token_make(&job, key, 7, 1));
    for (size_t i = 0; i < SL_COUNT(of); i++) {
        const uint64_t *n = of[i];

        T_OK(token_make_lease(&made[i], key, n[0], n[1], n[2],
                              (struct wire_attempt){n[3], n[4]}));
        T_FALSE(token_same(&made[i], &job));
        for (size_t j = 0; j < i; j++)
            T_FALSE(token_same(&made[i], &made[j]));
    }
}

TEST(token, is_of_one_key_job_and_incarnation)
{
    uint8_t key[TOKEN_KEY_BYTES] = {0};
    struct wire_token own, again, other;

    for (int i = 0; i < TOKEN_KEY_BYTES; i++)
        key[i] = (uint8_t)i;
    T_OK(token_make(&own, key, 0x1234, 5));
    // By another program: hmac.new(bytes(range(32)), text, "sha256").
    T_EQ(own.low, UINT64_C(0xcb6f1b81d82aefe2));
    T_EQ(own.high, UINT64_C(0x7c1a6458b3619c45));
    T_OK(token_make(&again, key, 0x1234, 5));
    T_TRUE(token_same(&own, &again));
    T_OK(token_make(&other, key, 0x1235, 5));
    T_FALSE(token_same(&own, &other));
    T_OK(token_make(&other, key, 0x1234, 6));
    T_FALSE(token_same(&own, &other));
    key[31] ^= 1;
    T_OK(token_make(&other, key, 0x1234, 5));
    T_FALSE(token_same(&own, &other));
    other = own;
    other.high ^= 1;
    T_FALSE(token_same(&own, &other));
}
