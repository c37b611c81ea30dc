// SPDX-License-Identifier: Apache-2.0
// common/base/json.h -- jansson, with bounds.
//
// A scan without recursion checks size, depth, number of values and string
// lengths before jansson sees a byte; jansson then refuses duplicate keys, bad
// UTF-8, \u0000, integers beyond int64_t and reals beyond double. The scan does
// not judge syntax: what it lets through, jansson still has to like. Values are
// jansson's (json_t, json_decref); only parsing and printing are ours.
//
// Threads  any; a json_t: one at a time.
// Memory   texts that are passed are read only during the call.
// Errors   SL_EINVAL with "name:line:column: reason"; SL_ERANGE over a limit;
//          SL_ENOMEM. A failure leaves *out as it was.
#ifndef COMMON_BASE_JSON_H
#define COMMON_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct buf;

struct sl_json_limits {
    size_t bytes;        // 0 in any field: the default: here 16 MiB
    unsigned depth;      // 64
    size_t values;       // 10^6: 1, and 1 for each comma, '{' and '['
    size_t string_bytes; // 1 MiB, as written
};

// Parses `len` bytes of text, an object or an array, to *out, which the caller
// frees (json_decref). `name` is what the text is called in errors; `limits`
// may be NULL.
enum sl_err sl_json_parse(json_t **out, const char *name, const char *text,
                          size_t len, const struct sl_json_limits *limits,
                          struct sl_error *err);

// Appends `value` (not NULL) to `out`, compactly or (`pretty`) indented by 2,
// with keys in the order of insertion and no line break at the end. Reals have
// the fewest digits that read back as the same number. SL_ENOMEM: `out` has the
// length it had, but maybe no 0 there.
enum sl_err sl_json_write(struct buf *out, const json_t *value, bool pretty);

// Appends text as a JSON string with its quotes. Bytes that are not UTF-8
// become U+FFFD, so the result is always valid; characters that may not be
// shown (common/base/utf8.h) become escapes. SL_ENOMEM: `out` may hold a part
// of it.
enum sl_err sl_json_quote(struct buf *out, const char *text, size_t len);

// These read the member `key` of an object. SL_ENOENT if it is missing (or
// `object` is NULL or no object), SL_EINVAL if it is of another type; *out is
// then untouched, and *err names the key.

// Sets *out to a string, borrowed from `object`.
enum sl_err sl_json_str(const char **out, const json_t *object, const char *key,
                        struct sl_error *err);

// Sets *out to an integer, up to INT64_MAX; SL_EINVAL also if it is negative.
enum sl_err sl_json_u64(uint64_t *out, const json_t *object, const char *key,
                        struct sl_error *err);

// Sets *out to true or false; a number is SL_EINVAL.
enum sl_err sl_json_bool(bool *out, const json_t *object, const char *key,
                         struct sl_error *err);

#endif
