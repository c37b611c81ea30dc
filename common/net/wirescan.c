// SPDX-License-Identifier: Apache-2.0
// common/net/wirescan.c -- the walk over protobuf bytes that counts fields,
// depth and sizes before anything is unpacked.
//
// The walk keeps a stack of messages, as deep as is allowed and no deeper.
// The length of a nested message is compared with its parent's end before it
// is pushed, so that every read below needs to look at one end only.
#include "common/net/wirescan.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/net/rpc_figures.h"

enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

struct level {
    const ProtobufCMessageDescriptor *message;
    const uint8_t *end;
};

struct wire_scanner {
    const uint8_t *at, *start;
    struct level level[WIRE_MAX_DEPTH + 1];
    unsigned depth;
    unsigned max_depth;
    size_t fields_left;
    size_t structs; // bytes of those of the nested messages
    const ProtobufCFieldDescriptor *field; // being read; NULL: unknown
    struct sl_error *err;
};

static enum sl_err refuse_as(struct wire_scanner *s, enum rpc_refusal why,
                             enum sl_err code, const char *what)
{
    const char *message = s->level[s->depth].message->name;

    rpc_refused(why);
    return sl_fail(s->err, code, "%s%s%s, at byte %zu: %s", message,
                   s->field ? "." : "", s->field ? s->field->name : "",
                   (size_t)(s->at - s->start), what);
}

static enum sl_err wire_scan_refuse(struct wire_scanner *s, enum sl_err code,
                                    const char *what)
{
    return refuse_as(
        s, code == SL_ERANGE ? RPC_REFUSED_SIZE : RPC_REFUSED_MALFORMED, code,
        what);
}

static enum sl_err wire_scan_count(struct wire_scanner *s, size_t n)
{
    if (n > s->fields_left)
        return wire_scan_refuse(s, SL_ERANGE, "too many fields or elements");
    s->fields_left -= n;
    return SL_OK;
}

static enum sl_err varint(struct wire_scanner *s, const uint8_t *end,
                          uint64_t *value)
{
    uint64_t v = 0;

    for (unsigned n = 0; n < 10; n++) {
        if (s->at == end)
            return wire_scan_refuse(s, SL_ECORRUPT, "a number is cut off");
        v |= (uint64_t)(*s->at & 0x7f) << (7 * n);
        if (*s->at++ < 0x80) {
            *value = v;
            return SL_OK;
        }
    }
    return wire_scan_refuse(s, SL_ECORRUPT, "a number has more than ten bytes");
}

static enum sl_err skip(struct wire_scanner *s, const uint8_t *end, uint64_t n)
{
    if (n > (size_t)(end - s->at))
        return wire_scan_refuse(s, SL_ECORRUPT,
                                "a field reaches past its message");
    s->at += n;
    return SL_OK;
}

// Fields are sorted by their number.
static const ProtobufCFieldDescriptor *
find_field(const ProtobufCMessageDescriptor *message, uint32_t number)
{
    size_t low = 0, high = message->n_fields;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (message->fields[middle].id == number)
            return &message->fields[middle];
        if (message->fields[middle].id < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static unsigned wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

// A repeated number with all its elements in one run of bytes.
static enum sl_err scan_packed(struct wire_scanner *s, const uint8_t *end)
{
    unsigned type = wire_type_of(s->field->type);
    size_t size = type == WIRE_64BIT ? 8 : 4;
    size_t bytes = (size_t)(end - s->at);
    uint64_t ignored;
    enum sl_err rc;

    if (type != WIRE_VARINT) {
        if (bytes % size != 0)
            return wire_scan_refuse(s, SL_ECORRUPT,
                                    "not a whole number of elements");
        s->at = end;
        return wire_scan_count(s, bytes / size);
    }
    while (s->at < end) {
        rc = varint(s, end, &ignored);
        if (rc == SL_OK)
            rc = wire_scan_count(s, 1);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

static enum sl_err wire_scan_enter(struct wire_scanner *s, const uint8_t *end)
{
    if (s->depth == s->max_depth)
        return refuse_as(s, RPC_REFUSED_DEPTH, SL_ERANGE,
                         "messages are nested too deep");
    s->depth++;
    s->level[s->depth].message = s->field->descriptor;
    s->structs += s->level[s->depth].message->sizeof_message;
    s->level[s->depth].end = end;
    return SL_OK;
}

// A field with a length, which may be a message: then the walk goes on inside.
static enum sl_err scan_bytes(struct wire_scanner *s, const uint8_t *end)
{
    const uint8_t *field_end;
    uint64_t length;
    enum sl_err rc = varint(s, end, &length);

    if (rc != SL_OK)
        return rc;
    if (length > (size_t)(end - s->at))
        return wire_scan_refuse(s, SL_ECORRUPT,
                                "a field reaches past its message");
    field_end = s->at + length;
    if (s->field != NULL) {
        if (s->field->type == PROTOBUF_C_TYPE_MESSAGE)
            return wire_scan_enter(s, field_end);
        if (wire_type_of(s->field->type) != WIRE_BYTES)
            return scan_packed(s, field_end);
    }
    s->at = field_end;
    return SL_OK;
}

// As declared; a repeated number may also come packed, whatever the schema
// says.
static bool type_fits(const ProtobufCFieldDescriptor *field, unsigned type)
{
    return field == NULL || type == wire_type_of(field->type) ||
           (type == WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
}

static enum sl_err scan_field(struct wire_scanner *s)
{
    const struct level *level = &s->level[s->depth];
    const uint8_t *end = level->end;
    uint64_t tag = 0, ignored;
    enum sl_err rc;

    s->field = NULL;
    rc = wire_scan_count(s, 1);
    if (rc == SL_OK)
        rc = varint(s, end, &tag);
    if (rc != SL_OK)
        return rc;
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return wire_scan_refuse(s, SL_ECORRUPT,
                                "a field number that does not exist");
    s->field = find_field(level->message, (uint32_t)(tag >> 3));
    if (!type_fits(s->field, tag & 7))
        return wire_scan_refuse(s, SL_ECORRUPT, "not of the declared type");

    switch (tag & 7) {
    case WIRE_VARINT:
        return varint(s, end, &ignored);
    case WIRE_64BIT:
        return skip(s, end, 8);
    case WIRE_32BIT:
        return skip(s, end, 4);
    case WIRE_BYTES:
        return scan_bytes(s, end);
    default:
        return wire_scan_refuse(
            s, SL_ECORRUPT,
            "a protobuf group, or a wire type that does not exist");
    }
}

static enum sl_err wire_too_large(const ProtobufCMessageDescriptor *descriptor,
                                  size_t size, size_t max, struct sl_error *err)
{
    rpc_refused(RPC_REFUSED_SIZE);
    return sl_fail(err, SL_ERANGE, "%s: %zu bytes are over the limit of %zu",
                   descriptor->name, size, max);
}

enum sl_err wire_scan_structs(const ProtobufCMessageDescriptor *descriptor,
                              const uint8_t *bytes, size_t size,
                              const struct wire_limits *limits, size_t *structs,
                              struct sl_error *err)
{
    static const struct wire_limits defaults;
    const struct wire_limits *l = limits ? limits : &defaults;
    size_t max_bytes = wire_max_bytes(limits);
    struct wire_scanner s = {.at = bytes, .start = bytes, .err = err};
    enum sl_err rc;

    if (size > max_bytes)
        return wire_too_large(descriptor, size, max_bytes, err);
    *structs = 0;
    if (size == 0)
        return SL_OK;
    s.max_depth = l->max_depth && l->max_depth < WIRE_MAX_DEPTH
                      ? l->max_depth
                      : WIRE_MAX_DEPTH;
    s.fields_left = l->max_fields ? l->max_fields : WIRE_MAX_FIELDS;
    s.level[0] = (struct level){descriptor, bytes + size};
    for (;;) {
        while (s.at == s.level[s.depth].end) {
            if (s.depth == 0) {
                *structs = s.structs;
                return SL_OK;
            }
            s.depth--;
        }
        rc = scan_field(&s);
        if (rc != SL_OK)
            return rc;
    }
}

enum sl_err wire_scan(const ProtobufCMessageDescriptor *descriptor,
                      const uint8_t *bytes, size_t size,
                      const struct wire_limits *limits, struct sl_error *err)
{
    size_t structs;

    return wire_scan_structs(descriptor, bytes, size, limits, &structs, err);
}
