// SPDX-License-Identifier: Apache-2.0
// client/cli/help.h -- the help texts and the manual page, of the table of
// verbs.
//
// Threads  main.
// Errors   SL_ENOMEM; `out` may hold a part of the text then.
#ifndef CLIENT_CLI_HELP_H
#define CLIENT_CLI_HELP_H

#include "client/cli/cli.h"

extern const struct conf_key cli_globals[]; // flags of every verb; a name of
                                            // NULL ends them

// An exit code and what it means for a user, as CLI_EXIT_MAP has them.
struct cli_exit_row {
    int code;
    const char *text; // NULL ends the list
};
extern const struct cli_exit_row cli_exits[];

// Appends, on one line, what -o wide, name and jsonl show of the things that
// the verb lists; nothing for a verb that lists nothing.
enum sl_err cli_forms(struct buf *out, const struct cli_verb *verb);

// Appends the help of the program: the verbs and the flags of all of them.
enum sl_err cli_help(struct buf *out);
// Appends the manual page, in mdoc, for `sluice help --man` (man.c).
enum sl_err cli_man(struct buf *out);
// Appends the help of one verb: text, example, flags, forms of output, exit
// codes.
enum sl_err cli_verb_help(struct buf *out, const struct cli_verb *verb);

// Makes *out the settings of `verb`: its own flags and those of all verbs. The
// caller frees it, then *exits; `about` and `exits` must outlive it. `exits` is
// empty before. A failure leaves *out as it was, and the caller releases *exits
// alone. *about need not be filled in before.
enum sl_err cli_conf(struct conf **out, const struct cli_verb *verb,
                     struct conf_about *about, struct buf *exits);

#endif
