// SPDX-License-Identifier: Apache-2.0
// common/base/suggest.c -- the edit distance behind "did you mean".
#include "common/base/suggest.h"

#include <string.h>

#define WORD_MAX 63

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

// Optimal string alignment: three rows of the usual table, the oldest for the
// swaps.
unsigned sl_edit_distance(const char *a, const char *b)
{
    unsigned rows[3][WORD_MAX + 1];
    size_t na = strnlen(a, WORD_MAX), nb = strnlen(b, WORD_MAX);

    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *row = rows[i % 3], *prev = rows[(i - 1) % 3];
        const unsigned *old = rows[(i + 1) % 3]; // i - 2

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned change = a[i - 1] != b[j - 1];

            row[j] = least(prev[j] + 1, row[j - 1] + 1, prev[j - 1] + change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && old[j - 2] + 1 < row[j])
                row[j] = old[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

const char *sl_suggest(const char *word, const char *const *from, size_t n)
{
    unsigned limit = (unsigned)strnlen(word, WORD_MAX) / 3, best;
    const char *found = NULL;

    if (limit < 1)
        limit = 1;
    best = limit + 1;
    for (size_t i = 0; i < n; i++) {
        unsigned d = sl_edit_distance(word, from[i]);

        if (d < best) {
            best = d;
            found = from[i];
        }
    }
    return found;
}
