// SPDX-License-Identifier: Apache-2.0
// client/ask/checkpoints.c -- the cuts of a job.
#include <stdio.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"

// Prints the cuts, and then what of the job is in doubt.
static enum sl_err checkpoints_print(const struct cli *cli, const char *none,
                                     const Sluice__V1__CheckpointsReply *reply,
                                     struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = list_print(&cli->out, LIST_CHECKPOINTS, &reply->base,
                                (ProtobufCMessage *const *)reply->checkpoints,
                                reply->n_checkpoints, none, err);

    if (rc != SL_OK || cli->out.form != OUT_TEXT || reply->n_tainted == 0)
        return rc;
    rc = buf_appendf(&text, "\n");
    if (rc == SL_OK)
        rc = list_tainted(&text, reply->tainted, reply->n_tainted);
    return out_text(&text, rc, err);
}

int verb_checkpoints(struct cli *cli)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    char none[240];
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.id = (char *)cli_arg(cli, 0);
    if (rc == SL_OK)
        rc = api_checkpoints(api, &request, &reply, &err);
    snprintf(none, sizeof(none), "%.200s has no checkpoint yet", request.id);
    if (rc == SL_OK)
        rc = checkpoints_print(cli, none, reply, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
