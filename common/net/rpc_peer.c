// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_peer.c -- who a server's callers are.
//
// Core gives the certificate of a connection as PEM, again for each call.
// What it says is read once: a server keeps the answers by the text, and asks
// again about revocation when certificate files were replaced.
#include "common/net/rpc_inner.h"

#include <stdio.h>

#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/net/tls_peer.h"

#define KEPT_MAX 4096 // then all are forgotten

struct rpc_peer_cert {
    size_t bytes;
    struct tls_peer peer;
    unsigned serial; // of the files by which `revoked` was decided
    bool revoked;
    char pem[];
};

struct rpc_peers {
    pthread_mutex_t lock;
    struct map kept; // hash of the PEM -> struct rpc_peer_cert
    const struct rpc_source *sources;
};

struct rpc_peers *rpc_peers_new(void)
{
    struct rpc_peers *p = gpr_zalloc(sizeof(*p));

    pthread_mutex_init(&p->lock, NULL);
    map_init(&p->kept);
    return p;
}

void rpc_peers_free(struct rpc_peers *p)
{
    map_release_owned(&p->kept);
    pthread_mutex_destroy(&p->lock);
    gpr_free(p);
}

void rpc_peers_use(struct rpc_peers *p, const struct rpc_source *sources)
{
    p->sources = sources;
}

// Changes when certificate files were replaced.
unsigned rpc_peers_serial(const struct rpc_peers *p)
{
    unsigned sum = 0;

    for (const struct rpc_source *s = p->sources; s != NULL; s = s->next)
        sum += tls_files_serial(s->files);
    return sum;
}

static bool revoked(const struct rpc_peers *p, const char *pem, size_t n)
{
    for (const struct rpc_source *s = p->sources; s != NULL; s = s->next)
        if (tls_files_revoke(s->files, pem, n))
            return true;
    return false;
}

static struct rpc_peer_cert *read_new(const char *pem, size_t n)
{
    struct rpc_peer_cert *k = sl_calloc(1, sizeof(*k) + n);

    if (k == NULL)
        return NULL;
    k->bytes = n;
    memcpy(k->pem, pem, n);
    tls_peer_read(&k->peer, pem, n);
    return k;
}

// Reads a certificate and keeps it under `hash`, instead of another certificate
// of the same hash. NULL when memory is out.
static struct rpc_peer_cert *rpc_peers_keep_locked(struct rpc_peers *p,
                                                   uint64_t hash,
                                                   const char *pem, size_t n)
{
    struct rpc_peer_cert *k = read_new(pem, n);

    if (k == NULL)
        return NULL;
    if (p->kept.len >= KEPT_MAX) {
        map_release_owned(&p->kept);
        map_init(&p->kept);
    }
    sl_free(map_remove(&p->kept, hash));
    if (map_put(&p->kept, hash, k) == SL_OK)
        return k;
    sl_free(k);
    return NULL;
}

static void rpc_peers_find_locked(struct rpc_peers *p, struct rpc_peer *out,
                                  const char *pem, size_t n)
{
    unsigned serial = rpc_peers_serial(p);
    uint64_t hash = sl_hash64(pem, n);
    struct rpc_peer_cert *k = map_get(&p->kept, hash);

    if (k == NULL || k->bytes != n || memcmp(k->pem, pem, n) != 0)
        k = rpc_peers_keep_locked(p, hash, pem, n);
    if (k == NULL)
        return; // no memory: a peer without a name, which is refused
    if (k->serial != serial) {
        k->revoked = revoked(p, pem, n);
        k->serial = serial;
    }
    snprintf(out->id, sizeof(out->id), "%s", k->peer.id);
    out->uris = k->peer.uris;
    out->revoked = k->revoked;
}

// ---- of a call

static const grpc_auth_property *property(const grpc_auth_context *context,
                                          const char *name)
{
    grpc_auth_property_iterator it =
        grpc_auth_context_find_properties_by_name(context, name);

    return grpc_auth_property_iterator_next(&it);
}

static enum rpc_way rpc_peer_read_way(const grpc_auth_context *context)
{
    const grpc_auth_property *type =
        property(context, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);

    if (type == NULL)
        return RPC_WAY_PLAIN;
    if (strcmp(type->value, GRPC_SSL_TRANSPORT_SECURITY_TYPE) == 0)
        return RPC_WAY_TLS;
    // Local credentials are given to unix sockets alone.
    return strcmp(type->value, "local") == 0 ? RPC_WAY_UNIX : RPC_WAY_PLAIN;
}

void rpc_peers_find(struct rpc_peers *p, grpc_call *call, struct rpc_peer *out)
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    const grpc_auth_property *pem;

    *out =
        (struct rpc_peer){.way = RPC_WAY_PLAIN, .guarded = p->sources != NULL};
    if (context == NULL)
        return;
    out->way = rpc_peer_read_way(context);
    pem = property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (out->way == RPC_WAY_TLS && pem != NULL) {
        pthread_mutex_lock(&p->lock);
        rpc_peers_find_locked(p, out, pem->value, pem->value_length);
        pthread_mutex_unlock(&p->lock);
    }
    grpc_auth_context_release(context);
}
