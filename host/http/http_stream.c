// SPDX-License-Identifier: Apache-2.0
// host/http/http_stream.c -- server-sent events to viewers who may be slow.
//
// A stream that has nothing to send is suspended: the daemon then looks neither
// at its socket nor at its timeout. What is sent resumes it; the daemon asks
// for bytes until there are none. A viewer that takes nothing leaves the daemon
// with a full socket, so its queue grows, and above the cap it is cut off.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "host/http/http_inner.h"

#define BLOCK 4096

void http_stream_resume(struct http_stream *s)
{
    if (!s->suspended)
        return;
    s->suspended = false;
    MHD_resume_connection(s->at);
    http_run_soon(s->http);
}

// Nothing waits for it any more, and its connection ends.
static void http_stream_drop(struct http_stream *s)
{
    s->over = s->dropped = true;
    buf_release(&s->queue);
    s->taken = 0;
    http_cut_off(s->at);
    http_stream_resume(s);
}

static ssize_t http_stream_on_read(void *cls, uint64_t pos, char *to,
                                   size_t bytes)
{
    struct http_stream *s = cls;
    size_t n = s->queue.len - s->taken;

    if (n == 0 && (s->over || s->http->ending))
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        MHD_suspend_connection(s->at);
        s->suspended = true;
        return 0;
    }
    n = sl_min(n, bytes);
    memcpy(to, s->queue.data + s->taken, n);
    s->taken += n;
    if (s->taken == s->queue.len) {
        buf_reset(&s->queue);
        s->taken = 0;
    }
    return (ssize_t)n;
}

struct MHD_Response *http_stream_response(struct http_stream *s)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK,
                                             http_stream_on_read, s, NULL);
}

enum sl_err http_stream_open(struct http_stream **out,
                             const struct http_request *q,
                             struct http_answer *a, loop_fn gone, void *arg)
{
    struct http *h = q->http;
    struct http_stream *s;

    if (h->stream_count >= h->viewers) {
        http_say(a, MHD_HTTP_SERVICE_UNAVAILABLE,
                 "too many viewers; try again later");
        return SL_EBUSY;
    }
    s = sl_calloc(1, sizeof(*s));
    if (s == NULL) {
        http_say(a, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
        return SL_ENOMEM;
    }
    s->http = h;
    s->at = q->at;
    s->gone = gone;
    s->arg = arg;
    list_push_back(&h->streams, &s->node);
    h->stream_count++;
    ((struct http_request *)q)->stream = s;
    http_peer_streams(q->at);
    a->type = "text/event-stream";
    *out = s;
    return SL_OK;
}

// Moves what waits to the front, so that the memory does not grow with time.
static void compact(struct http_stream *s)
{
    if (s->taken < BLOCK)
        return;
    memmove(s->queue.data, s->queue.data + s->taken, s->queue.len - s->taken);
    s->queue.len -= s->taken;
    s->taken = 0;
}

static enum sl_err http_event_put_field(struct buf *to, const char *name,
                                        const char *value, size_t n)
{
    enum sl_err rc = buf_append_str(to, name);

    if (rc == SL_OK)
        rc = buf_append(to, value, n);
    return rc == SL_OK ? buf_append_char(to, '\n') : rc;
}

// A line break within the data, of any of the three kinds, begins a new field.
static enum sl_err put_data(struct buf *to, const char *data)
{
    enum sl_err rc = SL_OK;

    do {
        size_t n = strcspn(data, "\r\n");

        rc = http_event_put_field(to, "data: ", data, n);
        data += n;
        if (*data == '\0')
            break;
        data += data[0] == '\r' && data[1] == '\n' ? 2 : 1;
    } while (rc == SL_OK);
    return rc == SL_OK ? buf_append_char(to, '\n') : rc;
}

static enum sl_err http_event_put(struct buf *to, const char *id,
                                  const char *name, const char *data)
{
    enum sl_err rc = SL_OK;

    if (id != NULL && *id != '\0')
        rc = http_event_put_field(to, "id: ", id, strcspn(id, "\r\n"));
    if (rc == SL_OK && name != NULL)
        rc = http_event_put_field(to, "event: ", name, strcspn(name, "\r\n"));
    return rc == SL_OK ? put_data(to, data) : rc;
}

static enum sl_err http_stream_flush_or_drop(struct http_stream *s,
                                             enum sl_err rc)
{
    if (rc == SL_OK && s->queue.len - s->taken > HTTP_QUEUE_MAX)
        rc = SL_EBUSY;
    if (rc == SL_OK)
        http_stream_resume(s);
    else
        http_stream_drop(s);
    return rc;
}

enum sl_err http_stream_send(struct http_stream *s, const char *id,
                             const char *name, const char *data)
{
    if (s->over)
        return SL_EBUSY;
    compact(s);
    return http_stream_flush_or_drop(s,
                                     http_event_put(&s->queue, id, name, data));
}

void http_stream_close(struct http_stream *s)
{
    s->gone = NULL;
    s->over = true;
    http_stream_resume(s);
}

void http_streams_beat(struct http *h)
{
    list_for(n, &h->streams)
    {
        struct http_stream *s = list_entry(n, struct http_stream, node);

        compact(s);
        if (!s->over)
            (void)http_stream_flush_or_drop(
                s, buf_append_str(&s->queue, ": beat\n\n"));
    }
}

void http_stream_ended(struct http_stream *s)
{
    loop_fn gone = s->gone;
    void *arg = s->arg;

    list_remove(&s->node);
    s->http->stream_count--;
    buf_release(&s->queue);
    sl_free(s);
    if (gone != NULL)
        gone(arg);
}
