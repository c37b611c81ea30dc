// SPDX-License-Identifier: Apache-2.0
// common/base/json.c -- the parser's limits, and typed lookups in jansson's
// values.
#include "common/base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"

#define DEFAULT_BYTES ((size_t)16 << 20)
#define DEFAULT_DEPTH 64
#define DEFAULT_VALUES 1000000
#define DEFAULT_STRING_BYTES ((size_t)1 << 20)

// Where the scan is; line and column count from 1, columns in bytes.
struct json_scan {
    const char *name, *text;
    size_t len, at, line_start, line;
    struct sl_json_limits limits;
};

static enum sl_err json_scan_over_limit(const struct json_scan *s,
                                        struct sl_error *err, const char *what,
                                        size_t limit)
{
    return sl_fail(err, SL_ERANGE, "%s:%zu:%zu: more than %zu %s", s->name,
                   s->line, s->at - s->line_start + 1, limit, what);
}

// Steps over the string that begins with a quote at s->at.
static enum sl_err scan_string(struct json_scan *s, struct sl_error *err)
{
    size_t start = ++s->at;

    for (; s->at < s->len && s->text[s->at] != '"'; s->at++) {
        if (s->text[s->at] == '\\')
            s->at++;
    }
    if (s->at - start > s->limits.string_bytes)
        return json_scan_over_limit(s, err, "bytes in a string",
                                    s->limits.string_bytes);
    return SL_OK;
}

// Every value but the first of a container follows a comma, and every
// container may hold one: counting commas and openings bounds the values.
static enum sl_err json_scan_text(struct json_scan *s, struct sl_error *err)
{
    size_t values = 1, depth = 0;
    enum sl_err rc;

    for (; s->at < s->len; s->at++) {
        switch (s->text[s->at]) {
        case '"':
            rc = scan_string(s, err);
            if (rc != SL_OK)
                return rc;
            break;
        case '\n':
            s->line++;
            s->line_start = s->at + 1;
            break;
        case '{':
        case '[':
            if (++depth > s->limits.depth)
                return json_scan_over_limit(s, err, "levels", s->limits.depth);
            if (++values > s->limits.values)
                return json_scan_over_limit(s, err, "values", s->limits.values);
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        case ',':
            if (++values > s->limits.values)
                return json_scan_over_limit(s, err, "values", s->limits.values);
            break;
        default:
            break;
        }
    }
    return SL_OK;
}

static void fill_limits(struct sl_json_limits *to,
                        const struct sl_json_limits *from)
{
    if (from != NULL)
        *to = *from;
    if (to->bytes == 0)
        to->bytes = DEFAULT_BYTES;
    if (to->depth == 0)
        to->depth = DEFAULT_DEPTH;
    if (to->values == 0)
        to->values = DEFAULT_VALUES;
    if (to->string_bytes == 0)
        to->string_bytes = DEFAULT_STRING_BYTES;
}

enum sl_err sl_json_parse(json_t **out, const char *name, const char *text,
                          size_t len, const struct sl_json_limits *limits,
                          struct sl_error *err)
{
    struct json_scan s = {.name = name, .text = text, .len = len, .line = 1};
    json_error_t why;
    json_t *value;
    enum sl_err rc;

    fill_limits(&s.limits, limits);
    if (len > s.limits.bytes)
        return json_scan_over_limit(&s, err, "bytes", s.limits.bytes);
    rc = json_scan_text(&s, err);
    if (rc != SL_OK)
        return rc;
    value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (value == NULL)
        return sl_fail(err,
                       json_error_code(&why) == json_error_out_of_memory
                           ? SL_ENOMEM
                           : SL_EINVAL,
                       "%s:%d:%d: %s", name, why.line, why.column, why.text);
    *out = value;
    return SL_OK;
}

static int json_text_append(const char *bytes, size_t n, void *arg)
{
    return buf_append(arg, bytes, n) == SL_OK ? 0 : -1;
}

// The fewest digits that read back as the same number: jansson would write
// 0.1 as 0.10000000000000001.
static enum sl_err write_real(struct buf *out, double value)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    // ".0" keeps the number a real for readers that tell it from an integer.
    if (strpbrk(text, ".en") == NULL)
        strcat(text, ".0");
    return buf_append_str(out, text);
}

static enum sl_err json_write_value(struct buf *out, const json_t *value,
                                    int indent);

static enum sl_err new_line(struct buf *out, int indent)
{
    return indent < 0 ? SL_OK : buf_appendf(out, "\n%*s", 2 * indent, "");
}

static enum sl_err json_write_key(struct buf *out, const char *key, int indent)
{
    enum sl_err rc = sl_json_quote(out, key, strlen(key));

    return rc == SL_OK ? buf_append_str(out, indent < 0 ? ":" : ": ") : rc;
}

// `indent` is the depth of what is inside; negative: all on one line.
static enum sl_err write_object(struct buf *out, const json_t *value,
                                int indent)
{
    json_t *object = (json_t *)value, *item; // jansson's iterators want it
    enum sl_err rc = buf_append_char(out, '{');
    const char *key;
    bool first = true;

    json_object_foreach(object, key, item)
    {
        if (rc == SL_OK && !first)
            rc = buf_append_char(out, ',');
        first = false;
        if (rc == SL_OK)
            rc = new_line(out, indent);
        if (rc == SL_OK)
            rc = json_write_key(out, key, indent);
        if (rc == SL_OK)
            rc = json_write_value(out, item, indent);
    }
    if (rc == SL_OK && !first && indent > 0)
        rc = new_line(out, indent - 1);
    return rc == SL_OK ? buf_append_char(out, '}') : rc;
}

static enum sl_err write_array(struct buf *out, const json_t *value, int indent)
{
    size_t count = json_array_size(value);
    enum sl_err rc = buf_append_char(out, '[');

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        if (i > 0)
            rc = buf_append_char(out, ',');
        if (rc == SL_OK)
            rc = new_line(out, indent);
        if (rc == SL_OK)
            rc = json_write_value(out, json_array_get(value, i), indent);
    }
    if (rc == SL_OK && count > 0 && indent > 0)
        rc = new_line(out, indent - 1);
    return rc == SL_OK ? buf_append_char(out, ']') : rc;
}

static enum sl_err json_write_value(struct buf *out, const json_t *value,
                                    int indent)
{
    int inside = indent < 0 ? indent : indent + 1;

    if (json_is_object(value))
        return write_object(out, value, inside);
    if (json_is_array(value))
        return write_array(out, value, inside);
    if (json_is_real(value))
        return write_real(out, json_real_value(value));
    if (json_is_string(value))
        return sl_json_quote(out, json_string_value(value),
                             json_string_length(value));
    return json_dump_callback(value, json_text_append, out,
                              JSON_ENCODE_ANY | JSON_COMPACT) == 0
               ? SL_OK
               : SL_ENOMEM;
}

enum sl_err sl_json_write(struct buf *out, const json_t *value, bool pretty)
{
    size_t start = out->len;
    enum sl_err rc = json_write_value(out, value, pretty ? 0 : -1);

    if (rc != SL_OK)
        out->len = start;
    return rc;
}

static enum sl_err quote_byte(struct buf *out, unsigned char c)
{
    switch (c) {
    case '"':
        return buf_append_str(out, "\\\"");
    case '\\':
        return buf_append_str(out, "\\\\");
    case '\n':
        return buf_append_str(out, "\\n");
    case '\r':
        return buf_append_str(out, "\\r");
    case '\t':
        return buf_append_str(out, "\\t");
    default:
        return buf_append_char(out, (char)c);
    }
}

enum sl_err sl_json_quote(struct buf *out, const char *text, size_t len)
{
    enum sl_err rc = buf_append_char(out, '"');

    while (len > 0 && rc == SL_OK) {
        char shown[UTF8_SHOWN];
        size_t n;

        utf8_shown(shown, text, len, &n);
        if (n == 1 && (shown[0] == '\0' || memchr("\n\r\t", *text, 3) != NULL))
            rc = quote_byte(out, (unsigned char)*text);
        else if (shown[0] == '\0')
            rc = buf_append(out, text, n);
        else // JSON has no "\\xff": U+FFFD
            rc = buf_append_str(out, shown[1] == 'x' ? "\xef\xbf\xbd" : shown);
        text += n;
        len -= n;
    }
    return rc == SL_OK ? buf_append_char(out, '"') : rc;
}

static enum sl_err json_require_member(const json_t **out, const json_t *object,
                                       const char *key, struct sl_error *err)
{
    const json_t *value = json_object_get(object, key);

    if (value == NULL)
        return sl_fail(err, SL_ENOENT, "key '%s' is missing", key);
    *out = value;
    return SL_OK;
}

static enum sl_err json_wrong_kind(struct sl_error *err, const char *key,
                                   const char *want)
{
    return sl_fail(err, SL_EINVAL, "key '%s' has to be %s", key, want);
}

enum sl_err sl_json_str(const char **out, const json_t *object, const char *key,
                        struct sl_error *err)
{
    const json_t *value = NULL;
    enum sl_err rc = json_require_member(&value, object, key, err);

    if (rc != SL_OK)
        return rc;
    if (!json_is_string(value))
        return json_wrong_kind(err, key, "a string");
    *out = json_string_value(value);
    return SL_OK;
}

enum sl_err sl_json_u64(uint64_t *out, const json_t *object, const char *key,
                        struct sl_error *err)
{
    const json_t *value = NULL;
    enum sl_err rc = json_require_member(&value, object, key, err);

    if (rc != SL_OK)
        return rc;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return json_wrong_kind(err, key, "an integer of at least 0");
    *out = (uint64_t)json_integer_value(value);
    return SL_OK;
}

enum sl_err sl_json_bool(bool *out, const json_t *object, const char *key,
                         struct sl_error *err)
{
    const json_t *value = NULL;
    enum sl_err rc = json_require_member(&value, object, key, err);

    if (rc != SL_OK)
        return rc;
    if (!json_is_boolean(value))
        return json_wrong_kind(err, key, "true or false");
    *out = json_is_true(value);
    return SL_OK;
}
