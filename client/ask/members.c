// SPDX-License-Identifier: Apache-2.0
// client/ask/members.c -- workers, servers, drain, undrain: the members of the
// cluster.
#include <stdio.h>
#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"
#include "client/ask/who.h"

// ---- lists

// Picks those of one role, or of them those that are suspect, in the order in
// which they came.
static size_t of_role(Sluice__V1__MemberStatus **out,
                      const Sluice__V1__ClusterReply *c, const char *role,
                      bool suspect)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_members; i++)
        if (strcmp(c->members[i]->role, role) == 0 &&
            (!suspect || c->members[i]->suspect))
            out[n++] = c->members[i];
    return n;
}

// The reply is cut down to them.
static enum sl_err members_print(const struct cli *cli, bool workers,
                                 Sluice__V1__ClusterReply *c,
                                 struct sl_error *err)
{
    struct buf text = BUF_INIT;
    bool suspect = workers && conf_bool(cli->conf, "suspect");
    enum sl_err rc;

    c->n_members =
        of_role(c->members, c, workers ? "worker" : "psserver", suspect);
    rc = list_print(&cli->out, workers ? LIST_WORKERS : LIST_SERVERS, &c->base,
                    (ProtobufCMessage *const *)c->members, c->n_members,
                    suspect   ? "no worker is suspect"
                    : workers ? "no worker is attached"
                              : "no psserver is attached",
                    err);
    if (rc != SL_OK || cli->out.form != OUT_TEXT)
        return rc;
    rc = list_reasons(&text, c->members, c->n_members);
    for (size_t i = 0; suspect && rc == SL_OK && i < c->n_members; i++)
        rc = list_tainted(&text, c->members[i]->tainted,
                          c->members[i]->n_tainted);
    return out_text(&text, rc, err);
}

static int members_list(struct cli *cli, bool workers)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    if (rc == SL_OK)
        rc = api_cluster(api, &request, &reply, &err);
    if (rc == SL_OK)
        rc = members_print(cli, workers, reply, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

int verb_workers(struct cli *cli)
{
    return members_list(cli, true);
}

int verb_servers(struct cli *cli)
{
    return members_list(cli, false);
}

// ---- drain, undrain

static enum sl_err members_print_drain(const struct cli *cli,
                                       const Sluice__V1__DrainRequest *request,
                                       const Sluice__V1__DrainReply *reply,
                                       struct sl_error *err)
{
    const Sluice__V1__MemberStatus *m = reply->member;
    const char *already = reply->changed ? "" : " already";

    if (cli->out.json)
        return out_message(&reply->base, err);
    if (m == NULL)
        cli_say("%s may get work again when it attaches", request->name);
    else if (request->undrain)
        cli_say("%s %s may be given work%s", m->role, m->name,
                reply->changed ? " again" : already);
    else if (strcmp(m->role, "worker") == 0)
        cli_say("worker %s is drained%s: it finishes its step and gets no more "
                "work",
                m->name, already);
    else
        cli_say("psserver %s is drained%s: it gets no shards, and those that "
                "it has (%u) move away. It is %s",
                m->name, already, m->shards, m->reason);
    return SL_OK;
}

static int members_drain(struct cli *cli, bool undo)
{
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__DrainReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    char who[WHO_BYTES];
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.name = (char *)cli_arg(cli, 0);
    request.undrain = undo;
    request.who = (char *)who_asks(who);
    if (conf_str(cli->conf, "role") != NULL)
        request.role = (char *)conf_str(cli->conf, "role");
    if (!undo && conf_str(cli->conf, "why") != NULL)
        request.why = (char *)conf_str(cli->conf, "why");
    if (rc == SL_OK)
        rc = api_drain(api, &request, &reply, &err);
    if (rc == SL_OK)
        rc = members_print_drain(cli, &request, reply, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

int verb_drain(struct cli *cli)
{
    return members_drain(cli, false);
}

int verb_undrain(struct cli *cli)
{
    return members_drain(cli, true);
}
