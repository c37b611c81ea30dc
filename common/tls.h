// SPDX-License-Identifier: Apache-2.0
// common/tls.h -- who may talk: certificates of one private authority.
//
// Both sides show a certificate and both check the other's: there is no
// one-sided form. `sluice cert init` makes the files.
//
// Threads  any.
// Memory   struct rpc_tls borrows its strings; whoever takes one reads the
//          files at once and keeps no pointer.
// Errors   tls_load checks what the transport would only log: that the files
//          are there, are PEM, belong together, are valid today, and that the
//          key is not readable for everybody.
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

#include <stddef.h>

#include "common/status.h"

struct rpc_tls {
    const char *ca_file;     // PEM, the authority; may hold several
    const char *cert_file;   // PEM, our certificate, then intermediates
    const char *key_file;    // PEM, its key
    const char *server_name; // client: the name to expect in the server's
                             // certificate; NULL: the host of the address
};

struct tls_pem {
    char *ca, *cert, *key; // texts; the key is wiped on release
};

enum sl_err tls_load(struct tls_pem *out, const struct rpc_tls *tls,
                     struct sl_error *err);

// Wipes and frees. All zeroes is allowed.
void tls_pem_release(struct tls_pem *pem);

#endif
