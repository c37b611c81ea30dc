// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tokens.h -- tokens of jobs: proof that somebody was given
// one (proto/token.h).
//
// Threads  the loop.
// Memory   by value; who asks for the key wipes it.
#ifndef COORDINATOR_CORE_TOKENS_H
#define COORDINATOR_CORE_TOKENS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "proto/token.h"

// For psservers; false: this cluster has none.
bool tokens_key(const struct coord *c, uint8_t out[TOKEN_KEY_BYTES]);

// Whether shards refuse calls without a token.
bool tokens_required(const struct coord *c);

// For whoever is leased the closure that `w` is of; false: there is none, as
// where nobody shows certificates: it is some microseconds of the loop.
bool tokens_prove(const struct coord *c, const struct work *w,
                  Sluice__V1__JobToken *out);

// For a worker that is given the job; false: there is none.
bool tokens_make(const struct coord *c, const struct job *job,
                 Sluice__V1__JobToken *out);

// For the ranks of a generation; false: there is none.
bool tokens_make_ring(const struct coord *c, const struct job *job,
                      uint64_t generation, Sluice__V1__JobToken *out);

#endif
