// SPDX-License-Identifier: Apache-2.0
// proto/field.h -- fields of any message, by descriptor. For this room only.
//
// A field is seen as a list: a singular one has 0 or 1 values. Singular proto3
// scalars always have 1, and strings too, unless the pointer is NULL.
//
// Threads  any.
// Memory   field_at points into the message. Names are static, of the
//          descriptor. Nothing is allocated; no pointer may be NULL.
// Errors   none: `f` must be a field of the message's own type.
#ifndef PROTO_FIELD_H
#define PROTO_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

// Returns the bytes of one value, as it lies in the struct or in the array.
size_t field_size(const ProtobufCFieldDescriptor *f);

// Returns the number of values of field `f` in `m`. An absent message or
// optional scalar, and a field of a oneof that is not the set one, have 0.
size_t field_count(const ProtobufCMessage *m,
                   const ProtobufCFieldDescriptor *f);
// Returns the address of value `i` of field `f` within `m`, which may be
// written; `i` is not checked against field_count. For strings and messages a
// pointer lies there.
void *field_at(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
               size_t i);

// Returns the value at `at`, an address of field_at, of an integer, enum or
// bool field `f`. Signed ones are sign-extended.
uint64_t field_number(const ProtobufCFieldDescriptor *f, const void *at);

// Returns true if `f` is an integer field with negative values: int32, sint64
// and so on.
bool field_is_signed(const ProtobufCFieldDescriptor *f);

// Returns the name of the first field of `m` that has a value and is not among
// `words`, each of which has a blank on both sides; NULL if there is none.
const char *field_outside(const ProtobufCMessage *m, const char *words);

#endif
