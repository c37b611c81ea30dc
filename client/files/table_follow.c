// SPDX-License-Identifier: Apache-2.0
// client/files/table_follow.c -- a feed of a table, from cut to cut of a job
// that runs.
//
// SIGTERM may end it anywhere: the feed on disk is whole at every moment, so
// there is nothing to do then.
#include <stdio.h>
#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "client/files/table_cut.h"
#include "client/files/table_feed.h"
#include "client/show/progress.h"

#define LOOK_MS 500

struct table_follow {
    struct cli *cli;
    struct api_client *api;
    struct store_setup setup;
    struct table_feed feed;
    char id[24];   // "j-1"; empty: the feed is not open yet
    bool ended;    // the job has, and its list of cuts is the last one
    bool troubled; // the last look failed, which was said
};

// Returns the name of the job's folder in the store, which no other job has;
// NULL for a cut without shards.
static const char *follow_job_name(const Sluice__V1__Checkpoint *cut)
{
    const char *folder = cut->n_shards > 0 ? cut->shards[0]->folder : NULL;
    const char *slash = folder != NULL ? strrchr(folder, '/') : NULL;

    return slash != NULL ? slash + 1 : folder;
}

// Tells of the files that the last cut has made.
static void follow_tell(const struct table_feed *feed)
{
    size_t first = feed->count - 1;

    while (first > 0 && feed->files[first - 1].cut == feed->files[first].cut)
        first--;
    for (size_t i = first; i < feed->count; i++) {
        const struct feed_file *file = &feed->files[i];
        char size[OUT_NUMBER];

        out_bytes(size, file->bytes);
        if (file->base)
            cli_say("Wrote all %llu rows of cut %llu: %s, %s",
                    (unsigned long long)file->sum.rows,
                    (unsigned long long)file->cut, file->name, size);
        else
            cli_say("Wrote %llu changed rows of cut %llu and %llu ids that "
                    "went: %s, %s",
                    (unsigned long long)file->changed,
                    (unsigned long long)file->cut,
                    (unsigned long long)file->gone, file->name, size);
    }
}

static enum sl_err follow_add(struct table_follow *f,
                              const Sluice__V1__CheckpointsReply *reply,
                              const Sluice__V1__Checkpoint *cut,
                              struct sl_error *err)
{
    const struct feed_file *last = table_feed_last(&f->feed);
    const char *job = follow_job_name(cut);
    struct table_export x = {.name = NULL};
    enum sl_err rc;

    if (last != NULL && last->cut == cut->cut)
        return SL_OK;
    if (job == NULL)
        return sl_fail(err, SL_ECORRUPT, "cut %llu has no shards",
                       (unsigned long long)cut->cut);
    rc = table_cut_open(&x, f->api, reply, cut, f->feed.table, &f->setup, err);
    if (rc == SL_OK)
        rc = table_feed_add(&f->feed, &x, job, cut->cut, err);
    table_export_release(&x);
    if (rc == SL_OK)
        follow_tell(&f->feed);
    return rc;
}

// Opens the feed, once the coordinator has said that there is such a table.
static enum sl_err follow_open_feed(struct table_follow *f,
                                    const Sluice__V1__CheckpointsReply *reply,
                                    struct sl_error *err)
{
    const struct conf *conf = f->cli->conf;
    const char *name = conf_str(conf, "table");
    const Sluice__V1__TableSpec *table = NULL;
    enum sl_err rc = table_cut_find(&table, reply->tables, reply->n_tables,
                                    name, reply->job, err);

    if (rc != SL_OK)
        return rc;
    snprintf(f->id, sizeof(f->id), "j-%llu", (unsigned long long)reply->job);
    return table_feed_open(&f->feed, conf_str(conf, "to"), f->id, name,
                           table->dim, (uint32_t)conf_int(conf, "compact"),
                           err);
}

// Asks for the job's cuts. f->ended is asked for first: the cuts of a job that
// has ended are all there.
static enum sl_err follow_ask(struct table_follow *f,
                              Sluice__V1__CheckpointsReply **reply,
                              struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    enum sl_err rc;

    request.id = (char *)cli_arg(f->cli, 0);
    api_forget(f->api);
    rc = api_get(f->api, &request, &status, err);
    if (rc != SL_OK)
        return rc;
    f->ended = progress_ended(status->state);
    rc = api_checkpoints(f->api, &request, reply, err);
    if (rc == SL_OK && f->id[0] == '\0')
        rc = follow_open_feed(f, *reply, err);
    return rc;
}

// Writes what is new. *again: a failure may pass, so that it is worth another
// look.
static enum sl_err follow_look(struct table_follow *f, bool *again,
                               struct sl_error *err)
{
    bool begun = f->id[0] != '\0';
    const Sluice__V1__Checkpoint *cut = NULL;
    Sluice__V1__CheckpointsReply *reply = NULL;
    enum sl_err rc = follow_ask(f, &reply, err);

    *again = begun && sl_err_transient(rc);
    if (rc != SL_OK)
        return rc;
    if (reply->n_checkpoints == 0 && !f->ended &&
        !conf_bool(f->cli->conf, "once"))
        return SL_OK;
    rc = cut_find(&cut, reply, f->id, 0, false, err);
    if (rc != SL_OK)
        return rc;
    rc = follow_add(f, reply, cut, err);
    // Files of a cut may go while they are asked for, when there is a newer
    // one.
    *again = sl_err_transient(rc) || (rc == SL_ENOENT && !f->ended);
    return rc;
}

// Says what failed, the first time.
static void follow_trouble(struct table_follow *f, const struct sl_error *err)
{
    if (!f->troubled)
        cli_say("%s; trying again", err->text);
    f->troubled = true;
}

static enum sl_err follow_to_the_end(struct table_follow *f,
                                     struct sl_error *err)
{
    bool once = conf_bool(f->cli->conf, "once");

    for (;;) {
        bool again = false;
        enum sl_err rc = follow_look(f, &again, err);

        if (once || (rc != SL_OK && !again))
            return rc;
        if (rc == SL_OK && f->ended)
            return SL_OK;
        if (rc == SL_OK)
            f->troubled = false;
        else
            follow_trouble(f, err);
        cli_pause_ms(LOOK_MS);
    }
}

int verb_follow(struct cli *cli)
{
    struct table_follow f = {.cli = cli,
                             .setup = store_setup_of(cli->conf),
                             .feed = {.lock = STATELOCK_INIT}};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (conf_str(cli->conf, "table") == NULL ||
        conf_str(cli->conf, "to") == NULL)
        return cli_usage(cli, "name a table with --table, and a folder with "
                              "--to");
    rc = api_open(&f.api, cli->conf, &err);
    if (rc == SL_OK)
        rc = follow_to_the_end(&f, &err);
    table_feed_release(&f.feed);
    api_close(f.api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
