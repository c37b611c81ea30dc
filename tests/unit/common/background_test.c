// SPDX-License-Identifier: Apache-2.0
#include "common/run/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/harness/t.h"

struct seen {
    pthread_t thread;
    int priority;
    int ran;
};

static int priority(void)
{
    return getpriority(PRIO_PROCESS, (id_t)gettid());
}

static void look(void *arg)
{
    struct seen *s = arg;

    s->thread = pthread_self();
    s->priority = priority();
    s->ran++;
}

TEST(background, runs_once_below_the_caller_who_stays_what_it_is)
{
    int before = priority();
    struct seen s = {.ran = 0};

    background_run(look, &s);
    T_EQ(s.ran, 1);
    T_TRUE(!pthread_equal(s.thread, pthread_self()));
    T_TRUE(s.priority >= BACKGROUND_NICE);
    T_EQ(priority(), before);
}
