// SPDX-License-Identifier: Apache-2.0
// host/http/http_serve.c -- from a request to its answer.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "host/http/http_inner.h"

static const struct http_header usual[] = {
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {NULL, NULL},
};

// ---- the answer

static bool http_has_header(const struct http_header *headers, const char *name)
{
    for (; headers != NULL && headers->name != NULL; headers++) {
        if (strcasecmp(headers->name, name) == 0)
            return true;
    }
    return false;
}

// A header of an earlier list keeps those of the same name in later ones out.
static void put_headers(struct MHD_Response *r, const struct http_route *route,
                        const struct http_answer *a)
{
    const struct http_header *lists[] = {
        a->headers, route != NULL ? route->headers : NULL, usual};

    for (size_t i = 0; i < SL_COUNT(lists); i++) {
        const struct http_header *at = lists[i];

        for (; at != NULL && at->name != NULL; at++) {
            bool said = false;

            for (size_t k = 0; k < i; k++)
                said = said || http_has_header(lists[k], at->name);
            if (!said)
                (void)MHD_add_response_header(r, at->name, at->value);
        }
    }
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
}

// Takes the body; NULL without memory.
static struct MHD_Response *response_of(struct http_request *q,
                                        struct http_answer *a)
{
    struct MHD_Response *r;
    size_t n;
    void *bytes;

    if (q->stream != NULL)
        return http_stream_response(q->stream);
    if (a->fixed != NULL)
        return MHD_create_response_from_buffer(a->fixed_bytes, (void *)a->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    bytes = buf_detach(&a->body, &n);
    r = MHD_create_response_from_buffer_with_free_callback(n, bytes, sl_free);
    if (r == NULL)
        sl_free(bytes);
    return r;
}

static enum MHD_Result http_answer_send(struct http_request *q,
                                        struct http_answer *a)
{
    struct MHD_Response *r = response_of(q, a);
    enum MHD_Result told;

    buf_release(&a->body);
    if (r == NULL)
        return MHD_NO; // the connection ends
    put_headers(r, q->route, a);
    if (q->stream != NULL) // its end is the connection's
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    told = MHD_queue_response(q->at, (unsigned)a->status, r);
    MHD_destroy_response(r);
    return told;
}

#define ANSWER_INIT                                                            \
    {                                                                          \
        .status = MHD_HTTP_OK, .type = "text/plain; charset=utf-8"             \
    }

static enum MHD_Result http_request_refuse(struct http_request *q, int status,
                                           const char *text)
{
    static const struct http_header allow[] = {{"Allow", "GET, HEAD, POST"},
                                               {NULL, NULL}};
    static const struct http_header close[] = {{"Connection", "close"},
                                               {NULL, NULL}};
    struct http_answer a = ANSWER_INIT;

    q->refused = true;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        a.headers = allow;
    if (status == MHD_HTTP_BAD_REQUEST)
        a.headers = close;
    http_say(&a, status, text);
    return http_answer_send(q, &a);
}

// ---- the route of a request

static unsigned http_method_flag(const char *method)
{
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
        strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        return HTTP_GET;
    return strcmp(method, MHD_HTTP_METHOD_POST) == 0 ? HTTP_POST : 0;
}

// Returns true if `route` serves the path. Names of routes have no escapes,
// since to a proxy that compares bytes "%2f" is no "/"; the part behind "*" may
// have some.
static bool http_route_matches(const struct http_route *route,
                               const struct http_request *q)
{
    size_t n = strlen(route->path);
    bool all = route->path[n - 1] != '*';

    n -= !all;
    return n <= q->plain && strncmp(route->path, q->path, n) == 0 &&
           (!all || q->path[n] == '\0');
}

// Finds the route; if none, the status that says why.
static int find_route(struct http_request *q)
{
    unsigned method = http_method_flag(q->method);
    int status = MHD_HTTP_NOT_FOUND;

    list_for(n, &q->http->tables)
    {
        struct http_table *t = list_entry(n, struct http_table, node);

        for (const struct http_route *r = t->routes; r->path != NULL; r++) {
            if (!http_route_matches(r, q) || (r->near_only && !q->http->near))
                continue;
            if (method & (r->methods != 0 ? r->methods : HTTP_GET)) {
                q->route = r;
                q->arg = t->arg;
                return MHD_HTTP_OK;
            }
            status = MHD_HTTP_METHOD_NOT_ALLOWED;
        }
    }
    return status;
}

// ---- whether it can be read in one way only
//
// A proxy before us that reads a request in another way than we do lets another
// request through than it has looked at. So what it could read otherwise ends
// the connection: what begins after that is nobody's guess.

struct count {
    unsigned length, encoding, host, authorization;
    bool odd;
};

static bool is_token(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) &&
            (name[i] == '\0' || strchr("!#$%&'*+-.^_`|~", name[i]) == NULL))
            return false;
    }
    return n > 0;
}

static bool has_control(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') ||
            text[i] == '\x7f')
            return true;
    }
    return false;
}

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind,
                                    const char *name, size_t name_n,
                                    const char *value, size_t value_n)
{
    struct count *c = cls;

    (void)kind;
    c->length += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    c->encoding += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    c->host += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    c->authorization += strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0;
    c->odd = c->odd || !is_token(name, name_n) ||
             (value != NULL && has_control(value, value_n));
    return MHD_YES;
}

static bool is_clear(const struct http_request *q, const char *version)
{
    const char *encoding = http_header(q, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    struct count c = {0};

    (void)MHD_get_connection_values_n(q->at, MHD_HEADER_KIND, count_header, &c);
    if (q->odd || c.odd || c.length + c.encoding > 1 || c.host > 1 ||
        c.authorization > 1)
        return false;
    return encoding == NULL || (strcasecmp(encoding, "chunked") == 0 &&
                                strcmp(version, MHD_HTTP_VERSION_1_1) == 0);
}

// Returns false for a path with control characters or "%00", which would end
// the C string.
static bool path_ok(const char *uri)
{
    for (; *uri != '\0' && *uri != '?'; uri++) {
        if (*uri <= ' ' || *uri > '~' || *uri == '\\')
            return false;
        if (*uri == '%' &&
            (!isxdigit((unsigned char)uri[1]) ||
             !isxdigit((unsigned char)uri[2]) || strncmp(uri, "%00", 3) == 0))
            return false;
    }
    return strstr(uri, "%00") == NULL;
}

void *http_on_line(void *cls, const char *uri, struct MHD_Connection *at)
{
    struct http_request *q = sl_calloc(1, sizeof(*q));

    if (q == NULL)
        return NULL;
    q->http = cls;
    q->at = at;
    q->odd = uri == NULL || !path_ok(uri);
    q->plain = uri == NULL ? 0 : strcspn(uri, "%?");
    return q;
}

// What its headers alone decide.
static enum MHD_Result http_request_check_head(struct http_request *q,
                                               const char *version)
{
    const char *length = http_header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int status = find_route(q);

    if (!is_clear(q, version))
        return http_request_refuse(q, MHD_HTTP_BAD_REQUEST,
                                   "a request that can be read in two ways");
    if (http_method_flag(q->method) == 0)
        return http_request_refuse(q, MHD_HTTP_METHOD_NOT_ALLOWED,
                                   "method not allowed");
    if ((q->route == NULL || !q->route->any_host) &&
        !http_host_ok(q->http, http_header(q, MHD_HTTP_HEADER_HOST)))
        return http_request_refuse(q, MHD_HTTP_MISDIRECTED_REQUEST,
                                   "the Host header names another server");
    if (status != MHD_HTTP_OK)
        return http_request_refuse(
            q, status,
            status == MHD_HTTP_NOT_FOUND ? "not found" : "method not allowed");
    if (length != NULL && strtoull(length, NULL, 10) > HTTP_BODY_MAX)
        return http_request_refuse(q, MHD_HTTP_CONTENT_TOO_LARGE,
                                   "a body is at most 64 KiB");
    return MHD_YES;
}

// A body without a length (chunked) shows its size only as it comes; what is
// too much is read and forgotten, and refused at its end.
static enum MHD_Result http_request_add_body(struct http_request *q,
                                             const char *data, size_t n)
{
    q->large = q->large || q->body.len + n > HTTP_BODY_MAX;
    if (q->large || q->refused)
        return MHD_YES;
    return buf_append(&q->body, data, n) == SL_OK ? MHD_YES : MHD_NO;
}

static enum MHD_Result http_request_answer(struct http_request *q)
{
    struct http_answer a = ANSWER_INIT;

    if (q->large)
        return http_request_refuse(q, MHD_HTTP_CONTENT_TOO_LARGE,
                                   "a body is at most 64 KiB");
    q->route->fn(q->arg, q, &a);
    return http_answer_send(q, &a);
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *at,
                                const char *url, const char *method,
                                const char *version, const char *data,
                                size_t *bytes, void **context)
{
    struct http_request *q = *context;

    (void)cls, (void)at;
    if (q == NULL)
        return MHD_NO; // http_on_line had no memory for the request
    if (!q->begun) {
        q->begun = true;
        q->path = url;
        q->method = method;
        return http_request_check_head(q, version);
    }
    if (*bytes > 0) {
        size_t n = *bytes;

        *bytes = 0;
        return http_request_add_body(q, data, n);
    }
    return q->refused ? MHD_YES : http_request_answer(q);
}

void http_request_free(struct http_request *q)
{
    if (q->stream != NULL)
        http_stream_ended(q->stream);
    buf_release(&q->body);
    sl_free(q);
}
