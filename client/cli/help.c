// SPDX-License-Identifier: Apache-2.0
// client/cli/help.c -- help texts, and the flags that all verbs have.
// Calls up: verb_table.c, since the texts are those of its rows.
#include "client/cli/help.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 80

const struct conf_key cli_globals[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .help = "host:port, unix:/path, or a list with commas; without it, that "
             "of your 'sluice up', or 127.0.0.1:7070."},
    {.name = "timeout",
     .kind = CONF_MS,
     .value = "10s",
     .min = 100,
     .max = 3600000,
     .help = "Time to wait for an answer."},
    {.name = "output",
     .letter = 'o',
     .kind = CONF_CHOICE,
     .value = "text",
     .choices = "text|wide|json|jsonl|yaml|name",
     .help = "Form of the data on stdout."},
    {.name = "color",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "Colours on a terminal (NO_COLOR is honoured)."},
    {.name = "tls-ca",
     .kind = CONF_STRING,
     .help = "Certificate of the authority (PEM)."},
    {.name = "tls-cert", .kind = CONF_STRING, .help = "Our certificate (PEM)."},
    {.name = "tls-key",
     .kind = CONF_STRING,
     .help = "Its key (PEM, mode 0600)."},
    {.name = NULL},
};

const struct cli_exit_row cli_exits[] = {
#define CLI_EXIT_ROW(name, code, text) {code, text},
    CLI_EXIT_MAP(CLI_EXIT_ROW)
#undef CLI_EXIT_ROW
        {0, NULL},
};

static bool may_exit(const struct cli_verb *verb, int code)
{
    if (code == CLI_EXIT_OK || code == CLI_EXIT_FAILED ||
        code == CLI_EXIT_USAGE)
        return true;
    if (code == CLI_EXIT_UNAVAILABLE || code == CLI_EXIT_DENIED)
        if (verb->remote)
            return true;
    for (const int *p = verb->exits; p != NULL && *p != 0; p++)
        if (*p == code)
            return true;
    return false;
}

// "Exit status: 0 ok; 1 ...", broken before COLUMNS.
static enum sl_err exit_text(struct buf *out, const struct cli_verb *verb)
{
    size_t column;
    enum sl_err rc = buf_append_str(out, "Exit status:");

    column = strlen("Exit status:");
    for (const struct cli_exit_row *e = cli_exits; rc == SL_OK && e->text;
         e++) {
        char word[64];
        int n;

        if (!may_exit(verb, e->code))
            continue;
        n = snprintf(word, sizeof(word), " %d %s%s", e->code, e->text,
                     e[1].text != NULL ? ";" : "");
        if (column + (size_t)n > COLUMNS - 1) {
            rc = buf_append_str(out, "\n ");
            column = 1;
        }
        if (rc == SL_OK)
            rc = buf_append_str(out, word);
        column += (size_t)n;
    }
    if (rc == SL_OK && out->data[out->len - 1] == ';')
        out->len--;
    return rc == SL_OK ? buf_append_str(out, ".\n") : rc;
}

enum sl_err cli_help(struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "Usage: sluice [OPTION]... VERB [ARGUMENT]...\n\n"
             "Trains models on machines that come and go: a coordinator hands "
             "out work,\nworkers compute gradients, psservers keep the "
             "parameters.\n\nVerbs:\n");

    for (const struct cli_verb *v = cli_verbs; rc == SL_OK && v->name; v++)
        rc = buf_appendf(out, "  %-12s %s\n", v->name, v->brief);
    if (rc == SL_OK)
        rc = buf_append_str(
            out, "\nOptions before or after the verb: --coordinator ADDRESS, "
                 "--timeout TIME,\n-o text|wide|json|jsonl|yaml|name, "
                 "--no-color, --tls-ca, --tls-cert, "
                 "--tls-key,\n--help, --version, --print-config. Each has a "
                 "twin in the environment:\n"
                 "SLUICE_COORDINATOR and so on.\n\n"
                 "First steps:\n"
                 "  sluice up --psservers 2 --workers 2 --dir ./cluster\n"
                 "  sluice submit examples/fashion-mlp.yaml\n\n"
                 "sluice VERB --help tells the rest.\n");
    return rc;
}

enum sl_err cli_forms(struct buf *out, const struct cli_verb *verb)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(verb->lists); i++) {
        if (i > 0 && verb->lists[i] != LIST_NONE)
            rc = buf_append_char(out, ' ');
        if (rc == SL_OK)
            rc = list_forms(out, verb->lists[i]);
    }
    return rc;
}

// What each form shows of what it lists, broken before COLUMNS.
static enum sl_err forms_text(struct buf *out, const struct cli_verb *verb)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = cli_forms(&text, verb);
    size_t start = 0;

    for (size_t i = 0; rc == SL_OK && i < text.len; i++) {
        size_t n = strcspn(buf_text(&text) + i, " ");

        if (i > start && i + n - start > COLUMNS) {
            text.data[i - 1] = '\n';
            start = i;
        }
        i += n;
    }
    if (rc == SL_OK && text.len > 0)
        rc = buf_appendf(out, "%s\n\n", buf_text(&text));
    buf_release(&text);
    return rc;
}

enum sl_err cli_conf(struct conf **out, const struct cli_verb *verb,
                     struct conf_about *about, struct buf *exits)
{
    struct conf *conf = NULL;
    enum sl_err rc = forms_text(exits, verb);

    if (rc == SL_OK)
        rc = exit_text(exits, verb);
    if (rc != SL_OK)
        return rc;
    *about = (struct conf_about){.program = "sluice",
                                 .usage = verb->usage,
                                 .text = verb->text,
                                 .example = verb->example,
                                 .after = buf_text(exits)};
    rc = conf_new(&conf, about,
                  verb->keys != NULL ? verb->keys
                                     : &cli_globals[SL_COUNT(cli_globals) - 1]);
    if (rc == SL_OK)
        rc = conf_add(conf, cli_globals);
    if (rc == SL_OK)
        *out = conf;
    else
        conf_free(conf);
    return rc;
}

enum sl_err cli_verb_help(struct buf *out, const struct cli_verb *verb)
{
    struct conf_about about;
    struct buf exits = BUF_INIT;
    struct conf *conf = NULL;
    enum sl_err rc = cli_conf(&conf, verb, &about, &exits);

    if (rc == SL_OK) {
        rc = conf_help(out, conf);
        conf_free(conf);
    }
    buf_release(&exits);
    return rc;
}
