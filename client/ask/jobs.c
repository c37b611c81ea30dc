// SPDX-License-Identifier: Apache-2.0
// client/ask/jobs.c -- jobs, watch, wait, stop, delete.
#include <stdio.h>
#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/show/follow.h"
#include "client/cli/listing.h"
#include "client/show/progress.h"
#include "client/cli/verbs.h"
#include "common/base/mem.h"

// ---- jobs

#define PAGE 1000 // jobs of an answer, where all are asked for

// Appends the jobs of a page that have the name; they stay the api's. A
// coordinator that does not know of names sends jobs of any.
static enum sl_err add_page(Sluice__V1__ListReply *list,
                            const Sluice__V1__ListReply *page, const char *name,
                            struct sl_error *err)
{
    Sluice__V1__JobStatus **more = sl_realloc_array(
        list->jobs, list->n_jobs + page->n_jobs + 1, sizeof(*more));

    if (more == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for the list");
    list->jobs = more;
    for (size_t i = 0; i < page->n_jobs; i++)
        if (name[0] == '\0' || strcmp(page->jobs[i]->name, name) == 0)
            list->jobs[list->n_jobs++] = page->jobs[i];
    list->more = page->more;
    return SL_OK;
}

// Asks for one page, or page by page for all. A coordinator that does not know
// of `more` may have some if the page is full.
static enum sl_err list_jobs(struct api_client *api,
                             Sluice__V1__ListReply *list,
                             Sluice__V1__ListRequest *request, bool all,
                             struct sl_error *err)
{
    Sluice__V1__ListReply *page;
    enum sl_err rc;

    do {
        rc = api_list(api, request, &page, err);
        if (rc == SL_OK)
            rc = add_page(list, page, request->name, err);
        if (rc == SL_OK && page->n_jobs > 0)
            request->before = page->jobs[page->n_jobs - 1]->job;
    } while (rc == SL_OK && all && page->n_jobs > 0 &&
             (page->more || page->n_jobs == request->limit));
    return rc;
}

int verb_jobs(struct cli *cli)
{
    Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply list = SLUICE__V1__LIST_REPLY__INIT;
    const char *name = conf_str(cli->conf, "name");
    bool all = conf_bool(cli->conf, "all");
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.limit = all ? PAGE : (uint32_t)conf_int(cli->conf, "limit");
    if (name != NULL)
        request.name = (char *)name;
    if (rc == SL_OK)
        rc = list_jobs(api, &list, &request, all, &err);
    if (rc == SL_OK)
        rc = list_print(
            &cli->out, LIST_JOBS, &list.base,
            (ProtobufCMessage *const *)list.jobs, list.n_jobs,
            name != NULL
                ? "No job has this name"
                : "No jobs yet; try: sluice submit examples/fashion-mlp.yaml",
            &err);
    if (rc == SL_OK && list.more && !cli->out.json)
        cli_say("These are the newest %zu; --all lists older ones too",
                list.n_jobs);
    sl_free(list.jobs);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

// ---- watch, wait

// Gets the status of job `id`: a missing job or coordinator fails at once,
// within
// --timeout.
static enum sl_err jobs_get_status(struct api_client *api, const char *id,
                                   Sluice__V1__JobStatus **out,
                                   struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;

    request.id = (char *)id;
    return api_get(api, &request, out, err);
}

static int watch_one(struct cli *cli, const char *id,
                     const struct follow_options *options)
{
    Sluice__V1__JobStatus *status;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    int code;

    if (follow_can_write(options, &err) != SL_OK ||
        follow_dial(&api, cli->conf, &err) != SL_OK ||
        jobs_get_status(api, id, &status, &err) != SL_OK)
        code = cli_fail(&err);
    else
        code = follow_job(cli, api, status->id, options);
    api_close(api);
    return code;
}

// Each to its end, one after another; the first code that is not 0 is ours.
static int jobs_watch_each(struct cli *cli,
                           const struct follow_options *options)
{
    int code = CLI_EXIT_OK;

    if (cli_arg(cli, 1) != NULL &&
        (options->summary != NULL || options->tensorboard != NULL))
        return cli_usage(cli, "--%s takes one job",
                         options->summary != NULL ? "summary" : "tensorboard");
    for (size_t i = 0; cli_arg(cli, i) != NULL; i++) {
        int one = watch_one(cli, cli_arg(cli, i), options);

        if (code == CLI_EXIT_OK)
            code = one;
        if (one == CLI_EXIT_INTERRUPTED || one == FOLLOW_EXIT_TERMINATED ||
            one == CLI_EXIT_UNAVAILABLE)
            break;
    }
    return code;
}

int verb_watch(struct cli *cli)
{
    struct follow_options options = {
        .summary_text = conf_int(cli->conf, "until-step") == 0,
        .lines = cli->out.json,
        .summary = conf_str(cli->conf, "summary"),
        .period_ms = conf_int(cli->conf, "period"),
        .until_step = (uint64_t)conf_int(cli->conf, "until-step"),
        .tensorboard = conf_str(cli->conf, "tensorboard"),
        .histograms = conf_bool(cli->conf, "histograms"),
    };

    return jobs_watch_each(cli, &options);
}

int verb_wait(struct cli *cli)
{
    struct follow_options options = {.quiet = true};

    return jobs_watch_each(cli, &options);
}

// ---- stop, delete

#define STOP_LOOK_MS 100

// Until the job has ended. A coordinator that was started again does not know
// of it: it is asked again each time.
static enum sl_err stop_and_wait(struct api_client *api,
                                 const Sluice__V1__StopRequest *request,
                                 Sluice__V1__JobStatus **status,
                                 struct sl_error *err)
{
    bool told = false;
    enum sl_err rc;

    for (;;) {
        rc = api_stop(api, request, status, err);
        if (rc != SL_OK || progress_ended((*status)->state))
            return rc;
        if (!told)
            cli_say("%s %s; --now does not wait for the checkpoint",
                    (*status)->id, (*status)->reason);
        told = true;
        cli_pause_ms(STOP_LOOK_MS);
    }
}

static enum sl_err stop_one(struct cli *cli, struct api_client *api,
                            const char *id, struct sl_error *err)
{
    Sluice__V1__StopRequest request = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    enum sl_err rc;

    request.id = (char *)id;
    request.checkpoint = !conf_bool(cli->conf, "now");
    rc = stop_and_wait(api, &request, &status, err);
    if (rc == SL_OK && cli->out.json)
        rc = out_message(&status->base, err);
    else if (rc == SL_OK)
        cli_say("%s is %s after %llu of %llu steps", status->id,
                progress_state(status->state),
                (unsigned long long)status->steps_counted,
                (unsigned long long)status->steps_asked);
    return rc;
}

static enum sl_err delete_one(struct cli *cli, struct api_client *api,
                              const char *id, struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *reply;
    enum sl_err rc;

    (void)cli;
    request.id = (char *)id;
    rc = api_delete(api, &request, &reply, err);
    if (rc == SL_OK)
        cli_say("%s and its checkpoints are deleted", id);
    return rc;
}

// Does it to each job that is named, also after one of them could not be; the
// first failure is the verb's. A coordinator that is away ends it.
static int each_job(struct cli *cli,
                    enum sl_err (*one)(struct cli *cli, struct api_client *api,
                                       const char *id, struct sl_error *err))
{
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);
    int code = rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);

    for (size_t i = 0; rc == SL_OK && cli_arg(cli, i) != NULL; i++) {
        rc = one(cli, api, cli_arg(cli, i), &err);
        if (rc == SL_OK)
            continue;
        code = code == CLI_EXIT_OK ? cli_fail(&err) : (cli_fail(&err), code);
        if (rc != SL_EUNAVAIL && rc != SL_ETIMEDOUT && rc != SL_EIO)
            rc = SL_OK;
    }
    api_close(api);
    return code;
}

int verb_stop(struct cli *cli)
{
    return each_job(cli, stop_one);
}

int verb_delete(struct cli *cli)
{
    return each_job(cli, delete_one);
}
