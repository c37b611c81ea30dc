// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_serve.c -- a server's calls, from their arrival to their end.
//
//   serve_post -> (a call comes) arrived -> admit -> serve -> rpc_answer
//        ^               |                    |                    |
//        +---------------+ first thing:       | in_turn, or its    v
//                          post the next      | peer reads not:  answered
//                                             v                    |
//                                  waits -> ask -> received      pool
//
// A call object is posted to core, filled by it, handed to the handler, and
// goes back to its I/O thread's pool when the answer has left. Both ends of
// that run on the same I/O thread, so the pool needs no lock.
//
// Core reads a request whole, however large, before it looks at its limit. So
// those of methods that are `in_turn` are asked for only when there is room
// (rpc_limit.h); before that a peer gets rid of as much as its stream's window
// takes (rpc_args.c).
#include "common/net/rpc_serve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/net/rpc_faulty.h"
#include "common/run/log.h"

#define SIZE_KEY "sluice-bytes" // of a request, said by its sender
#define RATE_MS(bytes) ((uint64_t)(bytes) >> 10) // a second for each MiB
#define LOOK_AT_ONCE 32

static void arrived(struct rpc_tag *tag, bool ok);
static void dispatch(struct rpc_call *c);
static void serve_run_handler(struct rpc_call *c);

// ---- what has to come back

void serve_live_down(struct rpc_server *s)
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

struct rpc_call *serve_call_new(struct serve_lane *lane)
{
    struct rpc_call *c = gpr_zalloc(sizeof(*c));

    c->lane = lane;
    return c;
}

// On the lane's own I/O thread, as everything that touches the pool.
static struct rpc_call *call_from_pool(struct serve_lane *lane)
{
    struct rpc_call *c = lane->pool;

    if (c == NULL)
        return serve_call_new(lane);
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
    c->said_bytes = 0;
    c->next = c->lane->pool;
    c->lane->pool = c;
}

void serve_pool_free(struct rpc_call **pool)
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

    // No object is larger; and beyond it `rounded` would begin anew at 0.
    if (bytes > PTRDIFF_MAX - sizeof(*s) - 15)
        return NULL;
    if (rounded <= RPC_SCRATCH_SPACE - c->space_used) {
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

bool serve_asks(const struct rpc_method *m)
{
    return m->kind == RPC_BIDI || m->in_turn;
}

void serve_post(struct rpc_call *c, struct served *served)
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
            serve_asks(&served->method) ? NULL : &c->payload, cq, cq, &c->tag);
    assert(rc == GRPC_CALL_OK);
    (void)rc;
}

// ---- what a peer may cost

static void serve_ask_request(struct rpc_call *c);

// Its turn has come. Not from within a handler of another call.
static void on_turn(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    serve_run_handler(sl_container_of(tag, struct rpc_call, tag));
}

static void serve_resume_call(struct rpc_call *c)
{
    if (c->body.buffer == NULL) {
        serve_ask_request(c);
        return;
    }
    c->tag.event = on_turn;
    rpc_start_batch(c->call, NULL, 0, &c->tag);
}

static struct rpc_call *call_of_limit(struct rpc_limit_call *limit)
{
    return sl_container_of(limit, struct rpc_call, limit);
}

static void serve_resume_waiting(struct rpc_server *s)
{
    struct rpc_limit_call *next;

    do {
        pthread_mutex_lock(&s->limit_lock);
        next = rpc_limit_next(&s->limit);
        if (next != NULL)
            list_remove(&call_of_limit(next)->timed);
        pthread_mutex_unlock(&s->limit_lock);
        if (next != NULL)
            serve_resume_call(call_of_limit(next));
    } while (next != NULL);
}

// From now on its peer has to move: within the patience, and a second for each
// MiB that lies between it and us.
static void time_locked(struct rpc_server *s, struct rpc_call *c)
{
    const struct rpc_limit_peer *p = c->limit.peer;

    if (p == NULL || p->trusted)
        return;
    c->due_ms = sl_real_ms() + s->limit.most.patience_ms +
                RATE_MS(p->inbound_bytes + p->unread_bytes);
    list_push_back(&s->timed, &c->timed);
}

static void count_answer(struct rpc_call *c, size_t bytes)
{
    struct rpc_server *s = c->lane->server;

    pthread_mutex_lock(&s->limit_lock);
    rpc_limit_answer(&s->limit, &c->limit, bytes);
    time_locked(s, c);
    pthread_mutex_unlock(&s->limit_lock);
    serve_resume_waiting(s);
}

void rpc_call_drop_body(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;

    if (c->host != NULL)
        return; // a packet, which the call object keeps; it is counted nowhere
    rpc_body_clear(&c->body);
    pthread_mutex_lock(&s->limit_lock);
    rpc_limit_has(&s->limit, &c->limit, 0);
    pthread_mutex_unlock(&s->limit_lock);
    serve_resume_waiting(s);
}

static void count_end(struct rpc_server *s, struct rpc_limit_call *limit,
                      struct list_node *listed)
{
    pthread_mutex_lock(&s->limit_lock);
    list_remove(listed);
    rpc_limit_leave(&s->limit, limit);
    pthread_mutex_unlock(&s->limit_lock);
    serve_resume_waiting(s);
}

// "127.0.0.1" of "ipv4:127.0.0.1:4000". False: a socket file.
static bool host_of(const struct rpc_call *c, char out[64])
{
    char *peer = grpc_call_get_peer(c->call);
    const char *from = strchr(peer, ':');
    const char *to = strrchr(peer, ':');
    bool tcp = strncmp(peer, "ipv", 3) == 0 && from != to;

    if (tcp)
        snprintf(out, 64, "%.*s", (int)(to - from - 1), from + 1);
    gpr_free(peer);
    return tcp;
}

// Under what name its costs are counted. True: it is of our own user, as is a
// call without a core call, which came over a socket of this host.
static bool serve_limit_name(const struct rpc_call *c,
                             const struct rpc_peer *peer,
                             char out[RPC_LIMIT_WHO])
{
    struct rpc_server *s = c->lane->server;
    bool named = peer->way == RPC_WAY_TLS && peer->id[0] != '\0';
    char host[64];

    if (named && (s->shared == NULL || !s->shared(peer))) {
        snprintf(out, RPC_LIMIT_WHO, "%s", peer->id);
        return false;
    }
    if (!s->tcp || c->call == NULL || !host_of(c, host)) {
        snprintf(out, RPC_LIMIT_WHO, "this host");
        return true;
    }
    snprintf(out, RPC_LIMIT_WHO, named ? "%s at %s" : "%s%s",
             named ? peer->id : "", host);
    return false;
}

// False: it was refused.
static bool serve_enter_limit(struct rpc_call *c, const struct rpc_peer *peer)
{
    struct rpc_server *s = c->lane->server;
    struct sl_error err = SL_ERROR_INIT;
    char who[RPC_LIMIT_WHO];
    unsigned refused = 0;
    bool trusted;
    enum sl_err rc;

    if (c->host != NULL)
        return true; // a socket that only a member of this host has
    trusted = serve_limit_name(c, peer, who);
    pthread_mutex_lock(&s->limit_lock);
    rc = rpc_limit_enter(&s->limit, &c->limit, who, trusted, &err);
    if (rc != SL_OK)
        refused = rpc_limit_refused(&s->limit, who, trusted, sl_real_ms());
    pthread_mutex_unlock(&s->limit_lock);
    if (rc == SL_OK)
        return true;
    if (refused > 0)
        LOG(WARN, "peer is over a limit", "who=%s refused=%u why=%s", who,
            refused, err.text);
    rpc_refused(RPC_REFUSED_QUOTA);
    rpc_answer(c, rc, &err, NULL);
    return false;
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
    serve_live_down(s);
}

static void call_over(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;

    call_recycle(c);
    atomic_fetch_sub(&s->open, 1);
    serve_live_down(s);
}

static void serve_on_answered(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *c = sl_container_of(tag, struct rpc_call, tag);

    (void)ok; // if the reply could not be sent, its caller has gone
    count_end(c->lane->server, &c->limit, &c->timed);
    call_over(c);
}

static void note_answer(struct rpc_call *c, enum sl_err code,
                        const struct rpc_msg *reply)
{
    struct rpc_server *s = c->lane->server;
    struct served *served =
        c->served != NULL ? c->served : &s->served[s->count];

    rpc_figures_answered(&served->figures, code, c->begun_us);
    c->begun_us = 0;
    if (code == SL_OK && reply != NULL)
        atomic_fetch_add_explicit(&s->traffic.sent_bytes, rpc_msg_bytes(reply),
                                  memory_order_relaxed);
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
    note_answer(c, code, reply);
    if (c->host != NULL) {
        answer_host(c, code, err, reply);
        return;
    }
    rpc_body_clear(&c->body); // gives the transport its memory back
    count_answer(c, code == SL_OK && reply != NULL ? rpc_msg_bytes(reply) : 0);
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
    c->tag.event = serve_on_answered;
    rpc_start_batch(c->call, ops, n, &c->tag);
    rpc_status_space_release(&space);
}

static void serve_refuse(struct rpc_call *c, enum sl_err code, const char *text)
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
    rpc_refused(RPC_REFUSED_MALFORMED);
    serve_refuse(c, SL_ENOTSUP, text);
}

static void refuse_unknown(struct rpc_call *c)
{
    refuse_named(c, (const char *)GRPC_SLICE_START_PTR(c->details.method),
                 GRPC_SLICE_LENGTH(c->details.method));
}

size_t serve_request_limit(const struct served *served)
{
    size_t bytes = served->method.max_request_bytes;

    return bytes ? bytes : RPC_CONTROL_BYTES;
}

static void refuse_large(struct rpc_call *c, size_t bytes)
{
    char text[SL_ERROR_TEXT];

    snprintf(text, sizeof(text),
             "%s: a request of %zu bytes is over the limit of %zu",
             c->served->method.path, bytes, serve_request_limit(c->served));
    rpc_refused(RPC_REFUSED_SIZE);
    serve_refuse(c, SL_ERANGE, text);
}

// The stream has had its on_end.
static void serve_stream_gone(struct rpc_stream *stream, void *owner)
{
    struct serve_stream *o = owner;
    struct rpc_server *s = o->server;

    (void)stream;
    count_end(s, &o->limit, &o->node);
    gpr_free(o);
    atomic_fetch_sub(&s->open, 1);
    serve_live_down(s);
}

static struct rpc_stream *stream_of(struct rpc_call *c,
                                    struct rpc_stream_seed *seed)
{
    struct rpc_server *s = c->lane->server;
    struct serve_stream *o = gpr_zalloc(sizeof(*o));

    o->server = s;
    o->path = c->served->method.path;
    seed->owner = o;
    o->stream = rpc_stream_new(seed);
    pthread_mutex_lock(&s->limit_lock);
    o->limit = c->limit; // it waits for nothing
    c->limit = (struct rpc_limit_call){.peer = NULL};
    list_push_back(&s->streams, &o->node);
    pthread_mutex_unlock(&s->limit_lock);
    return o->stream;
}

// The call becomes a stream; the call object is free again.
static void serve_open_stream(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;
    struct served *served = c->served;
    struct rpc_stream_seed seed = {
        .call = c->call,
        .thread = c->lane->thread,
        .max_message_bytes = serve_request_limit(served),
        .queue_cap_bytes = s->queue_cap_bytes,
        .gone = serve_stream_gone,
        .peers = s->peers,
    };
    struct rpc_stream *stream = stream_of(c, &seed);
    grpc_byte_buffer *request = c->payload;

    rpc_figures_answered(&served->figures, SL_OK, 0);
    c->call = NULL;
    c->payload = NULL;
    call_recycle(c);
    rpc_stream_serve(stream, served->method.kind, request, served->method.open,
                     served->arg);
}

// Logs a denied call, within the peer's share of lines: a peer must not fill
// the disk by calls that it may not make.
static void note_denied(struct rpc_call *c, const struct rpc_peer *peer,
                        const struct sl_error *err)
{
    struct rpc_server *s = c->lane->server;
    char who[RPC_LIMIT_WHO];
    bool trusted = serve_limit_name(c, peer, who), says;
    unsigned left_out;

    pthread_mutex_lock(&s->limit_lock);
    says = rpc_limit_denied(&s->limit, who, trusted, sl_real_ms(), &left_out);
    pthread_mutex_unlock(&s->limit_lock);
    if (says)
        LOG(WARN, "call refused", "method=%s who=%s why=%s left_out=%u",
            c->served->method.path, peer->id, err->text, left_out);
    rpc_refused(RPC_REFUSED_AUTH);
}

// False: it was refused.
static bool may_call(struct rpc_call *c, const struct rpc_peer *peer)
{
    const char *path = c->served->method.path;
    struct rpc_server *s = c->lane->server;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (s->allow == NULL)
        return true;
    rc = s->allow(path, peer, &err);
    if (rc == SL_OK)
        return true;
    note_denied(c, peer, &err);
    rpc_answer(c, rc, &err, NULL);
    return false;
}

static bool serve_admit_call(struct rpc_call *c, size_t bytes)
{
    struct rpc_server *s = c->lane->server;
    struct rpc_peer peer = {.way = RPC_WAY_PLAIN};

    if (s->sources != NULL) // without certificates all peers are alike
        rpc_call_peer(c, &peer);
    if (!may_call(c, &peer))
        return false;
    if (atomic_load(&s->draining)) {
        serve_refuse(c, SL_EUNAVAIL, "this server is draining; ask again soon");
        return false;
    }
    if (bytes > serve_request_limit(c->served)) {
        refuse_large(c, bytes);
        return false;
    }
    return serve_enter_limit(c, &peer);
}

static void serve_run_handler(struct rpc_call *c)
{
    atomic_fetch_add_explicit(&c->lane->server->traffic.received_bytes,
                              c->body.slices.bytes, memory_order_relaxed);
    c->begun_us = sl_real_us();
    HISTORY("rpc_served", "id=%p method=%s", (void *)c, c->served->method.path);
    c->served->method.unary(c, c->served->arg);
}

static void no_request(struct rpc_call *c)
{
    rpc_refused(RPC_REFUSED_MALFORMED);
    serve_refuse(c, SL_EINVAL, "the call ended before its request");
}

// ---- requests that are read in turn

static void received(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *c = sl_container_of(tag, struct rpc_call, tag);
    struct rpc_server *s = c->lane->server;
    size_t bytes = c->payload ? grpc_byte_buffer_length(c->payload) : 0;

    (void)ok;
    pthread_mutex_lock(&s->limit_lock);
    list_remove(&c->timed);
    rpc_limit_has(&s->limit, &c->limit, bytes);
    pthread_mutex_unlock(&s->limit_lock);
    serve_resume_waiting(s);
    if (c->payload == NULL) {
        no_request(c);
    } else if (bytes > serve_request_limit(c->served)) {
        refuse_large(c, bytes);
    } else {
        rpc_body_set(&c->body, c->payload);
        c->payload = NULL;
        serve_run_handler(c);
    }
}

// Asks core for the call's request, now that there is room for it.
static void serve_ask_request(struct rpc_call *c)
{
    struct rpc_server *s = c->lane->server;
    grpc_op op;

    pthread_mutex_lock(&s->limit_lock);
    time_locked(s, c);
    pthread_mutex_unlock(&s->limit_lock);
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &c->payload;
    c->tag.event = received;
    rpc_start_batch(c->call, &op, 1, &c->tag);
}

// Returns the bytes that the call's metadata announces for its request; without
// an announcement, or above the limit, the method's limit.
static size_t expected(const struct rpc_call *c)
{
    size_t most = serve_request_limit(c->served);

    for (size_t i = 0; i < c->metadata.count; i++) {
        const grpc_metadata *m = &c->metadata.metadata[i];
        size_t n = GRPC_SLICE_LENGTH(m->value);
        char number[20] = "";
        unsigned long long said;

        if (grpc_slice_str_cmp(m->key, SIZE_KEY) != 0 || n >= sizeof(number))
            continue;
        memcpy(number, GRPC_SLICE_START_PTR(m->value), n);
        said = strtoull(number, NULL, 10);
        return said > 0 && said < most ? (size_t)said : most;
    }
    return most;
}

// Serves it, or has it wait.
static void serve_start_call(struct rpc_call *c, size_t bytes)
{
    struct rpc_server *s = c->lane->server;
    bool closed, go = false;

    pthread_mutex_lock(&s->limit_lock);
    closed = s->closed;
    if (!closed)
        go = rpc_limit_start(&s->limit, &c->limit, bytes);
    if (!closed && !go)
        time_locked(s, c);
    pthread_mutex_unlock(&s->limit_lock);
    if (closed)
        serve_refuse(c, SL_EUNAVAIL, "this server is ending");
    else if (go && bytes > 0)
        serve_ask_request(c);
    else if (go)
        serve_run_handler(c);
}

static void dispatch(struct rpc_call *c)
{
    struct served *served = c->served;
    size_t bytes = c->payload ? grpc_byte_buffer_length(c->payload) : 0;

    if (served->registered == NULL) {
        refuse_unknown(c);
        return;
    }
    if (!serve_asks(&served->method) && c->payload == NULL) {
        no_request(c);
        return;
    }
    if (!serve_admit_call(c, bytes))
        return;
    if (served->method.kind != RPC_UNARY) {
        serve_open_stream(c);
    } else if (served->method.in_turn) {
        serve_start_call(c, expected(c));
    } else {
        rpc_body_set(&c->body, c->payload);
        c->payload = NULL;
        serve_start_call(c, 0);
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
        c = serve_call_new(&s->lanes[0]);
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

static void serve_on_host_request(struct rpc_server *s, struct rpc_host *host,
                                  const struct rpc_sock_packet *p)
{
    struct rpc_call *c = call_of_host(s, host, p);

    if (c->served == NULL) {
        refuse_named(c, p->path, p->head.said);
        return;
    }
    if (!serve_admit_call(c, p->bytes))
        return;
    if (!keep_request(c, p)) {
        serve_refuse(c, SL_ENOMEM, "no memory for a request");
        return;
    }
    serve_run_handler(c);
}

static void serve_on_host_gone(struct rpc_server *s, struct rpc_host *host)
{
    pthread_mutex_lock(&s->lock);
    list_remove(rpc_host_node(host));
    pthread_mutex_unlock(&s->lock);
    serve_live_down(s);
}

const struct rpc_host_events serve_host_events = {
    .received = serve_on_host_request,
    .gone = serve_on_host_gone,
};

// A request that was posted came back: with a call, or because we stop.
static void arrived(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *c = sl_container_of(tag, struct rpc_call, tag);
    struct rpc_server *s = c->lane->server;

    if (!ok) {
        call_recycle(c);
        serve_live_down(s);
        return;
    }
    if (!atomic_load(&s->stopping))
        serve_post(call_from_pool(c->lane), c->served);
    atomic_fetch_add(&s->open, 1);
    dispatch(c);
}

// ---- from time to time

void serve_close(struct rpc_server *s)
{
    struct rpc_limit_call *waits;

    do {
        pthread_mutex_lock(&s->limit_lock);
        s->closed = true;
        waits = rpc_limit_give_up(&s->limit);
        if (waits != NULL)
            list_remove(&call_of_limit(waits)->timed);
        pthread_mutex_unlock(&s->limit_lock);
        if (waits != NULL)
            serve_refuse(call_of_limit(waits), SL_EUNAVAIL,
                         "this server is ending");
    } while (waits != NULL);
}

// Calls that serve_look found late: core's calls, referenced, and calls that
// still wait for their turn.
struct late {
    grpc_call *call[LOOK_AT_ONCE];
    struct rpc_call *waits[LOOK_AT_ONCE];
    unsigned calls, waiting;
};

static void take_late(struct rpc_server *s, struct late *late)
{
    uint64_t now = sl_real_ms();

    *late = (struct late){.calls = 0};
    pthread_mutex_lock(&s->limit_lock);
    list_for_safe(n, &s->timed)
    {
        struct rpc_call *c = list_entry(n, struct rpc_call, timed);
        const struct rpc_limit_peer *p = c->limit.peer;

        if (now < c->due_ms || late->calls + late->waiting == LOOK_AT_ONCE)
            continue;
        list_remove(n);
        if (rpc_limit_drop(&s->limit, &c->limit)) {
            late->waits[late->waiting++] = c;
            continue;
        }
        grpc_call_ref(c->call);
        late->call[late->calls++] = c->call;
        LOG(WARN, "peer is too slow; ending its call",
            "who=%s method=%s sends=%zu leaves_unread=%zu", p->who,
            c->served->method.path, p->inbound_bytes, p->unread_bytes);
    }
    rpc_limit_forget(&s->limit, now);
    pthread_mutex_unlock(&s->limit_lock);
}

// Core's lock is taken here, and what others do under it.
static void end_late(struct rpc_server *s)
{
    struct late late;

    do {
        take_late(s, &late);
        for (unsigned i = 0; i < late.calls; i++) {
            grpc_call_cancel(late.call[i], NULL);
            grpc_call_unref(late.call[i]);
        }
        for (unsigned i = 0; i < late.waiting; i++)
            serve_refuse(
                late.waits[i], SL_EBUSY,
                "it was not its turn for too long: this server has too much "
                "on its way in, or this peer leaves too many answers unread "
                "(--inbound-bytes, --unread-bytes); try again later");
    } while (late.calls + late.waiting == LOOK_AT_ONCE);
}

struct look_at {
    struct rpc_stream *stream;
    const char *path;
};

// May its bearer still call it? What it has not read is lost to it.
static void look_again(const struct rpc_server *s, const struct look_at *at)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    if (!rpc_stream_caller(at->stream, &peer))
        return;
    rc = s->allow(at->path, &peer, &err);
    if (rc == SL_OK)
        return;
    LOG(WARN, "stream ended", "method=%s who=%s why=%s", at->path, peer.id,
        err.text);
    rpc_stream_finish(at->stream, rc, &err);
    if (rpc_stream_queued_bytes(at->stream) > 0)
        rpc_stream_cancel(at->stream);
}

static void end_revoked(struct rpc_server *s)
{
    struct look_at *all;
    size_t count = 0;

    pthread_mutex_lock(&s->limit_lock);
    list_for(n, &s->streams)
    {
        count++;
    }
    all = gpr_malloc((count + 1) * sizeof(*all));
    count = 0;
    list_for(n, &s->streams)
    {
        const struct serve_stream *o = list_entry(n, struct serve_stream, node);

        all[count++] = (struct look_at){rpc_stream_ref(o->stream), o->path};
    }
    pthread_mutex_unlock(&s->limit_lock);
    for (size_t i = 0; i < count; i++) {
        look_again(s, &all[i]);
        rpc_stream_unref(all[i].stream);
    }
    gpr_free(all);
}

void serve_look(struct rpc_server *s, unsigned *serial)
{
    unsigned now = rpc_peers_serial(s->peers);

    end_late(s);
    if (now != *serial && s->allow != NULL)
        end_revoked(s);
    *serial = now;
}
