// SPDX-License-Identifier: Apache-2.0
// common/run/loop.c -- the uv loop with its posts from other threads, timers,
// signals and its pool for long work.
#include "common/run/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/held.h"

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
    uv_poll_t wake;      // on _shared.wake_fd
    struct list signals; // of struct loop_sig
    size_t jobs;         // on the pool
    struct {
        uint64_t begun_us; // 0: none runs
        const char *what;
    } handler;
    struct {
        struct loop_host at; // at.call NULL: no host
        // The host's thread uses these, and the thread that waits for `turned`:
        bool on;      // the host's thread is the loop's now
        bool turning; // libuv runs
        bool over;    // loop_stop was seen
        int wait_ms;  // time until libuv wants to run again; -1: unknown
        sem_t turned;
    } host;
    struct {
        struct queue posts;
        int wake_fd;        // an eventfd
        _Atomic bool woken; // it was written to since on_wake
        _Atomic bool stop;
        _Atomic(pthread_t) thread; // the loop's
    } _shared;
};

static enum sl_err uv_fail(struct sl_error *err, int rc, const char *what)
{
    return sl_fail(err, rc == UV_ENOMEM ? SL_ENOMEM : SL_EIO,
                   "event loop: %s: %s", what, uv_strerror(rc));
}

// ---- handlers: each is called here, and measured

// Returns when it ended, which is when the next one begins. loop_turn within a
// handler has others inside of it.
static uint64_t run_handler(struct loop *l, const char *what, uint64_t begun_us,
                            loop_fn fn, void *arg)
{
    uint64_t outer_us = l->handler.begun_us, end_us;
    const char *outer = l->handler.what;

    l->handler.begun_us = begun_us;
    l->handler.what = what;
    fn(arg);
    end_us = sl_real_us();
    held_took(l->handler.what, end_us - begun_us);
    l->handler.begun_us = outer_us;
    l->handler.what = outer;
    return end_us;
}

void loop_doing(struct loop *l, const char *what)
{
    l->handler.what = what;
}

bool loop_spent(const struct loop *l)
{
    return l->handler.begun_us != 0 &&
           sl_real_us() - l->handler.begun_us >= LOOP_SPENT_US;
}

// Runs all that is there when it begins; what these post wakes the loop
// again, so that a task which posts itself cannot starve the rest.
static void run_posts(struct loop *l)
{
    struct queue_node *n = queue_drain(&l->_shared.posts);
    uint64_t begun_us = n != NULL ? sl_real_us() : 0;

    while (n != NULL) {
        struct loop_task *task = sl_container_of(n, struct loop_task, node);
        loop_fn fn = task->fn;
        void *arg = task->arg;

        n = n->next;
        if (task->owned)
            sl_free(task);
        begun_us = run_handler(l, "a task", begun_us, fn, arg);
    }
}

// Wakes the loop, by an eventfd. With uv_async_send a thread that wakes a loop
// on its own core is preempted in the middle of that call, and the loop spins
// until the thread has returned from it. A write has nothing left to do then.
static void wake_up(struct loop *l)
{
    uint64_t one = 1;
    ssize_t n;

    if (atomic_exchange(&l->_shared.woken, true))
        return;
    n = write(l->_shared.wake_fd, &one, sizeof(one));
    (void)n; // full means that it is awake already
}

static void on_wake(uv_poll_t *wake, int status, int events)
{
    struct loop *l = wake->data;
    uint64_t count;
    ssize_t n = read(l->_shared.wake_fd, &count, sizeof(count));

    (void)n; // an empty eventfd is no error
    // Cleared before the posts run, so that a later post wakes the loop anew.
    atomic_store(&l->_shared.woken, false);
    run_posts(l);
    if (atomic_load(&l->_shared.stop))
        uv_stop(&l->uv);
}

static enum sl_err open_loop(struct loop *l, struct sl_error *err)
{
    int rc = uv_loop_init(&l->uv);

    if (rc != 0)
        return uv_fail(err, rc, "cannot start");
    l->uv.data = l->wake.data = l;
    l->_shared.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->_shared.wake_fd < 0) {
        sl_fail(err, SL_EIO, "event loop: eventfd: %s", strerror(errno));
        (void)uv_loop_close(&l->uv);
        return SL_EIO;
    }
    rc = uv_poll_init(&l->uv, &l->wake, l->_shared.wake_fd);
    if (rc == 0)
        rc = uv_poll_start(&l->wake, UV_READABLE, on_wake);
    if (rc == 0)
        return SL_OK;
    close(l->_shared.wake_fd);
    (void)uv_loop_close(&l->uv);
    return uv_fail(err, rc, "cannot start");
}

enum sl_err loop_new(struct loop **out, struct sl_error *err)
{
    struct loop *l = sl_calloc(1, sizeof(*l));
    enum sl_err rc;

    if (l == NULL)
        return sl_fail(err, SL_ENOMEM, "event loop: out of memory");
    list_init(&l->signals);
    queue_init(&l->_shared.posts);
    atomic_init(&l->_shared.woken, false);
    atomic_init(&l->_shared.stop, false);
    atomic_init(&l->_shared.thread, pthread_self());
    rc = open_loop(l, err);
    if (rc != SL_OK) {
        sl_free(l);
        return rc;
    }
    sem_init(&l->host.turned, 0, 0);
    *out = l;
    return SL_OK;
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
    close(l->_shared.wake_fd);
    sem_destroy(&l->host.turned);
    sl_free(l);
}

// ---- on the thread of a host

void loop_set_host(struct loop *l, const struct loop_host *host)
{
    l->host.at = host != NULL ? *host : (struct loop_host){.call = NULL};
}

// Wakes the thread that waits for libuv in loop_run, after a timer or a watch
// has changed on the host's thread.
static void nudge(struct loop *l)
{
    if (l->host.on && !l->host.turning)
        wake_up(l);
}

static void hosted_turn(void *arg)
{
    struct loop *l = arg;

    atomic_store(&l->_shared.thread, pthread_self());
    l->host.on = l->host.turning = true;
    uv_run(&l->uv, UV_RUN_NOWAIT);
    l->host.turning = false;
    l->host.over = atomic_load(&l->_shared.stop);
    l->host.on = !l->host.over;
    uv_update_time(&l->uv);
    l->host.wait_ms = uv_backend_timeout(&l->uv);
    sem_post(&l->host.turned);
}

// The host's thread does all but the waiting.
static void run_hosted(struct loop *l)
{
    struct pollfd fd = {.fd = uv_backend_fd(&l->uv), .events = POLLIN};

    l->host.wait_ms = 0;
    do {
        while (poll(&fd, 1, l->host.wait_ms) < 0 && errno == EINTR)
            ; // its handler has made fd readable
        l->host.at.call(l->host.at.arg, hosted_turn, l);
        while (sem_wait(&l->host.turned) != 0)
            ; // a signal
    } while (!l->host.over);
    atomic_store(&l->_shared.thread, pthread_self());
}

void loop_host_pause(void *loop)
{
    struct loop *l = loop;

    if (!l->host.on || queue_empty(&l->_shared.posts))
        return;
    run_posts(l);
    if (!queue_empty(&l->_shared.posts)) // what these posted
        wake_up(l);
}

void loop_run(struct loop *l)
{
    atomic_store(&l->_shared.thread, pthread_self());
    if (atomic_load(&l->_shared.stop))
        ; // it came first
    else if (l->host.at.call != NULL)
        run_hosted(l);
    else
        uv_run(&l->uv, UV_RUN_DEFAULT);
    atomic_store(&l->_shared.stop, false);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->_shared.stop, true);
    wake_up(l);
}

void loop_turn(struct loop *l)
{
    atomic_store(&l->_shared.thread, pthread_self());
    uv_run(&l->uv, UV_RUN_NOWAIT);
}

// The host's thread runs them at its next pause, without being woken.
static void push_post(struct loop *l, struct loop_task *task)
{
    queue_push(&l->_shared.posts, &task->node);
    if (!loop_is_here(l) || !l->host.on)
        wake_up(l);
}

void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg)
{
    task->fn = fn;
    task->arg = arg;
    task->owned = false;
    push_post(l, task);
}

enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg)
{
    struct loop_task *task = sl_malloc(sizeof(*task));

    if (task == NULL)
        return SL_ENOMEM;
    task->fn = fn;
    task->arg = arg;
    task->owned = true;
    push_post(l, task);
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

static void loop_on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = sl_container_of(handle, struct loop_timer, handle);

    run_handler(t->handle.loop->data, "a timer", sl_real_us(), t->fn, t->arg);
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms,
                      uint64_t repeat_ms)
{
    // uv counts from the start of the turn; a long callback before this line
    // would shorten the time.
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, loop_on_timer, after_ms, repeat_ms);
    nudge(t->handle.loop->data);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->handle);
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
    nudge(t->handle.loop->data);
}

struct loop_watch {
    uv_poll_t handle;
    loop_fn fn;
    void *arg;
};

// Calls a watch's function. An error counts as readable: the read then fails
// with it.
static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct loop_watch *w = sl_container_of(handle, struct loop_watch, handle);

    run_handler(w->handle.loop->data, "a watch", sl_real_us(), w->fn, w->arg);
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
    // libuv tells the kernel in its next turn.
    wake_up(l);
    *out = w;
    return SL_OK;
}

void loop_watch_free(struct loop_watch *w)
{
    if (w == NULL)
        return;
    uv_close((uv_handle_t *)&w->handle, watch_closed);
    nudge(w->handle.loop->data);
}

static void loop_on_signal(uv_signal_t *handle, int signum)
{
    struct loop_sig *s = sl_container_of(handle, struct loop_sig, handle);

    run_handler(s->handle.loop->data, "a signal", sl_real_us(), s->fn, s->arg);
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
    if (uv_signal_start(&s->handle, loop_on_signal, signum) != 0) {
        uv_close((uv_handle_t *)&s->handle, sig_closed);
        return SL_EINVAL;
    }
    // Signals alone do not keep libuv's loop running.
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
        run_handler(l, "the end of a work", sl_real_us(), done, arg);
}

enum sl_err loop_work(struct loop *l, loop_fn work, loop_fn done, void *arg)
{
    struct loop_job *job = sl_malloc(sizeof(*job));

    if (job == NULL)
        return SL_ENOMEM;
    job->work = work;
    job->done = done;
    job->arg = arg;
    if (uv_queue_work(&l->uv, &job->req, job_work, job_done) != 0) {
        sl_free(job);
        return SL_EIO;
    }
    l->jobs++;
    return SL_OK;
}
