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

// Makes tokens without a key, which let every call in until tokens_welcome;
// returns NULL only without memory.
struct tokens *tokens_new(void);
void tokens_free(struct tokens *t); // NULL is allowed

// Takes the key of a coordinator's welcome, in place of an earlier one; a
// welcome without a key changes nothing.
void tokens_welcome(struct tokens *t, const Sluice__V1__Welcome *m);

// Checks that a call may reach a job: it has the job's token; or none, where
// none is required; or comes from an admin, or over a socket file. `t` NULL:
// every call may. `token` is not NULL; {0, 0} is none. SL_ENOMEM: a token
// cannot be checked.
enum sl_err tokens_check(struct tokens *t, const struct rpc_call *call,
                         uint64_t job_uid, uint64_t job_incarnation,
                         const struct wire_token *token, struct sl_error *err);

// Returns true if attempts are proven: where there are tokens, leases have
// proofs. A push has no proof, so it fences no attempt then. False before the
// key came, and for `t` NULL.
bool tokens_want_proof(const struct tokens *t);

// Returns true if the ask may fence older attempts (I4): its proof shows that
// the asker was leased what it asks about; or no proof is wanted
// (tokens_want_proof; `t` may be NULL); or the call comes from an admin, or
// over a socket file. For a call that tokens_check has let in.
bool tokens_proven(struct tokens *t, const struct rpc_call *call,
                   uint64_t job_uid, const struct wire_ask *ask);

// Checks that a call may read a file of a job of which only the number is
// known: only where no token would be required, or for an admin, or over a
// socket file; else SL_EUNAVAIL. `t` NULL: every call may.
enum sl_err tokens_check_archive(struct tokens *t, const struct rpc_call *call,
                                 struct sl_error *err);

#endif
