// SPDX-License-Identifier: Apache-2.0
// Certificates: who is let in, what is said of bad files, and files that are
// replaced under a server and a channel that live.
#include "tests/unit/common/rpc_kit.h"

#include <fcntl.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "tests/harness/certs.h"

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
    "leaf evil server2 IP:127.0.0.1 2\n"
    "leaf evil worker2 URI:spiffe://sluice/worker/w2 2\n"
    "leaf evil late DNS:late 60\n"
    "leaf good old DNS:old -1\n"
    "cp server.key open.key; chmod 644 open.key; echo junk > junk.pem\n";

struct secure {
    struct rpc_io *io;
    struct rpc_server *server;
    char address[40];
};

static void secure_open(struct secure *s, const char *ca, const char *name)
{
    struct rpc_tls tls = certs_of(ca, name);
    int port = 0;

    T_OK(rpc_io_new(&s->io, NULL, t_err()));
    T_OK(rpc_server_new(&s->server, s->io, &who_table, 1, NULL, t_err()));
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
static enum sl_err who_on(struct rpc_channel *channel, char name[100],
                          struct sl_error *err)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    struct rpc_body *reply;
    enum sl_err rc =
        rpc_call_sync(channel, "/t.T/Who", NULL, &options, &reply, err);

    memset(name, 0, 100);
    if (rc != SL_OK)
        return rc;
    T_LT(rpc_body_slices(reply)->bytes, 100u);
    slices_copy(name, rpc_body_slices(reply));
    rpc_body_free(reply);
    return SL_OK;
}

static enum sl_err who(struct secure *s, const struct rpc_tls *tls,
                       char name[100], struct sl_error *err)
{
    struct rpc_channel *channel;
    enum sl_err rc;

    T_OK(rpc_channel_new(&channel, s->io, s->address, tls, NULL, t_err()));
    rc = who_on(channel, name, err);
    rpc_channel_free(channel);
    return rc;
}

TEST(rpc_tls, both_sides_prove_who_they_are)
{
    struct rpc_tls worker, plain, thief;
    struct secure s;
    char name[100];

    certs_make(make_certs);
    secure_open(&s, "good", "server");
    worker = certs_of("good", "worker");
    plain = certs_of("good", "plain");
    thief = certs_of("good", "thief"); // trusts the server, is not trusted
    T_OK(who(&s, &worker, name, t_err()));
    T_STR(name, "spiffe://sluice/worker/w1");
    T_OK(who(&s, &plain, name, t_err()));
    T_STR(name, "plain");
    T_FAILS(SL_EUNAVAIL, who(&s, &thief, name, t_err()));
    T_FAILS(SL_EUNAVAIL, who(&s, NULL, name, t_err())); // no TLS at all
    worker.ca_file = thief.ca_file = t_path("evil.pem");
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, t_err()));
    secure_close(&s);
}

TEST(rpc_tls, the_server_must_have_the_name_that_was_dialled)
{
    struct rpc_tls worker;
    struct secure s;
    char name[100];

    certs_make(make_certs);
    secure_open(&s, "good", "server");
    worker = certs_of("good", "worker");
    worker.server_name = "ps.test";
    T_OK(who(&s, &worker, name, t_err()));
    worker.server_name = "other.test";
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, t_err()));
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
    struct secure s;

    certs_make(make_certs);
    secure_open(&s, "good", "server");
    tls = certs_of("good", "server");
    T_FAILS(SL_EINVAL,
            rpc_server_bind(s.server, "192.0.2.7:0", &tls, NULL, &err));
    T_HAS(err.text, "no interface of this machine");
    secure_close(&s);
}

static enum sl_err allow_unguarded(const char *path,
                                   const struct rpc_peer *peer,
                                   struct sl_error *err)
{
    (void)path;
    return peer->guarded ? sl_fail(err, SL_EAUTH, "show a certificate") : SL_OK;
}

TEST(rpc_tls, an_address_that_was_not_bound_guards_no_other)
{
    const struct rpc_server_options options = {.allow = allow_unguarded};
    struct rpc_tls tls;
    struct secure s;
    char name[100];
    int port = 0;

    certs_make(make_certs);
    tls = certs_of("good", "server");
    T_OK(rpc_io_new(&s.io, NULL, t_err()));
    T_OK(rpc_server_new(&s.server, s.io, &who_table, 1, &options, t_err()));
    T_FAILS(SL_EINVAL,
            rpc_server_bind(s.server, "192.0.2.7:0", &tls, NULL, t_err()));
    T_OK(rpc_server_bind(s.server, "127.0.0.1:0", NULL, &port, t_err()));
    rpc_server_start(s.server);
    snprintf(s.address, sizeof(s.address), "127.0.0.1:%d", port);
    T_OK(who(&s, NULL, name, t_err()));
    T_STR(name, "");
    secure_close(&s);
}

TEST(rpc_tls, bad_files_are_told_apart)
{
    struct rpc_tls good, t;
    struct tls_pem pem;

    certs_make(make_certs);
    good = certs_of("good", "server");
    T_OK(tls_load(&pem, &good, t_err()));
    tls_pem_release(&pem);
    tls_pem_release(&pem);

    t = good;
    t.key_file = t_path("worker.key");
    check_bad(&t, SL_EINVAL, "does not belong to the certificate in");
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
    t = certs_of("good", "old");
    check_bad(&t, SL_EDENIED, "expired");
}

TEST(rpc_tls, an_authority_that_expired_may_stand_beside_one_that_holds)
{
    struct rpc_tls t;
    struct tls_pem pem;

    certs_make(make_certs);
    t = certs_of("good", "server");
    t.ca_file = t_path("old.pem");
    check_bad(&t, SL_EDENIED, "old.pem expired on ");
    T_EQ(certs_shell("cat old.pem good.pem > both.pem"), 0);
    t.ca_file = t_path("both.pem");
    T_OK(tls_load(&pem, &t, t_err()));
    T_TRUE(pem.ends > time(NULL));
    tls_pem_release(&pem);
}

TEST(rpc_tls, a_failed_handshake_is_explained)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_tls worker;
    struct secure s;
    char name[100];

    certs_make(make_certs);
    secure_open(&s, "good", "server");
    worker = certs_of("good", "worker");
    worker.ca_file = t_path("evil.pem");
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, &err));
    T_HAS(err.text, s.address);
    T_HAS(err.text, "is not valid yet by this host's clock");
    worker = certs_of("good", "thief");
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, &err));
    T_HAS(err.text, "does not accept our certificate");
    worker = certs_of("good", "worker");
    worker.server_name = "other.test";
    T_FAILS(SL_EUNAVAIL, who(&s, &worker, name, &err));
    T_HAS(err.text, "--host");
    T_TRUE(tls_explain("Connection refused") == NULL);
    secure_close(&s);
}

// ---- replaced files

// What the log says meanwhile.
static int stderr_was;

static void hear(void)
{
    int fd = open(t_path("log"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

    fflush(stderr);
    stderr_was = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static unsigned heard(const char *word)
{
    struct buf b = BUF_INIT;
    unsigned times = 0;

    dup2(stderr_was, STDERR_FILENO);
    close(stderr_was);
    T_OK(fs_read_all(fs_posix(), t_path("log"), 1 << 20, &b, t_err()));
    for (const char *at = buf_text(&b); (at = strstr(at, word)) != NULL; at++)
        times++;
    buf_release(&b);
    return times;
}

// As an operator does it: new files, renamed over the old ones.
static void put(const char *from, const char *to)
{
    char command[200];

    snprintf(command, sizeof(command), "cp -p %s new && mv new %s", from, to);
    T_EQ(certs_shell(command), 0);
}

static void put_set(const char *ca, const char *name, const char *to)
{
    char from[64], into[64];

    snprintf(from, sizeof(from), "%s.pem", ca);
    snprintf(into, sizeof(into), "%s-ca.pem", to);
    put(from, into);
    snprintf(from, sizeof(from), "%s.pem", name);
    snprintf(into, sizeof(into), "%s.pem", to);
    put(from, into);
    snprintf(from, sizeof(from), "%s.key", name);
    snprintf(into, sizeof(into), "%s.key", to);
    put(from, into);
}

// The call that finds the connection broken fails; a later one dials. Between
// two attempts core waits, up to 2 s, and calls fail at once: so the clock says
// when to give up, not their number.
static void who_again(struct rpc_channel *channel, char name[100])
{
    uint64_t until = sl_now_us(sl_clock_real()) + PATIENCE_S * 1000000ull;
    enum sl_err rc = SL_EUNAVAIL;

    while (rc == SL_EUNAVAIL && sl_now_us(sl_clock_real()) < until)
        rc = who_on(channel, name, t_err());
    T_OK(rc);
}

// The old authority is gone from both sides, so whatever is still old fails.
TEST(rpc_tls, replaced_files_serve_new_connections_and_old_ones_stay)
{
    struct rpc_channel *channel;
    struct rpc_tls old, live;
    struct secure s;
    struct wire wire;
    char name[100], near[40];
    unsigned port = 0;

    certs_make(make_certs);
    put_set("good", "server", "s");
    put_set("good", "worker", "w");
    secure_open(&s, "s-ca", "s");
    T_EQ(sscanf(s.address, "127.0.0.1:%u", &port), 1);
    wire_open(&wire, port);
    snprintf(near, sizeof(near), "127.0.0.1:%u", wire.port);
    live = certs_of("w-ca", "w");
    old = certs_of("good", "worker");
    T_OK(rpc_channel_new(&channel, s.io, near, &live, NULL, t_err()));
    T_OK(who_on(channel, name, t_err()));
    T_STR(name, "spiffe://sluice/worker/w1");

    put_set("evil", "server2", "s");
    put_set("evil", "worker2", "w");
    tls_look(false);
    T_OK(who_on(channel, name, t_err())); // still the connection of before
    T_STR(name, "spiffe://sluice/worker/w1");
    T_FAILS(SL_EUNAVAIL, who(&s, &old, name, t_err()));
    T_OK(who(&s, &live, name, t_err()));
    T_STR(name, "spiffe://sluice/worker/w2");

    port = wire.port;
    wire_cut(&wire);
    wire_open_at(&wire, port, wire.to, true); // core may dial twice
    who_again(channel, name); // the same channel, a new connection
    T_STR(name, "spiffe://sluice/worker/w2");
    rpc_channel_free(channel);
    wire_cut(&wire);
    secure_close(&s);
}

// A lane that has the serial of texts which it did not get would never ask for
// them again.
TEST(rpc_tls, a_copy_without_memory_has_no_serial)
{
    struct tls_files *files;
    struct rpc_tls live;
    struct tls_pem pem;
    unsigned serial = 77;

    certs_make(make_certs);
    put_set("good", "worker", "w");
    live = certs_of("w-ca", "w");
    T_OK(tls_files_open(&files, &live, t_err()));
    for (uint64_t n = 1; n <= 3; n++) { // each of the three texts
        sl_mem_fail_at(n);
        T_EQ(tls_files_copy(files, &pem, &serial, t_err()), SL_ENOMEM);
        T_TRUE(sl_mem_failed());
        T_EQ(serial, 77);
    }
    T_OK(tls_files_copy(files, &pem, &serial, t_err()));
    T_EQ(serial, 1);
    tls_pem_release(&pem);
    tls_files_close(files);
}

TEST(rpc_tls, files_that_do_not_hold_change_nothing_and_are_said_once)
{
    struct tls_files *files, *twin;
    struct rpc_tls live;
    struct tls_pem pem;
    unsigned serial;

    certs_make(make_certs);
    put_set("good", "worker", "w");
    live = certs_of("w-ca", "w");
    T_OK(tls_files_open(&files, &live, t_err()));
    T_OK(tls_files_open(&twin, &live, t_err()));
    T_TRUE(files == twin);
    hear();
    put("server.pem", "w.pem"); // its key does not come
    for (int i = 0; i < 5; i++)
        tls_look(false);
    T_EQ(tls_files_serial(files), 1);
    T_OK(tls_files_copy(files, &pem, &serial, t_err()));
    T_EQ(serial, 1);
    tls_pem_release(&pem);
    T_EQ(heard("does not belong to the certificate in"), 1);

    hear();
    tls_look(true); // SIGHUP: somebody wants to know
    T_EQ(heard("does not belong to the certificate in"), 1);

    T_EQ(certs_shell("rm w.pem"), 0);
    hear();
    tls_look(false);
    tls_look(false);
    T_EQ(heard("cannot open"), 1);
    T_EQ(tls_files_serial(files), 1);

    hear();
    put_set("good", "server", "w");
    tls_look(false);
    T_EQ(heard("certificates replaced"), 1);
    T_EQ(tls_files_serial(files), 2);
    tls_look(false);
    T_EQ(tls_files_serial(files), 2);
    tls_files_close(twin);
    tls_files_close(files);
}

TEST(rpc_tls, a_look_between_two_renames_is_not_an_error)
{
    struct tls_files *files;
    struct rpc_tls live;

    certs_make(make_certs);
    put_set("good", "worker", "w");
    live = certs_of("w-ca", "w");
    T_OK(tls_files_open(&files, &live, t_err()));
    hear();
    put("server.pem", "w.pem");
    tls_look(false);
    T_EQ(tls_files_serial(files), 1);
    put("server.key", "w.key");
    tls_look(false);
    T_EQ(tls_files_serial(files), 2);
    T_EQ(heard("new certificates are not valid"), 0);
    tls_files_close(files);
}

TEST(rpc_tls, the_end_of_a_certificate_is_near)
{
    struct tls_files *files;
    struct rpc_tls live;
    char near[200];

    certs_make(make_certs);
    snprintf(near, sizeof(near), "certificate expires cert=%s",
             t_path("w.pem"));
    put_set("good", "worker", "w"); // two days
    live = certs_of("w-ca", "w");
    T_OK(tls_files_open(&files, &live, t_err()));
    hear();
    tls_look(false);
    tls_look(false); // at midnight it may say it twice
    T_GE(heard(near), 1);
    put_set("evil", "late", "w");
    tls_look(false);
    T_EQ(tls_files_serial(files), 2);
    hear();
    tls_look(true);
    T_EQ(heard(near), 0);
    tls_files_close(files);
}
