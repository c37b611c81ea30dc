// SPDX-License-Identifier: Apache-2.0
// tests/sim/agenda.c -- what happens when; chance; the trace.
//
// A binary heap of events by (time, order of saying). Running one moves the
// clock to its time and mixes what it is into the trace.
#include "common/base/buf.h"
#include "common/base/rng.h"
#include "tests/sim/ranker.h"

// ---- chance and trace

uint64_t sim_below(struct sim *s, uint64_t n)
{
    return sl_mix64(s->seed + s->draws++) % n;
}

bool sim_chance(struct sim *s, unsigned permille)
{
    return permille > 0 && sim_below(s, 1000) < permille;
}

uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high)
{
    return low + sim_below(s, high - low + 1);
}

void sim_note(struct sim *s, uint64_t value)
{
    s->trace = sl_mix64(s->trace ^ value);
}

void sim_note_msg(struct sim *s, const ProtobufCMessage *msg)
{
    struct buf bytes = BUF_INIT;

    if (s->knobs.soak != NULL)
        return;
    T_OK(wire_pack(msg, &bytes));
    sim_note(s, sl_hash64(bytes.data, bytes.len));
    buf_release(&bytes);
}

// ---- the heap

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(struct sim_event **a, struct sim_event **b)
{
    struct sim_event *t = *a;

    *a = *b;
    *b = t;
}

static void push(struct agenda *a, struct sim_event *e)
{
    size_t i = a->count;

    if (a->count == a->cap) {
        a->cap = a->cap == 0 ? 256 : 2 * a->cap;
        a->heap = realloc(a->heap, a->cap * sizeof(struct sim_event *));
        T_ASSERT(a->heap != NULL);
    }
    a->heap[a->count++] = e;
    while (i > 0 && before(a->heap[i], a->heap[(i - 1) / 2])) {
        swap(&a->heap[i], &a->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static struct sim_event *pop(struct agenda *a)
{
    struct sim_event *first = a->heap[0];
    size_t i = 0;

    a->heap[0] = a->heap[--a->count];
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;

        if (left < a->count && before(a->heap[left], a->heap[least]))
            least = left;
        if (right < a->count && before(a->heap[right], a->heap[least]))
            least = right;
        if (least == i)
            return first;
        swap(&a->heap[i], &a->heap[least]);
        i = least;
    }
}

static void event_free(struct sim_event *e)
{
    if (e->data != NULL && e->drop != NULL)
        e->drop(e->data);
    free(e);
}

void agenda_release(struct agenda *a)
{
    for (size_t i = 0; i < a->count; i++)
        event_free(a->heap[i]);
    free(a->heap);
    *a = (struct agenda){0};
}

void sim_after(struct sim *s, uint64_t after_us, const struct sim_event *e)
{
    struct sim_event *copy = malloc(sizeof(*copy));

    T_ASSERT(copy != NULL);
    *copy = *e;
    copy->at_us = sim_now(s) + after_us;
    copy->order = ++s->agenda.said;
    push(&s->agenda, copy);
}

// Whoever is stopped (SIGSTOP) finds it when he goes on; true if he is.
static bool postpone(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    if (p == NULL || p->paused_until_us <= sim_now(s))
        return false;
    e->at_us = p->paused_until_us;
    push(&s->agenda, e);
    return true;
}

static void run(struct sim *s, struct sim_event *e)
{
    if (postpone(s, e))
        return;
    s->agenda.done++;
    if (e->proc == 0 || proc_get(s, e->proc) != NULL) {
        sim_note(s, e->at_us);
        sim_note(s, (uint64_t)e->kind << 32 | e->proc);
        sim_note(s, e->a ^ e->b << 32);
        e->run(s, e);
        if (e->proc != 0 && proc_get(s, e->proc) != NULL)
            ranker_look(s, proc_get(s, e->proc));
    }
    event_free(e);
}

bool sim_turn(struct sim *s, uint64_t until_us)
{
    struct agenda *a = &s->agenda;
    uint64_t now = sim_now(s);

    if (a->count == 0 || a->heap[0]->at_us >= until_us)
        return false;
    if (a->heap[0]->at_us > now)
        clock_fake_advance_us(&s->clock, a->heap[0]->at_us - now);
    run(s, pop(a));
    return true;
}

void sim_meanwhile(struct sim *s)
{
    struct agenda *a = &s->agenda;

    if (s->depth > 0)
        return;
    s->depth++;
    for (unsigned n = 0; n < 3; n++) {
        if (a->count == 0 || a->heap[0]->kind != SIM_REQUEST ||
            sim_chance(s, 300))
            break;
        run(s, pop(a));
    }
    s->depth--;
}
