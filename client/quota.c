// SPDX-License-Identifier: Apache-2.0
// client/quota.c -- what tenants have, and may have.
#include <stdio.h>

#include "client/api.h"
#include "client/cli.h"
#include "client/verbs.h"

static void cell(struct table *t, const Sluice__V1__QuotaFigure *f, bool bytes)
{
    char used[OUT_NUMBER], most[OUT_NUMBER];

    if (bytes)
        out_bytes(used, f->used), out_bytes(most, f->most);
    else
        out_count(used, f->used), out_count(most, f->most);
    if (f->limited)
        table_cell(t, "%s of %s", used, most);
    else
        table_cell(t, "%s", used);
}

static enum sl_err print_table(const Sluice__V1__QuotaReply *reply,
                               struct sl_error *err)
{
    static const char *const head[] = {"tenant",     "jobs",        "shards",
                                       "parameters", "checkpoints", NULL};
    struct table t;

    if (reply->n_tenants == 0) {
        cli_say("no tenant has a job or a quota");
        return SL_OK;
    }
    table_init(&t, 0x1eu, head);
    for (size_t i = 0; i < reply->n_tenants; i++) {
        const Sluice__V1__QuotaTenant *one = reply->tenants[i];

        table_cell(&t, "%s", one->tenant[0] != '\0' ? one->tenant : "-");
        cell(&t, one->jobs, false);
        cell(&t, one->shards, false);
        cell(&t, one->parameters, true);
        cell(&t, one->checkpoints, true);
    }
    return table_print(&t, err);
}

int verb_quota(struct cli *cli)
{
    Sluice__V1__QuotaRequest request = SLUICE__V1__QUOTA_REQUEST__INIT;
    Sluice__V1__QuotaReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    if (rc == SL_OK)
        rc = api_quota(api, &request, &reply, &err);
    if (rc == SL_OK && cli->out.json)
        rc = out_message(&reply->base, &err);
    else if (rc == SL_OK)
        rc = print_table(reply, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
