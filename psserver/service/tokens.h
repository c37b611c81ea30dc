// SPDX-License-Identifier: Apache-2.0
// psserver/service/tokens.h -- the right to reach a job's shards: workers that
// the coordinator gave the job have it.
//
// A worker's certificate says that it is a worker; the token that it was given
// with a job says of which. It is required where callers show certificates.
// The key comes with the coordinator's welcome, before any shard is admitted.
//
// Threads  any.
// Memory   tokens_free frees.
// Errors   SL_EAUTH: no token; SL_EDENIED: another job's token; SL_ENOMEM.
#ifndef PSSERVER_SERVICE_TOKENS_H
#define PSSERVER_SERVICE_TOKENS_H

#include "common/net/rpc.h"
#include "proto/wire.h"

struct tokens;

// Makes an empty set, which lets every call in until tokens_welcome has brought
// a key. Returns NULL without memory.
struct tokens *tokens_new(void);
// Frees the set; no other thread uses it. NULL is allowed.
void tokens_free(struct tokens *t);

// Takes the key of a coordinator's welcome, in place of an earlier one, and
// whether tokens are required; a welcome without a key changes nothing.
void tokens_welcome(struct tokens *t, const Sluice__V1__Welcome *m);

// Returns SL_OK if a call may reach a job: it has the job's token; or it has
// none ({0, 0}) and none is required; or no key has come yet; or it comes from
// an admin, or over a socket file; or `t` is NULL. Else SL_EAUTH, SL_EDENIED,
// or SL_ENOMEM: the token could not be checked. `token` is not NULL.
enum sl_err tokens_check(struct tokens *t, const struct rpc_call *call,
                         uint64_t job_uid, uint64_t job_incarnation,
                         const struct wire_token *token, struct sl_error *err);

// Returns true if leases have proofs, so that an attempt counts only with its
// proof. A push has none, and fences no attempt then. False before the key
// came, and if `t` is NULL.
bool tokens_want_proof(const struct tokens *t);

// Returns true if the ask may fence older attempts (I4): its proof shows that
// the asker was leased what it asks about; or no proof is wanted
// (tokens_want_proof; `t` may be NULL); or the call comes from an admin, or
// over a socket file. False, too, without memory to check the proof. For a call
// that tokens_check has let in.
bool tokens_proven(struct tokens *t, const struct rpc_call *call,
                   uint64_t job_uid, const struct wire_ask *ask);

// Returns SL_OK if a call may read a file of a job of which only the number is
// known: no token would be required, or it comes from an admin, or over a
// socket file, or `t` is NULL. Else SL_EUNAVAIL.
enum sl_err tokens_check_archive(struct tokens *t, const struct rpc_call *call,
                                 struct sl_error *err);

#endif
