// SPDX-License-Identifier: Apache-2.0
// psserver/service/tokens.c -- the comparison of a call's token with the job's.
//
// Each call of the data plane comes by here, so the tokens that were made once
// are kept.
#include "psserver/service/tokens.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/access.h"
#include "proto/token.h"

#define KEPT_MAX 1024 // most tokens kept; then all are forgotten

struct cached_token {
    uint64_t job_uid, job_incarnation;
    struct wire_token token;
};

struct tokens {
    pthread_mutex_t lock; // guards all below
    bool known, required;
    _Atomic bool proves; // copy of `known`, read without the lock
    uint8_t key[TOKEN_KEY_BYTES];
    struct map kept;
};

struct tokens *tokens_new(void)
{
    struct tokens *t = sl_calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    map_init(&t->kept);
    return t;
}

void tokens_free(struct tokens *t)
{
    if (t == NULL)
        return;
    map_release_owned(&t->kept);
    pthread_mutex_destroy(&t->lock);
    explicit_bzero(t->key, sizeof(t->key));
    sl_free(t);
}

static void forget_locked(struct tokens *t)
{
    map_release_owned(&t->kept);
    map_init(&t->kept);
}

void tokens_welcome(struct tokens *t, const Sluice__V1__Welcome *m)
{
    if (m->token_key.len != TOKEN_KEY_BYTES)
        return;
    pthread_mutex_lock(&t->lock);
    memcpy(t->key, m->token_key.data, TOKEN_KEY_BYTES);
    t->known = true;
    atomic_store(&t->proves, true);
    t->required = m->tokens_required;
    forget_locked(t);
    pthread_mutex_unlock(&t->lock);
}

// Keeps a token that was made; without memory it is made again for the next
// call.
static void tokens_cache_locked(struct tokens *t, uint64_t hash,
                                const struct cached_token *made)
{
    struct cached_token *k = sl_malloc(sizeof(*k));

    if (k == NULL)
        return;
    *k = *made;
    if (t->kept.len >= KEPT_MAX)
        forget_locked(t);
    sl_free(map_remove(&t->kept, hash));
    if (map_put(&t->kept, hash, k) != SL_OK)
        sl_free(k);
}

// Sets *out to the job's own token.
static enum sl_err tokens_of_job_locked(struct tokens *t, uint64_t job_uid,
                                        uint64_t job_incarnation,
                                        struct wire_token *out)
{
    uint64_t hash = sl_mix64(job_uid + sl_mix64(job_incarnation));
    const struct cached_token *k = map_get(&t->kept, hash);
    struct cached_token made = {.job_uid = job_uid,
                                .job_incarnation = job_incarnation};

    if (k == NULL || k->job_uid != job_uid ||
        k->job_incarnation != job_incarnation) {
        if (token_make(&made.token, t->key, job_uid, job_incarnation) != SL_OK)
            return SL_ENOMEM; // of OpenSSL, which has no other reason
        tokens_cache_locked(t, hash, &made);
        k = &made;
    }
    *out = k->token;
    return SL_OK;
}

// The worth of a token: not required, right, another job's, missing, or not
// known for want of memory.
enum worth { NOBODY_ASKS, IT_HOLDS, IT_IS_ANOTHERS, IT_LACKS, NOBODY_KNOWS };

static enum worth tokens_check_token(struct tokens *t, uint64_t job_uid,
                                     uint64_t job_incarnation,
                                     const struct wire_token *token)
{
    bool absent = token->low == 0 && token->high == 0;
    enum worth worth = IT_IS_ANOTHERS;
    struct wire_token own;

    pthread_mutex_lock(&t->lock);
    if (!t->known || (absent && !t->required))
        worth = NOBODY_ASKS;
    else if (absent)
        worth = IT_LACKS;
    else if (tokens_of_job_locked(t, job_uid, job_incarnation, &own) != SL_OK)
        worth = NOBODY_KNOWS;
    else if (token_same(&own, token))
        worth = IT_HOLDS;
    pthread_mutex_unlock(&t->lock);
    return worth;
}

static bool is_trusted(const struct rpc_call *call)
{
    struct access_who who;
    struct rpc_peer peer;

    rpc_call_peer(call, &peer);
    return peer.way == RPC_WAY_UNIX ||
           (access_who(&who, &peer, NULL) == SL_OK && who.role == ACCESS_ADMIN);
}

enum sl_err tokens_check(struct tokens *t, const struct rpc_call *call,
                         uint64_t job_uid, uint64_t job_incarnation,
                         const struct wire_token *token, struct sl_error *err)
{
    enum worth worth =
        t == NULL ? NOBODY_ASKS
                  : tokens_check_token(t, job_uid, job_incarnation, token);

    if (worth == NOBODY_ASKS || worth == IT_HOLDS || is_trusted(call))
        return SL_OK;
    if (worth == NOBODY_KNOWS)
        return sl_fail(err, SL_ENOMEM, "no memory to check the call's token");
    return worth == IT_LACKS
               ? sl_fail(err, SL_EAUTH,
                         "the call has no job token: a worker is given one "
                         "with its job (JobOpen.token)")
               : sl_fail(err, SL_EDENIED,
                         "the call's token belongs to another job");
}

bool tokens_want_proof(const struct tokens *t)
{
    return t != NULL && atomic_load(&t->proves);
}

// Without a proof a worker with the job's token could ask with the highest
// attempt, which fences every later lease of the closure (I4): the job would
// stand still. A push needs none: no push becomes the newest attempt.
bool tokens_proven(struct tokens *t, const struct rpc_call *call,
                   uint64_t job_uid, const struct wire_ask *ask)
{
    struct wire_token want;
    enum sl_err rc;

    if (!tokens_want_proof(t))
        return true;
    pthread_mutex_lock(&t->lock);
    rc = token_make_lease(&want, t->key, job_uid, ask->job_incarnation,
                          ask->closure, ask->attempt);
    pthread_mutex_unlock(&t->lock);
    return (rc == SL_OK && token_same(&want, &ask->proof)) || is_trusted(call);
}

enum sl_err tokens_check_archive(struct tokens *t, const struct rpc_call *call,
                                 struct sl_error *err)
{
    bool required = false;

    if (t == NULL)
        return SL_OK;
    pthread_mutex_lock(&t->lock);
    required = t->known && t->required;
    pthread_mutex_unlock(&t->lock);
    if (!required || is_trusted(call))
        return SL_OK;
    return sl_fail(err, SL_EUNAVAIL,
                   "the shard is not here now, and files of jobs that have "
                   "ended are for admins; take the newest map and try again");
}
