// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_address.c -- "host:port", "[::1]:port", "unix:/path".
#include "common/net/rpc_inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static enum sl_err rpc_address_malformed(const char *address,
                                         struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "'%s' is not an address; it looks like 127.0.0.1:4600, "
                   "host:4600, [::1]:4600 or unix:/run/sluice/ps.sock",
                   address);
}

static enum sl_err parse_unix(struct rpc_address *out, const char *address,
                              struct sl_error *err)
{
    const char *path = address + strlen("unix:");

    if (path[0] != '/')
        return rpc_address_malformed(address, err);
    if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return sl_fail(err, SL_EINVAL,
                       "socket path '%s' is too long: at most %zu bytes", path,
                       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    out->unix_path = true;
    out->port = 0;
    snprintf(out->host, sizeof(out->host), "%s", path);
    return SL_OK;
}

// Splits at the last colon; an IPv6 host must be in brackets, which are left
// out.
static bool split_host(struct rpc_address *out, const char *address,
                       const char **port)
{
    const char *colon = strrchr(address, ':');
    const char *host = address;
    size_t n;

    if (colon == NULL)
        return false;
    n = (size_t)(colon - address);
    if (host[0] == '[') {
        if (n < 3 || host[n - 1] != ']')
            return false;
        host++;
        n -= 2;
    } else if (memchr(host, ':', n) != NULL) {
        return false;
    }
    if (n == 0 || n >= sizeof(out->host) || strchr(address, '/') != NULL)
        return false;
    memcpy(out->host, host, n);
    out->host[n] = '\0';
    *port = colon + 1;
    return true;
}

enum sl_err rpc_address_parse(struct rpc_address *out, const char *address,
                              struct sl_error *err)
{
    struct in6_addr six;
    const char *port;
    char *end;
    unsigned long number;

    if (address == NULL)
        return rpc_address_malformed("", err);
    if (strncmp(address, "unix:", 5) == 0)
        return parse_unix(out, address, err);
    if (!split_host(out, address, &port))
        return rpc_address_malformed(address, err);
    if (address[0] == '[' && inet_pton(AF_INET6, out->host, &six) != 1)
        return rpc_address_malformed(address, err);
    number = strtoul(port, &end, 10);
    if (port[0] < '0' || port[0] > '9' || *end != '\0' || number > 65535)
        return rpc_address_malformed(address, err);
    out->unix_path = false;
    out->port = (unsigned)number;
    return SL_OK;
}

enum sl_err rpc_address_check(const char *address, struct sl_error *err)
{
    struct rpc_address a;

    return rpc_address_parse(&a, address, err);
}

bool rpc_address_is_local(const char *address)
{
    struct rpc_address a;
    struct in_addr four;
    struct in6_addr six;

    if (rpc_address_parse(&a, address, NULL) != SL_OK)
        return false;
    if (a.unix_path || strcmp(a.host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, a.host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, a.host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return false;
}

// Numbers go to core as numbers, so that no resolver is asked.
void rpc_address_target(char out[RPC_TARGET_MAX], const struct rpc_address *a)
{
    struct in_addr four;
    struct in6_addr six;

    if (a->unix_path)
        snprintf(out, RPC_TARGET_MAX, "unix:%s", a->host);
    else if (inet_pton(AF_INET, a->host, &four) == 1)
        snprintf(out, RPC_TARGET_MAX, "ipv4:%s:%u", a->host, a->port);
    else if (inet_pton(AF_INET6, a->host, &six) == 1)
        snprintf(out, RPC_TARGET_MAX, "ipv6:[%s]:%u", a->host, a->port);
    else
        snprintf(out, RPC_TARGET_MAX, "dns:///%s:%u", a->host, a->port);
}

// The parser has compared the length with sun_path.
static struct sockaddr_un unix_sockaddr(const char *path)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    memcpy(where.sun_path, path, strnlen(path, sizeof(where.sun_path) - 1));
    return where;
}

static int dial_unix(const char *path)
{
    struct sockaddr_un where = unix_sockaddr(path);
    int saved, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc;

    if (fd < 0)
        return -errno;
    rc = connect(fd, (struct sockaddr *)&where, sizeof(where));
    saved = errno;
    close(fd);
    return rc == 0 ? 0 : -saved;
}

// Core would unlink whatever socket lies at the path, alive or not.
enum sl_err rpc_address_claim(const struct rpc_address *a, struct sl_error *err)
{
    struct stat st;
    int rc;

    if (!a->unix_path || lstat(a->host, &st) != 0)
        return SL_OK;
    if (!S_ISSOCK(st.st_mode))
        return sl_fail(err, SL_EEXIST,
                       "cannot listen on unix:%s: it exists and is no socket",
                       a->host);
    rc = dial_unix(a->host);
    if (rc == 0)
        return sl_fail(err, SL_EEXIST,
                       "cannot listen on unix:%s: another process answers "
                       "there",
                       a->host);
    if (rc != -ECONNREFUSED)
        return sl_fail(err, sl_err_from_errno(-rc),
                       "cannot listen on unix:%s: %s", a->host, strerror(-rc));
    if (unlink(a->host) != 0 && errno != ENOENT)
        return sl_fail(err, sl_err_from_errno(errno),
                       "cannot remove the stale socket %s: %s", a->host,
                       strerror(errno));
    return SL_OK;
}

// The errno of binding by hand, 0 if that works.
static int try_bind(int family, const struct sockaddr *where, socklen_t size)
{
    int yes = 1, rc = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, where, size) != 0 || listen(fd, 1) != 0)
        rc = errno;
    close(fd);
    return rc;
}

static int try_bind_host(const struct rpc_address *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char port[16];
    int rc = 0;

    snprintf(port, sizeof(port), "%u", a->port);
    if (getaddrinfo(a->host, port, &hints, &list) != 0)
        return EHOSTUNREACH;
    for (struct addrinfo *i = list; i != NULL && rc == 0; i = i->ai_next)
        rc = try_bind(i->ai_family, i->ai_addr, i->ai_addrlen);
    freeaddrinfo(list);
    return rc;
}

static int try_bind_path(const struct rpc_address *a)
{
    struct sockaddr_un where = unix_sockaddr(a->host);
    int rc = try_bind(AF_UNIX, (struct sockaddr *)&where, sizeof(where));

    if (rc == 0)
        unlink(a->host);
    return rc;
}

static int try_address(const struct rpc_address *a)
{
    return a->unix_path ? try_bind_path(a) : try_bind_host(a);
}

// Fills *err for errno `rc` of try_address, in words about the address that the
// operator gave.
static enum sl_err rpc_address_explain(const struct rpc_address *a, int rc,
                                       struct sl_error *err)
{
    char target[RPC_TARGET_MAX];
    const char *name;

    rpc_address_target(target, a);
    name = strchr(target, ':') + 1;
    if (a->unix_path)
        name = target;
    if (strncmp(name, "///", 3) == 0)
        name += 3;
    if (rc == EADDRINUSE)
        return sl_fail(err, SL_EEXIST,
                       "cannot listen on %s: another process uses it; choose "
                       "another port, or find it with `ss -ltnp`",
                       name);
    if (rc == EHOSTUNREACH)
        return sl_fail(err, SL_ENOENT,
                       "cannot listen on %s: the name is not known here", name);
    if (rc == EADDRNOTAVAIL)
        return sl_fail(err, SL_EINVAL,
                       "cannot listen on %s: no interface of this machine has "
                       "that address",
                       name);
    if (rc != 0)
        return sl_fail(err, sl_err_from_errno(rc), "cannot listen on %s: %s",
                       name, strerror(rc));
    return sl_fail(err, SL_EIO, "cannot listen on %s: gRPC refused it", name);
}

enum sl_err rpc_address_diagnose(const struct rpc_address *a,
                                 struct sl_error *err)
{
    return rpc_address_explain(a, try_address(a), err);
}

enum sl_err rpc_address_vacant(const char *address, struct sl_error *err)
{
    struct rpc_address a;
    enum sl_err rc = rpc_address_parse(&a, address, err);
    int tried;

    if (rc == SL_OK)
        rc = rpc_address_claim(&a, err);
    if (rc != SL_OK)
        return rc;
    tried = try_address(&a);
    return tried == 0 ? SL_OK : rpc_address_explain(&a, tried, err);
}
