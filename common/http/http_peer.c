// SPDX-License-Identifier: Apache-2.0
// common/http/http_peer.c -- connections: who is there, and for how long.
#include <sys/socket.h>

#include "common/base/mem.h"
#include "common/http/http_inner.h"

#define TICK_MS 1000

void http_run_soon(struct http *h)
{
    if (!h->running && !h->ending)
        loop_timer_start(h->due, 0, 0);
}

void http_cut_off(struct MHD_Connection *at)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(at, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (info != NULL)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

static void peer_begins(struct http *h, struct MHD_Connection *at,
                        void **context)
{
    struct http_peer *p = sl_calloc(1, sizeof(*p));

    *context = p;
    if (p == NULL) { // it could not be watched
        http_cut_off(at);
        return;
    }
    p->at = at;
    p->since = h->seconds;
    list_push_back(&h->peers, &p->node);
    if (h->peer_count++ == 0)
        loop_timer_start(h->tick, TICK_MS, TICK_MS);
}

static void peer_ends(struct http *h, struct http_peer *p)
{
    if (p == NULL)
        return;
    list_remove(&p->node);
    sl_free(p);
    if (--h->peer_count == 0)
        loop_timer_stop(h->tick);
}

void http_on_peer(void *cls, struct MHD_Connection *at, void **context,
                  enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        peer_begins(cls, at, context);
    else
        peer_ends(cls, *context);
}

static struct http_peer *peer_of(struct MHD_Connection *at)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(at, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

void http_peer_answered(struct http *h, struct MHD_Connection *at)
{
    struct http_peer *p = peer_of(at);

    if (p == NULL)
        return;
    p->since = h->seconds;
    p->streams = false;
}

void http_peer_streams(struct MHD_Connection *at)
{
    struct http_peer *p = peer_of(at);

    if (p != NULL)
        p->streams = true;
}

// MHD closes who is idle; here is who trickles.
void http_peers_tick(struct http *h)
{
    h->seconds++;
    list_for(n, &h->peers)
    {
        struct http_peer *p = list_entry(n, struct http_peer, node);

        if (!p->streams && h->seconds - p->since > h->request_s)
            http_cut_off(p->at);
    }
}
