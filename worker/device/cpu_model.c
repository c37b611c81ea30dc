// SPDX-License-Identifier: Apache-2.0
// worker/device/cpu_model.c -- the first processor of /proc/cpuinfo, and
// sysconf.
#include "worker/device/cpu_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/status.h"

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

// Appends the values of the first processor's lines that tell the model.
static size_t cpu_model_read(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    size_t n = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL &&
           line[0] != '\n') {
        const char *value = strchr(line, ':');

        if (value != NULL && tells_model(line) && n < size)
            n += (size_t)snprintf(out + n, size - n, "%.*s",
                                  (int)strcspn(value + 1, "\n"), value + 1);
    }
    if (f != NULL)
        (void)fclose(f);
    return n < size ? n : size - 1;
}

void cpu_model(char out[CPU_MODEL_TEXT])
{
    size_t n;

    out[0] = '\0';
    n = cpu_model_read(out, CPU_MODEL_TEXT);
    (void)snprintf(
        out + n, CPU_MODEL_TEXT - n, " caches %ld %ld %ld cpus %ld",
        sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE),
        sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_NPROCESSORS_ONLN));
}
