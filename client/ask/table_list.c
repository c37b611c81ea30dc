// SPDX-License-Identifier: Apache-2.0
// client/ask/table_list.c -- the sparse tables of a job.
#include <stdio.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"
#include "client/show/progress.h"
#include "client/show/table_sums.h"

// Says what of the list is missing or old.
static void tables_say(const Sluice__V1__JobStatus *s, size_t unsaid)
{
    if (progress_ended(s->state))
        cli_say("%s has ended: these figures are its last ones", s->id);
    if (s->n_shards == 0)
        cli_say("no psserver keeps these tables yet");
    else if (unsaid > 0)
        cli_say("'-', or sums without some shards: their psservers have not "
                "reported yet, or are of an older version");
}

static enum sl_err tables_show(const struct cli *cli,
                               const Sluice__V1__JobStatus *s,
                               struct sl_error *err)
{
    struct tables_report report;
    enum sl_err rc;

    if (s->spec == NULL || s->spec->model == NULL ||
        s->spec->model->n_tables == 0)
        return sl_fail(err, SL_ENOENT,
                       "%s has no sparse tables: its model.tables is empty "
                       "(docs/tables.md)",
                       s->id);
    rc = tables_report_init(&report, s, conf_bool(cli->conf, "by-psserver"));
    if (rc != SL_OK)
        return sl_no_memory(err);
    rc = list_print(&cli->out, LIST_TABLES, &report.msg.base,
                    (ProtobufCMessage *const *)report.msg.tables,
                    report.msg.n_tables, "no psserver keeps a table", err);
    if (rc == SL_OK && (cli->out.form == OUT_TEXT || cli->out.form == OUT_WIDE))
        tables_say(s, report.unsaid);
    tables_report_release(&report);
    return rc;
}

int verb_tables(struct cli *cli)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.id = (char *)cli_arg(cli, 0);
    request.shards = true;
    request.spec = true;
    if (rc == SL_OK)
        rc = api_get(api, &request, &status, &err);
    if (rc == SL_OK)
        rc = tables_show(cli, status, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
