// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/news.c -- see news.h.
#include "coordinator/dashboard/news.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/dashboard/answer.h"
#include "coordinator/service/status_lists.h"

// Writes a message and frees it; NULL: no memory.
static enum sl_err news_append_message(struct buf *out,
                                       ProtobufCMessage *message)
{
    enum sl_err rc = message == NULL ? SL_ENOMEM : answer_text(out, message);

    wire_free(message);
    return rc;
}

// ---- the status

// Returns the place of the job's status, or that of the oldest one for it.
static size_t news_status_place(const struct news *n, const char *id)
{
    size_t oldest = 0;

    for (size_t i = 0; i < NEWS_KEPT; i++) {
        if (n->kept[i].id != NULL && strcmp(n->kept[i].id, id) == 0)
            return i;
        if (n->kept[i].at_us < n->kept[oldest].at_us)
            oldest = i;
    }
    return oldest;
}

static void news_drop_status(struct news *n, size_t i)
{
    sl_free(n->kept[i].id);
    buf_release(&n->kept[i].text);
    memset(&n->kept[i], 0, sizeof(n->kept[i]));
}

static enum sl_err news_renew_status(struct news *n, size_t i, struct coord *c,
                                     char *id, struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *reply = NULL;
    enum sl_err rc;

    news_drop_status(n, i);
    request.id = id;
    rc = coord_get(c, &request, &reply, err);
    if (rc == SL_OK)
        rc = news_append_message(&n->kept[i].text, &reply->base);
    if (rc == SL_OK)
        n->kept[i].id = sl_strdup(id);
    if (n->kept[i].id == NULL)
        news_drop_status(n, i);
    else
        n->kept[i].at_us = sl_real_us();
    return rc;
}

static enum sl_err news_append_status(struct news *n, struct coord *c, char *id,
                                      struct buf *out, struct sl_error *err)
{
    size_t i = news_status_place(n, id);
    uint64_t age_us = sl_real_us() - n->kept[i].at_us;
    bool fresh = n->kept[i].id != NULL && strcmp(n->kept[i].id, id) == 0 &&
                 age_us < NEWS_MS * 1000;
    enum sl_err rc = fresh ? SL_OK : news_renew_status(n, i, c, id, err);

    if (rc == SL_OK && n->kept[i].id == NULL)
        rc = SL_ENOMEM;
    return rc == SL_OK
               ? buf_append(out, n->kept[i].text.data, n->kept[i].text.len)
               : rc;
}

// ---- events and points since the last answer

static enum sl_err news_append_events(struct coord *c, char *id, uint64_t after,
                                      struct buf *out, struct sl_error *err)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *reply = NULL;
    enum sl_err rc;

    request.id = id;
    request.after = after;
    rc = status_events(c, &request, &reply, err);
    return rc == SL_OK ? news_append_message(out, &reply->base) : rc;
}

static enum sl_err news_append_history(struct coord *c, char *id,
                                       uint64_t after_us, struct buf *out,
                                       struct sl_error *err)
{
    Sluice__V1__HistoryRequest request = SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__HistoryReply *reply = NULL;
    enum sl_err rc;

    request.id = id;
    request.after_us = after_us;
    rc = status_history(c, &request, &reply, err);
    return rc == SL_OK ? news_append_message(out, &reply->base) : rc;
}

static enum sl_err news_append_timeline(struct coord *c, char *id,
                                        uint64_t after, struct buf *out,
                                        struct sl_error *err)
{
    Sluice__V1__TimelineRequest request = SLUICE__V1__TIMELINE_REQUEST__INIT;
    Sluice__V1__TimelineReply *reply = NULL;
    enum sl_err rc;

    request.id = id;
    request.after = after;
    request.limit = 2000;
    rc = status_timeline(c, &request, &reply, err);
    return rc == SL_OK ? news_append_message(out, &reply->base) : rc;
}

static enum sl_err key(struct buf *out, enum sl_err rc, const char *text)
{
    return rc == SL_OK ? buf_append_str(out, text) : rc;
}

void news_answer(struct news *n, struct coord *c, char *id,
                 const struct http_request *q, struct http_answer *a)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf *out = &a->body;
    uint64_t event, point_us, span;
    enum sl_err rc;

    if (!answer_number(&event, q, a, "event", 0, INT64_MAX) ||
        !answer_number(&point_us, q, a, "point_us", 0, INT64_MAX) ||
        !answer_number(&span, q, a, "span", 0, INT64_MAX))
        return;
    rc = buf_appendf(
        out, "{\"schema_version\":%d,\"status\":", PBJSON_SCHEMA_VERSION);
    if (rc == SL_OK)
        rc = news_append_status(n, c, id, out, &err);
    rc = key(out, rc, ",\"events\":");
    if (rc == SL_OK)
        rc = news_append_events(c, id, event, out, &err);
    rc = key(out, rc, ",\"history\":");
    if (rc == SL_OK)
        rc = news_append_history(c, id, point_us, out, &err);
    rc = key(out, rc, ",\"timeline\":");
    if (rc == SL_OK)
        rc = news_append_timeline(c, id, span, out, &err);
    rc = key(out, rc, "}");
    if (rc == SL_OK) {
        a->type = "application/json";
        return;
    }
    buf_reset(out);
    answer_error(a, rc, err.text[0] != '\0' ? err.text : sl_err_text(rc));
}

void news_release(struct news *n)
{
    for (size_t i = 0; i < NEWS_KEPT; i++)
        news_drop_status(n, i);
}
