// SPDX-License-Identifier: Apache-2.0
// proto/token.h -- proof that the coordinator gave the bearer a job.
//
// A token is the first 128 bits of HMAC-SHA256, under a key that coordinator
// and psservers have, over the job's uid, its incarnation and what the bearer
// may do. The coordinator hands it to a worker with the job (JobOpen); shards
// compare it before they answer. A rank's token is over a generation of the
// job's ring, too: its ranks have it from the coordinator (RingBegin), and
// compare it. The proof of a lease is over closure and attempt, too: a shard
// lets an attempt without it stop no other one.
//
// Threads  any.
// Memory   by value; the key is borrowed for the call.
// Errors   SL_ENOMEM, SL_ENOTSUP of libcrypto; *out is then untouched. No
//          pointer is NULL.
#ifndef PROTO_TOKEN_H
#define PROTO_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"

#define TOKEN_KEY_BYTES 32

// Writes the token of a worker of the job to *out: the same for the same key,
// uid and incarnation.
enum sl_err token_make(struct wire_token *out,
                       const uint8_t key[TOKEN_KEY_BYTES], uint64_t job_uid,
                       uint64_t job_incarnation);

// Writes to *out the proof that a worker was leased this attempt at a closure
// of the job.
enum sl_err token_make_lease(struct wire_token *out,
                             const uint8_t key[TOKEN_KEY_BYTES],
                             uint64_t job_uid, uint64_t job_incarnation,
                             uint64_t closure, struct wire_attempt attempt);

// Writes to *out the token of a rank of a generation of the job's ring, which
// is also that of its follower.
enum sl_err token_make_ring(struct wire_token *out,
                            const uint8_t key[TOKEN_KEY_BYTES],
                            uint64_t job_uid, uint64_t job_incarnation,
                            uint64_t generation);

// Returns true if *t is no token: all zeroes.
static inline bool token_absent(const struct wire_token *t)
{
    return t->low == 0 && t->high == 0;
}

// Returns true if both tokens are equal, in a time that tells nothing of where
// they differ. Two that are absent are equal.
bool token_same(const struct wire_token *a, const struct wire_token *b);

#endif
