// SPDX-License-Identifier: Apache-2.0
// common/hash.h -- SHA-256, through libcrypto.
//
// Threads  struct sha256: one at a time.
// Memory   sha256_release frees, also after a failure; sha256_final releases.
// Errors   SL_ENOMEM; SL_ENOTSUP if libcrypto refuses the digest.
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define SHA256_BYTES 32
#define SHA256_HEX 65 // with the terminating 0

struct sha256 {
    void *ctx; // owned
};

enum sl_err sha256_init(struct sha256 *h);
enum sl_err sha256_update(struct sha256 *h, const void *bytes, size_t n);
enum sl_err sha256_final(struct sha256 *h, uint8_t out[SHA256_BYTES]);
void sha256_release(struct sha256 *h);

// Of one piece, as lower-case hex.
enum sl_err sha256_hex(char out[SHA256_HEX], const void *bytes, size_t n);

// 2 n + 1 bytes of text; and back: SL_EINVAL unless exactly 2 n digits.
void hex_encode(char *out, const void *bytes, size_t n);
enum sl_err hex_decode(void *out, size_t n, const char *text);

#endif
