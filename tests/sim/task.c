// SPDX-License-Identifier: Apache-2.0
// tests/sim/task.c -- one lease, as worker/lease/task_train.c and sync_ps*.c do
// it.
//
//   BEGIN    ask every shard, pull what is missing
//   COMPUTE  the first step that is not counted everywhere, for some time
//   PUSH     to every shard that lacks it; then the next step, or BEGIN again
//            when what was believed does not hold (W1)
//   CUT      an evaluation: pull the snapshots that the lease names
#include "tests/sim/place.h"
#include "tests/sim/rank.h"
#include "tests/sim/truth.h"

#define PAUSE_FIRST_US 10000
#define PAUSE_MOST_US SIM_SECOND
#define TRIES_BEFORE_MAP 2
#define MAP_EVERY_US (500 * 1000)

static const Sluice__V1__Lease *lease_of(const struct crew *c)
{
    return c->leases[0];
}

static struct wire_attempt attempt_of(const struct crew *c)
{
    return wire_attempt_of(lease_of(c)->attempt);
}

static uint32_t number_of(const struct crew *c, const struct part *p)
{
    return (uint32_t)(p - c->task.parts);
}

static bool all_at_rest(const struct crew *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        if (c->task.parts[i].want != PART_REST)
            return false;
    return true;
}

// ---- waking up

static void wake_run(struct sim *s, struct sim_event *e)
{
    struct crew *c = proc_get(s, e->proc)->self;

    // An earlier one was wanted meanwhile: that has asked for the next.
    if (c->task.wake_us != sim_now(s))
        return;
    c->task.wake_us = 0;
    task_drive(c);
}

static void wake_at(struct crew *c, uint64_t at_us)
{
    uint64_t now = sim_now(c->sim);

    if (c->task.wake_us != 0 && c->task.wake_us <= at_us)
        return;
    c->task.wake_us = at_us > now ? at_us : now + 1;
    sim_after(c->sim, c->task.wake_us - now,
              &(struct sim_event){
                  .kind = SIM_TIMER, .proc = c->proc->number, .run = wake_run});
}

static void pause_part(struct crew *c, struct part *p)
{
    uint64_t us = (uint64_t)PAUSE_FIRST_US << (p->tries < 7 ? p->tries : 7);

    if (us > PAUSE_MOST_US)
        us = PAUSE_MOST_US;
    p->tries++;
    p->due_us = sim_now(c->sim) + us / 2 + sim_below(c->sim, us + 1);
}

static void rest(struct part *p)
{
    p->want = PART_REST;
    p->tries = 0;
    p->due_us = 0;
}

// W1: the shard is not what it was taken for.
static void lose(struct crew *c, struct part *p)
{
    evidence_void(&p->evidence);
    p->have = false;
    c->task.again = true;
    c->task.map_wanted = true;
    c->sim->seen.void_evidence++;
    rest(p);
}

// ---- calls

static void call_ask(struct crew *c, struct part *p, uint32_t i)
{
    struct wire_ask m = {
        .job = lease_of(c)->job,
        .job_incarnation = lease_of(c)->job_incarnation,
        .incarnation = c->map[i].incarnation,
        .closure = lease_of(c)->closure,
        .attempt = attempt_of(c),
        .shard = i,
    };
    uint8_t head[WIRE_HEAD_MAX];

    p->call = net_call(c->sim, c->proc, CALL_ASK, c->map[i].address, head,
                       wire_encode_ask(head, &m), NULL, 0);
}

static void call_pull(struct crew *c, struct part *p, uint32_t i)
{
    struct wire_pull m = {
        .job = lease_of(c)->job,
        .job_incarnation = lease_of(c)->job_incarnation,
        .shard = i,
    };
    uint8_t head[WIRE_HEAD_MAX];

    if (p->want == PART_CUT) {
        m.has_tag = true;
        m.tag = wire_tag_of(lease_of(c)->tags[i]);
    } else {
        m.incarnation = c->map[i].incarnation;
    }
    p->call = net_call(c->sim, c->proc, CALL_PULL, c->map[i].address, head,
                       wire_encode_pull(head, &m), NULL, 0);
}

static uint64_t step_digest(const struct crew *c, uint64_t *samples)
{
    const struct schedule *s = &c->sim->knobs.schedule;
    uint64_t closure = lease_of(c)->closure, first, digest = 0;

    schedule_step_range(s, closure, c->task.step, &first, samples);
    for (uint64_t i = first; i < first + *samples; i++)
        digest += schedule_digest(schedule_epoch(s, closure), i);
    return digest;
}

// In sync the mean of a round is applied: what makes it the sum.
static double round_size(const struct crew *c)
{
    const struct knobs *k = &c->sim->knobs;
    uint64_t epoch = schedule_closures_per_epoch(&k->schedule);
    uint64_t place, left;

    if (k->contributions == 0)
        return 1;
    place = lease_of(c)->closure % epoch;
    left = epoch - place / k->contributions * k->contributions;
    return (double)(left < k->contributions ? left : k->contributions);
}

static void call_push(struct crew *c, struct part *p, uint32_t i)
{
    struct wire_push m = {
        .job = lease_of(c)->job,
        .job_incarnation = lease_of(c)->job_incarnation,
        .incarnation = p->evidence.incarnation,
        .closure = lease_of(c)->closure,
        .attempt = attempt_of(c),
        .based_on = p->version,
        .map_version = c->map_version,
        .shard = i,
        .step = c->task.step,
        .skip = p->skip,
    };
    size_t bytes = p->skip ? 0 : c->elements[i] * sizeof(float);
    uint8_t head[WIRE_HEAD_MAX];
    double v[SIM_FIELDS];
    float gradient[64];

    T_LE(c->elements[i], SL_COUNT(gradient));
    m.digest = step_digest(c, &m.samples);
    if (c->sim->knobs.soak == NULL)
        truth_step(v, m.closure, m.step);
    else
        v[0] = v[1] = v[2] = v[3] = 1;
    for (uint64_t k = 0; k < c->elements[i]; k++)
        gradient[k] = (float)(v[k % SIM_FIELDS] * round_size(c));
    p->call = net_call(c->sim, c->proc, CALL_PUSH, c->map[i].address, head,
                       wire_encode_push(head, &m, bytes), gradient, bytes);
}

static void start_call(struct crew *c, struct part *p)
{
    uint32_t i = number_of(c, p);

    if (c->map[i].incarnation == 0) { // nobody serves it now
        pause_part(c, p);
        c->task.map_wanted = true;
        return;
    }
    if (p->want == PART_ASK)
        call_ask(c, p, i);
    else if (p->want == PART_PUSH)
        call_push(c, p, i);
    else
        call_pull(c, p, i);
}

static void want_map(struct crew *c)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__MapWanted m = SLUICE__V1__MAP_WANTED__INIT;

    if (!c->task.map_wanted ||
        sim_now(c->sim) - c->task.map_asked_us < MAP_EVERY_US)
        return;
    c->task.map_asked_us = sim_now(c->sim);
    m.job = lease_of(c)->job;
    m.have_version = c->map_version;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_MAP_WANTED;
    up.map_wanted = &m;
    session_up(c->sim, c->proc, &up);
}

static void start_due(struct crew *c)
{
    uint64_t now = sim_now(c->sim);

    for (uint32_t i = 0; i < c->shards; i++) {
        struct part *p = &c->task.parts[i];

        if (p->want == PART_REST || p->call != 0)
            continue;
        if (p->due_us <= now)
            start_call(c, p);
        if (p->call == 0)
            wake_at(c, p->due_us);
    }
    want_map(c);
}

// ---- what answers mean: trainer/push/sync_ps_absorb.c

static void refused(struct crew *c, struct part *p, enum wire_refused_why why)
{
    if (why == WIRE_REFUSED_ATTEMPT || why == WIRE_REFUSED_JOB_INCARNATION) {
        c->task.fenced = true;
        rest(p);
    } else if (why == WIRE_REFUSED_ROUND && p->want == PART_ASK &&
               c->proc->slot % 4 != 3 && !c->proc->draining && !c->task.left) {
        pause_part(c, p); // leased ahead
    } else if (why == WIRE_REFUSED_ROUND) {
        c->task.early = true;
        c->sim->seen.early++;
        rest(p);
    } else if (p->want == PART_ASK) {
        pause_part(c, p);
        c->task.map_wanted = true;
    } else {
        lose(c, p);
    }
}

static void fresh(struct part *p, uint64_t incarnation, uint64_t version)
{
    p->have = true;
    p->have_incarnation = incarnation;
    p->version = version;
    rest(p);
}

static void pushed(struct crew *c, struct part *p,
                   const struct wire_push_reply *r)
{
    Sluice__V1__StepMetrics *m = &c->task.metrics;
    uint64_t samples;

    if (r->result == WIRE_PUSH_REFUSED) {
        refused(c, p, r->refused.why);
        return;
    }
    if (!evidence_note(&p->evidence, r->incarnation, c->task.step)) {
        lose(c, p);
        return;
    }
    p->held = r->result == WIRE_PUSH_HELD; // (Y3)
    p->closed =
        c->sim->knobs.contributions > 0 && r->result == WIRE_PUSH_COUNTED;
    if (p == &c->task.parts[0] && r->result != WIRE_PUSH_DUPLICATE) {
        (void)step_digest(c, &samples);
        m->steps++;
        m->samples += samples;
        m->loss_sum += (double)samples;
        m->correct += samples / 2;
        m->skipped += p->skip;
    }
    if (p->held)
        rest(p);
    else
        fresh(p, r->incarnation, r->version);
}

static void asked(struct crew *c, struct part *p,
                  const struct wire_ask_reply *r)
{
    if (r->refused.why != WIRE_REFUSED_NOT) {
        refused(c, p, r->refused.why);
        return;
    }
    evidence_take(&p->evidence, r->incarnation, r->counted, r->counted_bytes);
    if (p->have_incarnation != r->incarnation)
        p->have = false;
    rest(p);
}

static void pulled(struct crew *c, struct part *p, const struct sim_reply *r)
{
    const struct ledger *l;
    uint32_t i = number_of(c, p);

    if (p->want == PART_CUT && c->sim->knobs.soak != NULL) {
        rest(p);
    } else if (p->want == PART_CUT) {
        l = truth_snapshot(c->sim, i, wire_tag_of(lease_of(c)->tags[i]));
        T_TRUE(l != NULL);
        T_EQ(r->elements, c->elements[i]);
        truth_values(l, r->values, r->elements);
        rest(p);
    } else if (r->pull.incarnation != p->evidence.incarnation) {
        lose(c, p);
    } else {
        fresh(p, r->pull.incarnation, r->pull.version);
    }
}

// Mostly the outcome is unknown: the same again.
static void failed_call(struct crew *c, struct part *p, enum sl_err rc)
{
    bool moved = rc == SL_ENOENT || rc == SL_ESTALE || rc == SL_ESTATE;
    bool final = !moved && !sl_err_transient(rc);

    if ((p->want == PART_CUT && moved) || final) {
        T_TRUE(p->want == PART_CUT); // nothing else can fail for good
        c->task.failed = true;
        rest(p);
        return;
    }
    pause_part(c, p);
    if (moved || p->tries > TRIES_BEFORE_MAP)
        c->task.map_wanted = true;
}

void task_answer(struct crew *c, struct part *p, const struct sim_reply *r)
{
    uint32_t i = number_of(c, p);

    p->call = 0;
    if (r == NULL)
        failed_call(c, p, SL_ETIMEDOUT);
    else if (r->rc != SL_OK)
        failed_call(c, p, r->rc);
    else if (p->want == PART_ASK)
        asked(c, p, &r->ask);
    else if (p->want == PART_PUSH)
        pushed(c, p, &r->push);
    else
        pulled(c, p, r);
    // Meanwhile the map may have named another incarnation.
    if (p->want == PART_REST && c->task.phase != TASK_CUT &&
        !evidence_map(&p->evidence, c->map[i].incarnation))
        lose(c, p);
}

void task_map(struct crew *c)
{
    if (c->task.phase == TASK_NONE)
        return;
    for (uint32_t i = 0; i < c->shards; i++) {
        struct part *p = &c->task.parts[i];

        p->due_us = 0; // it may be somewhere else now
        if (p->want == PART_CUT || p->call != 0)
            continue; // what is in flight tells by itself
        if (!evidence_map(&p->evidence, c->map[i].incarnation))
            lose(c, p);
    }
    c->task.map_wanted = false;
}

// ---- phases

static void computed_run(struct sim *s, struct sim_event *e)
{
    struct crew *c = proc_get(s, e->proc)->self;

    if (c->task.phase != TASK_COMPUTE || c->task.number != e->a)
        return;
    c->task.phase = TASK_PUSH;
    if (c->task.grouped && !place_sums(c)) {
        c->task.again = true; // a step of no one: computed again
        s->seen.lost_steps++;
    }
    if (task_gate_open(c) && !c->task.again) {
        bool skip = sim_chance(s, s->knobs.skips);

        for (uint32_t i = 0; i < c->shards; i++) {
            struct part *p = &c->task.parts[i];

            p->want = evidence_has(&p->evidence, c->task.step) ? PART_PULL
                                                               : PART_PUSH;
            p->skip = skip;
        }
    }
    task_drive(c);
}

static void compute(struct crew *c)
{
    uint64_t us = c->sim->knobs.compute_us;

    c->task.phase = TASK_COMPUTE;
    sim_after(c->sim, us / 2 + sim_below(c->sim, us),
              &(struct sim_event){.kind = SIM_COMPUTED,
                                  .proc = c->proc->number,
                                  .a = ++c->task.number,
                                  .run = computed_run});
}

// Asks and pulls whatever is missing; true when nothing is.
static bool all_known(struct crew *c)
{
    bool known = true;

    for (uint32_t i = 0; i < c->shards; i++) {
        struct part *p = &c->task.parts[i];

        if (p->want == PART_REST && !evidence_known(&p->evidence))
            p->want = PART_ASK;
        else if (p->want == PART_REST && !p->have)
            p->want = PART_PULL;
        known = known && p->want == PART_REST;
    }
    return known;
}

static void open_task(struct crew *c)
{
    const Sluice__V1__Lease *l = lease_of(c);
    struct task *t = &c->task;

    *t = (struct task){.phase = TASK_BEGIN,
                       .number = t->number,
                       .map_asked_us = t->map_asked_us,
                       .wake_us = t->wake_us};
    t->metrics = (Sluice__V1__StepMetrics)SLUICE__V1__STEP_METRICS__INIT;
    if (c->place != NULL && l->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        place_open_task(c);
    if (l->kind != SLUICE__V1__LEASE_KIND__LEASE_EVALUATE)
        return;
    t->phase = TASK_CUT;
    t->metrics.steps = l->steps;
    t->metrics.samples = l->count;
    t->metrics.correct = l->count / 2;
    t->metrics.loss_sum = (double)l->count;
    for (uint32_t i = 0; i < c->shards; i++)
        t->parts[i].want = PART_CUT;
}

// The step that comes next; false if every shard has them all.
static bool next_step(struct crew *c)
{
    c->task.step = lease_of(c)->steps;
    return evidence_first_missing(
               &c->task.parts[0].evidence, sizeof(struct part), c->shards,
               lease_of(c)->steps, 0, &c->task.step) == EVIDENCE_STEP;
}

// True if the lease came to its end.
static bool ended(struct crew *c)
{
    struct task *t = &c->task;

    if (t->failed)
        task_finish(c, TASK_FAILED);
    else if (t->fenced || t->early)
        task_finish(c, TASK_HAND_BACK);
    else if (c->revoked[0])
        task_finish(c, c->ended ? TASK_DROPPED : TASK_HAND_BACK);
    else if (!task_gate_open(c))
        task_finish(c, TASK_HAND_BACK);
    else
        return false;
    return true;
}

// One step onwards; true if there may be another at once.
static bool advance(struct crew *c)
{
    struct task *t = &c->task;

    if (ended(c))
        return true;
    if (lease_of(c)->kind == SLUICE__V1__LEASE_KIND__LEASE_PROBE) {
        task_finish(c, TASK_COMPLETE);
        return true;
    }
    if (t->phase == TASK_CUT && all_at_rest(c)) {
        task_finish(c, TASK_COMPLETE);
        return true;
    }
    if (t->phase == TASK_PUSH && all_at_rest(c)) {
        t->phase = TASK_BEGIN;
        if (c->proc->draining) {
            task_finish(c, TASK_HAND_BACK);
            return true;
        }
    }
    if (t->phase == TASK_BEGIN && t->grouped && place_parted(c)) {
        c->sim->seen.parted++;
        task_finish(c, TASK_HAND_BACK);
        return true;
    }
    if (t->phase == TASK_BEGIN && all_known(c)) {
        t->again = false;
        if (next_step(c)) {
            if (!t->grouped || place_meets(c))
                compute(c);
        } else {
            task_finish(c, TASK_COMPLETE);
            return true;
        }
    }
    start_due(c);
    return false;
}

void task_drive(struct crew *c)
{
    bool more = c->rank == NULL;

    if (!more)
        rank_drive(c);
    if (c->place != NULL)
        place_drive(c);

    while (more && c->leases_count > 0) {
        if (c->task.phase == TASK_NONE)
            open_task(c);
        more = advance(c);
    }
}
