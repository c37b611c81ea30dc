// SPDX-License-Identifier: Apache-2.0
// client/ask/status_verb.c -- status: of a job, or of the cluster.
#include <stdio.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/show/progress.h"
#include "client/show/shards.h"
#include "client/show/summary.h"
#include "client/cli/verbs.h"

// ---- a job

// The shards: each, or of many two lines.
static enum sl_err status_append_shards(struct buf *text, const struct cli *cli,
                                        const Sluice__V1__JobStatus *s,
                                        struct sl_error *err)
{
    bool wide = cli->out.form == OUT_WIDE;

    if (wide || conf_bool(cli->conf, "shards") || s->n_shards <= SHARDS_LISTED)
        return list_table(text, LIST_SHARDS, wide,
                          (ProtobufCMessage *const *)s->shards, s->n_shards,
                          err);
    return shards_text(text, s);
}

static enum sl_err print_text(const struct cli *cli,
                              const Sluice__V1__JobStatus *s,
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
        rc = status_append_shards(&text, cli, s, err);
    return out_text(&text, rc, err);
}

// What is a list here is the shards; other verbs are called with the job's id.
static enum sl_err print_job(const struct cli *cli, Sluice__V1__JobStatus *s,
                             struct sl_error *err)
{
    ProtobufCMessage *const item = &s->base;

    if (cli->out.form == OUT_NAME)
        return list_names(LIST_JOBS, &item, 1, err);
    if (cli->out.json && conf_bool(cli->conf, "shards"))
        return out_list(&cli->out, item, (ProtobufCMessage *const *)s->shards,
                        s->n_shards, err);
    return cli->out.json ? out_message(item, err) : print_text(cli, s, err);
}

static enum sl_err status_show_job(struct cli *cli, struct api_client *api,
                                   struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    enum sl_err rc;

    request.id = (char *)cli_arg(cli, 0);
    request.shards = true;
    request.spec = true;
    rc = api_get(api, &request, &status, err);
    return rc == SL_OK ? print_job(cli, status, err) : rc;
}

// ---- the cluster

// Prints why members are idle or lost, and warnings for the operator.
static enum sl_err print_reasons(const Sluice__V1__ClusterReply *c,
                                 struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = list_reasons(&text, c->members, c->n_members);

    for (size_t i = 0; rc == SL_OK && i < c->n_warnings; i++)
        rc = buf_appendf(&text, "%swarning: %s\n", text.len == 0 ? "\n" : "",
                         c->warnings[i]);
    return out_text(&text, rc, err);
}

static enum sl_err print_head(const struct api_client *api,
                              const Sluice__V1__ClusterReply *c,
                              struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char up[OUT_NUMBER];
    enum sl_err rc = buf_appendf(
        &text, "coordinator %s, version %s, term %llu, up %s, state %s\n\n",
        api_answered(api), c->version, (unsigned long long)c->term,
        out_time(up, c->uptime_seconds), c->state_dir);

    return out_text(&text, rc, err);
}

static enum sl_err cluster_status(struct cli *cli, struct api_client *api,
                                  struct sl_error *err)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply;
    bool text = !cli->out.json && cli->out.form != OUT_NAME;
    enum sl_err rc = api_cluster(api, &request, &reply, err);

    if (rc == SL_OK && text)
        rc = print_head(api, reply, err);
    if (rc == SL_OK)
        rc = list_print(&cli->out, LIST_MEMBERS, &reply->base,
                        (ProtobufCMessage *const *)reply->members,
                        reply->n_members, "no member is attached", err);
    return rc == SL_OK && text ? print_reasons(reply, err) : rc;
}

int verb_status(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc;

    if (conf_bool(cli->conf, "shards") && cli_arg(cli, 0) == NULL)
        return cli_usage(cli, "--shards are those of a job: name one");
    rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = cli_arg(cli, 0) != NULL ? status_show_job(cli, api, &err)
                                     : cluster_status(cli, api, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
