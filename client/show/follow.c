// SPDX-License-Identifier: Apache-2.0
// client/show/follow.c -- the loop that watches a job until it has ended, over
// restarts of the coordinator.
#include "client/show/follow.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/out.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/net/wirescan.h"

#define BACKOFF_FIRST_MS 200
#define BACKOFF_MAX_MS 5000

struct follow_stream {
    struct api_client *api;
    char *id;
    bool shards;               // are asked for
    int signals;               // signalfd
    struct rpc_stream *stream; // NULL: not connected
    uint64_t dial_at_ms;       // when there is none
    uint64_t backoff_ms;
    bool away; // was said

    struct wire_arena arena; // of the status handed out last

    struct {
        pthread_mutex_t lock;
        int wake;              // eventfd
        struct rpc_body *body; // the newest status; older ones are dropped
        bool ended;
        struct sl_error err; // when ended
    } shared;
};

static const int caught[] = {SIGINT, SIGTERM};

static void caught_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < SL_COUNT(caught); i++)
        sigaddset(set, caught[i]);
}

enum sl_err follow_block(struct sl_error *err)
{
    sigset_t set;

    caught_set(&set);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return sl_fail(err, SL_EIO, "sigprocmask: %s", strerror(errno));
    return SL_OK;
}

enum sl_err follow_dial(struct api_client **api, const struct conf *conf,
                        struct sl_error *err)
{
    enum sl_err rc = follow_block(err);

    if (rc == SL_OK)
        rc = api_open(api, conf, err);
    follow_unblock();
    return rc;
}

void follow_unblock(void)
{
    sigset_t set;

    caught_set(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

// ---- on the I/O thread

static void wake(struct follow_stream *f)
{
    uint64_t one = 1;
    ssize_t n = write(f->shared.wake, &one, sizeof(one));

    (void)n; // full means that it is awake already
}

static void follow_on_message(struct rpc_stream *stream,
                              const struct sl_slices *body, void *user)
{
    struct follow_stream *f = user;
    struct rpc_body *taken = rpc_stream_take(stream), *old;

    (void)body;
    if (taken == NULL)
        return; // out of memory: the next one may fit
    pthread_mutex_lock(&f->shared.lock);
    old = f->shared.body;
    f->shared.body = taken;
    pthread_mutex_unlock(&f->shared.lock);
    rpc_body_free(old);
    wake(f);
}

static void follow_on_end(struct rpc_stream *stream, enum sl_err code,
                          const struct sl_error *err, void *user)
{
    struct follow_stream *f = user;

    (void)stream;
    pthread_mutex_lock(&f->shared.lock);
    f->shared.ended = true;
    f->shared.err = (struct sl_error){.code = code};
    if (err != NULL)
        f->shared.err = *err;
    f->shared.err.code = code;
    pthread_mutex_unlock(&f->shared.lock);
    wake(f);
}

// ---- life

static void follow_open_stream(struct follow_stream *f)
{
    static const struct rpc_stream_events events = {
        .on_message = follow_on_message, .on_end = follow_on_end};
    struct rpc_call_options options = {.deadline_ms = RPC_NO_DEADLINE};
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_msg msg;

    request.id = f->id;
    request.spec = true;
    request.shards = f->shards;
    rpc_msg_init(&msg);
    if (wire_msg(&msg, &request.base) != SL_OK)
        return; // tried again after the pause
    f->shared.ended = false;
    if (rpc_stream_open(&f->stream, api_channel(f->api), WIRE_WATCH, &msg,
                        &options, &events, f, &err) != SL_OK)
        f->stream = NULL;
}

enum sl_err follow_open(struct follow_stream **out, struct api_client *api,
                        const char *id, bool shards, struct sl_error *err)
{
    struct follow_stream *f = sl_calloc(1, sizeof(*f));
    sigset_t set, was;

    if (f == NULL || (f->id = sl_strdup(id)) == NULL) {
        sl_free(f);
        return sl_no_memory(err);
    }
    caught_set(&set);
    f->api = api;
    f->shards = shards;
    wire_arena_init(&f->arena);
    pthread_mutex_init(&f->shared.lock, NULL);
    sigprocmask(SIG_BLOCK, &set, &was);
    f->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    f->shared.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->signals < 0 || f->shared.wake < 0) {
        sl_fail(err, SL_EIO, "signalfd: %s", strerror(errno));
        follow_close(f);
        sigprocmask(SIG_SETMASK, &was, NULL);
        return SL_EIO;
    }
    f->backoff_ms = BACKOFF_FIRST_MS;
    follow_open_stream(f);
    *out = f;
    return SL_OK;
}

static bool has_ended(struct follow_stream *f)
{
    bool ended;

    pthread_mutex_lock(&f->shared.lock);
    ended = f->shared.ended;
    pthread_mutex_unlock(&f->shared.lock);
    return ended;
}

// Ends the stream and waits for its last callback.
static void follow_close_stream(struct follow_stream *f)
{
    if (f->stream == NULL)
        return;
    rpc_stream_cancel(f->stream);
    while (!has_ended(f)) {
        struct pollfd p = {.fd = f->shared.wake, .events = POLLIN};
        uint64_t n;

        poll(&p, 1, -1);
        if (read(f->shared.wake, &n, sizeof(n)) < 0 && errno != EAGAIN)
            break;
    }
    rpc_stream_unref(f->stream);
    f->stream = NULL;
}

void follow_close(struct follow_stream *f)
{
    if (f == NULL)
        return;
    follow_close_stream(f);
    if (f->signals >= 0)
        close(f->signals);
    if (f->shared.wake >= 0)
        close(f->shared.wake);
    rpc_body_free(f->shared.body);
    pthread_mutex_destroy(&f->shared.lock);
    wire_arena_release(&f->arena);
    sl_free(f->id);
    sl_free(f);
}

// ---- what happens next

static bool take_status(struct follow_stream *f, struct follow_event *event)
{
    struct rpc_body *body;
    enum sl_err rc;

    pthread_mutex_lock(&f->shared.lock);
    body = f->shared.body;
    f->shared.body = NULL;
    pthread_mutex_unlock(&f->shared.lock);
    if (body == NULL)
        return false;

    f->backoff_ms = BACKOFF_FIRST_MS;
    wire_arena_reset(&f->arena);
    rc = wire_unpack_job_status(&event->status, &f->arena,
                                rpc_body_slices(body), &event->err);
    rpc_body_free(body);
    if (rc == SL_OK && !out_is_data())
        wire_plain(&event->status->base, &f->arena);
    event->kind = rc == SL_OK ? FOLLOW_STATUS : FOLLOW_FAILED;
    return true;
}

// The stream has ended. Transient: dial again later.
static bool take_end(struct follow_stream *f, struct follow_event *event)
{
    bool ended;
    uint64_t jitter;

    pthread_mutex_lock(&f->shared.lock);
    ended = f->shared.ended && f->stream != NULL;
    event->err = f->shared.err;
    pthread_mutex_unlock(&f->shared.lock);
    if (!ended)
        return false;

    rpc_stream_unref(f->stream);
    f->stream = NULL;
    if (event->err.code != SL_OK && event->err.code != SL_ECANCELED &&
        !sl_err_transient(event->err.code)) {
        event->kind = FOLLOW_FAILED;
        return true;
    }
    if (rpc_channel_untried(api_channel(f->api))) {
        f->dial_at_ms = 0; // another coordinator may lead
        return false;
    }
    jitter = sl_mix64(sl_real_us()) % (f->backoff_ms / 2 + 1);
    f->dial_at_ms = sl_real_ms() + f->backoff_ms / 2 + jitter;
    if (f->backoff_ms < BACKOFF_MAX_MS)
        f->backoff_ms *= 2;
    // An orderly end without a final status is a coordinator that leaves.
    if (f->away)
        return false;
    f->away = true;
    event->kind = FOLLOW_AWAY;
    return true;
}

static bool take_signal(struct follow_stream *f, struct follow_event *event)
{
    struct signalfd_siginfo info;

    if (read(f->signals, &info, sizeof(info)) != sizeof(info))
        return false;
    event->kind = FOLLOW_INTERRUPT;
    event->signum = (int)info.ssi_signo;
    return true;
}

static bool follow_take_event(struct follow_stream *f,
                              struct follow_event *event)
{
    if (take_signal(f, event))
        return true;
    if (take_status(f, event)) {
        event->back = f->away;
        f->away = false;
        return true;
    }
    return take_end(f, event);
}

void follow_next(struct follow_stream *f, int wait_ms,
                 struct follow_event *event)
{
    uint64_t now = sl_real_ms();
    uint64_t until = now + (uint64_t)wait_ms;

    for (;;) {
        struct pollfd polled[] = {
            {.fd = f->shared.wake, .events = POLLIN},
            {.fd = f->signals, .events = POLLIN},
        };
        uint64_t next = until, drained;

        *event = (struct follow_event){.kind = FOLLOW_NOTHING};
        if (follow_take_event(f, event))
            return;
        now = sl_real_ms();
        if (f->stream == NULL && now >= f->dial_at_ms) {
            follow_open_stream(f);
            f->dial_at_ms = now + BACKOFF_MAX_MS;
        }
        if (now >= until)
            return;
        if (f->stream == NULL && f->dial_at_ms < next)
            next = f->dial_at_ms;
        poll(polled, SL_COUNT(polled), (int)(next > now ? next - now : 0));
        if (read(f->shared.wake, &drained, sizeof(drained)) < 0)
            continue; // no wake-up is pending
    }
}
