// SPDX-License-Identifier: Apache-2.0
#include "common/run/prompt.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/common/rpc_near_kit.h"

// The slice that a thread of this process asks for; 0: it cannot be told.
static uint64_t slice_of(pid_t thread)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = sizeof(a)};

    return syscall(SYS_sched_getattr, thread, &a, sizeof(a), 0) == 0 ? a.runtime
                                                                     : 0;
}

// Kernels before 6.12 have one slice for all.
static void *try_slice(void *knows)
{
    uint64_t before = slice_of(0);

    prompt_begin();
    *(bool *)knows = before != 0 && slice_of(0) != before;
    return NULL;
}

static void need_slices(void)
{
    bool knows = false;
    pthread_t thread;

    T_EQ(pthread_create(&thread, NULL, try_slice, &knows), 0);
    pthread_join(thread, NULL);
    if (!knows)
        T_SKIP("this kernel knows no slices of a thread");
}

static void *ask_for_one(void *arg)
{
    (void)arg;
    T_ASSERT(setpriority(PRIO_PROCESS, (id_t)gettid(), 3) == 0);
    prompt_begin();
    T_ASSERT(slice_of(0) == PROMPT_SLICE_NS);
    T_ASSERT(getpriority(PRIO_PROCESS, (id_t)gettid()) == 3);
    return NULL;
}

TEST(prompt, asks_for_a_short_slice_and_keeps_its_priority)
{
    pthread_t thread;

    need_slices();
    T_EQ(pthread_create(&thread, NULL, ask_for_one, NULL), 0);
    pthread_join(thread, NULL);
    T_TRUE(slice_of(0) > PROMPT_SLICE_NS);
}

// Returns whether there are threads of `name` and each asks for the short
// slice.
static bool threads_ask(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    unsigned count = 0, short_slices = 0;

    T_ASSERT(d != NULL);
    while ((e = readdir(d)) != NULL) {
        char path[300], comm[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (f == NULL)
            continue;
        if (fgets(comm, sizeof(comm), f) != NULL)
            comm[strcspn(comm, "\n")] = '\0';
        fclose(f);
        if (strcmp(comm, name) != 0)
            continue;
        count++;
        if (slice_of((pid_t)atoi(e->d_name)) == PROMPT_SLICE_NS)
            short_slices++;
    }
    closedir(d);
    return count > 0 && short_slices == count;
}

TEST(prompt, threads_that_serve_connections_are)
{
    struct near n;

    need_slices();
    near_open(&n, false);
    near_join(&n);
    T_TRUE(goes_near(n.channel));
    // A thread has its name from the one that made it, perhaps before it runs.
    AWAIT(threads_ask("io-0"));
    AWAIT(threads_ask("io-near"));
    near_close(&n);
}
