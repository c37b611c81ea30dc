// SPDX-License-Identifier: Apache-2.0
// common/net/tls.h -- certificates of one private authority, which each side of
// a connection shows.
//
// Both sides show a certificate and both check the other's: there is no
// one-sided form. `sluice cert init` makes the files.
//
// Threads  any.
//          Those that take files read them, under a lock: they may wait.
// Memory   struct rpc_tls borrows its strings; a function that takes one reads
//          the files at once and keeps no pointer.
// Errors   tls_load checks what the transport would only log: that the files
//          are there and are PEM, that the key is the certificate's and the
//          revocation list of an authority in ca_file, that they are valid
//          today, and that the key is not readable for every user (its group
//          may read it). Not that an authority in ca_file has signed the
//          certificate: the peer refuses it. If the files are replaced by
//          bad ones, the log has a warning and the old texts stay in use. A
//          call that fails leaves *out as it was; `err` may be NULL. Where
//          files were checked, a success may clear *err.
#ifndef COMMON_NET_TLS_H
#define COMMON_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/run/conf.h"
#include "common/base/status.h"

struct rpc_tls {
    const char *ca_file;     // PEM, the authority; may hold several
    const char *cert_file;   // PEM, our certificate, then intermediates
    const char *key_file;    // PEM, its key
    const char *crl_file;    // PEM, revoked certificates of peers; NULL: none
    const char *server_name; // client: the name to expect in the server's
                             // certificate; NULL: the host of the address
};

struct tls_pem {
    char *ca, *cert, *key; // texts; the key is wiped on release
    char *crl;             // NULL: none
    time_t ends;           // when `cert` expires, by the wall clock
    time_t crl_ends;       // when `crl` should be replaced; 0: not given
};

// Reads and checks the files of `tls`, the first three of which must be named.
// SL_EINVAL: a file is not named, or malformed, or over 1 MiB, or they do not
// belong together; SL_EDENIED: other users may read the key, or our
// certificate, or every authority of its file, is not valid today (a revocation
// list may be out of date: compare out->crl_ends with the time); else the error
// of reading, which names the file; SL_ENOMEM. *out is the caller's
// (tls_pem_release); its old content is not freed.
enum sl_err tls_load(struct tls_pem *out, const struct rpc_tls *tls,
                     struct sl_error *err);

// Wipes the key, frees the texts and sets them to NULL. All zeroes is allowed.
void tls_pem_release(struct tls_pem *pem);

// ---- settings

// Settings --tls-ca, --tls-cert and --tls-key of daemons.
extern const struct conf_key tls_keys[];

// Setting --tls-crl of daemons that serve.
extern const struct conf_key tls_crl_keys[];

// Sets tls->crl_file to --tls-crl, borrowed from `conf` (NULL: not given); call
// tls_read_conf before. SL_EINVAL if it is given without the other three.
enum sl_err tls_read_crl_conf(struct rpc_tls *tls, const struct conf *conf,
                              struct sl_error *err);

// Sets *out to --tls-ca, --tls-cert and --tls-key, borrowed from `conf`, and
// its other fields to NULL; all NULL if none is given. Opens no file. SL_EINVAL
// if only some are given.
enum sl_err tls_read_conf(struct rpc_tls *out, const struct conf *conf,
                          struct sl_error *err);

// ---- files that are replaced while the process lives
//
// A set of files is read once per process, however many servers and channels
// use it, and again when tls_look finds that a file was replaced. New texts
// that hold get a new serial, which each user compares with its own before a
// handshake. Texts that do not hold are logged once, and tried again at each
// look: files are replaced one after the other, so a fault that is seen at one
// look only is not logged.

struct tls_files;

// Opens the set of the files of `tls`, or takes a reference if the process has
// one of the same four paths, after a look whether the files were replaced;
// either needs its own tls_files_close. Fails as tls_load does, but not for a
// set that the process has.
enum sl_err tls_files_open(struct tls_files **out, const struct rpc_tls *tls,
                           struct sl_error *err);

// Takes one more reference, which needs its own tls_files_close; returns
// `files`.
struct tls_files *tls_files_ref(struct tls_files *files);

// Drops a reference; the last one wipes and frees the texts. NULL is allowed.
void tls_files_close(struct tls_files *files);

// Returns the serial of the texts in use, from 1.
unsigned tls_files_serial(const struct tls_files *files);

// Writes when the certificate in use expires (*cert), and when the revocation
// list should be replaced (*crl; 0: there is none, or it gives no date), in
// seconds since 1970.
void tls_files_ends(struct tls_files *files, time_t *cert, time_t *crl);

// Returns true if the revocation list in use (tls->crl_file) names the
// certificate of a peer, given as `n` bytes of PEM; false also if there is no
// list, or these bytes are no certificate.
bool tls_files_revoke(struct tls_files *files, const char *pem, size_t n);

// Copies the texts in use, but not the revocation list, and their serial;
// release *out. SL_ENOMEM; *serial is then as it was.
enum sl_err tls_files_copy(struct tls_files *files, struct tls_pem *out,
                           unsigned *serial, struct sl_error *err);

// Looks for replaced files of all open sets, and logs what was replaced. Reads
// files, so not on a thread that must not wait. Also warns in the log, once a
// day, of certificates that expire within TLS_SOON_DAYS and of lists out of
// date. `insist`: an operator asks, so faults and warnings are logged at once
// and again.
void tls_look(bool insist);

// Returns true if a set of files is open, so that tls_look has something to do.
bool tls_is_open(void);

// ---- the transport's words

// Words before the reason for which a client refuses a server.
#define TLS_NOT_WHOM                                                           \
    "the peer's certificate does not name the peer that was dialed: "

// Returns what a failed handshake means and what to do about it; NULL if `text`
// (OpenSSL's words in an error or a log line, or ours) is about something else.
// The result is static, or a part of `text`.
const char *tls_explain(const char *text);

#endif
