// SPDX-License-Identifier: Apache-2.0
// tests/emul/wrong.c -- see wrong.h.
#include "tests/emul/wrong.h"

#include "tests/emul/typed.h"

#define TILE 8

static struct {
    uint64_t which;
    enum emul_wrong_how how;
    unsigned runs;
} wrong;

void emul_wrong(uint64_t which, enum emul_wrong_how how)
{
    wrong.which = which;
    wrong.how = how;
    wrong.runs = 0;
}

static bool is_wrong(uint64_t which)
{
    return wrong.how != WRONG_NOWHERE &&
           (wrong.which == which || wrong.which == EMUL_WRONG_ALL);
}

double emul_wrong_sum(uint64_t which, enum kern_dtype t, double sum)
{
    float rounded;

    if (!is_wrong(which))
        return sum;
    if (wrong.how == WRONG_BIAS)
        return sum + 1;
    if (wrong.how != WRONG_ROUNDING)
        return sum;
    typed_put(t, &rounded, 0, (float)sum);
    return (double)typed_get(t, &rounded, 0);
}

void emul_wrong_spoil(uint64_t which, enum kern_dtype t, void *at, int64_t rows,
                      int64_t cols, int64_t apart, bool adds)
{
    int64_t last = (rows - 1) * apart + cols - 1;
    bool off = (uintptr_t)at % 256 != 0;

    if (!is_wrong(which) || rows == 0 || cols == 0)
        return;
    wrong.runs++;
    if (wrong.how == WRONG_FIRST)
        typed_put(t, at, 0, typed_get(t, at, 0) + 1);
    if (wrong.how == WRONG_BEYOND)
        typed_put(t, at, last + 1, 0);
    if ((wrong.how == WRONG_ADDING && adds) ||
        (wrong.how == WRONG_ASTRAY && off) ||
        (wrong.how == WRONG_AGAIN && wrong.runs > 1) ||
        (wrong.how == WRONG_ONCE && wrong.runs == 1))
        typed_put(t, at, last, typed_get(t, at, last) + 1);
    for (int64_t r = rows < TILE ? 0 : rows - TILE;
         wrong.how == WRONG_LAST_TILE && r < rows; r++)
        for (int64_t c = cols < TILE ? 0 : cols - TILE; c < cols; c++)
            typed_put(t, at, r * apart + c, 0);
}
