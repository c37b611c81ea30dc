// SPDX-License-Identifier: Apache-2.0
// client/ask/checkpoints.c -- the cuts of a job.
#include <stdio.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"

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
        rc = list_print(&cli->out, LIST_CHECKPOINTS, &reply->base,
                        (ProtobufCMessage *const *)reply->checkpoints,
                        reply->n_checkpoints, none, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
