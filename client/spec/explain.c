// SPDX-License-Identifier: Apache-2.0
// client/spec/explain.c -- what may stand in a job spec: for people, a field at
// a time, and for editors as a schema.
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/spec/fields.h"
#include "client/cli/verbs.h"
#include "common/base/json.h"
#include "common/base/suggest.h"
#include "proto/job.pb-c.h"
#include "proto/pbjson.h"
#include "proto/spec.h"

#define NAMES_MAX 128 // of one message

typedef ProtobufCFieldDescriptor field_type;
typedef ProtobufCMessageDescriptor message_type;

static const message_type *explain_field_message(const field_type *f)
{
    return f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
}

static bool is_list(const field_type *f)
{
    return f->label == PROTOBUF_C_LABEL_REPEATED;
}

static const char *explain_type_name(const field_type *f, bool schema)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        return schema ? "string" : "text";
    case PROTOBUF_C_TYPE_BOOL:
        return schema ? "boolean" : "true or false";
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FLOAT:
        return "number";
    case PROTOBUF_C_TYPE_MESSAGE:
        return schema ? "object" : "keys";
    default:
        return schema ? "integer" : "whole number";
    }
}

static enum sl_err comment_of(struct buf *out, const message_type *m,
                              const field_type *f)
{
    return fields_comment(out, m->short_name, f->name);
}

// ---- defaults, as a check fills them in

// The smallest job: all else in it after its check is a default.
static const char smallest[] =
    "{\"name\":\"x\",\"model\":{\"input_shape\":[1],\"layers\":["
    "{\"type\":\"dense\",\"units\":1,\"activation\":\"sigmoid\"}]},"
    "\"loss\":\"binary_crossentropy\","
    "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.2},"
    "\"data\":{\"train\":{\"format\":\"synthetic\",\"generator\":\"binary\","
    "\"samples\":1,\"seed\":1}},\"train\":{\"batch\":1,\"epochs\":1}}";

// *out: the job with its defaults, *said without them; NULL: no memory.
static void read_defaults(json_t **out, json_t **said)
{
    ProtobufCMessage *msg = NULL;

    *out = *said = NULL;
    if (sl_json_parse(said, "smallest", smallest, strlen(smallest), NULL,
                      NULL) == SL_OK &&
        pbjson_read(&msg, &sluice__v1__job_spec__descriptor, *said, "", NULL) ==
            SL_OK &&
        spec_check((Sluice__V1__JobSpec *)msg, NULL) == SL_OK)
        (void)pbjson_write(out, msg);
    wire_free(msg);
}

// "Default: 4." if the field has one that no other value decides.
static enum sl_err put_default(struct buf *out, const json_t *all,
                               const json_t *said, const char *name)
{
    const json_t *value = json_object_get(all, name);
    enum sl_err rc;

    if (value == NULL || json_is_object(value) || json_is_array(value) ||
        json_object_get(said, name) != NULL)
        return SL_OK;
    rc = buf_append_str(out, "  Default: ");
    if (rc == SL_OK && json_is_string(value))
        rc = buf_append_str(out, json_string_value(value));
    else if (rc == SL_OK)
        rc = sl_json_write(out, value, false);
    return rc == SL_OK ? buf_append_str(out, "\n") : rc;
}

// ---- for people

static enum sl_err put_lines(struct buf *out, const char *text)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && *text != '\0') {
        size_t n = strcspn(text, "\n");

        rc = buf_appendf(out, "  %.*s\n", (int)n, text);
        text += n + (text[n] != '\0');
    }
    return rc;
}

static enum sl_err explain_put_field(struct buf *out, const char *path,
                                     const message_type *m, const field_type *f,
                                     const json_t *all, const json_t *said)
{
    struct buf comment = BUF_INIT;
    enum sl_err rc = buf_appendf(
        out, "%s%s%s  %s%s\n", path, path[0] != '\0' ? "." : "", f->name,
        is_list(f) ? "list of " : "", explain_type_name(f, false));

    if (rc == SL_OK)
        rc = comment_of(&comment, m, f);
    if (rc == SL_OK)
        rc = put_lines(out, buf_text(&comment));
    if (rc == SL_OK)
        rc = put_default(out, all, said, f->name);
    buf_release(&comment);
    return rc;
}

static enum sl_err explain_unknown_field(const char *path,
                                         const message_type *m,
                                         const char *word, struct sl_error *err)
{
    const char *names[NAMES_MAX], *near;
    size_t n = 0;

    for (unsigned i = 0; i < m->n_fields && n < NAMES_MAX; i++)
        names[n++] = m->fields[i].name;
    near = sl_suggest(word, names, n);
    return sl_fail(err, SL_ENOENT, "%s%sthere is no '%.60s'%s%s%s", path,
                   path[0] != '\0' ? ": " : "", word,
                   near != NULL ? "; did you mean '" : "",
                   near != NULL ? near : "", near != NULL ? "'?" : "");
}

// "train.mode", word by word; numbers of lists ("layers[0]") are passed over.
static enum sl_err put_path(struct buf *out, const char *asked,
                            struct sl_error *err)
{
    const message_type *m = &sluice__v1__job_spec__descriptor;
    char path[200] = "", word[64];
    json_t *all, *said;
    const json_t *here, *given;
    enum sl_err rc = SL_OK;

    read_defaults(&all, &said);
    here = all, given = said;
    while (rc == SL_OK && m != NULL && *asked != '\0') {
        size_t n = strcspn(asked, ".["), rest = strcspn(asked, ".");
        const field_type *f;

        snprintf(word, sizeof(word), "%.*s", (int)n, asked);
        asked += rest + (asked[rest] == '.');
        f = protobuf_c_message_descriptor_get_field_by_name(m, word);
        if (f == NULL) {
            rc = explain_unknown_field(path, m, word, err);
            break;
        }
        if (*asked == '\0')
            rc = explain_put_field(out, path, m, f, here, given);
        m = explain_field_message(f);
        if (m == NULL && *asked != '\0')
            rc = sl_fail(err, SL_ENOENT, "%s%s%s has no keys", path,
                         path[0] != '\0' ? "." : "", word);
        here = json_object_get(here, word);
        given = json_object_get(given, word);
        n = strlen(path);
        snprintf(path + n, sizeof(path) - n, "%s%s", n > 0 ? "." : "", word);
    }
    for (unsigned i = 0; rc == SL_OK && m != NULL && i < m->n_fields; i++) {
        if (i > 0 || out->len > 0)
            rc = buf_append_char(out, '\n');
        if (rc == SL_OK)
            rc = explain_put_field(out, path, m, &m->fields[i], here, given);
    }
    json_decref(all);
    json_decref(said);
    return rc;
}

// ---- for editors

static json_t *schema_of_message(const message_type *m, json_t *definitions);

static json_t *schema_of_value(const field_type *f, json_t *definitions)
{
    const message_type *m = explain_field_message(f);
    bool number =
        f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_UINT64;

    if (m == NULL)
        return number ? json_pack("{s:s, s:i}", "type",
                                  explain_type_name(f, true), "minimum", 0)
                      : json_pack("{s:s}", "type", explain_type_name(f, true));
    if (json_object_get(definitions, m->short_name) == NULL) {
        json_object_set_new(definitions, m->short_name, json_object());
        json_object_set_new(definitions, m->short_name,
                            schema_of_message(m, definitions));
    }
    return json_pack("{s:s+}", "$ref", "#/definitions/", m->short_name);
}

// One value may stand where a list is expected.
static json_t *schema_of_field(const message_type *m, const field_type *f,
                               json_t *definitions)
{
    struct buf comment = BUF_INIT;
    json_t *one = schema_of_value(f, definitions), *schema;

    if (is_list(f))
        schema = json_pack("{s:[O, {s:s, s:o}]}", "anyOf", one, "type", "array",
                           "items", one);
    else if (explain_field_message(f) != NULL)
        schema = json_pack("{s:[o]}", "allOf", one);
    else
        schema = one;
    if (comment_of(&comment, m, f) == SL_OK && comment.len > 0)
        json_object_set_new(schema, "description",
                            json_string(buf_text(&comment)));
    buf_release(&comment);
    return schema;
}

static json_t *schema_of_message(const message_type *m, json_t *definitions)
{
    json_t *properties = json_object();

    for (unsigned i = 0; i < m->n_fields; i++)
        json_object_set_new(properties, m->fields[i].name,
                            schema_of_field(m, &m->fields[i], definitions));
    return json_pack("{s:s, s:o, s:b}", "type", "object", "properties",
                     properties, "additionalProperties", 0);
}

static json_t *schema(void)
{
    json_t *definitions = json_object();
    json_t *all =
        schema_of_message(&sluice__v1__job_spec__descriptor, definitions);

    json_object_set_new(all, "$schema",
                        json_string("http://json-schema.org/draft-07/schema#"));
    json_object_set_new(all, "title", json_string("A job of Sluice"));
    json_object_set_new(all, "definitions", definitions);
    return all;
}

int verb_explain(struct cli *cli)
{
    const char *asked = cli_arg(cli, 0);
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    json_t *object = NULL;
    enum sl_err rc;

    if (conf_bool(cli->conf, "schema")) {
        object = schema();
        rc = sl_json_write(&text, object, true);
        if (rc == SL_OK)
            rc = buf_append_char(&text, '\n');
        json_decref(object);
    } else {
        rc = put_path(&text, asked != NULL ? asked : "", &err);
        if (rc == SL_ENOENT) {
            buf_release(&text);
            return cli_fail(&err);
        }
    }
    rc = out_text(&text, rc, &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
