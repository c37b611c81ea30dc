// SPDX-License-Identifier: Apache-2.0
// client/cert/cert_make.h -- files of a private authority, made by the openssl
// command.
//
// A folder holds ca.crt and ca.key, then FILE.crt and FILE.key of each
// certificate, and ca.crl with revoked.txt once one was revoked.
//
// Threads  main; all but cert_host_check wait for commands, up to 30 s for
//          each. Call with umask 077.
// Memory   paths are borrowed for the call; `err` may be NULL.
// Errors   those of command_run, with what the command says: SL_ENOENT, there
//          is no openssl; SL_EINVAL: a path that is too long; those of the file
//          system. What fails half way leaves no certificate that looks whole.
#ifndef CLIENT_CERT_CERT_MAKE_H
#define CLIENT_CERT_CERT_MAKE_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/run/conf.h"

// Makes ca.key and ca.crt, for ten years, in the folder `dir`, which exists.
// Overwrites an authority that is there: the caller checks before. A failure
// leaves no ca.key, not an older one either, unless `dir` is too long; an older
// ca.crt may stay.
enum sl_err cert_authority(const char *dir, struct sl_error *err);

// The certificate to make: dir/FILE.crt with its key.
struct cert_wish {
    const char *dir, *file;
    const char *uri;         // URI of its SAN: role, name and tenant
    const char *subject;     // its common name; cut after 64 bytes
    bool serves;             // others dial it: with localhost and the hosts
    const struct conf *conf; // gives the hosts (--host), if it `serves`
};

// Checks that `host` may stand in a certificate: an IP address or a host name,
// with or without "*." before it, of at most 253 bytes. SL_EINVAL: it is
// neither.
enum sl_err cert_host_check(const char *host, struct sl_error *err);

// Makes a key and a certificate for `wish`, for 825 days, signed by the
// folder's authority. Overwrites files of that name: the caller checks before.
// SL_EINVAL: a --host is none (cert_host_check). A failure while the key or the
// certificate is made leaves no FILE.key; an older FILE.crt stays.
enum sl_err cert_make(const struct cert_wish *wish, struct sl_error *err);

// Signs FILE.crt again, with FILE.key, for 825 days from now on: same key, same
// names, another serial. The new file takes the old one's place at once; a
// failure leaves the old one. SL_ENOENT: also, there is no FILE.crt; without
// FILE.key the command fails (SL_EIO).
enum sl_err cert_renew(const char *dir, const char *file, struct sl_error *err);

// Adds FILE.crt to the authority's list of revoked certificates (revoked.txt),
// unless it is on it, makes ca.crl anew from that, and renames the certificate
// to FILE.revoked.crt, in place of an older one; FILE.key stays. After a
// failure the list may have it already, and the call can be made again.
// SL_ENOENT: also, there is no FILE.crt; SL_EINVAL: also, a folder whose name
// the settings of openssl cannot have; SL_ECORRUPT: a certificate without a
// serial number.
enum sl_err cert_revoke(const char *dir, const char *file,
                        struct sl_error *err);

#endif
