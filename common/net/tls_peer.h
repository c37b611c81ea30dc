// SPDX-License-Identifier: Apache-2.0
// common/net/tls_peer.h -- what a peer's certificate says, and whether its
// authority took it back.
//
// The transport has checked the chain and the dates before; this file reads the
// names and the revocation. A revocation list (CRL, PEM; one file may hold
// several) is signed by the authority of the certificates that it revokes. A
// text of lists is read up to the first that is malformed, which tls_check_crl
// refuses.
//
// Threads  any.
// Memory   all by value; texts are borrowed until return, and not NULL but
//          where it is said.
// Errors   only tls_check_crl has any. Without memory a certificate or list
//          counts as malformed.
#ifndef COMMON_NET_TLS_PEER_H
#define COMMON_NET_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/base/status.h"

struct asn1_string_st; // OpenSSL's ASN1_TIME

#define TLS_PEER_ID 320

#define TLS_DAY_S 86400
#define TLS_SOON_DAYS 14 // from when on a certificate's end is told

struct tls_peer {
    char id[TLS_PEER_ID]; // the first URI of its SAN, else its common name;
                          // "" if a certificate lacks both names, or if the
                          // name is too long or has a 0 in it
    unsigned uris;        // number of URIs in its SAN
    time_t ends;          // time of its expiry; 0: it is no certificate
};

// Reads the first certificate of a PEM text of `n` bytes. *out is all zeroes if
// it holds none.
void tls_peer_read(struct tls_peer *out, const char *pem, size_t n);

// Returns the time of `t` in seconds since 1970; 0 if it is NULL or malformed.
time_t tls_time_seconds(const struct asn1_string_st *t);

// Returns true if a list in `crl` (NULL: there is none) names the certificate,
// the first of `n` bytes of PEM. Does not check who signed the list.
bool tls_peer_revoked(const char *crl, const char *pem, size_t n);

// Checks that each list of the text `crl` is signed by an authority in `ca`;
// `file` is for the error. SL_EINVAL: one is signed by none or is malformed, or
// the text (NULL too) has no list; no other error. *ends: when the earliest of
// the lists that were looked at is to be replaced, in seconds since 1970 (0:
// none says); it is set on failure too, and in the past it is no error. A
// success clears *err (NULL allowed).
enum sl_err tls_check_crl(const char *crl, const char *ca, const char *file,
                          time_t *ends, struct sl_error *err);

#endif
