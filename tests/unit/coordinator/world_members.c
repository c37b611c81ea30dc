// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/coordinator/world_members.h"

#include <string.h>

static void *take_first(void **list, unsigned *count)
{
    void *first = list[0];

    (*count)--;
    memmove(list, list + 1, *count * sizeof(*list));
    return first;
}

void fake_disconnected(struct fake_member *m)
{
    while (m->inbox_count > 0)
        wire_free((ProtobufCMessage *)m->inbox[--m->inbox_count]);
    while (m->outbox_count > 0)
        wire_free((ProtobufCMessage *)m->outbox[--m->outbox_count]);
    m->stream = 0;
    m->opened = 0;
    m->rank.joined = false;
}

void fake_forget_memory(struct fake_member *m)
{
    fake_worker_drop(m);
    fake_rank_drop(m);
    fake_psserver_drop(m);
}

void fake_free(struct fake_member *m)
{
    fake_disconnected(m);
    fake_forget_memory(m);
    for (unsigned s = 0; s < WORLD_SHARDS; s++) {
        for (unsigned i = 0; i < m->shards[s].snaps_count; i++)
            counted_release(&m->shards[s].snaps[i].counted);
    }
}

void fake_send(struct fake_member *m, const Sluice__V1__AttendUp *message)
{
    ProtobufCMessage *copy = NULL;

    T_OK(wire_dup(&copy, &message->base));
    T_LT(m->outbox_count, WORLD_INBOX);
    m->outbox[m->outbox_count++] = (Sluice__V1__AttendUp *)copy;
}

static void receive(struct world *w, struct fake_member *m,
                    const Sluice__V1__AttendUp *message)
{
    if (w->coord != NULL && m->stream != 0)
        coord_receive(w->coord, m->stream, message);
}

static bool next_is_complete(const struct fake_member *m)
{
    return m->outbox_count > 0 &&
           m->outbox[0]->kind_case == SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
}

// Completions that follow each other, in one message.
static void deliver_completes(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Completes all = SLUICE__V1__COMPLETES__INIT;
    Sluice__V1__AttendUp *message[WIRE_LEASES_MAX];
    Sluice__V1__Complete *list[WIRE_LEASES_MAX];

    all.complete = list;
    while (next_is_complete(m) && all.n_complete < WIRE_LEASES_MAX) {
        Sluice__V1__AttendUp *one =
            take_first((void **)m->outbox, &m->outbox_count);

        message[all.n_complete] = one;
        list[all.n_complete++] = one->complete;
        world_let_go(w, one->complete->closure, m->stream);
    }
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETES;
    up.completes = &all;
    receive(w, m, &up);
    while (all.n_complete > 0)
        wire_free(&message[--all.n_complete]->base);
}

void fake_deliver_up(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp *message;

    if (next_is_complete(m) && w->completes++ % 2 == 0) {
        deliver_completes(w, m);
        return;
    }
    message = take_first((void **)m->outbox, &m->outbox_count);
    if (message->kind_case == SLUICE__V1__ATTEND_UP__KIND_COMPLETE)
        world_let_go(w, message->complete->closure, m->stream);
    if (message->kind_case == SLUICE__V1__ATTEND_UP__KIND_HAND_BACK)
        world_let_go(w, message->hand_back->closure, m->stream);
    if (message->kind_case == SLUICE__V1__ATTEND_UP__KIND_FAILED)
        world_let_go(w, message->failed->closure, m->stream);
    receive(w, m, message);
    wire_free(&message->base);
}

void fake_read(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendDown *message =
        take_first((void **)m->inbox, &m->inbox_count);

    if (m->role == FAKE_WORKER)
        fake_worker_read(w, m, message);
    else
        fake_psserver_read(w, m, message);
    wire_free(&message->base);
}

void fake_work(struct world *w, struct fake_member *m)
{
    if (m->role == FAKE_WORKER)
        fake_worker_work(w, m);
    else
        fake_psserver_work(w, m);
}

// The leases of a worker, and that it gets on with the first.
static size_t list_leases(struct fake_member *m, Sluice__V1__LeaseProgress *out,
                          Sluice__V1__LeaseProgress **list)
{
    static Sluice__V1__StepMetrics none = SLUICE__V1__STEP_METRICS__INIT;

    for (unsigned i = 0; i < m->leases_count; i++) {
        out[i] = (Sluice__V1__LeaseProgress)SLUICE__V1__LEASE_PROGRESS__INIT;
        out[i].job = m->leases[i].lease->job;
        out[i].closure = m->leases[i].lease->closure;
        out[i].attempt = m->leases[i].lease->attempt;
        out[i].metrics = &none;
        out[i].progress = m->progress;
        out[i].left_out_set = m->left_out_set;
        out[i].left_out = m->left_out_set > WIRE_LEFT_OUT_NONE ? "jit:x" : "";
        out[i].waits = m->waits;
        list[i] = &out[i];
    }
    return m->leases_count;
}

void fake_beat(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__ShardReport reports[WORLD_SHARDS], *list[WORLD_SHARDS];
    Sluice__V1__ShardCounts counts[WORLD_SHARDS];
    Sluice__V1__LeaseProgress progress[SL_COUNT(m->leases)];
    Sluice__V1__LeaseProgress *leases[SL_COUNT(m->leases)];
    size_t n = 0;

    beat.n_leases = list_leases(m, progress, leases);
    beat.leases = leases;
    for (uint32_t s = 0; s < WORLD_SHARDS; s++) {
        struct fake_shard *f = &m->shards[s];

        if (!f->admitted)
            continue;
        counts[n] = (Sluice__V1__ShardCounts)SLUICE__V1__SHARD_COUNTS__INIT;
        counts[n].counted = counted_steps(&f->counted);
        counts[n].applied = counts[n].version = counts[n].counted;
        reports[n] = (Sluice__V1__ShardReport)SLUICE__V1__SHARD_REPORT__INIT;
        reports[n].job = w->job;
        reports[n].shard = s;
        reports[n].incarnation = f->incarnation;
        reports[n].counts = &counts[n];
        list[n] = &reports[n];
        n++;
    }
    beat.shards = list;
    beat.n_shards = n;
    beat.draining = m->draining;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &beat;
    fake_send(m, &up);
    // Heartbeats are not reordered with the rest, but they do arrive: the
    // stream is alive.
    while (m->outbox_count > 0 && world_below(w, 8) != 0)
        fake_deliver_up(w, m);
}

void fake_read_all(struct world *w, struct fake_member *m)
{
    while (m->inbox_count > 0)
        fake_read(w, m);
}

void fake_deliver_all(struct world *w, struct fake_member *m)
{
    while (m->outbox_count > 0)
        fake_deliver_up(w, m);
}

struct fake_shard *fake_shard_at(struct world *w, uint32_t shard,
                                 uint64_t incarnation)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];
        struct fake_shard *f = &m->shards[shard];

        if (m->used && m->alive && m->role == FAKE_PSSERVER && f->admitted &&
            !f->handed && f->incarnation == incarnation &&
            sl_now_ms(&w->clock.clock) >= m->stuck_until)
            return f;
    }
    return NULL;
}

void fake_turn(struct world *w)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (!m->used || !m->alive || m->stream == 0)
            continue;
        fake_read_all(w, m);
        fake_work(w, m);
        fake_deliver_all(w, m);
    }
}
