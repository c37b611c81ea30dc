// SPDX-License-Identifier: Apache-2.0
// common/base/hash.h -- SHA-256 and HMAC, through libcrypto.
//
// Threads  struct sha256: one at a time.
// Memory   sha256_release frees, also after a failure; sha256_final releases.
// Errors   SL_ENOMEM; SL_ENOTSUP if libcrypto refuses the digest. Of a file,
//          *err names it.
#ifndef COMMON_BASE_HASH_H
#define COMMON_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct fs;
struct fs_file;

#define SHA256_BYTES 32
#define SHA256_HEX 65 // with the terminating 0

struct sha256 {
    void *ctx; // owned
};

enum sl_err sha256_init(struct sha256 *h);
enum sl_err sha256_update(struct sha256 *h, const void *bytes, size_t n);
enum sl_err sha256_final(struct sha256 *h, uint8_t out[SHA256_BYTES]);
void sha256_release(struct sha256 *h);

// Of a whole file. It is read, never mapped: a bad sector, or somebody who
// shortens it meanwhile, is an error here and not a signal.
enum sl_err sha256_file(struct fs *fs, const char *path,
                        uint8_t out[SHA256_BYTES], struct sl_error *err);

// That a file is the one that was meant: SL_ECORRUPT if it has another hash
// than `source` ("manifest") says.
enum sl_err sha256_file_is(struct fs *fs, const char *path,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err);

// Checks the same of the first bytes of an open file: no more is read, since
// what grows has no end. `stopped` is asked between pieces; NULL: it is read to
// the end. SL_ECANCELED: it was stopped.
struct sha256_part {
    uint64_t bytes;
    bool (*stopped)(void *arg);
    void *arg;
};
enum sl_err sha256_part_is(struct fs_file *f, const struct sha256_part *part,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err);

// HMAC with SHA-256 (RFC 2104).
enum sl_err hmac_sha256(uint8_t out[SHA256_BYTES], const void *key,
                        size_t key_bytes, const void *bytes, size_t n);

// 2 n + 1 bytes of text; and back: SL_EINVAL unless exactly 2 n digits.
void hex_encode(char *out, const void *bytes, size_t n);
enum sl_err hex_decode(void *out, size_t n, const char *text);

#endif
