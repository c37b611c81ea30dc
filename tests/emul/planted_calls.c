// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_calls.c -- see planted_calls.h.
#include "tests/emul/planted_calls.h"

enum planted_call planted_call;

static bool fresh;

void planted_make(enum planted_call call)
{
    planted_call = call;
    fresh = true;
}

bool planted_first(void)
{
    bool first = fresh;

    fresh = false;
    return first;
}
