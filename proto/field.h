// SPDX-License-Identifier: Apache-2.0
// proto/field.h -- fields of any message, by descriptor. For this room only.
//
// A field is seen as a list: a singular one has 0 or 1 values. Singular proto3
// scalars and strings always have 1.
//
// Threads  any.
// Memory   field_at points into the message.
#ifndef PROTO_FIELD_H
#define PROTO_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

// Bytes of one value, as it lies in the struct or in the array.
size_t field_size(const ProtobufCFieldDescriptor *f);

size_t field_count(const ProtobufCMessage *m,
                   const ProtobufCFieldDescriptor *f);
void *field_at(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
               size_t i);

// The value of an integer, enum or bool field. Signed ones are sign-extended.
uint64_t field_number(const ProtobufCFieldDescriptor *f, const void *at);

// int32, sint64, ...: negative values exist.
bool field_is_signed(const ProtobufCFieldDescriptor *f);

// The name of the first field that has a value and is not among `words`, each
// of which has a blank on both sides; NULL if there is none.
const char *field_outside(const ProtobufCMessage *m, const char *words);

#endif
