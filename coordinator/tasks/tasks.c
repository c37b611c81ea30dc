// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/tasks.c -- the thread: rounds of calls, each one
// transaction, and the calls that wait.
#include "coordinator/tasks/tasks.h"

#include <pthread.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/tasks/visit.h"

#define AGAIN_MS 500 // until a file that failed is opened again

struct tasks {
    const struct sl_clock *clock;
    void (*changed)(void *arg, const struct tasks_change *change);
    void *arg;
    char *path; // owned
    struct tasks_home home;
    pthread_t thread;
    bool started;

    // Used by the thread alone:
    struct desk desk;
    struct list waiting; // of struct visit
    uint64_t again_ms;
    uint64_t due_ms; // when the last wait was to end
    bool told;       // logged that the file cannot be used

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list calls;
        bool closed, ending;
    } shared;
};

// ---- answers

static void tasks_answer_visit(struct visit *v, enum sl_err rc,
                               const struct sl_error *err)
{
    ProtobufCMessage *reply = v->reply;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (rc == SL_OK && wire_msg(&msg, reply) != SL_OK)
        rc = SL_ENOMEM;
    list_remove(&v->node);
    wire_arena_release(&v->arena);
    rpc_answer(v->call, rc, rc == SL_OK || err->text[0] == '\0' ? NULL : err,
               &msg); // the visit is gone
    wire_free(reply);
}

static void tell_change(struct tasks *t, const struct visit *v)
{
    const struct tasks_change change = {&v->who, v->changes, v->queue, v->rc,
                                        &v->err};

    if (v->changes != NULL && t->changed != NULL)
        t->changed(t->arg, &change);
}

static void answer_each(struct tasks *t, struct list *visits)
{
    list_for_safe(n, visits)
    {
        struct visit *v = list_entry(n, struct visit, node);
        struct sl_error err = v->err;

        tell_change(t, v);
        tasks_answer_visit(v, v->rc, &err);
    }
}

static void tasks_fail_visits(struct list *visits, enum sl_err rc,
                              const struct sl_error *err)
{
    list_for_safe(n, visits)
        tasks_answer_visit(list_entry(n, struct visit, node), rc, err);
}

// ---- the file

static void put_away(struct tasks *t)
{
    store_close(t->desk.store);
    t->desk.store = NULL;
    book_release(&t->desk.book);
    t->again_ms = t->desk.now_ms + AGAIN_MS;
}

// A failure is logged once, and so is its end.
static void tasks_log_change(struct tasks *t, const struct sl_error *err)
{
    if (err != NULL && !t->told)
        LOG(ERROR, "tasks cannot be kept", "why=%s", err->text);
    else if (err == NULL && t->told)
        LOG(INFO, "tasks are kept again", "where=%s",
            t->desk.home == NULL ? t->path : "etcd");
    t->told = err != NULL;
}

// Returns what callers are told of a failure: they repeat their calls while
// etcd is away, and while a write of unknown outcome is settled (H2).
static enum sl_err tasks_told(const struct desk *d, enum sl_err rc)
{
    return rc == SL_OK || d->home == NULL || rc == SL_ENOTSUP ? rc
                                                              : SL_EUNAVAIL;
}

static enum sl_err tasks_open_rows(struct tasks *t)
{
    struct desk *d = &t->desk;
    struct journal *rows;
    enum sl_err rc;

    if (d->home == NULL)
        return store_open(&d->store, t->path, &d->why);
    rc = d->home->open(d->home->arg, &rows, &d->why);
    return rc == SL_OK ? store_of_rows(&d->store, rows, &d->why) : rc;
}

static enum sl_err tasks_open_store(struct tasks *t)
{
    struct desk *d = &t->desk;
    enum sl_err rc;

    if (d->store != NULL)
        return SL_OK;
    if (d->failed != SL_OK && d->now_ms < t->again_ms)
        return d->failed;
    d->failed = SL_OK;
    d->why = (struct sl_error)SL_ERROR_INIT;
    rc = tasks_open_rows(t);
    if (rc == SL_OK)
        rc = store_load(d->store, &d->book, &d->why);
    if (rc != SL_OK) {
        put_away(t);
        d->failed = tasks_told(d, rc);
        tasks_log_change(t, &d->why);
        return d->failed;
    }
    tasks_log_change(t, NULL);
    return SL_OK;
}

// ---- a round

static void tasks_decide_visit(struct tasks *t, struct visit *v,
                               struct list *done)
{
    wire_arena_init(&v->arena);
    v->rc = v->method->decode(&v->request, &v->arena, rpc_call_body(v->call),
                              &v->err);
    if (v->rc == SL_OK)
        v->rc = v->method->decide(&t->desk, v);
    list_remove(&v->node);
    list_push_back(v->rc == SL_OK && v->until_ms > 0 ? &t->waiting : done,
                   &v->node);
}

static void tasks_check_waiting(struct tasks *t, struct list *done)
{
    list_for_safe(n, &t->waiting)
    {
        struct visit *v = list_entry(n, struct visit, node);
        bool ready = false;

        v->rc = v->method->look(&t->desk, v, &ready);
        if (v->rc == SL_OK && !ready && v->until_ms > t->desk.now_ms)
            continue;
        list_remove(&v->node);
        list_push_back(done, &v->node);
    }
}

// Reads the clock. If the thread is late by a quarter of a lease, the silence
// was the coordinator's own, and no worker is lost for it.
static void look_at_clock(struct tasks *t)
{
    struct desk *d = &t->desk;

    d->now_ms = sl_now_ms(t->clock);
    if (d->now_ms > t->due_ms && d->now_ms - t->due_ms > d->lease_ms / 4)
        book_forgive(&d->book, d->now_ms, d->lease_ms);
}

static void tasks_run_round(struct tasks *t, struct list *calls)
{
    struct desk *d = &t->desk;
    struct list done;
    enum sl_err rc;

    list_init(&done);
    look_at_clock(t);
    if (list_empty(calls) && d->store == NULL)
        return;
    if (tasks_open_store(t) != SL_OK) {
        tasks_fail_visits(calls, d->failed, &d->why);
        return;
    }
    list_for_safe(n, calls)
        tasks_decide_visit(t, list_entry(n, struct visit, node), &done);
    visit_expire(d);
    tasks_check_waiting(t, &done);
    if (d->failed == SL_OK) {
        rc = store_commit(d->store, &d->book, &d->why);
        d->failed = rc;
    }
    if (d->home != NULL)
        d->home->check(d->home->arg); // H4
    if (d->failed == SL_OK) {
        answer_each(t, &done);
        return;
    }
    // The book in memory is ahead of the file.
    d->failed = tasks_told(d, d->failed);
    tasks_log_change(t, &d->why);
    tasks_fail_visits(&done, d->failed, &d->why);
    tasks_fail_visits(&t->waiting, d->failed, &d->why);
    put_away(t);
}

static uint64_t next_ms(struct tasks *t)
{
    uint64_t next = book_next_ms(&t->desk.book);

    list_for(n, &t->waiting)
    {
        uint64_t until = list_entry(n, struct visit, node)->until_ms;

        if (until < next)
            next = until;
    }
    return next;
}

// Waits for calls, or until something is due. Returns false when the thread is
// to end.
static bool wait_for_calls(struct tasks *t, struct list *calls, bool *closed)
{
    uint64_t now = sl_now_ms(t->clock);
    struct deadline until;
    bool ending;

    t->due_ms = next_ms(t);
    until = deadline_in_ms(t->due_ms > now ? t->due_ms - now : 0);
    pthread_mutex_lock(&t->shared.lock);
    while (list_empty(&t->shared.calls) && t->shared.closed == *closed &&
           !t->shared.ending &&
           deadline_wait(&until, &t->shared.changed, &t->shared.lock))
        ;
    list_take_all(calls, &t->shared.calls);
    *closed = t->shared.closed;
    ending = t->shared.ending;
    pthread_mutex_unlock(&t->shared.lock);
    return !ending || !list_empty(calls);
}

static void *tasks_thread(void *arg)
{
    struct tasks *t = arg;
    struct sl_error stopping = SL_ERROR_INIT;
    bool closed = false;
    struct list calls;

    sl_fail(&stopping, SL_EUNAVAIL, "the coordinator is stopping");
    list_init(&calls);
    while (wait_for_calls(t, &calls, &closed)) {
        if (!closed) {
            tasks_run_round(t, &calls);
            continue;
        }
        tasks_fail_visits(&calls, SL_EUNAVAIL, &stopping);
        tasks_fail_visits(&t->waiting, SL_EUNAVAIL, &stopping);
    }
    put_away(t);
    return NULL;
}

// ---- calls come

static void tasks_start_visit(struct rpc_call *call, struct tasks *t,
                              const struct visit_method *method)
{
    struct visit *v = rpc_call_scratch(call, sizeof(*v));
    const struct tasks_home *home = t->desk.home;
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    if (v == NULL) {
        rpc_answer(call, SL_ENOMEM, NULL, NULL);
        return;
    }
    v->call = call;
    v->method = method;
    rpc_call_peer(call, &peer);
    rc = access_who(&v->who, &peer, &err);
    if (rc == SL_OK && home != NULL && home->away(home->arg, &err))
        rc = SL_EUNAVAIL;
    if (rc != SL_OK) {
        rpc_answer(call, rc, &err, NULL);
        return;
    }
    pthread_mutex_lock(&t->shared.lock);
    if (list_empty(&t->shared.calls))
        pthread_cond_signal(&t->shared.changed);
    list_push_back(&t->shared.calls, &v->node);
    pthread_mutex_unlock(&t->shared.lock);
}

#define METHOD(name, PATH, request_, Request, decide_, look_)                  \
    WIRE_DECODER(decode_##name, request_, Request)                             \
    static void call_##name(struct rpc_call *call, void *arg)                  \
    {                                                                          \
        static const struct visit_method m = {decode_##name, decide_, look_};  \
                                                                               \
        tasks_start_visit(call, arg, &m);                                      \
    }

#define METHODS(X)                                                             \
    X(schedule, WIRE_TASK_SCHEDULE, task_schedule, TaskSchedule,               \
      visit_schedule, NULL)                                                    \
    X(ended, WIRE_TASK_ENDED, task_ended_request, TaskEndedRequest,            \
      visit_ended, visit_ended_look)                                           \
    X(cancel, WIRE_TASK_CANCEL, task_cancel, TaskCancel, visit_cancel, NULL)   \
    X(queues, WIRE_TASK_QUEUES, task_queues_request, TaskQueuesRequest,        \
      visit_queues, NULL)                                                      \
    X(delete, WIRE_TASK_DELETE, task_delete, TaskDelete, visit_delete, NULL)   \
    X(work, WIRE_TASK_WORK, task_work, TaskWork, visit_work, visit_work_look)

METHODS(METHOD)

#define UNARY(name, PATH, request_, Request, decide_, look_)                   \
    {.path = PATH, .kind = RPC_UNARY, .unary = call_##name},
static const struct rpc_method tasks_methods[] = {METHODS(UNARY)};

struct rpc_table tasks_table(struct tasks *t)
{
    return (struct rpc_table){tasks_methods, SL_COUNT(tasks_methods), t};
}

// ---- life

enum sl_err tasks_new(struct tasks **out, const struct tasks_options *options,
                      struct sl_error *err)
{
    struct tasks *t = sl_calloc(1, sizeof(*t));

    if (t == NULL)
        return sl_fail(err, SL_ENOMEM, "tasks");
    t->clock = options->clock;
    t->changed = options->changed;
    t->arg = options->arg;
    t->desk.lease_ms = options->lease_ms;
    book_init(&t->desk.book);
    if (options->home != NULL) {
        t->home = *options->home;
        t->desk.home = &t->home;
        t->desk.book.bytes_most = t->home.bytes_most;
    }
    list_init(&t->waiting);
    list_init(&t->shared.calls);
    pthread_mutex_init(&t->shared.lock, NULL);
    pthread_cond_init(&t->shared.changed, NULL);
    t->path = fs_join(options->folder, TASKS_FILE);
    t->started = t->path != NULL &&
                 pthread_create(&t->thread, NULL, tasks_thread, t) == 0;
    if (!t->started) {
        tasks_free(t);
        return sl_fail(err, SL_ENOMEM, "a thread for tasks");
    }
    pthread_setname_np(t->thread, "tasks");
    *out = t;
    return SL_OK;
}

static void tasks_set_flag(struct tasks *t, bool *flag)
{
    pthread_mutex_lock(&t->shared.lock);
    *flag = true;
    pthread_cond_signal(&t->shared.changed);
    pthread_mutex_unlock(&t->shared.lock);
}

void tasks_close(struct tasks *t)
{
    if (t != NULL)
        tasks_set_flag(t, &t->shared.closed);
}

void tasks_free(struct tasks *t)
{
    if (t == NULL)
        return;
    if (t->started) {
        tasks_close(t);
        tasks_set_flag(t, &t->shared.ending);
        pthread_join(t->thread, NULL);
    }
    pthread_cond_destroy(&t->shared.changed);
    pthread_mutex_destroy(&t->shared.lock);
    sl_free(t->path);
    sl_free(t);
}
