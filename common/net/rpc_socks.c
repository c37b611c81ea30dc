// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_socks.c -- how many TCP connections each host has to a
// server's ports.
//
// Core accepts whoever dials, and tells nobody. So the process's own sockets
// are looked at, and those beyond a limit are shut down, of each host the ones
// that were not there at the last look. Who flickers in between costs a
// descriptor for the time of a look (rpc_sentry.c). A port that several servers
// of a process share is the business of each.
#include "common/net/rpc_serve.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/run/log.h"

#define PORTS_MAX 16

// One connection: ordered by host, then by the peer's port.
struct sock {
    struct in6_addr host; // IPv4 as IPv6
    unsigned port;
    int fd;
    bool before; // at the last look, too
};

struct socks {
    struct sock *at;
    size_t count, capacity;
};

// What a look takes is kept for the next one: they are many.
struct rpc_socks {
    struct rpc_limits most;
    unsigned port[PORTS_MAX], ports;
    DIR *open;              // the process's descriptors; NULL: not yet
    struct socks last, now; // of the last look, in order; of this one
    struct {
        struct in6_addr host;
        uint64_t at_ms;
    } said;                 // the last line of the log
    struct log_share lines; // about all hosts
};

struct rpc_socks *rpc_socks_new(const struct rpc_limits *most)
{
    struct rpc_socks *s = gpr_zalloc(sizeof(*s));

    s->most = *most;
    return s;
}

void rpc_socks_free(struct rpc_socks *s)
{
    if (s == NULL)
        return;
    if (s->open != NULL)
        closedir(s->open);
    gpr_free(s->last.at);
    gpr_free(s->now.at);
    gpr_free(s);
}

void rpc_socks_port(struct rpc_socks *s, unsigned port)
{
    if (s->ports < PORTS_MAX)
        s->port[s->ports++] = port;
}

// ---- what is there

static bool sock_read_address(struct sock *out,
                              const struct sockaddr_storage *from)
{
    const struct sockaddr_in6 *six = (const void *)from;
    const struct sockaddr_in *four = (const void *)from;

    if (from->ss_family == AF_INET6) {
        out->host = six->sin6_addr;
        out->port = ntohs(six->sin6_port);
        return true;
    }
    if (from->ss_family != AF_INET)
        return false;
    memset(&out->host, 0, sizeof(out->host));
    out->host.s6_addr[10] = out->host.s6_addr[11] = 0xff;
    memcpy(out->host.s6_addr + 12, &four->sin_addr, sizeof(four->sin_addr));
    out->port = ntohs(four->sin_port);
    return true;
}

// Returns true if `fd` is a connection to one of our ports, and fills *out with
// its peer.
static bool read_sock(const struct rpc_socks *s, int fd, struct sock *out)
{
    struct sockaddr_storage name;
    socklen_t n = sizeof(name);
    struct sock mine;

    if (getsockname(fd, (struct sockaddr *)&name, &n) != 0 ||
        !sock_read_address(&mine, &name))
        return false;
    n = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &n) != 0 ||
        !sock_read_address(out, &name))
        return false;
    out->fd = fd;
    out->before = false;
    for (unsigned i = 0; i < s->ports; i++)
        if (s->port[i] == mine.port)
            return true;
    return false;
}

static int in_order(const void *a, const void *b)
{
    const struct sock *x = a, *y = b;
    int d = memcmp(&x->host, &y->host, sizeof(x->host));

    return d != 0 ? d : (x->port > y->port) - (x->port < y->port);
}

static void socks_add(struct socks *to, const struct sock *one)
{
    if (to->count == to->capacity) {
        to->capacity = to->capacity ? 2 * to->capacity : 64;
        to->at = gpr_realloc(to->at, to->capacity * sizeof(*to->at));
    }
    to->at[to->count++] = *one;
}

static void rpc_socks_read_all(struct rpc_socks *s)
{
    struct dirent *entry;
    struct sock one;

    s->now.count = 0;
    if (s->open == NULL)
        s->open = opendir("/proc/self/fd");
    else
        rewinddir(s->open);
    while (s->open != NULL && (entry = readdir(s->open)) != NULL) {
        if (entry->d_name[0] != '.' && read_sock(s, atoi(entry->d_name), &one))
            socks_add(&s->now, &one);
    }
}

// ---- what is too much

// Looks at a duplicate: the number may be another file's by now.
static void rpc_socks_cut(const struct rpc_socks *s, const struct sock *one)
{
    int mine = fcntl(one->fd, F_DUPFD_CLOEXEC, 0);
    struct sock now;

    if (mine < 0)
        return;
    if (read_sock(s, mine, &now) && in_order(&now, one) == 0)
        (void)shutdown(mine, SHUT_RDWR);
    close(mine);
}

static void rpc_socks_warn(struct rpc_socks *s, const struct sock *one,
                           const char *flag, unsigned most)
{
    uint64_t now = sl_real_ms();
    char host[INET6_ADDRSTRLEN] = "?";
    bool same = memcmp(&s->said.host, &one->host, sizeof(one->host)) == 0;
    unsigned left_out;

    if (s->said.at_ms != 0 && now - s->said.at_ms < RPC_LIMIT_SAY_MS && same)
        return;
    if (!log_share(&s->lines, LOG_SHARE, now, &left_out))
        return;
    s->said.at_ms = now;
    s->said.host = one->host;
    (void)inet_ntop(AF_INET6, &one->host, host, sizeof(host));
    LOG(WARN, "too many connections; closing new ones",
        "host=%s most=%u flag=%s left_out=%u", host, most, flag, left_out);
}

static bool sock_is_same_host(const struct sock *a, const struct sock *b)
{
    return memcmp(&a->host, &b->host, sizeof(a->host)) == 0;
}

// [from, to) are of one host. How many of them stay; those that go are marked
// by fd -1.
static size_t rpc_socks_trim_host(struct rpc_socks *s, struct sock *from,
                                  struct sock *to, size_t room)
{
    size_t most = s->most.peer_connections, here = 0;
    bool of_all = room < most;

    for (struct sock *one = from; one < to; one++)
        here += one->before;
    for (struct sock *one = from; one < to; one++) {
        if (one->before)
            continue;
        if (here < most && here < room) {
            here++;
            continue;
        }
        rpc_socks_warn(s, one, of_all ? "--connections" : "--peer-connections",
                       of_all ? s->most.connections : s->most.peer_connections);
        rpc_socks_cut(s, one);
        one->fd = -1;
    }
    return here;
}

static void socks_mark_before(const struct socks *last, struct socks *now)
{
    for (size_t i = 0; i < now->count; i++)
        now->at[i].before =
            last->count > 0 && bsearch(&now->at[i], last->at, last->count,
                                       sizeof(*last->at), in_order);
}

// Closes the new connections for which there is no room, host by host.
static void trim_all(struct rpc_socks *s)
{
    struct sock *end = s->now.at + s->now.count, *from, *to;
    size_t old = 0;

    for (from = s->now.at; from < end; from++)
        old += from->before;
    for (from = s->now.at; from < end; from = to) {
        size_t mine = 0, others;

        for (to = from; to < end && sock_is_same_host(from, to); to++)
            mine += to->before;
        others = old - mine; // and what this walk has let in
        others = others > s->most.connections ? s->most.connections : others;
        mine = rpc_socks_trim_host(s, from, to, s->most.connections - others);
        old = others + mine;
    }
}

void rpc_socks_look(struct rpc_socks *s)
{
    struct socks seen;
    size_t kept = 0;

    if (s->ports == 0)
        return;
    rpc_socks_read_all(s);
    // qsort takes no null pointer, which the list of a port without callers is.
    if (s->now.count > 0)
        qsort(s->now.at, s->now.count, sizeof(*s->now.at), in_order);
    socks_mark_before(&s->last, &s->now);
    trim_all(s);
    for (size_t i = 0; i < s->now.count; i++)
        if (s->now.at[i].fd >= 0)
            s->now.at[kept++] = s->now.at[i];
    seen = s->last;
    s->last = s->now;
    s->last.count = kept;
    s->now = seen;
}
