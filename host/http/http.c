// SPDX-License-Identifier: Apache-2.0
// host/http/http.c -- the server's life on the loop.
#include <unistd.h>

#include "common/base/mem.h"
#include "host/http/http_inner.h"

// ---- connections

static void http_on_tick(void *arg)
{
    struct http *h = arg;

    http_peers_tick(h);
    if (h->door == NULL)
        (void)http_open_door(h); // or in a second
    if (h->seconds % HTTP_BEAT_S == 0)
        http_streams_beat(h);
}

static void on_completed(void *cls, struct MHD_Connection *at, void **context,
                         enum MHD_RequestTerminationCode code)
{
    http_peer_answered(cls, at);
    if (*context != NULL)
        http_request_free(*context);
    *context = NULL;
}

// ---- the server

static enum sl_err copy_hosts(struct http *h, const char *const *hosts)
{
    size_t n = 0;

    while (hosts != NULL && hosts[n] != NULL)
        n++;
    h->hosts = sl_calloc(n + 1, sizeof(*h->hosts));
    for (size_t i = 0; h->hosts != NULL && i < n; i++) {
        h->hosts[i] = sl_strdup(hosts[i]);
        if (h->hosts[i] == NULL)
            return SL_ENOMEM;
    }
    return h->hosts != NULL ? SL_OK : SL_ENOMEM;
}

static unsigned or_usual(unsigned asked, unsigned usual)
{
    return asked != 0 ? asked : usual;
}

static enum sl_err start_daemon(struct http *h, const struct http_setup *setup,
                                struct sl_error *err)
{
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0,
        NULL, NULL, http_on_request, h, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, http_on_peer, h,
        MHD_OPTION_URI_LOG_CALLBACK, http_on_line, h,
        MHD_OPTION_CONNECTION_LIMIT, h->connections,
        // On loopback an address has no limit of its own: behind a proxy all
        // viewers come from one.
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        or_usual(setup->per_address, h->near ? 0 : HTTP_PER_ADDRESS),
        MHD_OPTION_CONNECTION_TIMEOUT, or_usual(setup->idle_s, HTTP_IDLE_S),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEADERS_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (h->daemon == NULL)
        return sl_fail(err, SL_ENOMEM, "cannot serve HTTP on %s: out of memory",
                       h->address);
    return SL_OK;
}

static enum sl_err join_loop(struct http *h, struct sl_error *err)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    enum sl_err rc = loop_timer_new(&h->due, h->loop, http_run, h);

    if (rc == SL_OK)
        rc = loop_timer_new(&h->tick, h->loop, http_on_tick, h);
    if (rc == SL_OK)
        rc = loop_watch_new(&h->watch, h->loop, info->epoll_fd, http_run, h);
    if (rc == SL_OK)
        rc = http_open_door(h);
    if (rc != SL_OK)
        return sl_fail(err, rc, "cannot serve HTTP on %s: %s", h->address,
                       sl_err_text(rc));
    return SL_OK;
}

static enum sl_err listen_and_start(struct http *h,
                                    const struct http_setup *setup,
                                    struct sl_error *err)
{
    enum sl_err rc = http_listen(&h->fd, setup->bind, h, err);

    if (rc == SL_OK)
        rc = start_daemon(h, setup, err);
    return rc == SL_OK ? join_loop(h, err) : rc;
}

enum sl_err http_new(struct http **out, const struct http_setup *setup,
                     struct sl_error *err)
{
    struct http *h = sl_calloc(1, sizeof(*h));
    enum sl_err rc;

    if (h == NULL)
        return sl_fail(err, SL_ENOMEM, "cannot serve HTTP: out of memory");
    h->loop = setup->loop;
    h->fd = -1;
    h->connections = or_usual(setup->connections, HTTP_CONNECTIONS);
    h->viewers = or_usual(setup->viewers, HTTP_VIEWERS);
    h->request_s = or_usual(setup->request_s, HTTP_REQUEST_S);
    list_init(&h->tables);
    list_init(&h->peers);
    list_init(&h->streams);
    rc = copy_hosts(h, setup->hosts);
    if (rc != SL_OK)
        sl_fail(err, rc, "cannot serve HTTP: out of memory");
    else
        rc = listen_and_start(h, setup, err);
    if (rc != SL_OK) {
        http_free(h);
        return rc;
    }
    *out = h;
    return SL_OK;
}

enum sl_err http_route(struct http *h, const struct http_route *routes,
                       void *arg)
{
    struct http_table *t = sl_calloc(1, sizeof(*t));

    if (t == NULL)
        return SL_ENOMEM;
    t->routes = routes;
    t->arg = arg;
    list_push_back(&h->tables, &t->node);
    return SL_OK;
}

void http_free(struct http *h)
{
    struct list_node *n;

    if (h == NULL)
        return;
    h->ending = true;
    loop_watch_free(h->door);
    if (h->fd >= 0)
        close(h->fd);
    loop_watch_free(h->watch);
    // A connection that is suspended cannot be ended.
    list_for(s, &h->streams)
        http_stream_resume(list_entry(s, struct http_stream, node));
    if (h->daemon != NULL)
        MHD_stop_daemon(h->daemon);
    loop_timer_free(h->due);
    loop_timer_free(h->tick);
    while ((n = list_pop_front(&h->tables)) != NULL)
        sl_free(list_entry(n, struct http_table, node));
    for (char **name = h->hosts; name != NULL && *name != NULL; name++)
        sl_free(*name);
    sl_free(h->hosts);
    sl_free(h);
}

const char *http_address(const struct http *h)
{
    return h->address;
}

bool http_is_near(const struct http *h)
{
    return h->near;
}

unsigned http_connections(const struct http *h)
{
    return h->peer_count;
}

unsigned http_viewers(const struct http *h)
{
    return h->stream_count;
}
