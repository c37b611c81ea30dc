// SPDX-License-Identifier: Apache-2.0
// common/notice/notice_web.c -- calls of a host's own metadata service.
//
// curl's multi interface, because one of its waits can be ended from another
// thread: a long poll does not hold up the daemon's end.
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/notice/notice_inner.h"

#define CONNECT_MS 1000L
#define LOOK_MS 1000

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_once(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

bool web_begin(struct watch *w)
{
    pthread_once(&once, begin_once);
    w->web = curl_multi_init();
    return w->web != NULL;
}

void web_end(struct watch *w)
{
    if (w->web != NULL)
        curl_multi_cleanup(w->web);
    w->web = NULL;
}

void web_wake(struct watch *w)
{
    if (w->web != NULL)
        curl_multi_wakeup(w->web);
}

// ---- one call

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct web_answer *a = arg;
    size_t n = size * count;

    if (a->body.len + n > WATCH_BODY || buf_append(&a->body, data, n) != SL_OK)
        return 0; // curl ends the call
    return n;
}

static bool begins(const char *data, size_t n, const char *with)
{
    return n >= strlen(with) && strncasecmp(data, with, strlen(with)) == 0;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct web_answer *a = arg;
    size_t n = size * count, first = strlen("ETag: "), end = n;

    if (begins(data, n, "Metadata-Flavor: Google"))
        a->google = true;
    if (!begins(data, n, "ETag: "))
        return n;
    while (end > first && strchr("\r\n ", data[end - 1]) != NULL)
        end--;
    if (end - first < sizeof(a->etag)) // else it is as good as none
        snprintf(a->etag, sizeof(a->etag), "%.*s", (int)(end - first),
                 data + first);
    return n;
}

static CURL *make(const struct web_ask *ask, struct curl_slist *headers,
                  struct web_answer *out)
{
    CURL *c = curl_easy_init();

    if (c == NULL)
        return NULL;
    curl_easy_setopt(c, CURLOPT_URL, ask->url);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, ask->method);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ask->timeout_ms);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, out);
    if (ask->body != NULL)
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, ask->body);
    return c;
}

// Until the call has ended; false: it was left.
static bool perform(struct watch *w, CURLMcode *code)
{
    int running = 1;

    for (;;) {
        *code = curl_multi_perform(w->web, &running);
        if (*code != CURLM_OK || running == 0)
            return *code == CURLM_OK;
        if (watch_hurry(w))
            return false;
        *code = curl_multi_poll(w->web, NULL, 0, LOOK_MS, NULL);
        if (*code != CURLM_OK)
            return false;
    }
}

static void take(struct watch *w, CURL *c, struct web_answer *out)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(w->web, &left)) != NULL) {
        if (m->msg != CURLMSG_DONE || m->easy_handle != c)
            continue;
        if (m->data.result == CURLE_OK)
            curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &out->status);
        else
            snprintf(out->why, sizeof(out->why), "%s",
                     curl_easy_strerror(m->data.result));
    }
}

static struct curl_slist *make_headers(const struct web_ask *ask)
{
    struct curl_slist *list = NULL;

    for (size_t i = 0; i < 3 && ask->header[i] != NULL; i++) {
        struct curl_slist *more = curl_slist_append(list, ask->header[i]);

        if (more == NULL)
            break;
        list = more;
    }
    return list;
}

void web_ask(struct watch *w, const struct web_ask *ask, struct web_answer *out)
{
    struct curl_slist *headers = make_headers(ask);
    CURLMcode code = CURLM_OUT_OF_MEMORY;
    CURL *c;

    *out = (struct web_answer){.body = BUF_INIT};
    c = make(ask, headers, out);
    if (c != NULL)
        code = curl_multi_add_handle(w->web, c);
    if (code != CURLM_OK)
        snprintf(out->why, sizeof(out->why), "%s", curl_multi_strerror(code));
    else if (perform(w, &code))
        take(w, c, out);
    else
        snprintf(out->why, sizeof(out->why), "left");
    if (c != NULL)
        curl_multi_remove_handle(w->web, c);
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    if (buf_append(&out->body, "", 1) != SL_OK)
        out->status = 0;
    else
        out->body.len--;
}

void web_release(struct web_answer *a)
{
    buf_release(&a->body);
}
