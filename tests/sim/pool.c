// SPDX-License-Identifier: Apache-2.0
// tests/sim/pool.c -- common/run/loop.h for the processes of the simulation.
//
// The linker takes these functions instead of libuv's. What psservers and
// workers need works; the rest aborts, so that nobody waits for a real clock
// here.
#include "tests/sim/pool.h"

#include "common/base/cgroup.h"
#include "common/base/usage.h"
#include "common/run/background.h"
#include "tests/sim/nemesis.h"

struct pool_job {
    struct list_node node;
    uint64_t number; // of the job, for its events
    void (*work)(void *);
    void (*done)(void *);
    void *arg;
    bool begun;
};

static struct pool_job *find(struct proc *p, uint64_t number)
{
    list_for(n, &p->pool)
    {
        struct pool_job *j = list_entry(n, struct pool_job, node);

        if (j->number == number)
            return j;
    }
    return NULL;
}

static void begin(struct pool_job *j)
{
    j->begun = true;
    j->work(j->arg);
}

static void finish(struct pool_job *j)
{
    list_remove(&j->node);
    if (j->done != NULL)
        j->done(j->arg);
    free(j);
}

static void end_run(struct sim *s, struct sim_event *e)
{
    struct pool_job *j = find(proc_get(s, e->proc), e->a);

    if (j != NULL)
        finish(j);
}

static void end_soon(struct sim *s, struct proc *p, struct pool_job *j)
{
    sim_after(s, sim_below(s, 3000),
              &(struct sim_event){.kind = SIM_POOL,
                                  .proc = p->number,
                                  .a = j->number,
                                  .b = 1,
                                  .run = end_run});
}

static void begin_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);
    struct pool_job *j = find(p, e->a);

    if (j == NULL || j->begun)
        return;
    begin(j);
    end_soon(s, p, j);
}

void pool_add(struct sim *s, struct proc *p, void (*work)(void *),
              void (*done)(void *), void *arg)
{
    struct pool_job *j = calloc(1, sizeof(*j));
    // A manifest that is long in coming keeps hellos waiting (K5).
    unsigned often = p->role == SIM_BOSS ? 300 : 50;
    uint64_t slow = sim_chance(s, often) ? SIM_SECOND : 15000;

    T_ASSERT(j != NULL);
    *j = (struct pool_job){
        .number = ++s->works, .work = work, .done = done, .arg = arg};
    list_push_back(&p->pool, &j->node);
    sim_after(s, 50 + sim_below(s, slow),
              &(struct sim_event){.kind = SIM_POOL,
                                  .proc = p->number,
                                  .a = j->number,
                                  .run = begin_run});
    nemesis_tempt(s, p);
}

bool pool_begin_one(struct sim *s, struct proc *p)
{
    list_for(n, &p->pool)
    {
        struct pool_job *j = list_entry(n, struct pool_job, node);

        if (j->begun)
            continue;
        begin(j);
        return true;
    }
    return false;
}

void pool_end_all(struct proc *p)
{
    struct list_node *n;

    while ((n = list_first(&p->pool)) != NULL) {
        struct pool_job *j = list_entry(n, struct pool_job, node);

        if (!j->begun)
            begin(j);
        finish(j);
    }
}

// ---- what was posted to the loop

#define POST_US 50 // at most, until the loop gets to it

struct posted {
    struct list_node node;
    loop_fn fn;
    void *arg;
};

static void run_posted(struct proc *p)
{
    struct posted *one =
        list_entry(list_pop_front(&p->posted), struct posted, node);
    loop_fn fn = one->fn;
    void *arg = one->arg;

    free(one);
    fn(arg);
}

// The first one, whichever event this is: they run in the order of the posts.
static void posted_run(struct sim *s, struct sim_event *e)
{
    run_posted(proc_get(s, e->proc));
}

static void post(struct loop *l, loop_fn fn, void *arg)
{
    struct posted *one = malloc(sizeof(*one));

    T_ASSERT(one != NULL);
    *one = (struct posted){.fn = fn, .arg = arg};
    list_push_back(&l->proc->posted, &one->node);
    sim_after(l->sim, sim_below(l->sim, POST_US),
              &(struct sim_event){.kind = SIM_POSTED,
                                  .proc = l->proc->number,
                                  .run = posted_run});
}

void pool_run_posted(struct proc *p)
{
    while (!list_empty(&p->posted))
        run_posted(p);
}

// ---- timers

struct loop_timer {
    struct list_node node; // of its process
    struct loop *loop;
    loop_fn fn;
    void *arg;
    uint64_t number, starts; // starts: how often it was started, or stopped
    uint64_t repeat_ms;
};

static void fire_after(struct loop_timer *t, uint64_t ms);

static void fire_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    list_for(n, &p->timers)
    {
        struct loop_timer *t = list_entry(n, struct loop_timer, node);

        if (t->number != e->a || t->starts != e->b)
            continue;
        if (t->repeat_ms > 0)
            fire_after(t, t->repeat_ms);
        t->fn(t->arg); // which may free it
        return;
    }
}

static void fire_after(struct loop_timer *t, uint64_t ms)
{
    sim_after(t->loop->sim, ms * 1000,
              &(struct sim_event){.kind = SIM_TIMER,
                                  .proc = t->loop->proc->number,
                                  .a = t->number,
                                  .b = t->starts,
                                  .run = fire_run});
}

enum sl_err loop_timer_new(struct loop_timer **out, struct loop *l, loop_fn fn,
                           void *arg)
{
    struct loop_timer *t = calloc(1, sizeof(*t));

    T_ASSERT(t != NULL);
    t->loop = l;
    t->fn = fn;
    t->arg = arg;
    t->number = ++l->sim->works;
    list_push_back(&l->proc->timers, &t->node);
    *out = t;
    return SL_OK;
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms,
                      uint64_t repeat_ms)
{
    t->starts++;
    t->repeat_ms = repeat_ms;
    fire_after(t, after_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
    t->starts++;
}

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL)
        return;
    list_remove(&t->node);
    free(t);
}

// ---- common/base/usage.h, cgroup.h: nothing of this very process

struct usage usage_read(void)
{
    return (struct usage){0};
}

void cgroup_memory(struct cgroup_memory *out, const char *root)
{
    *out = (struct cgroup_memory){0};
}

// ---- common/run/background.h

void background_run(void (*fn)(void *arg), void *arg)
{
    fn(arg);
}

// ---- common/run/loop.h

enum sl_err loop_work(struct loop *l, loop_fn work, loop_fn done, void *arg)
{
    pool_add(l->sim, l->proc, work, done, arg);
    return SL_OK;
}

uint64_t loop_now_ms(const struct loop *l)
{
    return sl_now_ms(&l->sim->clock.clock);
}

// roster_free waits for its pool with these two.
void loop_run(struct loop *l)
{
    pool_end_all(l->proc);
}

void loop_stop(struct loop *l)
{
}

enum sl_err loop_new(struct loop **out, struct sl_error *err)
{
    abort();
}

void loop_free(struct loop *l)
{
    abort();
}

void loop_turn(struct loop *l)
{
    pool_run_posted(l->proc);
}

enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg)
{
    post(l, fn, arg);
    return SL_OK;
}

void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg)
{
    (void)task; // the queue has a node of its own
    post(l, fn, arg);
}

bool loop_is_here(const struct loop *l)
{
    return true;
}
