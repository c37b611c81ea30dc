// SPDX-License-Identifier: Apache-2.0
// client/cert_make.h -- files of a private authority, made by the openssl
// command.
//
// A folder holds ca.crt and ca.key, then FILE.crt and FILE.key of each
// certificate, and ca.crl with revoked.txt once one was revoked.
//
// Threads  main; each function waits for commands. Call with umask 077.
// Memory   paths are borrowed.
// Errors   SL_EEXIST, SL_ENOENT name the file; what the command says is in the
//          text. What fails half way leaves no file that looks whole.
#ifndef CLIENT_CERT_MAKE_H
#define CLIENT_CERT_MAKE_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/run/conf.h"

// A new authority in a folder that has none.
enum sl_err cert_authority(const char *dir, struct sl_error *err);

struct cert_wish {
    const char *dir, *file;
    const char *uri;         // of its SAN
    const char *subject;     // its common name
    bool serves;             // others dial it: with localhost and the hosts
    const struct conf *conf; // --host
};

enum sl_err cert_host_check(const char *host, struct sl_error *err);

enum sl_err cert_make(const struct cert_wish *wish, struct sl_error *err);

// Signs FILE.crt again, from now on: same key, same names, another serial. The
// new file takes the old one's place at once.
enum sl_err cert_renew(const char *dir, const char *file, struct sl_error *err);

// Puts FILE.crt on the list, makes ca.crl anew, and renames the certificate to
// FILE.revoked.crt.
enum sl_err cert_revoke(const char *dir, const char *file,
                        struct sl_error *err);

#endif
