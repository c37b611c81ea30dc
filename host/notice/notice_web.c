// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_web.c -- calls of a host's own metadata service.
#include <string.h>

#include "host/notice/notice_inner.h"

#define CONNECT_MS 1000

static bool hurries(void *arg)
{
    return watch_hurry(arg);
}

void watch_ask(struct notice_watch *w, const struct web_ask *ask,
               struct web_answer *out)
{
    struct web_ask whole = *ask;

    if (ask->body != NULL) // text, here
        whole.body_bytes = strlen(ask->body);
    whole.connect_ms = CONNECT_MS;
    whole.most = WATCH_BODY;
    whole.leave = hurries;
    whole.arg = w;
    web_call(w->web, &whole, out);
}
