// SPDX-License-Identifier: Apache-2.0
// Job tokens, as a psserver asks for them: calls that are no admin's, over a
// loopback address and over a socket file.
#include "psserver/service/tokens.h"

#include <pthread.h>
#include <string.h>

#include "common/base/mem.h"
#include "proto/token.h"
#include "tests/unit/common/rpc_kit.h"

static const uint8_t key[TOKEN_KEY_BYTES] = {1, 2, 3};

// What the one method says of its caller; it runs on an I/O thread.
struct asked {
    struct tokens *tokens;
    uint64_t uid, incarnation;
    struct wire_token token;
    bool archive, no_memory;
    struct wire_ask *ask; // is it proven?
};

static struct asked asked; // the test's own
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct asked shown; // to the method, under the lock

static void on_call(struct rpc_call *call, void *arg)
{
    struct sl_error err = SL_ERROR_INIT;
    struct asked of;
    enum sl_err rc;

    pthread_mutex_lock(&lock);
    of = shown;
    pthread_mutex_unlock(&lock);
    if (of.no_memory)
        sl_mem_fail_at(1);
    if (of.ask != NULL)
        rc = tokens_proven(of.tokens, call, of.uid, of.ask) ? SL_OK : SL_ESTALE;
    else
        rc = of.archive ? tokens_check_archive(of.tokens, call, &err)
                        : tokens_check(of.tokens, call, of.uid, of.incarnation,
                                       &of.token, &err);
    sl_mem_fail_at(0);
    rpc_answer(call, rc, &err, NULL);
}

static const struct rpc_method method = {
    .path = "/t.T/Check", .kind = RPC_UNARY, .unary = on_call};

static void begin(struct world *w, bool unix_socket)
{
    memset(&asked, 0, sizeof(asked));
    asked.tokens = tokens_new();
    T_TRUE(asked.tokens != NULL);
    asked.uid = 7;
    asked.incarnation = 1;
    world_open(w, &method, 1, NULL, unix_socket);
}

static void end(struct world *w)
{
    world_close(w);
    tokens_free(asked.tokens);
}

static void welcome(size_t key_bytes, bool required)
{
    Sluice__V1__Welcome m = SLUICE__V1__WELCOME__INIT;

    m.token_key = (ProtobufCBinaryData){key_bytes, (uint8_t *)key};
    m.tokens_required = required;
    tokens_welcome(asked.tokens, &m);
}

static enum sl_err call(struct world *w, const struct wire_token *token)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    struct rpc_body *reply = NULL;
    enum sl_err rc;

    asked.token = *token;
    pthread_mutex_lock(&lock);
    shown = asked;
    pthread_mutex_unlock(&lock);
    rc = rpc_call_sync(w->channel, "/t.T/Check", NULL, &options, &reply,
                       t_err());
    rpc_body_free(reply);
    return rc;
}

TEST(tokens, only_the_jobs_own_passes_where_one_is_required)
{
    struct wire_token none = {0}, own, other, older, forged;
    struct world w;

    begin(&w, false);
    T_OK(token_make(&own, key, 7, 1));
    T_OK(token_make(&other, key, 8, 1));
    T_OK(token_make(&older, key, 7, 0));
    forged = own;
    forged.high ^= 1;
    T_OK(call(&w, &none)); // no coordinator has said that there are any
    T_OK(call(&w, &other));
    welcome(TOKEN_KEY_BYTES, true);
    T_OK(call(&w, &own));
    T_OK(call(&w, &own)); // a kept one
    T_FAILS(SL_EAUTH, call(&w, &none));
    T_FAILS(SL_EDENIED, call(&w, &other));
    T_FAILS(SL_EDENIED, call(&w, &older));
    T_FAILS(SL_EDENIED, call(&w, &forged));
    asked.incarnation = 0; // what the call itself says: the shard judges that
    T_OK(call(&w, &older));
    asked.archive = true;
    T_FAILS(SL_EUNAVAIL, call(&w, &own));
    end(&w);
}

// A token is kept to be quick; one that cannot be kept is judged all the same.
TEST(tokens, a_right_one_passes_without_memory)
{
    struct wire_token own, other;
    struct world w;

    begin(&w, false);
    T_OK(token_make(&own, key, 7, 1));
    T_OK(token_make(&other, key, 8, 1));
    welcome(TOKEN_KEY_BYTES, true);
    asked.no_memory = true;
    T_OK(call(&w, &own));
    T_FAILS(SL_EDENIED, call(&w, &other));
    asked.no_memory = false;
    T_OK(call(&w, &own));
    end(&w);
}

TEST(tokens, where_none_is_required_a_wrong_one_is_refused_all_the_same)
{
    struct wire_token none = {0}, other;
    struct world w;

    begin(&w, false);
    T_OK(token_make(&other, key, 8, 1));
    welcome(TOKEN_KEY_BYTES, false);
    T_OK(call(&w, &none));
    T_FAILS(SL_EDENIED, call(&w, &other));
    welcome(0, true); // of a coordinator of before: nothing changes
    T_OK(call(&w, &none));
    T_FAILS(SL_EDENIED, call(&w, &other));
    asked.archive = true;
    T_OK(call(&w, &none));
    end(&w);
}

TEST(tokens, over_a_socket_file_none_is_wanted)
{
    struct wire_token none = {0};
    struct world w;

    begin(&w, true);
    welcome(TOKEN_KEY_BYTES, true);
    T_OK(call(&w, &none));
    asked.archive = true;
    T_OK(call(&w, &none));
    end(&w);
}

TEST(tokens, an_attempt_is_proven_to_be_leased)
{
    struct wire_ask ask = {.job_incarnation = 1, .closure = 4};
    struct wire_token none = {0};
    struct world w;

    begin(&w, false);
    asked.ask = &ask;
    ask.attempt = (struct wire_attempt){2, UINT64_MAX};
    T_FALSE(tokens_want_proof(asked.tokens));
    T_OK(call(&w, &none)); // nobody has a proof
    welcome(TOKEN_KEY_BYTES, false);
    T_TRUE(tokens_want_proof(asked.tokens));
    T_FAILS(SL_ESTALE, call(&w, &none));
    T_OK(token_make(&ask.proof, key, 7, 1)); // the job's token is none
    T_FAILS(SL_ESTALE, call(&w, &none));
    T_OK(token_make_lease(&ask.proof, key, 7, 1, 4,
                          (struct wire_attempt){2, 1}));
    T_FAILS(SL_ESTALE, call(&w, &none));
    ask.attempt.n = 1;
    T_OK(call(&w, &none));
    ask.closure = 5;
    T_FAILS(SL_ESTALE, call(&w, &none));
    end(&w);
    begin(&w, true);
    asked.ask = &ask;
    welcome(TOKEN_KEY_BYTES, true);
    T_OK(call(&w, &none)); // of our own user
    end(&w);
}
