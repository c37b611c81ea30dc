// SPDX-License-Identifier: Apache-2.0
// kernels/prove/answer.c -- see answer.h.
#include "kernels/prove/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char answer_right[] = "right";

enum sl_err answer_write(struct buf *out, bool right, const char *why)
{
    return right ? buf_append_str(out, answer_right)
                 : buf_appendf(out, ANSWER_WRONG "%s", why ? why : "");
}

bool answer_read(const char *text, bool *right, const char **why)
{
    size_t mark = strlen(ANSWER_WRONG);
    bool wrong = strncmp(text, ANSWER_WRONG, mark) == 0;

    *right = strcmp(text, answer_right) == 0;
    *why = wrong ? text + mark : NULL;
    return wrong || *right;
}

void answer_explain(char *why, const char *impl, const char *on,
                    const char *shape, int64_t element, int output, double got,
                    double want, bool once)
{
    (void)snprintf(why, ANSWER_WHY,
                   "%s" ANSWER_OF "%s, %s: element %" PRId64
                   " of output %d is %.9g where %.9g is right%s",
                   impl, on, shape, element, output, got, want,
                   once ? ANSWER_ONCE : "");
}
