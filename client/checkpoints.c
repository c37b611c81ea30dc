// SPDX-License-Identifier: Apache-2.0
// client/checkpoints.c -- the cuts of a job.
#include "client/api.h"
#include "client/cli.h"
#include "client/verbs.h"

static enum sl_err print_table(const Sluice__V1__CheckpointsReply *reply,
                               const char *id, struct sl_error *err)
{
    static const char *const head[] = {"cut",      "epoch",    "steps",
                                       "whole",    "kept",     "size",
                                       "taken at", "manifest", NULL};
    char text[OUT_NUMBER];
    struct table t;

    if (reply->n_checkpoints == 0) {
        cli_say("%s has no checkpoint yet", id);
        return SL_OK;
    }
    table_init(&t, 0x27u, head);
    for (size_t i = 0; i < reply->n_checkpoints; i++) {
        const Sluice__V1__Checkpoint *c = reply->checkpoints[i];

        table_cell(&t, "%llu", (unsigned long long)c->cut);
        table_cell(&t, "%u", c->epoch);
        table_cell(&t, "%s", out_count(text, c->steps));
        table_cell(&t, "%s", c->complete ? "yes" : "no");
        table_cell(&t, "%s", c->restored ? "restored" : c->best ? "best" : "");
        table_cell(&t, "%s", out_bytes(text, c->bytes));
        table_cell(&t, "%s", out_when(text, c->unix_time));
        table_cell(&t, "%s", c->manifest);
    }
    return table_print(&t, err);
}

int verb_checkpoints(struct cli *cli)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.id = (char *)cli_arg(cli, 0);
    if (rc == SL_OK)
        rc = api_checkpoints(api, &request, &reply, &err);
    if (rc == SL_OK && cli->out.json)
        rc = out_message(&reply->base, &err);
    else if (rc == SL_OK)
        rc = print_table(reply, request.id, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
