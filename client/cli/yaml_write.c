// SPDX-License-Identifier: Apache-2.0
// client/cli/yaml_write.c -- JSON values as the YAML that people write:
// mappings in blocks, and on one line what is short and has nothing nested but
// lists.
#include <ctype.h>
#include <string.h>

#include "client/cli/yaml.h"
#include "common/base/json.h"

#define COLUMNS 100

// A word that YAML reads as itself, without quotes.
static bool yaml_is_plain_word(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 ||
        !(isalpha((unsigned char)text[0]) || text[0] == '_' || text[0] == '/'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("_-./", text[i]) == NULL)
            return false;
    return strcmp(text, "null") != 0 && strcmp(text, "true") != 0 &&
           strcmp(text, "false") != 0;
}

static enum sl_err yaml_write_word(struct buf *out, const char *text)
{
    return yaml_is_plain_word(text) ? buf_append_str(out, text)
                                    : sl_json_quote(out, text, strlen(text));
}

static enum sl_err flow(struct buf *out, const json_t *value)
{
    enum sl_err rc = SL_OK;
    const char *key;
    json_t *at;
    size_t i;
    bool first = true;

    if (json_is_string(value))
        return yaml_write_word(out, json_string_value(value));
    if (json_is_array(value)) {
        rc = buf_append_str(out, "[");
        json_array_foreach(value, i, at)
        {
            if (rc == SL_OK && i > 0)
                rc = buf_append_str(out, ", ");
            if (rc == SL_OK)
                rc = flow(out, at);
        }
        return rc == SL_OK ? buf_append_str(out, "]") : rc;
    }
    if (!json_is_object(value))
        return sl_json_write(out, value, false);
    rc = buf_append_str(out, "{");
    json_object_foreach((json_t *)(uintptr_t)value, key, at)
    {
        if (rc == SL_OK && !first)
            rc = buf_append_str(out, ", ");
        first = false;
        if (rc == SL_OK)
            rc = yaml_write_word(out, key);
        if (rc == SL_OK)
            rc = buf_append_str(out, ": ");
        if (rc == SL_OK)
            rc = flow(out, at);
    }
    return rc == SL_OK ? buf_append_str(out, "}") : rc;
}

// Nothing in it, or lists of scalars alone.
static bool is_flat(const json_t *value)
{
    const char *key;
    json_t *at;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)value, key, at)
    {
        if (json_object_size(at) > 0 || !is_flat(at))
            return false;
    }
    json_array_foreach(value, i, at)
    {
        if (json_object_size(at) > 0 || json_array_size(at) > 0)
            return false;
    }
    return true;
}

static enum sl_err indent(struct buf *out, unsigned by)
{
    return buf_appendf(out, "%*s", (int)by, "");
}

static enum sl_err block(struct buf *out, const json_t *object, unsigned by);

// What comes after "key:", to the end of its lines.
static enum sl_err yaml_write_member(struct buf *out, const json_t *value,
                                     unsigned by)
{
    size_t before = out->len, i;
    enum sl_err rc = SL_OK;
    json_t *at;

    if (!json_is_object(value) && is_flat(value)) {
        rc = buf_append_str(out, " ");
        if (rc == SL_OK)
            rc = flow(out, value);
        return rc == SL_OK ? buf_append_str(out, "\n") : rc;
    }
    if (is_flat(value)) {
        rc = buf_append_str(out, " ");
        if (rc == SL_OK)
            rc = flow(out, value);
        if (rc == SL_OK &&
            (out->len - before < COLUMNS - by || json_object_size(value) == 0))
            return buf_append_str(out, "\n");
        out->len = before;
    }
    if (rc == SL_OK)
        rc = buf_append_str(out, "\n");
    if (rc == SL_OK && json_is_object(value))
        return block(out, value, by + 2);
    json_array_foreach(value, i, at)
    {
        if (rc == SL_OK)
            rc = indent(out, by + 2);
        if (rc == SL_OK)
            rc = buf_append_str(out, "- ");
        if (rc == SL_OK)
            rc = flow(out, at);
        if (rc == SL_OK)
            rc = buf_append_str(out, "\n");
    }
    return rc;
}

static enum sl_err block(struct buf *out, const json_t *object, unsigned by)
{
    enum sl_err rc = SL_OK;
    const char *key;
    json_t *at;

    json_object_foreach((json_t *)(uintptr_t)object, key, at)
    {
        if (rc == SL_OK)
            rc = indent(out, by);
        if (rc == SL_OK)
            rc = yaml_write_word(out, key);
        if (rc == SL_OK)
            rc = buf_append_str(out, ":");
        if (rc == SL_OK)
            rc = yaml_write_member(out, at, by);
    }
    return rc;
}

enum sl_err yaml_write(struct buf *out, const json_t *object)
{
    return block(out, object, 0);
}
