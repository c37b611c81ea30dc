// SPDX-License-Identifier: Apache-2.0
// worker/lease/compute.c -- the compute thread: its inbox, its lease, its
// device, and what it keeps of jobs.
#include "worker/lease/compute.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/run/log.h"
#include "common/run/spans.h"
#include "common/base/mem.h"
#include "kernels/prove/prove.h"
#include "trainer/base/figures.h"
#include "worker/compile/compile.h"
#include "worker/device/kind.h"
#include "worker/lease/job_rank.h"
#include "worker/lease/kept.h"
#include "worker/lease/reading.h"
#include "worker/lease/task.h"

#define DEVICE_TEXT 192 // the device's name in messages

struct change {
    bool posted; // on_change is posted, and has not run yet
    enum compute_state state;
    char device[DEVICE_TEXT], why[SL_ERROR_TEXT];
    struct lost_row row;
};

struct compute {
    struct compute_setup setup; // device and options are owned
    pthread_t thread;
    bool started;
    _Atomic unsigned posted; // tasks on their way to the loop
    // Set before compute_new returns; then the loop's own.
    char device[DEVICE_TEXT];
    struct test_vector vector; // does not change after compute_new
    char away[SL_ERROR_TEXT];  // the loop's, as `device` is
    struct lost_row told;      // the loop's

    // The compute thread's.
    struct kern_dev *dev; // NULL: there is none
    struct team *team;    // other devices that compute with dev; NULL: none
    bool lost;            // dev is lost, as the last lease or opening showed
    struct lost_row row;  // `tried` counts openings since a lease ended well
    struct input *input;
    struct job_env env;
    struct kept kept;
    struct list taken; // struct lease: those of the task's contribution

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list queue; // struct lease
        uint64_t *forget;  // jobs; owned
        size_t forget_count, forget_capacity;
        bool quit, opened, ended;
        enum sl_err rc; // of opening
        struct sl_error err;
        struct change change; // of the device; a newer one replaces it
    } shared;
    struct loop_task tell_change;
};

// ---- jobs

// Ends the reading of leases that wait: they may have begun to read the job's
// data.
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

static void drop_job(struct compute *c, struct worker_job *j)
{
    if (j == NULL)
        return;
    stop_reading(c, j->record);
    kept_remove(&c->kept, j);
    worker_job_free(j);
}

// Logs the first time, then at powers of two: once jobs are let go of, it
// happens with every lease.
static void tell_surplus(struct compute *c, const struct worker_job *j)
{
    uint64_t times = ++c->kept.let_go;

    if ((times & (times - 1)) == 0)
        LOG(INFO, "kept job freed to make room",
            "job=%" PRIu64 " kept=%u bytes=%" PRIu64 " times=%" PRIu64,
            j->record->open->job, c->kept.count, c->kept.bytes, times);
}

static void compute_evict_jobs(struct compute *c, unsigned more, uint64_t bytes)
{
    struct worker_job *j;

    while ((j = kept_surplus(&c->kept, more, bytes)) != NULL) {
        tell_surplus(c, j);
        drop_job(c, j);
    }
}

// Returns in *out the lease's job: the kept one, or a new one if none is kept
// or JobOpen said something newer.
static enum sl_err compute_get_job(struct compute *c, struct lease *l,
                                   struct worker_job **out,
                                   struct sl_error *err)
{
    struct worker_job *j = NULL, *old = kept_find(&c->kept, l->job);
    enum sl_err rc;

    if (old != NULL && old->record == l->record) {
        kept_use(&c->kept, old);
        *out = old;
        return SL_OK;
    }
    if (old == NULL)
        compute_evict_jobs(c, 1, job_bytes_least(l->record));
    rc = worker_job_new(&j, l->record, &c->env, err);
    if (rc == SL_OK && old != NULL)
        job_rank_pass(old, j);
    drop_job(c, old);
    if (rc != SL_OK)
        return rc;
    kept_add(&c->kept, j);
    *out = j;
    return SL_OK;
}

// ---- the thread

// Starts reading the next lease's first batches while this one still computes,
// if it trains the same job.
static void compute_prefetch_next(void *arg, struct worker_job *job)
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
        // task_run will fail likewise, and report
        (void)task_prepare(c->input, job, l, NULL);
}

static void compute_on_lease_done(void *arg)
{
    struct lease *l = arg;
    struct compute *c = l->done_arg;

    c->setup.done(c->setup.arg, l);
    atomic_fetch_sub(&c->posted, 1);
}

static void post_done(struct compute *c, struct lease *l)
{
    task_unprepare(c->input, l); // it may have been read ahead
    l->done_arg = c;
    atomic_fetch_add(&c->posted, 1);
    loop_post_task(c->setup.loop, &l->done, compute_on_lease_done, l);
}

// Takes the first other lease of `job`, but no ring lease, off the queue; NULL
// if none waits.
static struct lease *compute_dequeue_lease_of(struct compute *c,
                                              const struct worker_job *job)
{
    struct lease *found = NULL;

    pthread_mutex_lock(&c->shared.lock);
    list_for(n, &c->shared.queue)
    {
        struct lease *l = list_entry(n, struct lease, queued);

        if (l->kind != LEASE_RING && l->record == job->record) {
            found = l;
            list_remove(&l->queued);
            break;
        }
    }
    pthread_mutex_unlock(&c->shared.lock);
    return found;
}

static void note_device(struct compute *c, struct lease *l);

// A ring lease lasts as long as its job, so leases behind it would wait for
// ever: they run within it. The ring's job is not dropped for them: one that
// finds no memory fails.
static void run_between(void *arg, struct worker_job *job)
{
    struct compute *c = arg;
    struct task_env env = {.input = c->input,
                           .clock = c->setup.clock,
                           .ahead = compute_prefetch_next,
                           .arg = c};
    struct pulse *outer = job->pulse;
    struct lease *l;

    while ((l = compute_dequeue_lease_of(c, job)) != NULL) {
        atomic_store(&l->running, true);
        l->gate.pulse.outer = outer;
        if (gate_look(&l->gate, c->setup.clock) != GATE_OPEN)
            lease_stopped(l);
        else
            task_run(&env, job, l);
        l->gate.pulse.outer = NULL;
        note_device(c, l);
        post_done(c, l);
    }
    job->pulse = outer;
}

// Takes the next lease for the contribution under way.
static struct lease *compute_take_next(void *arg, struct worker_job *job)
{
    struct compute *c = arg;
    struct lease *l = NULL;
    struct list_node *n;

    pthread_mutex_lock(&c->shared.lock);
    n = list_first(&c->shared.queue);
    if (n != NULL)
        l = list_entry(n, struct lease, queued);
    if (l != NULL && (l->record != job->record || l->kind != LEASE_TRAIN))
        l = NULL;
    if (l != NULL) {
        list_remove(&l->queued);
        list_push_back(&c->taken, &l->queued);
    }
    pthread_mutex_unlock(&c->shared.lock);
    return l;
}

// Gives a lease of the contribution back before the task ends.
static void compute_give(void *arg, struct lease *l)
{
    list_remove(&l->queued);
    post_done(arg, l);
}

static void compute_try_lease(struct compute *c, struct lease *l)
{
    struct task_env env = {.input = c->input,
                           .clock = c->setup.clock,
                           .ahead = compute_prefetch_next,
                           .between = run_between,
                           .next = compute_take_next,
                           .give = compute_give,
                           .arg = c};
    struct sl_error err = SL_ERROR_INIT;
    struct worker_job *job = NULL;
    enum sl_err rc = compute_get_job(c, l, &job, &err);

    if (rc != SL_OK) {
        lease_fail(l, rc, &err);
        return;
    }
    task_run(&env, job, l);
    // Programs and data may have been added.
    kept_weigh(&c->kept, job, job_bytes(job));
    compute_evict_jobs(c, 0, 0);
}

// ---- memory that the device copies from

static void *get_pinned(void *arg, size_t bytes)
{
    struct compute *c = arg;
    struct kern_mem mem;

    return c->dev->backend->alloc(&mem, c->dev, bytes, KERN_HOST) == SL_OK
               ? mem.at
               : NULL;
}

static void give_pinned(void *arg, void *at, size_t bytes)
{
    struct compute *c = arg;
    struct kern_mem mem = {at, bytes};

    c->dev->backend->release(c->dev, &mem);
}

// Gives the input memory that the device copies from. A host backend computes
// where the batch lies.
static void lend_memory(struct compute *c)
{
    const struct input_memory m = {get_pinned, give_pinned, c};

    if (c->dev != NULL && !c->dev->backend->host)
        input_memory(c->input, &m);
}

// ---- a device that is full, or lost

static void drop_all_jobs(struct compute *c)
{
    while (!list_empty(&c->kept.jobs))
        drop_job(
            c, list_entry(list_first(&c->kept.jobs), struct worker_job, node));
}

// Drops all jobs. The job of the lease goes, too: its programs share memory
// that could not grow.
static void let_go_of_all(struct compute *c, struct lease *l)
{
    task_unprepare(c->input, l);
    drop_all_jobs(c);
}

static void make_room_and_try(struct compute *c, struct lease *l)
{
    if (!lost_out_of_memory(l))
        return;
    LOG(INFO, "out of memory; freeing kept jobs and trying once more",
        "job=%" PRIu64 " closure=%" PRIu64 " jobs=%u error=%s", l->job,
        l->closure, c->kept.count, l->outcome.err.text);
    let_go_of_all(c, l);
    compute_try_lease(c, l);
    if (!lost_out_of_memory(l))
        return;
    // The attempt stays a failed one: handed back, the closure would come to a
    // sole worker again and again.
    lost_advise(l);
    let_go_of_all(c, l); // the second attempt may have left half a job
}

static void on_change(void *arg)
{
    struct compute *c = arg;
    struct change now;

    pthread_mutex_lock(&c->shared.lock);
    c->shared.change.posted = false;
    now = c->shared.change;
    pthread_mutex_unlock(&c->shared.lock);
    if (now.state == COMPUTE_READY)
        snprintf(c->device, sizeof(c->device), "%s", now.device);
    snprintf(c->away, sizeof(c->away), "%s", now.why);
    c->told = now.row;
    if (c->setup.changed != NULL)
        c->setup.changed(c->setup.arg, now.state, now.why);
    atomic_fetch_sub(&c->posted, 1);
}

// Writes the device's name; for a team "2 devices, cuda:0: NVIDIA H100, ...".
static void tell_name(char out[DEVICE_TEXT], const struct compute *c)
{
    unsigned members = team_mates(c->team) + 1;
    struct kern_info info;

    c->dev->backend->info(&info, c->dev);
    if (members > 1)
        snprintf(out, DEVICE_TEXT, "%u devices, %s", members, info.name);
    else
        snprintf(out, DEVICE_TEXT, "%s", info.name);
}

static void compute_post_state(struct compute *c, enum compute_state state,
                               const char *why)
{
    struct change *change = &c->shared.change;
    bool post;

    pthread_mutex_lock(&c->shared.lock);
    change->state = state;
    snprintf(change->why, sizeof(change->why), "%s", why);
    change->row = c->row;
    if (state == COMPUTE_READY)
        tell_name(change->device, c);
    post = !change->posted;
    change->posted = true;
    pthread_mutex_unlock(&c->shared.lock);
    if (!post)
        return;
    atomic_fetch_add(&c->posted, 1);
    loop_post_task(c->setup.loop, &c->tell_change, on_change, c);
}

// Returns why the device is lost, or "". A team that lacks a device is lost: a
// step needs the share of each.
static const char *why_lost(struct compute *c, const struct lease *l)
{
    const char *why = lost_of(c->dev, l);

    if (why[0] != '\0' || l->outcome.kind != OUTCOME_FAILED ||
        l->outcome.err.code != SL_ELOST)
        return why;
    return team_lost(c->team);
}

// Called after each lease, before it is given back: so the loop hears of the
// loss first, and asks for no more leases.
static void note_device(struct compute *c, struct lease *l)
{
    const char *why = why_lost(c, l);
    enum lost_turn turn;

    if (why[0] == '\0') {
        if (l->outcome.kind == OUTCOME_COMPLETE && l->kind != LEASE_PROBE)
            c->row.tried = 0;
        return;
    }
    turn = lost_next(&c->setup.loss, c->row.tried);
    lost_log(&c->setup.loss, turn, c->row.tried, c->row.name, why);
    compute_post_state(c, turn == LOST_END ? COMPUTE_GONE : COMPUTE_AWAY, why);
    lost_excuse(l, why);
    c->lost = true;
}

static void run_lease(struct compute *c, struct lease *l)
{
    uint64_t began = span_begin();
    struct list_node *n;

    atomic_store(&l->running, true);
    if (gate_look(&l->gate, c->setup.clock) != GATE_OPEN) {
        lease_stopped(l); // closed while the lease waited: no job is made
    } else if (c->dev == NULL) {
        lease_hand_back(l, "its device is lost");
    } else {
        compute_try_lease(c, l);
        make_room_and_try(c, l);
        note_device(c, l);
    }
    span_end(began, l->kind == LEASE_TRAIN ? "lease" : "evaluate",
             SPANS_COMPUTE, span_of_closure(l->job, l->closure));
    post_done(c, l);
    while ((n = list_pop_front(&c->taken)) != NULL)
        post_done(c, list_entry(n, struct lease, queued));
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
        drop_job(c, kept_find(&c->kept, id));
    }
}

// Waits for a lease or a job to forget. Sets *over, with NULL, if the thread is
// to end or `until` has passed (NULL: never).
static struct lease *next_lease(struct compute *c, const struct deadline *until,
                                bool *over)
{
    struct list_node *n;
    bool late = false;

    pthread_mutex_lock(&c->shared.lock);
    while (list_empty(&c->shared.queue) && !c->shared.quit && !late &&
           c->shared.forget_count == 0) {
        if (until == NULL)
            pthread_cond_wait(&c->shared.changed, &c->shared.lock);
        else
            late = !deadline_wait(until, &c->shared.changed, &c->shared.lock);
    }
    n = list_pop_front(&c->shared.queue);
    *over = n == NULL && (c->shared.quit || late);
    pthread_mutex_unlock(&c->shared.lock);
    return n == NULL ? NULL : list_entry(n, struct lease, queued);
}

static bool is_quitting(struct compute *c)
{
    bool quit;

    pthread_mutex_lock(&c->shared.lock);
    quit = c->shared.quit;
    pthread_mutex_unlock(&c->shared.lock);
    return quit;
}

// Hands back leases for `ms` milliseconds; returns false if the thread is to
// end.
static bool wait_without_device(struct compute *c, uint64_t ms)
{
    struct deadline until = deadline_in_ms(ms);
    bool over = false;

    while (!over) {
        struct lease *l = next_lease(c, &until, &over);

        if (l != NULL)
            run_lease(c, l);
        forget_all(c);
    }
    return !is_quitting(c);
}

static void close_device(struct compute *c)
{
    drop_all_jobs(c);
    input_memory(c->input, NULL);
    team_free(c->team);
    c->team = c->env.team = NULL;
    kern_close(c->dev);
    c->dev = c->env.dev = NULL;
    figures_device_memory(0);
}

static void take_cpu(struct compute *c)
{
    struct sl_error err = SL_ERROR_INIT;

    snprintf(c->row.name, sizeof(c->row.name), "cpu");
    if (kern_open(&c->dev, c->row.name, c->setup.options, &err) == SL_OK) {
        c->env.dev = c->dev;
        compute_post_state(c, COMPUTE_READY, "");
        return;
    }
    LOG(ERROR, "CPU backend cannot be opened either; ending", "error=%s",
        err.text);
    compute_post_state(c, COMPUTE_GONE,
                       "its device is lost, and cpu does not open");
}

static void wait_and_start_anew(struct compute *c, const char *why)
{
    if (!wait_without_device(c, c->setup.loss.wait_ms))
        return;
    c->row.tried++;
    compute_post_state(c, COMPUTE_ANEW, why);
}

// Closes the lost device, of which the loop was told, and does what the rule
// says. Without another device the thread goes on handing back leases until it
// is told to end.
static void compute_recover_device(struct compute *c)
{
    c->lost = false;
    close_device(c);
    switch (lost_next(&c->setup.loss, c->row.tried)) {
    case LOST_END:
        return; // the loop was told COMPUTE_GONE
    case LOST_TAKE_CPU:
        take_cpu(c);
        return;
    case LOST_WAIT_AND_START_ANEW:
        wait_and_start_anew(c, "the device is opened again");
        return;
    }
}

// Judges the opening of a device that the process before this one lost: either
// it is back, or the thread starts without it and tells COMPUTE_AWAY or
// COMPUTE_GONE.
static enum sl_err open_lost(struct compute *c, enum sl_err rc,
                             const struct sl_error *err)
{
    enum lost_turn turn = lost_next(&c->setup.loss, c->row.tried);

    if (rc == SL_OK) {
        LOG(WARN, "device is back", "device=%s tried=%" PRIu32, c->row.name,
            c->row.tried);
        return rc;
    }
    lost_log_still(&c->setup.loss, turn, &c->row, err->text);
    snprintf(c->device, sizeof(c->device), "%s", c->row.name);
    snprintf(c->away, sizeof(c->away), "%s", err->text);
    compute_post_state(c, turn == LOST_END ? COMPUTE_GONE : COMPUTE_AWAY,
                       err->text);
    c->lost = true;
    return SL_OK;
}

// Opens the first device of `list` on this thread, its mates on theirs.
static enum sl_err open_all(struct compute *c, const char *list,
                            struct sl_error *err)
{
    struct team_names names;
    enum sl_err rc = team_names_read(&names, list, err);

    if (rc != SL_OK)
        return rc;
    rc = kern_open(&c->dev, names.name[0], c->setup.options, err);
    if (rc == SL_OK)
        rc = team_new(&c->team, c->dev, &names, c->setup.options, err);
    if (rc != SL_OK) {
        kern_close(c->dev);
        c->dev = NULL;
        return rc;
    }
    c->env.team = c->team;
    if (c->team != NULL)
        LOG(INFO, "devices compute each step together",
            "devices=%s members=%u sums=%s", list, names.count,
            team_by(c->team));
    return SL_OK;
}

static enum sl_err compute_open_device(struct compute *c, struct sl_error *err)
{
    bool again = c->row.tried > 0;
    struct kern_info info;
    char about[160];
    enum sl_err rc = open_all(c, again ? c->row.name : c->setup.device, err);

    if (again)
        rc = open_lost(c, rc, err);
    if (rc != SL_OK)
        return rc;
    if (c->dev != NULL) {
        tell_name(c->device, c);
        c->dev->backend->info(&info, c->dev);
        kern_about(about, sizeof(about), c->dev);
        figures_device_memory(info.bytes + team_bytes(c->team));
        if (!c->dev->backend->host)
            LOG(INFO, "computing on a GPU", "device=%s about=%s", info.name,
                about);
    }
    if (!again)
        snprintf(c->row.name, sizeof(c->row.name), "%s",
                 lost_name(c->setup.device, c->dev));
    rc = input_new(&c->input, c->setup.input_threads, err);
    if (rc == SL_OK)
        lend_memory(c);
    return rc;
}

// Computes the test vector, so that a host that computes wrongly is found
// before it is leased anything (A7). A worker that cannot says nothing.
static void compute_test_vector(struct compute *c)
{
    uint64_t began = sl_real_ms();
    struct sl_error err = SL_ERROR_INIT;
    struct proofs before;
    enum sl_err rc;

    // A device that is told to fail counts what it runs.
    if (c->dev == NULL || !kind_repeats(c->dev) ||
        strcmp(c->dev->backend->name, "flaky") == 0)
        return;
    before = kern_proofs(c->dev);
    rc = test_vector_compute(&c->vector, c->dev, c->team, &err);
    compile_tell_kernels(c->dev, &before);
    if (rc != SL_OK)
        LOG(WARN, "test vector not computed", "device=%s error=%s reason=%s",
            c->device, sl_err_name(rc), err.text);
    else
        LOG(INFO, "test vector computed",
            "device=%s kind=%016" PRIx64 " vector=%016" PRIx64 " ms=%" PRIu64,
            c->device, c->vector.kind, c->vector.output, sl_real_ms() - began);
}

static void compute_report_opened(struct compute *c, enum sl_err rc,
                                  const struct sl_error *err)
{
    pthread_mutex_lock(&c->shared.lock);
    c->shared.rc = rc;
    c->shared.err = *err;
    c->shared.opened = true;
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
}

static void *compute_thread(void *arg)
{
    struct compute *c = arg;
    struct sl_error err = SL_ERROR_INIT;
    bool quit = false;
    enum sl_err rc = compute_open_device(c, &err);

    c->env.dev = c->dev;
    if (rc == SL_OK)
        compute_test_vector(c);
    compute_report_opened(c, rc, &err);
    while (rc == SL_OK && !quit) {
        struct lease *l;

        if (c->lost)
            compute_recover_device(c);
        l = next_lease(c, NULL, &quit);
        if (l != NULL)
            run_lease(c, l);
        forget_all(c);
    }
    drop_all_jobs(c);
    input_free(c->input);
    team_free(c->team);
    kern_close(c->dev);
    pthread_mutex_lock(&c->shared.lock);
    c->shared.ended = true;
    pthread_cond_broadcast(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
    return NULL;
}

// ---- the loop's side

struct compute_map_wish {
    struct compute *c;
    uint64_t job, have;
};

static void compute_on_want_map(void *arg)
{
    struct compute_map_wish *w = arg;

    w->c->setup.want_map(w->c->setup.arg, w->job, w->have);
    atomic_fetch_sub(&w->c->posted, 1);
    sl_free(w);
}

// Posts the wish to the loop; called on the compute thread. Without memory the
// wish is dropped: it comes again.
static void compute_post_want_map(void *arg, uint64_t job, uint64_t have)
{
    struct compute *c = arg;
    struct compute_map_wish *w = sl_malloc(sizeof(*w));

    if (w == NULL)
        return;
    *w = (struct compute_map_wish){c, job, have};
    atomic_fetch_add(&c->posted, 1);
    if (loop_post(c->setup.loop, compute_on_want_map, w) == SL_OK)
        return;
    atomic_fetch_sub(&c->posted, 1);
    sl_free(w);
}

static void on_found(void *arg)
{
    struct compute *c = arg;

    if (c->setup.found != NULL)
        c->setup.found(c->setup.arg);
    atomic_fetch_sub(&c->posted, 1);
}

// Posts to the loop that bad samples were found; called on the compute thread.
// Without memory the next heartbeat tells of them.
static void found(void *arg)
{
    struct compute *c = arg;

    atomic_fetch_add(&c->posted, 1);
    if (loop_post(c->setup.loop, on_found, c) != SL_OK)
        atomic_fetch_sub(&c->posted, 1);
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
        return sl_no_memory(err);
    c->setup = *setup;
    c->row = setup->row;
    c->setup.device = sl_strdup(setup->device);
    c->setup.options = setup->options ? sl_strdup(setup->options) : NULL;
    kept_init(&c->kept, setup->keep_bytes);
    list_init(&c->taken);
    list_init(&c->shared.queue);
    pthread_mutex_init(&c->shared.lock, NULL);
    pthread_cond_init(&c->shared.changed, NULL);
    c->env = (struct job_env){.peers = setup->peers,
                              .clock = setup->clock,
                              .roots = setup->roots,
                              .index = &c->setup.index,
                              .want_map = compute_post_want_map,
                              .found = found,
                              .arg = c};
    if (c->setup.device == NULL || (setup->options && !c->setup.options)) {
        compute_free(c);
        return sl_no_memory(err);
    }
    if (pthread_create(&c->thread, NULL, compute_thread, c) != 0) {
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

const char *compute_away(const struct compute *c)
{
    return c->away;
}

struct test_vector compute_vector(const struct compute *c)
{
    return c->vector;
}

const struct lost_row *compute_row(const struct compute *c)
{
    return &c->told;
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
    if (n > c->shared.forget_capacity)
        more = sl_realloc_array(c->shared.forget, n, sizeof(*more));
    if (more != NULL) { // else the job goes when another needs its place
        c->shared.forget = more;
        if (n > c->shared.forget_capacity)
            c->shared.forget_capacity = n;
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
    sl_free((char *)c->setup.device);
    sl_free((char *)c->setup.options);
    sl_free(c);
}
