// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_break.c -- the end of connections whose peer reads nothing.
//
// Core ends a cancelled call only behind the write that is under way, and a
// write to a peer that has stopped reading stays under way: over TCP until its
// user timeout, over a unix socket for ever. A socket that is shut down fails
// the write, and all that waits for it ends.
#include "common/net/rpc_inner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

union where {
    struct sockaddr any;
    struct sockaddr_un path;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

// As IPv6, as which core dials IPv4 too. False: it is a name.
static bool rpc_break_parse_ip(const struct rpc_address *a,
                               struct in6_addr *out)
{
    struct in_addr four;

    if (inet_pton(AF_INET6, a->host, out) == 1)
        return true;
    if (inet_pton(AF_INET, a->host, &four) != 1)
        return false;
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(out->s6_addr + 12, &four, sizeof(four));
    return true;
}

static bool is_at(const union where *peer, const struct rpc_address *a)
{
    struct in6_addr number, mapped = {0};

    if (a->unix_path)
        return peer->any.sa_family == AF_UNIX &&
               strncmp(peer->path.sun_path, a->host,
                       sizeof(peer->path.sun_path)) == 0;
    if (!rpc_break_parse_ip(a, &number))
        return false;
    if (peer->any.sa_family == AF_INET6)
        return ntohs(peer->six.sin6_port) == a->port &&
               memcmp(&peer->six.sin6_addr, &number, sizeof(number)) == 0;
    if (peer->any.sa_family != AF_INET)
        return false;
    mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
    memcpy(mapped.s6_addr + 12, &peer->four.sin_addr,
           sizeof(peer->four.sin_addr));
    return ntohs(peer->four.sin_port) == a->port &&
           memcmp(&mapped, &number, sizeof(number)) == 0;
}

static bool is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

// Looks at a duplicate: the number may be another file's at any time.
static void break_one(int fd, const struct rpc_address *a)
{
    union where peer;
    socklen_t n = sizeof(peer);
    int mine;

    memset(&peer, 0, sizeof(peer));
    if (!is_socket(fd))
        return;
    mine = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (mine < 0)
        return;
    if (getpeername(mine, &peer.any, &n) == 0 && is_at(&peer, a))
        (void)shutdown(mine, SHUT_RDWR);
    close(mine);
}

// Core ends a cancelled call only behind the write that is under way, and a
// write to a stopped process stays under way: the channel could not be freed.
void rpc_break(const char *address)
{
    struct rpc_address a;
    struct dirent *entry;
    DIR *all;

    if (rpc_address_parse(&a, address, NULL) != SL_OK)
        return;
    all = opendir("/proc/self/fd");
    while (all != NULL && (entry = readdir(all)) != NULL) {
        if (entry->d_name[0] != '.')
            break_one(atoi(entry->d_name), &a);
    }
    if (all != NULL)
        closedir(all);
}
