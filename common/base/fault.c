// SPDX-License-Identifier: Apache-2.0
// common/base/fault.c -- the list of fault points and what SLUICE_FAULT arms
// them with; empty in a release.
#include "common/base/fault.h"

#ifndef SLUICE_FAULTS

bool fault_list(void)
{
    return false;
}

#else

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ARMED_MAX 32

enum fault_act { ACT_KILL, ACT_ERROR, ACT_DELAY, ACT_PAUSE };

struct fault_armed {
    char name[64];
    enum fault_act act;
    unsigned at; // the n-th time only; 0: each time
    unsigned delay_ms;
    char path[160]; // pause until it exists
};

// Weak: a binary may have no point at all.
extern struct fault_point __start_sl_faults[] __attribute__((weak));
extern struct fault_point __stop_sl_faults[] __attribute__((weak));

static struct fault_armed armed[ARMED_MAX];
static unsigned armed_count;
static int log_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fault_exit(const char *what, const char *text)
{
    fprintf(stderr, "SLUICE_FAULT: %s: '%s'\n", what, text);
    _exit(2);
}

static bool fault_has_point(const char *name)
{
    for (struct fault_point *p = __start_sl_faults; p < __stop_sl_faults; p++)
        if (strcmp(p->name, name) == 0)
            return true;
    return false;
}

static enum fault_act parse_act(const char *word, struct fault_armed *a)
{
    if (strcmp(word, "kill") == 0)
        return ACT_KILL;
    if (strcmp(word, "error") == 0)
        return ACT_ERROR;
    if (sscanf(word, "delay:%u", &a->delay_ms) == 1)
        return ACT_DELAY;
    if (sscanf(word, "pause:%159s", a->path) == 1)
        return ACT_PAUSE;
    fault_exit("not kill, error, delay:MS or pause:PATH", word);
    return ACT_KILL;
}

// One entry: name=act or name=act@n.
static void fault_arm_entry(char *entry)
{
    struct fault_armed *a = &armed[armed_count];
    char *act = strchr(entry, '='), *at;

    if (!act || armed_count == ARMED_MAX)
        fault_exit("entry", entry);
    *act++ = '\0';
    at = strrchr(act, '@');
    if (at) {
        *at++ = '\0';
        a->at = (unsigned)strtoul(at, NULL, 10);
    }
    a->act = parse_act(act, a);
    // Killing twice is impossible, so the first time is meant.
    if (a->act == ACT_KILL && a->at == 0)
        a->at = 1;
    snprintf(a->name, sizeof(a->name), "%s", entry);
    armed_count++;
}

static void arm_all(void)
{
    const char *text = getenv("SLUICE_FAULT");
    const char *log = getenv("SLUICE_FAULT_LOG");
    char *copy = text ? strdup(text) : NULL, *rest = copy, *entry;

    if (log)
        log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    while (rest && (entry = strsep(&rest, ",")) != NULL)
        if (*entry)
            fault_arm_entry(entry);
    free(copy);
}

// A point of another role may be armed in this one's environment too; only
// names that no binary could have are mistakes, and the tests list those.
static const struct fault_armed *armed_for(const struct fault_point *point,
                                           unsigned count)
{
    for (unsigned i = 0; i < armed_count; i++)
        if (strcmp(armed[i].name, point->name) == 0 &&
            (armed[i].at == 0 || armed[i].at == count))
            return &armed[i];
    return NULL;
}

static void fault_log_point(const struct fault_point *point)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "%s\n", point->name);

    if (log_fd >= 0 && write(log_fd, line, (size_t)n) != n)
        fault_exit("cannot write SLUICE_FAULT_LOG for", point->name);
}

static void nap(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

// Makes PATH.here, which tells the test that a thread waits for PATH.
static void say_paused(const char *path)
{
    char here[sizeof(armed[0].path) + 8];
    int fd;

    snprintf(here, sizeof(here), "%s.here", path);
    fd = open(here, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        fault_exit("cannot write", here);
    close(fd);
}

enum sl_err fault_reached(struct fault_point *point)
{
    unsigned count = __atomic_add_fetch(&point->reached, 1, __ATOMIC_RELAXED);
    const struct fault_armed *a;

    pthread_once(&once, arm_all);
    if (count == 1)
        fault_log_point(point);
    a = armed_for(point, count);
    if (!a)
        return SL_OK;
    switch (a->act) {
    case ACT_KILL:
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    case ACT_DELAY:
        nap(a->delay_ms);
        return SL_OK;
    case ACT_PAUSE:
        say_paused(a->path);
        while (access(a->path, F_OK) != 0)
            nap(5);
        return SL_OK;
    case ACT_ERROR:
        break;
    }
    return SL_EIO;
}

static int fault_point_by_name(const void *a, const void *b)
{
    return strcmp(((const struct fault_point *)a)->name,
                  ((const struct fault_point *)b)->name);
}

bool fault_list(void)
{
    size_t count = (size_t)(__stop_sl_faults - __start_sl_faults);
    struct fault_point *sorted = calloc(count, sizeof(*sorted));

    if (!sorted)
        return false;
    memcpy(sorted, __start_sl_faults, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), fault_point_by_name);
    for (size_t i = 0; i < count; i++)
        if (fault_has_point(sorted[i].name))
            printf("%s %s:%d\n", sorted[i].name, sorted[i].file,
                   sorted[i].line);
    free(sorted);
    return count > 0;
}

#endif
