// SPDX-License-Identifier: Apache-2.0
// common/run/conf_text.c -- what a conf says of itself: help, values, version.
#include <string.h>

#include "common/base/buf.h"
#include "common/run/conf_own.h"

#define COLUMNS 80
#define INDENT 26 // where the text of a flag begins

const char *conf_kind_word(const struct conf_key *key)
{
    switch (key->kind) {
    case CONF_STRING:
        return "TEXT";
    case CONF_INT:
        return "N";
    case CONF_BYTES:
        return "BYTES";
    case CONF_MS:
        return "TIME";
    case CONF_FLOAT:
        return "X";
    case CONF_LIST:
        return "A,B,..";
    case CONF_MULTI:
        return key->unit != NULL ? key->unit : "K=V";
    case CONF_CHOICE:
        return "WORD";
    case CONF_BOOL:
        return "";
    }
    return "";
}

static enum sl_err pad(struct buf *out, size_t n)
{
    return buf_appendf(out, "%*s", (int)n, "");
}

// Words of `text`, broken so that no line passes COLUMNS; the first begins at
// column `at`, the others at `indent`.
static enum sl_err conf_wrap_text(struct buf *out, const char *text, size_t at,
                                  size_t indent)
{
    enum sl_err rc = SL_OK;
    bool first = true;

    while (*text != '\0' && rc == SL_OK) {
        size_t n = strcspn(text, " ");

        if (!first && at + 1 + n > COLUMNS) {
            rc = buf_append_char(out, '\n');
            if (rc == SL_OK)
                rc = pad(out, indent);
            at = indent;
        } else if (!first) {
            rc = buf_append_char(out, ' ');
            at++;
        }
        if (rc == SL_OK)
            rc = buf_append(out, text, n);
        at += n;
        text += n + strspn(text + n, " ");
        first = false;
    }
    return rc == SL_OK ? buf_append_char(out, '\n') : rc;
}

// "Bytes per shard. 1MiB to 1GiB; default 4MiB."
enum sl_err conf_describe(struct buf *out, const struct conf_key *key)
{
    char low[32], high[32];
    bool bounds = (key->min != 0 || key->max != 0) && key->kind != CONF_STRING;
    enum sl_err rc = buf_append_str(out, key->help);

    if (rc == SL_OK && key->choices != NULL)
        rc = buf_appendf(out, " One of %s.", key->choices);
    if (rc == SL_OK && bounds) {
        conf_show_integer(low, sizeof(low), key, key->min);
        conf_show_integer(high, sizeof(high), key, key->max);
        rc = buf_appendf(out, " From %s to %s%s%s.", low, high,
                         key->unit != NULL ? " " : "",
                         key->unit != NULL ? key->unit : "");
    }
    if (rc == SL_OK && key->value != NULL && key->kind != CONF_BOOL)
        rc = buf_appendf(out, " Default %s.",
                         *key->value != '\0' ? key->value : "empty");
    if (rc == SL_OK && key->value != NULL && key->kind == CONF_BOOL &&
        strcmp(key->value, "true") == 0)
        rc = buf_appendf(out, " On by default; --no-%s switches it off.",
                         key->name);
    return rc;
}

static enum sl_err help_key(struct buf *out, const struct conf_key *key)
{
    struct buf text = BUF_INIT;
    size_t start = out->len, used;
    enum sl_err rc;

    if (key->help == NULL)
        return SL_OK;
    if (key->letter != 0)
        rc = buf_appendf(out, "  -%c, --%s %s", key->letter, key->name,
                         conf_kind_word(key));
    else
        rc = buf_appendf(out, "  --%s %s", key->name, conf_kind_word(key));
    used = out->len - start;
    if (rc == SL_OK && used + 1 > INDENT) {
        rc = buf_append_char(out, '\n');
        used = 0;
    }
    if (rc == SL_OK)
        rc = pad(out, INDENT - used);
    if (rc == SL_OK)
        rc = conf_describe(&text, key);
    if (rc == SL_OK)
        rc = conf_wrap_text(out, buf_text(&text), INDENT, INDENT);
    buf_release(&text);
    return rc;
}

enum sl_err conf_help(struct buf *out, const struct conf *c)
{
    const struct conf_about *about = c->about;
    enum sl_err rc = buf_appendf(out, "Usage: %s\n\n", about->usage);

    if (rc == SL_OK)
        rc = conf_wrap_text(out, about->text, 0, 0);
    if (rc == SL_OK && about->example != NULL)
        rc = buf_appendf(out, "\nExample: %s\n", about->example);
    if (rc == SL_OK)
        rc = buf_append_str(out, "\nOptions:\n");
    for (size_t i = 0; i < c->count && rc == SL_OK; i++)
        rc = help_key(out, c->values[i].key);
    if (rc == SL_OK)
        rc = buf_append_char(out, '\n');
    if (rc == SL_OK)
        rc = conf_wrap_text(
            out,
            "Each option can also stand in the environment "
            "(--some-key as SLUICE_SOME_KEY) or in the file of --config "
            "(some-key = value). A flag wins over the environment, the "
            "environment over the file.",
            0, 0);
    if (rc == SL_OK && about->after != NULL)
        rc = buf_appendf(out, "\n%s\n", about->after);
    return rc;
}

// Appends a value as the file's reader takes it back: that drops blanks around
// a value, then a pair of quotes. A value with a line break becomes a comment.
static enum sl_err conf_print_value(struct buf *out, const struct conf_value *v,
                                    const char *text)
{
    const char *origin = conf_origin_name(v->origin), *name = v->key->name;
    const char *quote = "";
    size_t n = strlen(text);

    if (strchr(text, '\n') != NULL)
        return buf_appendf(out,
                           "# %s\n# %s = (a value with a line break, which no "
                           "file can have)\n",
                           origin, name);
    if (n > 0 && (strchr(CONF_BLANKS, text[0]) != NULL ||
                  strchr(CONF_BLANKS, text[n - 1]) != NULL ||
                  (n >= 2 && text[0] == '"' && text[n - 1] == '"')))
        quote = "\"";
    return buf_appendf(out, "# %s\n%s = %s%s%s\n", origin, name, quote, text,
                       quote);
}

// Can be read back as a file. The origin is a comment on a line of its own,
// since a value may hold '#'.
enum sl_err conf_print(struct buf *out, const struct conf *c)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; i < c->count && rc == SL_OK; i++) {
        const struct conf_value *v = &c->values[i];
        const char *name = v->key->name;

        if (strcmp(name, "help") == 0 || strcmp(name, "version") == 0 ||
            strcmp(name, "print-config") == 0 || strcmp(name, "config") == 0 ||
            strcmp(name, "man") == 0)
            continue;
        if (!v->set)
            rc = buf_appendf(out, "# unset\n# %s =\n", name);
        else if (v->key->secret)
            rc = buf_appendf(out, "# %s\n# %s = (set)\n",
                             conf_origin_name(v->origin), name);
        else if (v->key->kind != CONF_MULTI)
            rc = conf_print_value(out, v, v->text);
        else // one line for each word: they add, and may hold commas
            for (size_t k = 0; k < v->list_count && rc == SL_OK; k++)
                rc = conf_print_value(out, v, v->list[k]);
    }
    return rc;
}

enum sl_err conf_version(struct buf *out, const struct conf *c)
{
    return buf_appendf(out, "%s (sluice) %s\n", c->about->program,
                       SLUICE_VERSION);
}
