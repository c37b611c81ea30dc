// SPDX-License-Identifier: Apache-2.0
// proto/field.c -- the walk over a message's fields by protobuf-c's
// descriptors.
#include "proto/field.h"

#include <stdio.h>
#include <string.h>

size_t field_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

size_t field_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const uint8_t *base = (const uint8_t *)m;
    const uint8_t *at = base + f->offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(base + f->quantifier_offset);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(base + f->quantifier_offset) == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING)
        return *(void *const *)at != NULL;
    if (f->label == PROTOBUF_C_LABEL_OPTIONAL)
        return *(const protobuf_c_boolean *)(base + f->quantifier_offset) != 0;
    return 1;
}

void *field_at(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
               size_t i)
{
    uint8_t *at = (uint8_t *)m + f->offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(uint8_t **)at + i * field_size(f);
    return at;
}

bool field_is_signed(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return true;
    default:
        return false;
    }
}

uint64_t field_number(const ProtobufCFieldDescriptor *f, const void *at)
{
    if (f->type == PROTOBUF_C_TYPE_BOOL)
        return *(const protobuf_c_boolean *)at != 0;
    if (field_size(f) == 8)
        return *(const uint64_t *)at;
    if (field_is_signed(f) || f->type == PROTOBUF_C_TYPE_ENUM)
        return (uint64_t)(int64_t) * (const int32_t *)at;
    return *(const uint32_t *)at;
}

const char *field_outside(const ProtobufCMessage *m, const char *words)
{
    char word[64];

    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];

        snprintf(word, sizeof(word), " %s ", f->name);
        if (field_count(m, f) > 0 && strstr(words, word) == NULL)
            return f->name;
    }
    return NULL;
}
