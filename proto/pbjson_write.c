// SPDX-License-Identifier: Apache-2.0
// proto/pbjson_write.c -- the writer of any message as JSON, field by field.
#include "proto/pbjson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/base/json.h"
#include "common/base/utf8.h"
#include "proto/field.h"

const char *pbjson_enum(char out[PBJSON_ENUM_TEXT],
                        const ProtobufCEnumDescriptor *descriptor, int value)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(descriptor, value);
    const char *from;
    size_t n = 0;

    if (v == NULL)
        return strcpy(out, "?");
    from = strchr(v->name, '_');
    from = from != NULL ? from + 1 : v->name;
    for (; from[n] != '\0' && n < PBJSON_ENUM_TEXT - 1; n++)
        out[n] =
            from[n] >= 'A' && from[n] <= 'Z' ? (char)(from[n] + 32) : from[n];
    out[n] = '\0';
    return out;
}

json_t *pbjson_string(const char *text)
{
    size_t len = strlen(text), n;
    struct buf mended = BUF_INIT;
    json_t *value = NULL;
    enum sl_err rc = SL_OK;

    if (utf8_valid(text, len))
        return json_stringn_nocheck(text, len);
    for (size_t i = 0; rc == SL_OK && i<len; i += n> 0 ? n : 1) {
        n = utf8_sequence(text + i, len - i);
        rc = buf_append(&mended, n > 0 ? text + i : "\xef\xbf\xbd",
                        n > 0 ? n : 3);
    }
    if (rc == SL_OK)
        value = json_string(buf_text(&mended));
    buf_release(&mended);
    return value;
}

static json_t *write_bytes(const ProtobufCBinaryData *bytes)
{
    struct buf text = BUF_INIT;
    json_t *value = NULL;

    if (base64_encode(&text, bytes->data, bytes->len) == SL_OK)
        value = json_string(buf_text(&text));
    buf_release(&text);
    return value;
}

static json_t *write_double(double x)
{
    if (isfinite(x))
        return json_real(x);
    return json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

static json_t *pbjson_write_number(const ProtobufCFieldDescriptor *f,
                                   const void *at)
{
    uint64_t value = field_number(f, at);
    char text[PBJSON_ENUM_TEXT];

    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(value != 0);
    case PROTOBUF_C_TYPE_ENUM:
        pbjson_enum(text, f->descriptor, (int)value);
        return text[0] != '?' ? json_string(text)
                              : json_integer((json_int_t)value);
    case PROTOBUF_C_TYPE_FIXED64:
        snprintf(text, sizeof(text), "0x%016llx", (unsigned long long)value);
        return json_string(text);
    default:
        if (value <= INT64_MAX || field_is_signed(f))
            return json_integer((json_int_t)value);
        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        return json_string(text);
    }
}

static json_t *pbjson_write_message(const ProtobufCMessage *m);

static json_t *pbjson_write_value(const ProtobufCFieldDescriptor *f,
                                  const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return pbjson_write_message(*(ProtobufCMessage *const *)at);
    case PROTOBUF_C_TYPE_STRING:
        return pbjson_string(*(char *const *)at);
    case PROTOBUF_C_TYPE_BYTES:
        return write_bytes(at);
    case PROTOBUF_C_TYPE_DOUBLE:
        return write_double(*(const double *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return write_double(*(const float *)at);
    default:
        return pbjson_write_number(f, at);
    }
}

static json_t *write_list(const ProtobufCMessage *m,
                          const ProtobufCFieldDescriptor *f)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < field_count(m, f); i++)
        if (json_array_append_new(
                list, pbjson_write_value(f, field_at(m, f, i))) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

// proto2 messages have fields of which one can say whether they are set.
static bool is_proto2(const ProtobufCMessageDescriptor *of)
{
    for (unsigned i = 0; i < of->n_fields; i++)
        if (of->fields[i].label == PROTOBUF_C_LABEL_OPTIONAL &&
            of->fields[i].type != PROTOBUF_C_TYPE_MESSAGE &&
            !(of->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
            return true;
    return false;
}

// Such a number may not be known: it is alone in its oneof.
static bool is_maybe(const ProtobufCMessageDescriptor *of,
                     const ProtobufCFieldDescriptor *f)
{
    unsigned others = 0;

    if (!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
        f->type != PROTOBUF_C_TYPE_DOUBLE)
        return false;
    for (unsigned i = 0; i < of->n_fields; i++)
        others += of->fields[i].quantifier_offset == f->quantifier_offset &&
                  (of->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    return others == 1;
}

static json_t *pbjson_write_message(const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *of = m->descriptor;
    json_t *object = json_object();
    bool sparse = is_proto2(of);

    for (unsigned i = 0; object != NULL && i < of->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &of->fields[i];
        bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
        size_t count = field_count(m, f);
        json_t *value;

        if (count == 0 && (!list || sparse) && !is_maybe(of, f))
            continue;
        if (list)
            value = write_list(m, f);
        else
            value = count == 0 ? json_null()
                               : pbjson_write_value(f, field_at(m, f, 0));
        if (json_object_set_new(object, f->name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

enum sl_err pbjson_write(json_t **out, const ProtobufCMessage *msg)
{
    json_t *value = pbjson_write_message(msg);

    if (value == NULL)
        return SL_ENOMEM;
    *out = value;
    return SL_OK;
}
