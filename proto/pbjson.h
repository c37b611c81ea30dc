// SPDX-License-Identifier: Apache-2.0
// proto/pbjson.h -- any message as JSON and back, from its descriptor.
//
// Written: field names as in the .proto, in the order of their numbers.
// Integers as integers (from 2^63 on as strings), fixed64 as "0x" and 16
// digits, bytes as base64, enum values as the lower-case rest of their name
// (JOB_RUNNING is "running"; a number that is not in the enum as it is). Of
// proto3 every scalar and list is there, also a 0 and an empty one; of proto2
// only what is set. Absent messages are absent. A number alone in a oneof,
// which may not be known, is null where it is not set. Doubles that are not
// finite are "NaN", "Infinity",
// "-Infinity".
// Read: the same, and also: keys in camelCase ("apiVersion"), one value where a
// list is expected (kernel_size: 3), integers of 64 bits as decimal strings,
// integers as 3.0, enum values as their number or whole name, null for a field
// that is not given, and in a list of messages whose first field is `name` that
// name alone. What does not fit is refused with its path: "a.yaml:
// model.layers[2]: unknown key 'fiters'; did you mean 'filters'?". So are a key
// that is given twice, two fields of a oneof, and a 0 byte in a text.
//
// Threads  any.
// Memory   Messages read are the caller's: wire_free. json_t as in jansson; a
//          `value` is borrowed for the call, and the message copies of it.
// Errors   SL_EINVAL with where and why; SL_ENOMEM; *out untouched. `err` may
//          be NULL.
#ifndef PROTO_PBJSON_H
#define PROTO_PBJSON_H

#include <stdbool.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"
#include "common/base/status.h"

// What clients write and the dashboard's API answers begins with it, as
// "schema_version".
#define PBJSON_SCHEMA_VERSION 1

// Makes a JSON object of copies of what `msg` holds; *out is a new reference
// (json_decref). SL_ENOMEM only; bytes of a text that are not UTF-8 are
// replaced.
enum sl_err pbjson_write(json_t **out, const ProtobufCMessage *msg);

// Returns a JSON string of `text`, a new reference (json_decref); bytes that
// are not UTF-8 are replaced, each by U+FFFD. NULL: no memory.
json_t *pbjson_string(const char *text);

// Makes a message of the descriptor's type from `value`. `where` comes first in
// errors: the file; NULL is allowed. A `value` that is no object, or NULL, is
// SL_EINVAL. Rules beyond the type of each field are not checked.
enum sl_err pbjson_read(ProtobufCMessage **out,
                        const ProtobufCMessageDescriptor *descriptor,
                        const json_t *value, const char *where,
                        struct sl_error *err);

// Makes a message as pbjson_read does, as valid as if it had come from the wire
// (wire_check, with its errors). A value of NULL is SL_ECORRUPT: `where`, here
// a key and never NULL, is missing.
enum sl_err pbjson_read_checked(ProtobufCMessage **out,
                                const ProtobufCMessageDescriptor *descriptor,
                                const json_t *value, const char *where,
                                struct sl_error *err);

#define PBJSON_ENUM_TEXT 64
// Writes "running" for JOB_RUNNING, "?" for a number that is not in the enum,
// and returns `out`. A longer word is cut.
const char *pbjson_enum(char out[PBJSON_ENUM_TEXT],
                        const ProtobufCEnumDescriptor *descriptor, int value);

#endif
