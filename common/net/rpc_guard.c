// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_guard.c -- whether a channel's servers are who they should be.
//
// Core asks after it has checked the chain, the dates and the host, and before
// the connection is used: so nothing has been sent to a server that is refused.
// All that core keeps of a refusal is that there was one, so the reason stays
// here for the calls that fail of it.
#include "common/net/rpc_inner.h"

#include <stdio.h>

#include "common/net/tls_peer.h"

#define CORES_WORDS "Verify peer callback returned a failure"

struct rpc_guard {
    atomic_uint refs;
    struct tls_files *files;
    rpc_allow_fn allow;
    pthread_mutex_t lock;
    struct sl_error why; // of the last refusal; under the lock
};

struct rpc_guard *rpc_guard_new(struct tls_files *files, rpc_allow_fn allow)
{
    struct rpc_guard *g = gpr_zalloc(sizeof(*g));

    atomic_init(&g->refs, 1);
    g->files = tls_files_ref(files);
    g->allow = allow;
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

void rpc_guard_unref(struct rpc_guard *g)
{
    if (g == NULL || atomic_fetch_sub(&g->refs, 1) > 1)
        return;
    tls_files_close(g->files);
    pthread_mutex_destroy(&g->lock);
    gpr_free(g);
}

static int rpc_guard_verify(const char *target, const char *pem, void *user)
{
    struct rpc_guard *g = user;
    struct rpc_peer server = {.way = RPC_WAY_TLS};
    struct sl_error err = SL_ERROR_INIT;
    struct tls_peer peer;
    enum sl_err rc;

    (void)target;
    tls_peer_read(&peer, pem, strlen(pem));
    server.uris = peer.uris;
    server.revoked = tls_files_revoke(g->files, pem, strlen(pem));
    snprintf(server.id, sizeof(server.id), "%s", peer.id);
    rc = g->allow(&server, &err);
    if (rc == SL_OK)
        return 0;
    pthread_mutex_lock(&g->lock);
    g->why = err;
    pthread_mutex_unlock(&g->lock);
    return 1;
}

static void destruct(void *user)
{
    rpc_guard_unref(user);
}

grpc_ssl_verify_peer_options rpc_guard_options(struct rpc_guard *g)
{
    atomic_fetch_add(&g->refs, 1);
    return (grpc_ssl_verify_peer_options){.verify_peer_callback =
                                              rpc_guard_verify,
                                          .verify_peer_callback_userdata = g,
                                          .verify_peer_destruct = destruct};
}

bool rpc_guard_why(struct rpc_guard *g, const char *text,
                   char out[SL_ERROR_TEXT])
{
    if (g == NULL || strstr(text, CORES_WORDS) == NULL)
        return false;
    pthread_mutex_lock(&g->lock);
    snprintf(out, SL_ERROR_TEXT, TLS_NOT_WHOM "%.*s",
             SL_ERROR_TEXT - (int)sizeof(TLS_NOT_WHOM), g->why.text);
    pthread_mutex_unlock(&g->lock);
    return true;
}
