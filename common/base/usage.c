// SPDX-License-Identifier: Apache-2.0
// common/base/usage.c -- see usage.h.
#include "common/base/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t cpu_us(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL)
        return 0;
    if (fscanf(f, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// A line is "  eth0: RECEIVED 7 more SENT ...": eight counts of each direction.
static void add_interface(struct usage *u, const char *line)
{
    uint64_t received, sent;
    char name[32];

    if (sscanf(line,
               " %31[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64,
               name, &received, &sent) != 3 ||
        strcmp(name, "lo") == 0)
        return;
    u->received_bytes += received;
    u->sent_bytes += sent;
}

struct usage usage_read(void)
{
    struct usage u = {.cpu_us = cpu_us(), .resident_bytes = resident_bytes()};
    FILE *f = fopen("/proc/self/net/dev", "re");
    char line[512];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        add_interface(&u, line);
    if (f != NULL)
        fclose(f);
    return u;
}
