// SPDX-License-Identifier: Apache-2.0
// tests/sim/place.c -- a member of a group: see place.h.
#include "tests/sim/place.h"

#include "tests/sim/rank.h"
#include "tests/sim/rings.h"

#define PATIENCE_US (2 * SIM_SECOND)

static void out(struct place *p)
{
    p->placed = p->going = p->alone_us = 0;
    p->members = 0;
}

void place_leave(struct crew *c)
{
    wire_free((ProtobufCMessage *)c->place->lease);
    c->place->lease = NULL;
    c->place->joined = false;
    out(c->place);
}

void place_hand_back(struct crew *c)
{
    if (c->place->lease != NULL)
        crew_send_hand_back(c, c->place->lease);
    place_leave(c);
}

void place_take(struct crew *c, const Sluice__V1__Lease *lease)
{
    ProtobufCMessage *copy = NULL;

    T_OK(wire_dup(&copy, &lease->base));
    place_leave(c);
    c->place->lease = (Sluice__V1__Lease *)copy;
    if (c->proc->draining)
        place_hand_back(c);
}

void place_revoke(struct crew *c, const Sluice__V1__Revoke *m)
{
    const Sluice__V1__Lease *l = c->place->lease;

    if (l == NULL || l->job != m->job)
        return;
    if (m->whole_job)
        place_leave(c);
    else if (l->attempt->term == m->attempt->term &&
             l->attempt->n == m->attempt->n)
        place_hand_back(c);
}

// ---- generations

static void send_join(struct crew *c)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingJoin m = SLUICE__V1__RING_JOIN__INIT;

    m.job = c->place->lease->job;
    m.job_incarnation = c->place->lease->job_incarnation;
    m.attempt = c->place->lease->attempt;
    m.address = "127.0.0.1:1";
    m.host = proc_host_name(c->proc);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_JOIN;
    up.ring_join = &m;
    c->place->joined = session_up(c->sim, c->proc, &up);
}

static void take_open(struct crew *c, const Sluice__V1__RingOpen *m)
{
    struct place *p = c->place;

    if (m->generation <= p->newest || !p->joined)
        return;
    out(p);
    p->newest = m->generation;
    rank_answer(c, m, (struct wire_tag){0, 0}); // no state is kept here
}

static void take_begin(struct crew *c, const Sluice__V1__RingBegin *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingReady ready = SLUICE__V1__RING_READY__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__CountedSet none = SLUICE__V1__COUNTED_SET__INIT;
    Sluice__V1__Tag tag = wire_tag_msg((struct wire_tag){m->generation, 0});
    struct place *p = c->place;

    if (m->generation != p->newest || !p->joined || p->placed == p->newest)
        return;
    T_LE(m->n_ranks, SIM_HOSTS);
    p->placed = p->newest;
    p->members = (uint32_t)m->n_ranks;
    p->self = m->self;
    for (uint32_t i = 0; i < p->members; i++)
        p->process[i] = m->ranks[i]->process;
    T_EQ(p->process[p->self], c->proc->process);
    ready.job = m->job;
    ready.job_incarnation = m->job_incarnation;
    ready.generation = m->generation;
    ready.tag = &tag;
    ready.counted = &none;
    ready.counts = &counts;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_READY;
    up.ring_ready = &ready;
    session_up(c->sim, c->proc, &up);
}

static void broken(struct crew *c, uint32_t suspect)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingBroken m = SLUICE__V1__RING_BROKEN__INIT;

    m.job = c->place->lease->job;
    m.job_incarnation = c->place->lease->job_incarnation;
    m.generation = c->place->newest;
    m.suspect = suspect;
    m.why = "simulated";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN;
    up.ring_broken = &m;
    out(c->place);
    c->sim->seen.broken++;
    session_up(c->sim, c->proc, &up);
}

void place_down(struct crew *c, const Sluice__V1__AttendDown *down)
{
    struct place *p = c->place;

    if (down->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN)
        take_open(c, down->ring_open);
    else if (down->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN)
        take_begin(c, down->ring_begin);
    else if (down->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_RING_GO &&
             down->ring_go->generation == p->newest && p->placed == p->newest)
        p->going = p->newest;
}

// ---- steps

// The first member that is gone or cannot be reached; else UINT32_MAX.
static uint32_t missing(struct crew *c)
{
    const struct place *p = c->place;

    for (uint32_t i = 0; i < p->members; i++) {
        struct proc *o = rank_proc(c->sim, p->process[i]);

        if (o == NULL || o->paused_until_us > sim_now(c->sim) ||
            (o != c->proc && (net_cut(c->sim, o->host, c->proc->host) ||
                              net_cut(c->sim, c->proc->host, o->host))))
            return i;
    }
    return UINT32_MAX;
}

// Who can be reached is there; is it of the same generation still?
static bool all_go(struct crew *c)
{
    const struct place *p = c->place;

    for (uint32_t i = 0; i < p->members; i++) {
        struct proc *o = rank_proc(c->sim, p->process[i]);

        if (((struct crew *)o->self)->place->going != p->going)
            return false;
    }
    return true;
}

// Whoever waits for one in vain says so, and has left for that.
static void look_for_others(struct crew *c)
{
    struct place *p = c->place;
    uint32_t gone = missing(c);

    if (gone == UINT32_MAX) {
        p->alone_us = 0;
        return;
    }
    if (p->alone_us == 0)
        p->alone_us = sim_now(c->sim);
    if (sim_now(c->sim) - p->alone_us >= PATIENCE_US ||
        rank_proc(c->sim, p->process[gone]) == NULL)
        broken(c, gone);
}

bool place_sums(struct crew *c)
{
    const struct place *p = c->place;

    if (p->going != 0)
        look_for_others(c);
    if (p->going == 0 || p->going != c->task.generation || p->alone_us != 0 ||
        !all_go(c))
        return false;
    c->sim->seen.group_steps += p->members > 1;
    return true;
}

void place_open_task(struct crew *c)
{
    c->task.grouped = c->place->lease != NULL;
    if (c->task.grouped)
        c->task.of = wire_attempt_of(c->place->lease->attempt);
}

bool place_parted(const struct crew *c)
{
    const struct place *p = c->place;

    return p->lease == NULL ||
           wire_attempt_cmp(c->task.of, wire_attempt_of(p->lease->attempt)) !=
               0 ||
           (p->going != 0 && p->self != 0);
}

bool place_meets(struct crew *c)
{
    c->task.generation = c->place->going;
    return c->place->going != 0;
}

void place_drive(struct crew *c)
{
    struct place *p = c->place;

    p->progress++;
    if (p->lease == NULL)
        return;
    if (sim_now(c->sim) >= c->renewed_us + c->sim->knobs.lease_us)
        place_hand_back(c);
    else if (!p->joined)
        send_join(c);
    else if (p->going != 0)
        look_for_others(c);
}

void place_start(struct crew *c)
{
    c->place = calloc(1, sizeof(*c->place));
    T_ASSERT(c->place != NULL);
}

void place_stop(struct crew *c)
{
    place_leave(c);
    free(c->place);
    c->place = NULL;
}
