// SPDX-License-Identifier: Apache-2.0
// client/show/report.c -- sluice report: a job's charts as one file.
#include "client/show/report.h"

#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/target.h"
#include "client/cli/verbs.h"
#include "common/base/base64.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "host/page/page.h"
#include "proto/pbjson.h"

// ---- the page

static enum sl_err add_hash(struct buf *out, const void *bytes, size_t n)
{
    uint8_t digest[SHA256_BYTES];
    enum sl_err rc = sha256_bytes(digest, bytes, n);

    if (rc == SL_OK)
        rc = buf_append_str(out, " 'sha256-");
    if (rc == SL_OK)
        rc = base64_encode(out, digest, sizeof(digest));
    return rc == SL_OK ? buf_append_char(out, '\'') : rc;
}

static enum sl_err add_policy(struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "<meta http-equiv=\"Content-Security-Policy\" content=\""
             "default-src 'none'; img-src data:; base-uri 'none'; "
             "form-action 'none'; script-src");

    if (rc == SL_OK)
        rc = add_hash(out, page_chart, page_chart_len);
    if (rc == SL_OK)
        rc = add_hash(out, page_js, page_js_len);
    if (rc == SL_OK)
        rc = buf_append_str(out, "; style-src");
    if (rc == SL_OK)
        rc = add_hash(out, page_css, page_css_len);
    return rc == SL_OK ? buf_append_str(out, "\">\n") : rc;
}

static enum sl_err report_append_file(struct buf *out, const char *before,
                                      const void *bytes, size_t n,
                                      const char *after)
{
    enum sl_err rc = buf_append_str(out, before);

    if (rc == SL_OK)
        rc = buf_append(out, bytes, n);
    return rc == SL_OK ? buf_append_str(out, after) : rc;
}

// Within strings alone is there a '<' in JSON: no name ends the script.
static enum sl_err add_data(struct buf *out, const json_t *data)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = sl_json_write(&text, data, false);

    for (size_t i = 0; rc == SL_OK && i < text.len; i++) {
        rc = text.data[i] == '<' ? buf_append_str(out, "\\u003c")
                                 : buf_append_char(out, (char)text.data[i]);
    }
    buf_release(&text);
    return rc;
}

static enum sl_err append_page(struct buf *out, const json_t *data)
{
    enum sl_err rc =
        buf_append_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n"
                            "<meta charset=\"utf-8\">\n");

    if (rc == SL_OK)
        rc = add_policy(out);
    if (rc == SL_OK)
        rc = report_append_file(
            out,
            "<meta name=\"viewport\" content=\"width=device-width, "
            "initial-scale=1\">\n<title>Sluice</title>\n"
            "<link rel=\"icon\" href=\"data:,\">\n<style>",
            page_css, page_css_len,
            "</style>\n</head>\n<body>\n"
            "<script type=\"application/json\" id=\"data\">");
    if (rc == SL_OK)
        rc = add_data(out, data);
    if (rc == SL_OK)
        rc = report_append_file(out, "</script>\n<script>", page_chart,
                                page_chart_len, "</script>\n");
    if (rc == SL_OK)
        rc = report_append_file(out, "<script>", page_js, page_js_len,
                                "</script>\n</body>\n</html>\n");
    return rc;
}

enum sl_err report_page(struct buf *out, const json_t *data)
{
    struct buf page = BUF_INIT;
    enum sl_err rc = append_page(&page, data);

    if (rc == SL_OK)
        rc = buf_append(out, page.data, page.len);
    buf_release(&page);
    return rc;
}

// ---- the data

// The list `key` of a reply, as `as` of the data.
static enum sl_err put_list(json_t *data, const char *as, const char *key,
                            const ProtobufCMessage *reply)
{
    json_t *object = NULL;
    enum sl_err rc = pbjson_write(&object, reply);

    if (rc == SL_OK &&
        json_object_set(data, as, json_object_get(object, key)) != 0)
        rc = SL_ENOMEM;
    json_decref(object);
    return rc;
}

static enum sl_err add_status(json_t *data, struct api_client *api,
                              const char *id, struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts;
    Sluice__V1__JobStatus *status;
    json_t *object = NULL;
    enum sl_err rc;

    request.id = (char *)id;
    request.shards = true;
    request.spec = true;
    rc = api_get(api, &request, &status, err);
    if (rc == SL_OK)
        rc = api_checkpoints(api, &request, &cuts, err);
    if (rc != SL_OK)
        return rc;
    rc = pbjson_write(&object, &status->base);
    if (rc == SL_OK && json_object_set_new(data, "status", object) != 0)
        rc = SL_ENOMEM;
    if (rc == SL_OK)
        rc = put_list(data, "checkpoints", "checkpoints", &cuts->base);
    return rc == SL_OK ? rc : sl_fail(err, rc, "out of memory");
}

// The job's own, and what befell members while it ran.
static enum sl_err report_add_events(json_t *data, struct api_client *api,
                                     const char *id, struct sl_error *err)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    json_t *status = json_object_get(data, "status"), *list = json_array();
    uint64_t job = (uint64_t)json_integer_value(json_object_get(status, "job"));
    double from = json_number_value(json_object_get(status, "submitted_unix"));
    double until = json_number_value(json_object_get(status, "ended_unix"));
    Sluice__V1__EventsReply *reply;
    enum sl_err rc;

    do {
        rc = api_events(api, &request, &reply, err);
        for (size_t i = 0; rc == SL_OK && i < reply->n_events; i++) {
            const Sluice__V1__Event *e = reply->events[i];
            double at = (double)e->unix_us / 1e6;
            json_t *one = NULL;

            if (e->job != job && (e->job != 0 || e->member[0] == '\0' ||
                                  at < from || (until > 0 && at > until)))
                continue;
            if (pbjson_write(&one, &e->base) != SL_OK ||
                json_array_append_new(list, one) != 0)
                rc = sl_no_memory(err);
        }
        request.after = rc == SL_OK ? reply->last : 0;
    } while (rc == SL_OK && reply->more);
    if (json_object_set_new(data, "events", list) != 0 && rc == SL_OK)
        rc = sl_no_memory(err);
    return rc;
}

// Points of the seconds, and before them those of the minutes.
static enum sl_err add_history(json_t *data, struct api_client *api,
                               const char *id, struct sl_error *err)
{
    Sluice__V1__HistoryRequest request = SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__HistoryReply *minutes, *seconds;
    enum sl_err rc;

    request.id = (char *)id;
    rc = api_history(api, &request, &seconds, err);
    request.minutes = true;
    if (rc == SL_OK)
        rc = api_history(api, &request, &minutes, err);
    if (rc != SL_OK)
        return rc;
    while (seconds->n_points > 0 && minutes->n_points > 0 &&
           minutes->points[minutes->n_points - 1]->unix_us >=
               seconds->points[0]->unix_us)
        minutes->n_points--;
    rc = put_list(data, "history", "points", &minutes->base);
    if (rc == SL_OK)
        rc = put_list(data, "seconds", "points", &seconds->base);
    if (rc == SL_OK && json_array_extend(json_object_get(data, "history"),
                                         json_object_get(data, "seconds")) != 0)
        rc = SL_ENOMEM;
    (void)json_object_del(data, "seconds");
    return rc == SL_OK ? rc : sl_fail(err, rc, "out of memory");
}

static enum sl_err add_timeline(json_t *data, struct api_client *api,
                                const char *id, struct sl_error *err)
{
    Sluice__V1__TimelineRequest request = SLUICE__V1__TIMELINE_REQUEST__INIT;
    Sluice__V1__TimelineReply *reply;
    enum sl_err rc;

    request.id = (char *)id;
    rc = api_timeline(api, &request, &reply, err);
    if (rc != SL_OK)
        return rc;
    rc = put_list(data, "spans", "spans", &reply->base);
    if (rc == SL_OK &&
        json_object_set_new(data, "unix_us",
                            json_integer((json_int_t)reply->unix_us)) != 0)
        rc = SL_ENOMEM;
    return rc == SL_OK ? rc : sl_fail(err, rc, "out of memory");
}

static enum sl_err write_page(const json_t *data, const char *path,
                              struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = report_page(&text, data);

    if (rc != SL_OK)
        rc = sl_fail(err, rc, "%s: out of memory", path);
    else
        rc = target_write(path, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

int verb_report(struct cli *cli)
{
    const char *path = conf_origin(cli->conf, "output") == CONF_FLAG
                           ? conf_str(cli->conf, "output")
                           : "report.html";
    const char *id = cli_arg(cli, 0);
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    json_t *data = json_object();
    enum sl_err rc = target_check(path, &err);

    if (rc == SL_OK)
        rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = add_status(data, api, id, &err);
    if (rc == SL_OK)
        rc = report_add_events(data, api, id, &err);
    if (rc == SL_OK)
        rc = add_history(data, api, id, &err);
    if (rc == SL_OK)
        rc = add_timeline(data, api, id, &err);
    if (rc == SL_OK)
        rc = write_page(data, path, &err);
    if (rc == SL_OK && !target_is_stdout(path))
        cli_say("%s: open it in a browser; it needs nothing else", path);
    json_decref(data);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
