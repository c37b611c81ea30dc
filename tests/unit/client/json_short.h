// SPDX-License-Identifier: Apache-2.0
// tests/unit/client/json_short.h -- JSON with too little memory at one moment,
// for tests of what is written of it then.
//
// Threads  one.
// Memory   none of its own.
#ifndef TESTS_UNIT_CLIENT_JSON_SHORT_H
#define TESTS_UNIT_CLIENT_JSON_SHORT_H

#include <jansson.h>
#include <stdlib.h>

static size_t json_before; // allocations before the one that fails

// Allocates for jansson, but for the one time.
static void *json_short_alloc(size_t bytes)
{
    return json_before-- == 0 ? NULL : malloc(bytes);
}

// Has one allocation of JSON fail, the first behind `before` others, until
// json_enough; those after it succeed.
static void json_short(size_t before)
{
    json_before = before;
    json_set_alloc_funcs(json_short_alloc, free);
}

// Has all allocations of JSON succeed again.
static void json_enough(void)
{
    json_set_alloc_funcs(malloc, free);
}

#endif
