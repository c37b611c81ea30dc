// SPDX-License-Identifier: Apache-2.0
// tests/sim/crew.c -- a worker's process: leases, maps, reports.
#include "tests/sim/crew.h"

#include "tests/harness/lease.h"
#include "tests/mutants/mutant.h"
#include "tests/sim/net.h"
#include "tests/sim/place.h"
#include "tests/sim/rank.h"

static struct crew *self(struct proc *p)
{
    return p->self;
}

// ---- reports

void crew_send(struct crew *c, const Sluice__V1__AttendUp *up)
{
    ProtobufCMessage *copy = NULL;

    if (session_up(c->sim, c->proc, up))
        return;
    if (c->kept_count == CREW_KEPT)
        return; // it is then issued again
    T_OK(wire_dup(&copy, &up->base));
    c->kept[c->kept_count++] = (Sluice__V1__AttendUp *)copy;
}

static void send_kept(struct crew *c)
{
    unsigned said = 0;

    while (said < c->kept_count && session_up(c->sim, c->proc, c->kept[said]))
        wire_free(&c->kept[said++]->base);
    c->kept_count -= said;
    memmove(c->kept, c->kept + said, c->kept_count * sizeof(c->kept[0]));
}

void crew_send_hand_back(struct crew *c, const Sluice__V1__Lease *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__HandBack m = SLUICE__V1__HAND_BACK__INIT;

    T_OF_LEASE(&m, l);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HAND_BACK;
    up.hand_back = &m;
    crew_send(c, &up);
}

static void send_failed(struct crew *c, const Sluice__V1__Lease *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed m = SLUICE__V1__ATTEMPT_FAILED__INIT;

    T_OF_LEASE(&m, l);
    m.code = SL_EIO;
    m.text = "simulated";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &m;
    crew_send(c, &up);
}

// Every other worker speaks of maps where it can, as one of an earlier version
// does not.
static bool named_by_map(const struct crew *c)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        const struct part *p = &c->task.parts[i];

        if (p->held || p->closed || c->map[i].incarnation == 0 ||
            (p->evidence.incarnation != c->map[i].incarnation &&
             !MUTANT(rule_W2)))
            return false;
    }
    return c->proc->slot % 2 == 0;
}

// W2: the incarnations that the evidence is from.
static void send_complete(struct crew *c, const Sluice__V1__Lease *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete m = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__DataFacts facts = SLUICE__V1__DATA_FACTS__INIT;
    Sluice__V1__ShardEvidence items[SIM_SHARDS], *list[SIM_SHARDS];

    T_OF_LEASE(&m, l);
    m.job_incarnation = l->job_incarnation;
    m.metrics = &c->task.metrics;
    for (uint32_t i = 0; i < c->shards; i++) {
        items[i] = (Sluice__V1__ShardEvidence)SLUICE__V1__SHARD_EVIDENCE__INIT;
        items[i].shard = i;
        // The worker's own mistake (sync_ps.c) is made here, too.
        items[i].incarnation = MUTANT(rule_W2)
                                   ? c->map[i].incarnation
                                   : c->task.parts[i].evidence.incarnation;
        items[i].held = c->task.parts[i].held;
        items[i].closed = c->task.parts[i].closed;
        list[i] = &items[i];
    }
    if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN && named_by_map(c)) {
        m.map_version = c->map_version;
    } else if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN) {
        m.evidence = list;
        m.n_evidence = c->shards;
    } else if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_PROBE) {
        facts.train_samples = c->sim->knobs.schedule.samples;
        facts.test_samples = 20;
        m.facts = &facts;
    }
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &m;
    crew_send(c, &up);
}

// ---- leases

void crew_drop_lease(struct crew *c, unsigned i)
{
    if (c->rank != NULL &&
        c->leases[i]->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
        rank_leave(c);
    wire_free(&c->leases[i]->base);
    c->leases_count--;
    memmove(&c->leases[i], &c->leases[i + 1],
            (c->leases_count - i) * sizeof(c->leases[0]));
    memmove(&c->revoked[i], &c->revoked[i + 1],
            (c->leases_count - i) * sizeof(c->revoked[0]));
}

static void exit_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);
    uint32_t slot = p->slot;

    proc_kill(s, p, false);
    proc_restart_after(s, slot, sim_between(s, 10, 3000) * 1000);
}

static void exit_if_drained(struct crew *c)
{
    if (!c->proc->draining || c->leases_count > 0 || c->proc->exiting)
        return;
    c->proc->exiting = true;
    sim_after(c->sim, 0,
              &(struct sim_event){
                  .kind = SIM_EXIT, .proc = c->proc->number, .run = exit_run});
}

void crew_complete(struct crew *c, unsigned i)
{
    send_complete(c, c->leases[i]);
    crew_drop_lease(c, i);
    exit_if_drained(c);
}

void crew_hand_back(struct crew *c, unsigned i)
{
    crew_send_hand_back(c, c->leases[i]);
    crew_drop_lease(c, i);
    exit_if_drained(c);
}

void task_finish(struct crew *c, enum task_end how)
{
    const Sluice__V1__Lease *l = c->leases[0];

    if (how == TASK_COMPLETE)
        send_complete(c, l);
    else if (how == TASK_HAND_BACK)
        crew_send_hand_back(c, l);
    else if (how == TASK_FAILED)
        send_failed(c, l);
    c->sim->seen.evaluations +=
        how == TASK_COMPLETE &&
        l->kind == SLUICE__V1__LEASE_KIND__LEASE_EVALUATE;
    memset(&c->task.parts, 0, sizeof(c->task.parts));
    c->task.phase = TASK_NONE;
    crew_drop_lease(c, 0);
    exit_if_drained(c);
}

// The lease counts from when its last acknowledged renewal was sent.
bool task_gate_open(struct crew *c)
{
    return !c->revoked[0] &&
           sim_now(c->sim) < c->renewed_us + c->sim->knobs.lease_us;
}

// The ring is the same, whoever leases it: the old lease makes way for this.
static void drop_old_ring(struct crew *c)
{
    for (unsigned i = c->leases_count; i-- > 0;)
        if (c->leases[i]->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
            crew_drop_lease(c, i);
}

static void take_lease(struct crew *c, const Sluice__V1__Lease *m)
{
    ProtobufCMessage *copy = NULL;

    if (m->term < c->proc->term)
        return; // I5
    if (m->kind != SLUICE__V1__LEASE_KIND__LEASE_PROBE)
        T_EQ(c->opened, m->job); // JobOpen came first
    if (m->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
        drop_old_ring(c);
    if (m->kind == SLUICE__V1__LEASE_KIND__LEASE_RING && c->place != NULL) {
        place_take(c, m);
        return;
    }
    T_LT(c->leases_count, CREW_LEASES);
    T_OK(wire_dup(&copy, &m->base));
    c->revoked[c->leases_count] = false;
    c->leases[c->leases_count++] = (Sluice__V1__Lease *)copy;
    if (c->proc->draining && c->rank != NULL)
        crew_hand_back(c, c->leases_count - 1);
    else if (c->proc->draining)
        c->revoked[c->leases_count - 1] = true;
}

// The coordinator waits to be told that it has gone, unless the job has ended.
static void drop_revoked(struct crew *c, unsigned i)
{
    crew_send_hand_back(c, c->leases[i]);
    crew_drop_lease(c, i);
}

// One that runs ends at its gate; one that waits goes at once.
static void revoke(struct crew *c, unsigned i, bool whole_job)
{
    if (i == 0 && c->task.phase != TASK_NONE)
        c->revoked[0] = true;
    else if (whole_job)
        crew_drop_lease(c, i);
    else
        drop_revoked(c, i);
}

static void take_revoke(struct crew *c, const Sluice__V1__Revoke *m)
{
    for (unsigned i = c->leases_count; i-- > 0;) {
        const Sluice__V1__Lease *l = c->leases[i];

        if (l->job == m->job &&
            (m->whole_job || (l->closure == m->closure &&
                              l->attempt->term == m->attempt->term &&
                              l->attempt->n == m->attempt->n))) {
            c->ended = m->whole_job;
            revoke(c, i, m->whole_job);
        }
    }
    if (m->whole_job && c->rank != NULL)
        rank_drop(c);
    if (c->place != NULL)
        place_revoke(c, m);
}

static void take_map(struct crew *c, const Sluice__V1__JobMap *map)
{
    T_LE(map->n_shards, SIM_SHARDS);
    c->map_version = map->version;
    for (size_t i = 0; i < map->n_shards; i++) {
        c->map[i].incarnation = map->shards[i]->incarnation;
        snprintf(c->map[i].address, sizeof(c->map[i].address), "%s",
                 map->shards[i]->address);
    }
    task_map(c);
}

static void take_open(struct crew *c, const Sluice__V1__JobOpen *m)
{
    ProtobufCMessage *copy = NULL;

    if (m->n_pieces == 0)
        return; // before the probe
    if (c->rank != NULL) {
        wire_free((ProtobufCMessage *)c->open);
        T_OK(wire_dup(&copy, &m->base));
        c->open = (Sluice__V1__JobOpen *)copy;
    }
    c->opened = m->job;
    c->job_incarnation = m->job_incarnation;
    c->shards = (uint32_t)m->map->n_shards;
    memset(c->elements, 0, sizeof(c->elements));
    for (size_t i = 0; i < m->n_pieces; i++)
        c->elements[m->pieces[i]->shard] += m->pieces[i]->elements;
    take_map(c, m->map);
}

// ---- from the session

bool crew_welcome(struct sim *s, struct proc *p, const Sluice__V1__Welcome *m)
{
    struct crew *c = self(p);

    if (m->term < p->term)
        return false;
    p->term = m->term;
    c->renewed_us = p->hello_us > c->renewed_us ? p->hello_us : c->renewed_us;
    for (unsigned i = c->leases_count; i-- > 0;) {
        // A ring goes on until it is leased anew, and so does a place.
        if (c->leases[i]->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
            c->rank->joined = false;
        else if (i > 0 || c->task.phase == TASK_NONE)
            crew_drop_lease(c, i);
        else
            c->task.left = true;
    }
    return true;
}

void crew_attached(struct sim *s, struct proc *p)
{
    send_kept(self(p));
    task_drive(self(p));
}

void crew_down(struct sim *s, struct proc *p,
               const Sluice__V1__AttendDown *down)
{
    struct crew *c = self(p);

    switch (down->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN:
        take_open(c, down->job_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_MAP:
        take_map(c, down->map);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_LEASES:
        for (size_t i = 0; i < down->leases->n_lease; i++)
            take_lease(c, down->leases->lease[i]);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REVOKE:
        take_revoke(c, down->revoke);
        break;
    default:
        if (c->place == NULL) {
            if (c->rank != NULL)
                rank_down(c, down);
            return;
        }
        place_down(c, down);
        break;
    }
    task_drive(c);
}

// What there is of leases in a beat: the one that the task has, or the ring.
static unsigned lease_at_work(const struct crew *c)
{
    unsigned i = 0;

    if (c->rank == NULL)
        return c->task.phase == TASK_NONE ? c->leases_count : 0;
    while (i < c->leases_count &&
           c->leases[i]->kind != SLUICE__V1__LEASE_KIND__LEASE_RING)
        i++;
    return i;
}

void crew_beat(struct sim *s, struct proc *p)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress progress = SLUICE__V1__LEASE_PROGRESS__INIT;
    Sluice__V1__LeaseProgress place = SLUICE__V1__LEASE_PROGRESS__INIT;
    Sluice__V1__LeaseProgress *list[2];
    struct crew *c = self(p);
    Sluice__V1__StepMetrics none = SLUICE__V1__STEP_METRICS__INIT;
    unsigned at;

    m.seq = ++c->seq;
    m.draining = p->draining;
    c->sent_us[m.seq % CREW_BEATS] = sim_now(s);
    at = lease_at_work(c);
    if (at < c->leases_count) {
        progress.job = c->leases[at]->job;
        progress.closure = c->leases[at]->closure;
        progress.attempt = c->leases[at]->attempt;
        progress.metrics = &c->task.metrics;
        // The compute thread beats many times in a step.
        progress.progress = c->rank == NULL ? m.seq : c->rank->progress;
        list[m.n_leases++] = &progress;
    }
    if (c->place != NULL && c->place->lease != NULL) {
        place.job = c->place->lease->job;
        place.closure = c->place->lease->closure;
        place.attempt = c->place->lease->attempt;
        place.metrics = &none;
        place.progress = c->place->progress;
        list[m.n_leases++] = &place;
    }
    m.leases = list;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &m;
    session_up(s, p, &up);
    task_drive(c);
}

void crew_renewed(struct sim *s, struct proc *p, uint64_t seq)
{
    struct crew *c = self(p);

    if (seq <= c->seq && seq + CREW_BEATS > c->seq &&
        c->sent_us[seq % CREW_BEATS] > c->renewed_us)
        c->renewed_us = c->sent_us[seq % CREW_BEATS];
    send_kept(c);
}

// ---- answers

static struct part *part_of(struct crew *c, uint64_t call)
{
    for (uint32_t i = 0; call != 0 && i < SIM_SHARDS; i++)
        if (c->task.parts[i].call == call)
            return &c->task.parts[i];
    return NULL; // nobody waits for it any more
}

void crew_reply(struct sim *s, struct proc *p, const struct sim_reply *r)
{
    struct part *part = part_of(self(p), r->id);

    if (part == NULL)
        return;
    task_answer(self(p), part, r);
    task_drive(self(p));
}

void crew_deadline(struct sim *s, struct proc *p, uint64_t id)
{
    struct part *part = part_of(self(p), id);

    if (part == NULL)
        return;
    task_answer(self(p), part, NULL);
    task_drive(self(p));
}

// ---- life

void crew_start(struct sim *s, struct proc *p)
{
    struct crew *c = calloc(1, sizeof(*c));

    T_ASSERT(c != NULL);
    c->sim = s;
    c->proc = p;
    c->task.metrics = (Sluice__V1__StepMetrics)SLUICE__V1__STEP_METRICS__INIT;
    p->self = c;
    if (s->knobs.mode == SIM_RING)
        rank_start(c);
    else if (s->knobs.mode == SIM_HYBRID)
        place_start(c);
    session_dial(s, p);
}

void crew_stop(struct sim *s, struct proc *p)
{
    struct crew *c = self(p);

    if (c->rank != NULL && c->rank->take != NULL)
        s->seen.died_copying += take_begun(c->rank->take);
    while (c->leases_count > 0)
        crew_drop_lease(c, 0);
    while (c->kept_count > 0)
        wire_free(&c->kept[--c->kept_count]->base);
    if (c->rank != NULL)
        rank_stop(c);
    if (c->place != NULL)
        place_stop(c);
    wire_free((ProtobufCMessage *)c->open);
    free(c);
    p->self = NULL;
}

void crew_drain(struct sim *s, struct proc *p)
{
    struct crew *c = self(p);

    if (p->draining)
        return;
    p->draining = true;
    crew_beat(s, p);
    if (c->place != NULL)
        place_hand_back(c);
    for (unsigned i = c->leases_count; i-- > 0;) {
        if (i == 0 && c->task.phase != TASK_NONE)
            continue; // it ends its step first
        crew_send_hand_back(c, c->leases[i]);
        crew_drop_lease(c, i);
    }
    exit_if_drained(c);
}
