// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_client.c -- channels, and the unary calls made on them.
//
// A channel belongs to one I/O thread: its connection is polled there, and the
// callbacks of its calls run there. Call objects are pooled per channel under
// its lock, since a call starts on any thread and ends on that one. They are
// freed with the channel only, so a ticket may be looked at at any time: it
// names a call for as long as the serial is the same.
//
// A caller may start more than the peer has memory for: a worker pushes all its
// shards at once. So large requests wait here, by their turns, until those
// before them were answered (rpc_window.h); what waits is the caller's own
// memory still.
#include "common/base/deadline.h"
#include "common/base/history.h"
#include "common/net/rpc_faulty.h"
#include "common/net/rpc_lane.h"
#include "common/net/rpc_route.h"
#include "common/net/local/rpc_sock.h"

#include <assert.h>
#include <semaphore.h>
#include <stdio.h>

#define QUEUE_CAP ((size_t)64 << 20)
// What is on its way cannot be overtaken, and lies in the caches of both ends:
// so much that a link stays busy, and no more. With 8 MiB a PushPull of 1 MiB
// runs at 3.2 GB/s, with 2 MiB at 3.8.
#define WINDOW_BYTES ((size_t)2 << 20)
#define SMALL_BYTES ((size_t)64 << 10) // never waits
#define SAID_BYTES ((size_t)4 << 10)   // a larger request announces its size
#define SEVERAL_CONNECT_MS 2000        // another address may answer at once

// One unary call.
struct client_call {
    struct rpc_tag tag;
    struct rpc_channel *channel;
    struct rpc_lanes *lanes; // of the address that it goes to
    struct list_node node;   // in open or in pool
    uint64_t serial;
    grpc_call *call;       // NULL in the pool, and if
    struct rpc_link *link; // it goes over this
    struct rpc_link_call via;
    rpc_done_fn done;
    void *arg;
    struct sync_wait *sync; // instead of done
    bool wait_for_ready;
    struct rpc_turn turn;
    struct rpc_errand errand; // to start it
    struct list_node ready;   // in start_all's list of calls
    unsigned method;          // number in the channel's lanes
    gpr_timespec deadline;
    bool cancelled; // core's call was cancelled
    size_t max_reply_bytes;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array initial;
    struct rpc_outcome outcome;
    struct rpc_body body;
};

struct rpc_channel {
    struct rpc_io *io;
    struct rpc_thread *thread;
    struct rpc_link *link; // under the lock; NULL: none was adopted
    size_t queue_cap_bytes;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct rpc_route route; // under the lock, like the fields below
    struct rpc_window window;
    struct list open, pool, streams;
    size_t streams_open; // streams leaves a stream out once it is cancelled
    uint64_t serial;
    bool closing;
    struct rpc_lanes lanes[]; // to each address of the route
};

static void client_call_on_done(struct rpc_tag *tag, bool ok);
static void on_link_over(struct rpc_link_call *via, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *reply);

// ---- the channel

static struct rpc_tuning rpc_channel_tuning(const struct rpc_channel_options *o,
                                            bool several)
{
    struct rpc_tuning tuning = {.max_receive_bytes = RPC_DATA_BYTES};

    if (several)
        tuning.connect_ms = SEVERAL_CONNECT_MS;
    if (o == NULL)
        return tuning;
    tuning.keepalive_ms = o->keepalive_ms;
    tuning.keepalive_timeout_ms = o->keepalive_timeout_ms;
    tuning.quiet = o->quiet;
    if (o->max_message_bytes)
        tuning.max_receive_bytes = o->max_message_bytes;
    return tuning;
}

static void rpc_channel_tune(struct rpc_channel *ch,
                             const struct rpc_channel_options *o)
{
    size_t window_bytes = WINDOW_BYTES;

    ch->queue_cap_bytes = QUEUE_CAP;
    if (o != NULL) {
        if (o->stream_queue_bytes)
            ch->queue_cap_bytes = o->stream_queue_bytes;
        if (o->window_bytes)
            window_bytes = o->window_bytes;
    }
    rpc_window_init(&ch->window, window_bytes);
}

// Closes the lanes that were opened, and frees the channel.
static void rpc_channel_dispose(struct rpc_channel *ch)
{
    for (unsigned i = 0; i < ch->route.count && ch->lanes[i].address; i++)
        rpc_lanes_close(&ch->lanes[i]);
    rpc_route_release(&ch->route);
    gpr_free(ch);
}

static enum sl_err
rpc_channel_open_lanes(struct rpc_channel *ch, const struct rpc_tls *tls,
                       const struct rpc_channel_options *options,
                       struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < ch->route.count; i++) {
        ch->lanes[i].tuning = rpc_channel_tuning(options, ch->route.count > 1);
        rc = rpc_lanes_open(&ch->lanes[i], ch->route.address[i], tls,
                            options != NULL ? options->allow : NULL, err);
        if (rc != SL_OK)
            ch->lanes[i].address = NULL; // nothing of it is left to close
    }
    return rc;
}

enum sl_err rpc_channel_new(struct rpc_channel **out, struct rpc_io *io,
                            const char *address, const struct rpc_tls *tls,
                            const struct rpc_channel_options *options,
                            struct sl_error *err)
{
    struct rpc_channel *ch;
    struct rpc_route route;
    enum sl_err rc = rpc_route_init(&route, address, err);

    if (rc != SL_OK)
        return rc;
    ch = gpr_zalloc(sizeof(*ch) + route.count * sizeof(ch->lanes[0]));
    ch->route = route;
    rc = rpc_channel_open_lanes(ch, tls, options, err);
    if (rc != SL_OK) {
        rpc_channel_dispose(ch);
        return rc;
    }
    rpc_channel_tune(ch, options);
    ch->io = io;
    ch->thread = rpc_io_pick(io, options ? options->thread : 0);
    pthread_mutex_init(&ch->lock, NULL);
    pthread_cond_init(&ch->idle, NULL);
    list_init(&ch->open);
    list_init(&ch->pool);
    list_init(&ch->streams);
    atomic_fetch_add(&io->users, 1);
    *out = ch;
    return SL_OK;
}

static void start_all(struct list *calls);

static struct client_call *client_call_of_turn(struct rpc_turn *turn)
{
    return sl_container_of(turn, struct client_call, turn);
}

static void cancel_all_calls(struct rpc_channel *ch)
{
    struct rpc_stream *stream;
    struct rpc_turn *turn;
    struct list_node *n;
    struct list ready;

    list_init(&ready);
    pthread_mutex_lock(&ch->lock);
    ch->closing = true;
    // A unary call's cancel takes no lock of ours.
    list_for(node, &ch->open)
    {
        struct client_call *c = list_entry(node, struct client_call, node);

        if (c->link != NULL)
            rpc_link_cancel(c->link, &c->via);
        if (c->call != NULL) // else: its callback has returned
            grpc_call_cancel(c->call, NULL);
    }
    // What was cancelled ends when it starts.
    while ((turn = rpc_window_first(&ch->window)) != NULL) {
        rpc_window_leave(&ch->window, turn);
        list_push_back(&ready, &client_call_of_turn(turn)->ready);
    }
    // A stream's does, and its end takes ours: so one at a time, referenced.
    while ((n = list_first(&ch->streams)) != NULL) {
        stream = rpc_stream_ref(rpc_stream_of_node(n));
        list_remove(n);
        pthread_mutex_unlock(&ch->lock);
        rpc_stream_cancel(stream);
        rpc_stream_unref(stream);
        pthread_mutex_lock(&ch->lock);
    }
    pthread_mutex_unlock(&ch->lock);
    start_all(&ready);
}

void rpc_channel_break(struct rpc_channel *ch)
{
    for (unsigned i = 0; i < ch->route.count; i++)
        rpc_break(ch->lanes[i].address);
}

// A peer that does not read holds up the end of what was cancelled.
static void wait_idle(struct rpc_channel *ch)
{
    struct deadline until = deadline_in_ms(RPC_BREAK_MS);

    pthread_mutex_lock(&ch->lock);
    while (!list_empty(&ch->open) || ch->streams_open > 0) {
        if (deadline_wait(&until, &ch->idle, &ch->lock))
            continue;
        rpc_channel_break(ch);
        until = deadline_in_ms(RPC_BREAK_MS);
    }
    pthread_mutex_unlock(&ch->lock);
}

static void drop_link(struct rpc_link *link)
{
    if (link != NULL)
        rpc_link_close(link);
    rpc_link_unref(link);
}

void rpc_channel_free(struct rpc_channel *ch)
{
    struct list_node *n;

    if (ch == NULL)
        return;
#ifdef SLUICE_FAULTS
    rpc_faulty_forget(ch);
#endif
    cancel_all_calls(ch);
    wait_idle(ch);
    drop_link(ch->link);
    while ((n = list_pop_front(&ch->pool)) != NULL) {
        struct client_call *c = list_entry(n, struct client_call, node);

        rpc_body_release(&c->body);
        gpr_free(c);
    }
    pthread_cond_destroy(&ch->idle);
    pthread_mutex_destroy(&ch->lock);
    atomic_fetch_sub(&ch->io->users, 1);
    rpc_channel_dispose(ch);
}

static struct rpc_lanes *present_lanes_locked(struct rpc_channel *ch)
{
    return &ch->lanes[ch->route.at];
}

const char *rpc_channel_address(struct rpc_channel *ch)
{
    const char *address;

    pthread_mutex_lock(&ch->lock);
    address = present_lanes_locked(ch)->address;
    pthread_mutex_unlock(&ch->lock);
    return address;
}

bool rpc_channel_untried(struct rpc_channel *ch)
{
    bool untried;

    pthread_mutex_lock(&ch->lock);
    untried = rpc_route_untried(&ch->route);
    pthread_mutex_unlock(&ch->lock);
    return untried;
}

// Before whoever made the call hears of its end, and may call again.
static void rpc_channel_note(struct rpc_channel *ch,
                             const struct rpc_lanes *lanes, enum sl_err code,
                             const struct sl_error *err)
{
    if (ch->route.count == 1)
        return;
    pthread_mutex_lock(&ch->lock);
    rpc_route_note(&ch->route, (unsigned)(lanes - ch->lanes), code, err->text);
    pthread_mutex_unlock(&ch->lock);
}

void rpc_channel_hurry(struct rpc_channel *ch)
{
    pthread_mutex_lock(&ch->lock);
    rpc_lanes_hurry(present_lanes_locked(ch));
    pthread_mutex_unlock(&ch->lock);
}

// ---- unary calls

static struct client_call *call_take_locked(struct rpc_channel *ch)
{
    struct list_node *n = list_pop_front(&ch->pool);
    struct client_call *c;

    if (n != NULL)
        return list_entry(n, struct client_call, node);
    c = gpr_zalloc(sizeof(*c));
    c->channel = ch;
    c->tag.event = client_call_on_done;
    c->via.over = on_link_over;
    return c;
}

static void create_locked(struct client_call *c, enum rpc_lane_kind lane,
                          const char *method)
{
    struct rpc_channel *ch = c->channel;

    c->call = rpc_lanes_call(c->lanes, lane, c->method, method, c->deadline,
                             ch->thread->cq);
}

static struct client_call *call_begin(struct rpc_channel *ch,
                                      const char *method, bool small,
                                      int64_t deadline_ms,
                                      struct rpc_ticket *ticket)
{
    struct client_call *c;

    pthread_mutex_lock(&ch->lock);
    assert(!ch->closing); // a call on a channel that is being freed
    c = call_take_locked(ch);
    c->serial = ++ch->serial;
    c->via.cancelled = false;
    c->lanes = present_lanes_locked(ch);
    c->method = rpc_lanes_method(c->lanes, method);
    c->deadline = rpc_deadline(deadline_ms);
    c->cancelled = false;
    if (small && ch->link != NULL)
        c->link = rpc_link_ref(ch->link);
    else
        create_locked(c, RPC_USUAL, method);
    list_push_back(&ch->open, &c->node);
    if (ticket != NULL)
        *ticket = (struct rpc_ticket){c, c->serial};
    pthread_mutex_unlock(&ch->lock);
    return c;
}

// Adds the request's size as metadata, so that the server (rpc_serve.c) keeps
// no more room for it than it needs.
static void say_size(const struct client_call *c, grpc_op *op,
                     grpc_metadata *said)
{
    char number[24];

    if (c->turn.bytes <= SAID_BYTES)
        return;
    snprintf(number, sizeof(number), "%zu", c->turn.bytes);
    said->key = grpc_slice_from_static_string("sluice-bytes");
    said->value = grpc_slice_from_copied_string(number);
    op->data.send_initial_metadata.count = 1;
    op->data.send_initial_metadata.metadata = said;
}

static void client_call_start(struct client_call *c)
{
    grpc_metadata said = {.value = grpc_empty_slice()};
    grpc_op ops[6];

    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    say_size(c, &ops[0], &said);
    if (c->wait_for_ready)
        ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                       GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].flags = GRPC_WRITE_NO_COMPRESS;
    ops[1].data.send_message.send_message = c->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &c->reply;
    rpc_outcome_op(&ops[5], &c->outcome);
    rpc_start_batch(c->call, ops, 6, &c->tag);
    grpc_slice_unref(said.value);
}

// ---- the window

static bool may_overtake_locked(struct rpc_channel *ch,
                                const struct client_call *c)
{
    return c->method != RPC_NO_METHOD && !c->cancelled &&
           rpc_window_behind(&ch->window, c->turn.order) &&
           rpc_lanes_express(c->lanes);
}

// Moves a call that may start to its lane: core's call belongs to a connection,
// so the express lane needs a new one.
static void board_locked(struct client_call *c)
{
    grpc_call *usual = c->call;

    if (c->turn.lane == RPC_USUAL)
        return;
    create_locked(c, c->turn.lane, NULL);
    grpc_call_unref(usual);
}

// Returns false if the call waits for the window: take_turns_locked of a later
// call's end then starts it.
static bool may_start(struct client_call *c)
{
    struct rpc_channel *ch = c->channel;
    bool may = true;

    if (c->turn.bytes <= SMALL_BYTES)
        return true;
    pthread_mutex_lock(&ch->lock);
    if (!ch->closing) {
        may =
            rpc_window_enter(&ch->window, &c->turn, may_overtake_locked(ch, c));
        if (may)
            board_locked(c);
    }
    pthread_mutex_unlock(&ch->lock);
    return may;
}

// Moves waiting calls that the window now admits to `ready`.
static void take_turns_locked(struct rpc_channel *ch, struct list *ready)
{
    struct rpc_turn *turn;

    while ((turn = rpc_window_first(&ch->window)) != NULL) {
        struct client_call *c = client_call_of_turn(turn);

        if (rpc_window_next(&ch->window, may_overtake_locked(ch, c)) == NULL)
            return;
        board_locked(c);
        list_push_back(ready, &c->ready);
    }
}

static void start_errand(void *arg)
{
    client_call_start(arg);
}

// Starts a call, a large one on the I/O thread: the thread that starts a call
// also encrypts and writes it, and the caller's thread has to compute.
static void start_there(struct client_call *c)
{
    struct rpc_thread *thread = c->channel->thread;

    if (c->turn.bytes <= SMALL_BYTES ||
        pthread_equal(pthread_self(), thread->id)) {
        client_call_start(c);
        return;
    }
    c->errand.fn = start_errand;
    c->errand.arg = c;
    rpc_thread_call(thread, &c->errand);
}

// Not under the lock. A call may be over, and its channel gone, as soon as it
// has started.
static void start_all(struct list *calls)
{
    struct list_node *n;

    while ((n = list_pop_front(calls)) != NULL)
        client_call_start(list_entry(n, struct client_call, ready));
}

// After the callback. The channel may be gone when this returns.
static void call_end(struct client_call *c)
{
    struct rpc_channel *ch = c->channel;
    struct list ready;
    grpc_call *call;

    list_init(&ready);
    rpc_body_clear(&c->body);
    grpc_byte_buffer_destroy(c->request);
    if (c->reply != NULL)
        grpc_byte_buffer_destroy(c->reply);
    c->request = c->reply = NULL;
    rpc_outcome_release(&c->outcome);
    grpc_metadata_array_destroy(&c->initial);

    pthread_mutex_lock(&ch->lock);
    call = c->call;
    c->call = NULL;
    c->serial = 0;
    pthread_mutex_unlock(&ch->lock);
    grpc_call_unref(call);

    pthread_mutex_lock(&ch->lock);
    rpc_window_leave(&ch->window, &c->turn);
    take_turns_locked(ch, &ready);
    list_remove(&c->node);
    list_push_front(&ch->pool, &c->node);
    if (ch->closing)
        pthread_cond_signal(&ch->idle);
    pthread_mutex_unlock(&ch->lock);
    start_all(&ready);
}

void rpc_cancel(struct rpc_channel *ch, struct rpc_ticket ticket)
{
    struct client_call *c = ticket.call;
    grpc_call *call = NULL;
    bool waits = false;

    if (c == NULL)
        return;
    pthread_mutex_lock(&ch->lock);
    if (c->serial == ticket.serial && c->link != NULL)
        rpc_link_cancel(c->link, &c->via);
    if (c->serial == ticket.serial && c->call != NULL) {
        call = c->call;
        grpc_call_ref(call);
        c->cancelled = true;
        waits = c->turn.waits;
        if (waits)
            rpc_window_leave(&ch->window, &c->turn);
    }
    pthread_mutex_unlock(&ch->lock);
    if (call == NULL)
        return;
    grpc_call_cancel_with_status(call, GRPC_STATUS_CANCELLED,
                                 "cancelled by the caller", NULL);
    if (waits)
        client_call_start(c); // and ends
    grpc_call_unref(call);
}

// ---- over a socket of this host

enum sl_err rpc_channel_adopt(struct rpc_channel *ch, int fd,
                              struct sl_error *err)
{
    struct rpc_link *link, *old;
    enum sl_err rc =
        rpc_link_new(&link, ch->thread, fd, rpc_channel_address(ch), err);

    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&ch->lock);
    old = ch->link;
    if (old != NULL && rpc_link_alive(old)) {
        rc = sl_fail(err, SL_EEXIST,
                     "%s: this channel has a local socket already",
                     present_lanes_locked(ch)->address);
        old = link;
    } else {
        ch->link = link;
    }
    pthread_mutex_unlock(&ch->lock);
    drop_link(old);
    return rc;
}

bool rpc_channel_adopted(struct rpc_channel *ch)
{
    bool alive;

    pthread_mutex_lock(&ch->lock);
    alive = ch->link != NULL && rpc_link_alive(ch->link);
    pthread_mutex_unlock(&ch->lock);
    return alive;
}

// Moves a call that the link did not start to the usual lane.
static void leave_link(struct client_call *c, const char *method)
{
    struct rpc_channel *ch = c->channel;
    struct rpc_link *link;

    pthread_mutex_lock(&ch->lock);
    link = c->link;
    c->link = NULL;
    create_locked(c, RPC_USUAL, method);
    if (c->via.cancelled)
        grpc_call_cancel(c->call, NULL);
    pthread_mutex_unlock(&ch->lock);
    rpc_link_unref(link);
}

// False: it goes by core. True: it may be over already.
static bool start_on_link(struct client_call *c, const char *method,
                          struct rpc_msg *msg, int64_t deadline_ms)
{
    struct rpc_link *link = c->link;
    bool started;

    if (link == NULL)
        return false;
    c->via.max_reply_bytes = c->max_reply_bytes;
    rpc_link_ref(link); // the call's own may go meanwhile
    started = rpc_link_start(link, &c->via, method, msg, deadline_ms);
    rpc_link_unref(link);
    if (started)
        return true;
    leave_link(c, method);
    return false;
}

static void on_link_over(struct rpc_link_call *via, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *reply)
{
    struct client_call *c = sl_container_of(via, struct client_call, via);
    struct rpc_channel *ch = c->channel;
    struct rpc_link *link;

    HISTORY("rpc_done", "id=%p.%llu code=%s", (void *)c,
            (unsigned long long)c->serial, sl_err_name(code));
    c->done(c->arg, code, err, reply);
    pthread_mutex_lock(&ch->lock);
    link = c->link;
    c->link = NULL;
    c->serial = 0;
    list_remove(&c->node);
    list_push_front(&ch->pool, &c->node);
    if (ch->closing)
        pthread_cond_signal(&ch->idle);
    pthread_mutex_unlock(&ch->lock);
    rpc_link_unref(link);
}

static void rpc_channel_begin_call(struct rpc_channel *ch, const char *method,
                                   struct rpc_msg *msg,
                                   const struct rpc_call_options *options,
                                   rpc_done_fn done, void *arg,
                                   struct sync_wait *sync,
                                   struct rpc_ticket *ticket)
{
    size_t bytes = msg != NULL ? rpc_msg_bytes(msg) : 0;
    bool small = options->small && sync == NULL && options->deadline_ms > 0 &&
                 bytes <= RPC_SOCK_BODY && strlen(method) <= RPC_SOCK_PATH_MAX;
    struct client_call *c =
        call_begin(ch, method, small, options->deadline_ms, ticket);

    c->done = done;
    c->arg = arg;
    c->sync = sync;
    c->max_reply_bytes =
        options->max_reply_bytes ? options->max_reply_bytes : RPC_CONTROL_BYTES;
    c->wait_for_ready = options->wait_for_ready && ch->route.count == 1;
    c->turn.order = options->turn;
    c->turn.bytes = bytes;
    HISTORY("rpc_call", "id=%p.%llu method=%s to=%s deadline_ms=%lld",
            (void *)c, (unsigned long long)c->serial, method, c->lanes->address,
            (long long)options->deadline_ms);
    if (small && start_on_link(c, method, msg, options->deadline_ms))
        return;
    c->request = rpc_msg_seal(msg);
    grpc_metadata_array_init(&c->initial);
    rpc_outcome_init(&c->outcome);
    if (may_start(c))
        start_there(c);
}

#ifdef SLUICE_FAULTS
static void nobody_waits(void *arg, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *reply)
{
    (void)arg;
    (void)code;
    (void)err;
    (void)reply;
}

static void send_copy(struct rpc_channel *ch, const char *method,
                      struct rpc_msg *msg,
                      const struct rpc_call_options *options)
{
    rpc_channel_begin_call(ch, method, msg, options, nobody_waits, NULL, NULL,
                           NULL);
}
#endif

void rpc_call_start(struct rpc_channel *ch, const char *method,
                    struct rpc_msg *msg, const struct rpc_call_options *options,
                    rpc_done_fn done, void *arg, struct rpc_ticket *ticket)
{
#ifdef SLUICE_FAULTS
    struct rpc_call_options lost = *options;

    rpc_faulty_copies(ch, method, msg, options, send_copy);
    if (rpc_faulty_loses()) {
        lost.deadline_ms = 0; // the call ends before it is sent
        options = &lost;
    }
#endif
    rpc_channel_begin_call(ch, method, msg, options, done, arg, NULL, ticket);
}

// A thread that waits for its call.
struct sync_wait {
    sem_t done;
    struct rpc_body *reply;
    enum sl_err code;
    struct sl_error err;
};

static enum sl_err outcome(struct client_call *c, struct sl_error *err)
{
    const char *address = c->lanes->address;
    size_t bytes;
    enum sl_err rc =
        rpc_outcome_read(&c->outcome, address, c->lanes->guard, err);

    if (rc != SL_OK)
        return rc;
    if (c->reply == NULL)
        return sl_fail(err, SL_ECORRUPT, "%s: success without a reply",
                       address);
    bytes = grpc_byte_buffer_length(c->reply);
    if (bytes > c->max_reply_bytes)
        return sl_fail(err, SL_ERANGE,
                       "%s: a reply of %zu bytes is over the limit of %zu",
                       address, bytes, c->max_reply_bytes);
    return SL_OK;
}

static void client_call_on_done(struct rpc_tag *tag, bool ok)
{
    struct client_call *c = sl_container_of(tag, struct client_call, tag);
    struct sync_wait *sync = c->sync;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = outcome(c, &err);

    (void)ok; // always true for a batch that asks for the status
    HISTORY("rpc_done", "id=%p.%llu code=%s", (void *)c,
            (unsigned long long)c->serial, sl_err_name(rc));
    rpc_channel_note(c->channel, c->lanes, rc, &err);
    if (rc == SL_OK) {
        rpc_body_set(&c->body, c->reply);
        c->reply = NULL;
    }
    if (sync == NULL) {
        c->done(c->arg, rc, &err, rc == SL_OK ? &c->body.slices : NULL);
        call_end(c);
        return;
    }
    sync->code = rc;
    sync->err = err;
    if (rc == SL_OK)
        sync->reply = rpc_body_move(&c->body);
    call_end(c);
    sem_post(&sync->done); // the waiter may free the channel at once
}

enum sl_err rpc_call_sync(struct rpc_channel *ch, const char *method,
                          struct rpc_msg *msg,
                          const struct rpc_call_options *options,
                          struct rpc_body **reply, struct sl_error *err)
{
    struct sync_wait wait = {.reply = NULL, .err = SL_ERROR_INIT};

    sem_init(&wait.done, 0, 0);
    rpc_channel_begin_call(ch, method, msg, options, NULL, NULL, &wait, NULL);
    while (sem_wait(&wait.done) != 0)
        ; // a signal
    sem_destroy(&wait.done);
    if (wait.code != SL_OK) {
        if (err != NULL)
            *err = wait.err;
        return wait.code;
    }
    *reply = wait.reply;
    return SL_OK;
}

// ---- streams

static void rpc_channel_stream_ended(void *owner, const char *address,
                                     enum sl_err code,
                                     const struct sl_error *err)
{
    struct rpc_channel *ch = owner;

    for (unsigned i = 0; i < ch->route.count; i++) {
        if (ch->lanes[i].address == address)
            rpc_channel_note(ch, &ch->lanes[i], code, err);
    }
}

static void rpc_channel_stream_gone(struct rpc_stream *stream, void *owner)
{
    struct rpc_channel *ch = owner;

    pthread_mutex_lock(&ch->lock);
    list_remove(rpc_stream_node(stream));
    ch->streams_open--;
    if (ch->closing)
        pthread_cond_signal(&ch->idle);
    pthread_mutex_unlock(&ch->lock);
}

enum sl_err rpc_stream_open(struct rpc_stream **out, struct rpc_channel *ch,
                            const char *method, struct rpc_msg *request,
                            const struct rpc_call_options *options,
                            const struct rpc_stream_events *events, void *user,
                            struct sl_error *err)
{
    struct rpc_stream_seed seed = {
        .thread = ch->thread,
        .max_message_bytes = options->max_reply_bytes ? options->max_reply_bytes
                                                      : RPC_CONTROL_BYTES,
        .queue_cap_bytes = ch->queue_cap_bytes,
        .ended = rpc_channel_stream_ended,
        .gone = rpc_channel_stream_gone,
        .owner = ch,
    };
    struct rpc_stream *stream;
    struct rpc_lanes *lanes;
    struct rpc_call_options dial = *options;

    pthread_mutex_lock(&ch->lock);
    lanes = present_lanes_locked(ch);
    if (ch->closing) {
        pthread_mutex_unlock(&ch->lock);
        if (request != NULL)
            rpc_msg_drop(request);
        return sl_fail(err, SL_ESTATE, "%s: the channel is being closed",
                       lanes->address);
    }
    seed.address = lanes->address;
    seed.guard = lanes->guard;
    seed.call = rpc_lanes_call(
        lanes, RPC_USUAL, rpc_lanes_method(lanes, method), method,
        rpc_deadline(options->deadline_ms), ch->thread->cq);
    stream = rpc_stream_new(&seed);
    list_push_back(&ch->streams, rpc_stream_node(stream));
    ch->streams_open++;
    pthread_mutex_unlock(&ch->lock);
    rpc_stream_listen(stream, events, user);
    *out = rpc_stream_ref(stream);
    dial.wait_for_ready = options->wait_for_ready && ch->route.count == 1;
    rpc_stream_dial(stream, request, &dial);
    return SL_OK;
}
