// SPDX-License-Identifier: Apache-2.0
// proto/token.c -- the making of job tokens.
#include "proto/token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"

static uint64_t token_load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static enum sl_err token_sign(struct wire_token *out,
                              const uint8_t key[TOKEN_KEY_BYTES],
                              const char *text, int n)
{
    uint8_t digest[SHA256_BYTES];
    enum sl_err rc = hmac_sha256(digest, key, TOKEN_KEY_BYTES, text, (size_t)n);

    if (rc == SL_OK)
        *out = (struct wire_token){token_load_u64(digest),
                                   token_load_u64(digest + 8)};
    return rc;
}

enum sl_err token_make(struct wire_token *out,
                       const uint8_t key[TOKEN_KEY_BYTES], uint64_t job_uid,
                       uint64_t job_incarnation)
{
    char text[100];
    int n = snprintf(text, sizeof(text),
                     "sluice.v1 worker %016" PRIx64 " %016" PRIx64, job_uid,
                     job_incarnation);

    return token_sign(out, key, text, n);
}

enum sl_err token_make_lease(struct wire_token *out,
                             const uint8_t key[TOKEN_KEY_BYTES],
                             uint64_t job_uid, uint64_t job_incarnation,
                             uint64_t closure, struct wire_attempt attempt)
{
    char text[160];
    int n =
        snprintf(text, sizeof(text),
                 "sluice.v1 lease %016" PRIx64 " %016" PRIx64 " %016" PRIx64
                 " %016" PRIx64 " %016" PRIx64,
                 job_uid, job_incarnation, closure, attempt.term, attempt.n);

    return token_sign(out, key, text, n);
}

enum sl_err token_make_ring(struct wire_token *out,
                            const uint8_t key[TOKEN_KEY_BYTES],
                            uint64_t job_uid, uint64_t job_incarnation,
                            uint64_t generation)
{
    char text[100];
    int n = snprintf(text, sizeof(text),
                     "sluice.v1 rank %016" PRIx64 " %016" PRIx64 " %016" PRIx64,
                     job_uid, job_incarnation, generation);

    return token_sign(out, key, text, n);
}

bool token_same(const struct wire_token *a, const struct wire_token *b)
{
    return ((a->low ^ b->low) | (a->high ^ b->high)) == 0;
}
