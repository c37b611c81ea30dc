// SPDX-License-Identifier: Apache-2.0
// proto/wire_ps.h -- the data plane's messages as tables: wire_ps*.c only.
//
// One table per message serves reader and writer, so they cannot disagree. A
// test compares the tables with the descriptors.
//
// Threads  any.
// Memory   constants.
#ifndef PROTO_WIRE_PS_H
#define PROTO_WIRE_PS_H

#include "proto/wire.h"

enum wire_kind {
    WIRE_U64,
    WIRE_U32,
    WIRE_BOOL,
    WIRE_FIXED64,
    WIRE_ENUM,    // `max` is the highest known
    WIRE_MESSAGE, // `of`
    WIRE_BYTES,   // a size_t and then space for `max` bytes
    WIRE_PAYLOAD, // struct sl_slices
};

struct wire_field {
    uint8_t number;
    uint8_t kind; // enum wire_kind
    uint16_t at;  // offset in the struct
    uint32_t max;
    const char *name;
    const struct wire_table *of;
};

struct wire_table {
    const char *name; // name of the message, for errors
    const struct wire_field *fields;
    unsigned count;
    const ProtobufCMessageDescriptor *descriptor; // the test compares with it
};

extern const struct wire_table wire_table_ask, wire_table_ask_reply,
    wire_table_push, wire_table_push_reply, wire_table_pull,
    wire_table_pull_reply, wire_table_piece, wire_table_state_reply,
    wire_table_follow, wire_table_follow_reply;

#define WIRE_PAYLOAD_NUMBER 15
#define WIRE_REST_MAX ((size_t)64 << 10) // a message without its payload

#endif
