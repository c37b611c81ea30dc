// SPDX-License-Identifier: Apache-2.0
// host/http/http_request.c -- what a handler asks of a request, and says.
#include <string.h>

#include "host/http/http_inner.h"

const char *http_rest(const struct http_request *q)
{
    size_t n = strlen(q->route->path);

    return q->route->path[n - 1] == '*' ? q->path + n - 1 : "";
}

bool http_is_post(const struct http_request *q)
{
    return strcmp(q->method, MHD_HTTP_METHOD_POST) == 0;
}

const char *http_query(const struct http_request *q, const char *name)
{
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(q->at, MHD_GET_ARGUMENT_KIND, name,
                                      strlen(name), &value, NULL) == MHD_YES &&
        value == NULL)
        return "";
    return value;
}

const char *http_header(const struct http_request *q, const char *name)
{
    return MHD_lookup_connection_value(q->at, MHD_HEADER_KIND, name);
}

const struct buf *http_body(const struct http_request *q)
{
    return &q->body;
}

void http_say(struct http_answer *a, int status, const char *text)
{
    a->status = status;
    a->type = "text/plain; charset=utf-8";
    buf_reset(&a->body);
    (void)buf_appendf(&a->body, "%s\n", text);
}
