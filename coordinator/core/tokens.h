// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tokens.h -- tokens of jobs: proof that a worker was given
// one (proto/token.h).
//
// Threads  the loop.
// Memory   by value; the caller of tokens_key wipes the key. No pointer may be
//          NULL. The message `out` needs no preparation, and is as it was where
//          false is returned.
// Errors   there is no token if the cluster has no key, or libcrypto could not
//          make one; not told apart.
#ifndef COORDINATOR_CORE_TOKENS_H
#define COORDINATOR_CORE_TOKENS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "proto/token.h"

// Copies the key for psservers; returns false if this cluster has none: the key
// is then all zeroes.
bool tokens_key(const struct coord *c, uint8_t out[TOKEN_KEY_BYTES]);

// Says whether shards refuse calls without a token.
bool tokens_required(const struct coord *c);

// Makes the proof for the holder of the lease w; returns false if there is
// none, as where members show no certificates: a proof costs some microseconds
// of the loop.
bool tokens_prove(const struct coord *c, const struct work *w,
                  Sluice__V1__JobToken *out);

// Makes the token for a worker that is given the job; returns false if there is
// none.
bool tokens_make(const struct coord *c, const struct job *job,
                 Sluice__V1__JobToken *out);

// Makes the token for the ranks of a generation; returns false if there is
// none.
bool tokens_make_ring(const struct coord *c, const struct job *job,
                      uint64_t generation, Sluice__V1__JobToken *out);

#endif
