// SPDX-License-Identifier: Apache-2.0
// host/store/sigv4.h -- AWS Signature Version 4 of a request.
//
// Our own, over common/base/hash.h: libcurl's, up to 8.10, signs some paths,
// queries and bodies otherwise than S3 reads them. A request is signed as it
// is sent, so its URL must be made with sigv4_query and sigv4_encode too.
//
// Threads  any.
// Memory   strings are borrowed for the call; they are not NULL.
// Errors   SL_ENOMEM, and those of hash.h; `out` may hold a part then.
#ifndef HOST_STORE_SIGV4_H
#define HOST_STORE_SIGV4_H

#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/hash.h"

#define SIGV4_PAIRS 16
#define SIGV4_DATE 17 // "20260701T123456Z" and a 0

struct sigv4_pair {
    const char *name, *value;
};

struct sigv4 {
    const char *method;
    const char *path; // encoded path as sent, from the first '/'
    // Query in any order, not encoded; a pair without a name ends it.
    const struct sigv4_pair *query;
    // Headers in any order, `host` among them; names in lower case, each once.
    // All are signed. At most SIGV4_PAIRS - 1; a pair without a name ends it.
    const struct sigv4_pair *header;
    const char *payload;          // SHA-256 of the body in hex
    const char *region, *service; // "us-east-1", "s3"
    const char *key_id, *secret;
    char date[SIGV4_DATE]; // value of the header x-amz-date
};

// Writes the wall clock `wall_us`, in microseconds since 1970, to `out` as
// "20260701T123456Z".
void sigv4_date(char out[SIGV4_DATE], uint64_t wall_us);

// Appends `text` with all bytes but A-Z a-z 0-9 - . _ ~ as %XX; with `slashes`
// '/' stays too.
enum sl_err sigv4_encode(struct buf *out, const char *text, bool slashes);

// Appends the query, sorted and encoded: "a=1&b=2"; nothing for NULL. More than
// SIGV4_PAIRS pairs are SL_EINTERNAL.
enum sl_err sigv4_query(struct buf *out, const struct sigv4_pair *query);

// Appends the value of the header Authorization for the request *s to `out`.
// SL_EINTERNAL as for sigv4_query.
enum sl_err sigv4_sign(struct buf *out, const struct sigv4 *s);

// Writes the SHA-256 of `n` bytes to `out`, in hex; undefined after a failure.
enum sl_err sigv4_hash(char out[SHA256_HEX], const void *bytes, size_t n);

#endif
