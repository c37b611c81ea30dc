// SPDX-License-Identifier: Apache-2.0
// common/base/hash.h -- SHA-256 and HMAC, through libcrypto.
//
// Threads  struct sha256: one at a time. The rest: any. Those of files read
//          them, and wait for the disk.
// Memory   sha256_release frees, also after a failure; sha256_final releases.
// Errors   SL_ENOMEM; SL_ENOTSUP if libcrypto refuses the digest; SL_EINTERNAL
//          if it fails later. Where a file is hashed *err (may be NULL) names
//          it, and errors of the file system come unchanged. `out` is undefined
//          after a failure.
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

// Hashing in pieces: init, update for each piece, final.

// Begins a hash, in memory not in use or released. SL_ENOMEM, SL_ENOTSUP; `h`
// is then as released.
enum sl_err sha256_init(struct sha256 *h);

// Adds the next n bytes. SL_EINTERNAL if libcrypto fails; release `h` then.
// After sha256_init only.
enum sl_err sha256_update(struct sha256 *h, const void *bytes, size_t n);

// Writes the hash of all bytes to `out` and releases `h`, also if it fails
// (SL_EINTERNAL).
enum sl_err sha256_final(struct sha256 *h, uint8_t out[SHA256_BYTES]);
// Frees what sha256_init made; a released one, or all zeroes, is allowed.
void sha256_release(struct sha256 *h);

// Writes the hash of n bytes to `out`. The errors of a hash in pieces; `out` is
// undefined then.
enum sl_err sha256_bytes(uint8_t out[SHA256_BYTES], const void *bytes,
                         size_t n);

// Hashes a whole file. Reads it and never maps it: a bad sector is an error and
// not a signal, and a file that is cut short or grows meanwhile is hashed up to
// the end that is found.
enum sl_err sha256_file(struct fs *fs, const char *path,
                        uint8_t out[SHA256_BYTES], struct sl_error *err);

// Checks that a file has the hash `want`; SL_ECORRUPT if not. `source`
// ("manifest") names in the error where `want` is from.
enum sl_err sha256_file_is(struct fs *fs, const char *path,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err);

// Part of a file that sha256_part_is reads.
struct sha256_part {
    uint64_t bytes; // limit, as a file that grows has no end; UINT64_MAX: all
    bool (*stopped)(void *arg); // called before each MiB; NULL: never stopped
    void *arg;
};

// Checks that the first part->bytes of `f`, or all if it is shorter, have the
// hash `want`, and reads no more; `f` is open for reading, and stays so.
// SL_ECORRUPT if not; SL_ECANCELED if part->stopped returns true. `source`
// names in the error where `want` is from.
enum sl_err sha256_part_is(struct fs_file *f, const struct sha256_part *part,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err);

// Writes the HMAC with SHA-256 (RFC 2104) of `bytes` under `key` to `out`.
// SL_ENOTSUP if libcrypto refuses, or for a key of 2 GiB or more.
enum sl_err hmac_sha256(uint8_t out[SHA256_BYTES], const void *key,
                        size_t key_bytes, const void *bytes, size_t n);

// Writes n bytes to `out`, of at least 2 n + 1 bytes, as 2 n hex digits in
// lower case and a 0.
void hex_encode(char *out, const void *bytes, size_t n);

// Reads `text` back into n bytes at `out`. SL_EINVAL, and `out` is untouched,
// unless `text` has exactly 2 n hex digits, in either case.
enum sl_err hex_decode(void *out, size_t n, const char *text);

#endif
