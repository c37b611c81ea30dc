// SPDX-License-Identifier: Apache-2.0
// host/http/http_bind.c -- where a server listens, and by which names.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/http/http_inner.h"

#define HOST_BYTES 256
#define BACKLOG 64

static enum sl_err http_bind_malformed(const char *bind, struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "'%.200s' is not an address to listen on; it looks like "
                   "127.0.0.1:9100, [::1]:9100 or 0.0.0.0:9100",
                   bind);
}

// Splits at the last colon; brackets around the host are left out, and the port
// is "" if there is none.
static bool http_split_host(const char *text, char host[HOST_BYTES],
                            const char **port)
{
    size_t n = strlen(text);

    *port = "";
    if (text[0] == '[') {
        const char *end = strchr(text, ']');

        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return false;
        *port = end[1] == ':' ? end + 2 : "";
        n = (size_t)(end - ++text);
    } else if (strchr(text, ':') != NULL) {
        n = (size_t)(strchr(text, ':') - text);
        *port = text + n + 1;
    }
    if (n == 0 || n >= HOST_BYTES)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    return true;
}

static bool all_digits(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

bool http_near(const struct sockaddr *at)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)at)->sin6_addr;

    if (at->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)at;

        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(six) ||
           (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static enum sl_err http_bind_resolve(const char *bind, struct addrinfo **out,
                                     struct sl_error *err)
{
    struct addrinfo how = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char host[HOST_BYTES];
    const char *port, *name = host;

    if (!http_split_host(bind, host, &port) || *port == '\0' ||
        strlen(port) > 5 || !all_digits(port) || atoi(port) > 65535)
        return http_bind_malformed(bind, err);
    if (strcmp(host, "localhost") == 0)
        name = "127.0.0.1";
    if (getaddrinfo(name, port, &how, out) != 0)
        return http_bind_malformed(bind, err);
    return SL_OK;
}

static int open_socket(const struct addrinfo *at)
{
    int one = 1, off = 0;
    int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    // A daemon can then start again at once; two listening sockets on one port
    // still exclude each other.
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (at->ai_family == AF_INET6) // [::] takes IPv4 too, whatever the sysctl
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    one = errno;
    close(fd);
    errno = one;
    return -1;
}

static bool is_any_v4(const struct addrinfo *at)
{
    return at->ai_family == AF_INET &&
           ((const struct sockaddr_in *)at->ai_addr)->sin_addr.s_addr ==
               htonl(INADDR_ANY);
}

// Listens on 0.0.0.0 as gRPC does: for IPv6 as well, where the host has it. In
// a cluster with IPv6 alone, probes would reach nothing else.
static int open_any(const struct addrinfo *at)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6,
        .sin6_addr = IN6ADDR_ANY_INIT,
        .sin6_port = ((const struct sockaddr_in *)at->ai_addr)->sin_port};
    struct addrinfo both = {.ai_family = AF_INET6,
                            .ai_addr = (struct sockaddr *)&six,
                            .ai_addrlen = sizeof(six)};
    int fd = open_socket(&both);

    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
        fd = open_socket(at);
    return fd;
}

static void http_set_address(struct http *h, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof(at);
    char host[64] = "?", service[8] = "0";

    if (getsockname(fd, (struct sockaddr *)&at, &n) == 0)
        (void)getnameinfo((struct sockaddr *)&at, n, host, sizeof(host),
                          service, sizeof(service),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(h->address, sizeof(h->address),
             strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, service);
}

enum sl_err http_listen(int *out, const char *bind, struct http *h,
                        struct sl_error *err)
{
    struct addrinfo *at;
    int fd, why;
    enum sl_err rc = http_bind_resolve(bind, &at, err);

    if (rc != SL_OK)
        return rc;
    fd = is_any_v4(at) ? open_any(at) : open_socket(at);
    why = errno;
    h->near = http_near(at->ai_addr);
    freeaddrinfo(at);
    if (fd < 0)
        return sl_fail(err,
                       why == EADDRINUSE ? SL_EBUSY : sl_err_from_errno(why),
                       "cannot listen on %s for HTTP: %s", bind, strerror(why));
    http_set_address(h, fd);
    *out = fd;
    return SL_OK;
}

static bool is_address(const char *host)
{
    struct in6_addr six;
    struct in_addr four;

    return inet_pton(AF_INET, host, &four) == 1 ||
           inet_pton(AF_INET6, host, &six) == 1;
}

bool http_host_ok(const struct http *h, const char *text)
{
    char host[HOST_BYTES];
    const char *port;

    if (text == NULL || !http_split_host(text, host, &port) ||
        !all_digits(port))
        return false;
    if (is_address(host) || strcasecmp(host, "localhost") == 0)
        return true;
    for (char **name = h->hosts; name != NULL && *name != NULL; name++) {
        if (strcasecmp(host, *name) == 0)
            return true;
    }
    return false;
}
