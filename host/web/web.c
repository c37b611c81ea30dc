// SPDX-License-Identifier: Apache-2.0
// host/web/web.c -- see web.h.
#include "host/web/web.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/mem.h"

#define LOOK_MS 1000
#define HEAD_BYTES ((size_t)64 << 10)

struct web {
    CURLM *multi;
};

// What curl's callbacks of one call need.
struct web_transfer {
    const struct web_ask *ask;
    struct web_answer *out;
    CURL *c;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_once(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

bool web_known(void)
{
    return true;
}

struct web *web_new(void)
{
    struct web *w = sl_calloc(1, sizeof(*w));

    pthread_once(&once, begin_once);
    if (w != NULL)
        w->multi = curl_multi_init();
    if (w != NULL && w->multi == NULL) {
        sl_free(w);
        return NULL;
    }
    return w;
}

void web_free(struct web *w)
{
    if (w != NULL)
        curl_multi_cleanup(w->multi);
    sl_free(w);
}

void web_wake(struct web *w)
{
    curl_multi_wakeup(w->multi);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct web_transfer *call = arg;
    struct web_answer *a = call->out;
    size_t n = size * count;
    long status = 0;

    curl_easy_getinfo(call->c, CURLINFO_RESPONSE_CODE, &status);
    if (call->ask->into != NULL && status / 100 == 2) {
        if (n > call->ask->into_bytes - a->into_bytes)
            return 0; // curl ends the call
        memcpy((char *)call->ask->into + a->into_bytes, data, n);
        a->into_bytes += n;
        return n;
    }
    if (n > call->ask->most - a->body.len ||
        buf_append(&a->body, data, n) != SL_OK)
        return 0;
    return n;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct web_transfer *call = arg;
    size_t n = size * count;

    if (n > HEAD_BYTES - call->out->head.len ||
        buf_append(&call->out->head, data, n) != SL_OK)
        return 0;
    return n;
}

static void set_where(CURL *c, const struct web_ask *ask)
{
    curl_easy_setopt(c, CURLOPT_URL, ask->url);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    // "http://127.0.0.1:80@elsewhere/" is of elsewhere.
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR,
                     ask->anywhere ? "http,https" : "http");
    if (!ask->anywhere)
        curl_easy_setopt(c, CURLOPT_PROXY, "");
    if (ask->trust != NULL)
        curl_easy_setopt(c, CURLOPT_CAINFO, ask->trust);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)ask->connect_ms);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ask->timeout_ms);
    if (ask->stall_ms != 0) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME,
                         (long)(ask->stall_ms + 999) / 1000);
    }
}

static void set_what(CURL *c, const struct web_ask *ask,
                     struct curl_slist *headers, struct web_transfer *call)
{
    if (strcmp(ask->method, "HEAD") == 0)
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, ask->method);
    if (ask->body != NULL) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, ask->body);
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)ask->body_bytes);
    }
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, call);
}

// Until the call has ended; false: it was left, or curl failed (*code).
static bool perform(struct web *w, const struct web_ask *ask, CURLMcode *code)
{
    int running = 1;

    for (;;) {
        *code = curl_multi_perform(w->multi, &running);
        if (*code != CURLM_OK || running == 0)
            return *code == CURLM_OK;
        if (ask->leave != NULL && ask->leave(ask->arg))
            return false;
        *code = curl_multi_poll(w->multi, NULL, 0, LOOK_MS, NULL);
        if (*code != CURLM_OK)
            return false;
    }
}

// With CURLOPT_NOSIGNAL, OpenSSL's writes into a connection that is gone may
// raise SIGPIPE. Daemons ignore it; a program that links lib/ may not.
static void hold_pipe(sigset_t *was, bool *pending)
{
    sigset_t pipe, now;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&now);
    *pending = sigismember(&now, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, was);
}

static void drop_pipe(const sigset_t *was, bool pending)
{
    const struct timespec none = {0, 0};
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!pending && sigtimedwait(&pipe, NULL, &none) == SIGPIPE)
        ;
    pthread_sigmask(SIG_SETMASK, was, NULL);
}

// Returns true if another try would end with the same error.
static bool is_final(CURLcode code)
{
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_WRITE_ERROR: // the answer is longer than allowed
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return true;
    default:
        return false;
    }
}

static void web_read_result(struct web *w, struct web_transfer *call,
                            const char *said)
{
    struct web_answer *out = call->out;
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(w->multi, &left)) != NULL) {
        if (m->msg != CURLMSG_DONE || m->easy_handle != call->c)
            continue;
        if (m->data.result == CURLE_OK) {
            curl_easy_getinfo(call->c, CURLINFO_RESPONSE_CODE, &out->status);
            continue;
        }
        out->final = is_final(m->data.result);
        if (m->data.result == CURLE_WRITE_ERROR)
            said = "the answer is longer than what was asked for";
        snprintf(out->why, sizeof(out->why), "%s",
                 *said != '\0' ? said : curl_easy_strerror(m->data.result));
    }
}

static bool make_headers(struct curl_slist **list, const struct web_ask *ask)
{
    for (size_t i = 0; i < WEB_HEADERS && ask->header[i] != NULL; i++) {
        struct curl_slist *more = curl_slist_append(*list, ask->header[i]);

        if (more == NULL)
            return false;
        *list = more;
    }
    return true;
}

static void web_answer_no_memory(struct web_answer *out)
{
    out->status = 0;
    out->final = true;
    snprintf(out->why, sizeof(out->why), "out of memory");
}

void web_call(struct web *w, const struct web_ask *ask, struct web_answer *out)
{
    struct web_transfer call = {ask, out, curl_easy_init()};
    struct curl_slist *headers = NULL;
    char said[CURL_ERROR_SIZE] = "";
    CURLMcode code = CURLM_OUT_OF_MEMORY;
    sigset_t was;
    bool pending;

    *out = (struct web_answer){.body = BUF_INIT, .head = BUF_INIT};
    hold_pipe(&was, &pending);
    if (make_headers(&headers, ask) && call.c != NULL) {
        set_where(call.c, ask);
        set_what(call.c, ask, headers, &call);
        curl_easy_setopt(call.c, CURLOPT_ERRORBUFFER, said);
        code = curl_multi_add_handle(w->multi, call.c);
    }
    if (code != CURLM_OK)
        web_answer_no_memory(out);
    else if (perform(w, ask, &code))
        web_read_result(w, &call, said);
    else
        snprintf(out->why, sizeof(out->why), "%s",
                 code == CURLM_OK ? "left" : curl_multi_strerror(code));
    if (call.c != NULL)
        curl_multi_remove_handle(w->multi, call.c);
    curl_easy_cleanup(call.c);
    curl_slist_free_all(headers);
    drop_pipe(&was, pending);
    if (buf_reserve(&out->body, 1) != SL_OK)
        web_answer_no_memory(out);
    else
        out->body.data[out->body.len] = '\0';
}
