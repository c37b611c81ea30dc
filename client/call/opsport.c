// SPDX-License-Identifier: Apache-2.0
// client/call/opsport.c -- one request of HTTP, for the sake of an error's
// words.
#include "client/call/opsport.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_BYTES 16384 // the role is among the first figures

static int opsport_connect(const char *address)
{
    const struct timeval most = {.tv_sec = 1};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const char *colon = strrchr(address, ':');
    char host[256];
    int fd = -1;

    if (colon == NULL || colon - address >= (int)sizeof(host))
        return -1;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (host[0] == '[' && colon[-1] == ']') {
        host[strlen(host) - 1] = '\0';
        memmove(host, host + 1, strlen(host));
    }
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *i = list; i != NULL && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
        if (connect(fd, i->ai_addr, i->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

// As much of the answer as comes, ended with a zero.
static void opsport_get_metrics(int fd, const char *address,
                                char answer[ANSWER_BYTES])
{
    char request[512];
    size_t n = 0;
    ssize_t got;

    answer[0] = '\0';
    snprintf(request, sizeof(request),
             "GET /metrics HTTP/1.1\r\nHost: %.300s\r\n"
             "Connection: close\r\n\r\n",
             address);
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return;
    while (n + 1 < ANSWER_BYTES &&
           (got = recv(fd, answer + n, ANSWER_BYTES - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = '\0';
}

bool opsport_role(char role[OPSPORT_ROLE], const char *address)
{
    static const char mark[] = "role=\"";
    char answer[ANSWER_BYTES];
    const char *at;
    int fd = opsport_connect(address);

    if (fd < 0)
        return false;
    opsport_get_metrics(fd, address, answer);
    close(fd);
    at = strstr(answer, "\nsluice_build_info{");
    at = at != NULL ? strstr(at, mark) : NULL;
    if (at == NULL)
        return false;
    at += strlen(mark);
    snprintf(role, OPSPORT_ROLE, "%.*s", (int)strcspn(at, "\"\n"), at);
    return true;
}
