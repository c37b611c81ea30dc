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

// Copies the key of the jobs' tokens, for psservers, to `out` and returns true;
// or sets `out` to zeroes and returns false if this cluster has no key.
bool tokens_key(const struct coord *c, uint8_t out[TOKEN_KEY_BYTES]);

// Returns true if shards refuse calls without a token, by options.tokens; for
// COORD_TOKENS_AUTO if the cluster was made with tokens. Does not look whether
// the cluster has a key.
bool tokens_required(const struct coord *c);

// Sets *out to the proof that the holder of w has its lease, and returns true;
// false: proofs are not made, as where members show no certificates, or there
// is no token (see above). A proof costs some microseconds of the loop.
bool tokens_prove(const struct coord *c, const struct work *w,
                  Sluice__V1__JobToken *out);

// Sets *out to the token for a worker that is given the job, and returns true;
// false: there is none.
bool tokens_make(const struct coord *c, const struct job *job,
                 Sluice__V1__JobToken *out);

// Sets *out to the token for the ranks of this generation of the job, and
// returns true; false: there is none.
bool tokens_make_ring(const struct coord *c, const struct job *job,
                      uint64_t generation, Sluice__V1__JobToken *out);

#endif
