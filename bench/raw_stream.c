// SPDX-License-Identifier: Apache-2.0
// bench/raw_stream.c -- the floor: what a socket carries between two cores when
// nobody looks at the bytes.
//
//   push       messages up, 8 bytes back for each
//   pull       8 bytes up for each message down
//   pushpull   a message up, a message back
//
// Both ends are one process with one thread on one core each. Where messages
// go one way, each end writes what it may and then reads, blocking, which is
// fastest; both ways, it writes and reads what the socket takes and has, and
// polls when nothing moves. The near end may have `outstanding`
// messages on their way, the far one answers what it has read whole. A message
// is always read into the same memory, as parameters are.
//
// With certificates (--tls-*) it is OpenSSL's stream over that socket, with its
// own record size and 256 KiB of read ahead, one way only. Both ends show the
// same certificate and check it, as peers of ours do.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "bench/program.h"
#include "common/net/tls.h"

#define SMALL_BYTES 8

// One side of the connection. `credits` messages may be begun.
struct end {
    int fd;
    SSL *ssl; // NULL: plain
    uint8_t *out, *in;
    size_t out_bytes, in_bytes; // of a message, each way
    size_t out_at, in_at;       // of the present one
    unsigned credits;
    int flags; // of send and recv
    bool open;

    // The near end: when each message that is on its way began.
    struct meter *meter; // NULL: the far end
    double began_s[OUTSTANDING_MAX];
    unsigned outstanding, first;
};

static bool would_block(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static ssize_t ssl_moved(struct end *e, int n)
{
    if (n <= 0)
        errno = SSL_get_error(e->ssl, n) == SSL_ERROR_WANT_READ ? EAGAIN : EIO;
    return n > 0 ? n : -1;
}

static ssize_t put(struct end *e, const void *data, size_t bytes)
{
    if (e->ssl != NULL)
        return ssl_moved(e, SSL_write(e->ssl, data, (int)bytes));
    return send(e->fd, data, bytes, e->flags | MSG_NOSIGNAL);
}

static ssize_t get(struct end *e, void *data, size_t bytes)
{
    if (e->ssl != NULL)
        return ssl_moved(e, SSL_read(e->ssl, data, (int)bytes));
    return recv(e->fd, data, bytes, e->flags);
}

// True if anything moved.
static bool say(struct end *e)
{
    ssize_t n;

    if (e->credits == 0)
        return false;
    if (e->out_at == 0 && e->meter != NULL)
        e->began_s[(e->first + e->outstanding++) % OUTSTANDING_MAX] =
            program_now_s();
    n = put(e, e->out + e->out_at, e->out_bytes - e->out_at);
    if (n < 0) {
        e->open = would_block(n);
        // It has not begun after all.
        e->outstanding -= e->meter != NULL && e->out_at == 0;
        return false;
    }
    e->out_at += (size_t)n;
    if (e->out_at == e->out_bytes) {
        e->out_at = 0;
        e->credits--;
    }
    return true;
}

static void heard_whole(struct end *e)
{
    e->in_at = 0;
    e->credits++;
    if (e->meter == NULL)
        return;
    e->open = meter_add(e->meter,
                        e->out_bytes + e->in_bytes -
                            SMALL_BYTES * ((e->out_bytes == SMALL_BYTES) +
                                           (e->in_bytes == SMALL_BYTES)),
                        e->began_s[e->first], program_now_s());
    e->first = (e->first + 1) % OUTSTANDING_MAX;
    e->outstanding--;
}

static bool hear(struct end *e)
{
    ssize_t n = get(e, e->in + e->in_at, e->in_bytes - e->in_at);

    if (n <= 0) {
        e->open = would_block(n);
        return false;
    }
    e->in_at += (size_t)n;
    if (e->in_at == e->in_bytes)
        heard_whole(e);
    return true;
}

// What goes one way only needs no poll: the socket blocks.
static void run_one_way(struct end *e)
{
    while (e->open) {
        if (e->credits > 0)
            say(e);
        else
            hear(e);
    }
}

static void run_both_ways(struct end *e)
{
    struct pollfd ready = {.fd = e->fd};
    bool moved;

    e->flags = MSG_DONTWAIT;
    while (e->open) {
        moved = say(e);
        if (e->open)
            moved |= hear(e);
        if (moved || !e->open)
            continue;
        ready.events = (short)(POLLIN | (e->credits > 0 ? POLLOUT : 0));
        (void)poll(&ready, 1, -1);
    }
}

static void run(struct end *e)
{
    e->open = true;
    if (e->out_bytes == SMALL_BYTES || e->in_bytes == SMALL_BYTES)
        run_one_way(e);
    else
        run_both_ways(e);
}

// ---- the connection

static void must(int rc, const char *what)
{
    if (rc < 0)
        program_die("%s: %s", what, strerror(errno));
}

static void no_delay(int fd)
{
    int on = 1;

    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "nodelay");
}

// Sockets that are made from here on lie in that network namespace.
static void enter(const char *netns)
{
    char path[256];
    int fd;

    if (netns == NULL)
        return;
    snprintf(path, sizeof(path), "/run/netns/%s", netns);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd, path);
    must(setns(fd, CLONE_NEWNET), "setns");
    close(fd);
}

static void connect_tcp(int fds[2], const struct conf *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    int listening;

    if (inet_pton(AF_INET, conf_str(c, "at"), &at.sin_addr) != 1)
        program_die("--at %s is no IPv4 address", conf_str(c, "at"));
    enter(conf_str(c, "far-netns"));
    listening = socket(AF_INET, SOCK_STREAM, 0);
    must(listening, "socket");
    must(bind(listening, (struct sockaddr *)&at, len), "bind");
    must(listen(listening, 1), "listen");
    must(getsockname(listening, (struct sockaddr *)&at, &len), "getsockname");
    enter(conf_str(c, "near-netns"));
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    must(fds[0], "socket");
    must(connect(fds[0], (struct sockaddr *)&at, len), "connect");
    fds[1] = accept(listening, NULL, NULL);
    must(fds[1], "accept");
    close(listening);
    no_delay(fds[0]);
    no_delay(fds[1]);
}

// ---- TLS

static void must_ssl(int rc, const char *what)
{
    if (rc != 1)
        program_die("%s: %s", what,
                    ERR_reason_error_string(ERR_peek_last_error()));
}

static SSL_CTX *context(const struct rpc_tls *tls, const struct conf *c)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());

    must_ssl(ctx != NULL, "a context");
    must_ssl(SSL_CTX_load_verify_locations(ctx, tls->ca_file, NULL),
             "--tls-ca");
    must_ssl(SSL_CTX_use_certificate_chain_file(ctx, tls->cert_file),
             "--tls-cert");
    must_ssl(SSL_CTX_use_PrivateKey_file(ctx, tls->key_file, SSL_FILETYPE_PEM),
             "--tls-key");
    must_ssl(SSL_CTX_set_ciphersuites(ctx, conf_str(c, "cipher")), "--cipher");
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, 256 << 10);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
    return ctx;
}

// Shakes hands, if there are certificates. What it allocates is the process's.
static void secure(struct end *e, const struct conf *c, bool far)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_tls tls;

    program_must(tls_read_conf(&tls, c, &err), &err, "certificates");
    if (tls.ca_file == NULL)
        return;
    if (strcmp(conf_str(c, "mode"), "pushpull") == 0)
        program_die("--tls-* go with --mode push or pull");
    e->ssl = SSL_new(context(&tls, c));
    must_ssl(e->ssl != NULL && SSL_set_fd(e->ssl, e->fd), "a connection");
    must_ssl(far ? SSL_accept(e->ssl) : SSL_connect(e->ssl), "the handshake");
}

static void far_end(struct end *e, const struct conf *c)
{
    pair_far(c);
    secure(e, c, true);
    e->out = program_memory(e->out_bytes);
    e->in = program_memory(e->in_bytes);
    run(e);
    _exit(0);
}

static const struct conf_about about = {
    .program = "raw_stream",
    .usage = "raw_stream [OPTION]...",
    .text = "Moves messages over a plain socket between two pinned processes "
            "and says how fast.",
    .example = "raw_stream --mode push --over tcp --bytes 1MiB",
};

static const struct conf_key keys[] = {
    {.name = "mode",
     .kind = CONF_CHOICE,
     .value = "push",
     .choices = "push|pull|pushpull",
     .help = "Which way the messages go."},
    {.name = "over",
     .kind = CONF_CHOICE,
     .value = "tcp",
     .choices = "tcp|unix",
     .help = "Kind of socket."},
    {.name = "at",
     .kind = CONF_STRING,
     .value = "127.0.0.1",
     .help = "TCP: the far end's address."},
    {.name = "far-netns",
     .kind = CONF_STRING,
     .help = "TCP: its network namespace (of ip netns); ours if none."},
    {.name = "cipher",
     .kind = CONF_STRING,
     .value = "TLS_AES_256_GCM_SHA384",
     .help = "Of TLS 1.3, with --tls-*: the one that gRPC agrees on."},
    {.name = "near-netns", .kind = CONF_STRING, .help = "The same of ours."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {
    keys, message_keys, pair_keys, tls_keys, meter_keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    const char *mode = conf_str(c, "mode");
    size_t bytes = (size_t)conf_int(c, "bytes");
    size_t up = strcmp(mode, "pull") == 0 ? SMALL_BYTES : bytes;
    size_t down = strcmp(mode, "push") == 0 ? SMALL_BYTES : bytes;
    static struct end near, far;
    struct meter meter;
    int fds[2];
    pid_t child;

    if (strcmp(conf_str(c, "over"), "tcp") == 0)
        connect_tcp(fds, c);
    else
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
    child = fork();
    must(child, "fork");
    far = (struct end){.fd = fds[1], .out_bytes = down, .in_bytes = up};
    if (child == 0) {
        close(fds[0]);
        far_end(&far, c);
    }
    close(fds[1]);
    pair_near(c);
    near = (struct end){.fd = fds[0],
                        .out_bytes = up,
                        .in_bytes = down,
                        .credits = (unsigned)conf_int(c, "outstanding"),
                        .out = program_memory(up),
                        .in = program_memory(down),
                        .meter = &meter};
    secure(&near, c, false);
    meter_start(&meter, c);
    run(&near);
    close(near.fd); // the far end hears it
    must(waitpid(child, NULL, 0), "waitpid");
    if (program_now_s() < meter.until_s)
        program_die("the far end went away");
    meter_print(&meter, mode);
    meter_release(&meter);
    conf_free(c);
    return 0;
}
