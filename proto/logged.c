// SPDX-License-Identifier: Apache-2.0
// proto/logged.c -- see logged.h.
#include "proto/logged.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/run/log.h"

_Static_assert(WIRE_LOG_BYTES >= LOG_LINE, "every line fits");

// Returns true if the line is of `job`: "j-7" at the coordinator, 7 at members.
// Quotes within a value are escaped, so neither is part of a text.
static bool logged_is_of_job(const char *line, size_t bytes, uint64_t job)
{
    char word[2][48];

    snprintf(word[0], sizeof(word[0]), "\"job\":\"j-%" PRIu64 "\"", job);
    snprintf(word[1], sizeof(word[1]), "\"job\":%" PRIu64, job);
    for (size_t i = 0; i < SL_COUNT(word); i++) {
        size_t n = strlen(word[i]);
        const char *at = memmem(line, bytes, word[i], n);

        // A line ends with "}\n", so one byte more is there.
        if (at != NULL && (at[n] < '0' || at[n] > '9'))
            return true;
    }
    return false;
}

// Moves the lines of that job to the front; returns their bytes.
static size_t logged_filter_job(char *text, size_t bytes, uint64_t job)
{
    size_t kept = 0;

    for (size_t at = 0, n; at < bytes; at += n) {
        const char *end = memchr(text + at, '\n', bytes - at);

        n = (size_t)(end - (text + at)) + 1;
        if (!logged_is_of_job(text + at, n, job))
            continue;
        memmove(text + kept, text + at, n);
        kept += n;
    }
    return kept;
}

Sluice__V1__LogLines logged_take(uint8_t *space, uint64_t after, uint64_t job)
{
    Sluice__V1__LogLines lines = SLUICE__V1__LOG_LINES__INIT;
    size_t n;

    lines.last = after;
    n = log_kept((char *)space, WIRE_LOG_BYTES, &lines.last);
    lines.more = n + LOG_LINE > WIRE_LOG_BYTES;
    lines.text.data = space;
    lines.text.len = job == 0 ? n : logged_filter_job((char *)space, n, job);
    return lines;
}
