// SPDX-License-Identifier: Apache-2.0
// A peer that reads nothing holds nobody up.
#include "tests/unit/common/rpc_kit.h"

#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#define LARGE ((size_t)12 << 20) // more than sockets hold
#define DEAF_AFTER 100000        // bytes

// ---- a path that passes bytes on to a port, until it reads no more

struct relay {
    struct sockaddr_un path;
    unsigned to;
    int listener, stop[2];
    pthread_t thread;
};

static void relay_pass(int from, int to, size_t *passed)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof(bytes));

    T_ASSERT(n > 0);
    T_ASSERT(send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n);
    *passed += (size_t)n;
}

static void *relay_run(void *arg)
{
    struct relay *r = arg;
    int near = accept(r->listener, NULL, NULL);
    int far = local_socket(&r->to, false);
    size_t up = 0, down = 0;
    char stop;

    T_ASSERT(near >= 0);
    while (up < DEAF_AFTER) {
        struct pollfd fds[2] = {{near, POLLIN, 0}, {far, POLLIN, 0}};

        T_ASSERT(poll(fds, 2, PATIENCE_S * 1000) > 0);
        if (fds[0].revents)
            relay_pass(near, far, &up);
        if (fds[1].revents)
            relay_pass(far, near, &down);
    }
    T_ASSERT(read(r->stop[0], &stop, 1) == 1);
    close(near);
    close(far);
    return NULL;
}

static void relay_open(struct relay *r, unsigned to)
{
    *r = (struct relay){.path = {.sun_family = AF_UNIX}, .to = to};
    snprintf(r->path.sun_path, sizeof(r->path.sun_path), "%s", t_path("sock"));
    r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_ASSERT(bind(r->listener, (struct sockaddr *)&r->path, sizeof(r->path)) ==
             0);
    T_ASSERT(listen(r->listener, 1) == 0);
    T_ASSERT(pipe(r->stop) == 0);
    T_ASSERT(pthread_create(&r->thread, NULL, relay_run, r) == 0);
}

static void relay_close(struct relay *r)
{
    T_ASSERT(write(r->stop[1], "", 1) == 1);
    pthread_join(r->thread, NULL);
    close(r->listener);
    close(r->stop[0]);
    close(r->stop[1]);
}

// A socket of this process is connected to it and has bytes to send that it
// does not take.
static bool relay_is_full(const struct relay *r)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_un peer = {.sun_family = AF_UNSPEC};
        socklen_t n = sizeof(peer);
        int queued;

        if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 &&
            strcmp(peer.sun_path, r->path.sun_path) == 0 &&
            ioctl(fd, SIOCOUTQ, &queued) == 0 && queued > DEAF_AFTER)
            return true;
    }
    return false;
}

static void release(void *arg)
{
    sem_post(arg);
}

TEST(rpc_break, a_channel_is_freed_though_its_peer_reads_nothing)
{
    static const struct rpc_method methods[] = {
        {"/t.T/Echo", RPC_UNARY, 2 * LARGE, kit_echo, NULL, false},
    };
    const struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    static uint8_t large[LARGE];
    struct rpc_channel *channel;
    struct outcome o;
    struct rpc_msg msg;
    char address[200];
    struct relay r;
    struct world w;
    sem_t released;

    world_open(&w, methods, 1, NULL, false);
    relay_open(&r, (unsigned)atoi(strrchr(w.address, ':') + 1));
    snprintf(address, sizeof(address), "unix:%s", r.path.sun_path);
    T_OK(rpc_channel_new(&channel, w.io, address, NULL, NULL, t_err()));
    sem_init(&released, 0, 0);
    outcome_init(&o);
    rpc_msg_init(&msg);
    rpc_msg_part(&msg, large, sizeof(large));
    rpc_msg_on_release(&msg, release, &released);
    rpc_call_start(channel, "/t.T/Echo", &msg, &options, on_outcome, &o, NULL);
    while (!relay_is_full(&r))
        sched_yield();
    rpc_channel_free(channel);
    T_EQ(atomic_load(&o.times), 1);
    T_NE(o.code, SL_OK);
    wait_for(&released); // what was lent is ours again
    relay_close(&r);
    world_close(&w);
    sem_destroy(&released);
}
