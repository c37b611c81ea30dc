// SPDX-License-Identifier: Apache-2.0
// kernels/processor.c -- the first processor of /proc/cpuinfo, and sysconf.
#include "kernels/processor.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/status.h"

static struct processor here;

static bool tells_model(const char *line)
{
    static const char *const keys[] = {
        "vendor_id", "cpu family",      "model",      "stepping",
        "CPU part",  "CPU implementer", "CPU variant"};

    for (size_t i = 0; i < SL_COUNT(keys); i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

// Appends to text[size] as much as there is room for.
static void processor_add(char *text, size_t size, const char *more)
{
    size_t n = strlen(text);

    (void)snprintf(text + n, size - n, "%s", more);
}

static void processor_take_line(char *line)
{
    char *value = strchr(line, ':');

    if (value == NULL)
        return;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "microcode", strlen("microcode")) == 0)
        processor_add(here.microcode, sizeof(here.microcode), value + 1);
    else if (tells_model(line))
        processor_add(here.model, sizeof(here.model), value + 1);
}

static void processor_read(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    // A blank line ends those of the first one.
    while (f != NULL && fgets(line, sizeof(line), f) != NULL && line[0] != '\n')
        processor_take_line(line);
    if (f != NULL)
        (void)fclose(f);
    (void)snprintf(
        line, sizeof(line), " caches %ld %ld %ld cpus %ld",
        sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE),
        sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_NPROCESSORS_ONLN));
    processor_add(here.model, sizeof(here.model), line);
}

const struct processor *processor_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, processor_read);
    return &here;
}
