// SPDX-License-Identifier: Apache-2.0
// tests/emul/streams.c -- see streams.h.
#include "tests/emul/streams.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudart.h"

struct node {
    struct node *next;
    struct emul_work work;
    bool (*ready)(void *args);          // NULL: always
    struct CUevent_st *reaches, *wants; // of a lazy stream: an event's mark
    uint64_t mark;
    _Alignas(16) char args[];
};

struct queue {
    struct node *first, **end;
};

struct CUgraph_st {
    struct queue work;
    bool spoilt; // something was called that cannot be recorded
};

struct CUstream_st {
    struct CUstream_st *next;
    unsigned number; // of all that there ever were, from 1
    int device;
    struct queue work; // lazy: what is to be done
    struct CUgraph_st *recording;
};

// How often it was recorded, and how far its streams have got.
struct CUevent_st {
    uint64_t asked, reached;
};

static struct CUstream_st *streams, *ended; // the latter's places come again
static unsigned alive, made, lazy;
static _Thread_local unsigned recordings; // that this thread began
static uint64_t dice;

static unsigned roll(unsigned sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 33) % sides;
}

void emul_lazy(unsigned seed)
{
    emul_drain();
    lazy = seed;
    dice = seed * 0x9E3779B97F4A7C15u + 1;
}

unsigned emul_streams_alive(void)
{
    return alive;
}

bool emul_recording(void)
{
    return recordings > 0;
}

bool emul_records(cudaStream_t s)
{
    return s && s->recording;
}

unsigned emul_stream_number(cudaStream_t s)
{
    const struct CUstream_st *at = streams;

    while (at && at != s)
        at = at->next;
    return at ? at->number : 0;
}

static bool lives(cudaStream_t s)
{
    return !s || emul_stream_number(s) > 0;
}

void emul_spoil(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->recording)
            s->recording->spoilt = true;
}

cudaError_t emul_forbidden(void)
{
    emul_spoil();
    return emul_done(cudaErrorStreamCaptureUnsupported);
}

// ---- Queues ---------------------------------------------------------------

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static struct node *push(struct queue *q, const struct emul_work *work,
                         const void *args, size_t bytes)
{
    struct node *n = calloc(1, sizeof(*n) + bytes);

    if (work)
        n->work = *work;
    if (bytes > 0)
        memcpy(n->args, args, bytes);
    *q->end = n;
    q->end = &n->next;
    return n;
}

static void pop(struct queue *q)
{
    struct node *n = q->first;

    q->first = n->next;
    if (!q->first)
        q->end = &q->first;
    if (n->work.drop)
        n->work.drop(n->args);
    free(n);
}

static void clear(struct queue *q)
{
    while (q->first)
        pop(q);
}

// ---- Turns ----------------------------------------------------------------

static bool can_run(const struct CUstream_st *s)
{
    const struct node *n = s->work.first;

    return n && (!n->wants || n->wants->reached >= n->mark) &&
           (!n->ready || n->ready(((struct node *)(uintptr_t)n)->args));
}

static void run_first(struct CUstream_st *s)
{
    struct node *n = s->work.first;
    int caller = emul_current();
    cudaError_t rc;

    emul_choose(s->device);
    rc = n->work.run ? n->work.run(n->args) : cudaSuccess;
    if (rc != cudaSuccess)
        emul_broke(rc);
    emul_choose(caller);
    if (n->reaches && n->reaches->reached < n->mark)
        n->reaches->reached = n->mark;
    pop(&s->work);
}

// One piece of one stream; false if no stream has any that can run.
static bool turn(void)
{
    unsigned able = 0;
    struct CUstream_st *s;

    for (s = streams; s; s = s->next)
        able += can_run(s);
    if (able == 0)
        return false;
    able = roll(able) + 1;
    for (s = streams; s; s = s->next) {
        able -= can_run(s);
        if (able == 0)
            break;
    }
    run_first(s);
    return true;
}

static void give_up(void)
{
    fprintf(stderr, "emul: streams wait for each other\n");
    abort();
}

static void (*stuck)(void) = give_up;

void emul_when_stuck(void (*wait)(void))
{
    stuck = wait;
}

static void until_empty(struct CUstream_st *s)
{
    while (s->work.first)
        if (!turn())
            stuck();
}

bool emul_drain(void)
{
    bool any = false;

    while (turn())
        any = true;
    return any;
}

// Some seeds are lazier than others: the laziest runs nothing unasked.
static void maybe_run(void)
{
    while (roll(4) < (lazy - 1) % 4 && turn())
        ;
}

cudaError_t emul_enqueue(cudaStream_t s, const struct emul_work *work,
                         const void *args, size_t bytes)
{
    struct queue now;
    cudaError_t rc;

    if (!lives(s) || (s && s->device != emul_current()))
        return emul_done(cudaErrorInvalidResourceHandle);
    if (emul_records(s) && s->recording->spoilt)
        return emul_done(cudaErrorStreamCaptureInvalidated);
    if (emul_records(s)) {
        push(&s->recording->work, work, args, bytes);
        return cudaSuccess;
    }
    if (s && lazy) {
        push(&s->work, work, args, bytes);
        maybe_run();
        return cudaSuccess;
    }
    emul_drain();
    if (s && s->work.first) {
        push(&s->work, work, args, bytes);
        return cudaSuccess;
    }
    queue_init(&now);
    rc = work->run(push(&now, work, args, bytes)->args);
    clear(&now);
    return rc;
}

cudaError_t emul_enqueue_when(cudaStream_t s, const struct emul_work *work,
                              const void *args, size_t bytes,
                              bool (*ready)(void *args))
{
    if (!s || !lives(s) || s->device != emul_current())
        return emul_done(cudaErrorInvalidResourceHandle);
    if (emul_records(s))
        return emul_forbidden();
    push(&s->work, work, args, bytes)->ready = ready;
    if (lazy)
        maybe_run();
    else
        emul_drain();
    return cudaSuccess;
}

// ---- Recording ------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t s,
                                   enum cudaStreamCaptureMode mode)
{
    cudaError_t rc = emul_enter("capture");

    if (rc != cudaSuccess)
        return rc;
    if (s->recording)
        return emul_done(cudaErrorIllegalState);
    s->recording = calloc(1, sizeof(*s->recording));
    queue_init(&s->recording->work);
    recordings++;
    alive++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    struct CUgraph_st *g = s->recording;

    if (!g)
        return emul_done(cudaErrorIllegalState);
    s->recording = NULL;
    recordings--;
    if (g->spoilt) {
        *out = NULL;
        cudaGraphDestroy(g);
        return emul_done(cudaErrorStreamCaptureInvalidated);
    }
    *out = g;
    return emul_enter("end_capture");
}

// What was recorded moves into the executable.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags)
{
    cudaError_t rc = emul_enter("instantiate");
    struct CUgraph_st *copy;

    if (rc != cudaSuccess)
        return rc;
    copy = calloc(1, sizeof(*copy));
    queue_init(&copy->work);
    copy->work.first = graph->work.first;
    queue_init(&graph->work);
    alive++;
    *out = (cudaGraphExec_t)copy;
    return cudaSuccess;
}

static cudaError_t run_graph(void *args)
{
    struct CUgraph_st *g = *(struct CUgraph_st **)args;
    cudaError_t rc = cudaSuccess;

    for (struct node *n = g->work.first; n && rc == cudaSuccess; n = n->next)
        rc = n->work.run(n->args);
    return rc;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    static const struct emul_work work = {run_graph, NULL};
    cudaError_t rc = emul_enter("graph");

    return rc == cudaSuccess ? emul_enqueue(s, &work, &exec, sizeof(exec)) : rc;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    clear(&graph->work);
    free(graph);
    alive--;
    return cudaSuccess;
}

// One under way is freed when it is over.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    emul_drain();
    return cudaGraphDestroy((cudaGraph_t)exec);
}

// ---- Streams --------------------------------------------------------------

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -1;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority)
{
    cudaError_t rc = emul_enter("stream");

    if (rc != cudaSuccess)
        return rc;
    *out = ended ? ended : malloc(sizeof(**out));
    ended = ended ? ended->next : NULL;
    **out = (struct CUstream_st){
        .next = streams, .number = ++made, .device = emul_current()};
    queue_init(&(*out)->work);
    streams = *out;
    alive++;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    struct CUstream_st **at = &streams;

    until_empty(s);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->next = ended;
    ended = s;
    alive--;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s,
                                  enum cudaStreamCaptureStatus *now)
{
    *now = emul_records(s) ? cudaStreamCaptureStatusActive
                           : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t rc = emul_enter("sync");

    if (rc == cudaSuccess && emul_recording())
        return emul_forbidden();
    if (rc != cudaSuccess)
        return rc;
    if (s)
        until_empty(s);
    else
        emul_drain();
    return emul_enter("synced");
}

// ---- Events ---------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t rc = emul_enter("event");

    if (rc == cudaSuccess) {
        *out = calloc(1, sizeof(**out));
        alive++;
    }
    return rc;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    emul_drain(); // somebody may have it before him
    free(e);
    alive--;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cudaError_t rc = emul_enter("event_record");
    struct node *n;

    if (rc == cudaSuccess && emul_records(s))
        return emul_forbidden();
    if (rc != cudaSuccess)
        return rc;
    e->asked++;
    if (!s || (!lazy && !s->work.first)) {
        e->reached = e->asked;
        return cudaSuccess;
    }
    n = push(&s->work, NULL, NULL, 0);
    n->reaches = e;
    n->mark = e->asked;
    if (lazy)
        maybe_run();
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    cudaError_t rc = emul_enter("event_query");

    if (rc == cudaSuccess && emul_recording())
        return emul_forbidden();
    if (rc != cudaSuccess)
        return rc;
    if (lazy)
        maybe_run();
    else
        emul_drain();
    return e->reached == e->asked ? cudaSuccess : emul_done(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    cudaError_t rc = emul_enter("event_sync");

    if (rc == cudaSuccess && emul_recording())
        return emul_forbidden();
    if (rc != cudaSuccess)
        return rc;
    while (e->reached < e->asked)
        if (!turn())
            stuck();
    return emul_enter("synced");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    cudaError_t rc = emul_enter("event_wait");
    struct node *n;

    if (rc == cudaSuccess && emul_records(s))
        return emul_forbidden();
    if (rc != cudaSuccess || !s ||
        (!lazy && !s->work.first && e->reached == e->asked))
        return rc;
    n = push(&s->work, NULL, NULL, 0);
    n->wants = e;
    n->mark = e->asked;
    if (lazy)
        maybe_run();
    return cudaSuccess;
}
