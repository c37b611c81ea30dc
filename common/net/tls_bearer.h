// SPDX-License-Identifier: Apache-2.0
// common/net/tls_bearer.h -- a token that says, for some time, that its bearer
// speaks for a certificate: for clients that cannot show one, as browsers.
//
// Its text is "sl1.", the certificate and those between it and the authority
// (DER), when it was made and when it ends, and a signature over all that by
// the certificate's key; base64, with '.' between. So there is no secret beside
// the keys, and a revoked certificate revokes its tokens. tls_bearer_read
// checks what a handshake would: the chain to an authority of ours, the dates,
// the use, and, beyond those, the signature.
//
// Anyone with the text can use it until it ends, so it may not last.
//
// Threads  any. tls_bearer_make reads files.
// Memory   texts are borrowed until return; *out is appended to.
// Errors   tls_bearer_read: SL_EAUTH, with the reason in words for the sender;
//          SL_ENOMEM; *out is then undefined, *ends untouched.
//          tls_bearer_make: SL_EINVAL, and those of tls_load. `err` may be
//          NULL.
#ifndef COMMON_NET_TLS_BEARER_H
#define COMMON_NET_TLS_BEARER_H

#include <stdint.h>
#include <time.h>

#include "common/base/buf.h"
#include "common/net/rpc.h"

#define TLS_BEARER_MAX (12 << 10)     // bytes of a token
#define TLS_BEARER_MAX_S (24L * 3600) // longest life of a token
#define TLS_BEARER_SKEW_S 120         // allowed difference between clocks

// Appends a token to *out, valid for `seconds` (1 to TLS_BEARER_MAX_S) from
// `now`, made with the certificate and the key of `tls`. SL_EINVAL for other
// `seconds`, or if the certificate's chain is longer than tls_bearer_read
// takes; SL_ENOTSUP if the key cannot sign; SL_ENOMEM. A failure leaves *out as
// it was.
enum sl_err tls_bearer_make(struct buf *out, const struct rpc_tls *tls,
                            time_t now, long seconds, struct sl_error *err);

// Checks `token` and writes its bearer to *out, as a server does for a call
// over TLS: a revoked certificate is no error, but sets `revoked`, and the
// caller refuses it. *ends (NULL allowed) is when the token ends, in seconds
// since 1970. `files` is open; texts that tls_look replaced count from then on.
enum sl_err tls_bearer_read(struct rpc_peer *out, time_t *ends,
                            struct tls_files *files, const char *token,
                            time_t now, struct sl_error *err);

#endif
