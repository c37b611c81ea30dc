// SPDX-License-Identifier: Apache-2.0
// The choice of a deliberate mistake, which the environment makes once.
#include "tests/mutants/mutant.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMES (sizeof(names) / sizeof(names[0]))

static const char *const names[] = {
#define MUTANT_TEXT(name) #name,
    MUTANT_LIST(MUTANT_TEXT)
#undef MUTANT_TEXT
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int chosen = -1;

static void choose(void)
{
    const char *want = getenv("SLUICE_BREAK");

    if (want == NULL || *want == '\0')
        return;
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], want) == 0)
            chosen = (int)i;
    if (chosen < 0) {
        fprintf(stderr, "SLUICE_BREAK: no such mistake: '%s'\n", want);
        _exit(2);
    }
}

bool mutant_made(enum mutant which)
{
    pthread_once(&once, choose);
    return (int)which == chosen;
}

bool mutant_made_nth(enum mutant which, unsigned n)
{
    static unsigned times;

    return mutant_made(which) &&
           __atomic_add_fetch(&times, 1, __ATOMIC_RELAXED) == n;
}

// Before main, so that every program has it and none has a line for it.
__attribute__((constructor)) static void list(void)
{
    const char *want = getenv("SLUICE_BREAK");

    if (want == NULL || strcmp(want, "list") != 0)
        return;
    for (size_t i = 0; i < NAMES; i++)
        puts(names[i]);
    fflush(stdout);
    _exit(0);
}
