// SPDX-License-Identifier: Apache-2.0
// tests/harness/certs.h -- certificates that a test makes for itself.
//
// Threads  one.
// Memory   paths are the test's (t_path).
// Errors   certs_make fails the test; without the openssl command it skips it.
#ifndef TESTS_HARNESS_CERTS_H
#define TESTS_HARNESS_CERTS_H

#include <stdio.h>
#include <stdlib.h>

#include "common/net/rpc.h"
#include "tests/harness/t.h"

// Runs a shell script in the folder of the test, and returns what system()
// returns: 0 if it succeeded.
static inline int certs_shell(const char *script)
{
    char command[4096];

    snprintf(command, sizeof(command), "cd '%s' || exit 1\n%s", t_tmpdir(),
             script);
    return system(command);
}

// Runs a shell script in the folder of the test, which leaves NAME.pem and
// NAME.key there for each certificate. Fails the test if the script fails;
// skips it without the openssl command.
static inline void certs_make(const char *script)
{
    if (system("command -v openssl >/dev/null") != 0)
        T_SKIP("no openssl command");
    T_EQ(certs_shell(script), 0);
}

// Returns TLS settings with the certificate and key of `name`, for connections
// to peers that `ca` has signed: files NAME.pem and NAME.key of certs_make,
// without their ending here. The paths live until the test ends.
static inline struct rpc_tls certs_of(const char *ca, const char *name)
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

#endif
