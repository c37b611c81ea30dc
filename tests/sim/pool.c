// SPDX-License-Identifier: Apache-2.0
// tests/sim/pool.c -- common/run/loop.h for the psserver in the simulation.
//
// The linker takes these functions instead of libuv's. Only what roster*.c
// needs works; the rest aborts, so that nobody waits for a real clock here.
#include "tests/sim/pool.h"

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
    abort();
}

enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg)
{
    abort();
}

void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg)
{
    abort();
}

bool loop_is_here(const struct loop *l)
{
    return true;
}
