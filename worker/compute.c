// SPDX-License-Identifier: Apache-2.0
// worker/compute.c -- see compute.h.
#include "worker/compute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/task.h"

struct compute {
    struct compute_setup setup;
    pthread_t thread;
    bool started;
    _Atomic unsigned posted; // on their way to the loop
    char device[96];         // set before compute_new returns

    // The compute thread's.
    struct kern_dev *dev;
    struct input *input;
    struct job_env env;
    struct list jobs; // struct job, least used first
    unsigned jobs_count;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list queue; // struct lease
        uint64_t *forget;  // jobs; owned
        size_t forget_count, forget_room;
        bool quit, opened, ended;
        enum sl_err rc; // of opening
        struct sl_error err;
    } shared;
};

// ---- jobs

static struct job *find_job(struct compute *c, uint64_t id)
{
    list_for(n, &c->jobs)
    {
        struct job *j = list_entry(n, struct job, node);

        if (j->record->open->job == id)
            return j;
    }
    return NULL;
}

// Leases that wait may have begun to read its data.
static void stop_reading(struct compute *c, const struct record *record)
{
    pthread_mutex_lock(&c->shared.lock);
    list_for(n, &c->shared.queue)
    {
        struct lease *l = list_entry(n, struct lease, queued);

        if (l->record == record)
            task_unprepare(c->input, l);
    }
    pthread_mutex_unlock(&c->shared.lock);
}

static void drop_job(struct compute *c, struct job *j)
{
    if (j == NULL)
        return;
    stop_reading(c, j->record);
    list_remove(&j->node);
    c->jobs_count--;
    job_free(j);
}

// The lease's job, made or made anew if JobOpen said something newer.
static enum sl_err take_job(struct compute *c, struct lease *l,
                            struct job **out, struct sl_error *err)
{
    struct job *j = find_job(c, l->job);
    enum sl_err rc;

    if (j != NULL && j->record != l->record) {
        drop_job(c, j);
        j = NULL;
    }
    if (j == NULL) {
        if (c->jobs_count == COMPUTE_JOBS)
            drop_job(c, list_entry(list_first(&c->jobs), struct job, node));
        rc = job_new(&j, l->record, &c->env, err);
        if (rc != SL_OK)
            return rc;
        c->jobs_count++;
    } else {
        list_remove(&j->node);
    }
    list_push_back(&c->jobs, &j->node);
    *out = j;
    return SL_OK;
}

// ---- the thread

// The next lease, if it is of the same job: its first batches are read while
// this one still computes.
static void look_ahead(void *arg, struct job *job)
{
    struct compute *c = arg;
    struct lease *l = NULL;
    struct list_node *n;

    pthread_mutex_lock(&c->shared.lock);
    n = list_first(&c->shared.queue);
    if (n != NULL)
        l = list_entry(n, struct lease, queued);
    pthread_mutex_unlock(&c->shared.lock);
    // Only this thread takes leases off the queue, so l stays.
    if (l != NULL && l->record == job->record && l->kind == LEASE_TRAIN)
        (void)task_prepare(c->input, job, l, NULL); // it will say it again
}

static void on_done(void *arg)
{
    struct lease *l = arg;
    struct compute *c = l->done_arg;

    c->setup.done(c->setup.arg, l);
    atomic_fetch_sub(&c->posted, 1);
}

static void run_lease(struct compute *c, struct lease *l)
{
    struct task_env env = {.input = c->input,
                           .clock = c->setup.clock,
                           .ahead = look_ahead,
                           .arg = c};
    struct sl_error err = SL_ERROR_INIT;
    struct job *job = NULL;
    enum sl_err rc;

    atomic_store(&l->running, true);
    if (gate_look(&l->gate, c->setup.clock) != GATE_OPEN) {
        task_stopped(l); // while it waited: no job is made for it
    } else {
        rc = take_job(c, l, &job, &err);
        if (rc == SL_OK)
            task_run(&env, job, l);
        else
            task_fail(l, rc, &err);
    }
    task_unprepare(c->input, l); // it may have been read ahead
    l->done_arg = c;
    atomic_fetch_add(&c->posted, 1);
    loop_post_task(c->setup.loop, &l->done, on_done, l);
}

static void forget_all(struct compute *c)
{
    for (;;) {
        uint64_t id;

        pthread_mutex_lock(&c->shared.lock);
        if (c->shared.forget_count == 0) {
            pthread_mutex_unlock(&c->shared.lock);
            return;
        }
        id = c->shared.forget[--c->shared.forget_count];
        pthread_mutex_unlock(&c->shared.lock);
        drop_job(c, find_job(c, id));
    }
}

static struct lease *next_lease(struct compute *c, bool *quit)
{
    struct list_node *n;

    pthread_mutex_lock(&c->shared.lock);
    while (list_empty(&c->shared.queue) && !c->shared.quit &&
           c->shared.forget_count == 0)
        pthread_cond_wait(&c->shared.changed, &c->shared.lock);
    n = list_pop_front(&c->shared.queue);
    *quit = n == NULL && c->shared.quit;
    pthread_mutex_unlock(&c->shared.lock);
    return n == NULL ? NULL : list_entry(n, struct lease, queued);
}

// Steps read and write their tensors themselves, in host memory.
static enum sl_err stay_on_host(struct compute *c, struct sl_error *err)
{
    struct kern_info info;

    if (c->dev->backend->host)
        return SL_OK;
    c->dev->backend->info(&info, c->dev);
    kern_close(c->dev);
    c->dev = NULL;
    if (strcmp(c->setup.device, "auto") != 0)
        return sl_fail(err, SL_ENOTSUP,
                       "device %s (%s): steps of this version compute in host "
                       "memory; say --device cpu or auto",
                       c->setup.device, info.name);
    LOG(WARN, "GPU is not used: steps compute in host memory", "device=%s",
        info.name);
    return kern_open(&c->dev, "cpu", c->setup.options, err);
}

static enum sl_err open_device(struct compute *c, struct sl_error *err)
{
    struct kern_info info;
    enum sl_err rc = kern_open(&c->dev, c->setup.device, c->setup.options, err);

    if (rc == SL_OK)
        rc = stay_on_host(c, err);
    if (rc != SL_OK)
        return rc;
    c->dev->backend->info(&info, c->dev);
    snprintf(c->device, sizeof(c->device), "%s", info.name);
    return input_new(&c->input, c->setup.input_threads, err);
}

static void opened(struct compute *c, enum sl_err rc,
                   const struct sl_error *err)
{
    pthread_mutex_lock(&c->shared.lock);
    c->shared.rc = rc;
    c->shared.err = *err;
    c->shared.opened = true;
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
}

static void *compute(void *arg)
{
    struct compute *c = arg;
    struct sl_error err = SL_ERROR_INIT;
    bool quit = false;
    enum sl_err rc = open_device(c, &err);

    c->env.dev = c->dev;
    opened(c, rc, &err);
    while (rc == SL_OK && !quit) {
        struct lease *l = next_lease(c, &quit);

        if (l != NULL)
            run_lease(c, l);
        forget_all(c);
    }
    while (!list_empty(&c->jobs))
        drop_job(c, list_entry(list_first(&c->jobs), struct job, node));
    input_free(c->input);
    kern_close(c->dev);
    pthread_mutex_lock(&c->shared.lock);
    c->shared.ended = true;
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
    return NULL;
}

// ---- the loop's side

struct map_wish {
    struct compute *c;
    uint64_t job, have;
};

static void on_want_map(void *arg)
{
    struct map_wish *w = arg;

    w->c->setup.want_map(w->c->setup.arg, w->job, w->have);
    atomic_fetch_sub(&w->c->posted, 1);
    sl_free(w);
}

// On the compute thread. Without memory the wish is dropped: it comes again.
static void want_map(void *arg, uint64_t job, uint64_t have)
{
    struct compute *c = arg;
    struct map_wish *w = sl_malloc(sizeof(*w));

    if (w == NULL)
        return;
    *w = (struct map_wish){c, job, have};
    atomic_fetch_add(&c->posted, 1);
    if (loop_post(c->setup.loop, on_want_map, w) == SL_OK)
        return;
    atomic_fetch_sub(&c->posted, 1);
    sl_free(w);
}

static enum sl_err wait_until_open(struct compute *c, struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&c->shared.lock);
    while (!c->shared.opened)
        pthread_cond_wait(&c->shared.changed, &c->shared.lock);
    rc = c->shared.rc;
    if (rc != SL_OK && err != NULL)
        *err = c->shared.err;
    pthread_mutex_unlock(&c->shared.lock);
    return rc;
}

enum sl_err compute_new(struct compute **out, const struct compute_setup *setup,
                        struct sl_error *err)
{
    struct compute *c = sl_calloc(1, sizeof(*c));
    enum sl_err rc;

    if (c == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    c->setup = *setup;
    list_init(&c->jobs);
    list_init(&c->shared.queue);
    pthread_mutex_init(&c->shared.lock, NULL);
    pthread_cond_init(&c->shared.changed, NULL);
    c->env = (struct job_env){.peers = setup->peers,
                              .clock = setup->clock,
                              .want_map = want_map,
                              .arg = c};
    if (pthread_create(&c->thread, NULL, compute, c) != 0) {
        compute_free(c);
        return sl_fail(err, SL_ENOMEM, "cannot start the compute thread");
    }
    c->started = true;
    pthread_setname_np(c->thread, "compute");
    rc = wait_until_open(c, err);
    if (rc != SL_OK) {
        compute_free(c);
        return rc;
    }
    *out = c;
    return SL_OK;
}

const char *compute_device(const struct compute *c)
{
    return c->device;
}

void compute_submit(struct compute *c, struct lease *l)
{
    pthread_mutex_lock(&c->shared.lock);
    list_push_back(&c->shared.queue, &l->queued);
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
}

void compute_forget(struct compute *c, uint64_t job)
{
    uint64_t *more;
    size_t n;

    pthread_mutex_lock(&c->shared.lock);
    n = c->shared.forget_count + 1;
    more = c->shared.forget;
    if (n > c->shared.forget_room)
        more = sl_realloc_array(c->shared.forget, n, sizeof(*more));
    if (more != NULL) { // else it goes when another job needs its place
        c->shared.forget = more;
        if (n > c->shared.forget_room)
            c->shared.forget_room = n;
        c->shared.forget[c->shared.forget_count++] = job;
    }
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
}

static void quit_locked(struct compute *c)
{
    c->shared.quit = true;
    pthread_cond_broadcast(&c->shared.changed);
}

bool compute_quit(struct compute *c, uint64_t limit_ms)
{
    struct deadline until = deadline_in_ms(limit_ms);
    bool ended;

    pthread_mutex_lock(&c->shared.lock);
    quit_locked(c);
    while (!c->shared.ended &&
           deadline_wait(&until, &c->shared.changed, &c->shared.lock))
        ;
    ended = c->shared.ended;
    pthread_mutex_unlock(&c->shared.lock);
    return ended;
}

void compute_free(struct compute *c)
{
    if (c == NULL)
        return;
    if (c->started) {
        pthread_mutex_lock(&c->shared.lock);
        quit_locked(c);
        pthread_mutex_unlock(&c->shared.lock);
        pthread_join(c->thread, NULL);
        while (atomic_load(&c->posted) > 0)
            loop_turn(c->setup.loop);
    }
    pthread_mutex_destroy(&c->shared.lock);
    pthread_cond_destroy(&c->shared.changed);
    sl_free(c->shared.forget);
    sl_free(c);
}
