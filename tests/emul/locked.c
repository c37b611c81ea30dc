// SPDX-License-Identifier: Apache-2.0
// tests/emul/locked.c -- the emulated module for several threads: one call of
// it at a time, whoever makes it.
//
// The devices of a team have a thread each, as on a host with GPUs; the
// emulator knows of one. A lock around each call of the backend is enough:
// what a call leaves to be done, any other may do.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/emul/streams.h"
#include "tests/emul/whole.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct kern_backend *inner;
static struct kern_backend locked;

// NAME(parameters) -> inner->NAME(arguments), under the lock.
#define LOCKED(type, name, parameters, arguments)                              \
    static type name parameters                                                \
    {                                                                          \
        type result;                                                           \
                                                                               \
        pthread_mutex_lock(&lock);                                             \
        result = inner->name arguments;                                        \
        pthread_mutex_unlock(&lock);                                           \
        return result;                                                         \
    }

#define LOCKED_VOID(name, parameters, arguments)                               \
    static void name parameters                                                \
    {                                                                          \
        pthread_mutex_lock(&lock);                                             \
        inner->name arguments;                                                 \
        pthread_mutex_unlock(&lock);                                           \
    }

LOCKED(int, probe, (char *why, size_t n), (why, n))
LOCKED(int, score, (struct kern_dev * dev, const struct kern_desc *desc),
       (dev, desc))
LOCKED(enum sl_err, alloc,
       (struct kern_mem * out, struct kern_dev *dev, size_t bytes,
        enum kern_place place),
       (out, dev, bytes, place))
LOCKED(enum sl_err, stream_new,
       (struct kern_stream * *out, struct kern_dev *dev, int priority),
       (out, dev, priority))
LOCKED(enum sl_err, stream_sync, (struct kern_stream * s), (s))
LOCKED(enum sl_err, copy,
       (struct kern_stream * s, void *to, const void *from, size_t bytes,
        enum kern_dir dir),
       (s, to, from, bytes, dir))
LOCKED(enum sl_err, fill,
       (struct kern_stream * s, void *to, int byte, size_t bytes),
       (s, to, byte, bytes))
LOCKED(enum sl_err, run,
       (struct kern_plan * p, struct kern_stream *s, void *const *io,
        void *workspace),
       (p, s, io, workspace))
LOCKED(enum sl_err, event_new, (struct kern_event * *out, struct kern_dev *dev),
       (out, dev))
LOCKED(enum sl_err, event_record,
       (struct kern_event * e, struct kern_stream *s), (e, s))
LOCKED(enum sl_err, event_wait, (struct kern_stream * s, struct kern_event *e),
       (s, e))
LOCKED(enum sl_err, event_query, (struct kern_event * e), (e))
LOCKED(enum sl_err, event_sync, (struct kern_event * e), (e))
LOCKED(enum sl_err, record_begin, (struct kern_stream * s), (s))
LOCKED(enum sl_err, optim,
       (struct kern_stream * s, const struct optim *o, size_t n,
        const float *grad, float *w, float *const *slots,
        const struct optim_consts *consts),
       (s, o, n, grad, w, slots, consts))
LOCKED(enum sl_err, join,
       (struct kern_dev *const *devs, unsigned n, char *how, size_t size,
        struct sl_error *err),
       (devs, n, how, size, err))
LOCKED(enum sl_err, exchange,
       (struct kern_stream * s, const struct kern_exchange *x), (s, x))
LOCKED_VOID(part, (struct kern_dev *const *devs, unsigned n), (devs, n))
LOCKED(const char *, fault, (struct kern_dev * dev), (dev))
LOCKED_VOID(close, (struct kern_dev * dev), (dev))
LOCKED_VOID(info, (struct kern_info * out, struct kern_dev *dev), (out, dev))
LOCKED_VOID(release, (struct kern_dev * dev, struct kern_mem *mem), (dev, mem))
LOCKED_VOID(stream_free, (struct kern_stream * s), (s))
LOCKED_VOID(plan_free, (struct kern_plan * p), (p))
LOCKED_VOID(event_free, (struct kern_event * e), (e))
LOCKED_VOID(proofs, (struct proofs * out, struct kern_dev *dev), (out, dev))
LOCKED(const char *, left_out,
       (struct kern_dev * dev, const struct kern_desc *d, unsigned i),
       (dev, d, i))
LOCKED_VOID(about, (char *out, size_t n, struct kern_dev *dev), (out, n, dev))

// What is made says whose it is: ours.

static enum sl_err open(struct kern_dev **out, int ordinal, const char *options,
                        struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&lock);
    rc = inner->open(out, ordinal, options, err);
    if (rc == SL_OK)
        (*out)->backend = &locked;
    pthread_mutex_unlock(&lock);
    return rc;
}

static enum sl_err plan(struct kern_plan **out, size_t *workspace,
                        struct kern_dev *dev, const struct kern_desc *desc,
                        size_t cap, struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&lock);
    rc = inner->plan(out, workspace, dev, desc, cap, err);
    if (rc == SL_OK)
        (*out)->backend = &locked;
    pthread_mutex_unlock(&lock);
    return rc;
}

static enum sl_err record_end(struct kern_plan **out, struct kern_stream *s)
{
    enum sl_err rc;

    pthread_mutex_lock(&lock);
    rc = inner->record_end(out, s);
    if (rc == SL_OK)
        (*out)->backend = &locked;
    pthread_mutex_unlock(&lock);
    return rc;
}

// Another thread may lead to what this one waits for: it is let in.
static void let_others(void)
{
    static _Thread_local unsigned times;

    if (++times > 100000) { // looks, of a millisecond or more
        fprintf(stderr, "emul: threads wait for each other\n");
        abort();
    }
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    pthread_mutex_lock(&lock);
}

static void make(void)
{
    emul_when_stuck(let_others);
    inner = emul_module();
    locked = *inner;
    locked.probe = probe;
    locked.open = open;
    locked.close = close;
    locked.info = info;
    locked.alloc = alloc;
    locked.release = release;
    locked.stream_new = stream_new;
    locked.stream_free = stream_free;
    locked.stream_sync = stream_sync;
    locked.copy = copy;
    locked.fill = fill;
    locked.score = score;
    locked.plan = plan;
    locked.plan_free = plan_free;
    locked.run = run;
    locked.event_new = event_new;
    locked.event_free = event_free;
    locked.event_record = event_record;
    locked.event_wait = event_wait;
    locked.event_query = event_query;
    locked.event_sync = event_sync;
    locked.record_begin = record_begin;
    locked.record_end = record_end;
    locked.fault = fault;
    locked.about = about;
    locked.optim = optim;
    locked.join = join;
    locked.exchange = exchange;
    locked.part = part;
    locked.proofs = proofs;
    locked.left_out = left_out;
}

const struct kern_backend *emul_locked(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make);
    return &locked;
}
