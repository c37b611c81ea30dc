// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cert/cert_make.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/net/tls.h"
#include "tests/harness/t.h"

static int run(const char *const *words)
{
    char *argv[16] = {NULL};
    int argc = 0;

    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)words[argc];
    return cli_main(argc, argv);
}
#define RUN(...) run((const char *const[]){"sluice", __VA_ARGS__, NULL})

TEST(cert, init_makes_files_that_hold)
{
    static const char *const roles[] = {"coordinator", "psserver", "worker",
                                        "client"};
    char ca[600], cert[600], key[600];

    T_EQ(RUN("cert", "init", t_path("certs"), "--host", "ps1.lan", "--host",
             "10.0.0.5"),
         0);
    snprintf(ca, sizeof(ca), "%s/ca.crt", t_path("certs"));
    for (size_t i = 0; i < SL_COUNT(roles); i++) {
        const char *const names[] = {"openssl", "x509", "-noout", "-text",
                                     "-in",     cert,   NULL};
        struct rpc_tls tls = {
            .ca_file = ca, .cert_file = cert, .key_file = key};
        struct tls_pem pem = {0};
        struct buf text = BUF_INIT;
        struct stat st;
        const char *role = strcmp(roles[i], "client") == 0 ? "admin" : roles[i];
        char uri[64];

        snprintf(cert, sizeof(cert), "%s/%s.crt", t_path("certs"), roles[i]);
        snprintf(key, sizeof(key), "%s/%s.key", t_path("certs"), roles[i]);
        snprintf(uri, sizeof(uri), "URI:spiffe://sluice/%s/*", role);
        T_OK(tls_load(&pem, &tls, t_err()));
        tls_pem_release(&pem);
        T_EQ(stat(key, &st), 0);
        T_EQ(st.st_mode & 0777, 0600);
        T_OK(command_run(names, 30000, &text, t_err()));
        T_HAS(buf_text(&text), uri);
        T_HAS(buf_text(&text), "DNS:ps1.lan");
        T_HAS(buf_text(&text), "IP Address:10.0.0.5");
        buf_release(&text);
    }
    // An authority is not replaced.
    T_EQ(RUN("cert", "init", t_path("certs"), "--host", "a"), 6);
}

// What fails in its midst, as on a full disk, can be done again.
TEST(cert, init_that_fails_can_be_called_again)
{
    static const char *const places[] = {"ca.crt", "worker.crt"};
    char path[700];

    for (size_t i = 0; i < SL_COUNT(places); i++) {
        const char *dir = t_path(places[i]);

        snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
        T_OK(fs_mkdirs(fs_posix(), path, t_err()));
        T_NE(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
        T_EQ(rmdir(path), 0);
        T_EQ(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
        snprintf(path, sizeof(path), "%s/worker.new", dir);
        T_FALSE(fs_exists(fs_posix(), path));
    }
}

// An openssl that begins the file after -out and fails, as on a full disk.
TEST(cert, key_that_fails_half_way_is_no_authority)
{
    static const char script[] = "#!/bin/sh\n"
                                 "while [ \"$1\" != -out ]; do shift; done\n"
                                 "echo part >\"$2\"\nexit 1\n";
    char *path = sl_strdup(getenv("PATH")), key[700];

    T_OK(fs_mkdirs(fs_posix(), t_path("bin"), t_err()));
    T_OK(fs_write_durable(fs_posix(), t_path("bin/openssl"), script,
                          strlen(script), t_err()));
    T_EQ(chmod(t_path("bin/openssl"), 0700), 0);
    snprintf(key, sizeof(key), "%s", t_path("ca.key"));
    T_EQ(setenv("PATH", t_path("bin"), 1), 0);
    T_EQ(cert_authority(t_path("."), t_err()), SL_EIO);
    T_EQ(setenv("PATH", path, 1), 0);
    T_FALSE(fs_exists(fs_posix(), key));
    sl_free(path);
}

TEST(cert, hosts_are_checked)
{
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "a b"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "10.0.0.300"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "10.0.0"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "fe80::1::2"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "ps:7070"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "a\nCA:TRUE"), 2);
    T_EQ(RUN("cert", "init", t_path("c")), 2);
}

static void text_of(struct buf *out, const char *file)
{
    char path[700];
    const char *const line[] = {"openssl", "x509", "-noout", "-text",
                                "-in",     path,   NULL};

    snprintf(path, sizeof(path), "%s/%s", t_path("certs"), file);
    out->len = 0;
    T_OK(command_run(line, 30000, out, t_err()));
}

static void load(const char *file, const char *crl)
{
    char ca[600], cert[700], key[700], list[600];
    struct rpc_tls tls = {.ca_file = ca, .cert_file = cert, .key_file = key};
    struct tls_pem pem;

    snprintf(ca, sizeof(ca), "%s/ca.crt", t_path("certs"));
    snprintf(cert, sizeof(cert), "%s/%s.crt", t_path("certs"), file);
    snprintf(key, sizeof(key), "%s/%s.key", t_path("certs"), file);
    snprintf(list, sizeof(list), "%s/%s", t_path("certs"), crl ? crl : "");
    if (crl != NULL)
        tls.crl_file = list;
    T_OK(tls_load(&pem, &tls, t_err()));
    tls_pem_release(&pem);
}

TEST(cert, one_more_of_a_role_and_a_name)
{
    const char *dir = t_path("certs");
    struct buf text = BUF_INIT;

    T_EQ(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "w7", "--host",
             "10.0.0.7"),
         0);
    load("worker-w7", NULL);
    text_of(&text, "worker-w7.crt");
    T_HAS(buf_text(&text), "URI:spiffe://sluice/worker/w7,");
    T_HAS(buf_text(&text), "IP Address:10.0.0.7");
    T_TRUE(strstr(buf_text(&text), "ps1.lan") == NULL);
    T_EQ(RUN("cert", "issue", dir, "--role", "submitter", "--name", "bob",
             "--tenant", "a"),
         0);
    text_of(&text, "submitter-bob.crt");
    T_HAS(buf_text(&text), "URI:spiffe://sluice/submitter/bob/tenant/a\n");
    // It dials, and nobody dials it.
    T_TRUE(strstr(buf_text(&text), "Server Authentication") == NULL);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "w7"), 6);
    T_EQ(RUN("cert", "issue", dir, "--role", "king", "--name", "w7"), 2);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "a/b"), 2);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "a,DNS:b"), 2);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker"), 2);
    buf_release(&text);
}

TEST(cert, renewed_it_is_the_same_with_another_serial)
{
    struct buf before = BUF_INIT, after = BUF_INIT;
    const char *dir = t_path("certs");
    const char *names;

    T_EQ(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
    text_of(&before, "worker.crt");
    T_EQ(RUN("cert", "renew", dir), 0);
    text_of(&after, "worker.crt");
    load("worker", NULL);
    names = strstr(buf_text(&after), "URI:spiffe://sluice/worker/*");
    T_TRUE(names != NULL);
    T_HAS(names, "DNS:ps1.lan");
    T_TRUE(strcmp(buf_text(&before), buf_text(&after)) != 0);
    T_EQ(RUN("cert", "renew", dir, "--role", "worker"), 0);
    T_EQ(RUN("cert", "renew", dir, "--role", "worker", "--name", "w9"), 3);
    buf_release(&before);
    buf_release(&after);
}

static unsigned revoked_in(const char *crl)
{
    const char *const line[] = {"openssl", "crl", "-noout", "-text",
                                "-in",     crl,   NULL};
    struct buf text = BUF_INIT;
    unsigned n = 0;

    T_OK(command_run(line, 30000, &text, t_err()));
    for (const char *at = buf_text(&text);
         (at = strstr(at, "Serial Number:")) != NULL; at++)
        n++;
    buf_release(&text);
    return n;
}

TEST(cert, revoked_ones_are_on_the_list)
{
    const char *dir = t_path("certs");
    char crl[600];

    snprintf(crl, sizeof(crl), "%s/ca.crl", dir);
    T_EQ(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "w7"), 0);
    T_EQ(RUN("cert", "revoke", dir), 2);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker", "--name", "w8"), 3);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker", "--name", "w7"), 0);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker"), 0);
    T_EQ(revoked_in(crl), 2);
    load("psserver", "ca.crl");
    // The name is free again.
    T_EQ(RUN("cert", "issue", dir, "--role", "worker", "--name", "w7"), 0);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker", "--name", "w7"), 0);
}

// A revocation whose list could not be made is none yet: it is made when it is
// asked for again.
TEST(cert, a_revocation_that_fails_can_be_asked_for_again)
{
    const char *dir = t_path("certs");
    char crl[600], fresh[600];

    snprintf(crl, sizeof(crl), "%s/ca.crl", dir);
    snprintf(fresh, sizeof(fresh), "%s/ca.new", dir);
    T_EQ(RUN("cert", "init", dir, "--host", "ps1.lan"), 0);
    T_OK(fs_mkdirs(fs_posix(), crl, t_err()));
    T_NE(RUN("cert", "revoke", dir, "--role", "worker"), 0);
    T_FALSE(fs_exists(fs_posix(), fresh));
    T_EQ(rmdir(crl), 0);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker"), 0);
    T_EQ(revoked_in(crl), 1);
    T_EQ(RUN("cert", "revoke", dir, "--role", "worker"), 3); // it is gone
}
