// SPDX-License-Identifier: Apache-2.0
// Addresses, and who may be listened on. Certificates: tls_test.c.
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

struct two {
    struct rpc_io *io;
    struct rpc_server *a, *b;
};

static void two_open(struct two *t)
{
    T_OK(rpc_io_new(&t->io, NULL, t_err()));
    T_OK(rpc_server_new(&t->a, t->io, &who_table, 1, NULL, t_err()));
    T_OK(rpc_server_new(&t->b, t->io, &who_table, 1, NULL, t_err()));
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

TEST(rpc_address, vacant_says_who_is_in_the_way_and_leaves_nothing)
{
    const char *path = t_path("s");
    struct sl_error err = SL_ERROR_INIT;
    char address[300];
    struct stat st;
    int fd;

    snprintf(address, sizeof(address), "unix:%s", path);
    T_OK(rpc_address_vacant(address, t_err()));
    T_NE(stat(path, &st), 0);
    fd = stale_socket(path);
    T_FAILS(SL_EEXIST, rpc_address_vacant(address, &err));
    close(fd);
    T_OK(rpc_address_vacant(address, t_err()));
    T_OK(rpc_address_vacant("127.0.0.1:0", t_err()));
    T_FAILS(SL_EINVAL, rpc_address_vacant("192.0.2.1:7", &err));
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
