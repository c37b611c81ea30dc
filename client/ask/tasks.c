// SPDX-License-Identifier: Apache-2.0
// client/ask/tasks.c -- queues of tasks, the tasks of one, and the end of one.
#include <inttypes.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"

static enum sl_err tasks_list(struct cli *cli, struct api_client *api,
                              struct sl_error *err)
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
    if (queue != NULL)
        return list_print(&cli->out, LIST_TASKS, &reply->base,
                          (ProtobufCMessage *const *)reply->tasks,
                          reply->n_tasks, "the queue is empty", err);
    return list_print(&cli->out, LIST_QUEUES, &reply->base,
                      (ProtobufCMessage *const *)reply->queues, reply->n_queues,
                      "no queue: nothing was ever scheduled", err);
}

static enum sl_err tasks_delete_queue(struct cli *cli, struct api_client *api,
                                      const char *queue, struct sl_error *err)
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
    struct api_client *api = NULL;
    enum sl_err rc;

    if (gone != NULL && cli_arg(cli, 0) != NULL)
        return cli_usage(cli, "--delete names the queue itself");
    rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = gone != NULL ? tasks_delete_queue(cli, api, gone, &err)
                          : tasks_list(cli, api, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
