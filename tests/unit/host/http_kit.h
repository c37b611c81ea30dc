// SPDX-License-Identifier: Apache-2.0
// tests/unit/host/http_kit.h -- a client of an HTTP server on the loop of the
// same thread: it turns the loop while it waits.
//
// Errors   what fails that should not ends the test, as does a wait for an
//          answer of a minute.
#ifndef TESTS_UNIT_HOST_HTTP_KIT_H
#define TESTS_UNIT_HOST_HTTP_KIT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/run/loop.h"
#include "tests/harness/t.h"

#define LIMIT_US 60000000
#define END "Host: localhost\r\nConnection: close\r\n\r\n"

struct talk {
    struct loop *loop;
    const char *address; // 127.0.0.1:port
};

// Connects to *at, and returns the socket, which does not block and is the
// test's to close.
static inline int dial_to(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_ASSERT(fd >= 0);
    T_ASSERT(connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0);
    T_ASSERT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

// Connects to w->address as dial_to does.
static inline int dial(const struct talk *w)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(strrchr(w->address, ':') + 1)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return dial_to(&at);
}

// Returns the time of the monotonic clock.
static inline uint64_t now_us(void)
{
    return sl_now_us(sl_clock_real());
}

// Turns the loop once, then waits until `fd` can be read, 1 ms at most.
static inline void turn(struct talk *w, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    loop_turn(w->loop);
    (void)poll(&p, 1, 1);
}

// Sends all, or until the server has ended the connection or a minute is over.
static inline void put(struct talk *w, int fd, const char *bytes, size_t n)
{
    uint64_t until = now_us() + LIMIT_US;

    while (n > 0 && now_us() < until) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            return;
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
        loop_turn(w->loop);
    }
}

// Reads until the end, or until `text` is in *in (NULL: only the end), to which
// what comes is added; returns all that is in *in, borrowed from it.
static inline const char *get_until(struct talk *w, int fd, struct buf *in,
                                    const char *text)
{
    uint64_t until = now_us() + LIMIT_US;
    char some[4096];

    while (now_us() < until) {
        ssize_t n = recv(fd, some, sizeof(some), 0);

        if (n > 0)
            T_OK(buf_append(in, some, (size_t)n));
        if (text != NULL && strstr(buf_text(in), text) != NULL)
            return buf_text(in);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return buf_text(in);
        turn(w, fd);
    }
    T_FAIL("nothing more came after: %s", buf_text(in));
    return "";
}

// Makes a connection, sends the request, closes that way, and returns all that
// is answered until the end, valid until the next exchange.
static inline const char *ask_bytes(struct talk *w, const char *bytes, size_t n)
{
    static struct buf in = BUF_INIT;
    int fd = dial(w);

    buf_reset(&in);
    put(w, fd, bytes, n);
    (void)shutdown(fd, SHUT_WR);
    get_until(w, fd, &in, NULL);
    close(fd);
    return buf_text(&in);
}

// Makes an exchange, as ask_bytes does, with a text.
static inline const char *ask(struct talk *w, const char *bytes)
{
    return ask_bytes(w, bytes, strlen(bytes));
}

#endif
