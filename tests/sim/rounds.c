// SPDX-License-Identifier: Apache-2.0
// tests/sim/rounds.c -- what must hold of the rounds of a job that trains in
// sync: Y1 to Y4, and of open rounds: L1 to L4, against what was seen to be
// held and counted.
//
// Where a round begins is computed here a second time, from its number.
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "tests/sim/truth_own.h"

enum { HELD_NOT, HELD, HELD_SKIP };

// Y1: the first closure of the round of `closure`, and the first after it.
static uint64_t round_of(struct sim *s, uint64_t closure, uint64_t *end)
{
    uint64_t epoch = schedule_closures_per_epoch(&s->knobs.schedule);
    uint64_t most = s->knobs.contributions;
    uint64_t place = closure % epoch;
    uint64_t first = closure - place % most;
    uint64_t left = epoch - place / most * most;

    *end = first + (left < most ? left : most);
    return first;
}

static bool counted(struct sim *s, const struct memory *m, uint64_t closure)
{
    return m->ledger.of[truth_index(s, closure, 0)] != TRUTH_NOT;
}

// Y4: nothing of a round that is not open is taken.
static void check_open(struct sim *s, const struct memory *m, uint64_t first)
{
    for (uint64_t i = 0; i < first; i++)
        if (!counted(s, m, i))
            T_FAIL("Y4: shard %u took a contribution of the round at %llu, and "
                   "closure %llu is not counted",
                   m->number, (unsigned long long)first, (unsigned long long)i);
}

void rounds_hold(struct sim *s, struct memory *m, const struct wire_push *push)
{
    uint64_t first, end;

    first = round_of(s, push->closure, &end);
    check_open(s, m, first);
    if (counted(s, m, push->closure))
        T_FAIL("Y2: shard %u holds closure %llu, which it has counted",
               m->number, (unsigned long long)push->closure);
    s->seen.copies += m->held[push->closure] != HELD_NOT;
    if (m->held[push->closure] == HELD_NOT) // Y1: the first that came stays
        m->held[push->closure] = push->skip ? HELD_SKIP : HELD;
    s->seen.held++;
    for (uint64_t i = first; i < end; i++)
        if (m->held[i] == HELD_NOT)
            return;
    T_FAIL("Y2: shard %u holds all of the round at %llu and has not applied it",
           m->number, (unsigned long long)first);
}

void rounds_close(struct sim *s, struct memory *m, const struct wire_push *push)
{
    bool skip = false;
    uint64_t first, end;

    first = round_of(s, push->closure, &end);
    check_open(s, m, first);
    if (m->held[push->closure] == HELD_NOT)
        m->held[push->closure] = push->skip ? HELD_SKIP : HELD;
    for (uint64_t i = first; i < end; i++) {
        if (m->held[i] == HELD_NOT)
            T_FAIL("Y1: shard %u applied the round at %llu without closure "
                   "%llu",
                   m->number, (unsigned long long)first, (unsigned long long)i);
        skip = skip || m->held[i] == HELD_SKIP; // then all of it is
    }
    for (uint64_t i = first; i < end; i++) {
        truth_count(s, m, i, 0, skip);
        m->held[i] = HELD_NOT;
    }
    s->seen.rounds++;
}

// L1: all that was held is applied as one mean, and counted.
static void end_open(struct sim *s, struct memory *m)
{
    unsigned held = 0;

    for (uint64_t i = 0; i < SIM_CLOSURES; i++)
        held += m->held[i] != HELD_NOT;
    if (held == 0 || held > s->knobs.open)
        T_FAIL("L1: shard %u ended a round with %u contributions", m->number,
               held);
    for (uint64_t i = 0; i < SIM_CLOSURES; i++)
        if (m->held[i] != HELD_NOT) {
            truth_count_shares(s, m, i, 0, false, TRUTH_SHARES / held);
            m->held[i] = HELD_NOT;
        }
    s->seen.rounds++;
}

void rounds_open(struct sim *s, struct memory *m, const struct wire_push *push,
                 bool held)
{
    if (push->skip && !held) {
        truth_count(s, m, push->closure, 0, true);
        return;
    }
    if (push->skip && m->held[push->closure] == HELD_NOT)
        T_FAIL("L1: shard %u holds closure %llu, which is to be skipped",
               m->number, (unsigned long long)push->closure);
    if (counted(s, m, push->closure))
        T_FAIL("L1: shard %u holds closure %llu, which it has counted",
               m->number, (unsigned long long)push->closure);
    m->held[push->closure] = HELD; // L3: of whatever round
    s->seen.held += held;
    if (!held)
        end_open(s, m);
}

void rounds_told(struct sim *s, struct memory *m, uint64_t closure,
                 uint64_t version)
{
    bool ended = once_version(&m->shard->once) != version;
    bool held = closure < SIM_CLOSURES && m->held[closure] != HELD_NOT;

    if (ended && !held)
        T_FAIL("L2: shard %u ended a round for closure %llu, which it does not "
               "hold",
               m->number, (unsigned long long)closure);
    if (ended)
        end_open(s, m);
    s->seen.told += ended;
}

void rounds_before(struct sim *s, const struct ledger *now,
                   const struct wire_pull *pull, struct ledger *out)
{
    uint64_t end, first;

    T_TRUE(s->knobs.contributions > 0 && pull->before_round_of > 0);
    first = round_of(s, pull->before_round_of - 1, &end);
    *out = *now;
    for (uint64_t i = first; i < end; i++)
        truth_uncount(s, out, i, 0);
    if (end < schedule_closures(&s->knobs.schedule))
        T_EQ(now->of[truth_index(s, end, 0)], TRUTH_NOT); // it is the last
    s->seen.before_round++;
}

void rounds_whole(struct sim *s, const struct ledger *l)
{
    uint64_t closures = schedule_closures(&s->knobs.schedule), end;
    bool open = false;

    for (uint64_t first = 0; s->knobs.contributions > 0 && first < closures;
         first = end) {
        uint8_t how = l->of[truth_index(s, first, 0)];

        (void)round_of(s, first, &end);
        for (uint64_t i = first; i < end; i++)
            if (l->of[truth_index(s, i, 0)] != how)
                T_FAIL("Y2: of the round at %llu closure %llu was treated "
                       "another way than the first",
                       (unsigned long long)first, (unsigned long long)i);
        if (open && how != TRUTH_NOT)
            T_FAIL("Y4: the round at %llu is counted, and not the one before",
                   (unsigned long long)first);
        open = how == TRUTH_NOT;
    }
}

// A slot of a round before that is not counted has a worker, or is held.
static void check_manned(const struct job *job, uint64_t closure, uint64_t slot)
{
    const struct work *w = leases_get(job, slot);

    if (!evidence_closure_held(&job->shards.evidence, slot) &&
        (w == NULL || w->closure.state != CLOSURE_LEASED))
        T_FAIL("Y4: closure %llu is leased ahead, and %llu is nobody's",
               (unsigned long long)closure, (unsigned long long)slot);
}

void rounds_lease(struct sim *s, const struct job *job, uint64_t closure)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t end, first = round_of(s, closure, &end), before = 0;
    bool ahead = false, far = false;

    if (first > 0)
        before = round_of(s, first - 1, &end);
    if (closure >= evidence_limit_ahead(e, DISPATCH_ROUNDS_MOST))
        T_FAIL("Y4: closure %llu is leased, too far ahead",
               (unsigned long long)closure);
    if (evidence_closure_held(e, closure))
        T_FAIL("Y3: closure %llu is leased, and every shard holds it",
               (unsigned long long)closure);
    for (uint32_t i = 0; i < e->shards; i++) {
        struct memory *m = truth_incarnation(s, i, e->shard[i].incarnation);

        for (uint64_t k = 0; m != NULL && k < first; k++) {
            if (counted(s, m, k))
                continue;
            if (s->knobs.backup > 0)
                T_FAIL("Y4: closure %llu is leased, and shard %u lacks %llu",
                       (unsigned long long)closure, i, (unsigned long long)k);
            check_manned(job, closure, k);
            ahead = true;
            far |= k < before;
        }
    }
    s->seen.ahead += ahead;
    s->seen.far += far;
}

void rounds_believed(struct sim *s, uint32_t shard,
                     const struct evidence_shard *e)
{
    struct memory *m = truth_incarnation(s, shard, e->incarnation);
    uint64_t first = e->held_first;

    if (s->knobs.open > 0) // by the closure itself: there are few
        first = 0;
    for (uint64_t i = 0;
         m != NULL &&
         i < (s->knobs.open > 0 ? schedule_closures(&s->knobs.schedule)
                                : s->knobs.contributions);
         i++)
        if ((e->held[i / 64] >> i % 64 & 1) && !counted(s, m, first + i) &&
            m->held[first + i] == HELD_NOT)
            T_FAIL("Y3: the coordinator believes that shard %u (incarnation "
                   "%llu) holds closure %llu, which it does not",
                   shard, (unsigned long long)e->incarnation,
                   (unsigned long long)(first + i));
}
