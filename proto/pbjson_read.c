// SPDX-License-Identifier: Apache-2.0
// proto/pbjson_read.c -- the reader of JSON into a message.
//
// The reader is recursive, as deep as the schema is: a value deeper than that
// meets a scalar field and is refused there.
#include "proto/pbjson.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "proto/field.h"
#include "proto/wire.h"

#define PATH_BYTES 240
#define FIELDS_MAX 128 // of one message; the schema test holds them to it

// Where we are: "model.layers[2].filters".
struct pbjson_reader {
    const char *where;
    char path[PATH_BYTES];
    size_t len;
    struct sl_error *err;
};

static enum sl_err pbjson_refuse(const struct pbjson_reader *r, const char *fmt,
                                 ...) __attribute__((format(printf, 2, 3)));

static enum sl_err pbjson_refuse(const struct pbjson_reader *r, const char *fmt,
                                 ...)
{
    char what[SL_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return sl_fail(r->err, SL_EINVAL, "%s%s%s%s%s", r->where,
                   r->where[0] != '\0' ? ": " : "", r->path,
                   r->len > 0 ? ": " : "", what);
}

static enum sl_err pbjson_no_memory(const struct pbjson_reader *r)
{
    return sl_fail(r->err, SL_ENOMEM, "%s: out of memory", r->where);
}

static void pbjson_enter(struct pbjson_reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void pbjson_enter(struct pbjson_reader *r, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(r->path + r->len, PATH_BYTES - r->len, fmt, ap);
    va_end(ap);
    r->len +=
        (size_t)n < PATH_BYTES - r->len ? (size_t)n : PATH_BYTES - r->len - 1;
}

static void pbjson_leave(struct pbjson_reader *r, size_t len)
{
    r->len = len;
    r->path[len] = '\0';
}

static const char *pbjson_type_name(const json_t *value)
{
    if (value == NULL)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "a mapping";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "nothing";
    default:
        return "true or false";
    }
}

static enum sl_err wrong_type(const struct pbjson_reader *r, const char *wanted,
                              const json_t *value)
{
    if (json_is_string(value))
        return pbjson_refuse(r, "wants %s, got the string '%.60s'", wanted,
                             json_string_value(value));
    if (json_is_integer(value) && strcmp(wanted, "a string") == 0)
        return pbjson_refuse(
            r, "wants a string, got the number %lld: write \"%lld\"",
            (long long)json_integer_value(value),
            (long long)json_integer_value(value));
    return pbjson_refuse(r, "wants %s, got %s", wanted,
                         pbjson_type_name(value));
}

// ---- numbers

// An integer as sign and magnitude, so that all of u64 and i64 fit.
struct integer {
    bool negative;
    uint64_t magnitude;
};

static bool parse_integer(const char *text, bool hex, struct integer *out)
{
    char *end;
    bool negative = text[0] == '-';
    const char *digits = text + negative;

    if (hex && strncmp(digits, "0x", 2) == 0)
        digits += 2;
    else
        hex = false;
    if (hex ? strspn(digits, "0123456789abcdefABCDEF") != strlen(digits)
            : strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *out = (struct integer){negative, strtoull(digits, &end, hex ? 16 : 10)};
    return errno == 0 && end != digits && *end == '\0';
}

// Wide fields may be written as strings, since many JSON readers lose digits
// beyond 2^53.
static bool get_integer(const json_t *value, const ProtobufCFieldDescriptor *f,
                        struct integer *out)
{
    if (json_is_integer(value)) {
        json_int_t i = json_integer_value(value);

        *out = (struct integer){i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i};
        return true;
    }
    if (json_is_real(value)) {
        double x = json_real_value(value);

        *out = (struct integer){x < 0, (uint64_t)fmin(fabs(x), 0x1p53)};
        return fabs(x) <= 0x1p53 && x == floor(x);
    }
    return json_is_string(value) && field_size(f) == 8 &&
           parse_integer(json_string_value(value),
                         f->type == PROTOBUF_C_TYPE_FIXED64, out);
}

static enum sl_err read_integer(struct pbjson_reader *r,
                                const ProtobufCFieldDescriptor *f,
                                const json_t *value, void *to)
{
    bool is_signed = field_is_signed(f), wide = field_size(f) == 8;
    uint64_t max = is_signed ? (wide ? INT64_MAX : INT32_MAX)
                             : (wide ? UINT64_MAX : UINT32_MAX);
    uint64_t low = is_signed ? max + 1 : 0; // the lowest is -low
    struct integer i = {false, 0};
    uint64_t bits;

    if (!get_integer(value, f, &i))
        return wrong_type(r, "an integer", value);
    if (i.magnitude > (i.negative ? low : max))
        return pbjson_refuse(
            r, "%s%llu is out of range (%s%llu to %llu)", i.negative ? "-" : "",
            (unsigned long long)i.magnitude, low > 0 ? "-" : "",
            (unsigned long long)low, (unsigned long long)max);
    bits = i.negative ? 0 - i.magnitude : i.magnitude;
    if (wide)
        *(uint64_t *)to = bits;
    else
        *(uint32_t *)to = (uint32_t)bits;
    return SL_OK;
}

static bool named_double(const char *text, double *out)
{
    if (strcmp(text, "NaN") == 0)
        *out = NAN;
    else if (strcmp(text, "Infinity") == 0)
        *out = INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *out = -INFINITY;
    else
        return false;
    return true;
}

static enum sl_err read_double(struct pbjson_reader *r,
                               const ProtobufCFieldDescriptor *f,
                               const json_t *value, void *to)
{
    double x;

    if (json_is_number(value))
        x = json_number_value(value);
    else if (!json_is_string(value) ||
             !named_double(json_string_value(value), &x))
        return wrong_type(r, "a number", value);
    if (f->type == PROTOBUF_C_TYPE_FLOAT)
        *(float *)to = (float)x;
    else
        *(double *)to = x;
    return SL_OK;
}

// ---- words

static enum sl_err unknown_word(struct pbjson_reader *r,
                                const ProtobufCEnumDescriptor *of,
                                const char *word)
{
    char text[PBJSON_ENUM_TEXT], list[200] = "";
    size_t len = 0;

    for (unsigned i = 0; i < of->n_values && len < sizeof(list); i++) {
        int n =
            snprintf(list + len, sizeof(list) - len, "%s%s", i > 0 ? ", " : "",
                     pbjson_enum(text, of, of->values[i].value));

        len += (size_t)n;
    }
    return pbjson_refuse(r, "'%.60s' is none of %s", word, list);
}

static enum sl_err read_enum(struct pbjson_reader *r,
                             const ProtobufCEnumDescriptor *of,
                             const json_t *value, void *to)
{
    char text[PBJSON_ENUM_TEXT];
    const char *word;

    if (json_is_integer(value) &&
        protobuf_c_enum_descriptor_get_value(
            of, (int)json_integer_value(value)) != NULL) {
        *(int32_t *)to = (int32_t)json_integer_value(value);
        return SL_OK;
    }
    if (!json_is_string(value))
        return wrong_type(r, "a word", value);
    word = json_string_value(value);
    for (unsigned i = 0; i < of->n_values; i++)
        if (strcmp(word, of->values[i].name) == 0 ||
            strcmp(word, pbjson_enum(text, of, of->values[i].value)) == 0) {
            *(int32_t *)to = of->values[i].value;
            return SL_OK;
        }
    return unknown_word(r, of, word);
}

static enum sl_err read_string(struct pbjson_reader *r, const json_t *value,
                               void *to)
{
    char *copy;

    if (!json_is_string(value))
        return wrong_type(r, "a string", value);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return pbjson_refuse(r, "has a zero byte in its text");
    copy = sl_strdup(json_string_value(value));
    if (copy == NULL)
        return pbjson_no_memory(r);
    *(char **)to = copy;
    return SL_OK;
}

static enum sl_err read_bytes(struct pbjson_reader *r, const json_t *value,
                              void *to)
{
    ProtobufCBinaryData *out = to;
    struct buf bytes = BUF_INIT;
    enum sl_err rc;

    if (!json_is_string(value))
        return wrong_type(r, "base64", value);
    rc = base64_decode(&bytes, json_string_value(value),
                       json_string_length(value));
    if (rc != SL_OK) {
        buf_release(&bytes);
        return rc == SL_ENOMEM ? pbjson_no_memory(r)
                               : pbjson_refuse(r, "is not base64");
    }
    out->len = bytes.len;
    out->data = buf_detach(&bytes, &out->len);
    return SL_OK;
}

// ---- messages

static enum sl_err pbjson_read_message(struct pbjson_reader *r,
                                       const ProtobufCMessageDescriptor *of,
                                       const json_t *value,
                                       ProtobufCMessage **out);

// Returns true if the first field of the message, number 1, is its name.
static bool pbjson_is_named(const ProtobufCMessageDescriptor *of)
{
    return of->n_fields > 0 && of->fields[0].id == 1 &&
           of->fields[0].type == PROTOBUF_C_TYPE_STRING &&
           strcmp(of->fields[0].name, "name") == 0;
}

// Reads text that stands for a message of that name.
static enum sl_err pbjson_read_named(struct pbjson_reader *r,
                                     const ProtobufCMessageDescriptor *of,
                                     const json_t *text, void *to)
{
    json_t *value = json_pack("{sO}", "name", (json_t *)(uintptr_t)text);
    enum sl_err rc = value == NULL ? pbjson_no_memory(r)
                                   : pbjson_read_message(r, of, value, to);

    json_decref(value);
    return rc;
}

// On failure nothing was stored.
static enum sl_err read_value(struct pbjson_reader *r,
                              const ProtobufCFieldDescriptor *f,
                              const json_t *value, void *to)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return pbjson_read_message(r, f->descriptor, value, to);
    case PROTOBUF_C_TYPE_STRING:
        return read_string(r, value, to);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(r, value, to);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, f->descriptor, value, to);
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FLOAT:
        return read_double(r, f, value, to);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(value))
            return wrong_type(r, "true or false", value);
        *(protobuf_c_boolean *)to = json_is_true(value);
        return SL_OK;
    default:
        return read_integer(r, f, value, to);
    }
}

static enum sl_err pbjson_read_list(struct pbjson_reader *r,
                                    ProtobufCMessage *m,
                                    const ProtobufCFieldDescriptor *f,
                                    const json_t *value)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    size_t *count = (size_t *)((uint8_t *)m + f->quantifier_offset);
    size_t len = r->len;
    void *items;

    if (n == 0)
        return SL_OK;
    items = sl_calloc(n, field_size(f));
    if (items == NULL)
        return pbjson_no_memory(r);
    *(void **)((uint8_t *)m + f->offset) = items;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = value;
        enum sl_err rc;

        if (json_is_array(value)) {
            item = json_array_get(value, i);
            pbjson_enter(r, "[%zu]", i);
        }
        if (json_is_string(item) && f->type == PROTOBUF_C_TYPE_MESSAGE &&
            pbjson_is_named(f->descriptor))
            rc = pbjson_read_named(r, f->descriptor, item, field_at(m, f, i));
        else
            rc = read_value(r, f, item, field_at(m, f, i));
        if (rc != SL_OK)
            return rc;
        *count = i + 1; // so that wire_free frees what is there
        pbjson_leave(r, len);
    }
    return SL_OK;
}

// Marks a singular field as set. SL_EINVAL if another of its oneof is.
static enum sl_err pbjson_mark_set(struct pbjson_reader *r, ProtobufCMessage *m,
                                   const ProtobufCFieldDescriptor *f)
{
    void *quantifier = (uint8_t *)m + f->quantifier_offset;

    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        if (*(uint32_t *)quantifier != 0)
            return pbjson_refuse(r, "excludes another key that is given");
        *(uint32_t *)quantifier = f->id;
    } else if (f->label == PROTOBUF_C_LABEL_OPTIONAL &&
               f->type != PROTOBUF_C_TYPE_MESSAGE &&
               f->type != PROTOBUF_C_TYPE_STRING) {
        *(protobuf_c_boolean *)quantifier = 1;
    }
    return SL_OK;
}

static enum sl_err read_single(struct pbjson_reader *r, ProtobufCMessage *m,
                               const ProtobufCFieldDescriptor *f,
                               const json_t *value)
{
    union {
        uint64_t number;
        void *pointer;
        ProtobufCBinaryData bytes;
    } new = {0};
    enum sl_err rc = read_value(r, f, value, &new);

    if (rc != SL_OK)
        return rc;
    rc = pbjson_mark_set(r, m, f);
    if (rc == SL_OK) {
        memcpy(field_at(m, f, 0), &new, field_size(f));
        return SL_OK;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        wire_free(new.pointer);
    else if (f->type == PROTOBUF_C_TYPE_STRING)
        sl_free(new.pointer);
    else if (f->type == PROTOBUF_C_TYPE_BYTES)
        sl_free(new.bytes.data);
    return rc;
}

// "api_version" as it is, or as "apiVersion".
static bool key_is(const char *key, const char *name)
{
    if (strcmp(key, name) == 0)
        return true;
    for (; *name != '\0'; key++, name++) {
        if (*name == '_' && name[1] >= 'a' && name[1] <= 'z') {
            name++;
            if (*key != *name - 32)
                return false;
        } else if (*key != *name) {
            return false;
        }
    }
    return *key == '\0';
}

static const ProtobufCFieldDescriptor *
pbjson_find_field(const ProtobufCMessageDescriptor *of, const char *key)
{
    for (unsigned i = 0; i < of->n_fields; i++)
        if (key_is(key, of->fields[i].name))
            return &of->fields[i];
    return NULL;
}

static enum sl_err unknown_key(struct pbjson_reader *r,
                               const ProtobufCMessageDescriptor *of,
                               const char *key)
{
    const char *names[FIELDS_MAX] = {NULL}, *near;
    unsigned n = of->n_fields < FIELDS_MAX ? of->n_fields : FIELDS_MAX;
    struct buf list = BUF_INIT;
    enum sl_err rc;

    for (unsigned i = 0; i < n; i++)
        names[i] = of->fields[i].name;
    near = sl_suggest(key, names, n);
    if (near != NULL)
        return pbjson_refuse(r, "unknown key '%.60s'; did you mean '%s'?", key,
                             near);
    for (unsigned i = 0; i < n; i++)
        if (buf_appendf(&list, "%s%s", i > 0 ? ", " : "", names[i]) != SL_OK)
            break;
    rc = pbjson_refuse(r, "unknown key '%.60s'; known are %s", key,
                       buf_text(&list));
    buf_release(&list);
    return rc;
}

static enum sl_err read_key(struct pbjson_reader *r, ProtobufCMessage *m,
                            const char *key, const json_t *value,
                            uint64_t given[FIELDS_MAX / 64])
{
    const ProtobufCMessageDescriptor *of = m->descriptor;
    const ProtobufCFieldDescriptor *f = pbjson_find_field(of, key);
    size_t len = r->len;
    enum sl_err rc;

    if (f == NULL)
        return unknown_key(r, of, key);
    pbjson_enter(r, "%s%s", len > 0 ? "." : "", f->name);
    if (given[(f - of->fields) / 64] >> (f - of->fields) % 64 & 1)
        return pbjson_refuse(r, "is given twice");
    given[(f - of->fields) / 64] |= UINT64_C(1) << (f - of->fields) % 64;
    if (json_is_null(value)) // "key:" with nothing behind it: not said
        rc = SL_OK;
    else if (f->label == PROTOBUF_C_LABEL_REPEATED)
        rc = pbjson_read_list(r, m, f, value);
    else
        rc = read_single(r, m, f, value);
    if (rc == SL_OK)
        pbjson_leave(r, len);
    return rc;
}

static enum sl_err pbjson_read_message(struct pbjson_reader *r,
                                       const ProtobufCMessageDescriptor *of,
                                       const json_t *value,
                                       ProtobufCMessage **out)
{
    ProtobufCMessage *m;
    const char *key;
    json_t *item;
    uint64_t given[FIELDS_MAX / 64] = {0};

    if (!json_is_object(value))
        return wrong_type(r, "a mapping", value);
    assert(of->n_fields <= FIELDS_MAX);
    m = wire_new(of);
    if (m == NULL)
        return pbjson_no_memory(r);
    json_object_foreach((json_t *)value, key, item)
    {
        enum sl_err rc = read_key(r, m, key, item, given);

        if (rc != SL_OK) {
            wire_free(m);
            return rc;
        }
    }
    *out = m;
    return SL_OK;
}

enum sl_err pbjson_read(ProtobufCMessage **out,
                        const ProtobufCMessageDescriptor *descriptor,
                        const json_t *value, const char *where,
                        struct sl_error *err)
{
    struct pbjson_reader r = {.where = where != NULL ? where : "", .err = err};

    return pbjson_read_message(&r, descriptor, value, out);
}

enum sl_err pbjson_read_checked(ProtobufCMessage **out,
                                const ProtobufCMessageDescriptor *descriptor,
                                const json_t *value, const char *where,
                                struct sl_error *err)
{
    ProtobufCMessage *made = NULL;
    enum sl_err rc;

    if (value == NULL)
        return sl_fail(err, SL_ECORRUPT, "'%s' is missing", where);
    rc = pbjson_read(&made, descriptor, value, where, err);
    if (rc != SL_OK)
        return rc;
    rc = wire_check(made, err);
    if (rc != SL_OK) {
        wire_free(made);
        return sl_prefix(err, rc, "%s", where);
    }
    *out = made;
    return SL_OK;
}
