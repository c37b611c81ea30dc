// SPDX-License-Identifier: Apache-2.0
// client/ask/quota.c -- what tenants have, and may have.
#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"

int verb_quota(struct cli *cli)
{
    Sluice__V1__QuotaRequest request = SLUICE__V1__QUOTA_REQUEST__INIT;
    Sluice__V1__QuotaReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    if (rc == SL_OK)
        rc = api_quota(api, &request, &reply, &err);
    if (rc == SL_OK)
        rc = list_print(&cli->out, LIST_TENANTS, &reply->base,
                        (ProtobufCMessage *const *)reply->tenants,
                        reply->n_tenants, "no tenant has a job or a quota",
                        &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
