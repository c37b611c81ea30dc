// SPDX-License-Identifier: Apache-2.0
// client/spec/fields.c -- the comments of proto/job.proto. It is our own file,
// in our own form: a field is a line, and comments are whole lines or follow
// it.
#include "client/spec/fields.h"

#include <stdio.h>
#include <string.h>

#define LINE_BYTES 256

// The next line without its blanks at both ends; false at the end.
static bool next_line(const char **at, char line[LINE_BYTES])
{
    const char *end;
    size_t n;

    if (**at == '\0')
        return false;
    end = strchrnul(*at, '\n');
    *at += strspn(*at, " ");
    n = end > *at ? (size_t)(end - *at) : 0;
    while (n > 0 && (*at)[n - 1] == ' ')
        n--;
    snprintf(line, LINE_BYTES, "%.*s", (int)n, *at);
    *at = *end == '\0' ? end : end + 1;
    return true;
}

// Is it the line of that field: "optional string NAME = 1;"?
static bool is_field(const char *line, const char *field)
{
    const char *equals = strstr(line, " = ");
    size_t n = strlen(field);

    return equals != NULL && strncmp(line, "//", 2) != 0 &&
           (size_t)(equals - line) > n && equals[-(long)n - 1] == ' ' &&
           strncmp(equals - n, field, n) == 0;
}

// Appends the comment as a line, without its slashes and the blank behind them.
static enum sl_err fields_append_comment(struct buf *out, const char *comment)
{
    comment += strspn(comment, "/");
    comment += *comment == ' ';
    return buf_appendf(out, "%s%s", out->len > 0 ? "\n" : "", comment);
}

enum sl_err fields_comment(struct buf *out, const char *message,
                           const char *field)
{
    char head[LINE_BYTES], line[LINE_BYTES];
    const char *at = (const char *)job_proto;
    enum sl_err rc = SL_OK;

    snprintf(head, sizeof(head), "message %s {", message);
    while (next_line(&at, line) && strcmp(line, head) != 0)
        ;
    while (rc == SL_OK && next_line(&at, line) && strcmp(line, "}") != 0) {
        const char *behind = strstr(line, "//");

        if (behind == line) {
            rc = fields_append_comment(out, line);
            continue;
        }
        if (is_field(line, field))
            return behind != NULL ? fields_append_comment(out, behind) : SL_OK;
        buf_reset(out);
    }
    buf_reset(out);
    return rc == SL_OK ? SL_ENOENT : rc;
}
