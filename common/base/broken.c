// SPDX-License-Identifier: Apache-2.0
#include "common/base/broken.h"

#ifndef SLUICE_FAULTS

bool broken_list(void)
{
    return false;
}

#else

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/status.h"

static const char *const names[] = {
#define BROKEN_TEXT(name) #name,
    BROKEN_LIST(BROKEN_TEXT)
#undef BROKEN_TEXT
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int chosen = -1;

static void choose(void)
{
    const char *want = getenv("SLUICE_BREAK");

    if (want == NULL || *want == '\0')
        return;
    for (size_t i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i], want) == 0)
            chosen = (int)i;
    if (chosen < 0) {
        fprintf(stderr, "SLUICE_BREAK: no such mistake: '%s'\n", want);
        _exit(2);
    }
}

bool broken(enum broken which)
{
    pthread_once(&once, choose);
    return (int)which == chosen;
}

bool broken_nth(enum broken which, unsigned n)
{
    static unsigned times;

    return broken(which) &&
           __atomic_add_fetch(&times, 1, __ATOMIC_RELAXED) == n;
}

bool broken_list(void)
{
    for (size_t i = 0; i < SL_COUNT(names); i++)
        printf("%s\n", names[i]);
    return true;
}

#endif
