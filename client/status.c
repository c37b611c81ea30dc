// SPDX-License-Identifier: Apache-2.0
// client/status.c -- status: of a job, or of the cluster.
#include <stdio.h>

#include "client/api.h"
#include "client/cli.h"
#include "client/progress.h"
#include "client/shards.h"
#include "client/summary.h"
#include "client/verbs.h"

// ---- a job

static enum sl_err print_job(const Sluice__V1__JobStatus *s, bool each,
                             struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = summary_text(&text, s);

    if (rc == SL_OK && !progress_ended(s->state)) {
        rc = buf_append_str(&text, "  now: ");
        if (rc == SL_OK)
            rc = progress_line(&text, s);
        if (rc == SL_OK)
            rc = buf_append_char(&text, '\n');
    }
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\n');
    if (rc == SL_OK)
        rc = each || s->n_shards <= SHARDS_LISTED ? shards_table(&text, s)
                                                  : shards_text(&text, s);
    return out_text(&text, rc, err);
}

static enum sl_err job_status(struct cli *cli, struct api *api,
                              struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    enum sl_err rc;

    request.id = (char *)cli_arg(cli, 0);
    request.shards = true;
    request.spec = true;
    rc = api_get(api, &request, &status, err);
    if (rc != SL_OK)
        return rc;
    if (!cli->out.json)
        return print_job(status, conf_bool(cli->conf, "shards"), err);
    return out_message(&status->base, err);
}

// ---- the cluster

static enum sl_err print_members(const Sluice__V1__ClusterReply *c,
                                 struct sl_error *err)
{
    static const char *const head[] = {
        "name",   "role",   "state", "leases",
        "shards", "memory", "beat",  "device or address",
        NULL};
    char text[OUT_NUMBER];
    struct table t;

    table_init(&t, 0x78u, head);
    for (size_t i = 0; i < c->n_members; i++) {
        const Sluice__V1__MemberStatus *m = c->members[i];
        const char *where = m->device[0] != '\0' ? m->device : m->address;

        table_cell(&t, "%s", m->name);
        table_cell(&t, "%s", m->role);
        table_cell(&t, "%s", m->state);
        table_cell(&t, "%u", m->leases);
        table_cell(&t, "%u", m->shards);
        table_cell(&t, "%s", out_bytes(text, m->resident_bytes));
        table_cell(&t, "%.0f ms", m->heartbeat_age_ms);
        table_cell(&t, "%s", where[0] != '\0' ? where : "-");
    }
    return table_print(&t, err);
}

// Who is given nothing at present, and why; what somebody has to look at.
static enum sl_err print_reasons(const Sluice__V1__ClusterReply *c,
                                 struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < c->n_members; i++) {
        if (c->members[i]->reason[0] != '\0')
            rc = buf_appendf(&text, "%s%s: %s\n", text.len == 0 ? "\n" : "",
                             c->members[i]->name, c->members[i]->reason);
    }
    for (size_t i = 0; rc == SL_OK && i < c->n_warnings; i++)
        rc = buf_appendf(&text, "%swarning: %s\n", text.len == 0 ? "\n" : "",
                         c->warnings[i]);
    return out_text(&text, rc, err);
}

static enum sl_err cluster_status(struct cli *cli, struct api *api,
                                  struct sl_error *err)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply;
    char line[512], text[OUT_NUMBER];
    int n;
    enum sl_err rc = api_cluster(api, &request, &reply, err);

    if (rc != SL_OK)
        return rc;
    if (cli->out.json)
        return out_message(&reply->base, err);
    n = snprintf(line, sizeof(line),
                 "coordinator %s, version %s, term %llu, up %s, state %s\n\n",
                 api_address(api), reply->version,
                 (unsigned long long)reply->term,
                 out_time(text, reply->uptime_seconds), reply->state_dir);
    rc = out_write(line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1,
                   err);
    if (rc == SL_OK)
        rc = print_members(reply, err);
    return rc == SL_OK ? print_reasons(reply, err) : rc;
}

int verb_status(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    struct api *api = NULL;
    enum sl_err rc;

    if (conf_bool(cli->conf, "shards") && cli_arg(cli, 0) == NULL)
        return cli_usage(cli, "--shards are those of a job: name one");
    rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = cli_arg(cli, 0) != NULL ? job_status(cli, api, &err)
                                     : cluster_status(cli, api, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
