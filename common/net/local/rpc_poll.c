// SPDX-License-Identifier: Apache-2.0
// common/net/local/rpc_poll.c -- the I/O thread that watches sockets of this
// host, and their packets; see rpc_sock.h.
//
// While a poll waits for something the thread wakes every RPC_TICK_MS to look
// at deadlines. When none did for a whole tick it sleeps until it is woken
// (`dozing`), so that an idle process stays asleep, and a busy one is sent
// nothing.
#include "common/net/local/rpc_sock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/run/prompt.h"

#define EVENTS_MAX 16

struct rpc_poller {
    pthread_t id;
    int epoll, wake;
    pthread_mutex_t lock; // of `open`; only the thread takes out
    struct list open;
    unsigned leaving;
    atomic_bool stop, dozing;
    uint8_t space[RPC_SOCK_BATCH][RPC_SOCK_PACKET];
};

static void rpc_poller_wake(struct rpc_poller *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->wake, &one, sizeof(one));

    (void)n; // full means that it is awake
}

enum sl_err rpc_socket_pair(int pair[2], struct sl_error *err)
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

    if (socketpair(AF_UNIX, type, 0, pair) != 0)
        return sl_fail(err, SL_EBUSY, "no socket pair: %s", strerror(errno));
    return SL_OK;
}

// ---- the thread

// The next poll, which only this thread could take away meanwhile.
static struct rpc_poll *next_poll(struct rpc_poller *w, struct rpc_poll *poll)
{
    struct list_node *n;

    pthread_mutex_lock(&w->lock);
    n = poll == NULL ? list_first(&w->open) : list_next(&w->open, &poll->node);
    pthread_mutex_unlock(&w->lock);
    return n == NULL ? NULL : list_entry(n, struct rpc_poll, node);
}

static bool tick_all(struct rpc_poller *w)
{
    struct rpc_poll *poll = NULL;
    bool busy = false;

    while ((poll = next_poll(w, poll)) != NULL)
        if (poll->tick != NULL && !poll->leaving)
            busy |= poll->tick(poll);
    return busy;
}

static void say_gone(struct rpc_poller *w)
{
    struct rpc_poll *poll, *next;

    for (poll = next_poll(w, NULL); poll != NULL && w->leaving > 0;
         poll = next) {
        next = next_poll(w, poll);
        if (!poll->leaving)
            continue;
        pthread_mutex_lock(&w->lock);
        list_remove(&poll->node);
        pthread_mutex_unlock(&w->lock);
        w->leaving--;
        poll->gone(poll);
    }
}

static void hear_wake(struct rpc_poller *w)
{
    uint64_t count;
    ssize_t n = read(w->wake, &count, sizeof(count));

    (void)n;
}

// Handles `n` events. Returns true if rpc_poll_wake asked for a tick.
static bool rpc_poller_handle_events(struct rpc_poller *w,
                                     const struct epoll_event *ev, int n)
{
    bool wanted = false;

    for (int i = 0; i < n; i++) {
        struct rpc_poll *poll = ev[i].data.ptr;

        if (poll == NULL) {
            hear_wake(w);
            wanted = true;
        } else if (!poll->leaving) {
            poll->ready(poll, ev[i].events);
        }
    }
    return wanted;
}

// Their owners have closed them, and this thread has not seen it yet.
static void see_off(struct rpc_poller *w)
{
    struct rpc_poll *poll;

    while ((poll = next_poll(w, NULL)) != NULL) {
        if (!poll->leaving)
            poll->ready(poll, EPOLLIN | EPOLLHUP);
        say_gone(w);
    }
}

static void *rpc_poller_run(void *arg)
{
    struct rpc_poller *w = arg;
    struct epoll_event ev[EVENTS_MAX];
    uint64_t looked = sl_real_ms();
    bool busy = false;
    int n;

    prompt_begin();
    while (!atomic_load(&w->stop)) {
        n = epoll_wait(w->epoll, ev, EVENTS_MAX, busy ? RPC_TICK_MS : -1);
        if (rpc_poller_handle_events(w, ev, n) ||
            sl_real_ms() - looked >= RPC_TICK_MS) {
            looked = sl_real_ms();
            busy = tick_all(w);
            if (!busy) { // what starts from here on tells us
                atomic_store(&w->dozing, true);
                busy = tick_all(w);
            }
        }
        if (w->leaving > 0)
            say_gone(w);
    }
    see_off(w);
    return NULL;
}

// ---- its life

static void rpc_poller_drop(struct rpc_poller *w)
{
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->wake >= 0)
        close(w->wake);
    pthread_mutex_destroy(&w->lock);
    gpr_free(w);
}

static enum sl_err rpc_poller_start(struct rpc_poller **out, int cpu,
                                    struct sl_error *err)
{
    struct rpc_poller *w = gpr_zalloc(sizeof(*w));
    struct epoll_event ev = {.events = EPOLLIN};
    int rc = 0;

    pthread_mutex_init(&w->lock, NULL);
    list_init(&w->open);
    atomic_init(&w->dozing, true);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll < 0 || w->wake < 0 ||
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev) != 0)
        rc = errno;
    if (rc == 0)
        rc = pthread_create(&w->id, NULL, rpc_poller_run, w);
    if (rc != 0) {
        rpc_poller_drop(w);
        return sl_fail(err, sl_err_from_errno(rc),
                       "cannot watch sockets of this host: %s", strerror(rc));
    }
    pthread_setname_np(w->id, "io-near");
    if (cpu >= 0)
        (void)rpc_pin(w->id, cpu, NULL); // to the core of its I/O thread
    *out = w;
    return SL_OK;
}

static void rpc_poller_stop(struct rpc_poller *w)
{
    atomic_store(&w->stop, true);
    rpc_poller_wake(w);
    pthread_join(w->id, NULL);
    rpc_poller_drop(w);
}

static enum sl_err rpc_poller_of(struct rpc_thread *t, struct rpc_poller **out,
                                 struct sl_error *err)
{
    static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
    struct rpc_poller *w;
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&starting);
    w = atomic_load(&t->poller);
    if (w == NULL)
        rc = rpc_poller_start(&w, t->cpu, err);
    if (rc == SL_OK) {
        t->poller_free = rpc_poller_stop;
        atomic_store(&t->poller, w);
    }
    pthread_mutex_unlock(&starting);
    *out = w;
    return rc;
}

// What cannot be shut down would never leave.
static enum sl_err check_kind(int fd, struct sl_error *err)
{
    int type = 0;
    socklen_t size = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_SEQPACKET)
        return sl_fail(err, SL_EINVAL,
                       "descriptor %d is no socket of this host for packets "
                       "(SOCK_SEQPACKET)",
                       fd);
    return SL_OK;
}

enum sl_err rpc_poll_open(struct rpc_poll *poll, struct rpc_thread *thread,
                          struct sl_error *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = poll};
    struct rpc_poller *w;
    enum sl_err rc = check_kind(poll->fd, err);

    if (rc == SL_OK)
        rc = rpc_poller_of(thread, &w, err);
    if (rc != SL_OK)
        return rc;
    poll->poller = w;
    poll->leaving = false;
    pthread_mutex_lock(&w->lock);
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, poll->fd, &ev) != 0)
        rc = sl_fail(err, sl_err_from_errno(errno),
                     "cannot watch a socket of this host: %s", strerror(errno));
    else
        list_push_back(&w->open, &poll->node);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void rpc_poll_leave(struct rpc_poll *poll)
{
    if (poll->leaving)
        return;
    poll->leaving = true;
    poll->poller->leaving++;
    (void)epoll_ctl(poll->poller->epoll, EPOLL_CTL_DEL, poll->fd, NULL);
    (void)shutdown(poll->fd, SHUT_RDWR); // the peer need not wait for our end
}

void rpc_poll_want(struct rpc_poll *poll, unsigned events)
{
    struct epoll_event ev = {.events = events, .data.ptr = poll};

    // Fails without effect for a poll that has left meanwhile.
    (void)epoll_ctl(poll->poller->epoll, EPOLL_CTL_MOD, poll->fd, &ev);
}

void rpc_poll_stir(struct rpc_poll *poll)
{
    struct rpc_poller *w = poll->poller;

    if (atomic_load(&w->dozing) && atomic_exchange(&w->dozing, false))
        rpc_poller_wake(w);
}

void rpc_poll_wake(struct rpc_poll *poll)
{
    rpc_poller_wake(poll->poller);
}

// ---- packets

static bool read_packet(struct rpc_sock_packet *out, const uint8_t *at,
                        size_t bytes, uint32_t magic)
{
    size_t path;

    if (bytes < sizeof(out->head))
        return false;
    memcpy(&out->head, at, sizeof(out->head));
    path = magic == RPC_SOCK_ASKS ? out->head.said : 0;
    if (out->head.magic != magic || path > RPC_SOCK_PATH_MAX ||
        bytes - sizeof(out->head) < path)
        return false;
    out->path = (const char *)at + sizeof(out->head);
    out->body = at + sizeof(out->head) + path;
    out->bytes = bytes - sizeof(out->head) - path;
    return out->head.at <= out->head.total &&
           out->bytes <= out->head.total - out->head.at;
}

enum sl_err rpc_sock_receive(struct rpc_poll *poll, uint32_t magic,
                             struct rpc_sock_packet out[RPC_SOCK_BATCH],
                             unsigned *count)
{
    struct rpc_poller *w = poll->poller;
    struct mmsghdr m[RPC_SOCK_BATCH];
    struct iovec part[RPC_SOCK_BATCH];
    int n;

    memset(m, 0, sizeof(m));
    for (unsigned i = 0; i < RPC_SOCK_BATCH; i++) {
        part[i] = (struct iovec){w->space[i], RPC_SOCK_PACKET};
        m[i].msg_hdr.msg_iov = &part[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    *count = 0;
    n = recvmmsg(poll->fd, m, RPC_SOCK_BATCH, MSG_DONTWAIT, NULL);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? SL_EBUSY
                                                            : SL_EUNAVAIL;
    for (int i = 0; i < n; i++) {
        if (m[i].msg_len == 0) // the end reads as an empty packet
            return *count > 0 ? SL_OK : SL_EUNAVAIL;
        if ((m[i].msg_hdr.msg_flags & MSG_TRUNC) ||
            !read_packet(&out[*count], w->space[i], m[i].msg_len, magic))
            return SL_ECORRUPT;
        (*count)++;
    }
    return SL_OK;
}

// Appends to `to` the ranges that hold bytes [at, at + most) of `msg`, fewer if
// the message ends before.
static void rpc_sock_add_parts(struct iovec *to, unsigned *used,
                               const struct rpc_msg *msg, size_t at,
                               size_t most)
{
    size_t left = most;

    for (unsigned i = 0; i <= msg->parts && left > 0; i++) {
        const uint8_t *data = i == 0 ? msg->head : msg->part[i - 1].data;
        size_t n = i == 0 ? msg->head_bytes : msg->part[i - 1].len;
        size_t skip = at < n ? at : n;

        at -= skip;
        n -= skip;
        n = n < left ? n : left;
        if (n > 0)
            to[(*used)++] = (struct iovec){(void *)(uintptr_t)(data + skip), n};
        left -= n;
    }
}

void rpc_sock_copy(uint8_t *to, const struct rpc_msg *msg, size_t at, size_t n)
{
    struct iovec part[1 + RPC_MSG_PARTS];
    unsigned used = 0;

    if (n > 0)
        rpc_sock_add_parts(part, &used, msg, at, n);
    for (unsigned i = 0; i < used; i++) {
        memcpy(to, part[i].iov_base, part[i].iov_len);
        to += part[i].iov_len;
    }
}

static enum sl_err send_parts(int fd, struct iovec *part, unsigned count)
{
    struct msghdr m = {.msg_iov = part, .msg_iovlen = count};

    if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return SL_OK;
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ||
                   errno == ENOMEM
               ? SL_EBUSY
               : SL_EUNAVAIL;
}

enum sl_err rpc_sock_send(int fd, const void *packet, size_t bytes)
{
    struct iovec part = {(void *)(uintptr_t)packet, bytes};

    return send_parts(fd, &part, 1);
}

enum sl_err rpc_sock_send_part(int fd, const struct rpc_sock_head *head,
                               const char *path, const struct rpc_msg *msg)
{
    struct iovec part[3 + RPC_MSG_PARTS];
    unsigned used = 0;

    part[used++] = (struct iovec){(void *)(uintptr_t)head, sizeof(*head)};
    if (path != NULL)
        part[used++] = (struct iovec){(void *)(uintptr_t)path, head->said};
    if (msg != NULL)
        rpc_sock_add_parts(part, &used, msg, head->at, RPC_SOCK_BODY);
    return send_parts(fd, part, used);
}
