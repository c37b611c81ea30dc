// SPDX-License-Identifier: Apache-2.0
// host/web/web_none.c -- in the place of web.c where there is no libcurl.
#include <stdio.h>

#include "host/web/web.h"

bool web_known(void)
{
    return false;
}

// Returns a web in a build without libcurl: each call on it fails with a text
// that says so, and callers need not check web_known.
struct web *web_new(void)
{
    static char nothing;

    return (struct web *)&nothing;
}

void web_free(struct web *w)
{
}

void web_wake(struct web *w)
{
}

void web_call(struct web *w, const struct web_ask *ask, struct web_answer *out)
{
    *out = (struct web_answer){.body = BUF_INIT, .head = BUF_INIT};
    out->final = true;
    snprintf(out->why, sizeof(out->why), "built without libcurl");
}
