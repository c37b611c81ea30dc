// SPDX-License-Identifier: Apache-2.0
// tests/harness/payload.h -- messages whose last field is tensor bytes,
// uncopied.
//
// The wire form is an ordinary protobuf message with one large `bytes` field
// of the highest number. A writer packs all other fields, appends that field's
// tag and length by hand and lets the tensor follow from where it lies. A
// reader takes the other fields as one small run of bytes (to be unpacked) and
// the payload as slices. Other writers may put the payload anywhere, or twice
// (the last one counts, as in every protobuf reader), and the transport cuts
// where it likes, also inside a float: all of that is read the same.
//
// Threads  any; no state.
// Memory   What payload_split hands out points into the message and into
//          *parts: both must stay, unmoved, while it is used.
// Units    bytes.
// Errors   SL_ECORRUPT for bytes that are no protobuf message, a group, or a
//          field that reaches past the end; SL_ERANGE for a head that is too
//          large.
#ifndef TESTS_HARNESS_PAYLOAD_H
#define TESTS_HARNESS_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/slices.h"
#include "common/net/rpc.h"
#include "common/base/status.h"

#define PAYLOAD_HEAD_ROOM 512   // heads up to this need no memory
#define PAYLOAD_HEAD_MAX 262144 // default limit of a head

// Packs `head`, the payload field of which must be empty, and then the tag and
// length of field `number`, for `payload_bytes` bytes to come, as the header of
// `msg`. The caller then adds the payload with rpc_msg_part. With 0 bytes there
// is no such field. Returns SL_OK or SL_ENOMEM.
enum sl_err payload_head(struct rpc_msg *msg, const ProtobufCMessage *head,
                         uint32_t number, size_t payload_bytes,
                         struct sl_error *err);

struct payload_parts {
    const uint8_t *head; // all fields but the payload
    size_t head_bytes;
    struct sl_slices payload; // a view of the message; empty without the field

    // ours
    uint8_t *owned_head;
    uint8_t head_room[PAYLOAD_HEAD_ROOM];
};

// Finds field `number` of the message, and sets *out to it and to the other
// fields. A head over `head_max` bytes (0: PAYLOAD_HEAD_MAX) is SL_ERANGE. On
// SL_OK the caller calls payload_release; on failure there is nothing to
// release.
enum sl_err payload_split(struct payload_parts *out,
                          const struct sl_slices *message, uint32_t number,
                          size_t head_max, struct sl_error *err);
// Frees what payload_split has allocated.
void payload_release(struct payload_parts *parts);

#endif
