// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_io.c -- the I/O threads, and gRPC's own start and end.
#include "common/net/rpc_inner.h"

#include <assert.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/support/log.h>

#include "common/base/clock.h"
#include "common/base/huge.h"
#include "common/run/log.h"
#include "common/run/prompt.h"

#define HUGE_HEAP ((size_t)32 << 20)

#if defined(__SANITIZE_THREAD__)
#define RPC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPC_TSAN 1
#endif
#endif

static atomic_uint ios; // of the process

#ifdef RPC_TSAN
// Debian's gRPC, abseil and upb are not instrumented: their locks are not
// seen, and each malloc, memcpy and sendmsg inside of them would be reported.
// What we write and read ourselves is still checked; the counters in rpc_tag
// and in shared_release carry the order through core.
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}

// A thread that core's executor adds while core ends is not joined; it has
// ended by then. Threads of ours are still reported.
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void)
{
    return "thread:grpc_core::Thread::Thread\n";
}
#endif

// Returns true if a warning of core may be logged now. Any client that reaches
// a port can cause such warnings, so they are limited.
static bool rpc_io_may_log(unsigned *left_out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct log_share share;
    bool says;

    pthread_mutex_lock(&lock);
    says = log_share(&share, LOG_SHARE_ALL, sl_real_ms(), left_out);
    pthread_mutex_unlock(&lock);
    return says;
}

// Core's own messages: what it calls an error is a connection that failed,
// which the call that needed it reports as well.
static void forward_log(gpr_log_func_args *args)
{
    const char *meaning = tls_explain(args->message);
    bool warns = meaning != NULL || args->severity == GPR_LOG_SEVERITY_ERROR;
    unsigned left_out = 0;

    if (warns && !rpc_io_may_log(&left_out))
        return;
    if (meaning != NULL) // on a server no call reports the failure
        LOG(WARN, "handshake failed", "why=%s text=%s left_out=%u", meaning,
            args->message, left_out);
    else if (warns)
        LOG(WARN, "grpc", "text=%s left_out=%u", args->message, left_out);
    else
        LOG(DEBUG, "grpc", "text=%s", args->message);
}

// Debian builds abseil with its debug checks: at each of core's locks it keeps
// a graph, for the whole process, of which thread waited for which, under one
// spinlock. That took 5 % of a small call. (A build without these checks lacks
// the symbol.)
static void no_lock_graph(void)
{
    union {
        void *symbol;
        void (*set)(int mode);
    } detection;

    detection.symbol =
        dlsym(RTLD_DEFAULT, "_ZN4absl7debian329SetMutexDeadlockDetectionMode"
                            "ENS0_15OnDeadlockCycleE");
    if (detection.symbol != NULL)
        detection.set(0); // kIgnore
}

// The heap that this thread takes its memory from, in huge pages: the kernel
// writes what arrives into it, and every miss of its address costs a walk
// through two tables on a virtual machine. malloc has a switch for that, but
// only in the environment that a process begins with.
static void use_huge_pages(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    uint8_t *at = malloc(HUGE_HEAP);
    uintptr_t first = ((uintptr_t)at + SL_HUGE_PAGE - 1) & ~(SL_HUGE_PAGE - 1);

    if (at == NULL)
        return;
    // A wish. What is free at the heap's end stays there (M_TRIM_THRESHOLD),
    // and is given out again.
    (void)madvise((void *)first, HUGE_HEAP - SL_HUGE_PAGE, MADV_HUGEPAGE);
    free(at);
#endif
}

// Core reads into blocks of malloc. With glibc's defaults each message gives
// its pages back and faults them in again: 2 to 7 times slower. And core heeds
// the sizes of rpc_args.c only without an experiment of its own, which makes
// many blocks of 8 and 64 KiB of a message; a variable that the user has set
// stays as it is.
static void tune_process(void)
{
    sl_mem_keep_freed();
    // What a thread frees stays in the arena that it came from. Few threads
    // allocate much; more arenas would each keep their own worst moment.
    mallopt(M_ARENA_MAX, 2);
    (void)setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);
    gpr_set_log_function(forward_log);
    no_lock_graph();
}

void rpc_tune_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, tune_process);
}

static void *rpc_thread_run(void *arg)
{
    struct rpc_thread *t = arg;

    prompt_begin();
    if (!t->io->frugal)
        use_huge_pages();
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(
            t->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct rpc_tag *tag = ev.tag;

        if (ev.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        atomic_load_explicit(&tag->posted, memory_order_acquire);
        tag->event(tag, ev.success != 0);
        if (t->io->pause != NULL)
            t->io->pause(t->io->pause_arg);
    }
}

// Something to do on an I/O thread that no call brought there. Core has no
// poll for that, but a call that goes nowhere ends at once, on the thread that
// its queue belongs to.
static void on_errand(struct rpc_tag *tag, bool ok)
{
    struct rpc_errand *e = sl_container_of(tag, struct rpc_errand, tag);
    void (*fn)(void *arg) = e->fn;
    void *arg = e->arg;

    (void)ok;
    rpc_outcome_release(&e->outcome);
    grpc_call_unref(e->call);
    fn(arg); // the errand may be gone
}

void rpc_thread_call(struct rpc_thread *t, struct rpc_errand *e)
{
    grpc_op ops[2];

    e->tag.event = on_errand;
    e->call = grpc_channel_create_call(
        t->io->nowhere, NULL, GRPC_PROPAGATE_DEFAULTS, t->cq,
        grpc_slice_from_static_string("/"), NULL,
        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    rpc_outcome_init(&e->outcome);
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    rpc_outcome_op(&ops[1], &e->outcome);
    rpc_start_batch(e->call, ops, 2, &e->tag);
}

struct owned_errand {
    struct rpc_errand errand;
    void (*fn)(void *arg);
    void *arg;
};

static void run_owned(void *arg)
{
    struct owned_errand *o = arg;

    o->fn(o->arg);
    gpr_free(o);
}

void rpc_io_call(struct rpc_io *io, void (*fn)(void *arg), void *arg)
{
    struct owned_errand *o = gpr_zalloc(sizeof(*o));

    o->fn = fn;
    o->arg = arg;
    o->errand.fn = run_owned;
    o->errand.arg = o;
    rpc_thread_call(&io->thread[0], &o->errand);
}

void rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                     struct rpc_tag *tag)
{
    grpc_call_error rc;

    rpc_tag_post(tag);
    rc = grpc_call_start_batch(call, ops, count, tag, NULL);
    // Anything else is a batch that must never have been built.
    assert(rc == GRPC_CALL_OK);
    (void)rc;
}

enum sl_err rpc_pin(pthread_t id, int cpu, struct sl_error *err)
{
    cpu_set_t set;

    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return sl_fail(err, SL_EINVAL, "CPU %d does not exist", cpu);
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    if (pthread_setaffinity_np(id, sizeof(set), &set) != 0)
        return sl_fail(err, SL_EINVAL,
                       "cannot pin an I/O thread to CPU %d: it does not exist "
                       "or this process may not use it",
                       cpu);
    return SL_OK;
}

static enum sl_err start_thread(struct rpc_io *io, unsigned i,
                                const struct rpc_io_options *options,
                                struct sl_error *err)
{
    struct rpc_thread *t = &io->thread[i];
    char name[16];
    int rc;

    t->io = io;
    t->cpu = -1;
    t->cq = grpc_completion_queue_create_for_next(NULL);
    rc = pthread_create(&t->id, NULL, rpc_thread_run, t);
    if (rc != 0) {
        grpc_completion_queue_shutdown(t->cq);
        grpc_completion_queue_destroy(t->cq);
        return sl_fail(err, sl_err_from_errno(rc),
                       "cannot start I/O thread %u: %s", i, strerror(rc));
    }
    io->threads = i + 1;
    snprintf(name, sizeof(name), "io-%u", i);
    pthread_setname_np(t->id, name);
    if (options == NULL || options->cpus == NULL || options->cpus_count == 0)
        return SL_OK;
    t->cpu = options->cpus[i % options->cpus_count];
    return rpc_pin(t->id, t->cpu, err);
}

enum sl_err rpc_io_new(struct rpc_io **out,
                       const struct rpc_io_options *options,
                       struct sl_error *err)
{
    unsigned threads = options ? options->threads : 0;
    struct rpc_io *io;
    enum sl_err rc = SL_OK;

    if (threads == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);

        threads = cpus < 4 ? 1 : (unsigned)cpus / 2;
    }
    rpc_tune_process();
    grpc_init();
    atomic_fetch_add(&ios, 1);
    io = gpr_zalloc(sizeof(*io) + threads * sizeof(io->thread[0]));
    io->frugal = options != NULL && options->frugal;
    if (!io->frugal)
        use_huge_pages();
    io->nowhere = grpc_lame_client_channel_create(
        "nowhere", GRPC_STATUS_CANCELLED, "a call that goes nowhere");
    if (options != NULL) {
        io->pause = options->pause;
        io->pause_arg = options->pause_arg;
    }
    for (unsigned i = 0; i < threads && rc == SL_OK; i++)
        rc = start_thread(io, i, options, err);
    if (rc != SL_OK) {
        rpc_io_free(io);
        return rc;
    }
    *out = io;
    return SL_OK;
}

// Once a write had to wait for space in its socket, core has a thread that
// looks at all sockets for 10 s at a time, and core's end waits for it: so long
// did a process take to end that had sent a large message. Something that
// happens on a socket ends the look.
static void end_look(void)
{
    grpc_channel_credentials *creds;
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   fd) != 0)
        return;
    creds = grpc_insecure_credentials_create();
    grpc_channel_destroy(
        grpc_channel_create_from_fd("nowhere", fd[0], creds, NULL));
    grpc_channel_credentials_release(creds);
    close(fd[1]);
}

static void free_poller(struct rpc_thread *t)
{
    struct rpc_poller *poller = atomic_load(&t->poller);

    if (poller != NULL)
        t->poller_free(poller);
}

void rpc_io_free(struct rpc_io *io)
{
    if (io == NULL)
        return;
    assert(atomic_load(&io->users) == 0); // a server or channel is left
    for (unsigned i = 0; i < io->threads; i++)
        grpc_completion_queue_shutdown(io->thread[i].cq);
    for (unsigned i = 0; i < io->threads; i++) {
        pthread_join(io->thread[i].id, NULL);
        grpc_completion_queue_destroy(io->thread[i].cq);
        free_poller(&io->thread[i]);
    }
    grpc_channel_destroy(io->nowhere);
    gpr_free(io);
    end_look();
    grpc_shutdown_blocking();
    if (atomic_fetch_sub(&ios, 1) == 1)
        rpc_msg_await_releases();
}

unsigned rpc_io_threads(const struct rpc_io *io)
{
    return io->threads;
}

struct rpc_thread *rpc_io_pick(struct rpc_io *io, unsigned wish)
{
    unsigned i = wish ? wish - 1 : atomic_fetch_add(&io->turn, 1);

    return &io->thread[i % io->threads];
}

gpr_timespec rpc_deadline(int64_t from_now_ms)
{
    gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);

    if (from_now_ms <= 0)
        return gpr_inf_past(GPR_CLOCK_MONOTONIC); // "now" may still succeed
    // Beyond a century core's arithmetic would only saturate.
    if (from_now_ms > (int64_t)100 * 365 * 86400 * 1000)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(
        now,
        gpr_time_from_millis(from_now_ms < 0 ? 0 : from_now_ms, GPR_TIMESPAN));
}

int64_t rpc_left_ms(gpr_timespec deadline)
{
    gpr_timespec left, now = gpr_now(GPR_CLOCK_MONOTONIC);
    int64_t ms;

    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0)
        return RPC_NO_DEADLINE;
    deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
    left = gpr_time_sub(deadline, now);
    ms = left.tv_sec * 1000 + left.tv_nsec / 1000000;
    return ms < 0 ? 0 : ms;
}
