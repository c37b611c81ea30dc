// SPDX-License-Identifier: Apache-2.0
// client/tasks.c -- queues of tasks, the tasks of one, and the end of one.
#include <inttypes.h>

#include "client/api.h"
#include "client/cli.h"
#include "client/verbs.h"

static const char *state_word(Sluice__V1__TaskState state)
{
    static const char *const words[] = {"unknown", "pending", "leased",
                                        "done",    "failed",  "cancelled"};

    return (size_t)state < SL_COUNT(words) ? words[state] : words[0];
}

static enum sl_err print_queues(const Sluice__V1__TaskQueuesReply *reply,
                                struct sl_error *err)
{
    static const char *const head[] = {"queue", "tenant", "pending",   "leased",
                                       "done",  "failed", "cancelled", "limit",
                                       "size",  NULL};
    char a[OUT_NUMBER];
    struct table t;

    if (reply->n_queues == 0) {
        cli_say("no queue: nothing was ever scheduled");
        return SL_OK;
    }
    table_init(&t, 0x1fcu, head);
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Sluice__V1__TaskQueue *q = reply->queues[i];

        table_cell(&t, "%s", q->name);
        table_cell(&t, "%s", q->tenant[0] != '\0' ? q->tenant : "-");
        table_cell(&t, "%s", out_count(a, q->pending));
        table_cell(&t, "%s", out_count(a, q->leased));
        table_cell(&t, "%s", out_count(a, q->done));
        table_cell(&t, "%s", out_count(a, q->failed));
        table_cell(&t, "%s", out_count(a, q->cancelled));
        table_cell(&t, "%s", out_count(a, q->limit));
        table_cell(&t, "%s", out_bytes(a, q->bytes));
    }
    return table_print(&t, err);
}

static enum sl_err print_tasks(const Sluice__V1__TaskQueuesReply *reply,
                               struct sl_error *err)
{
    static const char *const head[] = {"id",     "handler", "state",
                                       "worker", "lost",    NULL};
    struct table t;

    if (reply->n_tasks == 0) {
        cli_say("the queue is empty");
        return SL_OK;
    }
    table_init(&t, 1u << 0 | 1u << 4, head);
    for (size_t i = 0; i < reply->n_tasks; i++) {
        const Sluice__V1__TaskLine *one = reply->tasks[i];

        table_cell(&t, "%" PRIu64, one->id);
        table_cell(&t, "%s", one->name);
        table_cell(&t, "%s", state_word(one->state));
        table_cell(&t, "%s", one->worker[0] != '\0' ? one->worker : "-");
        table_cell(&t, "%u", one->losses);
    }
    return table_print(&t, err);
}

static enum sl_err list(struct cli *cli, struct api *api, struct sl_error *err)
{
    Sluice__V1__TaskQueuesRequest request =
        SLUICE__V1__TASK_QUEUES_REQUEST__INIT;
    Sluice__V1__TaskQueuesReply *reply;
    const char *queue = cli_arg(cli, 0),
               *tenant = conf_str(cli->conf, "tenant");
    enum sl_err rc;

    if (queue != NULL)
        request.queue = (char *)queue;
    if (tenant != NULL)
        request.tenant = (char *)tenant;
    request.limit = (uint32_t)conf_int(cli->conf, "limit");
    rc = api_task_queues(api, &request, &reply, err);
    if (rc != SL_OK)
        return rc;
    if (cli->out.json)
        return out_message(&reply->base, err);
    return queue != NULL ? print_tasks(reply, err) : print_queues(reply, err);
}

static enum sl_err drop(struct cli *cli, struct api *api, const char *queue,
                        struct sl_error *err)
{
    Sluice__V1__TaskDelete request = SLUICE__V1__TASK_DELETE__INIT;
    Sluice__V1__TaskDeleteReply *reply;
    const char *tenant = conf_str(cli->conf, "tenant");
    enum sl_err rc;

    request.queue = (char *)queue;
    if (tenant != NULL)
        request.tenant = (char *)tenant;
    rc = api_task_delete(api, &request, &reply, err);
    if (rc == SL_OK && cli->out.json)
        return out_message(&reply->base, err);
    if (rc == SL_OK)
        cli_say("%s is deleted, with %" PRIu64 " tasks", queue, reply->tasks);
    return rc;
}

int verb_tasks(struct cli *cli)
{
    const char *gone = conf_str(cli->conf, "delete");
    struct sl_error err = SL_ERROR_INIT;
    struct api *api = NULL;
    enum sl_err rc;

    if (gone != NULL && cli_arg(cli, 0) != NULL)
        return cli_usage(cli, "--delete names the queue itself");
    rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = gone != NULL ? drop(cli, api, gone, &err) : list(cli, api, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
