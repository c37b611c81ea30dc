// SPDX-License-Identifier: Apache-2.0
// proto/traced.c -- see traced.h.
#include "proto/traced.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/run/spans.h"

#define FORGET_MS 60000

struct traced {
    uint64_t trace; // 0: none
    bool over;      // its time is
    struct loop_timer *timer;
};

struct traced_space {
    struct span taken[WIRE_TRACE_SPANS_MAX];
    Sluice__V1__TraceSpan spans[WIRE_TRACE_SPANS_MAX];
    Sluice__V1__TraceSpan *list[WIRE_TRACE_SPANS_MAX];
    char *names[WIRE_TRACE_NAMES_MAX];
    Sluice__V1__TracePiece piece;
};

// ---- a piece

static uint32_t traced_name_index(struct traced_space *s, const char *name)
{
    size_t i = 0;

    while (i < s->piece.n_names && strcmp(s->names[i], name) != 0)
        i++;
    if (i == s->piece.n_names && i < WIRE_TRACE_NAMES_MAX)
        s->names[s->piece.n_names++] = (char *)name;
    return (uint32_t)(i < WIRE_TRACE_NAMES_MAX ? i : 0);
}

enum sl_err traced_space_new(struct traced_space **out)
{
    struct traced_space *s = sl_malloc(sizeof(*s));

    if (s == NULL)
        return SL_ENOMEM;
    *out = s;
    return SL_OK;
}

Sluice__V1__TracePiece *traced_take(struct traced_space *s)
{
    size_t n = spans_take(s->taken, WIRE_TRACE_SPANS_MAX);

    s->piece = (Sluice__V1__TracePiece)SLUICE__V1__TRACE_PIECE__INIT;
    s->piece.names = s->names;
    s->piece.spans = s->list;
    s->piece.n_spans = n;
    for (size_t i = 0; i < n; i++) {
        const struct span *from = &s->taken[i];
        Sluice__V1__TraceSpan *to = &s->spans[i];

        sluice__v1__trace_span__init(to);
        to->name = traced_name_index(s, from->name);
        to->lane = from->lane;
        to->start_us = from->start_us;
        to->us = from->end_us - from->start_us;
        to->closure = from->of.closure;
        to->step = from->of.step;
        to->shard = from->of.shard;
        s->list[i] = to;
    }
    s->piece.last = n < WIRE_TRACE_SPANS_MAX;
    s->piece.lost = spans_lost();
    return &s->piece;
}

// ---- a member

static void traced_on_timer(void *arg)
{
    struct traced *t = arg;

    spans_stop();
    if (t->over) {
        traced_forget(t);
        return;
    }
    t->over = true;
    loop_timer_start(t->timer, FORGET_MS, 0);
}

void traced_start(struct traced *t, const Sluice__V1__TraceStart *m)
{
    t->trace = m->trace;
    t->over = false;
    (void)spans_start(m->job); // on failure there are no spans to send
    loop_timer_start(t->timer, m->ms, 0);
}

void traced_more(struct traced *t, uint64_t trace,
                 void (*send)(void *arg, const Sluice__V1__TracePiece *piece),
                 void *arg)
{
    struct traced_space *space;
    Sluice__V1__TracePiece *piece;

    if (trace != t->trace || traced_space_new(&space) != SL_OK)
        return; // the coordinator gives up waiting
    spans_stop();
    t->over = true;
    loop_timer_start(t->timer, FORGET_MS, 0);
    piece = traced_take(space);
    piece->trace = trace;
    send(arg, piece);
    if (piece->last)
        traced_forget(t);
    sl_free(space);
}

void traced_forget(struct traced *t)
{
    if (t->trace == 0)
        return;
    t->trace = 0;
    loop_timer_stop(t->timer);
    spans_release();
}

enum sl_err traced_new(struct traced **out, struct loop *loop)
{
    struct traced *t = sl_calloc(1, sizeof(*t));
    enum sl_err rc;

    if (t == NULL)
        return SL_ENOMEM;
    rc = loop_timer_new(&t->timer, loop, traced_on_timer, t);
    if (rc != SL_OK) {
        sl_free(t);
        return rc;
    }
    *out = t;
    return SL_OK;
}

void traced_free(struct traced *t)
{
    if (t == NULL)
        return;
    traced_forget(t);
    loop_timer_free(t->timer);
    sl_free(t);
}
