// SPDX-License-Identifier: Apache-2.0
// common/net/local/rpc_link.c -- calls over a socket of this host, the caller's
// end; see rpc_sock.h.
//
// A call has a place, and its id names the place: what comes back under an id
// that is not there any more comes too late, and is dropped. Every end of a
// call runs on the watching thread, so a call that is being read there cannot
// go away; others only move it from its place to `ended`.
#include "common/net/local/rpc_sock.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/support/string_util.h>

#include "common/base/clock.h"
#include "common/base/mem.h"

#define PLACES 256 // a power of two

struct rpc_link {
    struct rpc_poll poll;
    char *address; // for texts
    atomic_uint refs;
    pthread_mutex_t lock;
    bool dead;
    unsigned flying;
    uint64_t ids;
    struct rpc_link_call *place[PLACES];
    struct list ended; // calls ended by this side, before
                       // `rpc_link_call_finish` has run
};

// ---- places

static struct rpc_link_call *at_locked(struct rpc_link *l, uint64_t id)
{
    struct rpc_link_call *call = l->place[id % PLACES];

    return call != NULL && call->id == id ? call : NULL;
}

static bool rpc_link_enter_locked(struct rpc_link *l,
                                  struct rpc_link_call *call)
{
    if (l->dead || l->flying == PLACES)
        return false;
    do {
        call->id = ++l->ids;
    } while (l->place[call->id % PLACES] != NULL);
    l->place[call->id % PLACES] = call;
    l->flying++;
    call->flies = true;
    return true;
}

static void rpc_link_leave_locked(struct rpc_link *l,
                                  struct rpc_link_call *call)
{
    l->place[call->id % PLACES] = NULL;
    l->flying--;
    call->flies = false;
}

static void rpc_link_end_call_locked(struct rpc_link *l,
                                     struct rpc_link_call *call,
                                     enum sl_err code)
{
    rpc_link_leave_locked(l, call);
    call->code = code;
    list_push_back(&l->ended, &call->node);
}

static void end_all_locked(struct rpc_link *l, enum sl_err code)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (l->place[i] != NULL)
            rpc_link_end_call_locked(l, l->place[i], code);
}

// ---- ends, on the thread

static void rpc_link_call_finish(struct rpc_link_call *call, enum sl_err code,
                                 const struct sl_error *err,
                                 const struct sl_slices *reply)
{
    uint8_t *pieces = call->pieces;

    call->pieces = NULL;
    call->over(call, code, err, reply); // and the call may be another's
    sl_free(pieces);
}

static enum sl_err why(const struct rpc_link *l, enum sl_err code,
                       struct sl_error *err)
{
    const char *text = code == SL_ECANCELED ? "cancelled by this side"
                       : code == SL_ETIMEDOUT
                           ? "the deadline was exceeded"
                           : "the process at the other end of its socket on "
                             "this host has gone";

    return sl_fail(err, code, "%s: %s", l->address, text);
}

static void say_ended(struct rpc_link *l)
{
    struct sl_error err = SL_ERROR_INIT;
    struct list ended;
    struct list_node *n;

    list_init(&ended);
    pthread_mutex_lock(&l->lock);
    list_take_all(&ended, &l->ended);
    pthread_mutex_unlock(&l->lock);
    while ((n = list_pop_front(&ended)) != NULL) {
        struct rpc_link_call *call = list_entry(n, struct rpc_link_call, node);
        enum sl_err code = why(l, call->code, &err);

        rpc_link_call_finish(call, code, &err, NULL);
    }
}

static void rpc_link_break_off(struct rpc_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->dead = true;
    end_all_locked(l, SL_EUNAVAIL);
    pthread_mutex_unlock(&l->lock);
    say_ended(l);
    rpc_poll_leave(&l->poll);
}

static bool rpc_link_on_tick(struct rpc_poll *poll)
{
    struct rpc_link *l = sl_container_of(poll, struct rpc_link, poll);
    uint64_t now = sl_real_ms();
    bool waits;

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; i < PLACES && l->flying > 0; i++)
        if (l->place[i] != NULL && l->place[i]->until_ms <= now)
            rpc_link_end_call_locked(l, l->place[i], SL_ETIMEDOUT);
    waits = l->flying > 0;
    pthread_mutex_unlock(&l->lock);
    say_ended(l);
    return waits;
}

// ---- answers, on the thread

static bool rpc_link_is_too_large(const struct rpc_link_call *call,
                                  const struct rpc_sock_packet *p)
{
    return p->head.said == SL_OK && p->head.total > call->max_reply_bytes;
}

// Adds a packet to an answer in several packets. SL_EBUSY: more are to come.
static enum sl_err rpc_link_call_gather(struct rpc_link_call *call,
                                        const struct rpc_sock_packet *p)
{
    if (call->pieces == NULL) {
        call->pieces = sl_malloc(p->head.total);
        call->total = p->head.total;
    }
    if (call->pieces == NULL)
        return SL_ENOMEM;
    if (p->head.at != call->have || p->head.total != call->total ||
        p->bytes == 0)
        return SL_ECORRUPT;
    memcpy(call->pieces + call->have, p->body, p->bytes);
    call->have += p->bytes;
    return call->have < p->head.total ? SL_EBUSY : SL_OK;
}

static void rpc_link_deliver(struct rpc_link *l, struct rpc_link_call *call,
                             const struct rpc_sock_packet *p)
{
    struct sl_slice body = {call->pieces ? call->pieces : p->body,
                            p->head.total};
    struct sl_slices reply = slices_one(&body);
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err code = (enum sl_err)p->head.said;

    if (code != SL_OK)
        sl_fail(&err, code, "%.*s", (int)body.len, (const char *)body.data);
    else if (rpc_link_is_too_large(call, p))
        code = sl_fail(&err, SL_ERANGE,
                       "%s: a reply of %zu bytes is over the limit of %zu",
                       l->address, body.len, call->max_reply_bytes);
    rpc_link_call_finish(call, code, &err, code == SL_OK ? &reply : NULL);
}

// SL_OK or what ends the link.
static enum sl_err rpc_link_on_answer(struct rpc_link *l,
                                      const struct rpc_sock_packet *p)
{
    bool whole = p->bytes == p->head.total;
    struct rpc_link_call *call;
    enum sl_err rc = SL_OK;

    if (p->head.said >= SL_ERR_COUNT ||
        (p->head.said != SL_OK && (!whole || p->bytes > SL_ERROR_TEXT)))
        return SL_ECORRUPT;
    pthread_mutex_lock(&l->lock);
    call = at_locked(l, p->head.id);
    // What is too large is over with its first piece, and one that has begun
    // in pieces goes on in pieces.
    if (call != NULL && (call->pieces != NULL || !whole) &&
        !rpc_link_is_too_large(call, p))
        rc = rpc_link_call_gather(call, p);
    if (call != NULL && rc == SL_OK)
        rpc_link_leave_locked(l, call);
    pthread_mutex_unlock(&l->lock);
    if (call != NULL && rc == SL_OK)
        rpc_link_deliver(l, call, p);
    return rc == SL_EBUSY ? SL_OK : rc;
}

static void rpc_link_on_ready(struct rpc_poll *poll, unsigned events)
{
    struct rpc_link *l = sl_container_of(poll, struct rpc_link, poll);
    struct rpc_sock_packet packet[RPC_SOCK_BATCH];
    unsigned count = 0;
    enum sl_err rc;

    rc = rpc_sock_receive(poll, RPC_SOCK_ANSWERS, packet, &count);
    for (unsigned i = 0; i < count && (rc == SL_OK || rc == SL_EBUSY); i++)
        rc = rpc_link_on_answer(l, &packet[i]);
    if (rc == SL_EBUSY && (events & (EPOLLHUP | EPOLLERR)))
        rc = SL_EUNAVAIL;
    if (rc != SL_OK && rc != SL_EBUSY)
        rpc_link_break_off(l);
}

// ---- its life

static void rpc_link_on_gone(struct rpc_poll *poll)
{
    rpc_link_unref(sl_container_of(poll, struct rpc_link, poll));
}

enum sl_err rpc_link_new(struct rpc_link **out, struct rpc_thread *thread,
                         int fd, const char *address, struct sl_error *err)
{
    struct rpc_link *l = gpr_zalloc(sizeof(*l));
    enum sl_err rc;

    atomic_init(&l->refs, 2); // the caller's and the poll's
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->ended);
    l->address = gpr_strdup(address);
    l->poll = (struct rpc_poll){.fd = fd,
                                .ready = rpc_link_on_ready,
                                .tick = rpc_link_on_tick,
                                .gone = rpc_link_on_gone};
    rc = rpc_poll_open(&l->poll, thread, err);
    if (rc != SL_OK) {
        atomic_store(&l->refs, 1);
        rpc_link_unref(l);
        return rc;
    }
    *out = l;
    return SL_OK;
}

struct rpc_link *rpc_link_ref(struct rpc_link *l)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void rpc_link_unref(struct rpc_link *l)
{
    if (l == NULL ||
        atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) > 1)
        return;
    close(l->poll.fd);
    pthread_mutex_destroy(&l->lock);
    gpr_free(l->address);
    gpr_free(l);
}

bool rpc_link_alive(struct rpc_link *l)
{
    bool alive;

    pthread_mutex_lock(&l->lock);
    alive = !l->dead;
    pthread_mutex_unlock(&l->lock);
    return alive;
}

void rpc_link_close(struct rpc_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->dead = true;
    end_all_locked(l, SL_ECANCELED);
    pthread_mutex_unlock(&l->lock);
    (void)shutdown(l->poll.fd, SHUT_RDWR); // and the thread hears of it
}

// ---- calls, on any thread

// Takes `call` off the link after its packet could not be sent. Returns true if
// another thread ended the call meanwhile: then `rpc_link_call_finish` has run
// or will run.
static bool rpc_link_withdraw(struct rpc_link *l, struct rpc_link_call *call,
                              uint64_t id)
{
    bool gone;

    pthread_mutex_lock(&l->lock);
    gone = at_locked(l, id) != call;
    if (!gone) {
        rpc_link_leave_locked(l, call);
        // The peer may have sent pieces of an answer to this unsent request.
        sl_free(call->pieces);
        call->pieces = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    return gone;
}

bool rpc_link_start(struct rpc_link *l, struct rpc_link_call *call,
                    const char *method, struct rpc_msg *msg,
                    int64_t deadline_ms)
{
    struct rpc_sock_head head = {.magic = RPC_SOCK_ASKS,
                                 .said = (uint32_t)strlen(method),
                                 .total = msg != NULL ? rpc_msg_bytes(msg) : 0,
                                 .deadline_ms = deadline_ms};
    bool entered, cancelled;

    call->have = 0;
    pthread_mutex_lock(&l->lock);
    call->until_ms = sl_real_ms() + (uint64_t)deadline_ms;
    cancelled = call->cancelled;
    entered = rpc_link_enter_locked(l, call);
    head.id = call->id;
    if (entered && cancelled) {
        rpc_link_end_call_locked(l, call, SL_ECANCELED);
        rpc_poll_wake(&l->poll);
    } else if (entered) {
        rpc_poll_stir(&l->poll);
    }
    pthread_mutex_unlock(&l->lock);
    if (!entered)
        return false;
    // The call may be over already, and the channel and its threads freed.
    if (!cancelled &&
        rpc_sock_send_part(l->poll.fd, &head, method, msg) != SL_OK &&
        !rpc_link_withdraw(l, call, head.id))
        return false;
    if (msg != NULL)
        rpc_msg_drop(msg); // the kernel has it
    return true;
}

void rpc_link_cancel(struct rpc_link *l, struct rpc_link_call *call)
{
    bool flew;

    pthread_mutex_lock(&l->lock);
    flew = call->flies;
    call->cancelled = true;
    if (flew)
        rpc_link_end_call_locked(l, call, SL_ECANCELED);
    pthread_mutex_unlock(&l->lock);
    if (flew)
        rpc_poll_wake(&l->poll);
}
