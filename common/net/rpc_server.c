// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_server.c -- a server's life, and its unary calls.
//
//   post_request -> (a call arrives) arrived -> method->unary -> rpc_answer
//        ^                |                                         |
//        +----------------+  first thing: post the next     answered -> pool
//
// A call object is posted to core, filled by it, handed to the handler, and
// goes back to its I/O thread's pool when the answer has left. Both ends of
// that run on the same I/O thread, so the pool needs no lock.
//
// `live` counts what still has to come back from core: posted requests, open
// calls and streams, and the shutdown itself. The server may be destroyed
// when it is zero.
#include "common/net/local/rpc_sock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/net/rpc_faulty.h"
#include "common/run/log.h"

#define POSTED_UNARY 32
#define POSTED_STREAM 4
#define POSTED_UNKNOWN 2
#define QUEUE_CAP ((size_t)64 << 20)
#define SCRATCH_SPACE 256

struct served {
    struct rpc_method method; // path NULL: any that is not in a table
    void *arg;
    void *registered;
};

// What one I/O thread has of a server.
struct lane {
    struct rpc_server *server;
    struct rpc_thread *thread;
    struct rpc_call *pool;
};

struct scratch {
    struct scratch *next;
    _Alignas(16) uint8_t bytes[];
};

struct rpc_call {
    struct rpc_tag tag;
    struct lane *lane;
    struct served *served;
    struct rpc_call *next; // in the pool
    grpc_call *call;
    struct rpc_host *host; // instead of call: it came over a socket, and the
    uint64_t id;           // answer goes back there
    struct sl_slice request;
    uint8_t *request_space; // kept from call to call
    size_t request_cap;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call_details details; // of unknown methods
    grpc_byte_buffer *payload;
    struct rpc_body body;
    grpc_byte_buffer *reply;
    int cancelled;
    struct scratch *scratch;
    size_t space_used;
    _Alignas(16) uint8_t space[SCRATCH_SPACE];
};

struct rpc_server {
    struct rpc_io *io;
    grpc_server *server;
    struct served *served; // count + 1: the last is the unknown one
    size_t count;
    struct lane *lanes;
    unsigned posted;
    size_t queue_cap_bytes;
    struct rpc_source *sources; // of the certificates of each address
    struct rpc_peers *peers;
    enum sl_err (*allow)(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);
    struct rpc_tag stopped;
    atomic_bool draining, stopping;
    atomic_size_t open;
    atomic_size_t live;
    pthread_mutex_t lock; // for the wait of rpc_server_free, and of these:
    pthread_cond_t gone;
    struct list hosts;
    struct rpc_call *pool; // of calls over them
};

static void arrived(struct rpc_tag *tag, bool ok);

// ---- what has to come back

static void live_down(struct rpc_server *s)
{
    size_t live = atomic_load(&s->live);

    while (live > 1) {
        if (atomic_compare_exchange_weak(&s->live, &live, live - 1))
            return;
    }
    // The last one holds the lock, so that the waiter cannot free the server
    // from under it.
    pthread_mutex_lock(&s->lock);
    if (atomic_fetch_sub(&s->live, 1) == 1)
        pthread_cond_signal(&s->gone);
    pthread_mutex_unlock(&s->lock);
}

// ---- call objects

static struct rpc_call *call_new(struct lane *lane)
{
    struct rpc_call *c = gpr_zalloc(sizeof(*c));

    c->lane = lane;
    return c;
}

// On the lane's own I/O thread, as everything that touches the pool.
static struct rpc_call *call_from_pool(struct lane *lane)
{
    struct rpc_call *c = lane->pool;

    if (c == NULL)
        return call_new(lane);
    lane->pool = c->next;
    return c;
}

static void scratch_clear(struct rpc_call *c)
{
    while (c->scratch != NULL) {
        struct scratch *s = c->scratch;

        c->scratch = s->next;
        sl_free(s);
    }
    c->space_used = 0;
}

static void call_recycle(struct rpc_call *c)
{
    rpc_body_clear(&c->body);
    scratch_clear(c);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_details_destroy(&c->details);
    if (c->reply != NULL)
        grpc_byte_buffer_destroy(c->reply);
    if (c->payload != NULL)
        grpc_byte_buffer_destroy(c->payload);
    if (c->call != NULL)
        grpc_call_unref(c->call);
    c->reply = c->payload = NULL;
    c->call = NULL;
    c->next = c->lane->pool;
    c->lane->pool = c;
}

static void pool_free(struct rpc_call **pool)
{
    while (*pool != NULL) {
        struct rpc_call *c = *pool;

        *pool = c->next;
        rpc_body_release(&c->body);
        sl_free(c->request_space);
        gpr_free(c);
    }
}

void *rpc_call_scratch(struct rpc_call *c, size_t bytes)
{
    size_t rounded = (bytes + 15) & ~(size_t)15;
    struct scratch *s;

    if (rounded <= SCRATCH_SPACE - c->space_used) {
        c->space_used += rounded;
        return memset(c->space + c->space_used - rounded, 0, rounded);
    }
    s = sl_calloc(1, sizeof(*s) + bytes);
    if (s == NULL)
        return NULL;
    s->next = c->scratch;
    c->scratch = s;
    return s->bytes;
}

const struct sl_slices *rpc_call_body(const struct rpc_call *c)
{
    return &c->body.slices;
}

int64_t rpc_call_left_ms(const struct rpc_call *c)
{
    return rpc_left_ms(c->deadline);
}

void rpc_call_peer(const struct rpc_call *c, struct rpc_peer *out)
{
    struct rpc_server *s = c->lane->server;

    if (c->host != NULL)
        *out = (struct rpc_peer){.way = RPC_WAY_NEAR,
                                 .guarded = s->sources != NULL};
    else
        rpc_peers_find(s->peers, c->call, out);
}

// ---- a call's way

static void post_request(struct rpc_call *c, struct served *served)
{
    struct rpc_server *s = c->lane->server;
    grpc_completion_queue *cq = c->lane->thread->cq;
    grpc_call_error rc;

    c->served = served;
    c->tag.event = arrived;
    grpc_metadata_array_init(&c->metadata);
    grpc_call_details_init(&c->details);
    atomic_fetch_add(&s->live, 1);
    rpc_tag_post(&c->tag);
    if (served->registered == NULL)
        rc = grpc_server_request_call(s->server, &c->call, &c->details,
                                      &c->metadata, cq, cq, &c->tag);
    else
        rc = grpc_server_request_registered_call(
            s->server, served->registered, &c->call, &c->deadline, &c->metadata,
            served->method.kind == RPC_BIDI ? NULL : &c->payload, cq, cq,
            &c->tag);
    assert(rc == GRPC_CALL_OK);
    (void)rc;
}

// Over a socket. The call object is free again.
static void answer_host(struct rpc_call *c, enum sl_err code,
                        const struct sl_error *err, struct rpc_msg *reply)
{
    struct rpc_server *s = c->lane->server;
    struct rpc_host *host = c->host;
    uint64_t id = c->id;

    rpc_host_answer(host, id, code, err, reply);
    scratch_clear(c);
    pthread_mutex_lock(&s->lock);
    c->next = s->pool;
    s->pool = c;
    pthread_mutex_unlock(&s->lock);
    rpc_host_unref(host);
    atomic_fetch_sub(&s->open, 1);
    live_down(s);
}

static void call_over(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;

    call_recycle(c);
    atomic_fetch_sub(&s->open, 1);
    live_down(s);
}

static void answered(struct rpc_tag *tag, bool ok)
{
    (void)ok; // a reply that could not be sent has nobody to go to
    call_over(sl_container_of(tag, struct rpc_call, tag));
}

void rpc_answer(struct rpc_call *c, enum sl_err code,
                const struct sl_error *err, struct rpc_msg *reply)
{
    struct rpc_status_space space;
    grpc_op ops[4];
    size_t n = 0;

#ifdef SLUICE_FAULTS
    struct sl_error lost = SL_ERROR_INIT;

    if (code == SL_OK && rpc_faulty_loses_reply()) {
        err = &lost;
        code = sl_fail(&lost, SL_EUNAVAIL, "injected: the answer is lost");
    }
#endif
    HISTORY("rpc_answered", "id=%p code=%s", (void *)c, sl_err_name(code));
    if (c->host != NULL) {
        answer_host(c, code, err, reply);
        return;
    }
    rpc_body_clear(&c->body); // gives the transport its memory back
    memset(ops, 0, sizeof(ops));
    ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (code == SL_OK) {
        c->reply = rpc_msg_seal(reply);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n].flags = GRPC_WRITE_NO_COMPRESS;
        ops[n++].data.send_message.send_message = c->reply;
    } else if (reply != NULL) {
        rpc_msg_drop(reply);
    }
    rpc_status_op(&ops[n++], &space, code, err);
    ops[n].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[n++].data.recv_close_on_server.cancelled = &c->cancelled;
    c->tag.event = answered;
    rpc_start_batch(c->call, ops, n, &c->tag);
    rpc_status_space_release(&space);
}

static void refuse(struct rpc_call *c, enum sl_err code, const char *text)
{
    struct sl_error err;

    sl_fail(&err, code, "%s", text);
    rpc_answer(c, code, &err, NULL);
}

static void refuse_named(struct rpc_call *c, const char *method, size_t bytes)
{
    char text[SL_ERROR_TEXT];

    snprintf(text, sizeof(text), "this server has no method %.*s", (int)bytes,
             method);
    refuse(c, SL_ENOTSUP, text);
}

static void refuse_unknown(struct rpc_call *c)
{
    refuse_named(c, (const char *)GRPC_SLICE_START_PTR(c->details.method),
                 GRPC_SLICE_LENGTH(c->details.method));
}

static size_t request_limit(const struct served *served)
{
    size_t bytes = served->method.max_request_bytes;

    return bytes ? bytes : RPC_CONTROL_BYTES;
}

static void refuse_large(struct rpc_call *c, size_t bytes)
{
    char text[SL_ERROR_TEXT];

    snprintf(text, sizeof(text),
             "%s: a request of %zu bytes is over the limit of %zu",
             c->served->method.path, bytes, request_limit(c->served));
    refuse(c, SL_ERANGE, text);
}

// The stream has had its on_end.
static void stream_gone(struct rpc_stream *stream, void *owner)
{
    struct rpc_server *s = owner;

    (void)stream;
    atomic_fetch_sub(&s->open, 1);
    live_down(s);
}

// The call becomes a stream; the call object is free again.
static void open_stream(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;
    struct served *served = c->served;
    struct rpc_stream_seed seed = {
        .call = c->call,
        .thread = c->lane->thread,
        .max_message_bytes = request_limit(served),
        .queue_cap_bytes = s->queue_cap_bytes,
        .gone = stream_gone,
        .owner = s,
        .peers = s->peers,
    };
    grpc_byte_buffer *request = c->payload;

    c->call = NULL;
    c->payload = NULL;
    call_recycle(c);
    rpc_stream_serve(rpc_stream_new(&seed), served->method.kind, request,
                     served->method.open, served->arg);
}

// False: it was refused.
static bool may_call(struct rpc_call *c)
{
    const char *path = c->served->method.path;
    struct rpc_server *s = c->lane->server;
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer = {.way = RPC_WAY_PLAIN};
    enum sl_err rc;

    if (s->allow == NULL)
        return true;
    if (s->sources != NULL) // else there is nothing to be known
        rpc_call_peer(c, &peer);
    rc = s->allow(path, &peer, &err);
    if (rc == SL_OK)
        return true;
    LOG(WARN, "call refused", "method=%s who=%s why=%s", path, peer.id,
        err.text);
    rpc_answer(c, rc, &err, NULL);
    return false;
}

static bool admit(struct rpc_call *c, size_t bytes)
{
    if (!may_call(c))
        return false;
    if (atomic_load(&c->lane->server->draining)) {
        refuse(c, SL_EUNAVAIL, "this server is draining; ask again soon");
        return false;
    }
    if (bytes > request_limit(c->served)) {
        refuse_large(c, bytes);
        return false;
    }
    return true;
}

static void serve(struct rpc_call *c)
{
    HISTORY("rpc_served", "id=%p method=%s", (void *)c, c->served->method.path);
    c->served->method.unary(c, c->served->arg);
}

static void dispatch(struct rpc_call *c)
{
    struct served *served = c->served;
    size_t bytes = c->payload ? grpc_byte_buffer_length(c->payload) : 0;

    if (served->registered == NULL) {
        refuse_unknown(c);
        return;
    }
    if (served->method.kind != RPC_BIDI && c->payload == NULL) {
        refuse(c, SL_EINVAL, "the call ended before its request");
        return;
    }
    if (!admit(c, bytes))
        return;
    if (served->method.kind == RPC_UNARY) {
        rpc_body_set(&c->body, c->payload);
        c->payload = NULL;
        serve(c);
    } else {
        open_stream(c);
    }
}

// ---- calls over sockets of this host

static struct served *find_unary(struct rpc_server *s, const char *path,
                                 size_t bytes)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct rpc_method *m = &s->served[i].method;

        if (m->kind == RPC_UNARY && strlen(m->path) == bytes &&
            memcmp(m->path, path, bytes) == 0)
            return &s->served[i];
    }
    return NULL;
}

static struct rpc_call *call_of_host(struct rpc_server *s,
                                     struct rpc_host *host,
                                     const struct rpc_sock_packet *p)
{
    struct rpc_call *c;

    pthread_mutex_lock(&s->lock);
    c = s->pool;
    if (c != NULL)
        s->pool = c->next;
    pthread_mutex_unlock(&s->lock);
    if (c == NULL)
        c = call_new(&s->lanes[0]);
    c->host = rpc_host_ref(host);
    c->id = p->head.id;
    c->deadline = rpc_deadline(p->head.deadline_ms);
    c->served = find_unary(s, p->path, p->head.said);
    atomic_fetch_add(&s->live, 1);
    atomic_fetch_add(&s->open, 1);
    return c;
}

// The packet is the thread's own; the handler may answer later.
static bool keep_request(struct rpc_call *c, const struct rpc_sock_packet *p)
{
    if (p->bytes > c->request_cap) {
        uint8_t *space = sl_malloc(p->bytes);

        if (space == NULL)
            return false;
        sl_free(c->request_space);
        c->request_space = space;
        c->request_cap = p->bytes;
    }
    if (p->bytes > 0)
        memcpy(c->request_space, p->body, p->bytes);
    c->request = (struct sl_slice){c->request_space, p->bytes};
    c->body.slices = slices_one(&c->request);
    return true;
}

static void on_received(struct rpc_server *s, struct rpc_host *host,
                        const struct rpc_sock_packet *p)
{
    struct rpc_call *c = call_of_host(s, host, p);

    if (c->served == NULL) {
        refuse_named(c, p->path, p->head.said);
        return;
    }
    if (!admit(c, p->bytes))
        return;
    if (!keep_request(c, p)) {
        refuse(c, SL_ENOMEM, "no memory for a request");
        return;
    }
    serve(c);
}

static void on_gone(struct rpc_server *s, struct rpc_host *host)
{
    pthread_mutex_lock(&s->lock);
    list_remove(rpc_host_node(host));
    pthread_mutex_unlock(&s->lock);
    live_down(s);
}

static const struct rpc_host_events host_events = {
    .received = on_received,
    .gone = on_gone,
};

enum sl_err rpc_server_adopt(struct rpc_server *s, int fd, struct sl_error *err)
{
    struct rpc_host *host = rpc_host_new(&host_events, s, fd);
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
        live_down(s);
    }
    return rc;
}

// A request that was posted came back: with a call, or because we stop.
static void arrived(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *c = sl_container_of(tag, struct rpc_call, tag);
    struct rpc_server *s = c->lane->server;

    if (!ok) {
        call_recycle(c);
        live_down(s);
        return;
    }
    if (!atomic_load(&s->stopping))
        post_request(call_from_pool(c->lane), c->served);
    atomic_fetch_add(&s->open, 1);
    dispatch(c);
}

// ---- the server

static enum sl_err register_method(struct rpc_server *s, struct served *served,
                                   struct sl_error *err)
{
    const struct rpc_method *m = &served->method;

    served->registered = grpc_server_register_method(
        s->server, m->path, NULL,
        m->kind == RPC_BIDI ? GRPC_SRM_PAYLOAD_NONE
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
    struct rpc_tuning tuning = {.max_receive_bytes = RPC_CONTROL_BYTES};
    struct rpc_args args;

    if (o != NULL) {
        tuning.keepalive_ms = o->keepalive_ms;
        tuning.keepalive_timeout_ms = o->keepalive_timeout_ms;
    }
    // Core knows one limit per server; each method's own is checked here.
    for (size_t i = 0; i < s->count; i++) {
        if (request_limit(&s->served[i]) > tuning.max_receive_bytes)
            tuning.max_receive_bytes = request_limit(&s->served[i]);
    }
    rpc_args_server(&args, &tuning);
    s->server = grpc_server_create(&args.list, NULL);
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
    if (source != NULL) {
        source->next = s->sources;
        s->sources = source;
        rpc_peers_use(s->peers, source);
    }
    // The mask is the process's, but there is no other way to have the socket
    // file closed to others from its first instant.
    mask = a.unix_path ? umask(0177) : 0;
    bound = grpc_server_add_http2_port(s->server, address, creds);
    if (a.unix_path)
        umask(mask);
    grpc_server_credentials_release(creds);
    if (bound == 0)
        return rpc_address_diagnose(&a, err);
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

void rpc_server_start(struct rpc_server *s)
{
    grpc_server_start(s->server);
    // New objects, none of a pool: the pools belong to the I/O threads, which
    // may be at work as soon as the first request is posted.
    for (unsigned i = 0; i < s->io->threads; i++) {
        for (size_t m = 0; m <= s->count; m++) {
            for (unsigned n = to_post(s, &s->served[m]); n > 0; n--)
                post_request(call_new(&s->lanes[i]), &s->served[m]);
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
    live_down(sl_container_of(tag, struct rpc_server, stopped));
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
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->live) > 0)
        pthread_cond_wait(&s->gone, &s->lock);
    pthread_mutex_unlock(&s->lock);
    grpc_server_destroy(s->server);
    rpc_peers_free(s->peers);
    rpc_sources_free(s->sources);
    for (unsigned i = 0; i < s->io->threads; i++)
        pool_free(&s->lanes[i].pool);
    pool_free(&s->pool);
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
