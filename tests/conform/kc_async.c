// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_async.c -- mode async: what happens on several streams, in
// a recording, and on several threads, has the bits of what happens alone.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/conform/kc.h"

#define REPLAYS 2
#define THREADS_MAX 16

// ---- Streams, events, recordings ------------------------------------------

// Copies in, arithmetic and copies out on a stream each, as in a worker's
// step; only events order them.
struct lanes {
    struct kern_dev *dev;
    const struct kern_backend *backend;
    struct kern_stream *in, *compute, *out;
    struct kern_event *arrived, *done;
    struct kern_mem device[KERN_IO], host[KERN_IO], workspace;
    void *io[KERN_IO];
    unsigned count;
};

static enum sl_err lanes_open(struct lanes *l, struct kern_dev *dev,
                              const struct trial *b, size_t workspace_bytes)
{
    const struct kern_backend *k = dev->backend;
    enum sl_err rc = k->stream_new(&l->in, dev, 0);

    l->dev = dev;
    l->backend = k;
    l->count = b->d.inputs + b->d.outputs;
    if (rc == SL_OK)
        rc = k->stream_new(&l->compute, dev, 0);
    if (rc == SL_OK)
        rc = k->stream_new(&l->out, dev, 0);
    if (rc == SL_OK)
        rc = k->event_new(&l->arrived, dev);
    if (rc == SL_OK)
        rc = k->event_new(&l->done, dev);
    if (rc == SL_OK && workspace_bytes > 0)
        rc = k->alloc(&l->workspace, dev, workspace_bytes, KERN_DEVICE);
    for (unsigned i = 0; i < l->count && rc == SL_OK; i++) {
        rc = k->alloc(&l->device[i], dev, b->whole[i], KERN_DEVICE);
        if (rc == SL_OK)
            rc = k->alloc(&l->host[i], dev, b->whole[i], KERN_HOST);
        if (rc == SL_OK)
            l->io[i] =
                (char *)l->device[i].at + ((char *)b->io[i] - b->base[i]);
    }
    return rc;
}

static void lanes_close(struct lanes *l)
{
    const struct kern_backend *k = l->backend;

    for (unsigned i = 0; i < l->count; i++) {
        if (l->device[i].at)
            k->release(l->dev, &l->device[i]);
        if (l->host[i].at)
            k->release(l->dev, &l->host[i]);
    }
    if (l->workspace.at)
        k->release(l->dev, &l->workspace);
    k->event_free(l->arrived);
    k->event_free(l->done);
    k->stream_free(l->in);
    k->stream_free(l->compute);
    k->stream_free(l->out);
}

// Everything is enqueued before anything is waited for.
static enum sl_err lanes_run(struct lanes *l, struct kern_plan *plan,
                             const struct trial *b)
{
    const struct kern_backend *k = l->backend;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < l->count && rc == SL_OK; i++) {
        memcpy(l->host[i].at, b->base[i], b->whole[i]);
        rc = k->copy(l->in, l->device[i].at, l->host[i].at, b->whole[i],
                     KERN_TO_DEVICE);
    }
    if (rc == SL_OK)
        rc = k->event_record(l->arrived, l->in);
    if (rc == SL_OK)
        rc = k->event_wait(l->compute, l->arrived);
    if (rc == SL_OK)
        rc = kern_run(plan, l->compute, l->io, l->workspace.at);
    if (rc == SL_OK)
        rc = k->event_record(l->done, l->compute);
    if (rc == SL_OK)
        rc = k->event_wait(l->out, l->done);
    for (unsigned i = 0; i < l->count && rc == SL_OK; i++)
        rc = k->copy(l->out, l->host[i].at, l->device[i].at, b->whole[i],
                     KERN_TO_HOST);
    return rc == SL_OK ? k->stream_sync(l->out) : rc;
}

static const char *lanes_differ(const struct lanes *l, const struct trial *want)
{
    for (unsigned i = 0; i < l->count; i++)
        if (memcmp(l->host[i].at, want->base[i], want->whole[i]) != 0)
            return i < want->d.inputs ? "an input changed" : "other bits";
    return NULL;
}

static enum sl_err record(struct kern_plan **out, struct lanes *l,
                          struct kern_plan *plan)
{
    enum sl_err rc = l->backend->record_begin(l->compute);

    if (rc == SL_OK)
        rc = kern_run(plan, l->compute, l->io, l->workspace.at);
    return rc == SL_OK ? l->backend->record_end(out, l->compute) : rc;
}

// Runs the plan on three streams, then its recording again and again.
static enum sl_err run_lanes(struct lanes *l, struct kern_plan *plan,
                             const struct trial *before,
                             const struct trial *want, const char **why)
{
    struct kern_plan *recorded = NULL;
    enum sl_err rc = lanes_run(l, plan, before);

    if (rc == SL_OK && (*why = lanes_differ(l, want)) != NULL)
        return SL_OK;
    if (rc == SL_OK)
        rc = record(&recorded, l, plan);
    for (int i = 0; i < REPLAYS && rc == SL_OK && *why == NULL; i++) {
        rc = lanes_run(l, recorded, before);
        if (rc == SL_OK && lanes_differ(l, want))
            *why = "other bits from a recording";
    }
    kern_plan_free(recorded);
    return rc;
}

const char *kc_async(struct kern_dev *dev, const struct kern_desc *d,
                     struct rng *rng)
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_plan *plan = NULL;
    struct trial before, want;
    struct lanes l = {.dev = dev};
    const char *why = NULL;
    size_t bytes = 0;
    enum sl_err rc = kern_plan_new(&plan, &bytes, dev, d, 0, &err);

    if (rc != SL_OK)
        return sl_err_name(rc);
    trial_new(&before, d, 0);
    trial_new(&want, d, 0);
    trial_fill(&before, rng);
    trial_copy(&want, &before);
    rc = kc_device_run(dev, plan, &want, bytes);
    if (rc == SL_OK)
        rc = lanes_open(&l, dev, &before, bytes);
    if (rc == SL_OK)
        rc = run_lanes(&l, plan, &before, &want, &why);
    if (l.backend)
        lanes_close(&l);
    kern_plan_free(plan);
    trial_free(&before);
    trial_free(&want);
    return rc != SL_OK ? sl_err_name(rc) : why;
}

// ---- Threads --------------------------------------------------------------

// One thread with a device of its own: all ops, and a digest of their outputs.
struct thread_run {
    const char *backend, *options;
    int64_t most;
    uint64_t digest;
    enum sl_err rc;
};

static uint64_t digest_of(const struct trial *b, uint64_t h)
{
    for (unsigned i = b->d.inputs; i < b->d.inputs + b->d.outputs; i++)
        for (size_t k = 0; k < b->bytes[i]; k++)
            h = (h ^ ((const unsigned char *)b->io[i])[k]) * 0x100000001b3u;
    return h;
}

static enum sl_err digest_case(struct thread_run *t, struct kern_dev *dev,
                               const struct kern_desc *d, struct rng *rng)
{
    struct kern_plan *plan = NULL;
    struct trial b;
    size_t bytes = 0;
    enum sl_err rc = kern_plan_new(&plan, &bytes, dev, d, 0, NULL);

    if (rc != SL_OK)
        return rc;
    trial_new(&b, d, 0);
    trial_fill(&b, rng);
    rc = kc_device_run(dev, plan, &b, bytes);
    t->digest = digest_of(&b, t->digest);
    trial_free(&b);
    kern_plan_free(plan);
    return rc;
}

static void *thread_main(void *arg)
{
    struct thread_run *t = arg;
    struct kern_dev *dev = NULL;
    static _Thread_local struct kern_desc d[KC_CASES];
    struct rng rng;

    rng_init(&rng, 1, 1);
    t->rc = kern_open(&dev, t->backend, t->options, NULL);
    for (unsigned op = 1; op < KERN_OP_COUNT && t->rc == SL_OK; op++) {
        unsigned n = kc_cases((enum kern_op)op, d);

        for (unsigned i = 0; i < n && t->rc == SL_OK; i++)
            if (kc_within(&d[i], t->most) && kc_knows(dev, &d[i]))
                t->rc = digest_case(t, dev, &d[i], &rng);
    }
    kern_close(dev);
    return NULL;
}

unsigned kc_threads(const char *backend, const char *options, int64_t most,
                    unsigned count)
{
    struct thread_run run[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    unsigned failed = 0, started = 0;

    count = count < THREADS_MAX ? count : THREADS_MAX;
    for (; started < count; started++) {
        run[started] = (struct thread_run){
            .backend = backend, .options = options, .most = most, .digest = 7};
        if (pthread_create(&thread[started], NULL, thread_main,
                           &run[started]) != 0)
            break;
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < started; i++)
        if (run[i].rc != SL_OK || run[i].digest != run[0].digest) {
            printf("FAILED thread %u of %u: %s\n", i, count,
                   run[i].rc != SL_OK ? sl_err_name(run[i].rc)
                                      : "other bits than the first");
            failed++;
        }
    return failed + (count - started);
}
