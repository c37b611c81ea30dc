// SPDX-License-Identifier: Apache-2.0
// trainer/push/peers.c -- the list of psservers that this worker is connected
// to.
#include "trainer/push/peers.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "proto/access.h"

struct peers_server {
    struct list_node node;
    struct rpc_channel *channel;
    struct peer_shm *shm; // NULL: no memory is shared
    unsigned refs;
};

struct peers {
    pthread_mutex_t lock; // guards the list and the counts
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
        return sl_no_memory(err);
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

static struct peers_server *peers_find_locked(struct peers *p,
                                              const char *address)
{
    list_for(n, &p->list)
    {
        struct peers_server *one = list_entry(n, struct peers_server, node);

        if (strcmp(rpc_channel_address(one->channel), address) == 0)
            return one;
    }
    return NULL;
}

static enum sl_err peers_add_locked(struct peers *p, const char *address,
                                    struct peers_server **out,
                                    struct sl_error *err)
{
    struct peers_server *one = sl_calloc(1, sizeof(*one));
    enum sl_err rc;

    if (one == NULL)
        return sl_no_memory(err);
    rc = rpc_channel_new(&one->channel, p->io, address, p->tls,
                         &access_to_psserver, err);
    if (rc != SL_OK) {
        sl_free(one);
        return rc;
    }
    if (p->loop != NULL) // without memory for it bytes are sent
        (void)peer_shm_new(&one->shm, p->loop, p->clock, one->channel);
    list_push_back(&p->list, &one->node);
    *out = one;
    return SL_OK;
}

enum sl_err peers_get(struct peers *p, const char *address,
                      struct rpc_channel **out, struct peer_shm **shm,
                      struct sl_error *err)
{
    struct peers_server *one;
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&p->lock);
    one = peers_find_locked(p, address);
    if (one == NULL)
        rc = peers_add_locked(p, address, &one, err);
    if (rc == SL_OK) {
        one->refs++;
        *out = one->channel;
        *shm = one->shm;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

bool peers_worth(const struct peers *p, size_t bytes)
{
    return bytes >= p->at_least;
}

void peers_put(struct peers *p, struct rpc_channel *channel)
{
    struct peers_server *gone = NULL;

    if (channel == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    list_for(n, &p->list)
    {
        struct peers_server *one = list_entry(n, struct peers_server, node);

        if (one->channel == channel && --one->refs == 0)
            gone = one;
    }
    if (gone != NULL)
        list_remove(&gone->node);
    pthread_mutex_unlock(&p->lock);
    if (gone != NULL) {
        peer_shm_free(gone->shm);
        rpc_channel_free(gone->channel); // waits: not under the lock
        sl_free(gone);
    }
}
