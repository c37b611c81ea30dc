// SPDX-License-Identifier: Apache-2.0
// The worker of the world: one push to one shard at a time, by W1 and W2.
#include <math.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "plan/audited.h"
#include "proto/spec.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world_members.h"

static bool of_ring(const struct fake_lease *f)
{
    return f->lease->kind == SLUICE__V1__LEASE_KIND__LEASE_RING;
}

static void drop_lease(struct fake_member *m, unsigned i)
{
    if (of_ring(&m->leases[i]))
        fake_rank_leave(m);
    wire_free((ProtobufCMessage *)m->leases[i].lease);
    m->leases_count--;
    memmove(&m->leases[i], &m->leases[i + 1],
            (m->leases_count - i) * sizeof(m->leases[0]));
}

void fake_worker_drop(struct fake_member *m)
{
    while (m->leases_count > 0)
        drop_lease(m, 0);
}

static void take_map(struct fake_member *m, const Sluice__V1__JobMap *map)
{
    if (map->since != 0) // the changes fit what we have
        T_EQ(map->since, m->map_version);
    for (size_t i = 0; i < map->n_shards; i++)
        m->map[map->shards[i]->shard] = map->shards[i]->incarnation;
    m->map_version = map->version;
    m->map_entries = map->n_shards;
}

static void take_lease(struct world *w, struct fake_member *m,
                       const Sluice__V1__Lease *lease)
{
    ProtobufCMessage *copy = NULL;

    m->closures = lease->closures;
    if (lease->kind != SLUICE__V1__LEASE_KIND__LEASE_PROBE)
        T_EQ(m->opened, lease->job); // JobOpen came first
    // A worker that hung may get new leases before it drops those it lost.
    if (m->leases_count == SL_COUNT(m->leases))
        drop_lease(m, 0);
    T_OK(wire_dup(&copy, &lease->base));
    for (unsigned i = 0; i < m->leases_count; i++) {
        // The ring is the same; it goes on there until it is asked to leave.
        if (lease->kind == SLUICE__V1__LEASE_KIND__LEASE_RING &&
            of_ring(&m->leases[i])) {
            wire_free(&m->leases[i].lease->base);
            m->leases[i].lease = (Sluice__V1__Lease *)copy;
            return;
        }
    }
    memset(&m->leases[m->leases_count], 0, sizeof(m->leases[0]));
    m->leases[m->leases_count++].lease = (Sluice__V1__Lease *)copy;
}

// Results of an audited round: right ones depend on the slot alone.
struct fake_repeats {
    Sluice__V1__Repeat items[AUDITED_WORKERS], *list[AUDITED_WORKERS];
    struct sketch sketches[AUDITED_WORKERS];
};

// Right results of two kinds differ in bits, and by a millionth in sketches.
void fake_result_of(struct world *w, const struct fake_member *m,
                    Sluice__V1__Repeat *result, struct sketch *sketch)
{
    bool wrong = m->flips > 0 && world_below(w, m->flips) == 0;

    *sketch = (struct sketch){{1, 1 + 1e-6 * (double)m->kind, wrong}};
    result->kind = m->kind;
    result->output += m->kind << 40;
    if (wrong)
        result->output ^= UINT64_C(1) << world_below(w, 32);
    result->sketch = sketch->of;
    result->n_sketch = m->kind == 0 ? 0 : SKETCH_NUMBERS;
}

// The two results of a step in async (A5), of which the second has `flip`.
static void repeat_own(const struct fake_member *m, uint64_t closure,
                       uint64_t flip, struct fake_repeats *r)
{
    for (unsigned i = 0; i < 2; i++) {
        r->items[i] = (Sluice__V1__Repeat)SLUICE__V1__REPEAT__INIT;
        r->items[i].closure = closure + (m->meddles ? 3 : 0);
        r->items[i].inputs = m->rereads ? i : 7;
        r->items[i].output = i == 0 ? 1000 : 1000 ^ flip;
        r->list[i] = &r->items[i];
    }
}

static void hand_back_with(struct fake_member *m, const Sluice__V1__Lease *l,
                           struct fake_repeats *r)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__HandBack back = SLUICE__V1__HAND_BACK__INIT;

    T_OF_LEASE(&back, l);
    if (r != NULL) {
        back.repeats = r->list;
        back.n_repeats = 2;
    }
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HAND_BACK;
    up.hand_back = &back;
    fake_send(m, &up);
}

static Sluice__V1__Change *change_of(const struct fake_member *m,
                                     Sluice__V1__Change *change)
{
    static float sums[FOLD_SUMS] = {1, 2, 3};

    sluice__v1__change__init(change);
    change->norm = m->norm;
    change->sums = sums;
    change->n_sums = m->norm < 0 ? 0 : FOLD_SUMS;
    change->steps = m->told_steps > 0 ? m->told_steps : 3;
    change->took_ms = change->steps * m->step_ms;
    return m->norm == 0 ? NULL : change;
}

// Hands a contribution back that is too large for its lease. Returns false if
// it is not.
static bool sets_aside(struct fake_member *m, const struct fake_lease *f)
{
    double most = f->lease->norm_most;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__HandBack back = SLUICE__V1__HAND_BACK__INIT;
    Sluice__V1__Change change;

    if (most == 0 || (m->norm >= 0 && (m->shortens || m->norm <= most)))
        return false;
    T_OF_LEASE(&back, f->lease);
    back.change = change_of(m, &change);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HAND_BACK;
    up.hand_back = &back;
    fake_send(m, &up);
    drop_lease(m, (unsigned)(f - m->leases));
    return true;
}

static void hand_back(struct fake_member *m, const Sluice__V1__Lease *l)
{
    hand_back_with(m, l, NULL);
}

static void take_revoke(struct fake_member *m, const Sluice__V1__Revoke *revoke)
{
    for (unsigned i = m->leases_count; i-- > 0;) {
        Sluice__V1__Lease *l = m->leases[i].lease;
        bool same = l->attempt->term == revoke->attempt->term &&
                    l->attempt->n == revoke->attempt->n;

        if (l->job != revoke->job || !(revoke->whole_job || same))
            continue;
        if (m->hangs) {
            m->leases[i].revoked = true;
            continue;
        }
        if (!revoke->whole_job)
            hand_back(m, l);
        drop_lease(m, i);
    }
    if (revoke->whole_job)
        fake_rank_drop(m);
}

void fake_worker_read(struct world *w, struct fake_member *m,
                      Sluice__V1__AttendDown *message)
{
    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN:
        if (message->job_open->geometry != NULL)
            m->opened = message->job_open->job;
        m->sent_scale = message->job_open->loss_scale;
        take_map(m, message->job_open->map);
        w->shards = (uint32_t)message->job_open->map->n_shards;
        T_LE(w->shards, WORLD_SHARDS);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_MAP:
        take_map(m, message->map);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_LEASES:
        for (size_t i = 0; i < message->leases->n_lease; i++)
            take_lease(w, m, message->leases->lease[i]);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REVOKE:
        take_revoke(m, message->revoke);
        break;
    default:
        fake_rank_read(w, m, message);
        break;
    }
}

// ---- work

static bool named(const struct world *w, const struct fake_member *m,
                  const struct fake_lease *f)
{
    for (uint32_t s = 0; s < w->shards; s++)
        if (f->incarnation[s] == 0 || f->incarnation[s] != m->map[s])
            return false;
    return true;
}

// Sums of a range: sample i has label i % 2, is told at threshold 8 i, and is
// off by i.
struct fake_scores {
    Sluice__V1__ScoreSums sums;
    uint64_t by[2][WIRE_SCORE_BUCKETS];
};

static Sluice__V1__ScoreSums *score(struct fake_scores *s,
                                    const Sluice__V1__Lease *l)
{
    *s = (struct fake_scores){.sums = SLUICE__V1__SCORE_SUMS__INIT};
    for (uint64_t i = l->first; i < l->first + l->count; i++) {
        s->by[i % 2][8 * i]++;
        s->sums.true_positives += i % 2;
        s->sums.false_positives += i % 4 == 0;
        s->sums.absolute += (double)i;
    }
    s->sums.n_positives = s->sums.n_negatives = WIRE_SCORE_BUCKETS;
    s->sums.positives = s->by[1];
    s->sums.negatives = s->by[0];
    return &s->sums;
}

static void repeat(struct world *w, struct fake_member *m,
                   Sluice__V1__Complete *done, struct fake_repeats *r)
{
    const struct job *job = jobs_get(w->coord, done->job);
    const struct evidence *e = &job->shards.evidence;
    uint64_t slots[AUDITED_WORKERS], first;

    if (spec_audit(job->spec->train) == 0)
        return;
    done->repeats = r->list;
    if (e->round == 0) {
        repeat_own(m, done->closure, 0, r);
        done->n_repeats = 2;
        return;
    }
    first = evidence_round_first(e, done->closure);
    done->n_repeats = audited_slots(
        first, (uint32_t)(evidence_round_end(e, done->closure) - first),
        done->closure, slots);
    for (size_t i = 0; i < done->n_repeats; i++) {
        r->items[i] = (Sluice__V1__Repeat)SLUICE__V1__REPEAT__INIT;
        r->items[i].closure = slots[i] + (m->meddles ? 3 : 0);
        r->items[i].inputs = first;
        r->items[i].output = 1000 + slots[i];
        fake_result_of(w, m, &r->items[i], &r->sketches[i]);
        r->list[i] = &r->items[i];
    }
}

static void complete(struct world *w, struct fake_member *m,
                     const struct fake_lease *f)
{
    const Sluice__V1__Lease *l = f->lease;
    struct fake_scores scores;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete done = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;
    Sluice__V1__DataFacts facts = SLUICE__V1__DATA_FACTS__INIT;
    Sluice__V1__ShardEvidence items[WORLD_SHARDS], *list[WORLD_SHARDS];
    struct fake_repeats repeats;
    Sluice__V1__Change change;

    for (uint32_t s = 0; s < w->shards; s++) {
        items[s] = (Sluice__V1__ShardEvidence)SLUICE__V1__SHARD_EVIDENCE__INIT;
        items[s].shard = s;
        items[s].incarnation = f->incarnation[s]; // W2
        list[s] = &items[s];
    }
    T_OF_LEASE(&done, l);
    done.job_incarnation = l->job_incarnation;
    done.metrics = &metrics;
    metrics.samples = l->count;
    metrics.correct = l->count / 2;
    metrics.loss_sum = (double)l->count;
    metrics.steps = l->steps + m->boasts;
    metrics.skipped = m->skips ? l->steps : 0;
    metrics.loss_scale = m->loss_scale;
    if (m->raves) {
        metrics.correct = UINT64_MAX / 2;
        metrics.loss_sum = (double)NAN;
    }
    if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN) {
        done.evidence = list;
        done.n_evidence = w->shards;
        done.change = change_of(m, &change);
        if (w->coord != NULL)
            repeat(w, m, &done, &repeats);
        if ((m - w->members) % 2 == 0 && named(w, m, f)) { // others are older
            done.n_evidence = 0;
            done.map_version = m->map_version;
        }
    } else if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_PROBE) {
        facts.train_samples = 40;
        facts.test_samples = m->tests > 0 ? m->tests : 20;
        done.facts = &facts;
    } else {
        w->evaluated_ranges++;
        metrics.scores = w->scores ? score(&scores, l) : NULL;
    }
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &done;
    fake_send(m, &up);
}

static void want_map(struct fake_member *m, uint64_t job)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__MapWanted want = SLUICE__V1__MAP_WANTED__INIT;

    want.job = job;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_MAP_WANTED;
    up.map_wanted = &want;
    fake_send(m, &up);
}

// I4: an attempt older than the newest this incarnation has seen is refused.
static bool fenced(struct fake_shard *s, const Sluice__V1__Lease *l)
{
    struct wire_attempt mine = wire_attempt_of(l->attempt);

    if (wire_attempt_cmp(mine, s->newest[l->closure]) < 0)
        return true;
    s->newest[l->closure] = mine;
    return false;
}

// The shard has not counted all of the rounds before this closure's (Y4).
static bool is_early(struct world *w, const struct fake_shard *s,
                     uint64_t closure)
{
    const struct job *job = jobs_get(w->coord, w->job);

    return w->ahead && counted_low(&s->counted) <
                           evidence_round_first(&job->shards.evidence, closure);
}

static uint64_t all_steps(const Sluice__V1__Lease *l)
{
    return (UINT64_C(1) << l->steps) - 1;
}

// D1: whoever applies a step of this closure knows the rate of it.
static void check_rate(struct world *w, const struct fake_shard *s,
                       uint64_t closure)
{
    const struct job *job =
        w->coord == NULL ? NULL : jobs_get(w->coord, w->job);

    if (job == NULL)
        return;
    for (uint32_t i = 0; i < job->monitor.callbacks.rates.count; i++)
        if (job->monitor.callbacks.rates.step[i].closure <= closure)
            T_GE(s->rates, job->monitor.callbacks.rates.step[i].closure);
}

// Brings one shard's evidence one fact further: asks, or pushes a step that
// lacks. False: the attempt is fenced.
static bool push(struct world *w, struct fake_member *m, struct fake_lease *f,
                 uint32_t shard)
{
    const Sluice__V1__Lease *l = f->lease;
    struct fake_shard *s = fake_shard_at(w, shard, m->map[shard]);
    uint32_t step = 0;

    if (s == NULL) {
        if (world_below(w, 4) == 0)
            want_map(m, l->job);
        return true;
    }
    if (is_early(w, s, l->closure))
        return true;
    if (fenced(s, l))
        return false;
    if (f->incarnation[shard] != s->incarnation) { // W1: void; ask
        if (!fake_may_say(w, s, shard))            // P1
            return true;
        f->incarnation[shard] = s->incarnation;
        f->steps[shard] = 0;
        for (uint32_t i = 0; i < l->steps; i++)
            f->steps[shard] |= (uint64_t)counted_has(&s->counted, l->closure, i)
                               << i;
        return true;
    }
    while (step < l->steps && (f->steps[shard] >> step & 1))
        step++;
    if (step == l->steps)
        return true;
    check_rate(w, s, l->closure);
    if (counted_add(&s->counted, l->closure, step) == SL_OK) // S2
        s->applied++;
    if (!fake_may_say(w, s, shard)) // P1
        return true;
    f->steps[shard] |= UINT64_C(1) << step;
    return true;
}

static bool all_counted(struct world *w, const struct fake_lease *f)
{
    for (uint32_t s = 0; s < w->shards; s++) {
        if (f->incarnation[s] == 0 || f->steps[s] != all_steps(f->lease))
            return false;
    }
    return w->shards > 0;
}

// Computes the next step of an audited closure twice, in async. Returns true if
// the results differ: then it pushes none of them (A5).
static bool differs(struct world *w, struct fake_member *m,
                    const struct fake_lease *f)
{
    const struct job *job =
        w->coord == NULL ? NULL : jobs_get(w->coord, f->lease->job);
    struct fake_repeats r;

    if (job == NULL || spec_audit(job->spec->train) == 0 ||
        job->shards.evidence.round > 0 || m->flips == 0 ||
        world_below(w, m->flips) > 0)
        return false;
    repeat_own(m, f->lease->closure, UINT64_C(1) << world_below(w, 32), &r);
    hand_back_with(m, f->lease, &r);
    drop_lease(m, (unsigned)(f - m->leases));
    return true;
}

// As if it had pushed all of it, to the memories that its map names.
static void lie(struct world *w, struct fake_member *m, struct fake_lease *f)
{
    for (uint32_t s = 0; s < w->shards; s++)
        f->incarnation[s] = m->map[s];
    complete(w, m, f);
    drop_lease(m, (unsigned)(f - m->leases));
    m->lies--;
}

static void drain(struct fake_member *m)
{
    while (m->leases_count > 0) {
        hand_back(m, m->leases[0].lease);
        drop_lease(m, 0);
    }
}

void fake_worker_work(struct world *w, struct fake_member *m)
{
    struct fake_lease *f = &m->leases[0];

    if (m->hangs || m->waits)
        return;
    m->progress++;
    while (m->leases_count > 0 && f->revoked) {
        hand_back(m, f->lease);
        drop_lease(m, 0);
    }
    if (m->draining) {
        drain(m);
        return;
    }
    if (m->leases_count == 0)
        return;
    if (of_ring(f)) {
        if (m->leases_count == 1 || world_below(w, 2) == 0) {
            fake_rank_work(w, m, f->lease);
            return;
        }
        f = &m->leases[1]; // between two rounds, or by the group
    }
    if (f->lease->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN) {
        if (w->poison && f->lease->closure == 1) {
            world_kill(w, m);
            return;
        }
        if (m->lies > 0) {
            lie(w, m, f);
            return;
        }
        if (differs(w, m, f) || sets_aside(m, f))
            return;
        if (!push(w, m, f, (uint32_t)world_below(w, w->shards))) {
            hand_back(m, f->lease);
            drop_lease(m, (unsigned)(f - m->leases));
            return;
        }
        if (!all_counted(w, f))
            return;
    }
    complete(w, m, f);
    drop_lease(m, (unsigned)(f - m->leases));
}
