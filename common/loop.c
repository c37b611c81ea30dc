// SPDX-License-Identifier: Apache-2.0
#include "common/loop.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "common/list.h"
#include "common/mem.h"

// A signal that is listened to.
struct loop_sig {
    uv_signal_t handle;
    struct list_node node;
    loop_fn fn;
    void *arg;
};

struct loop_timer {
    uv_timer_t handle;
    loop_fn fn; // NULL: freed, waiting for uv's close
    void *arg;
};

struct loop_job {
    uv_work_t req;
    loop_fn work, done;
    void *arg;
};

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    struct list signals; // of struct loop_sig
    size_t jobs;         // on the pool
    struct {
        struct queue posts;
        _Atomic bool stop;
        _Atomic(pthread_t) thread; // the loop's
    } _shared;
};

static enum sl_err uv_fail(struct sl_error *err, int rc, const char *what)
{
    return sl_fail(err, rc == UV_ENOMEM ? SL_ENOMEM : SL_EIO,
                   "event loop: %s: %s", what, uv_strerror(rc));
}

// Runs all that is there when it begins; what these post wakes the loop
// again, so that a task which posts itself cannot starve the rest.
static void run_posts(struct loop *l)
{
    struct queue_node *n = queue_drain(&l->_shared.posts);

    while (n != NULL) {
        struct loop_task *task = sl_container_of(n, struct loop_task, node);
        loop_fn fn = task->fn;
        void *arg = task->arg;

        n = n->next;
        if (task->owned)
            sl_free(task);
        fn(arg);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct loop *l = wake->data;

    run_posts(l);
    if (atomic_load(&l->_shared.stop))
        uv_stop(&l->uv);
}

enum sl_err loop_new(struct loop **out, struct sl_error *err)
{
    struct loop *l = sl_calloc(1, sizeof(*l));
    int rc;

    if (l == NULL)
        return sl_fail(err, SL_ENOMEM, "event loop: out of memory");
    list_init(&l->signals);
    queue_init(&l->_shared.posts);
    atomic_init(&l->_shared.stop, false);
    atomic_init(&l->_shared.thread, pthread_self());
    rc = uv_loop_init(&l->uv);
    if (rc != 0)
        goto fail;
    rc = uv_async_init(&l->uv, &l->wake, on_wake);
    if (rc != 0) {
        uv_loop_close(&l->uv);
        goto fail;
    }
    l->wake.data = l;
    *out = l;
    return SL_OK;

fail:
    sl_free(l);
    return uv_fail(err, rc, "cannot start");
}

static void sig_closed(uv_handle_t *handle)
{
    sl_free(sl_container_of((uv_signal_t *)handle, struct loop_sig, handle));
}

static void close_signals(struct loop *l)
{
    struct list_node *n;

    while ((n = list_pop_front(&l->signals)) != NULL) {
        struct loop_sig *s = list_entry(n, struct loop_sig, node);

        uv_close((uv_handle_t *)&s->handle, sig_closed);
    }
}

// A handle that is still open would make the last uv_run wait for ever.
static void must_be_closing(uv_handle_t *handle, void *arg)
{
    assert(uv_is_closing(handle));
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    atomic_store(&l->_shared.thread, pthread_self());
    atomic_store(&l->_shared.stop, false);
    while (l->jobs > 0 || !queue_empty(&l->_shared.posts)) {
        run_posts(l);
        if (l->jobs > 0)
            uv_run(&l->uv, UV_RUN_ONCE);
    }
    close_signals(l);
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_walk(&l->uv, must_be_closing, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&l->uv);
    sl_free(l);
}

void loop_run(struct loop *l)
{
    atomic_store(&l->_shared.thread, pthread_self());
    if (!atomic_load(&l->_shared.stop))
        uv_run(&l->uv, UV_RUN_DEFAULT);
    atomic_store(&l->_shared.stop, false);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->_shared.stop, true);
    uv_async_send(&l->wake);
}

void loop_turn(struct loop *l)
{
    atomic_store(&l->_shared.thread, pthread_self());
    uv_run(&l->uv, UV_RUN_NOWAIT);
}

void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg)
{
    task->fn = fn;
    task->arg = arg;
    task->owned = false;
    queue_push(&l->_shared.posts, &task->node);
    uv_async_send(&l->wake);
}

enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg)
{
    struct loop_task *task = sl_malloc(sizeof(*task));

    if (task == NULL)
        return SL_ENOMEM;
    task->fn = fn;
    task->arg = arg;
    task->owned = true;
    queue_push(&l->_shared.posts, &task->node);
    uv_async_send(&l->wake);
    return SL_OK;
}

bool loop_is_here(const struct loop *l)
{
    return pthread_equal(atomic_load(&l->_shared.thread), pthread_self());
}

uint64_t loop_now_ms(const struct loop *l)
{
    return uv_now(&l->uv);
}

enum sl_err loop_timer_new(struct loop_timer **out, struct loop *l, loop_fn fn,
                           void *arg)
{
    struct loop_timer *t = sl_calloc(1, sizeof(*t));

    if (t == NULL)
        return SL_ENOMEM;
    uv_timer_init(&l->uv, &t->handle);
    t->fn = fn;
    t->arg = arg;
    *out = t;
    return SL_OK;
}

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = sl_container_of(handle, struct loop_timer, handle);

    t->fn(t->arg);
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms,
                      uint64_t repeat_ms)
{
    // uv counts from the start of the turn; a long callback before this line
    // would shorten the time.
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, on_timer, after_ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->handle);
}

bool loop_timer_active(const struct loop_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->handle);
}

static void timer_closed(uv_handle_t *handle)
{
    sl_free(sl_container_of((uv_timer_t *)handle, struct loop_timer, handle));
}

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL)
        return;
    uv_close((uv_handle_t *)&t->handle, timer_closed);
}

struct loop_watch {
    uv_poll_t handle;
    loop_fn fn;
    void *arg;
};

// An error is told as readable: whoever reads then learns which.
static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct loop_watch *w = sl_container_of(handle, struct loop_watch, handle);

    w->fn(w->arg);
}

static void watch_closed(uv_handle_t *handle)
{
    sl_free(sl_container_of((uv_poll_t *)handle, struct loop_watch, handle));
}

enum sl_err loop_watch_new(struct loop_watch **out, struct loop *l, int fd,
                           loop_fn fn, void *arg)
{
    struct loop_watch *w = sl_calloc(1, sizeof(*w));

    if (w == NULL)
        return SL_ENOMEM;
    if (uv_poll_init(&l->uv, &w->handle, fd) != 0) {
        sl_free(w); // uv knows nothing of it yet
        return SL_EIO;
    }
    w->fn = fn;
    w->arg = arg;
    if (uv_poll_start(&w->handle, UV_READABLE | UV_DISCONNECT, on_readable) !=
        0) {
        loop_watch_free(w);
        return SL_EIO;
    }
    *out = w;
    return SL_OK;
}

void loop_watch_free(struct loop_watch *w)
{
    if (w == NULL)
        return;
    uv_close((uv_handle_t *)&w->handle, watch_closed);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct loop_sig *s = sl_container_of(handle, struct loop_sig, handle);

    s->fn(s->arg);
}

enum sl_err loop_signal(struct loop *l, int signum, loop_fn fn, void *arg)
{
    struct loop_sig *s;

    list_for(n, &l->signals)
    {
        s = list_entry(n, struct loop_sig, node);
        if (s->handle.signum == signum) {
            s->fn = fn;
            s->arg = arg;
            return SL_OK;
        }
    }
    s = sl_calloc(1, sizeof(*s));
    if (s == NULL)
        return SL_ENOMEM;
    uv_signal_init(&l->uv, &s->handle);
    s->fn = fn;
    s->arg = arg;
    if (uv_signal_start(&s->handle, on_signal, signum) != 0) {
        uv_close((uv_handle_t *)&s->handle, sig_closed);
        return SL_EINVAL;
    }
    // A daemon that only waits for its signals has nothing to do.
    uv_unref((uv_handle_t *)&s->handle);
    list_push_back(&l->signals, &s->node);
    return SL_OK;
}

static void job_work(uv_work_t *req)
{
    struct loop_job *job = sl_container_of(req, struct loop_job, req);

    job->work(job->arg);
}

static void job_done(uv_work_t *req, int status)
{
    struct loop_job *job = sl_container_of(req, struct loop_job, req);
    struct loop *l = req->loop->data;
    loop_fn done = job->done;
    void *arg = job->arg;

    l->jobs--;
    sl_free(job);
    if (done != NULL)
        done(arg);
}

enum sl_err loop_work(struct loop *l, loop_fn work, loop_fn done, void *arg)
{
    struct loop_job *job = sl_malloc(sizeof(*job));

    if (job == NULL)
        return SL_ENOMEM;
    job->work = work;
    job->done = done;
    job->arg = arg;
    l->uv.data = l;
    if (uv_queue_work(&l->uv, &job->req, job_work, job_done) != 0) {
        sl_free(job);
        return SL_EIO;
    }
    l->jobs++;
    return SL_OK;
}

struct uv_loop_s *loop_uv(struct loop *l)
{
    return &l->uv;
}
