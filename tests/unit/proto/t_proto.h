// SPDX-License-Identifier: Apache-2.0
// tests/unit/proto/t_proto.h -- messages out of text, out of chance, in pieces.
#ifndef TESTS_UNIT_PROTO_T_PROTO_H
#define TESTS_UNIT_PROTO_T_PROTO_H

#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/field.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

// Reads a message from JSON with ' instead of " and returns it, for wire_free.
// NULL: it was refused, and *err says why. Text that is no JSON fails the test.
static inline ProtobufCMessage *t_read(const ProtobufCMessageDescriptor *of,
                                       const char *text, struct sl_error *err)
{
    ProtobufCMessage *m = NULL;
    json_t *value = NULL;
    char *copy = sl_strdup(text);

    for (char *c = copy; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    T_OK(sl_json_parse(&value, "test", copy, strlen(copy), NULL, t_err()));
    if (pbjson_read(&m, of, value, "test", err) != SL_OK)
        m = NULL;
    json_decref(value);
    sl_free(copy);
    return m;
}

// Returns the message of t_read; one that is refused fails the test.
static inline ProtobufCMessage *t_make(const ProtobufCMessageDescriptor *of,
                                       const char *text)
{
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *m = t_read(of, text, &err);

    if (m == NULL)
        T_FAIL("%s: %s", text, err.text);
    return m;
}

// The bytes, cut at random places into slices. Each slice has its own exact
// heap block, so that a sanitizer sees a read beyond it.
struct t_cut {
    struct sl_slice slice[64];
    struct sl_slices all;
};

// Cuts a copy of the bytes at random places into about `pieces` slices, at most
// 64 (0 or 1: one; none for no bytes), for t_uncut.
static inline void t_cut(struct t_cut *c, const uint8_t *bytes, size_t n,
                         unsigned pieces)
{
    unsigned count = 0;

    for (size_t at = 0; at < n && count < SL_COUNT(c->slice);) {
        size_t run = pieces > 1 ? 1 + t_below(2 * n / pieces + 1) : n;
        uint8_t *block;

        if (run > n - at || count == SL_COUNT(c->slice) - 1)
            run = n - at;
        block = malloc(run);
        memcpy(block, bytes + at, run);
        c->slice[count++] = (struct sl_slice){block, run};
        at += run;
    }
    c->all = slices_all(c->slice, count);
}

// Frees the blocks of all slices.
static inline void t_uncut(struct t_cut *c)
{
    for (size_t i = 0; i < c->all.count; i++)
        free((void *)c->slice[i].data);
}

// ---- messages out of chance

static inline ProtobufCMessage *
t_random_message(const ProtobufCMessageDescriptor *of);

// Returns up to 11 drawn characters of ASCII, for sl_free.
static inline char *t_random_text(void)
{
    size_t n = t_below(12);
    char *text = sl_malloc(n + 1);

    for (size_t i = 0; i < n; i++)
        text[i] = (char)(' ' + t_below(95));
    text[n] = '\0';
    return text;
}

// Sets *to, the place of one value of the field, to a drawn value; texts, bytes
// and messages are of the heap.
static inline void t_random_value(const ProtobufCFieldDescriptor *f, void *to)
{
    const ProtobufCEnumDescriptor *e = f->descriptor;
    ProtobufCBinaryData *bytes = to;
    uint64_t bits = t_rand() >> t_below(64);

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)to = t_random_message(f->descriptor);
        break;
    case PROTOBUF_C_TYPE_STRING:
        *(char **)to = t_random_text();
        break;
    case PROTOBUF_C_TYPE_BYTES:
        bytes->len = 1 + t_below(20);
        bytes->data = sl_malloc(bytes->len);
        memset(bytes->data, (int)bits, bytes->len);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int32_t *)to = e->values[t_below(e->n_values)].value;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)to = (protobuf_c_boolean)t_below(2);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)to = (double)(int64_t)t_rand() / 1e9;
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)to = (float)t_below(1000) / 8;
        break;
    default:
        memcpy(to, &bits, field_size(f));
    }
}

// Sets a field of m, which is not set, two times in three; a list to 1 to 3
// values. Of a oneof the first field that is drawn stays.
static inline void t_random_field(ProtobufCMessage *m,
                                  const ProtobufCFieldDescriptor *f)
{
    uint8_t *base = (uint8_t *)m;
    size_t n = 1 + t_below(3);

    if (t_below(3) == 0)
        return;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        *(void **)(base + f->offset) = sl_calloc(n, field_size(f));
        *(size_t *)(base + f->quantifier_offset) = n;
        for (size_t i = 0; i < n; i++)
            t_random_value(f, field_at(m, f, i));
        return;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        if (*(uint32_t *)(base + f->quantifier_offset) != 0)
            return;
        *(uint32_t *)(base + f->quantifier_offset) = f->id;
    } else if (f->label == PROTOBUF_C_LABEL_OPTIONAL &&
               f->type != PROTOBUF_C_TYPE_MESSAGE &&
               f->type != PROTOBUF_C_TYPE_STRING) {
        *(protobuf_c_boolean *)(base + f->quantifier_offset) = 1;
    }
    t_random_value(f, base + f->offset);
}

// Returns a message of any fields with any values: well formed, not necessarily
// valid; for wire_free.
static inline ProtobufCMessage *
t_random_message(const ProtobufCMessageDescriptor *of)
{
    ProtobufCMessage *m = sl_calloc(1, of->sizeof_message);

    protobuf_c_message_init(of, m);
    for (unsigned i = 0; i < of->n_fields; i++)
        t_random_field(m, &of->fields[i]);
    return m;
}

// Returns the bytes of a message, for buf_release.
static inline struct buf t_packed(const ProtobufCMessage *m)
{
    struct buf b = BUF_INIT;

    T_OK(wire_pack(m, &b));
    return b;
}

#endif
