// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "client/cli.h"
#include "client/command.h"
#include "common/net/tls.h"
#include "tests/harness/t.h"

static int run(const char *const *words)
{
    char *argv[12] = {NULL};
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
        char uri[64];

        snprintf(cert, sizeof(cert), "%s/%s.crt", t_path("certs"), roles[i]);
        snprintf(key, sizeof(key), "%s/%s.key", t_path("certs"), roles[i]);
        snprintf(uri, sizeof(uri), "URI:spiffe://sluice/%s", roles[i]);
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

TEST(cert, hosts_are_checked)
{
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "a b"), 2);
    T_EQ(RUN("cert", "init", t_path("c"), "--host", "a\nCA:TRUE"), 2);
    T_EQ(RUN("cert", "init", t_path("c")), 2);
}
