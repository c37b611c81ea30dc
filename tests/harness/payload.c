// SPDX-License-Identifier: Apache-2.0
// tests/harness/payload.c -- a reader and writer of messages with a payload
// that shares nothing with the product's; see payload.h.
//
// A message is a row of fields. payload_split walks over them once, without
// looking inside, and keeps two things: where the last payload lies, and a
// run of bytes with everything else, gathered: it is small, and unpacking needs
// it in one piece.
#include "tests/harness/payload.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

#define VARINT_MAX 10 // bytes of the longest one

static size_t varint_put(uint8_t *out, uint64_t value)
{
    size_t n = 0;

    while (value >= 0x80) {
        out[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (uint8_t)value;
    return n;
}

enum sl_err payload_head(struct rpc_msg *msg, const ProtobufCMessage *head,
                         uint32_t number, size_t payload_bytes,
                         struct sl_error *err)
{
    size_t packed = protobuf_c_message_get_packed_size(head);
    uint8_t tail[2 * VARINT_MAX];
    size_t tail_bytes = 0;
    uint8_t *out;

    if (payload_bytes > 0) {
        tail_bytes = varint_put(tail, (uint64_t)number << 3 | WIRE_BYTES);
        tail_bytes += varint_put(tail + tail_bytes, payload_bytes);
    }
    out = rpc_msg_head(msg, packed + tail_bytes);
    if (out == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a header of %zu bytes",
                       packed + tail_bytes);
    protobuf_c_message_pack(head, out);
    memcpy(out + packed, tail, tail_bytes);
    return SL_OK;
}

// Where a split stands
struct splitter {
    struct slices_cursor in;
    size_t total;
    size_t head_max;
    uint8_t *head; // head_room, or owned
    size_t head_cap;
    struct payload_parts *parts;
    size_t payload_at, payload_bytes; // of the last one seen
    struct sl_error *err;
};

static size_t place(const struct splitter *s)
{
    return s->total - s->in.left;
}

static enum sl_err broken(struct splitter *s, const char *what)
{
    return sl_fail(s->err, SL_ECORRUPT, "message of %zu bytes, at byte %zu: %s",
                   s->total, place(s), what);
}

// Reads a varint and keeps its bytes in raw (for the head).
static enum sl_err varint_take(struct splitter *s, uint64_t *value,
                               uint8_t raw[VARINT_MAX], size_t *raw_bytes)
{
    uint64_t v = 0;

    for (size_t n = 0; n < VARINT_MAX; n++) {
        if (slices_take(&s->in, &raw[n], 1) != SL_OK)
            return broken(s, "a number is cut off");
        v |= (uint64_t)(raw[n] & 0x7f) << (7 * n);
        if (raw[n] < 0x80) {
            *value = v;
            *raw_bytes = n + 1;
            return SL_OK;
        }
    }
    return broken(s, "a number has more than ten bytes");
}

// Room for n more bytes of head.
static enum sl_err head_reserve(struct splitter *s, size_t n)
{
    struct payload_parts *parts = s->parts;
    size_t want = parts->head_bytes + n, cap = s->head_cap;
    uint8_t *grown;

    if (want > s->head_max)
        return sl_fail(s->err, SL_ERANGE,
                       "message has over %zu bytes beside its payload",
                       s->head_max);
    if (want <= cap)
        return SL_OK;
    while (cap < want)
        cap *= 2;
    grown = sl_realloc(parts->owned_head, cap);
    if (grown == NULL)
        return sl_fail(s->err, SL_ENOMEM, "no memory for %zu bytes of header",
                       cap);
    if (parts->owned_head == NULL)
        memcpy(grown, parts->head_room, parts->head_bytes);
    parts->owned_head = s->head = grown;
    s->head_cap = cap;
    return SL_OK;
}

static enum sl_err head_append(struct splitter *s, const uint8_t *bytes,
                               size_t n)
{
    enum sl_err rc = head_reserve(s, n);

    if (rc != SL_OK)
        return rc;
    memcpy(s->head + s->parts->head_bytes, bytes, n);
    s->parts->head_bytes += n;
    return SL_OK;
}

// Moves n bytes of the message into the head.
static enum sl_err head_move(struct splitter *s, uint64_t n)
{
    enum sl_err rc;

    if (n > s->in.left)
        return broken(s, "a field reaches past the end");
    rc = head_reserve(s, n);
    if (rc != SL_OK)
        return rc;
    slices_take(&s->in, s->head + s->parts->head_bytes, n);
    s->parts->head_bytes += n;
    return SL_OK;
}

static enum sl_err payload_seen(struct splitter *s, unsigned type)
{
    uint8_t raw[VARINT_MAX];
    size_t raw_bytes;
    uint64_t length;
    enum sl_err rc;

    if (type != WIRE_BYTES)
        return broken(s, "the payload is not a bytes field");
    rc = varint_take(s, &length, raw, &raw_bytes);
    if (rc != SL_OK)
        return rc;
    if (length > s->in.left)
        return broken(s, "the payload reaches past the end");
    s->payload_at = place(s);
    s->payload_bytes = length;
    while (length > 0) {
        size_t n;

        (void)slices_next(&s->in, length, &n);
        length -= n;
    }
    return SL_OK;
}

// A field that is not the payload, after its tag.
static enum sl_err other_field(struct splitter *s, unsigned type)
{
    uint8_t raw[VARINT_MAX];
    size_t raw_bytes;
    uint64_t value;
    enum sl_err rc;

    switch (type) {
    case WIRE_64BIT:
        return head_move(s, 8);
    case WIRE_32BIT:
        return head_move(s, 4);
    case WIRE_VARINT:
    case WIRE_BYTES:
        rc = varint_take(s, &value, raw, &raw_bytes);
        if (rc == SL_OK)
            rc = head_append(s, raw, raw_bytes);
        if (rc == SL_OK && type == WIRE_BYTES)
            rc = head_move(s, value);
        return rc;
    default:
        return broken(s,
                      "a protobuf group, or a wire type that does not exist");
    }
}

static enum sl_err split(struct splitter *s, uint32_t number)
{
    uint8_t raw[VARINT_MAX];
    size_t raw_bytes;
    uint64_t tag;
    enum sl_err rc;

    while (s->in.left > 0) {
        rc = varint_take(s, &tag, raw, &raw_bytes);
        if (rc != SL_OK)
            return rc;
        if (tag > UINT32_MAX || tag >> 3 == 0)
            return broken(s, "a field number that does not exist");
        if (tag >> 3 == number) {
            rc = payload_seen(s, tag & 7);
        } else {
            rc = head_append(s, raw, raw_bytes);
            if (rc == SL_OK)
                rc = other_field(s, tag & 7);
        }
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

enum sl_err payload_split(struct payload_parts *out,
                          const struct sl_slices *message, uint32_t number,
                          size_t head_max, struct sl_error *err)
{
    struct splitter s = {.total = message->bytes,
                         .head_max = head_max ? head_max : PAYLOAD_HEAD_MAX,
                         .head = out->head_room,
                         .head_cap = PAYLOAD_HEAD_ROOM,
                         .parts = out,
                         .err = err};
    enum sl_err rc;

    out->owned_head = NULL;
    out->head_bytes = 0;
    slices_cursor_init(&s.in, message);
    rc = split(&s, number);
    if (rc != SL_OK) {
        payload_release(out);
        return rc;
    }
    out->head = s.head;
    rc = slices_sub(&out->payload, message, s.payload_at, s.payload_bytes);
    assert(rc == SL_OK); // payload_seen compared it with what was left
    return SL_OK;
}

void payload_release(struct payload_parts *parts)
{
    sl_free(parts->owned_head);
    parts->owned_head = NULL;
}
