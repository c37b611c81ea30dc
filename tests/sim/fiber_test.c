// SPDX-License-Identifier: Apache-2.0
// Threads as coroutines: see fiber.h.
#include "tests/sim/fiber.h"

#include <pthread.h>

#include "common/base/deadline.h"

struct baton {
    struct sim *s;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned turn, laps, ended;
    bool late; // a wait ended by its deadline
    uint64_t woke_us;
};

static void baton_init(struct baton *b, struct sim *s)
{
    *b = (struct baton){.s = s};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
}

// A process of the world that lives.
static struct proc *some_proc(struct sim *s)
{
    while (proc_get(s, s->slots[1].now) == NULL)
        sim_run(s, SIM_SECOND);
    return proc_get(s, s->slots[1].now);
}

static void pass_on(struct baton *b, unsigned me)
{
    pthread_mutex_lock(&b->lock);
    while (b->laps < 10 && !fiber_dying()) {
        while (b->turn != me && b->laps < 10 && !fiber_dying())
            pthread_cond_wait(&b->changed, &b->lock);
        b->turn = 1 - me;
        b->laps++;
        pthread_cond_signal(&b->changed);
    }
    b->ended++;
    pthread_mutex_unlock(&b->lock);
}

static void be_zero(void *arg)
{
    pass_on(arg, 0);
}

static void be_one(void *arg)
{
    pass_on(arg, 1);
}

TEST(fiber, two_threads_hand_a_baton_to_each_other)
{
    struct sim *s = sim_new_quiet(t_seed(), SIM_ASYNC);
    struct proc *p = some_proc(s);
    struct baton b;

    baton_init(&b, s);
    fiber_start(s, p, be_one, &b);
    fiber_start(s, p, be_zero, &b);
    sim_run(s, SIM_SECOND);
    T_EQ(b.ended, 2);
    T_LE(b.laps, 11);
    T_TRUE(list_empty(&p->fibers));
    sim_free(s);
}

static void wait_until_late(void *arg)
{
    struct baton *b = arg;
    struct deadline until;

    fiber_sleep(5000);
    until = deadline_in_ms(70);
    pthread_mutex_lock(&b->lock);
    while (deadline_wait(&until, &b->changed, &b->lock))
        ;
    pthread_mutex_unlock(&b->lock);
    b->late = true;
    b->woke_us = sim_now(b->s);
}

TEST(fiber, a_deadline_is_of_the_worlds_clock)
{
    struct sim *s = sim_new_quiet(t_seed(), SIM_ASYNC);
    struct proc *p = some_proc(s);
    uint64_t began = sim_now(s);
    struct baton b;

    baton_init(&b, s);
    fiber_start(s, p, wait_until_late, &b);
    sim_run(s, SIM_SECOND / 20);
    T_FALSE(b.late);
    sim_run(s, SIM_SECOND);
    T_TRUE(b.late);
    T_GE(b.woke_us - began, 75 * 1000);
    T_LT(b.woke_us - began, 76 * 1000);
    sim_free(s);
}

static void *count_lap(void *arg)
{
    struct baton *b = arg;

    fiber_sleep(1000);
    b->laps++;
    return b;
}

static void make_and_join(void *arg)
{
    struct baton *b = arg;
    pthread_t threads[3];
    void *result;

    for (unsigned i = 0; i < 3; i++)
        T_EQ(pthread_create(&threads[i], NULL, count_lap, b), 0);
    for (unsigned i = 0; i < 3; i++) {
        T_EQ(pthread_join(threads[i], &result), 0);
        T_PTR(result, b);
    }
    b->ended = b->laps;
}

TEST(fiber, a_thread_of_a_thread_is_joined)
{
    struct sim *s = sim_new_quiet(t_seed(), SIM_ASYNC);
    struct proc *p = some_proc(s);
    struct baton b;

    baton_init(&b, s);
    fiber_start(s, p, make_and_join, &b);
    sim_run(s, SIM_SECOND);
    T_EQ(b.ended, 3);
    T_TRUE(list_empty(&p->fibers));
    sim_free(s);
}

static void wait_for_nothing(void *arg)
{
    struct baton *b = arg;

    pthread_mutex_lock(&b->lock);
    while (!fiber_dying())
        pthread_cond_wait(&b->changed, &b->lock);
    b->ended++;
    pthread_mutex_unlock(&b->lock);
}

static void join_one_that_waits(void *arg)
{
    struct baton *b = arg;
    pthread_t thread;

    T_EQ(pthread_create(&thread, NULL, count_lap, b), 0);
    wait_for_nothing(b);
    T_EQ(pthread_join(thread, NULL), 0);
    b->ended++;
}

TEST(fiber, threads_of_a_process_that_is_killed_unwind)
{
    struct sim *s = sim_new_quiet(t_seed(), SIM_ASYNC);
    struct proc *p = some_proc(s);
    struct baton b;

    baton_init(&b, s);
    fiber_start(s, p, wait_for_nothing, &b);
    fiber_start(s, p, join_one_that_waits, &b);
    sim_run(s, 500);
    T_EQ(b.ended, 0);
    p->alive = false;
    fiber_end_all(p);
    p->alive = true; // for sim_free, which kills it
    T_EQ(b.ended, 3);
    T_TRUE(list_empty(&p->fibers));
    sim_free(s);
}
