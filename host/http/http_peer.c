// SPDX-License-Identifier: Apache-2.0
// host/http/http_peer.c -- accepts connections and limits their number and
// time.
//
// There is always room for one more: when all connections are taken, the one
// that has waited longest since its beginning or its last answer is closed.
// Streams stay (they have a lower limit of their own), and a client of another
// host never displaces one of this host: probes come from here.
//
// MHD's daemon works when its epoll descriptor can be read, and at a time that
// it tells (a timeout, or bytes that it has read and not yet parsed: then its
// timeout is 0). Each caller of http_run asks for that time afterwards.
//
// MHD's daemon does not accept connections itself: at its limit of connections,
// or of descriptors, it would take its listening socket out of its epoll set
// until its next run, and after the last connection it would never run. So
// on_knock accepts.
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "host/http/http_inner.h"

#define TICK_MS 1000
#define AT_ONCE 16 // are let in before the loop does something else

void http_run(void *arg)
{
    struct http *h = arg;
    MHD_UNSIGNED_LONG_LONG ms;

    loop_doing(h->loop, "the ops port");
    h->running = true;
    (void)MHD_run(h->daemon);
    h->running = false;
    if (MHD_get_timeout(h->daemon, &ms) == MHD_YES)
        loop_timer_start(h->due, ms, 0);
    else
        loop_timer_stop(h->due);
}

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

// ---- the door

static struct http_peer *http_peer_longest_idle(const struct http *h, bool near)
{
    list_for(n, &h->peers)
    {
        struct http_peer *p = list_entry(n, struct http_peer, node);

        if (!p->streams && p->near == near)
            return p;
    }
    return NULL;
}

static bool http_peers_make_room(struct http *h, bool near)
{
    struct http_peer *p;

    if (h->peer_count < h->connections)
        return true;
    p = http_peer_longest_idle(h, false);
    if (p == NULL && near)
        p = http_peer_longest_idle(h, true);
    if (p == NULL)
        return false;
    http_cut_off(p->at);
    http_run(h); // notices, and forgets it
    return h->peer_count < h->connections;
}

// Stops accepting for a second: when descriptors are out, the listening socket
// stays readable and the loop would spin.
static void shut_door(struct http *h)
{
    loop_watch_free(h->door);
    h->door = NULL;
    loop_timer_start(h->tick, TICK_MS, TICK_MS);
}

static void on_knock(void *arg)
{
    struct http *h = arg;

    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_storage from = {0};
        socklen_t n = sizeof(from);
        struct sockaddr *at = (struct sockaddr *)&from;
        int fd = accept4(h->fd, at, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno != EAGAIN)
                shut_door(h);
            break;
        }
        if (http_peers_make_room(h, http_near(at)))
            (void)MHD_add_connection(h->daemon, fd, at, n); // closes it if not
        else
            close(fd);
    }
    http_run(h);
}

enum sl_err http_open_door(struct http *h)
{
    enum sl_err rc = loop_watch_new(&h->door, h->loop, h->fd, on_knock, h);

    if (rc == SL_OK && h->peer_count == 0)
        loop_timer_stop(h->tick);
    return rc;
}

// ---- connections

static bool http_peer_is_near(struct MHD_Connection *at)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(at, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info != NULL && info->client_addr != NULL &&
           http_near(info->client_addr);
}

static void peer_begins(struct http *h, struct MHD_Connection *at,
                        void **context)
{
    struct http_peer *p = sl_calloc(1, sizeof(*p));

    *context = p;
    if (p == NULL) { // no memory to time this connection
        http_cut_off(at);
        return;
    }
    p->at = at;
    p->since = h->seconds;
    p->near = http_peer_is_near(at);
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
    if (--h->peer_count == 0 && h->door != NULL)
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
    list_remove(&p->node);
    list_push_back(&h->peers, &p->node);
}

void http_peer_streams(struct MHD_Connection *at)
{
    struct http_peer *p = peer_of(at);

    if (p != NULL)
        p->streams = true;
}

// MHD closes idle connections; this closes those that send a byte now and then.
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
