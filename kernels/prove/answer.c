// SPDX-License-Identifier: Apache-2.0
// kernels/prove/answer.c -- see answer.h.
#include "kernels/prove/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char answer_right[] = "right";

const char *answer_log(enum proof_shows shows)
{
    switch (shows) {
    case PROOF_RIGHT:
        return "";
    case PROOF_ONCE:
        return "a kernel was wrong, and right when checked again";
    case PROOF_REFUSED:
        return "a kernel refuses to run here and is left out";
    default:
        return "a kernel computes wrong numbers here and is left out";
    }
}

const char *answer_again(enum proof_shows shows)
{
    switch (shows) {
    case PROOF_WRONG:
        return ", twice: left out until the file of --plans is deleted";
    case PROOF_ONCE:
        return ", once: checked again, it was right; a new start checks it";
    case PROOF_UNSURE:
        return ", once: it could not be checked again; a new start checks it";
    default:
        return "";
    }
}

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
                    double want, const char *again)
{
    if (element < 0) {
        (void)snprintf(why, ANSWER_WHY,
                       "%s" ANSWER_OF "%s, %s: writes beside a tensor%s", impl,
                       on, shape, again);
        return;
    }
    (void)snprintf(why, ANSWER_WHY,
                   "%s" ANSWER_OF "%s, %s: element %" PRId64
                   " of output %d is %.9g where %.9g is right%s",
                   impl, on, shape, element, output, got, want, again);
}

void answer_refused(char *why, const char *impl, const char *on,
                    const char *shape, const char *said)
{
    (void)snprintf(why, ANSWER_WHY, "%s" ANSWER_OF "%s, %s: refuses to run: %s",
                   impl, on, shape, said);
}
