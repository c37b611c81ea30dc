// SPDX-License-Identifier: Apache-2.0
// client/cli/completion.c -- completions for shells, of the table of verbs.
// Names of jobs and members are asked for when the shell wants one.
// Calls up: verb_table.c, since it writes what the table says.
#include <string.h>

#include "client/cli/help.h"
#include "client/cli/verbs.h"

// What the first word beside flags is of a verb, by its usage.
enum word { WORD_FILE, WORD_JOB, WORD_NAME, WORD_SHELL, WORD_NONE };

static enum word completion_verb_word(const struct cli_verb *v)
{
    if (strstr(v->usage, "JOB") != NULL)
        return WORD_JOB;
    if (strstr(v->usage, " NAME") != NULL)
        return WORD_NAME;
    if (v->run == verb_completion)
        return WORD_SHELL;
    return v->max_args > 0 ? WORD_FILE : WORD_NONE;
}

#define JOBS "sluice --timeout 1s jobs -o name 2>/dev/null"
#define NAMES                                                                  \
    "sluice --timeout 1s workers -o name 2>/dev/null; "                        \
    "sluice --timeout 1s servers -o name 2>/dev/null"

static enum sl_err add_flags(struct buf *out, const struct conf_key *keys)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && keys != NULL && keys->name != NULL; keys++) {
        rc = buf_appendf(out, " --%s", keys->name);
        if (rc == SL_OK && keys->kind == CONF_BOOL)
            rc = buf_appendf(out, " --no-%s", keys->name);
    }
    return rc;
}

static enum sl_err add_verbs(struct buf *out)
{
    enum sl_err rc = SL_OK;

    for (const struct cli_verb *v = cli_verbs; rc == SL_OK && v->name; v++)
        rc = buf_appendf(out, " %s", v->name);
    return rc;
}

// "a|b" as words.
static enum sl_err add_choices(struct buf *out, const char *choices)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && *choices != '\0'; choices++)
        rc = buf_append_char(out, *choices == '|' ? ' ' : *choices);
    return rc;
}

// ---- bash, and zsh by its bashcompinit

static enum sl_err bash_choices(struct buf *out, const struct conf_key *keys)
{
    enum sl_err rc = SL_OK;

    for (; rc == SL_OK && keys != NULL && keys->name != NULL; keys++) {
        if (keys->choices == NULL)
            continue;
        rc = buf_append_str(out, "    ");
        if (rc == SL_OK && keys->letter != 0)
            rc = buf_appendf(out, "-%c | ", keys->letter);
        if (rc == SL_OK)
            rc = buf_appendf(out, "--%s) COMPREPLY=($(compgen -W \"",
                             keys->name);
        if (rc == SL_OK)
            rc = add_choices(out, keys->choices);
        if (rc == SL_OK)
            rc = buf_append_str(out, "\" -- \"$cur\")); return ;;\n");
    }
    return rc;
}

// Flags with a word of their own: what follows one is not the verb.
static enum sl_err bash_takers(struct buf *out)
{
    enum sl_err rc = buf_append_str(out, "--config");

    for (const struct conf_key *k = cli_globals; rc == SL_OK && k->name; k++) {
        if (k->kind != CONF_BOOL)
            rc = buf_appendf(out, " | --%s", k->name);
        if (rc == SL_OK && k->kind != CONF_BOOL && k->letter != 0)
            rc = buf_appendf(out, " | -%c", k->letter);
    }
    return rc;
}

static enum sl_err bash_verb(struct buf *out, const struct cli_verb *v)
{
    static const char *const words[] = {[WORD_FILE] = "files=1",
                                        [WORD_JOB] = "words=$(" JOBS ")",
                                        [WORD_NAME] = "words=$(" NAMES ")",
                                        [WORD_SHELL] = "words='bash zsh fish'",
                                        [WORD_NONE] = ":"};
    enum sl_err rc = buf_appendf(out, "    %s) flags=\"", v->name);

    if (rc == SL_OK)
        rc = add_flags(out, v->keys);
    return rc == SL_OK ? buf_appendf(out, "\"; [[ $cur == -* ]] || %s ;;\n",
                                     words[completion_verb_word(v)])
                       : rc;
}

static enum sl_err bash(struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "# Completion for bash, written by `sluice completion bash`.\n"
             "_sluice() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} verb= flags= words= "
             "files= i\n"
             "    COMPREPLY=()\n"
             "    case ${COMP_WORDS[COMP_CWORD - 1]} in\n");

    if (rc == SL_OK)
        rc = bash_choices(out, cli_globals);
    if (rc == SL_OK)
        rc = buf_append_str(out, "    esac\n"
                                 "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                                 "        case ${COMP_WORDS[i]} in\n"
                                 "        ");
    if (rc == SL_OK)
        rc = bash_takers(out);
    if (rc == SL_OK)
        rc = buf_append_str(out, ") ((i++)) ;;\n"
                                 "        -*) ;;\n"
                                 "        *) verb=${COMP_WORDS[i]}; break ;;\n"
                                 "        esac\n"
                                 "    done\n"
                                 "    case $verb in\n"
                                 "    '') words=\"help");
    if (rc == SL_OK)
        rc = add_verbs(out);
    if (rc == SL_OK)
        rc = buf_append_str(out, "\" ;;\n    help) words=\"");
    if (rc == SL_OK)
        rc = add_verbs(out);
    if (rc == SL_OK)
        rc = buf_append_str(out, "\" ;;\n");
    for (const struct cli_verb *v = cli_verbs; rc == SL_OK && v->name; v++)
        rc = bash_verb(out, v);
    if (rc == SL_OK)
        rc = buf_append_str(out, "    esac\n    flags+=\"");
    if (rc == SL_OK)
        rc = add_flags(out, cli_globals);
    return rc == SL_OK
               ? buf_append_str(out,
                                " --help --config --print-config\"\n"
                                "    [[ $cur == -* ]] && words=$flags\n"
                                "    COMPREPLY=($(compgen -W \"$words\" "
                                "${files:+-f} -- \"$cur\"))\n"
                                "}\n"
                                "complete -o filenames -F _sluice sluice\n")
               : rc;
}

static enum sl_err zsh(struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "#compdef sluice\n"
             "# Completion for zsh, written by `sluice completion zsh`.\n"
             "autoload -U +X bashcompinit && bashcompinit\n");

    return rc == SL_OK ? bash(out) : rc;
}

// ---- fish

// Within single quotes.
static enum sl_err completion_quote(struct buf *out, const char *text)
{
    enum sl_err rc = buf_append_char(out, '\'');

    for (; rc == SL_OK && *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            rc = buf_append_char(out, '\\');
        if (rc == SL_OK)
            rc = buf_append_char(out, *text);
    }
    return rc == SL_OK ? buf_append_char(out, '\'') : rc;
}

static enum sl_err fish_key(struct buf *out, const char *verb,
                            const struct conf_key *key)
{
    enum sl_err rc = buf_append_str(out, "complete -c sluice");

    if (rc == SL_OK && verb != NULL)
        rc = buf_appendf(out, " -n '__fish_seen_subcommand_from %s'", verb);
    if (rc == SL_OK)
        rc = buf_appendf(out, " -l %s", key->name);
    if (rc == SL_OK && key->letter != 0)
        rc = buf_appendf(out, " -s %c", key->letter);
    if (rc == SL_OK && key->kind != CONF_BOOL)
        rc = buf_append_str(out, key->choices != NULL ? " -x -a '" : " -r");
    if (rc == SL_OK && key->choices != NULL)
        rc = add_choices(out, key->choices);
    if (rc == SL_OK && key->choices != NULL)
        rc = buf_append_char(out, '\'');
    if (rc == SL_OK)
        rc = buf_append_str(out, " -d ");
    if (rc == SL_OK)
        rc = completion_quote(out, key->help);
    return rc == SL_OK ? buf_append_char(out, '\n') : rc;
}

static enum sl_err fish_verb(struct buf *out, const struct cli_verb *v)
{
    static const char *const words[] = {[WORD_FILE] = "",
                                        [WORD_JOB] = "(" JOBS ")",
                                        [WORD_NAME] = "(" NAMES ")",
                                        [WORD_SHELL] = "bash zsh fish",
                                        [WORD_NONE] = ""};
    const char *what = words[completion_verb_word(v)];
    enum sl_err rc =
        buf_appendf(out,
                    "complete -c sluice -n __fish_use_subcommand -x -a %s "
                    "-d ",
                    v->name);

    if (rc == SL_OK)
        rc = completion_quote(out, v->brief);
    if (rc == SL_OK)
        rc = buf_append_char(out, '\n');
    if (rc == SL_OK && *what != '\0')
        rc = buf_appendf(out,
                         "complete -c sluice -n '__fish_seen_subcommand_from "
                         "%s' -f -a '%s'\n",
                         v->name, what);
    for (const struct conf_key *k = v->keys; rc == SL_OK && k && k->name; k++)
        rc = fish_key(out, v->name, k);
    return rc;
}

static enum sl_err fish(struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "# Completion for fish, written by `sluice completion fish`.\n");

    for (const struct cli_verb *v = cli_verbs; rc == SL_OK && v->name; v++)
        rc = fish_verb(out, v);
    for (const struct conf_key *k = cli_globals; rc == SL_OK && k->name; k++)
        rc = fish_key(out, NULL, k);
    return rc;
}

int verb_completion(struct cli *cli)
{
    static const struct {
        const char *name;
        enum sl_err (*write)(struct buf *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    for (size_t i = 0; i < SL_COUNT(shells); i++) {
        if (strcmp(shells[i].name, cli_arg(cli, 0)) != 0)
            continue;
        rc = shells[i].write(&text);
        rc = out_text(&text, rc, &err);
        return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
    }
    return cli_usage(cli,
                     "'%s' is no shell that is known; say bash, zsh or "
                     "fish",
                     cli_arg(cli, 0));
}
