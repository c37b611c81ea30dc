// SPDX-License-Identifier: Apache-2.0
// common/net/local/rpc_host.c -- calls over a socket of this host, the server's
// end; see rpc_sock.h.
//
// An answer is written at once, by whoever gives it. What the socket has no
// space for waits here as packets, and until it has left nothing more is read:
// a caller that does not listen is not served.
#include "common/net/local/rpc_sock.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct rpc_host {
    struct rpc_poll poll;
    const struct rpc_host_events *events;
    struct rpc_server *server;
    struct list_node node;
    atomic_uint refs;
    pthread_mutex_t lock; // also keeps the packets of one answer together
    struct list unsent;   // of packet
    bool dead;
};

struct packet {
    struct list_node node;
    size_t bytes;
    uint8_t at[];
};

// ---- answers

// Behind what waits already.
static void rpc_host_queue_locked(struct rpc_host *h,
                                  const struct rpc_sock_head *head,
                                  const struct rpc_msg *msg)
{
    size_t left = head->total - head->at;
    size_t body = left < RPC_SOCK_BODY ? left : RPC_SOCK_BODY;
    struct packet *p = gpr_malloc(sizeof(*p) + sizeof(*head) + body);

    p->bytes = sizeof(*head) + body;
    memcpy(p->at, head, sizeof(*head));
    rpc_sock_copy(p->at + sizeof(*head), msg, head->at, body);
    list_push_back(&h->unsent, &p->node);
}

static void say_locked(struct rpc_host *h, struct rpc_sock_head *head,
                       const struct rpc_msg *msg)
{
    bool waits = !list_empty(&h->unsent), waited = waits;
    enum sl_err rc = SL_OK;

    do {
        if (!waits)
            rc = rpc_sock_send_part(h->poll.fd, head, NULL, msg);
        waits |= rc == SL_EBUSY;
        if (waits)
            rpc_host_queue_locked(h, head, msg);
        head->at += RPC_SOCK_BODY;
    } while (head->at < head->total && (waits || rc == SL_OK));
    if (rc != SL_OK && !waits)
        rpc_host_close(h); // else the caller would wait for the rest
    else if (waits && !waited)
        rpc_poll_want(&h->poll, EPOLLOUT);
}

void rpc_host_answer(struct rpc_host *h, uint64_t id, enum sl_err code,
                     const struct sl_error *err, struct rpc_msg *reply)
{
    const char *text = err && err->text[0] ? err->text : sl_err_text(code);
    struct rpc_sock_head head = {
        .magic = RPC_SOCK_ANSWERS, .said = (uint32_t)code, .id = id};
    struct rpc_msg said;

    rpc_msg_init(&said);
    if (code == SL_OK && reply != NULL)
        head.total = rpc_msg_bytes(reply);
    if (code != SL_OK) {
        head.total = strlen(text);
        rpc_msg_part(&said, text, head.total);
    }
    pthread_mutex_lock(&h->lock);
    if (!h->dead)
        say_locked(h, &head, code == SL_OK ? reply : &said);
    pthread_mutex_unlock(&h->lock);
    if (reply != NULL)
        rpc_msg_drop(reply);
}

// SL_EBUSY: the socket is full again.
static enum sl_err flush_locked(struct rpc_host *h)
{
    struct list_node *n;

    while ((n = list_first(&h->unsent)) != NULL) {
        struct packet *p = list_entry(n, struct packet, node);
        enum sl_err rc = rpc_sock_send(h->poll.fd, p->at, p->bytes);

        if (rc != SL_OK)
            return rc;
        list_remove(n);
        gpr_free(p);
    }
    rpc_poll_want(&h->poll, EPOLLIN);
    return SL_OK;
}

// ---- on the thread

static enum sl_err rpc_host_receive(struct rpc_host *h)
{
    struct rpc_sock_packet packet[RPC_SOCK_BATCH];
    unsigned count = 0;
    enum sl_err rc = rpc_sock_receive(&h->poll, RPC_SOCK_ASKS, packet, &count);

    for (unsigned i = 0; i < count && rc == SL_OK; i++) {
        if (packet[i].bytes != packet[i].head.total ||
            // Each open call holds one reference, the host itself another.
            atomic_load(&h->refs) > RPC_SOCK_OPEN_MOST)
            rc = SL_ECORRUPT;
        else
            h->events->received(h->server, h, &packet[i]);
    }
    return rc;
}

static void rpc_host_break_off(struct rpc_host *h)
{
    pthread_mutex_lock(&h->lock);
    h->dead = true;
    pthread_mutex_unlock(&h->lock);
    rpc_poll_leave(&h->poll);
}

static void rpc_host_on_ready(struct rpc_poll *poll, unsigned events)
{
    struct rpc_host *h = sl_container_of(poll, struct rpc_host, poll);
    enum sl_err rc = SL_EBUSY;

    if (events & EPOLLOUT) {
        pthread_mutex_lock(&h->lock);
        rc = flush_locked(h);
        pthread_mutex_unlock(&h->lock);
    }
    if (events & EPOLLIN)
        rc = rpc_host_receive(h);
    if (rc == SL_EBUSY && (events & (EPOLLHUP | EPOLLERR)))
        rc = SL_EUNAVAIL;
    if (rc != SL_OK && rc != SL_EBUSY)
        rpc_host_break_off(h);
}

// ---- its life

static void rpc_host_on_gone(struct rpc_poll *poll)
{
    struct rpc_host *h = sl_container_of(poll, struct rpc_host, poll);

    h->events->gone(h->server, h);
    rpc_host_unref(h);
}

struct rpc_host *rpc_host_new(const struct rpc_host_events *events,
                              struct rpc_server *server, int fd)
{
    struct rpc_host *h = gpr_zalloc(sizeof(*h));

    atomic_init(&h->refs, 1);
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->unsent);
    h->events = events;
    h->server = server;
    h->poll = (struct rpc_poll){
        .fd = fd, .ready = rpc_host_on_ready, .gone = rpc_host_on_gone};
    return h;
}

enum sl_err rpc_host_open(struct rpc_host *h, struct rpc_thread *thread,
                          struct sl_error *err)
{
    return rpc_poll_open(&h->poll, thread, err);
}

struct rpc_host *rpc_host_ref(struct rpc_host *h)
{
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    return h;
}

void rpc_host_unref(struct rpc_host *h)
{
    struct list_node *n;

    if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) > 1)
        return;
    while ((n = list_pop_front(&h->unsent)) != NULL)
        gpr_free(list_entry(n, struct packet, node));
    close(h->poll.fd);
    pthread_mutex_destroy(&h->lock);
    gpr_free(h);
}

struct list_node *rpc_host_node(struct rpc_host *h)
{
    return &h->node;
}

struct rpc_host *rpc_host_of_node(struct list_node *node)
{
    return sl_container_of(node, struct rpc_host, node);
}

void rpc_host_close(struct rpc_host *h)
{
    (void)shutdown(h->poll.fd, SHUT_RDWR); // and the thread hears of it
}
