// SPDX-License-Identifier: Apache-2.0
// client/cli/yaml.c -- the reader of YAML events into JSON values, with bounds
// on depth, size and aliases.
#include "client/cli/yaml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/buf.h"

// An open mapping or sequence.
struct frame {
    json_t *node;    // borrowed: the parent, or the reader, holds it
    char *key;       // of a mapping: read, its value comes next; owned
    size_t path_len; // of the container's own path
};

struct yaml_reader {
    yaml_parser_t parser;
    const char *name;
    json_t *root;    // owned until handed out
    json_t *lines;   // owned; NULL: not wanted
    struct buf path; // of the value at hand
    struct frame stack[YAML_DEPTH_MAX];
    unsigned depth;
    unsigned documents;
};

static unsigned long yaml_event_line(const yaml_event_t *event)
{
    return (unsigned long)event->start_mark.line + 1;
}

#define REFUSE(r, event, err, ...)                                             \
    yaml_refuse((r), yaml_event_line(event), (err), __VA_ARGS__)

static enum sl_err yaml_refuse(const struct yaml_reader *r, unsigned long line,
                               struct sl_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static enum sl_err yaml_refuse(const struct yaml_reader *r, unsigned long line,
                               struct sl_error *err, const char *fmt, ...)
{
    char text[SL_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return sl_fail(err, SL_EINVAL, "%s:%lu: %s", r->name, line, text);
}

// ---- scalars

// Does the text follow JSON's grammar of numbers? *real: with a fraction or
// an exponent.
static bool is_number(const char *s, bool *real)
{
    *real = false;
    if (*s == '-')
        s++;
    if (*s == '0')
        s++;
    else if (*s >= '1' && *s <= '9')
        s += strspn(s, "0123456789");
    else
        return false;
    if (*s == '.') {
        size_t digits = strspn(s + 1, "0123456789");

        if (digits == 0)
            return false;
        *real = true;
        s += 1 + digits;
    }
    if (*s == 'e' || *s == 'E') {
        size_t digits;

        s++;
        if (*s == '+' || *s == '-')
            s++;
        digits = strspn(s, "0123456789");
        if (digits == 0)
            return false;
        *real = true;
        s += digits;
    }
    return *s == '\0';
}

static enum sl_err integer(const struct yaml_reader *r,
                           const yaml_event_t *event, const char *text,
                           json_t **out, struct sl_error *err)
{
    long long small;

    errno = 0;
    small = strtoll(text, NULL, 10);
    if (errno == 0) {
        *out = json_integer(small);
        return SL_OK;
    }
    errno = 0;
    if (text[0] != '-')
        (void)strtoull(text, NULL, 10);
    if (text[0] == '-' || errno != 0)
        return REFUSE(r, event, err, "%s does not fit into 64 bits", text);
    *out = json_string(text);
    return SL_OK;
}

static enum sl_err yaml_parse_real(const struct yaml_reader *r,
                                   const yaml_event_t *event, const char *text,
                                   json_t **out, struct sl_error *err)
{
    double value = strtod(text, NULL);

    *out = json_real(value); // NULL for an infinity
    if (*out == NULL)
        return REFUSE(r, event, err, "%s is too large for a number", text);
    return SL_OK;
}

static enum sl_err scalar(const struct yaml_reader *r,
                          const yaml_event_t *event, json_t **out,
                          struct sl_error *err)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    bool is_real;

    if (plain && len == 0)
        return REFUSE(r, event, err,
                      "a value is missing here (write \"\" for an empty text)");
    if (strlen(text) != len)
        return REFUSE(r, event, err, "a text may not contain a NUL byte");
    if (plain && strcmp(text, "null") == 0) {
        *out = json_null();
    } else if (plain && strcmp(text, "true") == 0) {
        *out = json_true();
    } else if (plain && strcmp(text, "false") == 0) {
        *out = json_false();
    } else if (plain && is_number(text, &is_real)) {
        return is_real ? yaml_parse_real(r, event, text, out, err)
                       : integer(r, event, text, out, err);
    } else {
        *out = json_stringn(text, len);
        if (*out == NULL)
            return REFUSE(r, event, err, "a text is not valid UTF-8");
    }
    return SL_OK;
}

// ---- containers

static enum sl_err remember_line(struct yaml_reader *r,
                                 const yaml_event_t *event)
{
    if (r->lines == NULL || r->path.len == 0)
        return SL_OK;
    if (json_object_set_new(r->lines, buf_text(&r->path),
                            json_integer((json_int_t)yaml_event_line(event))) !=
        0)
        return SL_ENOMEM;
    return SL_OK;
}

static enum sl_err extend_path(struct yaml_reader *r, const struct frame *top)
{
    r->path.len = top->path_len;
    if (r->path.data != NULL)
        r->path.data[r->path.len] = 0;
    if (json_is_array(top->node))
        return buf_appendf(&r->path, "[%zu]", json_array_size(top->node));
    return buf_appendf(&r->path, "%s%s", top->path_len > 0 ? "." : "",
                       top->key);
}

static enum sl_err yaml_take_key(struct yaml_reader *r,
                                 const yaml_event_t *event, struct frame *top,
                                 struct sl_error *err)
{
    const char *text = (const char *)event->data.scalar.value;

    if (event->type != YAML_SCALAR_EVENT)
        return REFUSE(r, event, err, "a key must be a plain word");
    if (strcmp(text, "<<") == 0 &&
        event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return REFUSE(r, event, err, "merge keys (<<) are not supported");
    if (event->data.scalar.length == 0)
        return REFUSE(r, event, err, "a key is missing before ':'");
    if (strlen(text) != event->data.scalar.length)
        return REFUSE(r, event, err, "a key may not contain a NUL byte");
    if (json_object_get(top->node, text) != NULL)
        return REFUSE(r, event, err, "key '%s' appears twice", text);
    top->key = strdup(text);
    return top->key != NULL ? SL_OK : SL_ENOMEM;
}

// Puts a value where the document is now; takes the reference.
static enum sl_err yaml_put_value(struct yaml_reader *r,
                                  const yaml_event_t *event, json_t *value,
                                  struct sl_error *err)
{
    struct frame *top;
    int rc;

    if (value == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", r->name);
    if (r->depth == 0) {
        r->root = value;
        return SL_OK;
    }
    top = &r->stack[r->depth - 1];
    if (extend_path(r, top) != SL_OK || remember_line(r, event) != SL_OK) {
        json_decref(value);
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", r->name);
    }
    if (json_is_array(top->node)) {
        rc = json_array_append_new(top->node, value);
    } else {
        rc = json_object_set_new(top->node, top->key, value);
        free(top->key);
        top->key = NULL;
    }
    if (rc != 0)
        return REFUSE(r, event, err, "a key is not valid UTF-8");
    return SL_OK;
}

static enum sl_err open_container(struct yaml_reader *r,
                                  const yaml_event_t *event, json_t *node,
                                  struct sl_error *err)
{
    enum sl_err rc;

    if (r->depth == YAML_DEPTH_MAX) {
        json_decref(node);
        return sl_fail(err, SL_ERANGE, "%s:%lu: nested deeper than %d levels",
                       r->name, yaml_event_line(event), YAML_DEPTH_MAX);
    }
    rc = yaml_put_value(r, event, node, err);
    if (rc != SL_OK)
        return rc;
    r->stack[r->depth++] = (struct frame){node, NULL, r->path.len};
    return SL_OK;
}

// ---- events

static enum sl_err no_extras(const struct yaml_reader *r,
                             const yaml_event_t *event,
                             const yaml_char_t *anchor, const yaml_char_t *tag,
                             struct sl_error *err)
{
    if (anchor != NULL)
        return REFUSE(r, event, err, "anchors (&%s) are not supported",
                      (const char *)anchor);
    if (tag != NULL)
        return REFUSE(r, event, err, "tags (%s) are not supported",
                      (const char *)tag);
    return SL_OK;
}

static enum sl_err on_scalar(struct yaml_reader *r, const yaml_event_t *event,
                             struct sl_error *err)
{
    struct frame *top = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    json_t *value = NULL;
    enum sl_err rc = no_extras(r, event, event->data.scalar.anchor,
                               event->data.scalar.tag, err);

    if (rc != SL_OK)
        return rc;
    if (top != NULL && json_is_object(top->node) && top->key == NULL)
        return yaml_take_key(r, event, top, err);
    rc = scalar(r, event, &value, err);
    return rc == SL_OK ? yaml_put_value(r, event, value, err) : rc;
}

static enum sl_err on_open(struct yaml_reader *r, const yaml_event_t *event,
                           struct sl_error *err)
{
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    struct frame *top = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    enum sl_err rc;

    rc = mapping ? no_extras(r, event, event->data.mapping_start.anchor,
                             event->data.mapping_start.tag, err)
                 : no_extras(r, event, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag, err);
    if (rc != SL_OK)
        return rc;
    if (top != NULL && json_is_object(top->node) && top->key == NULL)
        return yaml_take_key(r, event, top, err); // refuses
    return open_container(r, event, mapping ? json_object() : json_array(),
                          err);
}

static void on_close(struct yaml_reader *r)
{
    r->path.len = r->stack[--r->depth].path_len;
    if (r->path.data != NULL)
        r->path.data[r->path.len] = 0;
}

static enum sl_err yaml_on_event(struct yaml_reader *r,
                                 const yaml_event_t *event,
                                 struct sl_error *err)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0)
            return REFUSE(r, event, err, "only one document is allowed");
        return SL_OK;
    case YAML_ALIAS_EVENT:
        return REFUSE(r, event, err, "aliases (*%s) are not supported",
                      (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        return on_scalar(r, event, err);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_open(r, event, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_close(r);
        return SL_OK;
    default:
        return SL_OK;
    }
}

static enum sl_err bad_syntax(const struct yaml_reader *r, struct sl_error *err)
{
    const yaml_parser_t *p = &r->parser;

    if (p->error == YAML_MEMORY_ERROR)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", r->name);
    return yaml_refuse(r, (unsigned long)p->problem_mark.line + 1, err,
                       "%s%s%s", p->problem != NULL ? p->problem : "not YAML",
                       p->context != NULL ? " " : "",
                       p->context != NULL ? p->context : "");
}

static enum sl_err yaml_read_events(struct yaml_reader *r, struct sl_error *err)
{
    for (unsigned events = 0;; events++) {
        yaml_event_t event;
        bool last;
        enum sl_err rc;

        if (events == YAML_EVENTS_MAX)
            return sl_fail(err, SL_ERANGE, "%s: more than %d values and marks",
                           r->name, YAML_EVENTS_MAX);
        if (!yaml_parser_parse(&r->parser, &event))
            return bad_syntax(r, err);
        last = event.type == YAML_STREAM_END_EVENT;
        rc = yaml_on_event(r, &event, err);
        yaml_event_delete(&event);
        if (rc != SL_OK)
            return rc;
        if (last)
            break;
    }
    if (r->root == NULL)
        return sl_fail(err, SL_EINVAL, "%s: the file is empty", r->name);
    return SL_OK;
}

enum sl_err yaml_read(json_t **out, json_t **lines, const char *name,
                      const char *text, size_t len, struct sl_error *err)
{
    struct yaml_reader r = {.name = name};
    enum sl_err rc;

    if (len > YAML_BYTES_MAX)
        return sl_fail(err, SL_ERANGE, "%s: longer than %zu bytes", name,
                       YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&r.parser))
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    r.lines = lines != NULL ? json_object() : NULL;
    if (lines != NULL && r.lines == NULL)
        rc = sl_fail(err, SL_ENOMEM, "%s: out of memory", name);
    else
        rc = yaml_read_events(&r, err);
    if (rc == SL_OK) {
        *out = r.root;
        if (lines != NULL)
            *lines = r.lines;
    } else {
        json_decref(r.root);
        json_decref(r.lines);
    }
    for (unsigned i = 0; i < r.depth; i++)
        free(r.stack[i].key);
    buf_release(&r.path);
    yaml_parser_delete(&r.parser);
    return rc;
}
