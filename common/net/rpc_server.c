// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_server.c -- a server's life.
//
// `live` counts what still has to come back from core: posted requests, open
// calls and streams, and the shutdown itself. The server may be destroyed
// when it is zero.
#include "common/net/rpc_serve.h"

#include <sys/stat.h>

#define POSTED_UNARY 32
#define POSTED_STREAM 4
#define POSTED_UNKNOWN 2
#define QUEUE_CAP ((size_t)64 << 20)

enum sl_err rpc_server_adopt(struct rpc_server *s, int fd, struct sl_error *err)
{
    struct rpc_host *host = rpc_host_new(&serve_host_events, s, fd);
    enum sl_err rc = SL_OK;

    atomic_fetch_add(&s->live, 1);
    pthread_mutex_lock(&s->lock);
    if (atomic_load(&s->stopping))
        rc = sl_fail(err, SL_ESTATE, "this server is ending");
    if (rc == SL_OK)
        rc = rpc_host_open(host, rpc_io_pick(s->io, 0), err);
    if (rc == SL_OK)
        list_push_back(&s->hosts, rpc_host_node(host));
    pthread_mutex_unlock(&s->lock);
    if (rc != SL_OK) {
        rpc_host_unref(host);
        serve_live_down(s);
    }
    return rc;
}

// ---- the server

static enum sl_err register_method(struct rpc_server *s, struct served *served,
                                   struct sl_error *err)
{
    const struct rpc_method *m = &served->method;

    served->registered = grpc_server_register_method(
        s->server, m->path, NULL,
        serve_asks(m) ? GRPC_SRM_PAYLOAD_NONE
                      : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
        0);
    if (served->registered == NULL)
        return sl_fail(err, SL_EINVAL, "method %s is in the tables twice",
                       m->path);
    return SL_OK;
}

static void copy_tables(struct rpc_server *s, const struct rpc_table *tables,
                        size_t tables_count)
{
    for (size_t t = 0; t < tables_count; t++)
        s->count += tables[t].count;
    s->served = gpr_zalloc((s->count + 1) * sizeof(*s->served));
    for (size_t i = 0; i <= s->count; i++)
        rpc_figures_init(&s->served[i].figures);
    s->count = 0;
    for (size_t t = 0; t < tables_count; t++) {
        for (size_t m = 0; m < tables[t].count; m++) {
            s->served[s->count].method = tables[t].methods[m];
            s->served[s->count++].arg = tables[t].arg;
        }
    }
}

static void create_core_server(struct rpc_server *s,
                               const struct rpc_server_options *o)
{
    const struct rpc_limits *most = &s->limit.most;
    struct rpc_tuning tuning = {
        .max_receive_bytes = RPC_CONTROL_BYTES,
        .patience_ms = most->patience_ms,
        // And what core puts aside to read into, of each connection.
        .inbound_bytes = most->inbound_bytes +
                         (size_t)most->connections * RPC_READ_LEAST_BYTES};
    struct rpc_args args;

    if (o != NULL) {
        tuning.keepalive_ms = o->keepalive_ms;
        tuning.keepalive_timeout_ms = o->keepalive_timeout_ms;
    }
    // Core knows one limit per server; each method's own is checked here.
    for (size_t i = 0; i < s->count; i++) {
        if (serve_request_limit(&s->served[i]) > tuning.max_receive_bytes)
            tuning.max_receive_bytes = serve_request_limit(&s->served[i]);
    }
    rpc_args_server(&args, &tuning);
    s->server = grpc_server_create(&args.list, NULL);
    rpc_args_release(&args);
    s->lanes = gpr_zalloc(s->io->threads * sizeof(*s->lanes));
    for (unsigned i = 0; i < s->io->threads; i++) {
        s->lanes[i].server = s;
        s->lanes[i].thread = &s->io->thread[i];
        grpc_server_register_completion_queue(s->server, s->io->thread[i].cq,
                                              NULL);
    }
}

enum sl_err rpc_server_new(struct rpc_server **out, struct rpc_io *io,
                           const struct rpc_table *tables, size_t tables_count,
                           const struct rpc_server_options *options,
                           struct sl_error *err)
{
    struct rpc_server *s = gpr_zalloc(sizeof(*s));
    enum sl_err rc = SL_OK;

    s->io = io;
    s->posted = options && options->posted ? options->posted : POSTED_UNARY;
    s->queue_cap_bytes = options && options->stream_queue_bytes
                             ? options->stream_queue_bytes
                             : QUEUE_CAP;
    s->allow = options != NULL ? options->allow : NULL;
    s->shared = options != NULL ? options->shared : NULL;
    rpc_limit_init(&s->limit, options != NULL ? options->limits : NULL);
    s->socks = rpc_socks_new(&s->limit.most);
    pthread_mutex_init(&s->limit_lock, NULL);
    list_init(&s->timed);
    list_init(&s->streams);
    s->peers = rpc_peers_new();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->gone, NULL);
    list_init(&s->hosts);
    atomic_fetch_add(&io->users, 1);
    copy_tables(s, tables, tables_count);
    create_core_server(s, options);
    for (size_t i = 0; i < s->count && rc == SL_OK; i++)
        rc = register_method(s, &s->served[i], err);
    if (rc != SL_OK) {
        rpc_server_free(s);
        return rc;
    }
    *out = s;
    return SL_OK;
}

enum sl_err rpc_server_bind(struct rpc_server *s, const char *address,
                            const struct rpc_tls *tls, int *port,
                            struct sl_error *err)
{
    grpc_server_credentials *creds;
    struct rpc_source *source = NULL;
    struct rpc_address a;
    mode_t mask;
    int bound;
    enum sl_err rc = rpc_address_parse(&a, address, err);

    if (rc == SL_OK)
        rc = rpc_address_claim(&a, err);
    if (rc == SL_OK)
        rc = rpc_server_creds(&creds, &source, address, tls, err);
    if (rc != SL_OK)
        return rc;
    // The mask is the process's, but there is no other way to have the socket
    // file closed to others from its first instant.
    mask = a.unix_path ? umask(0177) : 0;
    bound = grpc_server_add_http2_port(s->server, address, creds);
    if (a.unix_path)
        umask(mask);
    grpc_server_credentials_release(creds);
    if (bound == 0) {
        rpc_sources_free(source); // without a listener core asks it no more
        return rpc_address_diagnose(&a, err);
    }
    if (source != NULL) {
        source->next = s->sources;
        s->sources = source;
        rpc_peers_use(s->peers, source);
    }
    if (!a.unix_path) {
        rpc_socks_port(s->socks, (unsigned)bound);
        s->tcp = true;
    }
    if (port != NULL)
        *port = a.unix_path ? 0 : bound;
    return SL_OK;
}

static unsigned to_post(const struct rpc_server *s, const struct served *served)
{
    if (served->registered == NULL)
        return POSTED_UNKNOWN;
    return served->method.kind == RPC_UNARY ? s->posted : POSTED_STREAM;
}

static void rpc_server_look(void *arg)
{
    struct rpc_server *s = arg;

    serve_look(s, &s->serial);
    rpc_socks_look(s->socks);
}

void rpc_server_start(struct rpc_server *s)
{
    grpc_server_start(s->server);
    s->serial = rpc_peers_serial(s->peers);
    s->sentry = rpc_sentry_start(rpc_server_look, s);
    // New objects, none of a pool: the pools belong to the I/O threads, which
    // may be at work as soon as the first request is posted.
    for (unsigned i = 0; i < s->io->threads; i++) {
        for (size_t m = 0; m <= s->count; m++) {
            for (unsigned n = to_post(s, &s->served[m]); n > 0; n--)
                serve_post(serve_call_new(&s->lanes[i]), &s->served[m]);
        }
    }
}

void rpc_server_drain(struct rpc_server *s)
{
    atomic_store(&s->draining, true);
}

static void stopped(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    serve_live_down(sl_container_of(tag, struct rpc_server, stopped));
}

void rpc_server_stop(struct rpc_server *s)
{
    if (atomic_exchange(&s->stopping, true))
        return;
    s->stopped.event = stopped;
    atomic_fetch_add(&s->live, 1);
    rpc_tag_post(&s->stopped);
    grpc_server_shutdown_and_notify(s->server, s->lanes[0].thread->cq,
                                    &s->stopped);
    grpc_server_cancel_all_calls(s->server);
    serve_close(s);
    pthread_mutex_lock(&s->lock);
    list_for(n, &s->hosts)
    {
        rpc_host_close(rpc_host_of_node(n));
    }
    pthread_mutex_unlock(&s->lock);
}

void rpc_server_free(struct rpc_server *s)
{
    if (s == NULL)
        return;
    rpc_server_stop(s);
    rpc_sentry_stop(s->sentry);
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->live) > 0)
        pthread_cond_wait(&s->gone, &s->lock);
    pthread_mutex_unlock(&s->lock);
    grpc_server_destroy(s->server);
    rpc_peers_free(s->peers);
    rpc_sources_free(s->sources);
    for (unsigned i = 0; i < s->io->threads; i++)
        serve_pool_free(&s->lanes[i].pool);
    serve_pool_free(&s->pool);
    rpc_socks_free(s->socks);
    rpc_limit_release(&s->limit);
    pthread_mutex_destroy(&s->limit_lock);
    pthread_cond_destroy(&s->gone);
    pthread_mutex_destroy(&s->lock);
    atomic_fetch_sub(&s->io->users, 1);
    gpr_free(s->lanes);
    gpr_free(s->served);
    gpr_free(s);
}

size_t rpc_server_open_calls(struct rpc_server *s)
{
    return atomic_load(&s->open);
}
