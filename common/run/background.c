// SPDX-License-Identifier: Apache-2.0
// common/run/background.c -- a thread of low priority for one piece of
// long work.
#include "common/run/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

struct background {
    void (*fn)(void *arg);
    void *arg;
};

static void *background_thread(void *arg)
{
    const struct background *a = arg;

    // At nice 0 the work takes cores from the threads that answer workers; at
    // 10 it starves on a busy machine, and no cut comes to its end.
    // Linux takes a thread's id here, and changes that thread alone.
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), BACKGROUND_NICE);
    a->fn(a->arg);
    return NULL;
}

void background_run(void (*fn)(void *arg), void *arg)
{
    struct background a = {fn, arg};
    pthread_t thread;

    if (pthread_create(&thread, NULL, background_thread, &a) != 0) {
        fn(arg);
        return;
    }
    pthread_setname_np(thread, "background");
    pthread_join(thread, NULL);
}
