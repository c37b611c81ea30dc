// SPDX-License-Identifier: Apache-2.0
#include "common/hash.h"

#include "tests/harness/t.h"

// FIPS 180-4.
TEST(hash, known_answers)
{
    char hex[SHA256_HEX];

    T_OK(sha256_hex(hex, "abc", 3));
    T_STR(hex, "ba7816bf8f01cfea414140de5dae2223"
               "b00361a396177a9cb410ff61f20015ad");
    T_OK(sha256_hex(hex, "", 0));
    T_STR(hex, "e3b0c44298fc1c149afbf4c8996fb924"
               "27ae41e4649b934ca495991b7852b855");
}

TEST(hash, streaming_equals_one_piece)
{
    uint8_t bytes[1000], digest[SHA256_BYTES];
    char whole[SHA256_HEX], parts[SHA256_HEX];
    struct sha256 h;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)t_rand();
    T_OK(sha256_hex(whole, bytes, sizeof(bytes)));
    T_OK(sha256_init(&h));
    for (size_t at = 0; at < sizeof(bytes);) {
        size_t n = 1 + t_below(sizeof(bytes) - at);

        T_OK(sha256_update(&h, bytes + at, n));
        at += n;
    }
    T_OK(sha256_final(&h, digest));
    hex_encode(parts, digest, sizeof(digest));
    T_STR(parts, whole);
}

TEST(hash, hex)
{
    uint8_t bytes[3];
    char text[7];

    T_OK(hex_decode(bytes, 3, "00fFa5"));
    hex_encode(text, bytes, 3);
    T_STR(text, "00ffa5");
    T_FAILS(SL_EINVAL, hex_decode(bytes, 3, "00ffa"));
    T_FAILS(SL_EINVAL, hex_decode(bytes, 3, "00ffa55"));
    T_FAILS(SL_EINVAL, hex_decode(bytes, 3, "00ffag"));
}
