// SPDX-License-Identifier: Apache-2.0
// client/ask/events.c -- what happened, in pages, and what happens next.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"
#include "client/show/progress.h"

#define AGAIN_MS 500

struct events_reader {
    struct cli *cli;
    struct api_client *api;
    Sluice__V1__EventsRequest request;
    bool follow;
    bool ended; // the job that is followed has
    bool away;  // was said
};

// "2026-07-01 12:34:56.123", local time.
static const char *events_time_text(char out[40], uint64_t unix_us)
{
    time_t seconds = (time_t)(unix_us / 1000000);
    struct tm at;
    size_t n;

    localtime_r(&seconds, &at);
    n = strftime(out, 32, "%Y-%m-%d %H:%M:%S", &at);
    snprintf(out + n, 40 - n, ".%03u", (unsigned)(unix_us / 1000 % 1000));
    return out;
}

static enum sl_err print_line(const Sluice__V1__Event *e, bool wide,
                              struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char at[40], job[24] = "-";
    enum sl_err rc;

    if (e->job != 0)
        snprintf(job, sizeof(job), "j-%llu", (unsigned long long)e->job);
    rc = buf_appendf(&text, "%s  %-19s %-5s %s",
                     events_time_text(at, e->unix_us), e->kind, job, e->text);
    if (rc == SL_OK && wide)
        rc = buf_appendf(&text, "  (%" PRIu64 ", %s%s%s)", e->id, e->level,
                         e->member[0] != '\0' ? ", " : "", e->member);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\n');
    return out_text(&text, rc, err);
}

static enum sl_err print_event(const struct out *o, Sluice__V1__Event *e,
                               struct sl_error *err)
{
    ProtobufCMessage *const item = &e->base;

    if (o->json)
        return out_message(item, err);
    if (o->form == OUT_NAME)
        return list_names(LIST_EVENTS, &item, 1, err);
    return print_line(e, o->form == OUT_WIDE, err);
}

// True for the kinds of which a job has one at its end. Others may follow: a
// checkpoint that was being written is made all the same.
static bool tells_end(const char *kind)
{
    return strcmp(kind, "job-finished") == 0 ||
           strcmp(kind, "job-failed") == 0 ||
           strcmp(kind, "job-stopped") == 0 || strcmp(kind, "job-deleted") == 0;
}

static enum sl_err events_print_reply(struct events_reader *r,
                                      const Sluice__V1__EventsReply *reply,
                                      struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (r->cli->out.json && !r->follow)
        return out_list(&r->cli->out, &reply->base,
                        (ProtobufCMessage *const *)reply->events,
                        reply->n_events, err);
    for (size_t i = 0; rc == SL_OK && i < reply->n_events; i++) {
        Sluice__V1__Event *e = reply->events[i];

        rc = print_event(&r->cli->out, e, err);
        r->ended = r->ended || tells_end(e->kind);
    }
    return rc;
}

// A page; what follows begins behind it.
static enum sl_err page(struct events_reader *r, bool *more,
                        struct sl_error *err)
{
    Sluice__V1__EventsReply *reply;
    enum sl_err rc;

    api_forget(r->api);
    rc = api_events(r->api, &r->request, &reply, err);

    if (rc != SL_OK)
        return rc;
    if (r->away)
        cli_say("The coordinator is back");
    r->away = false;
    r->request.after = reply->last;
    r->request.newest = false;
    *more = reply->more;
    return events_print_reply(r, reply, err);
}

// Asks whether the job has ended already: then the event that tells so may lie
// before those that are printed, or a coordinator that was killed lost it. To
// be called before a page is read: what the end left behind is in that page.
static enum sl_err events_look(struct events_reader *r, bool *ended,
                               struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    enum sl_err rc;

    request.id = r->request.id;
    rc = api_get(r->api, &request, &status, err);
    if (rc == SL_OK)
        *ended = progress_ended(status->state);
    return rc;
}

static enum sl_err events_go_on(struct events_reader *r, bool *more,
                                struct sl_error *err)
{
    bool ended = false;
    enum sl_err rc = SL_OK;

    if (!*more) {
        cli_pause_ms(AGAIN_MS);
        if (r->request.id[0] != '\0')
            rc = events_look(r, &ended, err);
    }
    if (rc == SL_OK)
        rc = page(r, more, err);
    r->ended = r->ended || (ended && rc == SL_OK);
    return rc;
}

// Over restarts of the coordinator: ids go on.
static enum sl_err events_follow(struct events_reader *r, struct sl_error *err)
{
    bool more = false;
    enum sl_err rc;

    while (more || !r->ended || r->request.id[0] == '\0') {
        rc = events_go_on(r, &more, err);
        if (rc == SL_ENOENT) {
            // Only a job that has ended can be deleted, with its events.
            cli_say("Job %s was deleted after its end", r->request.id);
            return SL_OK;
        }
        if (rc == SL_EUNAVAIL || rc == SL_ETIMEDOUT) {
            if (!r->away)
                cli_say("The coordinator at %s is away, waiting for it to "
                        "come back",
                        api_address(r->api));
            r->away = true;
            more = false;
        } else if (rc != SL_OK) {
            return rc;
        }
    }
    return SL_OK;
}

int verb_events(struct cli *cli)
{
    struct events_reader r = {.cli = cli,
                              .request = SLUICE__V1__EVENTS_REQUEST__INIT,
                              .follow = conf_bool(cli->conf, "follow")};
    struct sl_error err = SL_ERROR_INIT;
    bool more = true;
    enum sl_err rc = api_open(&r.api, cli->conf, &err);

    if (cli_arg(cli, 0) != NULL)
        r.request.id = (char *)cli_arg(cli, 0);
    r.request.after = (uint64_t)conf_int(cli->conf, "after");
    r.request.newest = r.request.after == 0;
    r.request.limit = (uint32_t)conf_int(cli->conf, "last");
    if (rc == SL_OK && r.follow && cli_arg(cli, 0) != NULL)
        rc = events_look(&r, &r.ended, &err);
    while (rc == SL_OK && more) {
        rc = page(&r, &more, &err);
        if (cli->out.form == OUT_JSON && !r.follow)
            break; // the document says that there is more
    }
    if (rc == SL_OK && r.follow)
        rc = events_follow(&r, &err);
    api_close(r.api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
