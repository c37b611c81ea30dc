// SPDX-License-Identifier: Apache-2.0
// The connections of a port that are too many, and what is logged of them.
#include "common/net/rpc_serve.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/t.h"

struct port {
    int listener;
    struct sockaddr_in at;
};

struct pair {
    int client, server;
};

static void port_open(struct port *p)
{
    socklen_t size = sizeof(p->at);

    p->at = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_ASSERT(bind(p->listener, (struct sockaddr *)&p->at, size) == 0);
    T_ASSERT(listen(p->listener, 8) == 0);
    T_ASSERT(getsockname(p->listener, (struct sockaddr *)&p->at, &size) == 0);
}

// Connects to the port from 127.0.0.`host`.
static void pair_open(struct pair *c, const struct port *p, uint32_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7f000000 + host)};

    c->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_ASSERT(bind(c->client, (struct sockaddr *)&from, sizeof(from)) == 0);
    T_ASSERT(connect(c->client, (const struct sockaddr *)&p->at,
                     sizeof(p->at)) == 0);
    c->server = accept(p->listener, NULL, NULL);
    T_ASSERT(c->server >= 0);
}

static void pair_close(struct pair *c)
{
    close(c->client);
    close(c->server);
}

// Returns true if the server's end is shut down within `wait_ms`.
static bool pair_is_cut(const struct pair *c, int wait_ms)
{
    struct pollfd p = {c->client, POLLIN, 0};
    char byte;

    return poll(&p, 1, wait_ms) == 1 && recv(c->client, &byte, 1, 0) == 0;
}

static void count_line(void *arg, enum log_level level, const char *line,
                       size_t len)
{
    static const char words[] = "too many connections";

    (void)level;
    *(unsigned *)arg += memmem(line, len, words, sizeof(words) - 1) != NULL;
}

TEST(rpc_socks, hosts_over_the_limit_in_turn_have_so_many_lines)
{
    const struct rpc_limits most = {.peer_connections = 1, .connections = 100};
    struct rpc_socks *socks = rpc_socks_new(&most);
    struct pair first[2], more;
    unsigned lines = 0;
    struct port port;

    port_open(&port);
    rpc_socks_port(socks, ntohs(port.at.sin_port));
    log_set_sink(count_line, &lines);
    for (uint32_t i = 0; i < 2; i++)
        pair_open(&first[i], &port, 1 + i);
    rpc_socks_look(socks);
    T_EQ(lines, 0);
    for (uint32_t i = 0; i < 3 * LOG_SHARE; i++) {
        pair_open(&more, &port, 1 + i % 2);
        rpc_socks_look(socks);
        T_TRUE(pair_is_cut(&more, 60000));
        pair_close(&more);
    }
    T_EQ(lines, LOG_SHARE);
    for (int i = 0; i < 2; i++) {
        T_FALSE(pair_is_cut(&first[i], 0));
        pair_close(&first[i]);
    }
    log_set_sink(NULL, NULL);
    close(port.listener);
    rpc_socks_free(socks);
}
