// SPDX-License-Identifier: Apache-2.0
// client/cli/cli.h -- verbs: what each is called, takes, prints and exits with.
//
// One table (cli_verbs, in verb_table.c) is the source of the help texts, of
// the flags' parsing (common/conf: flag > environment > file > default) and of
// the exit codes that a verb may end with.
//
// Threads  main.
// Memory   a struct cli and what it holds live while the verb runs. Texts that
//          are passed are read only during the call; what is returned is
//          borrowed: a constant, or argv's.
// Errors   a verb returns an exit code and has said on stderr why. No argument
//          is NULL.
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/listing.h"
#include "client/cli/out.h"
#include "client/cli/say.h"
#include "common/base/buf.h"
#include "common/run/conf.h"
#include "common/base/status.h"

// X(NAME, code, what it means for a user)
#define CLI_EXIT_MAP(X)                                                        \
    X(OK, 0, "ok")                                                             \
    X(FAILED, 1, "the job or the command failed")                              \
    X(USAGE, 2, "bad usage, bad spec")                                         \
    X(NOT_FOUND, 3, "not found")                                               \
    X(UNAVAILABLE, 4, "coordinator unreachable, timed out")                    \
    X(DENIED, 5, "not allowed")                                                \
    X(CONFLICT, 6, "not possible in this state")                               \
    X(INTERRUPTED, 130, "interrupted")

enum cli_exit {
#define CLI_EXIT_ENUM(name, code, text) CLI_EXIT_##name = code,
    CLI_EXIT_MAP(CLI_EXIT_ENUM)
#undef CLI_EXIT_ENUM
};

struct cli {
    const struct cli_verb *verb;
    const struct conf *conf;
    struct out out;
};

struct cli_verb {
    const char *name;            // "submit"
    const char *usage;           // "sluice submit FILE [OPTION]..."
    const char *brief;           // its line in the list of verbs
    const char *text;            // body of its own help
    const char *example;         // can be pasted
    const struct conf_key *keys; // its own flags; NULL: none
    size_t min_args, max_args;   // words beside flags
    bool remote;                 // talks to a coordinator: 4 and 5 may happen
    bool json;                   // -o json means something
    enum list_kind lists[2];     // what it lists, in every form of -o
    const int *exits;            // further codes, ended by 0
    int (*run)(struct cli *cli);
};

extern const struct cli_verb cli_verbs[]; // ended by a name of NULL

// Runs the program: finds the verb in argv, reads its flags and calls it.
// Returns the exit code for main to return. SIGPIPE is ignored from then on.
int cli_main(int argc, char **argv);

// Returns the verb called `name`; NULL: there is none. "help" is none.
const struct cli_verb *cli_find(const char *name);

// Returns the index in argv of the verb: the first word that is no flag ("-" is
// none) and no value of --config or of a flag of every verb (cli_globals); argc
// if there is none.
int cli_verb_index(int argc, char *const *argv);

// Returns the exit code (enum cli_exit) that stands for `code`: OK for SL_OK;
// USAGE for SL_EINVAL, SL_ERANGE, SL_ENUMERIC and SL_ENOTSUP; NOT_FOUND for
// SL_ENOENT; UNAVAILABLE for SL_EUNAVAIL and SL_ETIMEDOUT; DENIED for
// SL_EDENIED and SL_EAUTH; CONFLICT for SL_EEXIST, SL_ESTATE, SL_ESTALE and
// SL_EBUSY; INTERRUPTED for SL_ECANCELED; FAILED for all others.
int cli_exit_of(enum sl_err code);

// Writes "sluice: TEXT" to stderr, with the text of *err or, if that is empty,
// one for its code. Returns the exit code that stands for err->code.
int cli_fail(const struct sl_error *err);

// Writes "sluice VERB: TEXT; see sluice VERB --help" to stderr, with TEXT made
// as printf makes it. Returns CLI_EXIT_USAGE.
int cli_usage(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Returns the i-th word (from 0) of the command line after the verb that is no
// flag; NULL if there are fewer.
const char *cli_arg(const struct cli *cli, size_t i);

#endif
