// SPDX-License-Identifier: Apache-2.0
#include "common/base/hash.h"

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

// Of one piece.
static void sha256_hex(char out[SHA256_HEX], const void *bytes, size_t n)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;

    T_OK(sha256_init(&h));
    T_OK(sha256_update(&h, bytes, n));
    T_OK(sha256_final(&h, digest));
    hex_encode(out, digest, sizeof(digest));
}

// FIPS 180-4.
TEST(hash, known_answers)
{
    char hex[SHA256_HEX];

    sha256_hex(hex, "abc", 3);
    T_STR(hex, "ba7816bf8f01cfea414140de5dae2223"
               "b00361a396177a9cb410ff61f20015ad");
    sha256_hex(hex, "", 0);
    T_STR(hex, "e3b0c44298fc1c149afbf4c8996fb924"
               "27ae41e4649b934ca495991b7852b855");
}

// RFC 4231, case 2.
TEST(hash, hmac)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];

    T_OK(hmac_sha256(digest, "Jefe", 4, "what do ya want for nothing?", 28));
    hex_encode(hex, digest, sizeof(digest));
    T_STR(hex, "5bdcc146bf60754e6a042426089575c7"
               "5a003f089d2739839dec58b964ec3843");
}

TEST(hash, streaming_equals_one_piece)
{
    uint8_t bytes[1000], digest[SHA256_BYTES];
    char whole[SHA256_HEX], parts[SHA256_HEX];
    struct sha256 h;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)t_rand();
    sha256_hex(whole, bytes, sizeof(bytes));
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

// Around the bytes that are read at once, 1 MiB.
TEST(hash, a_file_is_what_its_bytes_are)
{
    const size_t most = ((size_t)1 << 20) + 7;
    const size_t sizes[] = {0, 1, most - 8, most - 7, most};
    const char *path = t_path("file");
    uint8_t digest[SHA256_BYTES], *bytes = sl_malloc(most);
    char whole[SHA256_HEX], file[SHA256_HEX];

    T_TRUE(bytes != NULL);
    for (size_t i = 0; i < most; i++)
        bytes[i] = (uint8_t)t_rand();
    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        T_OK(fs_write_durable(fs_posix(), path, bytes, sizes[i], t_err()));
        T_OK(sha256_file(fs_posix(), path, digest, t_err()));
        hex_encode(file, digest, sizeof(digest));
        sha256_hex(whole, bytes, sizes[i]);
        T_STR(file, whole);
    }
    sl_free(bytes);
}

TEST(hash, tells_another_file)
{
    const char *path = t_path("file");
    uint8_t want[SHA256_BYTES];
    struct sl_error *err = t_err();

    T_OK(fs_write_durable(fs_posix(), path, "abc", 3, err));
    T_OK(sha256_file(fs_posix(), path, want, err));
    T_OK(sha256_file_is(fs_posix(), path, want, "cut", err));
    want[31] ^= 1;
    T_FAILS(SL_ECORRUPT, sha256_file_is(fs_posix(), path, want, "cut", err));
    T_HAS(err->text, path);
    T_HAS(err->text, "is not the file that the cut names");
    T_FAILS(SL_ENOENT,
            sha256_file_is(fs_posix(), t_path("none"), want, "cut", err));
    T_HAS(err->text, "none");
}

// Every allocation fails in turn; the digest is untouched then.
TEST(hash, of_a_file_without_memory)
{
    const uint8_t none[SHA256_BYTES] = {0};
    const char *path = t_path("file");
    uint8_t digest[SHA256_BYTES] = {0};
    enum sl_err rc;

    T_OK(fs_write_durable(fs_posix(), path, "abc", 3, t_err()));
    for (uint64_t n = 1;; n++) {
        sl_mem_fail_at(n);
        rc = sha256_file(fs_posix(), path, digest, t_err());
        if (!sl_mem_failed())
            break;
        T_EQ(rc, SL_ENOMEM);
        T_MEM(digest, none, sizeof(none));
    }
    T_OK(rc);
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
