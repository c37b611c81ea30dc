// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_azure.c -- Azure's scheduled events.
//
// The service starts when it is asked first, which may take two minutes. An
// event names the machines that it is of; to answer it (StartRequests) lets all
// of them go at once, so only one of this machine alone is answered.
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "host/notice/notice_inner.h"
#include "common/run/log.h"

#define FIRST_MS 150000
#define ASK_MS 10000
#define TELL_MS 3000
#define URL 300
#define NAME 128
#define EVENT 128

struct azure {
    char name[NAME];   // of this machine; "": not known yet
    char event[EVENT]; // of this machine alone; "": none
};

static const char *endpoint(const struct notice_watch *w)
{
    return w->what != NULL ? w->what : "http://169.254.169.254";
}

static void azure_get(struct notice_watch *w, const char *path,
                      uint32_t timeout_ms, struct web_answer *a)
{
    char url[URL];
    const struct web_ask ask = {.method = "GET",
                                .url = url,
                                .header = {"Metadata: true"},
                                .timeout_ms = timeout_ms};

    snprintf(url, sizeof(url), "%s/metadata/%s", endpoint(w), path);
    watch_ask(w, &ask, a);
}

static void learn_name(struct notice_watch *w, struct azure *z)
{
    struct web_answer a;

    azure_get(w, "instance/compute/name?api-version=2021-02-01&format=text",
              ASK_MS, &a);
    if (a.status == 200 && a.body.len < NAME)
        snprintf(z->name, sizeof(z->name), "%s", (const char *)a.body.data);
    z->name[strcspn(z->name, " \r\n")] = '\0';
    web_answer_release(&a);
}

// Returns true if the event names this machine; *alone: and no other.
static bool azure_event_is_ours(const struct azure *z, const json_t *event,
                                bool *alone)
{
    const json_t *all = json_object_get(event, "Resources");
    bool ours = false;
    size_t i;
    json_t *one;

    *alone = json_array_size(all) == 1;
    json_array_foreach(all, i, one) ours =
        ours ||
        (json_is_string(one) && strcmp(json_string_value(one), z->name) == 0);
    return ours;
}

static bool takes_away(const json_t *event)
{
    const char *type = "";

    (void)sl_json_str(&type, event, "EventType", NULL);
    return strcmp(type, "Preempt") == 0 || strcmp(type, "Terminate") == 0 ||
           strcmp(type, "Redeploy") == 0 || strcmp(type, "Reboot") == 0;
}

static void azure_read_events(struct notice_watch *w, struct azure *z,
                              const json_t *all)
{
    const char *type = "", *when = "", *id = "";
    const json_t *events = json_object_get(all, "Events");
    bool goes = false, alone;
    json_t *event;
    size_t i;

    z->event[0] = '\0';
    json_array_foreach(events, i, event)
    {
        if (!takes_away(event) || !azure_event_is_ours(z, event, &alone))
            continue;
        goes = true;
        (void)sl_json_str(&type, event, "EventType", NULL);
        (void)sl_json_str(&when, event, "NotBefore", NULL);
        (void)sl_json_str(&id, event, "EventId", NULL);
        if (alone && strlen(id) < EVENT && z->event[0] == '\0')
            snprintf(z->event, sizeof(z->event), "%s", id);
    }
    if (goes)
        watch_goes(w, watch_time(when, "%a, %d %b %Y %H:%M:%S GMT"),
                   "Azure: %.20s of this machine, not before %.40s", type,
                   when[0] != '\0' ? when : "now");
    else
        watch_stays(w);
}

static void azure_check_events(struct notice_watch *w, struct azure *z,
                               struct web_answer *a, uint32_t timeout_ms)
{
    json_t *all = NULL;

    azure_get(w, "scheduledevents?api-version=2020-07-01", timeout_ms, a);
    if (a->status == 200 && z->name[0] == '\0')
        learn_name(w, z);
    if (a->status == 200 && z->name[0] != '\0' &&
        sl_json_parse(&all, "scheduledevents", (const char *)a->body.data,
                      a->body.len, NULL, NULL) == SL_OK)
        azure_read_events(w, z, all);
    json_decref(all);
}

static void azure_run(struct notice_watch *w)
{
    struct azure z = {.name = ""};
    uint64_t absent = 0, pause;
    uint32_t timeout_ms = FIRST_MS;
    struct web_answer a;

    w->own = &z;
    do {
        azure_check_events(w, &z, &a, timeout_ms);
        if (a.status == 200)
            timeout_ms = ASK_MS;
        pause = watch_pause(w, &absent, &a);
        web_answer_release(&a);
    } while (watch_wait(w, pause));
}

static enum sl_err azure_start_request(struct buf *out, const char *event)
{
    enum sl_err rc = buf_append_str(out, "{\"StartRequests\":[{\"EventId\":");

    if (rc == SL_OK)
        rc = sl_json_quote(out, event, strlen(event));
    return rc == SL_OK ? buf_append_str(out, "}]}") : rc;
}

static void azure_may_go(struct notice_watch *w)
{
    const struct azure *z = w->own;
    char url[URL];
    struct web_ask ask = {
        .method = "POST",
        .url = url,
        .header = {"Metadata: true", "Content-Type: application/json"},
        .timeout_ms = TELL_MS};
    struct buf body = BUF_INIT;
    struct web_answer a;

    if (z->event[0] != '\0' && azure_start_request(&body, z->event) == SL_OK) {
        snprintf(url, sizeof(url),
                 "%s/metadata/scheduledevents?api-version=2020-07-01",
                 endpoint(w));
        ask.body = buf_text(&body);
        watch_ask(w, &ask, &a);
        LOG(INFO, "told Azure that it may take this machine",
            "event=%s status=%ld", z->event, a.status);
        web_answer_release(&a);
    }
    buf_release(&body);
}

const struct notice_source source_azure = {
    .name = "azure", .run = azure_run, .may_go = azure_may_go};
