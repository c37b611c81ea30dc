// SPDX-License-Identifier: Apache-2.0
#include "common/run/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/held.h"
#include "tests/harness/t.h"

#define THREADS 4
#define EACH 5000

struct world {
    struct loop *loop;
    struct loop_timer *timer;
    unsigned count;
    _Atomic unsigned elsewhere;
    bool here;
};

static void stop(void *arg)
{
    loop_stop(((struct world *)arg)->loop);
}

static void count_up(void *arg)
{
    struct world *w = arg;

    w->count++;
    w->here = loop_is_here(w->loop);
    if (w->count == THREADS * EACH)
        loop_stop(w->loop);
}

static void *post_many(void *arg)
{
    struct world *w = arg;

    T_ASSERT(!loop_is_here(w->loop));
    for (int i = 0; i < EACH; i++)
        T_ASSERT(loop_post(w->loop, count_up, w) == SL_OK);
    return NULL;
}

// Turns the loop until all posts of all threads have run.
static void run_many_posts(struct world *w)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        T_EQ(pthread_create(&threads[i], NULL, post_many, w), 0);
    loop_run(w->loop);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    T_EQ(w->count, THREADS * EACH);
    T_TRUE(w->here);
}

// Wake-ups coalesce; no post may be lost by it.
TEST(loop, no_post_is_lost)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    run_many_posts(&w);
    loop_free(w.loop);
}

TEST(loop, free_runs_what_was_posted)
{
    struct world w = {0};
    uint64_t before = sl_mem_live();

    T_OK(loop_new(&w.loop, t_err()));
    T_OK(loop_post(w.loop, count_up, &w));
    T_EQ(w.count, 0); // never before the poster has returned
    loop_free(w.loop);
    T_EQ(w.count, 1);
    T_EQ(sl_mem_live(), before);
}

static struct loop_task again;

static void post_again(void *arg)
{
    struct world *w = arg;

    if (++w->count < 10)
        loop_post_task(w->loop, &again, post_again, w);
    else
        loop_stop(w->loop);
}

TEST(loop, a_task_may_post_itself)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    loop_post_task(w.loop, &again, post_again, &w);
    loop_run(w.loop);
    T_EQ(w.count, 10);
    loop_free(w.loop);
}

static void tick(void *arg)
{
    struct world *w = arg;

    if (++w->count == 3) {
        loop_timer_free(w->timer); // from its own callback
        loop_stop(w->loop);
    }
}

TEST(loop, a_timer_repeats_until_it_is_freed)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    T_OK(loop_timer_new(&w.timer, w.loop, tick, &w));
    loop_timer_start(w.timer, 0, 1);
    loop_run(w.loop);
    loop_turn(w.loop);
    T_EQ(w.count, 3);
    loop_free(w.loop);
}

TEST(loop, a_stopped_timer_does_not_fire)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    T_OK(loop_timer_new(&w.timer, w.loop, tick, &w));
    loop_timer_start(w.timer, 0, 0);
    loop_timer_stop(w.timer);
    loop_turn(w.loop);
    T_EQ(w.count, 0);
    loop_timer_free(w.timer);
    loop_timer_free(NULL);
    loop_free(w.loop);
}

static void work_there(void *arg)
{
    struct world *w = arg;

    T_ASSERT(!loop_is_here(w->loop));
    w->elsewhere++;
}

static void work_done(void *arg)
{
    struct world *w = arg;

    T_ASSERT(loop_is_here(w->loop));
    if (++w->count == 8)
        loop_stop(w->loop);
}

TEST(loop, work_runs_elsewhere_and_is_done_here)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    for (int i = 0; i < 8; i++)
        T_OK(loop_work(w.loop, work_there, work_done, &w));
    loop_run(w.loop);
    T_EQ(w.elsewhere, 8);
    T_EQ(w.count, 8);
    T_OK(loop_work(w.loop, work_there, NULL, &w));
    loop_free(w.loop); // waits for it
    T_EQ(w.elsewhere, 9);
}

TEST(loop, signals_arrive_on_the_loop)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    T_OK(loop_signal(w.loop, SIGUSR1, count_up, &w));
    T_OK(loop_signal(w.loop, SIGUSR1, stop, &w)); // replaces
    T_FAILS(SL_EINVAL, loop_signal(w.loop, SIGKILL, stop, &w));
    raise(SIGUSR1);
    loop_run(w.loop);
    T_EQ(w.count, 0);
    loop_free(w.loop);
}

TEST(loop, a_stop_before_the_run_counts)
{
    struct world w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    loop_stop(w.loop);
    loop_run(w.loop); // would wait for ever
    T_OK(loop_post(w.loop, stop, &w));
    loop_run(w.loop); // and it can run again
    loop_free(w.loop);
    loop_free(NULL);
}

// ---- on the thread of a host

// A thread that does what it is called for, one thing after the other, and
// pauses after each.
struct host {
    struct loop *loop;
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct {
        loop_fn fn;
        void *arg;
    } call[4];
    unsigned calls;
    bool over;
};

static void host_call(void *host, loop_fn fn, void *arg)
{
    struct host *h = host;

    pthread_mutex_lock(&h->lock);
    T_ASSERT(h->calls < SL_COUNT(h->call));
    h->call[h->calls].fn = fn;
    h->call[h->calls++].arg = arg;
    pthread_cond_signal(&h->more);
    pthread_mutex_unlock(&h->lock);
}

static void *host_thread(void *arg)
{
    struct host *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->over || h->calls > 0) {
        if (h->calls == 0) {
            pthread_cond_wait(&h->more, &h->lock);
            continue;
        }
        loop_fn fn = h->call[0].fn;
        void *fn_arg = h->call[0].arg;

        h->call[0] = h->call[1];
        h->call[1] = h->call[2];
        h->call[2] = h->call[3];
        h->calls--;
        pthread_mutex_unlock(&h->lock);
        fn(fn_arg);
        loop_host_pause(h->loop);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void host_open(struct host *h, struct loop *loop)
{
    *h = (struct host){.loop = loop};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->more, NULL);
    T_EQ(pthread_create(&h->id, NULL, host_thread, h), 0);
    loop_set_host(loop, &(struct loop_host){host_call, h});
}

static void host_close(struct host *h)
{
    loop_set_host(h->loop, NULL);
    pthread_mutex_lock(&h->lock);
    h->over = true;
    pthread_cond_signal(&h->more);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->id, NULL);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->more);
}

struct hosted {
    struct world w;
    struct host host;
    bool late; // the post of the event has run
};

static void hosted_tick(void *arg)
{
    struct hosted *h = arg;

    T_ASSERT(pthread_equal(pthread_self(), h->host.id));
    T_ASSERT(loop_is_here(h->w.loop));
    if (++h->w.count == 3)
        loop_stop(h->w.loop);
}

// What an event posts has not run when the event ends, but runs before the
// host does anything else; its timer and its work are libuv's.
static void hosted_post(void *arg)
{
    struct hosted *h = arg;

    T_ASSERT(pthread_equal(pthread_self(), h->host.id));
    h->late = true;
    T_OK(loop_work(h->w.loop, work_there, NULL, &h->w));
    loop_timer_start(h->w.timer, 1, 1);
}

static void hosted_event(void *arg)
{
    struct hosted *h = arg;

    T_OK(loop_post(h->w.loop, hosted_post, h));
    T_FALSE(h->late);
}

// The first thing that runs on the loop; from here on it is the host's.
static void hosted_start(void *arg)
{
    struct hosted *h = arg;

    host_call(&h->host, hosted_event, h);
}

TEST(loop, a_host_runs_posts_at_its_pauses_and_timers)
{
    struct hosted h = {.late = false};

    T_OK(loop_new(&h.w.loop, t_err()));
    T_OK(loop_timer_new(&h.w.timer, h.w.loop, hosted_tick, &h));
    host_open(&h.host, h.w.loop);
    T_OK(loop_post(h.w.loop, hosted_start, &h));
    loop_run(h.w.loop);
    T_TRUE(h.late);
    T_EQ(h.w.count, 3);
    T_TRUE(loop_is_here(h.w.loop)); // ours again
    loop_timer_free(h.w.timer);
    host_close(&h.host);
    loop_free(h.w.loop);
    T_EQ(h.w.elsewhere, 1);
}

TEST(loop, a_host_gets_every_post_of_others)
{
    struct world w = {0};
    struct host host;

    T_OK(loop_new(&w.loop, t_err()));
    host_open(&host, w.loop);
    run_many_posts(&w);
    loop_post_task(w.loop, &again, post_again, &w); // stops it: run again
    w.count = 0;
    loop_run(w.loop);
    T_EQ(w.count, 10);
    host_close(&host);
    loop_free(w.loop);
}

// ---- what handlers take

static void work_for(uint64_t us)
{
    uint64_t begun = sl_now_us(sl_clock_real());

    while (sl_now_us(sl_clock_real()) - begun < us)
        ;
}

static void hold(void *arg)
{
    loop_doing(arg, "a long walk");
    work_for(HELD_US + 1000);
}

static void hold_by_timer(void *arg)
{
    struct world *w = arg;

    work_for(HELD_US + 1000);
    loop_stop(w->loop);
}

static void begin_timer(void *arg)
{
    struct world *w = arg;

    loop_timer_start(w->timer, 1, 0);
}

TEST(loop, a_handler_that_holds_it_is_named)
{
    struct world w = {0};
    struct held held = {0};
    struct buf text = BUF_INIT;
    struct expo e;

    T_OK(loop_new(&w.loop, t_err()));
    T_OK(loop_timer_new(&w.timer, w.loop, hold_by_timer, &w));
    T_OK(loop_post(w.loop, hold, w.loop));
    loop_turn(w.loop);
    T_TRUE(held_last(&held));
    T_STR(held.what, "a long walk");
    T_GT(held.us, (uint64_t)HELD_US);
    T_OK(loop_post(w.loop, begin_timer, &w));
    loop_run(w.loop);
    T_TRUE(held_last(&held));
    T_STR(held.what, "a timer"); // one without a name of its own
    T_GE(held.times, 2u);
    expo_begin(&e, &text, false);
    held_measure(&e);
    T_OK(expo_end(&e));
    T_HAS(buf_text(&text),
          "sluice_event_loop_held_total{handler=\"a long walk\"}");
    buf_release(&text);
    loop_timer_free(w.timer);
    loop_free(w.loop);
}

// A walk of a hundred steps that goes on in a later turn when its share of this
// one is spent.
struct walk {
    struct loop *loop;
    struct loop_task task;
    unsigned steps, turns, others;
};

static void walk_on(void *arg)
{
    struct walk *w = arg;

    w->turns++;
    while (w->steps < 100 && !loop_spent(w->loop)) {
        work_for(LOOP_SPENT_US / 4);
        w->steps++;
    }
    if (w->steps < 100)
        loop_post_task(w->loop, &w->task, walk_on, w);
    else
        loop_stop(w->loop);
}

static void between(void *arg)
{
    struct walk *w = arg;

    w->others++;
    if (w->steps < 100)
        T_OK(loop_post(w->loop, between, w));
}

TEST(loop, whoever_waits_comes_between_the_turns_of_a_walk)
{
    struct walk w = {0};

    T_OK(loop_new(&w.loop, t_err()));
    T_FALSE(loop_spent(w.loop)); // no handler runs
    loop_post_task(w.loop, &w.task, walk_on, &w);
    T_OK(loop_post(w.loop, between, &w));
    loop_run(w.loop);
    T_EQ(w.steps, 100);
    T_GE(w.turns, 25u); // four steps a turn at most
    T_GE(w.others, w.turns - 1);
    loop_free(w.loop);
}
