// SPDX-License-Identifier: Apache-2.0
// trainer/attend/outbox.c -- reports of leases that wait for a stream, or for
// other reports to be sent with.
#include "trainer/attend/outbox.h"

#include "common/base/list.h"
#include "common/base/mem.h"

struct outbox_kept { // a report that waits for a stream
    struct list_node node;
    Sluice__V1__AttendUp *up;
};

struct outbox {
    outbox_send_fn send;
    void *arg;
    const struct sl_clock *clock;
    struct loop_timer *timer;
    Sluice__V1__AttendUp *held[OUTBOX_HELD]; // one Complete each
    uint64_t since_ms[OUTBOX_HELD];
    unsigned held_count;
    unsigned wait_ms; // least time of those held
    struct list kept;
    unsigned kept_count;
};

static void held_long_enough(void *arg)
{
    outbox_flush(arg);
}

enum sl_err outbox_new(struct outbox **out, struct loop *loop,
                       const struct sl_clock *clock, outbox_send_fn send,
                       void *arg)
{
    struct outbox *o = sl_calloc(1, sizeof(*o));
    enum sl_err rc;

    if (o == NULL)
        return SL_ENOMEM;
    rc = loop_timer_new(&o->timer, loop, held_long_enough, o);
    if (rc != SL_OK) {
        sl_free(o);
        return rc;
    }
    o->send = send;
    o->arg = arg;
    o->clock = clock;
    list_init(&o->kept);
    *out = o;
    return SL_OK;
}

// ---- reports that are kept

static void drop_kept(struct outbox *o, struct outbox_kept *k)
{
    list_remove(&k->node);
    o->kept_count--;
    wire_free(&k->up->base);
    sl_free(k);
}

static void outbox_keep(struct outbox *o, Sluice__V1__AttendUp *up)
{
    struct outbox_kept *k = sl_malloc(sizeof(*k));

    if (k == NULL) {
        wire_free(&up->base);
        return;
    }
    k->up = up;
    list_push_back(&o->kept, &k->node);
    if (++o->kept_count > OUTBOX_KEPT)
        drop_kept(o,
                  list_entry(list_first(&o->kept), struct outbox_kept, node));
}

void outbox_attached(struct outbox *o)
{
    while (!list_empty(&o->kept)) {
        struct outbox_kept *k =
            list_entry(list_first(&o->kept), struct outbox_kept, node);

        if (!o->send(o->arg, k->up))
            return;
        drop_kept(o, k);
    }
}

// ---- reports that are sent, or held back

static void send_or_keep(struct outbox *o, Sluice__V1__AttendUp *up)
{
    if (o->send(o->arg, up))
        wire_free(&up->base);
    else
        outbox_keep(o, up);
}

static bool send_all(struct outbox *o)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Completes m = SLUICE__V1__COMPLETES__INIT;
    Sluice__V1__Complete *list[OUTBOX_HELD];

    for (unsigned i = 0; i < o->held_count; i++)
        list[i] = o->held[i]->complete;
    m.complete = list;
    m.n_complete = o->held_count;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETES;
    up.completes = &m;
    return o->send(o->arg, &up);
}

static void say_how_long(struct outbox *o)
{
    uint64_t now = o->held_count > 0 ? sl_now_ms(o->clock) : 0;

    for (unsigned i = 0; i < o->held_count; i++)
        o->held[i]->complete->ago_ms = (uint32_t)(now - o->since_ms[i]);
}

void outbox_flush(struct outbox *o)
{
    unsigned count = o->held_count;
    bool sent;

    say_how_long(o);
    sent = count > 1 && send_all(o);
    loop_timer_stop(o->timer);
    o->held_count = 0;
    for (unsigned i = 0; i < count; i++) {
        if (sent)
            wire_free(&o->held[i]->base);
        else
            send_or_keep(o, o->held[i]);
    }
}

void outbox_say(struct outbox *o, Sluice__V1__AttendUp *up)
{
    outbox_flush(o);
    if (up != NULL)
        send_or_keep(o, up);
}

void outbox_hold(struct outbox *o, Sluice__V1__AttendUp *up, unsigned ms)
{
    if (up == NULL || up->kind_case != SLUICE__V1__ATTEND_UP__KIND_COMPLETE) {
        outbox_say(o, up);
        return;
    }
    if (o->held_count == 0 || ms < o->wait_ms) {
        o->wait_ms = ms;
        loop_timer_start(o->timer, ms, 0);
    }
    o->since_ms[o->held_count] = sl_now_ms(o->clock);
    o->held[o->held_count++] = up;
    if (o->held_count == OUTBOX_HELD)
        outbox_flush(o);
}

void outbox_free(struct outbox *o)
{
    if (o == NULL)
        return;
    loop_timer_free(o->timer);
    while (o->held_count > 0)
        wire_free(&o->held[--o->held_count]->base);
    while (!list_empty(&o->kept))
        drop_kept(o,
                  list_entry(list_first(&o->kept), struct outbox_kept, node));
    sl_free(o);
}
