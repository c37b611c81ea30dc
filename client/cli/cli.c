// SPDX-License-Identifier: Apache-2.0
// client/cli/cli.c -- the parser of the command line, and the exit codes of
// all verbs.
// Calls up: verb_table.c, since a word of the command line names a row of it.
#include "client/cli/cli.h"
#include "client/cli/help.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "common/run/log.h"

int cli_exit_of(enum sl_err code)
{
    switch (code) {
    case SL_OK:
        return CLI_EXIT_OK;
    case SL_EINVAL:
    case SL_ERANGE:
    case SL_ENUMERIC:
    case SL_ENOTSUP:
        return CLI_EXIT_USAGE;
    case SL_ENOENT:
        return CLI_EXIT_NOT_FOUND;
    case SL_EUNAVAIL:
    case SL_ETIMEDOUT:
        return CLI_EXIT_UNAVAILABLE;
    case SL_EDENIED:
    case SL_EAUTH:
        return CLI_EXIT_DENIED;
    case SL_EEXIST:
    case SL_ESTATE:
    case SL_ESTALE:
    case SL_EBUSY:
        return CLI_EXIT_CONFLICT;
    case SL_ECANCELED:
        return CLI_EXIT_INTERRUPTED;
    default:
        return CLI_EXIT_FAILED;
    }
}

int cli_fail(const struct sl_error *err)
{
    cli_say("sluice: %s",
            err->text[0] != '\0' ? err->text : sl_err_text(err->code));
    return cli_exit_of(err->code);
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    char text[SL_ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    cli_say("sluice %s: %s; see sluice %s --help", cli->verb->name, text,
            cli->verb->name);
    return CLI_EXIT_USAGE;
}

const char *cli_arg(const struct cli *cli, size_t i)
{
    return i < conf_arg_count(cli->conf) ? conf_arg(cli->conf, i) : NULL;
}

// ---- finding the verb

const struct cli_verb *cli_find(const char *name)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

// Does this flag take the next word as its value?
static bool takes_word(const char *flag)
{
    for (const struct conf_key *k = cli_globals; k->name != NULL; k++) {
        if (k->kind == CONF_BOOL)
            continue;
        if (flag[1] == '-' && strcmp(flag + 2, k->name) == 0)
            return true;
        if (k->letter != 0 && flag[1] == k->letter && flag[2] == '\0')
            return true;
    }
    return strcmp(flag, "--config") == 0;
}

int cli_verb_index(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            return i;
        if (takes_word(argv[i]))
            i++;
    }
    return argc;
}

// What other programs call it.
static const char *known_as(const char *word)
{
    static const struct {
        const char *word, *verb;
    } others[] = {
        {"list", "jobs"},     {"ls", "jobs"},           {"ps", "jobs"},
        {"queue", "jobs"},    {"get", "status"},        {"describe", "status"},
        {"show", "status"},   {"info", "status"},       {"kill", "stop"},
        {"cancel", "stop"},   {"abort", "stop"},        {"rm", "delete"},
        {"remove", "delete"}, {"start", "up"},          {"create", "submit"},
        {"apply", "submit"},  {"train", "submit"},      {"attach", "watch"},
        {"follow", "watch"},  {"log", "logs"},          {"nodes", "workers"},
        {"top", "workers"},   {"psservers", "servers"}, {"check", "validate"},
    };

    for (size_t i = 0; i < SL_COUNT(others); i++)
        if (strcmp(others[i].word, word) == 0)
            return others[i].verb;
    return NULL;
}

static int unknown_verb(const char *word)
{
    const char *names[64];
    const char *near = known_as(word);
    size_t n = 0;

    for (const struct cli_verb *v = cli_verbs; v->name && n < 64; v++)
        names[n++] = v->name;
    if (near == NULL)
        near = sl_suggest(word, names, n);
    if (near != NULL)
        cli_say("sluice: unknown verb '%s'; did you mean '%s'?", word, near);
    else
        cli_say("sluice: unknown verb '%s'; see sluice --help", word);
    return CLI_EXIT_USAGE;
}

// ---- running

static int print_and_release(struct buf *text, enum sl_err rc)
{
    struct sl_error err = SL_ERROR_INIT;

    rc = out_text(text, rc, &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

static int without_verb(int argc, char **argv)
{
    struct buf text = BUF_INIT;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
            strcmp(argv[i], "--help=true") == 0)
            return print_and_release(&text, cli_help(&text));
        if (strcmp(argv[i], "--version") == 0)
            return cli_find("version")->run(&(struct cli){
                .verb = cli_find("version"), .out = {.json = false}});
    }
    if (argc > 1)
        cli_say("sluice: which verb? '%s' is only an option; see "
                "sluice --help",
                argv[1]);
    else if (cli_help(&text) == SL_OK)
        fputs(buf_text(&text), stderr);
    buf_release(&text);
    return CLI_EXIT_USAGE;
}

static int run_verb(const struct cli_verb *verb, const struct conf *conf)
{
    struct cli cli = {.verb = verb, .conf = conf};
    struct buf text = BUF_INIT;
    size_t args;

    if (conf_wants_help(conf))
        return print_and_release(&text, conf_help(&text, conf));
    if (conf_wants_version(conf))
        return print_and_release(&text, conf_version(&text, conf));
    if (conf_wants_man(conf))
        return print_and_release(&text, cli_man(&text));
    if (conf_wants_print(conf))
        return print_and_release(&text, conf_print(&text, conf));

    args = conf_arg_count(conf);
    if (args < verb->min_args)
        return cli_usage(&cli, "an argument is missing: %s", verb->usage);
    if (args > verb->max_args)
        return cli_usage(&cli, "'%s' is one argument too many",
                         conf_arg(conf, verb->max_args));
    out_init(&cli.out, out_form_of(conf_str(conf, "output")),
             conf_bool(conf, "color"));
    if (cli.out.form == OUT_NAME && verb->lists[0] == LIST_NONE)
        return cli_usage(&cli, "-o name: it has no names to print");
    if (verb->remote)
        log_set_level(LOG_LEVEL_ERROR); // what a call meets, its error says
    return verb->run(&cli);
}

// argv without the verb, so that flags may stand on both sides of it.
static int parse_and_run(const struct cli_verb *verb, int argc, char **argv,
                         int at)
{
    struct conf_about about;
    struct buf exits = BUF_INIT;
    struct conf *conf = NULL;
    struct sl_error err = SL_ERROR_INIT;
    char **rest = sl_malloc_array((size_t)argc, sizeof(*rest));
    int n = 0, code = CLI_EXIT_FAILED;
    enum sl_err rc = rest != NULL ? SL_OK : SL_ENOMEM;

    for (int i = 0; rc == SL_OK && i < argc; i++)
        if (i != at)
            rest[n++] = argv[i];
    if (rc == SL_OK)
        rc = cli_conf(&conf, verb, &about, &exits);
    if (rc != SL_OK) {
        sl_fail(&err, rc, "out of memory");
        code = cli_fail(&err);
        goto done;
    }
    rc = conf_load(conf, fs_posix(), n, rest, environ, &err);
    if (rc != SL_OK) {
        cli_say("sluice %s: %s; see sluice %s --help", verb->name, err.text,
                verb->name);
        code = cli_exit_of(rc);
        goto done;
    }
    code = run_verb(verb, conf);

done:
    conf_free(conf);
    buf_release(&exits);
    sl_free(rest);
    return code;
}

// "sluice help", "sluice help submit", "sluice help --man"
static int help_verb(int argc, char **argv, int at)
{
    struct buf text = BUF_INIT;
    const struct cli_verb *verb;

    if (at + 1 >= argc)
        return print_and_release(&text, cli_help(&text));
    if (strcmp(argv[at + 1], "--man") == 0)
        return print_and_release(&text, cli_man(&text));
    verb = cli_find(argv[at + 1]);
    if (verb == NULL)
        return unknown_verb(argv[at + 1]);
    return print_and_release(&text, cli_verb_help(&text, verb));
}

int cli_main(int argc, char **argv)
{
    int at = cli_verb_index(argc, argv);
    const struct cli_verb *verb;

    signal(SIGPIPE, SIG_IGN); // a closed pipe is an error of write, with words
    if (at == argc)
        return without_verb(argc, argv);
    if (strcmp(argv[at], "help") == 0)
        return help_verb(argc, argv, at);
    verb = cli_find(argv[at]);
    if (verb == NULL)
        return unknown_verb(argv[at]);
    return parse_and_run(verb, argc, argv, at);
}
