// SPDX-License-Identifier: Apache-2.0
// psserver/roster/feed_links.c -- see feed_links.h.
#include "psserver/roster/feed_links.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "proto/access.h"

// Calls under way at once: two pushes of the usual size, so that one comes in
// while another is applied.
#define WINDOW_BYTES ((size_t)8 << 20)
// What is slower than this misses its deadline.
#define LEAST_BYTES_PER_MS ((size_t)64 << 10)

void feed_links_init(struct feed_links *l, struct loop *loop, struct rpc_io *io,
                     const struct rpc_tls *tls)
{
    *l = (struct feed_links){.loop = loop, .io = io, .tls = tls};
    list_init(&l->links);
}

void feed_links_release(struct feed_links *l)
{
    l->ending = true;
    list_for(n, &l->links)
    {
        struct feed_link *link = list_entry(n, struct feed_link, node);

        rpc_channel_free(link->channel);
        link->channel = NULL;
    }
    // A stop meant for an earlier run may end a run early.
    while (!list_empty(&l->links))
        loop_run(l->loop);
}

static struct feed_link *link_find(struct feed_links *l, const char *address,
                                   unsigned number)
{
    list_for(n, &l->links)
    {
        struct feed_link *link = list_entry(n, struct feed_link, node);

        if (link->number == number && strcmp(link->address, address) == 0)
            return link;
    }
    return NULL;
}

static enum sl_err link_new(struct feed_link **out, struct feed_links *l,
                            const char *address, unsigned number,
                            struct sl_error *err)
{
    struct rpc_channel_options options = access_to_psserver;
    size_t n = strlen(address) + 1;
    struct feed_link *link = sl_calloc(1, sizeof(*link) + n);
    enum sl_err rc;

    if (link == NULL)
        return sl_no_memory(err);
    options.window_bytes = WINDOW_BYTES;
    rc = rpc_channel_new(&link->channel, l->io, address, l->tls, &options, err);
    if (rc != SL_OK) {
        sl_free(link);
        return rc;
    }
    link->links = l;
    link->number = number;
    atomic_init(&link->bytes, 0);
    memcpy(link->address, address, n);
    list_push_back(&l->links, &link->node);
    *out = link;
    return SL_OK;
}

enum sl_err feed_links_take(struct feed_link **out, struct feed_links *l,
                            const char *address, uint64_t which,
                            struct sl_error *err)
{
    unsigned number =
        (unsigned)(which % sl_min(rpc_io_threads(l->io), FEED_LINKS_MOST));
    struct feed_link *link = link_find(l, address, number);
    enum sl_err rc = SL_OK;

    if (link == NULL)
        rc = link_new(&link, l, address, number, err);
    if (rc != SL_OK)
        return rc;
    link->users++;
    *out = link;
    return SL_OK;
}

void feed_link_put(struct feed_link *link)
{
    struct feed_links *l = link->links;

    if (--link->users > 0)
        return;
    list_remove(&link->node);
    rpc_channel_free(link->channel);
    sl_free(link);
    if (l->ending)
        loop_stop(l->loop);
}

int64_t feed_link_enter(struct feed_link *link, size_t bytes)
{
    return (int64_t)(atomic_fetch_add(&link->bytes, bytes) /
                     LEAST_BYTES_PER_MS);
}

void feed_link_leave(struct feed_link *link, size_t bytes)
{
    atomic_fetch_sub(&link->bytes, bytes);
}
