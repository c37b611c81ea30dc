// SPDX-License-Identifier: Apache-2.0
// proto/descriptor_set.h -- the schema as data.
//
// A serialized google.protobuf.FileDescriptorSet of every .proto of this
// folder, made by the build, in an order in which no file comes before one it
// imports. Server reflection answers from it.
//
// Memory   static.
#ifndef PROTO_DESCRIPTOR_SET_H
#define PROTO_DESCRIPTOR_SET_H

#include <stddef.h>

extern const unsigned char sluice_descriptor_set[];
extern const size_t sluice_descriptor_set_len;

#endif
