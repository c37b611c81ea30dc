// SPDX-License-Identifier: Apache-2.0
// tests/sim/truth.c -- see truth.h.
#include "tests/sim/truth.h"

#include "common/base/rng.h"
#include "plan/tables.h"
#include "tests/sim/disk.h"
#include "tests/sim/truth_own.h"

// ---- numbers

static uint64_t prime(uint64_t n) // the n-th, from 0
{
    static uint64_t found[SIM_CLOSURES];
    static unsigned count;

    for (uint64_t x = count == 0 ? 2 : found[count - 1] + 1; count <= n; x++) {
        bool is = true;

        for (unsigned i = 0; is && i < count && found[i] * found[i] <= x; i++)
            is = x % found[i] != 0;
        if (is)
            found[count++] = x;
    }
    return found[n];
}

void truth_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step)
{
    out[0] = (double)prime(closure);
    out[1] = 1;
    out[2] = (double)closure + 1;
    out[3] = (double)step + 1;
}

uint64_t truth_index(struct sim *s, uint64_t closure, uint32_t step)
{
    return schedule_global_step(&s->knobs.schedule, closure, step);
}

static void ledger_add(struct sim *s, struct ledger *l, uint64_t closure,
                       uint32_t step, uint8_t how, uint8_t shares)
{
    double v[SIM_FIELDS];

    l->of[truth_index(s, closure, step)] = how;
    l->shares[truth_index(s, closure, step)] = shares;
    truth_step(v, closure, step);
    for (unsigned i = 0; how == TRUTH_APPLIED && i < SIM_FIELDS; i++)
        l->sum[i] += v[i] * shares;
}

void truth_values(const struct ledger *l, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        T_EQ((int64_t)values[i], -(int64_t)l->sum[i % SIM_FIELDS]);
    for (size_t i = 0; i < count; i++) // and no fraction
        T_TRUE((float)(int64_t)values[i] == values[i]);
}

uint64_t truth_row(uint32_t shard, uint32_t shards)
{
    uint64_t id = 0;

    while (table_shard(table_bucket(table_hash(id), TABLE_BUCKETS),
                       TABLE_BUCKETS, shards) != shard)
        id++;
    return id;
}

void truth_rows(const struct ledger *l, const struct shard *shard)
{
    const struct rowset_spec *spec;
    float values[SIM_FIELDS];
    uint64_t id;

    if (shard->tables.count == 0)
        return;
    spec = &shard->plan.tables[0].spec;
    id = truth_row(spec->shard, spec->shards);
    T_EQ(spec->dim, SIM_FIELDS);
    (void)rowset_look(shard->tables.sets[0], 1, &id, values, NULL);
    truth_values(l, values, SIM_FIELDS);
}

// Where a global step below schedule_steps lies.
static void find_step(const struct schedule *s, uint64_t global_step,
                      uint64_t *closure, uint32_t *step)
{
    uint64_t per_epoch = schedule_steps_per_epoch(s);
    uint64_t in_epoch = global_step % per_epoch;

    *closure = global_step / per_epoch * schedule_closures_per_epoch(s) +
               in_epoch / s->steps_per_closure;
    *step = (uint32_t)(in_epoch % s->steps_per_closure);
}

uint64_t truth_low(struct sim *s, const struct ledger *l)
{
    const struct schedule *sched = &s->knobs.schedule;
    uint64_t closure = schedule_closures(sched);
    uint32_t step;

    for (uint64_t i = schedule_steps(sched); i-- > 0;)
        if (l->of[i] == TRUTH_NOT)
            find_step(sched, i, &closure, &step);
    return closure;
}

void truth_equal(const struct ledger *l, const struct counted *counted)
{
    const struct schedule *sched = &counted->schedule;

    for (uint64_t i = 0; i < schedule_steps(sched); i++) {
        uint64_t closure;
        uint32_t step;

        find_step(sched, i, &closure, &step);
        if (counted_has(counted, closure, step) != (l->of[i] != TRUTH_NOT))
            T_FAIL("once: closure %llu step %u is %s the set, %s counted",
                   (unsigned long long)closure, step,
                   l->of[i] == TRUTH_NOT ? "in" : "not in",
                   l->of[i] == TRUTH_NOT ? "was never" : "but was");
    }
}

// The shard is what its ledger says, after whatever just happened.
static void check_memory(const struct memory *m)
{
    const struct shard *shard = m->shard;
    const struct once *o = &shard->once;
    uint64_t counted = 0, applied = 0;

    for (unsigned i = 0; i < SIM_STEPS; i++) {
        counted += m->ledger.of[i] != TRUTH_NOT;
        applied += m->ledger.of[i] == TRUTH_APPLIED;
    }
    T_EQ(counted_steps(&o->counted), counted);
    T_EQ(o->counts.applied, applied);
    T_EQ(o->counts.skipped, counted - applied);
    truth_values(&m->ledger, shard->memory.values, shard->plan.elements);
    truth_rows(&m->ledger, shard);
}

static void check_loaded(struct sim *s, const struct memory *m)
{
    check_memory(m);
    rounds_whole(s, &m->ledger);
}

// ---- memories

struct memory *truth_incarnation(struct sim *s, uint32_t shard,
                                 uint64_t incarnation)
{
    list_for(n, &s->truth->memories)
    {
        struct memory *m = list_entry(n, struct memory, node);

        for (unsigned i = 0; i < m->incarnations_count; i++)
            if (m->number == shard && m->incarnations[i] == incarnation)
                return m;
    }
    return NULL;
}

// I1: an incarnation is one memory's, and the coordinator gave it. K7: no
// memory gets one that is behind the last cut.
static void note_incarnation(struct sim *s, struct memory *m)
{
    uint64_t now = m->shard->incarnation;
    unsigned n = m->incarnations_count;

    if (now == 0 || (n > 0 && m->incarnations[n - 1] == now))
        return;
    if (n > 0)
        T_GT(now, m->incarnations[n - 1]);
    T_GT(now, m->from.incarnation);
    T_LE(now, truth_newest(s, m->number));
    if (truth_incarnation(s, m->number, now) != NULL)
        T_FAIL("I1: shard %u: incarnation %llu is another memory's already",
               m->number, (unsigned long long)now);
    // One that hears of it late, when another was admitted, is a zombie.
    if (n == 0 && now == truth_newest(s, m->number) &&
        wire_tag_cmp(m->from, cuts_last(s, m->number)) < 0)
        T_FAIL("K7: shard %u was admitted behind the last cut", m->number);
    T_LT(n, TRUTH_INCARNATIONS);
    m->incarnations[n] = now;
    m->incarnations_count = n + 1;
    if (n == 0) {
        s->seen.admissions++;
        s->seen.fallbacks += now > 1;
    }
}

// What was loaded was counted by the memory that wrote the snapshot, and is
// what was reported if it was.
static void load_ledger(struct sim *s, struct memory *m)
{
    const struct counted *set = &m->shard->once.counted;
    const struct ledger *reported = truth_snapshot(s, m->number, m->from);
    struct memory *writer;

    if (m->from.incarnation == 0)
        return; // the seed: nothing
    writer = truth_incarnation(s, m->number, m->from.incarnation);
    T_TRUE(writer != NULL);
    for (uint64_t i = 0; i < schedule_steps(&set->schedule); i++) {
        uint64_t closure;
        uint32_t step;

        find_step(&set->schedule, i, &closure, &step);
        if (!counted_has(set, closure, step))
            continue;
        if (writer->ledger.of[i] == TRUTH_NOT)
            T_FAIL("once: shard %u loaded closure %llu step %u from "
                   "%llu.%llu, which never counted it",
                   m->number, (unsigned long long)closure, step,
                   (unsigned long long)m->from.incarnation,
                   (unsigned long long)m->from.sequence);
        ledger_add(s, &m->ledger, closure, step, writer->ledger.of[i],
                   writer->ledger.shares[i]);
    }
    if (reported != NULL)
        T_MEM(reported->of, m->ledger.of, sizeof(reported->of));
}

static struct memory *find(struct sim *s, const struct shard *shard)
{
    list_for(n, &s->truth->memories)
    {
        struct memory *m = list_entry(n, struct memory, node);

        if (m->shard == shard)
            return m;
    }
    return NULL;
}

struct memory *truth_memory(struct sim *s, struct proc *p, struct shard *shard)
{
    struct memory *m = find(s, shard);

    if (s->knobs.soak != NULL)
        return NULL;
    if (m == NULL) {
        m = calloc(1, sizeof(*m));
        T_ASSERT(m != NULL);
        m->proc = p->number;
        m->number = shard->plan.shard;
        m->shard = shard_ref(shard); // so that no other gets its address
        m->from = shard->from;
        list_push_front(&s->truth->memories, &m->node);
        load_ledger(s, m);
        check_loaded(s, m);
    }
    T_EQ(m->proc, p->number);
    note_incarnation(s, m);
    return m;
}

void truth_gone(struct sim *s, struct proc *p)
{
    list_for(n, &s->truth->memories)
    {
        struct memory *m = list_entry(n, struct memory, node);

        if (m->proc != p->number)
            continue;
        shard_unref(m->shard);
        m->shard = NULL;
    }
}

// ---- calls

static void see(struct memory *m, uint64_t closure, struct wire_attempt attempt)
{
    if (closure < SIM_CLOSURES &&
        wire_attempt_cmp(attempt, m->newest[closure]) > 0)
        m->newest[closure] = attempt;
}

// S5: not admitted, it answers nothing, not even a refusal.
static void check_answer(struct sim *s, const struct memory *m, enum sl_err rc)
{
    s->seen.unadmitted += rc == SL_EUNAVAIL;
    if (rc == SL_OK && (m->shard->closed || m->shard->incarnation == 0))
        T_FAIL("S5: shard %u answers, and is not admitted", m->number);
}

void truth_ask(struct sim *s, struct memory *m, const struct wire_ask *ask,
               enum sl_err rc, const struct wire_ask_reply *reply)
{
    check_memory(m);
    check_answer(s, m, rc);
    if (rc != SL_OK || reply->refused.why != WIRE_REFUSED_NOT)
        return;
    T_EQ(ask->incarnation, m->shard->incarnation); // I3
    T_EQ(reply->incarnation, ask->incarnation);
    see(m, ask->closure, ask->attempt);
    for (uint32_t i = 0;
         i < schedule_closure_steps(&s->knobs.schedule, ask->closure); i++)
        T_EQ(reply->counted[i / 8] >> i % 8 & 1,
             m->ledger.of[truth_index(s, ask->closure, i)] != TRUTH_NOT);
}

void truth_uncount(struct sim *s, struct ledger *l, uint64_t closure,
                   uint32_t step)
{
    double v[SIM_FIELDS];
    uint8_t *how = &l->of[truth_index(s, closure, step)];

    T_NE(*how, TRUTH_NOT);
    truth_step(v, closure, step);
    for (unsigned i = 0; *how == TRUTH_APPLIED && i < SIM_FIELDS; i++)
        l->sum[i] -= v[i];
    *how = TRUTH_NOT;
}

void truth_count(struct sim *s, struct memory *m, uint64_t closure,
                 uint32_t step, bool skip)
{
    truth_count_shares(s, m, closure, step, skip, 1);
}

void truth_count_shares(struct sim *s, struct memory *m, uint64_t closure,
                        uint32_t step, bool skip, unsigned shares)
{
    if (m->ledger.of[truth_index(s, closure, step)] != TRUTH_NOT)
        T_FAIL("once: shard %u counted closure %llu step %u twice (S2)",
               m->number, (unsigned long long)closure, step);
    ledger_add(s, &m->ledger, closure, step,
               skip ? TRUTH_SKIPPED : TRUTH_APPLIED, (uint8_t)shares);
    s->seen.counted++;
    s->seen.skipped += skip;
}

static void note_taken(struct sim *s, struct memory *m,
                       const struct wire_push *push, bool held)
{
    if (wire_attempt_cmp(push->attempt, m->newest[push->closure]) < 0)
        T_FAIL("fenced: shard %u took an older attempt of closure %llu (I4)",
               m->number, (unsigned long long)push->closure);
    if (s->knobs.open > 0 && s->knobs.quorum > 1)
        rounds_open(s, m, push, held);
    else if (held)
        rounds_hold(s, m, push);
    else if (s->knobs.contributions > 0)
        rounds_close(s, m, push);
    else
        truth_count(s, m, push->closure, push->step, push->skip);
}

void truth_push(struct sim *s, struct memory *m, const struct wire_push *push,
                enum sl_err rc, const struct wire_push_reply *reply,
                const float *values)
{
    bool held = rc == SL_OK && reply->result == WIRE_PUSH_HELD;

    check_answer(s, m, rc);
    if (held || (rc == SL_OK && reply->result == WIRE_PUSH_COUNTED))
        note_taken(s, m, push, held);
    if (rc == SL_OK && reply->result == WIRE_PUSH_DUPLICATE) {
        T_NE(m->ledger.of[truth_index(s, push->closure, push->step)],
             TRUTH_NOT);
        s->seen.duplicates++;
    }
    check_memory(m);
    s->seen.rejected += rc != SL_OK && rc != SL_EUNAVAIL;
    if (rc != SL_OK)
        return; // `inert`: nothing has changed
    T_EQ(reply->incarnation, m->shard->incarnation);
    if (reply->result == WIRE_PUSH_REFUSED) {
        s->seen.refused++;
        return;
    }
    T_EQ(push->incarnation, m->shard->incarnation); // I3
    see(m, push->closure, push->attempt);
    if (!held)
        truth_values(&m->ledger, values, m->shard->plan.elements);
    // C5 bounds what a shard has to remember: the window, and what was leased
    // before a shard fell back and took the window with it.
    T_LE(counted_sparse(&m->shard->once.counted),
         s->knobs.window + 4 * s->knobs.workers);
}

void truth_pull(struct sim *s, struct memory *m, const struct wire_pull *pull,
                enum sl_err rc, const struct wire_pull_reply *reply,
                const float *values)
{
    const struct ledger *l = &m->ledger;
    struct ledger before;

    check_memory(m);
    check_answer(s, m, rc);
    if (rc != SL_OK)
        return;
    T_EQ(reply->incarnation, m->shard->incarnation);
    if (reply->version != once_version(&m->shard->once)) {
        rounds_before(s, l, pull, &before);
        l = &before;
    }
    truth_values(l, values, m->shard->plan.elements);
}

// ---- what psservers say

static void check_set(struct sim *s, const struct ledger *l,
                      const Sluice__V1__CountedSet *set)
{
    struct counted counted;

    T_OK(wire_counted_read(&counted, &s->knobs.schedule, set, t_err()));
    truth_equal(l, &counted);
    counted_release(&counted);
}

void truth_hello(struct sim *s, struct memory *m,
                 const Sluice__V1__ShardHello *hello)
{
    check_memory(m);
    check_set(s, &m->ledger, hello->counted);
    T_EQ(wire_tag_cmp(wire_tag_of(hello->loaded), m->from), 0);
    if (hello->live_incarnation != 0)
        T_EQ(hello->live_incarnation, m->shard->incarnation);
}

const struct ledger *truth_snapshot(struct sim *s, uint32_t shard,
                                    struct wire_tag tag)
{
    list_for(n, &s->truth->snapshots)
    {
        struct snapshot *r = list_entry(n, struct snapshot, node);

        if (r->number == shard && wire_tag_cmp(r->tag, tag) == 0)
            return &r->ledger;
    }
    return NULL;
}

struct shard *truth_shard(struct sim *s, uint32_t shard)
{
    struct shard *made = NULL;
    struct plan plan;

    T_TRUE(s->truth->specs[shard] != NULL);
    T_OK(plan_read(&plan, s->truth->specs[shard], t_err()));
    T_OK(shard_new(&made, &plan));
    return made;
}

static void fill_ledger(struct sim *s, struct ledger *out,
                        const struct memory *m, const struct counted *set)
{
    for (uint64_t i = 0; i < schedule_steps(&s->knobs.schedule); i++) {
        uint64_t closure;
        uint32_t step;

        find_step(&s->knobs.schedule, i, &closure, &step);
        if (!counted_has(set, closure, step))
            continue;
        T_NE(m->ledger.of[i], TRUTH_NOT);
        ledger_add(s, out, closure, step, m->ledger.of[i], m->ledger.shares[i]);
    }
}

// A psserver that was replaced reports what its successor has already deleted,
// as it may (K3).
static bool deleted(struct sim *s, struct proc *p, uint32_t shard,
                    struct wire_tag tag, const char *path)
{
    return s->slots[p->slot].now != p->number &&
           wire_tag_cmp(tag, cuts_last(s, shard)) < 0 &&
           !fs_exists(crash_fs_ops(p->files.disk), path);
}

// K1, K2, S1, E1: the file is durable, holds one instant of the memory, and the
// report tells what the file holds.
void truth_report(struct sim *s, struct proc *p,
                  const Sluice__V1__SnapshotReport *report)
{
    struct wire_tag tag = wire_tag_of(report->tag);
    struct memory *m = truth_incarnation(s, report->shard, tag.incarnation);
    struct snapshot *r;
    struct shard *file;
    char path[512];

    T_TRUE(m != NULL && m->proc == p->number);
    T_TRUE(truth_snapshot(s, report->shard, tag) == NULL); // K1
    snprintf(path, sizeof(path), "%s/%s", report->folder, report->file);
    if (deleted(s, p, report->shard, tag, path))
        return;
    if (!crash_fs_durable(p->files.disk, path))
        T_FAIL("K2: %s was reported and is not durable", path);
    file = truth_shard(s, report->shard);
    T_OK(snap_read(crash_fs_ops(p->files.disk), report->folder, tag,
                   (struct wire_tag){0, 0}, file, t_err()));
    r = calloc(1, sizeof(*r));
    T_ASSERT(r != NULL);
    r->number = report->shard;
    r->tag = tag;
    fill_ledger(s, &r->ledger, m, &file->once.counted);
    truth_values(&r->ledger, file->memory.values, file->plan.elements);
    rounds_whole(s, &r->ledger);
    check_set(s, &r->ledger, report->counted);
    T_EQ(report->counts->counted, counted_steps(&file->once.counted));
    shard_unref(file);
    list_push_front(&s->truth->snapshots, &r->node);
}

// ---- what the coordinator says and believes

void truth_place(struct sim *s, const Sluice__V1__ShardSpec *spec)
{
    ProtobufCMessage *copy = NULL;

    T_LT(spec->shard, SIM_SHARDS);
    if (s->truth->specs[spec->shard] != NULL)
        return;
    T_OK(wire_dup(&copy, &spec->base));
    s->truth->specs[spec->shard] = (Sluice__V1__ShardSpec *)copy;
}

void truth_admit(struct sim *s, uint32_t shard, uint64_t incarnation)
{
    T_GE(incarnation, s->truth->newest[shard]); // I1: never falls
    s->seen.renewals += incarnation == s->truth->newest[shard];
    s->truth->newest[shard] = incarnation;
}

uint64_t truth_newest(struct sim *s, uint32_t shard)
{
    return s->truth->newest[shard];
}

void truth_mark(struct sim *s)
{
    memcpy(s->truth->marked, s->truth->newest, sizeof(s->truth->marked));
}

uint64_t truth_marked(struct sim *s, uint32_t shard)
{
    return s->truth->marked[shard];
}

void truth_evidence(struct sim *s, uint32_t shard, uint64_t incarnation,
                    const struct counted *believed)
{
    struct memory *m = truth_incarnation(s, shard, incarnation);

    for (uint64_t i = 0; m != NULL && i < schedule_steps(&s->knobs.schedule);
         i++) {
        uint64_t closure;
        uint32_t step;

        find_step(&s->knobs.schedule, i, &closure, &step);
        if (counted_has(believed, closure, step) &&
            m->ledger.of[i] == TRUTH_NOT)
            T_FAIL("C1: the coordinator believes that shard %u (incarnation "
                   "%llu) counted closure %llu step %u, which it has not",
                   shard, (unsigned long long)incarnation,
                   (unsigned long long)closure, step);
    }
}

// ---- life

void truth_new(struct sim *s)
{
    s->truth = calloc(1, sizeof(*s->truth));
    T_ASSERT(s->truth != NULL);
    list_init(&s->truth->memories);
    list_init(&s->truth->snapshots);
}

void truth_free(struct sim *s)
{
    struct list_node *n;

    cuts_free(s);
    while ((n = list_pop_front(&s->truth->memories)) != NULL) {
        shard_unref(list_entry(n, struct memory, node)->shard);
        free(list_entry(n, struct memory, node));
    }
    while ((n = list_pop_front(&s->truth->snapshots)) != NULL)
        free(list_entry(n, struct snapshot, node));
    for (unsigned i = 0; i < SIM_SHARDS; i++)
        wire_free((ProtobufCMessage *)s->truth->specs[i]);
    free(s->truth);
}
