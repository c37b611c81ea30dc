// SPDX-License-Identifier: Apache-2.0
// Both sides of lib/tasks.h around the real service: batches, results,
// refusals, and a coordinator that goes away in the midst of it.
#include "lib/tasks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "coordinator/tasks/tasks.h"
#include "tests/unit/common/rpc_kit.h"

#define LEASE DEADLINE_MS // a worker that the machine starves keeps its tasks

struct shop {
    struct tasks *tasks;
    struct world w;
};

static void begin(struct shop *s)
{
    struct tasks_options options = {
        .clock = sl_clock_real(), .folder = t_tmpdir(), .lease_ms = LEASE};
    struct rpc_table table;

    T_OK(tasks_new(&s->tasks, &options, t_err()));
    table = tasks_table(s->tasks);
    world_open(&s->w, table.methods, table.count, table.arg, true);
}

static void end(struct shop *s)
{
    tasks_close(s->tasks);
    world_close(&s->w);
    tasks_free(s->tasks);
}

static struct sluice_tasks *client(struct shop *s, uint32_t limit)
{
    struct sluice_tasks_options o = {.size = sizeof(o),
                                     .coordinator = s->w.address,
                                     .queue = "q",
                                     .limit = limit};
    struct sluice_tasks *t = NULL;

    T_OK(sluice_tasks_open(&t, &o, t_err()));
    return t;
}

static uint64_t ask(struct sluice_tasks *t, const char *name, const char *body)
{
    uint64_t number = 0;

    T_OK(sluice_tasks_schedule(t, name, body, strlen(body), DEADLINE_MS,
                               &number, t_err()));
    return number;
}

// ---- a worker in a thread: "echo" gives back, "fail" fails

struct worker {
    pthread_t thread;
    char address[256];
    atomic_bool ready;
    struct sluice_serving *_Atomic serving;
    unsigned done;
};

static void *serve(void *arg)
{
    static const char *const handlers[] = {"echo", "fail"};
    struct worker *w = arg;
    struct sluice_serving_options o = {.size = sizeof(o),
                                       .coordinator = w->address,
                                       .handlers = handlers,
                                       .handlers_count = 2};
    struct sluice_serving *s = NULL;
    struct sluice_task t;
    enum sl_err rc;

    T_OK(sluice_serving_open(&s, &o, NULL));
    atomic_store(&w->serving, s);
    while ((rc = sluice_serving_take(s, DEADLINE_MS, &t, NULL)) == SL_OK) {
        const char *error = strcmp(t.name, "fail") == 0 ? "it did" : NULL;

        w->done++;
        T_OK(sluice_serving_end(s, t.id, t.body, t.bytes, error, NULL));
    }
    T_EQ(rc, SL_ECANCELED);
    sluice_serving_close(s);
    return NULL;
}

static void worker_start(struct worker *w, struct shop *s)
{
    memset(w, 0, sizeof(*w));
    snprintf(w->address, sizeof(w->address), "%s", s->w.address);
    T_ASSERT(pthread_create(&w->thread, NULL, serve, w) == 0);
}

static void worker_stop(struct worker *w)
{
    struct sluice_serving *s;

    while ((s = atomic_load(&w->serving)) == NULL)
        sched_yield();
    sluice_serving_drain(s);
    pthread_join(w->thread, NULL);
}

// Receives until `count` have ended; each may end once.
static void receive(struct sluice_tasks *t, uint64_t count, uint8_t *seen)
{
    struct sluice_task_ended e[64];
    size_t n = 0;

    while (count > 0) {
        T_OK(sluice_tasks_ended(t, DEADLINE_MS, e, 64, &n, t_err()));
        T_ASSERT(n <= count);
        count -= n;
        for (size_t i = 0; i < n; i++) {
            char want[32];
            int size = snprintf(want, sizeof(want), "%llu",
                                (unsigned long long)e[i].number);

            T_EQ(e[i].state, SLUICE_TASK_DONE);
            T_EQ(e[i].bytes, (size_t)size);
            T_MEM(e[i].result, want, (size_t)size);
            T_EQ(seen[e[i].number]++, 0);
        }
    }
}

static void ask_all(struct sluice_tasks *t, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        char body[32];

        snprintf(body, sizeof(body), "%llu", (unsigned long long)i);
        T_EQ(ask(t, "echo", body), i);
    }
}

TEST(tasks_client, results_come_back_each_once)
{
    static uint8_t seen[3001];
    struct worker a, b;
    struct sluice_tasks *t;
    struct shop s;

    memset(seen, 0, sizeof(seen));
    begin(&s);
    worker_start(&a, &s);
    worker_start(&b, &s);
    t = client(&s, 0);
    ask_all(t, 1, 3000);
    receive(t, 3000, seen);
    T_EQ(sluice_tasks_open_count(t), 0);
    sluice_tasks_close(t);
    worker_stop(&a);
    worker_stop(&b);
    T_EQ(a.done + b.done, 3000);
    end(&s);
}

TEST(tasks_client, a_coordinator_that_goes_and_comes_is_waited_for)
{
    static uint8_t seen[2001];
    struct worker w;
    struct sluice_tasks *t;
    struct shop s;

    memset(seen, 0, sizeof(seen));
    begin(&s);
    worker_start(&w, &s);
    t = client(&s, 0);
    for (uint64_t i = 0; i < 4; i++) {
        ask_all(t, 1 + 500 * i, 500);
        end(&s); // perhaps before anything was sent, perhaps in its midst
        begin(&s);
    }
    receive(t, 2000, seen);
    sluice_tasks_close(t);
    worker_stop(&w);
    end(&s);
}

TEST(tasks_client, what_is_refused_is_said)
{
    struct sluice_tasks_options o = {.size = sizeof(o), .queue = "q"};
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_tasks *t = NULL;
    struct shop s;
    static uint8_t large[SLUICE_TASK_BYTES + 1];
    uint64_t number = 0;

    begin(&s);
    o.coordinator = "nowhere";
    T_FAILS(SL_EINVAL, sluice_tasks_open(&t, &o, &err));
    o.coordinator = s.w.address;
    o.queue = "a\tb";
    T_FAILS(SL_EINVAL, sluice_tasks_open(&t, &o, &err));
    T_HAS(err.text, "queue's name");
    o.queue = "q";
    o.tls_ca = "ca.crt";
    T_FAILS(SL_EINVAL, sluice_tasks_open(&t, &o, &err));
    T_HAS(err.text, "go together");
    t = client(&s, 2);
    T_FAILS(SL_EINVAL, sluice_tasks_schedule(t, "echo", large, sizeof(large), 0,
                                             &number, &err));
    T_FAILS(SL_EINVAL, sluice_tasks_schedule(t, "", "", 0, 0, &number, &err));
    ask(t, "echo", "1");
    ask(t, "echo", "2");
    T_FAILS(SL_ETIMEDOUT,
            sluice_tasks_schedule(t, "echo", "", 0, 0, &number, &err));
    T_HAS(err.text, "queue 'q' is full: 2 tasks");
    sluice_tasks_close(t);
    end(&s);
}

// Another process has the client's name: what the first schedules is refused,
// and no result comes after that.
TEST(tasks_client, a_client_that_is_refused_does_not_wait_for_results)
{
    struct sluice_tasks_options o = {
        .size = sizeof(o), .queue = "q", .client = "trainer"};
    struct sluice_tasks *first = NULL, *second = NULL;
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_task_ended e[2];
    uint64_t left[1];
    struct shop s;
    size_t n = 0;
    enum sl_err rc;

    begin(&s);
    o.coordinator = s.w.address;
    T_OK(sluice_tasks_open(&first, &o, t_err()));
    T_OK(sluice_tasks_left(first, DEADLINE_MS, left, 1, &n, t_err()));
    T_OK(sluice_tasks_open(&second, &o, t_err()));
    T_OK(sluice_tasks_left(second, DEADLINE_MS, left, 1, &n, t_err()));
    ask(first, "echo", "1");
    T_OK(sluice_tasks_ended(first, DEADLINE_MS, e, 2, &n, t_err()));
    T_EQ(e[0].state, SLUICE_TASK_FAILED);
    rc = sluice_tasks_ended(first, -1, e, 2, &n, &err);
    T_EQ(rc, SL_ESTALE);
    T_HAS(err.text, "another");
    sluice_tasks_close(first);
    sluice_tasks_close(second);
    end(&s);
}

TEST(tasks_client, a_failed_and_a_cancelled_task_come_back_as_such)
{
    struct sluice_task_ended e[2];
    struct sluice_tasks *t;
    struct worker w;
    struct shop s;
    size_t n = 0;

    begin(&s);
    t = client(&s, 0);
    ask(t, "nobody", "");
    T_OK(sluice_tasks_cancel(t, 1, t_err()));
    T_OK(sluice_tasks_ended(t, DEADLINE_MS, e, 2, &n, t_err()));
    T_EQ(n, 1);
    T_EQ(e[0].state, SLUICE_TASK_CANCELLED);
    worker_start(&w, &s);
    ask(t, "fail", "");
    T_OK(sluice_tasks_ended(t, DEADLINE_MS, e, 2, &n, t_err()));
    T_EQ(e[0].number, 2);
    T_EQ(e[0].state, SLUICE_TASK_FAILED);
    T_STR(e[0].error, "it did");
    sluice_tasks_close(t);
    worker_stop(&w);
    end(&s);
}

TEST(tasks_client, options_of_a_worker_are_checked)
{
    static const char *const bad[] = {" echo"};
    struct sluice_serving_options o = {.size = sizeof(o),
                                       .coordinator = "127.0.0.1:1"};
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_serving *s = NULL;

    T_FAILS(SL_EINVAL, sluice_serving_open(&s, &o, &err));
    T_HAS(err.text, "0 handlers");
    o.handlers = bad;
    o.handlers_count = 1;
    T_FAILS(SL_EINVAL, sluice_serving_open(&s, &o, &err));
    T_HAS(err.text, "handler 0");
}

// ---- a process that may have no more threads

static void posts(void *ran)
{
    sem_post(ran);
}

static void *posts_too(void *ran)
{
    posts(ran);
    return NULL;
}

// gRPC makes some on a whim: they must not be taken for what is counted.
TEST(tasks_client, threads_of_other_libraries_are_not_counted)
{
    uv_thread_t theirs;
    pthread_t ours;
    sem_t ran;
    int rc;

    sem_init(&ran, 0, 0);
    t_threads_refuse(1);
    T_EQ(uv_thread_create(&theirs, posts, &ran), 0);
    wait_for(&ran);
    uv_thread_join(&theirs);
    T_EQ(t_threads_asked(), 0);
    rc = pthread_create(&ours, NULL, posts_too, &ran);
    if (rc == 0) {
        pthread_join(ours, NULL);
        T_SKIP("a sanitizer makes the threads");
    }
    T_EQ(rc, EAGAIN);
    T_EQ(t_threads_asked(), 1);
    t_threads_refuse(0);
}

static enum sl_err open_and_close_session(const char *address)
{
    struct sluice_options o = {.size = sizeof(o), .coordinator = address};
    struct sluice *s = NULL;
    enum sl_err rc = sluice_open(&s, &o, NULL);

    sluice_close(s);
    return rc;
}

static enum sl_err open_and_close_client(const char *address)
{
    struct sluice_tasks_options o = {.size = sizeof(o),
                                     .coordinator = address,
                                     .queue = "q",
                                     .client = "trainer"};
    struct sluice_tasks *t = NULL;
    enum sl_err rc = sluice_tasks_open(&t, &o, NULL);

    sluice_tasks_close(t);
    return rc;
}

static enum sl_err open_and_close_worker(const char *address)
{
    static const char *const handlers[] = {"echo"};
    struct sluice_serving_options o = {.size = sizeof(o),
                                       .coordinator = address,
                                       .handlers = handlers,
                                       .handlers_count = 1};
    struct sluice_serving *s = NULL;
    enum sl_err rc = sluice_serving_open(&s, &o, NULL);

    sluice_serving_close(s);
    return rc;
}

// The thread of the loop is the last that is made.
TEST(tasks_client, without_a_thread_nothing_is_opened)
{
    static enum sl_err (*const open_and_close[])(const char *) = {
        open_and_close_session, open_and_close_client, open_and_close_worker};
    struct shop s;

    begin(&s);
    for (size_t i = 0; i < SL_COUNT(open_and_close); i++) {
        unsigned last;

        T_OK(open_and_close[i](s.w.address)); // with threads that stay
        t_threads_refuse(0);
        T_OK(open_and_close[i](s.w.address));
        last = t_threads_asked();
        if (last == 0) { // a sanitizer makes them, and would tell of a leak
            end(&s);
            T_SKIP("a sanitizer makes the threads");
        }
        t_threads_refuse(last);
        T_FAILS(SL_ENOMEM, open_and_close[i](s.w.address));
        T_EQ(t_threads_asked(), last);
        t_threads_refuse(0);
        T_OK(open_and_close[i](s.w.address));
    }
    end(&s);
}
