// SPDX-License-Identifier: Apache-2.0
// common/run/conf_man.c -- manual pages in mdoc, of the tables that --help is
// made of.
#include <ctype.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/run/conf_own.h"

#define COLUMNS 72
#define DATE "July 1, 2026" // of no build: the same source is the same page

// A word that mdoc takes as it is.
static enum sl_err conf_man_word(struct buf *out, const char *text, size_t n,
                                 bool first)
{
    enum sl_err rc = SL_OK;

    if (first && (*text == '.' || *text == '\''))
        rc = buf_append_str(out, "\\&");
    for (size_t i = 0; rc == SL_OK && i < n; i++)
        rc = text[i] == '\\' ? buf_append_str(out, "\\e")
                             : buf_append_char(out, text[i]);
    return rc;
}

// A line ends with a sentence.
static bool ends_sentence(const char *text, size_t n)
{
    while (n > 0 && strchr(")'\"", text[n - 1]) != NULL)
        n--;
    return n > 0 && strchr(".!?", text[n - 1]) != NULL;
}

enum sl_err conf_man_text(struct buf *out, const char *text)
{
    enum sl_err rc = SL_OK;
    size_t at = 0;
    bool ended = false;

    text += strspn(text, " \n");
    while (*text != '\0' && rc == SL_OK) {
        size_t n = strcspn(text, " \n");
        bool first = at == 0;

        if (!first && (ended || at + 1 + n > COLUMNS)) {
            rc = buf_append_char(out, '\n');
            first = true;
            at = 0;
        } else if (!first) {
            rc = buf_append_char(out, ' ');
            at++;
        }
        if (rc == SL_OK)
            rc = conf_man_word(out, text, n, first);
        ended = ends_sentence(text, n);
        at += n;
        text += n + strspn(text + n, " \n");
    }
    return rc == SL_OK && at > 0 ? buf_append_char(out, '\n') : rc;
}

// Each of its lines.
enum sl_err conf_man_line(struct buf *out, const char *text)
{
    enum sl_err rc = buf_append_str(out, ".Bd -literal -offset indent\n");

    while (rc == SL_OK && *text != '\0') {
        size_t n;

        text += strspn(text, " \n");
        n = strcspn(text, "\n");
        rc = conf_man_word(out, text, n, true);
        if (rc == SL_OK)
            rc = buf_append_char(out, '\n');
        text += n;
    }
    return rc == SL_OK ? buf_append_str(out, ".Ed\n") : rc;
}

enum sl_err conf_man_head(struct buf *out, const char *name, int section,
                          const char *brief)
{
    enum sl_err rc = buf_appendf(out, ".Dd %s\n.Dt ", DATE);

    for (const char *c = name; rc == SL_OK && *c != '\0'; c++)
        rc = buf_append_char(out, (char)toupper((unsigned char)*c));
    if (rc == SL_OK)
        rc = buf_appendf(out, " %d\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", section,
                         name, brief);
    return rc;
}

static enum sl_err man_key(struct buf *out, const struct conf_key *key)
{
    const char *value = conf_kind_word(key);
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    if (key->help == NULL)
        return SL_OK;
    rc = buf_append_str(out, ".It ");
    if (rc == SL_OK && key->letter != 0)
        rc = buf_appendf(out, "Fl %c , ", key->letter);
    if (rc == SL_OK)
        rc = buf_appendf(out, "Fl -%s", key->name);
    if (rc == SL_OK && *value != '\0')
        rc = buf_appendf(out, " Ar \"%s\"", value);
    if (rc == SL_OK)
        rc = buf_append_char(out, '\n');
    if (rc == SL_OK)
        rc = conf_describe(&text, key);
    if (rc == SL_OK)
        rc = conf_man_text(out, buf_text(&text));
    buf_release(&text);
    return rc;
}

#define BEGIN ".Bl -tag -width Ds\n"
#define END ".El\n"

enum sl_err conf_man_keys(struct buf *out, const struct conf_key *keys)
{
    enum sl_err rc = buf_append_str(out, BEGIN);

    for (; rc == SL_OK && keys->name != NULL; keys++)
        rc = man_key(out, keys);
    return rc == SL_OK ? buf_append_str(out, END) : rc;
}

// The text up to its first period, without it.
static enum sl_err brief(struct buf *out, const char *text)
{
    size_t n = strcspn(text, ".:;");

    return buf_append(out, text, n);
}

static enum sl_err options(struct buf *out, const struct conf *c)
{
    enum sl_err rc = buf_append_str(out, "The options are:\n" BEGIN);

    for (size_t i = 0; rc == SL_OK && i < c->count; i++)
        rc = man_key(out, c->values[i].key);
    return rc == SL_OK ? buf_append_str(out, END) : rc;
}

enum sl_err conf_man_environment(struct buf *out)
{
    return buf_append_str(
        out, ".Sh ENVIRONMENT\n"
             "Each option can also stand in the environment, as\n"
             ".Ev SLUICE_SOME_KEY ,\n"
             "or in the file of\n"
             ".Fl -config ,\n"
             "as\n"
             ".Ql some-key = value .\n"
             "A flag wins over the environment, the environment over the "
             "file.\n");
}

static enum sl_err conf_man_last_sections(struct buf *out,
                                          const struct conf_about *about)
{
    enum sl_err rc = conf_man_environment(out);

    if (rc == SL_OK && about->after != NULL)
        rc = buf_append_str(out, ".Sh EXIT STATUS\n");
    if (rc == SL_OK && about->after != NULL)
        rc = conf_man_text(out, about->after);
    if (rc == SL_OK && about->example != NULL)
        rc = buf_append_str(out, ".Sh EXAMPLES\n");
    if (rc == SL_OK && about->example != NULL)
        rc = conf_man_line(out, about->example);
    return rc;
}

enum sl_err conf_man(struct buf *out, const struct conf *c)
{
    const struct conf_about *about = c->about;
    struct buf says = BUF_INIT;
    enum sl_err rc = brief(&says, about->text);

    if (rc == SL_OK)
        rc = conf_man_head(out, about->program, 8, buf_text(&says));
    buf_release(&says);
    if (rc == SL_OK)
        rc = buf_append_str(out, ".Sh SYNOPSIS\n.Nm\n.Op Ar option ...\n"
                                 ".Sh DESCRIPTION\n");
    if (rc == SL_OK)
        rc = conf_man_text(out, about->text);
    if (rc == SL_OK)
        rc = buf_append_str(out, ".Pp\n");
    if (rc == SL_OK)
        rc = options(out, c);
    return rc == SL_OK ? conf_man_last_sections(out, about) : rc;
}
