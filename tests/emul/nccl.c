// SPDX-License-Identifier: Apache-2.0
// tests/emul/nccl.c -- a stand-in for NCCL, as far as we use it: there where
// EMUL_NCCL=1 says so.
//
// What is sent meets what is received by order, for each pair of ranks. The
// streams of a group's calls get on when all of its transfers are over, and a
// transfer is made when both streams have come to it: so who does not call lets
// the others wait, as there. Refused are ranks, devices, streams and sizes that
// do not fit.
#include "kernels/cuda/nccl_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudart.h"
#include "tests/emul/emul.h"
#include "tests/emul/streams.h"

#define RANKS 8
#define OPS (2 * RANKS) // of one group

struct transfer {
    struct transfer *next;
    const void *from;
    void *to;
    size_t out, in;             // bytes that are sent, and wanted
    bool sends, receives, over; // a stream has come to it
    bool by_sender;             // who called first
    unsigned users;             // of whom it is: both, at first one
};

struct world {
    unsigned ranks;
    bool aborted;
    // Those of whom one side has not called yet, by sender and receiver.
    struct transfer *open[RANKS][RANKS];
};

struct ncclComm {
    struct world *world;
    int rank, device;
};

struct group { // a node of a stream
    struct world *world;
    unsigned n;
    struct transfer *of[OPS];
    bool sends[OPS];
};

static _Thread_local struct {
    unsigned depth;
    struct group group;
    cudaStream_t stream;
    ncclResult_t rc;
} now;

// ---- transfers

// The next one of a pair that the other side has called and this one has not;
// or a new one.
static struct transfer *meet(struct world *w, int from, int to, bool sends)
{
    struct transfer **at = &w->open[from][to], *t;

    while (*at && (*at)->by_sender == sends)
        at = &(*at)->next;
    t = *at;
    if (t) {
        *at = t->next;
        t->users = 2;
        return t;
    }
    t = calloc(1, sizeof(*t));
    t->users = 1;
    t->by_sender = sends;
    *at = t;
    return t;
}

static bool move(struct transfer *t)
{
    t->over = true;
    if (t->in == t->out && emul_readable(t->from, t->out, "NCCL") &&
        emul_written(t->to, t->in, "NCCL")) {
        memcpy(t->to, t->from, t->in);
        return true;
    }
    fprintf(stderr, "emul: NCCL sends %zu bytes to who wants %zu\n", t->out,
            t->in);
    return false;
}

static cudaError_t start(void *args)
{
    struct group *g = args;
    bool good = true;

    for (unsigned i = 0; i < g->n; i++) {
        struct transfer *t = g->of[i];

        *(g->sends[i] ? &t->sends : &t->receives) = true;
        if (t->sends && t->receives && !t->over)
            good = move(t) && good;
    }
    return good ? cudaSuccess : cudaErrorInvalidValue;
}

static bool all_over(void *args)
{
    const struct group *g = args;
    unsigned i = 0;

    while (i < g->n && g->of[i]->over)
        i++;
    return i == g->n || g->world->aborted;
}

static cudaError_t end(void *args)
{
    return cudaSuccess;
}

// A transfer goes with the second of its two sides.
static void drop(void *args)
{
    struct group *g = args;

    for (unsigned i = 0; i < g->n; i++)
        if (--g->of[i]->users == 0)
            free(g->of[i]);
}

// ---- calls

static ncclResult_t finish(void)
{
    static const struct emul_work starts = {start, NULL}, ends = {end, drop};
    struct group *g = &now.group;
    ncclResult_t rc = now.rc;

    now.rc = ncclSuccess;
    if (rc == ncclSuccess && g->n > 0 &&
        (emul_enqueue(now.stream, &starts, g, sizeof(*g)) != cudaSuccess ||
         emul_enqueue_when(now.stream, &ends, g, sizeof(*g), all_over) !=
             cudaSuccess))
        rc = ncclUnhandledCudaError;
    g->n = 0;
    return rc;
}

static ncclResult_t group_start(void)
{
    now.depth++;
    return emul_enter("nccl_group") == cudaSuccess ? ncclSuccess
                                                   : ncclUnhandledCudaError;
}

static ncclResult_t group_end(void)
{
    return --now.depth == 0 ? finish() : ncclSuccess;
}

static ncclResult_t refuse(const char *why)
{
    fprintf(stderr, "emul: NCCL: %s\n", why);
    now.rc = ncclInvalidArgument;
    return now.rc;
}

static ncclResult_t add(bool sends, void *at, size_t bytes, int peer,
                        struct ncclComm *c, cudaStream_t s)
{
    struct group *g = &now.group;
    struct transfer *t;

    if (emul_enter(sends ? "nccl_send" : "nccl_recv") != cudaSuccess)
        return now.rc = ncclUnhandledCudaError;
    if (peer < 0 || (unsigned)peer >= c->world->ranks || peer == c->rank)
        return refuse("no such peer");
    if (c->device != emul_current())
        return refuse("called for another device");
    if (g->n == OPS || (g->n > 0 && now.stream != s))
        return refuse("one stream and few calls in a group here");
    t = meet(c->world, sends ? c->rank : peer, sends ? peer : c->rank, sends);
    if (sends) {
        t->from = at;
        t->out = bytes;
    } else {
        t->to = at;
        t->in = bytes;
    }
    g->world = c->world;
    g->sends[g->n] = sends;
    g->of[g->n++] = t;
    now.stream = s;
    return now.depth > 0 ? ncclSuccess : finish();
}

static ncclResult_t send(const void *at, size_t count, ncclDataType_t type,
                         int peer, ncclComm_t comm, cudaStream_t s)
{
    return add(true, (void *)(uintptr_t)at, count, peer, comm, s);
}

static ncclResult_t receive(void *at, size_t count, ncclDataType_t type,
                            int peer, ncclComm_t comm, cudaStream_t s)
{
    return add(false, at, count, peer, comm, s);
}

// ---- communicators

static ncclResult_t init_all(ncclComm_t *out, int n, const int *devices)
{
    struct world *w = calloc(1, sizeof(*w)); // stays: streams may keep it

    if (emul_enter("nccl_init") != cudaSuccess)
        return ncclSystemError;
    if (n < 1 || n > RANKS)
        return ncclInvalidArgument;
    w->ranks = (unsigned)n;
    for (int i = 0; i < n; i++) {
        out[i] = calloc(1, sizeof(*out[i]));
        *out[i] = (struct ncclComm){w, i, devices[i]};
    }
    return ncclSuccess;
}

static ncclResult_t destroy(ncclComm_t c)
{
    (void)emul_enter("nccl_destroy"); // counts it
    free(c);
    return ncclSuccess;
}

static ncclResult_t give_up(ncclComm_t c)
{
    c->world->aborted = true;
    return destroy(c);
}

static ncclResult_t version(int *out)
{
    *out = NCCL_VERSION_CODE;
    return ncclSuccess;
}

static const char *text(ncclResult_t rc)
{
    return rc == ncclSystemError ? "unhandled system error" : "emulated error";
}

const struct nccl_calls *nccl_calls(char *why, size_t n)
{
    static const struct nccl_calls calls = {.GetVersion = version,
                                            .GetErrorString = text,
                                            .CommInitAll = init_all,
                                            .CommDestroy = destroy,
                                            .CommAbort = give_up,
                                            .GroupStart = group_start,
                                            .GroupEnd = group_end,
                                            .Send = send,
                                            .Recv = receive};
    const char *there = getenv("EMUL_NCCL");

    if (there && strcmp(there, "1") == 0)
        return &calls;
    if (n > 0)
        snprintf(why, n, "no libnccl.so.2");
    return NULL;
}
