// SPDX-License-Identifier: Apache-2.0
// Addresses, who may be listened on, and certificates.
#include "tests/unit/common/rpc_kit.h"

#include <sys/stat.h>
#include <sys/un.h>

// ---- addresses

TEST(rpc_address, forms)
{
    static const char *const good[] = {
        "127.0.0.1:0", "host:4600",  "[::1]:4600", "a.b-c.example:65535",
        "[::]:1",      "0.0.0.0:80", "unix:/a/b",  "localhost:1"};
    static const char *const bad[] = {
        "",        "host",      "host:",      ":4600",     "host:65536",
        "host:-1", "host:80x",  "::1:4600",   "[::1]4600", "[::1]:",
        "[]:1",    "[zz]:1",    "unix:a/b",   "unix:",     "http://host:80",
        "host: 1", "[host]:12", "host/path:1"};
    struct sl_error err = SL_ERROR_INIT;
    char path[400] = "unix:/";

    for (size_t i = 0; i < SL_COUNT(good); i++)
        T_OK(rpc_address_check(good[i], t_err()));
    for (size_t i = 0; i < SL_COUNT(bad); i++)
        T_FAILS(SL_EINVAL, rpc_address_check(bad[i], &err));
    T_HAS(err.text, "'host/path:1'");
    memset(path + 6, 'x', 120);
    T_FAILS(SL_EINVAL, rpc_address_check(path, &err));
    T_HAS(err.text, "too long");
    T_FAILS(SL_EINVAL, rpc_address_check(NULL, &err));
}

TEST(rpc_address, local_is_what_nobody_outside_can_reach)
{
    static const char *const local[] = {"127.0.0.1:1", "127.5.6.7:1",
                                        "localhost:1", "[::1]:1", "unix:/x"};
    static const char *const open[] = {
        "0.0.0.0:1",   "[::]:1",  "10.0.0.1:1",          "host:1", "1.2.7.1:1",
        "128.0.0.1:1", "[::2]:1", "127.0.0.1.example:1", "garbage"};

    for (size_t i = 0; i < SL_COUNT(local); i++)
        T_TRUE(rpc_address_is_local(local[i]));
    for (size_t i = 0; i < SL_COUNT(open); i++)
        T_FALSE(rpc_address_is_local(open[i]));
}

// ---- binding

static void answer(struct rpc_call *call, void *arg)
{
    char name[100];
    struct rpc_msg msg;

    (void)arg;
    rpc_call_identity(call, name, sizeof(name));
    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, strlen(name)), name, strlen(name));
    rpc_answer(call, SL_OK, NULL, &msg);
}

static const struct rpc_method methods[] = {
    {"/t.T/Who", RPC_UNARY, 0, answer, NULL},
};
static const struct rpc_table table = {methods, 1, NULL};

struct two {
    struct rpc_io *io;
    struct rpc_server *a, *b;
};

static void two_open(struct two *t)
{
    T_OK(rpc_io_new(&t->io, NULL, t_err()));
    T_OK(rpc_server_new(&t->a, t->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_new(&t->b, t->io, &table, 1, NULL, t_err()));
}

static void two_close(struct two *t)
{
    rpc_server_free(t->a);
    rpc_server_free(t->b);
    rpc_io_free(t->io);
}

TEST(rpc_bind, a_port_in_use_is_said_so)
{
    struct sl_error err = SL_ERROR_INIT;
    char address[40];
    struct two t;
    int port = 0;

    two_open(&t);
    T_OK(rpc_server_bind(t.a, "127.0.0.1:0", NULL, &port, t_err()));
    T_GT(port, 0);
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    T_FAILS(SL_EEXIST, rpc_server_bind(t.b, address, NULL, NULL, &err));
    T_HAS(err.text, address);
    T_HAS(err.text, "another process uses it");
    two_close(&t);
}

TEST(rpc_bind, nonsense_and_missing_files)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_tls tls = {.ca_file = t_path("nothing")};
    struct two t;

    two_open(&t);
    T_FAILS(SL_EINVAL, rpc_server_bind(t.a, "nonsense", NULL, NULL, &err));
    T_FAILS(SL_ENOENT, rpc_server_bind(t.a, "10.9.8.7:1", &tls, NULL, &err));
    T_HAS(err.text, "nothing");
    two_close(&t);
}

TEST(rpc_bind, without_tls_only_local_addresses)
{
    static const char *const open[] = {"0.0.0.0:0", "[::]:0", "10.1.2.3:0",
                                       "some.host:0"};
    struct rpc_channel *channel = NULL;
    struct sl_error err = SL_ERROR_INIT;
    struct two t;

    two_open(&t);
    for (size_t i = 0; i < SL_COUNT(open); i++) {
        T_FAILS(SL_EDENIED, rpc_server_bind(t.a, open[i], NULL, NULL, &err));
        T_HAS(err.text, open[i]);
        T_HAS(err.text, "sluice cert init");
        T_FAILS(SL_EDENIED,
                rpc_channel_new(&channel, t.io, open[i], NULL, NULL, &err));
    }
    two_close(&t);
}

static int stale_socket(const char *path)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(where.sun_path, sizeof(where.sun_path), "%s", path);
    T_ASSERT(bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
    T_ASSERT(listen(fd, 8) == 0);
    return fd;
}

TEST(rpc_bind, a_socket_file_is_removed_only_if_nobody_answers)
{
    const char *path = t_path("s");
    struct sl_error err = SL_ERROR_INIT;
    char address[300];
    struct stat st;
    struct two t;
    int fd, port = 7;

    snprintf(address, sizeof(address), "unix:%s", path);
    two_open(&t);
    fd = stale_socket(path);
    T_FAILS(SL_EEXIST, rpc_server_bind(t.a, address, NULL, NULL, &err));
    T_HAS(err.text, "another process answers");
    close(fd);
    T_OK(rpc_server_bind(t.a, address, NULL, &port, t_err()));
    T_EQ(port, 0);
    T_EQ(stat(path, &st), 0);
    T_EQ(st.st_mode & 0777, 0600);
    rpc_server_start(t.a);
    T_FAILS(SL_EEXIST, rpc_server_bind(t.b, address, NULL, NULL, &err));
    two_close(&t);
    T_NE(stat(path, &st), 0); // gone with its server
}

TEST(rpc_bind, a_file_that_is_no_socket_is_left_alone)
{
    const char *path = t_path("precious");
    FILE *f = fopen(path, "w");
    char address[300];
    struct stat st;
    struct two t;

    fputs("data", f);
    fclose(f);
    snprintf(address, sizeof(address), "unix:%s", path);
    two_open(&t);
    T_FAILS(SL_EEXIST, rpc_server_bind(t.a, address, NULL, NULL, t_err()));
    T_EQ(stat(path, &st), 0);
    T_EQ(st.st_size, 4);
    two_close(&t);
}

// ---- certificates

// Two authorities; a server and a client of the first, a client of the other.
static const char make_certs[] =
    "set -e; umask 077; exec >/dev/null 2>&1\n"
    "ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256"
    " -nodes -days 2 -subj /CN=$1 -keyout $1.key -out $1.pem; }\n"
    "leaf() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    " -subj /CN=$2 -keyout $2.key -out $2.csr\n"
    " printf \"subjectAltName=$3\" > $2.ext\n"
    " openssl x509 -req -in $2.csr -CA $1.pem -CAkey $1.key -CAcreateserial"
    " -days $4 -extfile $2.ext -out $2.pem; }\n"
    "ca good; ca evil\n"
    "leaf good server IP:127.0.0.1,DNS:ps.test 2\n"
    "leaf good worker URI:spiffe://sluice/worker/w1 2\n"
    "leaf good plain DNS:nobody 2\n"
    "leaf evil thief URI:spiffe://sluice/worker/w1 2\n"
    "leaf good old DNS:old -1\n"
    "cp server.key open.key; chmod 644 open.key; echo junk > junk.pem\n";

static void certs(void)
{
    char command[2048];

    snprintf(command, sizeof(command), "cd '%s' || exit 1\n%s", t_tmpdir(),
             make_certs);
    if (system("command -v openssl >/dev/null") != 0)
        T_SKIP("no openssl command");
    T_EQ(system(command), 0);
}

static struct rpc_tls tls_of(const char *ca, const char *name)
{
    struct rpc_tls tls = {.server_name = NULL};
    char file[64];

    snprintf(file, sizeof(file), "%s.pem", ca);
    tls.ca_file = t_path(file);
    snprintf(file, sizeof(file), "%s.pem", name);
    tls.cert_file = t_path(file);
    snprintf(file, sizeof(file), "%s.key", name);
    tls.key_file = t_path(file);
    return tls;
}

struct secure {
    struct rpc_io *io;
    struct rpc_server *server;
    char address[40];
};

static void secure_open(struct secure *s)
{
    struct rpc_tls tls = tls_of("good", "server");
    int port = 0;

    T_OK(rpc_io_new(&s->io, NULL, t_err()));
    T_OK(rpc_server_new(&s->server, s->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(s->server, "0.0.0.0:0", &tls, &port, t_err()));
    rpc_server_start(s->server);
    snprintf(s->address, sizeof(s->address), "127.0.0.1:%d", port);
}

static void secure_close(struct secure *s)
{
    rpc_server_free(s->server);
    rpc_io_free(s->io);
}

// Asks the server who we are.
static enum sl_err who(struct secure *s, const struct rpc_tls *tls, char *name,
                       size_t size)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    struct rpc_channel *channel;
    struct rpc_body *reply;
    enum sl_err rc;

    memset(name, 0, size);
    T_OK(rpc_channel_new(&channel, s->io, s->address, tls, NULL, t_err()));
    rc = rpc_call_sync(channel, "/t.T/Who", NULL, &options, &reply, t_err());
    if (rc == SL_OK) {
        T_LT(rpc_body_slices(reply)->bytes, size);
        slices_copy(name, rpc_body_slices(reply));
        rpc_body_free(reply);
    }
    rpc_channel_free(channel);
    return rc;
}

TEST(rpc_tls, both_sides_prove_who_they_are)
{
    struct rpc_tls worker, plain, thief;
    struct secure s;
    char name[100];

    certs();
    secure_open(&s);
    worker = tls_of("good", "worker");
    plain = tls_of("good", "plain");
    thief = tls_of("good", "thief"); // trusts the server, is not trusted
    T_OK(who(&s, &worker, name, sizeof(name)));
    T_STR(name, "spiffe://sluice/worker/w1");
    T_OK(who(&s, &plain, name, sizeof(name)));
    T_STR(name, "plain");
    T_FAILS(SL_EUNAVAIL, who(&s, &thief, name, sizeof(name)));
    T_FAILS(SL_EUNAVAIL, who(&s, NULL, name, sizeof(name))); // no TLS at all
    worker.ca_file = thief.ca_file = t_path("evil.pem");
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, sizeof(name)));
    secure_close(&s);
}

TEST(rpc_tls, the_server_must_have_the_name_that_was_dialled)
{
    struct rpc_tls worker;
    struct secure s;
    char name[100];

    certs();
    secure_open(&s);
    worker = tls_of("good", "worker");
    worker.server_name = "ps.test";
    T_OK(who(&s, &worker, name, sizeof(name)));
    worker.server_name = "other.test";
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, sizeof(name)));
    secure_close(&s);
}

static void check_bad(const struct rpc_tls *tls, enum sl_err code,
                      const char *text)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tls_pem pem;

    T_FAILS(code, tls_load(&pem, tls, &err));
    T_HAS(err.text, text);
}

TEST(rpc_tls, an_address_that_no_interface_has)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_tls tls;
    struct two t;

    certs();
    two_open(&t);
    tls = tls_of("good", "server");
    T_FAILS(SL_EINVAL, rpc_server_bind(t.a, "192.0.2.7:0", &tls, NULL, &err));
    T_HAS(err.text, "no interface of this machine");
    two_close(&t);
}

TEST(rpc_tls, bad_files_are_told_apart)
{
    struct rpc_tls good, t;
    struct tls_pem pem;

    certs();
    good = tls_of("good", "server");
    T_OK(tls_load(&pem, &good, t_err()));
    tls_pem_release(&pem);
    tls_pem_release(&pem);

    t = good;
    t.key_file = t_path("worker.key");
    check_bad(&t, SL_EINVAL, "is not the key of");
    t = good;
    t.key_file = t_path("open.key");
    check_bad(&t, SL_EDENIED, "chmod 600");
    t = good;
    t.cert_file = t_path("junk.pem");
    check_bad(&t, SL_EINVAL, "junk.pem holds no certificate");
    t = good;
    t.ca_file = t_path("junk.pem");
    check_bad(&t, SL_EINVAL, "junk.pem holds no certificate");
    t = good;
    t.key_file = t_path("none.key");
    check_bad(&t, SL_ENOENT, "none.key");
    t = good;
    t.key_file = NULL;
    check_bad(&t, SL_EINVAL, "--tls-key");
    t = tls_of("good", "old");
    check_bad(&t, SL_EDENIED, "expired");
}
