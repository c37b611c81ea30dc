// SPDX-License-Identifier: Apache-2.0
// host/web/web_answer.c -- what an answer says, without curl.
#include <string.h>
#include <strings.h>

#include "host/web/web.h"

void web_answer_release(struct web_answer *a)
{
    buf_release(&a->body);
    buf_release(&a->head);
}

// The value in a line "Name: value", or NULL if it is of another name.
static const char *value_in(const char *line, size_t n, const char *name,
                            size_t *bytes)
{
    size_t first = strlen(name);

    if (n <= first || strncasecmp(line, name, first) != 0 || line[first] != ':')
        return NULL;
    for (first++; first < n && strchr(" \t", line[first]) != NULL; first++)
        ;
    while (n > first && strchr("\r\n \t", line[n - 1]) != NULL)
        n--;
    *bytes = n - first;
    return line + first;
}

bool web_header(const struct web_answer *a, const char *name, char *out,
                size_t size)
{
    const char *at = buf_text(&a->head), *end = at + a->head.len;

    out[0] = '\0';
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop == NULL ? end : stop + 1, *value;
        size_t n = 0;

        value = value_in(at, (size_t)(next - at), name, &n);
        if (value != NULL && n < size && memchr(value, 0, n) == NULL) {
            memcpy(out, value, n);
            out[n] = '\0';
            return true;
        }
        if (value != NULL)
            return false;
        at = next;
    }
    return false;
}
