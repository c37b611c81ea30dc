// SPDX-License-Identifier: Apache-2.0
// tests/sim/rank.c -- a rank: its lease, what the coordinator says to it, and
// the base of a generation.
#include "tests/sim/rank.h"

#include "common/base/rng.h"
#include "tests/sim/rings.h"

#define TICK_US 30000
#define PATIENCE_US (2 * SIM_SECOND)

// ---- states

void rank_clear(struct rank_state *s)
{
    counted_release(&s->counted);
    memset(s, 0, sizeof(*s));
}

void rank_copy(struct rank_state *to, const struct rank_state *from)
{
    rank_clear(to);
    *to = *from;
    T_OK(counted_copy(&to->counted, &from->counted));
}

struct proc *rank_proc(struct sim *s, uint64_t process)
{
    for (uint32_t i = s->procs_count; i-- > 0;)
        if (s->procs[i]->process == process)
            return s->procs[i]->alive ? s->procs[i] : NULL;
    return NULL;
}

const struct rank_state *rank_answered(struct sim *s, uint64_t process,
                                       uint64_t generation)
{
    struct proc *p = rank_proc(s, process);
    const struct rank *r = p == NULL ? NULL : ((struct crew *)p->self)->rank;

    return r == NULL || r->newest != generation ||
                   r->state.tag.incarnation == generation
               ? NULL
               : &r->state;
}

// ---- the lease

static void forget_begin(struct rank *r)
{
    wire_free((ProtobufCMessage *)r->begun);
    r->begun = NULL;
}

// R2: nothing of the generation that it was in changes its state any more.
static void leave(struct rank *r)
{
    r->going = 0;
    r->copies = 0;
    wire_free((ProtobufCMessage *)r->copy);
    r->copy = NULL;
    take_free(r->take);
    r->take = NULL;
    r->computes = r->gave = false;
    r->number++;
    memset(r->got, 0, sizeof(r->got));
    memset(r->request, 0, sizeof(r->request));
    forget_begin(r);
}

void rank_leave(struct crew *c)
{
    leave(c->rank);
    give_end(c->rank->give);
    c->rank->joined = false;
}

void rank_drop(struct crew *c)
{
    rank_leave(c);
    rank_clear(&c->rank->state);
}

static unsigned ring_lease(const struct crew *c)
{
    unsigned i = 0;

    while (i < c->leases_count &&
           c->leases[i]->kind != SLUICE__V1__LEASE_KIND__LEASE_RING)
        i++;
    return i;
}

static void send_join(struct crew *c, const Sluice__V1__Lease *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingJoin m = SLUICE__V1__RING_JOIN__INIT;

    m.job = l->job;
    m.job_incarnation = l->job_incarnation;
    m.attempt = l->attempt;
    m.address = "127.0.0.1:1";
    m.host = c->sim->slots[c->proc->slot].name;
    m.copies = true;
    m.lanes = true;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_JOIN;
    up.ring_join = &m;
    c->rank->joined = session_up(c->sim, c->proc, &up);
}

void rank_broken(struct crew *c, uint32_t suspect)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingBroken m = SLUICE__V1__RING_BROKEN__INIT;
    struct rank *r = c->rank;

    m.job = c->sim->job;
    m.job_incarnation = c->job_incarnation;
    m.generation = r->newest;
    m.suspect = suspect;
    m.why = "simulated";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN;
    up.ring_broken = &m;
    leave(r);
    c->sim->seen.broken++;
    session_up(c->sim, c->proc, &up);
}

// ---- what the coordinator says

void rank_answer(struct crew *c, const Sluice__V1__RingOpen *m,
                 struct wire_tag state)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingAnswer answer = SLUICE__V1__RING_ANSWER__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(state);

    answer.job = m->job;
    answer.job_incarnation = m->job_incarnation;
    answer.generation = m->generation;
    answer.tag = &tag;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER;
    up.ring_answer = &answer;
    session_up(c->sim, c->proc, &up);
}

static void take_open(struct crew *c, const Sluice__V1__RingOpen *m)
{
    struct rank *r = c->rank;

    if (m->term < c->proc->term || m->generation <= r->newest || !r->joined)
        return;
    leave(r);
    r->newest = m->generation;
    rank_answer(c, m, r->state.tag);
}

static void take_begin(struct crew *c, const Sluice__V1__RingBegin *m)
{
    ProtobufCMessage *copy = NULL;
    struct rank *r = c->rank;

    if (m->generation != r->newest || !r->joined ||
        r->state.tag.incarnation == r->newest)
        return;
    forget_begin(r);
    T_OK(wire_dup(&copy, &m->base));
    r->begun = (Sluice__V1__RingBegin *)copy;
    r->begun_us = sim_now(c->sim) + sim_below(c->sim, 200000);
    r->begun_until_us = sim_now(c->sim) + PATIENCE_US;
}

static void take_go(struct crew *c, const Sluice__V1__RingGo *m)
{
    struct rank *r = c->rank;

    if (m->generation != r->newest || !r->joined ||
        r->state.tag.incarnation != r->newest)
        return;
    if (r->give == NULL)
        r->give = give_new(c->sim, c->open);
    give_begin(r->give, &r->state);
    r->going = r->newest;
    r->waits_us = sim_now(c->sim);
}

static void take_copy(struct crew *c, const Sluice__V1__RingCopy *m)
{
    ProtobufCMessage *copy = NULL;
    struct rank *r = c->rank;

    if (m->generation < r->newest || !r->joined || r->going != 0)
        return;
    wire_free((ProtobufCMessage *)r->copy);
    T_OK(wire_dup(&copy, &m->base));
    take_free(r->take);
    r->copy = (Sluice__V1__RingCopy *)copy;
    r->take =
        take_new(c->sim, c->proc->process << 8 ^ ++r->takes, m->generation);
    r->copies = m->generation;
    r->copy_us = sim_now(c->sim) + sim_below(c->sim, SIM_SECOND);
    r->copy_until_us = r->copy_us + PATIENCE_US;
}

static void take_request(struct crew *c, const Sluice__V1__SnapshotRequest *m)
{
    struct rank *r = c->rank;

    if (r->going == 0 || m->incarnation != r->going)
        return;
    r->request[m->shard] = m->request;
    r->at_round[m->shard] = m->at_round;
}

void rank_down(struct crew *c, const Sluice__V1__AttendDown *down)
{
    switch (down->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN:
        take_open(c, down->ring_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN:
        take_begin(c, down->ring_begin);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_GO:
        take_go(c, down->ring_go);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_COPY:
        take_copy(c, down->ring_copy);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        take_request(c, down->snapshot);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        if (down->keep->term >= c->proc->term)
            rings_keep(c->sim, down->keep);
        break;
    default:
        break;
    }
}

// ---- the base

static void send_ready(struct crew *c)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingReady m = SLUICE__V1__RING_READY__INIT;
    struct rank *r = c->rank;
    Sluice__V1__Tag tag = wire_tag_msg(r->state.tag);
    struct rank_counts counts;
    struct wire_counted set;

    T_OK(wire_counted_init(&set, &r->state.counted));
    round_counts(c->sim, &r->state, &counts);
    m.job = c->sim->job;
    m.job_incarnation = c->job_incarnation;
    m.generation = r->newest;
    m.tag = &tag;
    m.counted = &set.msg;
    m.counts = &counts.msg;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_READY;
    up.ring_ready = &m;
    session_up(c->sim, c->proc, &up);
    wire_counted_release(&set);
}

// The state of a holder that can be reached now, or NULL.
static const struct rank_state *from_holder(struct crew *c)
{
    const Sluice__V1__RingBegin *b = c->rank->begun;
    struct wire_tag base = wire_tag_of(b->base_tag);
    struct wire_tag placed = {b->generation, base.sequence};

    for (size_t i = 0; i < b->n_holders; i++) {
        struct proc *p = rank_proc(c->sim, b->ranks[b->holders[i]]->process);
        const struct rank_state *s;

        if (p == NULL || p->paused_until_us > sim_now(c->sim) ||
            (p != c->proc && (net_cut(c->sim, p->host, c->proc->host) ||
                              net_cut(c->sim, c->proc->host, p->host))))
            continue;
        s = &((struct crew *)p->self)->rank->state;
        if (wire_tag_cmp(s->tag, base) == 0 ||
            wire_tag_cmp(s->tag, placed) == 0)
            return s;
    }
    return NULL;
}

static const struct rank_state *from_files(struct crew *c)
{
    const Sluice__V1__RingBegin *b = c->rank->begun;

    T_EQ(b->n_sources, c->sim->shards);
    for (uint32_t i = 0; i < c->sim->shards; i++)
        T_TRUE(rings_file(c->sim, i, wire_tag_of(b->base_tag)) != NULL); // K3
    return rings_file(c->sim, 0, wire_tag_of(b->base_tag));
}

// R3: whole, or not at all. False: not now.
static bool bring_base(struct crew *c)
{
    const Sluice__V1__RingBegin *b = c->rank->begun;
    struct rank_state *mine = &c->rank->state;
    const struct rank_state *from;

    if (b->n_holders == 0 && b->base_tag->incarnation == 0) {
        rank_clear(mine);
        T_OK(counted_init(&mine->counted, &c->sim->knobs.schedule));
        return true;
    }
    from = b->n_holders > 0 ? from_holder(c) : from_files(c);
    if (from == NULL)
        return false;
    if (b->n_holders == 0)
        c->sim->seen.base_files++;
    else if (from != mine)
        c->sim->seen.base_copies++;
    if (from != mine)
        rank_copy(mine, from);
    return true;
}

static void place_base(struct crew *c)
{
    struct rank *r = c->rank;
    const Sluice__V1__RingBegin *b = r->begun;

    if (sim_now(c->sim) < r->begun_us)
        return;
    if (!bring_base(c)) {
        if (sim_now(c->sim) >= r->begun_until_us)
            rank_broken(c, b->holders[0]);
        return;
    }
    r->state.tag =
        (struct wire_tag){r->newest, wire_tag_of(b->base_tag).sequence};
    r->ranks = (uint32_t)b->n_ranks;
    r->self = b->self;
    r->contributions = b->contributions;
    T_LE(r->ranks, SIM_HOSTS);
    for (uint32_t i = 0; i < r->ranks; i++)
        r->process[i] = b->ranks[i]->process;
    T_EQ(r->process[r->self], c->proc->process);
    r->told = r->state.tag.sequence;
    forget_begin(r);
    rings_placed(c->sim, c->proc, &r->state);
    send_ready(c);
}

// ---- other leases: a cut's evaluation, the probe

static void other_run(struct sim *s, struct sim_event *e)
{
    struct crew *c = proc_get(s, e->proc)->self;

    for (unsigned i = 0; i < c->leases_count; i++) {
        const Sluice__V1__Lease *l = c->leases[i];

        if (l->attempt->n != e->a || l->attempt->term != e->b ||
            l->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
            continue;
        c->task.metrics =
            (Sluice__V1__StepMetrics)SLUICE__V1__STEP_METRICS__INIT;
        c->task.metrics.steps = l->steps;
        c->task.metrics.samples = l->count;
        c->task.metrics.correct = l->count / 2;
        c->task.metrics.loss_sum = (double)l->count;
        s->seen.evaluations +=
            l->kind == SLUICE__V1__LEASE_KIND__LEASE_EVALUATE;
        crew_complete(c, i);
        return;
    }
}

static void start_others(struct crew *c)
{
    for (unsigned i = 0; i < c->leases_count; i++) {
        const Sluice__V1__Lease *l = c->leases[i];

        if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_RING || c->revoked[i])
            continue;
        c->revoked[i] = true; // begun: it is not begun twice
        sim_after(c->sim, 1000 + sim_below(c->sim, c->sim->knobs.compute_us),
                  &(struct sim_event){.kind = SIM_COMPUTED,
                                      .proc = c->proc->number,
                                      .a = l->attempt->n,
                                      .b = l->attempt->term,
                                      .run = other_run});
    }
}

// ---- life

void rank_drive(struct crew *c)
{
    struct rank *r = c->rank;
    unsigned i;

    r->progress++;
    start_others(c);
    i = ring_lease(c);
    if (i == c->leases_count)
        return;
    if (sim_now(c->sim) >= c->renewed_us + c->sim->knobs.lease_us) {
        crew_hand_back(c, i); // which leaves
        return;
    }
    if (!r->joined)
        send_join(c, c->leases[i]);
    if (r->begun != NULL)
        place_base(c);
    else if (r->copies != 0)
        round_copy_ahead(c);
    else if (r->going != 0)
        round_drive(c);
}

static void tick_run(struct sim *s, struct sim_event *e)
{
    sim_after(s, TICK_US / 2 + sim_below(s, TICK_US), e);
    rank_drive(proc_get(s, e->proc)->self);
}

void rank_start(struct crew *c)
{
    c->rank = calloc(1, sizeof(*c->rank));
    T_ASSERT(c->rank != NULL);
    sim_after(c->sim, TICK_US,
              &(struct sim_event){
                  .kind = SIM_TIMER, .proc = c->proc->number, .run = tick_run});
}

void rank_stop(struct crew *c)
{
    rank_drop(c);
    give_free(c->rank->give);
    free(c->rank);
    c->rank = NULL;
}
