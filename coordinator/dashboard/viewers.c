// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/viewers.c -- events as they happen, to each page that
// is open.
#include "coordinator/dashboard/dashboard.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "coordinator/dashboard/answer.h"
#include "coordinator/service/status_lists.h"

struct viewer {
    struct list_node node; // in dashboard.viewers
    struct http_stream *stream;
    uint64_t after; // id of the last event sent
};

static void viewer_on_gone(void *arg)
{
    struct viewer *v = arg;

    list_remove(&v->node);
    sl_free(v);
}

static enum sl_err send_event(struct viewer *v, const Sluice__V1__Event *e)
{
    struct buf text = BUF_INIT;
    char id[24];
    enum sl_err rc = answer_text(&text, &e->base);

    snprintf(id, sizeof(id), "%llu", (unsigned long long)e->id);
    if (rc == SL_OK)
        rc = http_stream_send(v->stream, id, NULL, buf_text(&text));
    buf_release(&text);
    return rc;
}

// Sends a viewer one page of events: a viewer that comes back after long gets
// the next page soon.
static void viewer_send_events(struct dashboard *d, struct viewer *v)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (feed_events(d->server->feed)->last_id <= v->after)
        return;
    request.after = v->after;
    request.limit = 200;
    rc = status_events(d->server->coord, &request, &reply, &err);
    for (size_t i = 0; rc == SL_OK && i < reply->n_events; i++)
        rc = send_event(v, reply->events[i]);
    if (rc == SL_OK)
        v->after = reply->last;
    if (reply != NULL)
        wire_free(&reply->base);
}

void dashboard_look(void *dashboard)
{
    struct dashboard *d = dashboard;

    if (d->server->coord == NULL)
        return;
    list_for_safe(n, &d->viewers)
    {
        viewer_send_events(d, list_entry(n, struct viewer, node));
    }
}

void dashboard_stream(struct dashboard *d, const struct http_request *q,
                      struct http_answer *a)
{
    const char *last = http_header(q, "Last-Event-ID");
    struct viewer *v;
    uint64_t after;

    if (!answer_number(&after, q, a, "after",
                       feed_events(d->server->feed)->last_id, INT64_MAX))
        return;
    if (last != NULL) // events were sent before
        after = strtoull(last, NULL, 10);
    v = sl_calloc(1, sizeof(*v));
    if (v == NULL) {
        answer_error(a, SL_ENOMEM, "out of memory");
        return;
    }
    v->after = after;
    if (http_stream_open(&v->stream, q, a, viewer_on_gone, v) != SL_OK) {
        sl_free(v);
        return;
    }
    list_push_back(&d->viewers, &v->node);
}
