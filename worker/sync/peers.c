// SPDX-License-Identifier: Apache-2.0
// worker/sync/peers.c -- see peers.h.
#include "worker/sync/peers.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"

struct peer {
    struct list_node node;
    struct rpc_channel *channel;
    struct near *near; // NULL: not shared with
    unsigned refs;
};

struct peers {
    pthread_mutex_t lock; // of the list and the counts
    struct list list;
    struct rpc_io *io;
    const struct rpc_tls *tls;

    struct loop *loop; // NULL: no memory is shared
    const struct sl_clock *clock;
    size_t at_least;
};

enum sl_err peers_new(struct peers **out, struct rpc_io *io,
                      const struct rpc_tls *tls, struct sl_error *err)
{
    struct peers *p = sl_calloc(1, sizeof(*p));

    if (p == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    pthread_mutex_init(&p->lock, NULL);
    list_init(&p->list);
    p->io = io;
    p->tls = tls;
    *out = p;
    return SL_OK;
}

void peers_free(struct peers *p)
{
    if (p == NULL)
        return;
    assert(list_empty(&p->list));
    pthread_mutex_destroy(&p->lock);
    sl_free(p);
}

void peers_share(struct peers *p, struct loop *loop,
                 const struct sl_clock *clock, size_t at_least)
{
    p->loop = loop;
    p->clock = clock;
    p->at_least = at_least;
}

static struct peer *find_locked(struct peers *p, const char *address)
{
    list_for(n, &p->list)
    {
        struct peer *peer = list_entry(n, struct peer, node);

        if (strcmp(rpc_channel_address(peer->channel), address) == 0)
            return peer;
    }
    return NULL;
}

static enum sl_err add_locked(struct peers *p, const char *address,
                              struct peer **out, struct sl_error *err)
{
    struct peer *peer = sl_calloc(1, sizeof(*peer));
    enum sl_err rc;

    if (peer == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    rc = rpc_channel_new(&peer->channel, p->io, address, p->tls, NULL, err);
    if (rc != SL_OK) {
        sl_free(peer);
        return rc;
    }
    if (p->loop != NULL) // without, bytes are sent
        (void)near_new(&peer->near, p->loop, p->clock, peer->channel);
    list_push_back(&p->list, &peer->node);
    *out = peer;
    return SL_OK;
}

enum sl_err peers_get(struct peers *p, const char *address,
                      struct rpc_channel **out, struct sl_error *err)
{
    struct peer *peer;
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&p->lock);
    peer = find_locked(p, address);
    if (peer == NULL)
        rc = add_locked(p, address, &peer, err);
    if (rc == SL_OK) {
        peer->refs++;
        *out = peer->channel;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

struct near *peers_near(struct peers *p, const struct rpc_channel *channel,
                        size_t bytes, bool *worth)
{
    struct near *near = NULL;

    *worth = bytes >= p->at_least;
    if (p->loop == NULL)
        return NULL;
    pthread_mutex_lock(&p->lock);
    list_for(n, &p->list)
    {
        struct peer *peer = list_entry(n, struct peer, node);

        if (peer->channel == channel)
            near = peer->near;
    }
    pthread_mutex_unlock(&p->lock);
    return near;
}

void peers_put(struct peers *p, struct rpc_channel *channel)
{
    struct peer *gone = NULL;

    if (channel == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    list_for(n, &p->list)
    {
        struct peer *peer = list_entry(n, struct peer, node);

        if (peer->channel == channel && --peer->refs == 0)
            gone = peer;
    }
    if (gone != NULL)
        list_remove(&gone->node);
    pthread_mutex_unlock(&p->lock);
    if (gone != NULL) {
        near_free(gone->near);
        rpc_channel_free(gone->channel); // waits: not under the lock
        sl_free(gone);
    }
}
