// SPDX-License-Identifier: Apache-2.0
// client/cli/yaml.h -- a spec file's YAML as JSON values, and back.
//
// The part of YAML that means the same to all parsers: block and flow mappings,
// sequences and scalars of one document. Scalars have the types of JSON: a
// plain `no` is a string, `1e-3` a number, `null` null. Anchors, aliases, tags,
// merge keys, duplicate keys and further documents are refused. Integers from
// 2^63 to 2^64 - 1 become decimal strings, which pbjson reads as numbers.
//
// Threads  any.
// Memory   both results are the caller's (json_decref); texts are read only
//          during the call.
// Errors   SL_EINVAL with "name:line: reason"; SL_ERANGE over a limit: 1 MiB,
//          32 levels, 100,000 events; SL_ENOMEM. The results are then as they
//          were; `err` may be NULL.
#ifndef CLIENT_CLI_YAML_H
#define CLIENT_CLI_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"

#define YAML_BYTES_MAX ((size_t)1 << 20)
#define YAML_DEPTH_MAX 32
#define YAML_EVENTS_MAX 100000

// Reads text[len], called `name` in errors, as any value, also a lone scalar.
// *lines (lines may be NULL) is an object from a value's path,
// "model.layers[2].units", to the line that it begins on. The outermost value
// has no path.
enum sl_err yaml_read(json_t **out, json_t **lines, const char *name,
                      const char *text, size_t len, struct sl_error *err);

// Appends an object as YAML that yaml_read, within its limits, reads as the
// same; short values stand on one line. Neither the object (for which nothing
// is appended) nor a key in it is empty. SL_ENOMEM: `out` may hold a part.
enum sl_err yaml_write(struct buf *out, const json_t *object);

#endif
