// SPDX-License-Identifier: Apache-2.0
// client/cli/man.c -- sluice(1), of the table of verbs.
// Calls up: verb_table.c, since it writes what the table says.
#include "client/cli/help.h"

static enum sl_err man_append_head(struct buf *out)
{
    enum sl_err rc = conf_man_head(out, "sluice", 1,
                                   "train models on machines that come and go");

    return rc != SL_OK
               ? rc
               : buf_append_str(
                     out,
                     ".Sh SYNOPSIS\n"
                     ".Nm\n.Op Ar option ...\n.Ar verb\n.Op Ar argument "
                     "...\n"
                     ".Sh DESCRIPTION\n"
                     ".Nm\nasks a coordinator, which hands out work; "
                     "workers compute gradients,\npsservers keep the "
                     "parameters.\n"
                     "The verbs are those of the next section.\n"
                     "These options may stand before or after the verb:\n");
}

static enum sl_err forms(struct buf *out, const struct cli_verb *v)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = cli_forms(&text, v);

    if (rc == SL_OK && text.len > 0)
        rc = buf_append_str(out, ".Pp\n");
    if (rc == SL_OK && text.len > 0)
        rc = conf_man_text(out, buf_text(&text));
    buf_release(&text);
    return rc;
}

static enum sl_err verb_section(struct buf *out, const struct cli_verb *v)
{
    enum sl_err rc = buf_appendf(out, ".Ss %s\n", v->name);

    if (rc == SL_OK)
        rc = conf_man_line(out, v->usage);
    if (rc == SL_OK)
        rc = conf_man_text(out, v->text);
    if (rc == SL_OK && v->keys != NULL)
        rc = conf_man_keys(out, v->keys);
    if (rc == SL_OK)
        rc = forms(out, v);
    if (rc == SL_OK)
        rc = buf_append_str(out, ".Pp\nFor example:\n");
    return rc == SL_OK ? conf_man_line(out, v->example) : rc;
}

static enum sl_err exits(struct buf *out)
{
    enum sl_err rc =
        buf_append_str(out, ".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n");

    for (const struct cli_exit_row *e = cli_exits; rc == SL_OK && e->text; e++)
        rc = buf_appendf(out, ".It %d\n%s\n", e->code, e->text);
    return rc == SL_OK ? buf_append_str(out, ".El\n") : rc;
}

enum sl_err cli_man(struct buf *out)
{
    enum sl_err rc = man_append_head(out);

    if (rc == SL_OK)
        rc = conf_man_keys(out, cli_globals);
    if (rc == SL_OK)
        rc = buf_append_str(out, ".Sh VERBS\n");
    for (const struct cli_verb *v = cli_verbs; rc == SL_OK && v->name; v++)
        rc = verb_section(out, v);
    if (rc == SL_OK)
        rc = conf_man_environment(out);
    if (rc == SL_OK)
        rc = buf_append_str(out, ".Fl -print-config\n"
                                 "prints each value with where it is from.\n");
    return rc == SL_OK ? exits(out) : rc;
}
