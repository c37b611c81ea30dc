// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_stream.c -- messages both ways: the same object on both sides.
//
//   OPEN ------- rpc_stream_close / finish -------> CLOSING
//     |                                                | queue is out
//     |                                                v
//     |                                             CLOSED (the close, or the
//     |  cancel, or the end came from outside          |    status, has left)
//     +------------------------------------------------+--> over
//
// Core allows one send and one receive in flight per call, and batches of one
// call must not start from two threads at once. So sends have a queue, and a
// lock covers the queue, the state and every start of a batch. Callbacks run
// outside of it, on the I/O thread.
//
// `over` is set when the last word of the peer is there (client: the status;
// server: the close). Nothing starts after it. When every batch has come back
// too, on_end runs, once, and the transport's reference goes.
#include "common/net/rpc_inner.h"

#include <assert.h>

enum state { OPEN, CLOSING, CLOSED };

// Buffers that wait to be sent, first in first out, in a ring that grows.
struct send_queue {
    grpc_byte_buffer **at;
    size_t cap, first, count;
};

struct rpc_stream {
    atomic_uint refs;
    pthread_mutex_t lock;
    struct rpc_stream_seed seed; // seed.call: NULL after the end
    struct list_node node;       // the channel's list
    struct rpc_stream_events events;
    void *user;
    enum rpc_kind kind;

    struct rpc_tag opened, sent, closed, received, ended;
    unsigned in_flight; // batches that have not come back
    enum state state;
    bool over;

    struct send_queue queue;
    size_t queued_bytes; // includes the message in flight
    grpc_byte_buffer *sending;
    size_t sending_bytes; // core empties the buffer as it goes
    bool starved;         // rpc_stream_send returned SL_EBUSY

    grpc_byte_buffer *incoming;
    struct rpc_body body;
    bool paused, reading, input_over;
    bool served; // a message came

    enum sl_err finish_code; // server: the status; client: our own verdict
    struct sl_error finish_err;
    grpc_metadata_array initial;
    struct rpc_outcome outcome; // client
    int cancelled;              // server
};

void rpc_stream_peer(struct rpc_stream *s, struct rpc_peer *out)
{
    rpc_peers_find(s->seed.peers, s->seed.call, out);
}

bool rpc_stream_caller(struct rpc_stream *s, struct rpc_peer *out)
{
    bool here;

    pthread_mutex_lock(&s->lock);
    here = s->seed.call != NULL && !s->over;
    if (here)
        rpc_peers_find(s->seed.peers, s->seed.call, out);
    pthread_mutex_unlock(&s->lock);
    return here;
}

// ---- the queue

static void waiting_push(struct send_queue *q, grpc_byte_buffer *buffer)
{
    if (q->count == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 16;
        grpc_byte_buffer **at = gpr_malloc(cap * sizeof(*at));

        for (size_t i = 0; i < q->count; i++)
            at[i] = q->at[(q->first + i) % q->cap];
        gpr_free(q->at);
        *q = (struct send_queue){at, cap, 0, q->count};
    }
    q->at[(q->first + q->count++) % q->cap] = buffer;
}

static grpc_byte_buffer *waiting_pop(struct send_queue *q)
{
    grpc_byte_buffer *buffer = q->at[q->first];

    q->first = (q->first + 1) % q->cap;
    q->count--;
    return buffer;
}

static void drop_queue_locked(struct rpc_stream *s)
{
    while (s->queue.count > 0) {
        grpc_byte_buffer *buffer = waiting_pop(&s->queue);

        s->queued_bytes -= grpc_byte_buffer_length(buffer);
        grpc_byte_buffer_destroy(buffer);
    }
}

// ---- batches

static void rpc_stream_batch_locked(struct rpc_stream *s, const grpc_op *ops,
                                    size_t count, struct rpc_tag *tag)
{
    s->in_flight++;
    rpc_start_batch(s->seed.call, ops, count, tag);
}

static void start_close_locked(struct rpc_stream *s)
{
    struct rpc_status_space space;
    grpc_op op;

    s->state = CLOSED;
    if (s->seed.address != NULL) {
        memset(&op, 0, sizeof(op));
        op.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
        rpc_stream_batch_locked(s, &op, 1, &s->closed);
        return;
    }
    rpc_status_op(&op, &space, s->finish_code, &s->finish_err);
    rpc_stream_batch_locked(s, &op, 1, &s->closed);
    rpc_status_space_release(&space);
}

// Sends what is next, if anything may be sent now.
static void pump_locked(struct rpc_stream *s)
{
    grpc_op op;

    if (s->over || s->sending != NULL)
        return;
    if (s->queue.count > 0) {
        s->sending = waiting_pop(&s->queue);
        s->sending_bytes = grpc_byte_buffer_length(s->sending);
        memset(&op, 0, sizeof(op));
        op.op = GRPC_OP_SEND_MESSAGE;
        // More to come: core may put both into one write to the socket.
        op.flags = GRPC_WRITE_NO_COMPRESS |
                   (s->queue.count > 0 ? GRPC_WRITE_BUFFER_HINT : 0);
        op.data.send_message.send_message = s->sending;
        rpc_stream_batch_locked(s, &op, 1, &s->sent);
    } else if (s->state == CLOSING) {
        start_close_locked(s);
    }
}

static void rpc_stream_read_locked(struct rpc_stream *s)
{
    grpc_op op;

    if (s->over || s->paused || s->reading || s->input_over)
        return;
    s->reading = true;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &s->incoming;
    rpc_stream_batch_locked(s, &op, 1, &s->received);
}

// Cancels what is there; core then brings every batch back. Not under the
// lock: core may run release functions of others here.
static void cancel_call(struct rpc_stream *s, grpc_call *call)
{
    if (s->seed.address != NULL)
        grpc_call_cancel_with_status(call, GRPC_STATUS_CANCELLED,
                                     "cancelled by this side", NULL);
    else
        grpc_call_cancel(call, NULL);
    grpc_call_unref(call);
}

void rpc_stream_cancel(struct rpc_stream *s)
{
    grpc_call *call = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->seed.call != NULL) {
        s->state = CLOSED;
        drop_queue_locked(s);
        call = s->seed.call;
        grpc_call_ref(call);
    }
    pthread_mutex_unlock(&s->lock);
    if (call != NULL)
        cancel_call(s, call);
}

// ---- the end

static enum sl_err rpc_stream_end_code(struct rpc_stream *s,
                                       struct sl_error *err)
{
    if (s->seed.address != NULL) {
        if (s->finish_code != SL_OK) {
            *err = s->finish_err;
            return s->finish_code;
        }
        return rpc_outcome_read(&s->outcome, s->seed.address, s->seed.guard,
                                err);
    }
    if (s->cancelled)
        return sl_fail(err, SL_ECANCELED,
                       "the peer cancelled the stream or went away");
    return SL_OK;
}

static void tell_ended(struct rpc_stream *s, enum sl_err code,
                       const struct sl_error *err)
{
    if (s->served)
        s->seed.ended(s->seed.owner, s->seed.address, SL_OK, err);
    s->seed.ended(s->seed.owner, s->seed.address, code, err);
}

// A batch has come back. On the I/O thread, not under the lock, and the last
// thing that an event does with the stream.
static void batch_over(struct rpc_stream *s)
{
    struct sl_error err = SL_ERROR_INIT;
    grpc_call *call = NULL;
    enum sl_err code;

    pthread_mutex_lock(&s->lock);
    if (--s->in_flight == 0 && s->over) {
        call = s->seed.call;
        s->seed.call = NULL;
        drop_queue_locked(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (call == NULL)
        return;
    code = rpc_stream_end_code(s, &err);
    if (s->seed.ended != NULL)
        tell_ended(s, code, &err);
    if (s->events.on_end != NULL)
        s->events.on_end(s, code, &err, s->user);
    grpc_call_unref(call);
    s->seed.gone(s, s->seed.owner);
    rpc_stream_unref(s);
}

static void rpc_stream_on_ended(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *s = sl_container_of(tag, struct rpc_stream, ended);

    (void)ok;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    batch_over(s);
}

static void rpc_stream_on_plain(struct rpc_stream *s, bool ok)
{
    (void)ok; // a failure ends the stream, and the end tells
    batch_over(s);
}

static void rpc_stream_on_opened(struct rpc_tag *tag, bool ok)
{
    rpc_stream_on_plain(sl_container_of(tag, struct rpc_stream, opened), ok);
}

static void rpc_stream_on_closed(struct rpc_tag *tag, bool ok)
{
    rpc_stream_on_plain(sl_container_of(tag, struct rpc_stream, closed), ok);
}

// ---- sending

static void rpc_stream_on_sent(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *s = sl_container_of(tag, struct rpc_stream, sent);
    grpc_byte_buffer *gone;
    bool space = false;

    pthread_mutex_lock(&s->lock);
    gone = s->sending;
    s->sending = NULL;
    s->queued_bytes -= s->sending_bytes;
    if (ok)
        pump_locked(s);
    else
        drop_queue_locked(s); // the call is dead; its end is on its way
    if (s->starved && s->queued_bytes <= s->seed.queue_cap_bytes / 2) {
        s->starved = false;
        space = s->state == OPEN && !s->over;
    }
    pthread_mutex_unlock(&s->lock);
    grpc_byte_buffer_destroy(gone);
    if (space && s->events.on_writable != NULL)
        s->events.on_writable(s, s->user);
    batch_over(s);
}

static enum sl_err may_send_locked(struct rpc_stream *s, size_t bytes)
{
    if (s->state != OPEN || s->over || s->seed.call == NULL)
        return SL_ESTATE;
    if (s->queued_bytes > 0 &&
        s->queued_bytes + bytes > s->seed.queue_cap_bytes) {
        s->starved = true;
        return SL_EBUSY;
    }
    return SL_OK;
}

enum sl_err rpc_stream_send(struct rpc_stream *s, struct rpc_msg *msg)
{
    size_t bytes = rpc_msg_bytes(msg);
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = may_send_locked(s, bytes);
    if (rc == SL_OK) {
        waiting_push(&s->queue, rpc_msg_seal(msg));
        s->queued_bytes += bytes;
        pump_locked(s);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// Only the first verdict counts.
static void rpc_stream_set_code_locked(struct rpc_stream *s, enum sl_err code,
                                       const struct sl_error *err)
{
    if (s->finish_code != SL_OK)
        return;
    s->finish_code = code;
    if (code != SL_OK && err != NULL)
        s->finish_err = *err;
}

static void close_locked(struct rpc_stream *s)
{
    if (s->state != OPEN || s->seed.call == NULL)
        return;
    s->state = CLOSING;
    pump_locked(s);
}

void rpc_stream_close(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    close_locked(s);
    pthread_mutex_unlock(&s->lock);
}

void rpc_stream_finish(struct rpc_stream *s, enum sl_err code,
                       const struct sl_error *err)
{
    bool client = s->seed.address != NULL;

    pthread_mutex_lock(&s->lock);
    if (client || s->state == OPEN)
        rpc_stream_set_code_locked(s, code, err);
    if (!client)
        close_locked(s);
    pthread_mutex_unlock(&s->lock);
    if (client)
        rpc_stream_cancel(s);
}

size_t rpc_stream_queued_bytes(struct rpc_stream *s)
{
    size_t bytes;

    pthread_mutex_lock(&s->lock);
    bytes = s->queued_bytes;
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

// ---- receiving

static void rpc_stream_refuse_large(struct rpc_stream *s, size_t bytes)
{
    struct sl_error err;

    sl_fail(&err, SL_ERANGE, "a message of %zu bytes is over the limit of %zu",
            bytes, s->seed.max_message_bytes);
    pthread_mutex_lock(&s->lock);
    s->input_over = true;
    pthread_mutex_unlock(&s->lock);
    rpc_stream_finish(s, SL_ERANGE, &err);
}

// Gives one message, or the peer's half close, to the owner.
static void rpc_stream_deliver(struct rpc_stream *s, grpc_byte_buffer *buffer)
{
    if (buffer == NULL) {
        if (s->seed.address != NULL)
            return; // a client's end is the status
        if (s->events.on_half_close != NULL)
            s->events.on_half_close(s, s->user);
        else
            rpc_stream_close(s);
        return;
    }
    if (grpc_byte_buffer_length(buffer) > s->seed.max_message_bytes) {
        rpc_stream_refuse_large(s, grpc_byte_buffer_length(buffer));
        grpc_byte_buffer_destroy(buffer);
        return;
    }
    s->served = true;
    rpc_body_set(&s->body, buffer);
    if (s->events.on_message != NULL)
        s->events.on_message(s, &s->body.slices, s->user);
    rpc_body_clear(&s->body);
}

static void rpc_stream_on_received(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *s = sl_container_of(tag, struct rpc_stream, received);
    grpc_byte_buffer *buffer = s->incoming;
    bool dead;

    s->incoming = NULL;
    pthread_mutex_lock(&s->lock);
    if (buffer == NULL || !ok)
        s->input_over = true;
    // A stream that breaks reads as an end, too; then on_end tells.
    dead = !ok || (buffer == NULL &&
                   grpc_call_failed_before_recv_message(s->seed.call));
    pthread_mutex_unlock(&s->lock);
    if (!dead)
        rpc_stream_deliver(s, buffer);
    else if (buffer != NULL)
        grpc_byte_buffer_destroy(buffer);
    pthread_mutex_lock(&s->lock);
    s->reading = false;
    rpc_stream_read_locked(s);
    pthread_mutex_unlock(&s->lock);
    batch_over(s);
}

struct rpc_body *rpc_stream_take(struct rpc_stream *s)
{
    if (s->body.buffer == NULL)
        return NULL;
    return rpc_body_move(&s->body);
}

void rpc_stream_pause(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->paused = true;
    pthread_mutex_unlock(&s->lock);
}

void rpc_stream_resume(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->paused = false;
    if (s->seed.call != NULL)
        rpc_stream_read_locked(s);
    pthread_mutex_unlock(&s->lock);
}

// ---- making one

struct rpc_stream *rpc_stream_new(const struct rpc_stream_seed *seed)
{
    struct rpc_stream *s = gpr_zalloc(sizeof(*s));

    atomic_init(&s->refs, 1); // the transport's, until on_end has returned
    pthread_mutex_init(&s->lock, NULL);
    s->seed = *seed;
    s->opened.event = rpc_stream_on_opened;
    s->sent.event = rpc_stream_on_sent;
    s->closed.event = rpc_stream_on_closed;
    s->received.event = rpc_stream_on_received;
    s->ended.event = rpc_stream_on_ended;
    grpc_metadata_array_init(&s->initial);
    rpc_outcome_init(&s->outcome);
    return s;
}

void rpc_stream_serve(struct rpc_stream *s, enum rpc_kind kind,
                      grpc_byte_buffer *request,
                      void (*open)(struct rpc_stream *, void *), void *arg)
{
    grpc_op op;

    s->kind = kind;
    s->input_over = kind == RPC_SERVER_STREAM;
    pthread_mutex_lock(&s->lock);
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &s->cancelled;
    rpc_stream_batch_locked(s, &op, 1, &s->ended);
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    rpc_stream_batch_locked(s, &op, 1, &s->opened);
    pthread_mutex_unlock(&s->lock);

    // Their events come on this thread, so none runs before we return.
    if (request != NULL)
        rpc_body_set(&s->body, request);
    open(s, arg);
    rpc_body_clear(&s->body);
    pthread_mutex_lock(&s->lock);
    rpc_stream_read_locked(s);
    pthread_mutex_unlock(&s->lock);
}

// The status first: it must be asked for from the start.
static void ask_outcome_locked(struct rpc_stream *s)
{
    grpc_op ops[2];

    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[0].data.recv_initial_metadata.recv_initial_metadata = &s->initial;
    rpc_outcome_op(&ops[1], &s->outcome);
    rpc_stream_batch_locked(s, ops, 2, &s->ended);
}

void rpc_stream_dial(struct rpc_stream *s, struct rpc_msg *request,
                     const struct rpc_call_options *options)
{
    grpc_metadata flag;
    grpc_op op;

    pthread_mutex_lock(&s->lock);
    ask_outcome_locked(s);
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    if (options->wait_for_ready)
        op.flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                   GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    if (options->flag != NULL) {
        flag.key = grpc_slice_from_static_string(options->flag);
        flag.value = grpc_slice_from_static_string("true");
        op.data.send_initial_metadata.count = 1;
        op.data.send_initial_metadata.metadata = &flag;
    }
    rpc_stream_batch_locked(s, &op, 1, &s->opened);
    if (request != NULL) {
        s->queued_bytes += rpc_msg_bytes(request);
        waiting_push(&s->queue, rpc_msg_seal(request));
        s->state = CLOSING;
        pump_locked(s);
    }
    rpc_stream_read_locked(s);
    pthread_mutex_unlock(&s->lock);
}

void rpc_stream_listen(struct rpc_stream *s,
                       const struct rpc_stream_events *events, void *user)
{
    if (events != NULL)
        s->events = *events;
    s->user = user;
}

void rpc_stream_set(struct rpc_stream *s,
                    const struct rpc_stream_events *events, void *user)
{
    rpc_stream_listen(s, events, user);
}

const struct sl_slices *rpc_stream_request(const struct rpc_stream *s)
{
    return &s->body.slices;
}

struct list_node *rpc_stream_node(struct rpc_stream *s)
{
    return &s->node;
}

struct rpc_stream *rpc_stream_of_node(struct list_node *node)
{
    return sl_container_of(node, struct rpc_stream, node);
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void rpc_stream_unref(struct rpc_stream *s)
{
    if (s == NULL)
        return;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    assert(s->seed.call == NULL); // the transport's reference went last
    rpc_body_release(&s->body);
    rpc_outcome_release(&s->outcome);
    grpc_metadata_array_destroy(&s->initial);
    gpr_free(s->queue.at);
    pthread_mutex_destroy(&s->lock);
    gpr_free(s);
}
