// SPDX-License-Identifier: Apache-2.0
// What the rpc tests share: a server and a channel to it, something to wait
// on, and a wire that can be cut.
//
// Threads  the test's, but where it is said.
// Errors   what fails that should not ends the test, and so does a wait of
//          PATIENCE_S.
#ifndef TESTS_UNIT_COMMON_RPC_KIT_H
#define TESTS_UNIT_COMMON_RPC_KIT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/net/rpc.h"
#include "tests/harness/t.h"

#define PATIENCE_S 60 // a test that waits longer is broken
#define DEADLINE_MS (PATIENCE_S * 1000)

#define wait_for(sem) wait_for_at((sem), __FILE__, __LINE__)

// Waits for a semaphore; `file` and `line` are those of the test.
__attribute__((unused)) static void wait_for_at(sem_t *sem, const char *file,
                                                int line)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (sem_timedwait(sem, &until) != 0) {
        if (errno != EINTR)
            t_assert_failed("what is waited for comes", file, line);
    }
}

// Answers a call with a copy of its request: a method, on I/O threads.
__attribute__((unused)) static void kit_echo(struct rpc_call *call, void *arg)
{
    const struct sl_slices *body = rpc_call_body(call);
    uint8_t *copy = sl_malloc(body->bytes + 1); // also of nothing
    struct rpc_msg msg;

    (void)arg;
    T_ASSERT(copy != NULL);
    slices_copy(copy, body);
    rpc_msg_init(&msg);
    rpc_msg_part(&msg, copy, body->bytes);
    rpc_msg_on_release(&msg, sl_free, copy);
    rpc_answer(call, SL_OK, NULL, &msg);
}

struct world {
    struct rpc_io *io;
    struct rpc_server *server;
    struct rpc_channel *channel;
    char address[256];
};

// Opens a server of one table at a free port of 127.0.0.1, or at a unix socket
// in the test's folder, and a channel to it; w->address is where. `methods` and
// `arg` live until world_close.
__attribute__((unused)) static void world_open(struct world *w,
                                               const struct rpc_method *methods,
                                               size_t count, void *arg,
                                               bool unix_socket)
{
    struct rpc_table table = {methods, count, arg};
    int port = 0;

    T_OK(rpc_io_new(&w->io, &(struct rpc_io_options){.threads = 2}, t_err()));
    T_OK(rpc_server_new(&w->server, w->io, &table, 1, NULL, t_err()));
    if (unix_socket)
        snprintf(w->address, sizeof(w->address), "unix:%s", t_path("sock"));
    else
        snprintf(w->address, sizeof(w->address), "127.0.0.1:0");
    T_OK(rpc_server_bind(w->server, w->address, NULL, &port, t_err()));
    if (!unix_socket)
        snprintf(w->address, sizeof(w->address), "127.0.0.1:%d", port);
    rpc_server_start(w->server);
    T_OK(rpc_channel_new(&w->channel, w->io, w->address, NULL, NULL, t_err()));
}

// Frees channel, server and threads, in this order; waits until every call was
// answered.
__attribute__((unused)) static void world_close(struct world *w)
{
    rpc_channel_free(w->channel);
    rpc_server_free(w->server);
    rpc_io_free(w->io);
}

// Waits, without a sleep, until a condition holds which another thread brings
// about; it is evaluated again and again.
#define AWAIT(condition)                                                       \
    do {                                                                       \
        uint64_t until_ms = sl_real_ms() + DEADLINE_MS;                        \
        while (!(condition)) {                                                 \
            T_ASSERT(sl_real_ms() < until_ms);                                 \
            sched_yield();                                                     \
        }                                                                      \
    } while (0)

// Waits until so many calls are open: a caller may have its answer before the
// server has seen to it that the call is over.
__attribute__((unused)) static void await_open_calls(const struct world *w,
                                                     size_t count)
{
    AWAIT(rpc_server_open_calls(w->server) == count);
}

// Answers "/t.T/Who" with the id as which the caller is known; "" without one.
static void answer_who(struct rpc_call *call, void *arg)
{
    struct rpc_peer peer;
    const char *name = peer.id;
    struct rpc_msg msg;

    (void)arg;
    rpc_call_peer(call, &peer);
    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, strlen(name)), name, strlen(name));
    rpc_answer(call, SL_OK, NULL, &msg);
}

static const struct rpc_method who_methods[] = {
    {"/t.T/Who", RPC_UNARY, 0, answer_who, NULL, false},
};
__attribute__((unused)) static const struct rpc_table who_table = {who_methods,
                                                                   1, NULL};

// Adds 1 to *user, an atomic_int: for rpc_msg_on_release. Any thread.
__attribute__((unused)) static void count_release(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

// The outcome of a call, for a test that starts it and looks later.
struct outcome {
    sem_t done;       // posted each time that the call ends
    atomic_int times; // how often it ended: once, if all is well
    enum sl_err code;
    struct sl_error err; // of a failure
    size_t bytes;        // of the reply; 0 after a failure
};

// Sets *o up for one call; nothing is to be freed.
__attribute__((unused)) static void outcome_init(struct outcome *o)
{
    memset(o, 0, sizeof(*o));
    sem_init(&o->done, 0, 0);
}

// Notes how a call ended in `arg`, a struct outcome: for rpc_call_start. Fails
// unless there is a reply exactly on SL_OK. I/O threads.
__attribute__((unused)) static void on_outcome(void *arg, enum sl_err code,
                                               const struct sl_error *err,
                                               const struct sl_slices *reply)
{
    struct outcome *o = arg;

    o->code = code;
    if (code != SL_OK)
        o->err = *err;
    T_ASSERT((reply != NULL) == (code == SL_OK));
    o->bytes = reply ? reply->bytes : 0;
    atomic_fetch_add(&o->times, 1);
    sem_post(&o->done);
}

// ---- a wire that can be cut: a port that passes bytes on to another

struct wire {
    int listener, near, far, stop[2];
    unsigned port, to;
    atomic_bool frozen; // swallows everything, closes nothing
    bool again;         // after a connection, the next
    pthread_t thread;
};

static int local_socket(unsigned *port, bool listens)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)*port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_ASSERT(fd >= 0);
    if (!listens) {
        T_ASSERT(connect(fd, (struct sockaddr *)&a, size) == 0);
        return fd;
    }
    T_ASSERT(bind(fd, (struct sockaddr *)&a, size) == 0);
    T_ASSERT(listen(fd, 8) == 0);
    T_ASSERT(getsockname(fd, (struct sockaddr *)&a, &size) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static bool wire_pass(struct wire *w, int from, int to)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof(bytes));

    if (n <= 0)
        return false;
    if (atomic_load(&w->frozen))
        return true;
    for (ssize_t at = 0; at < n;) {
        ssize_t put = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);

        if (put <= 0)
            return false;
        at += put;
    }
    return true;
}

// False: it was told to stop.
static bool wire_pass_one(struct wire *w)
{
    struct linger at_once = {1, 0};
    struct pollfd fds[3] = {{w->listener, POLLIN, 0}, {w->stop[0], POLLIN, 0}};
    bool up = true, stopped = false;

    T_ASSERT(poll(fds, 2, PATIENCE_S * 1000) > 0);
    if (fds[1].revents)
        return false;
    w->near = accept(w->listener, NULL, NULL);
    if (w->near < 0)
        return false;
    w->far = local_socket(&w->to, false);
    while (up) {
        fds[0] = (struct pollfd){w->near, POLLIN, 0};
        fds[1] = (struct pollfd){w->far, POLLIN, 0};
        fds[2] = (struct pollfd){w->stop[0], POLLIN, 0};
        T_ASSERT(poll(fds, 3, PATIENCE_S * 1000) > 0);
        stopped = fds[2].revents != 0;
        up = !stopped;
        if (up && fds[0].revents)
            up = wire_pass(w, w->near, w->far);
        if (up && fds[1].revents)
            up = wire_pass(w, w->far, w->near);
    }
    setsockopt(w->near, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    setsockopt(w->far, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(w->near);
    close(w->far);
    return !stopped;
}

static void *wire_run(void *arg)
{
    struct wire *w = arg;

    while (wire_pass_one(w) && w->again)
        ;
    close(w->listener); // a client that dials again is refused
    return NULL;
}

// Passes one connection, made to `port` (0: any, w->port then says which), on
// to the port `to` of this machine, on a thread of its own; with `again` one
// after another. It ends with wire_cut, or when an end of the last connection
// closes; then the port is closed as well.
__attribute__((unused)) static void wire_open_at(struct wire *w, unsigned port,
                                                 unsigned to, bool again)
{
    memset(w, 0, sizeof(*w));
    w->again = again;
    w->port = port;
    w->to = to;
    w->listener = local_socket(&w->port, true);
    T_ASSERT(pipe(w->stop) == 0);
    T_ASSERT(pthread_create(&w->thread, NULL, wire_run, w) == 0);
}

// Opens a wire at any port for one connection.
__attribute__((unused)) static void wire_open(struct wire *w, unsigned to)
{
    wire_open_at(w, 0, to, false);
}

// Cuts the wire, for good, and waits for its thread: both ends of an open
// connection see a reset. To be called once for each wire, also if it has
// ended.
__attribute__((unused)) static void wire_cut(struct wire *w)
{
    T_ASSERT(write(w->stop[1], "", 1) == 1);
    pthread_join(w->thread, NULL);
    close(w->stop[0]);
    close(w->stop[1]);
}

#endif
