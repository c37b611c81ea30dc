// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_pacing.c -- connections that stay on this host are not paced.
//
// Where the system's congestion control is BBR, the kernel spreads what a
// connection sends over time, by a timer per burst. Inside one host there is no
// queue to keep short, and in a virtual machine each timer leaves the guest:
// a PushPull took 1.4 to 2 times as long. So such connections get `reno`, which
// every kernel has, which no program needs a right for, and which does not
// pace. (Linux: net/ipv4/tcp_bbr.c, tcp_cong.c.)
//
// Core lets sockets be prepared by a grpc_socket_mutator, given as an argument.
// Its type is public, its members are not; those below are core's from 1.0
// (2016) to this day (src/core/lib/iomgr/socket_mutator.h), and rpc_pacing_test
// sees whether the option arrives. A listener is prepared before it is bound,
// in the call that binds it; what it accepts inherits the choice. That a socket
// may have been paced once cannot be undone, hence not at accept.
#include "common/net/rpc_inner.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

struct mutator_table {
    bool (*prepare)(int fd, grpc_socket_mutator *mutator);
    int (*compare)(grpc_socket_mutator *a, grpc_socket_mutator *b);
    void (*destroy)(grpc_socket_mutator *mutator);
    bool (*prepare_info)(const void *info, grpc_socket_mutator *mutator);
};

struct mutator {
    const struct mutator_table *table;
    gpr_refcount refs; // core counts; one is ours, so it is never destroyed
};

static _Thread_local bool binds_here; // this thread binds an address of no
                                      // other host's

static void do_not_pace(int fd)
{
    static const char name[] = "reno";

    // Also asked for unix sockets, which have no such option.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
}

static bool prepare_client(int fd, grpc_socket_mutator *mutator)
{
    (void)mutator;
    do_not_pace(fd);
    return true;
}

static bool prepare_listener(int fd, grpc_socket_mutator *mutator)
{
    (void)mutator;
    if (binds_here)
        do_not_pace(fd);
    return true;
}

static int compare(grpc_socket_mutator *a, grpc_socket_mutator *b)
{
    return (a > b) - (a < b);
}

static void never(grpc_socket_mutator *mutator)
{
    (void)mutator;
}

static void *same(void *mutator)
{
    return mutator;
}

static void drop(void *mutator)
{
    (void)mutator;
}

static int differ(void *a, void *b)
{
    return (a > b) - (a < b);
}

void rpc_pacing_arg(grpc_arg *out, bool server)
{
    static const struct mutator_table client = {prepare_client, compare, never,
                                                NULL};
    static const struct mutator_table listener = {prepare_listener, compare,
                                                  never, NULL};
    static struct mutator of_client = {&client, {1}};
    static struct mutator of_listener = {&listener, {1}};
    static const grpc_arg_pointer_vtable borrowed = {same, drop, differ};

    out->type = GRPC_ARG_POINTER;
    out->key = (char *)GRPC_ARG_SOCKET_MUTATOR;
    out->value.pointer.p = server ? &of_listener : &of_client;
    out->value.pointer.vtable = &borrowed;
}

void rpc_pacing_binds_here(bool here)
{
    binds_here = here;
}
