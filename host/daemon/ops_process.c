// SPDX-License-Identifier: Apache-2.0
// host/daemon/ops_process.c -- what the kernel knows of this process, under
// the names that every exporter uses.
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/usage.h"
#include "host/daemon/ops.h"

static double open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    double n = 0;

    if (d == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n - 1; // without the folder's own
}

// In clock ticks since the host began. The name in the second field may hold
// anything, so what is counted begins behind its last bracket.
static double started_ticks(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    char *at;

    if (f != NULL)
        fclose(f);
    text[n] = '\0';
    at = strrchr(text, ')');
    if (at == NULL ||
        sscanf(at + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu",
               &ticks) != 1)
        return 0;
    return (double)ticks;
}

static double start_time(void)
{
    struct timespec wall = {0}, up = {0};

    (void)clock_gettime(CLOCK_REALTIME, &wall);
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    return (double)(wall.tv_sec - up.tv_sec) +
           (double)(wall.tv_nsec - up.tv_nsec) * 1e-9 +
           started_ticks() / (double)sysconf(_SC_CLK_TCK);
}

void ops_process(struct expo *e)
{
    struct rlimit files = {0};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    expo_single(e, "process_cpu_seconds_total", EXPO_COUNTER,
                "Processor time used, in seconds.",
                (double)usage_read().cpu_us * 1e-6);
    expo_single(e, "process_resident_memory_bytes", EXPO_GAUGE,
                "Memory that is resident.",
                (double)usage_read().resident_bytes);
    expo_single(e, "process_open_fds", EXPO_GAUGE, "Open descriptors.",
                open_fds());
    expo_single(e, "process_max_fds", EXPO_GAUGE, "Limit of open descriptors.",
                (double)files.rlim_cur);
    expo_single(e, "process_start_time_seconds", EXPO_GAUGE,
                "Start of the process, in seconds since 1970.", start_time());
}
