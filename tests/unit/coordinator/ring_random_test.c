// SPDX-License-Identifier: Apache-2.0
// The rules of a ring under everything that may happen to it: ranks that die,
// are cut off or come back, a coordinator that restarts, messages that are
// late. The coordinator is coordinator/rules/ring.h with the few lines that its
// caller adds; the ranks are scripts that keep the rules that are theirs.
//
// A state is the list of the generations whose sums were applied, step by step:
// two states are equal if their lists are.
#include "coordinator/rules/ring.h"

#include <string.h>

#include "tests/harness/t.h"

#define MOST 1000000 // rounds

#define RANKS 4
#define STEPS 6
#define GENERATIONS 400
#define QUEUE 64
#define SEEDS 2000

struct state {
    struct wire_tag tag;
    uint32_t steps;
    uint64_t by[STEPS]; // generation whose sum was applied
};

struct mail {
    enum { ANSWER, READY, STEP, SNAPSHOT, OPEN, BEGIN, GO } kind;
    uint64_t generation;
    struct wire_tag tag;
    uint64_t rounds;
    bool holder;     // BEGIN
    struct state of; // SNAPSHOT
};

struct rank {
    bool alive;
    uint64_t stream, process; // stream 0: not attached
    struct state state;
    uint64_t going;  // generation in which it sums; 0: none
    uint64_t newest; // generation it has answered
    uint64_t begun;  // generation that it is to join, with base `base`
    struct wire_tag base;
    bool holder;
    struct mail up[QUEUE], down[QUEUE];
    unsigned ups, downs;
};

struct test {
    struct ring ring;
    uint64_t now, ids, journal;
    struct rank rank[RANKS];
    uint32_t members[GENERATIONS];
    uint32_t gave[GENERATIONS][STEPS]; // ranks that contributed
    struct state cut;
    uint64_t counted, counted_in; // progress, and its generation
    unsigned faults, calm;        // left; acts between them, about
    unsigned ranks;
    uint32_t slow; // this rank is
    bool finished;
};

static struct test t;

static void put(struct mail *queue, unsigned *count, const struct mail *m)
{
    T_TRUE(*count < QUEUE);
    queue[(*count)++] = *m;
}

static struct mail take(struct mail *queue, unsigned *count)
{
    struct mail m = queue[0];

    memmove(queue, queue + 1, --*count * sizeof(*queue));
    return m;
}

static bool equal(const struct state *a, const struct state *b)
{
    return a->steps == b->steps &&
           memcmp(a->by, b->by, a->steps * sizeof(a->by[0])) == 0;
}

// ---- ranks

static uint32_t who(const struct rank *r)
{
    return (uint32_t)(r - t.rank);
}

static void give(struct rank *r)
{
    if (r->state.steps < STEPS)
        t.gave[r->going][r->state.steps] |= 1u << who(r);
}

static void apply(struct rank *r)
{
    r->state.by[r->state.steps++] = r->going;
    r->state.tag.sequence++;
    for (unsigned i = 0; i < RANKS; i++) { // equal, at most one step apart
        const struct rank *o = &t.rank[i];

        if (!o->alive || o->going != r->going)
            continue;
        T_TRUE(o->state.steps + 1 >= r->state.steps &&
               r->state.steps + 1 >= o->state.steps);
        T_TRUE(o->state.steps != r->state.steps || equal(&o->state, &r->state));
    }
    give(r);
}

static void join(struct rank *r)
{
    r->state.tag = (struct wire_tag){r->begun, r->base.sequence};
    r->begun = 0;
    // What the cut holds is in every state that is trained on; one that was
    // cut off meanwhile is not.
    T_TRUE(r->newest != t.ring.generation ||
           (r->state.steps >= t.cut.steps &&
            memcmp(r->state.by, t.cut.by, t.cut.steps * sizeof(t.cut.by[0])) ==
                0));
    put(r->up, &r->ups,
        &(struct mail){
            .kind = READY, .generation = r->newest, .tag = r->state.tag});
}

// The state of somebody who holds the base still, or has it already.
static bool copy(struct rank *r)
{
    for (unsigned i = 0; i < RANKS; i++) {
        const struct rank *o = &t.rank[i];

        if (o == r || !o->alive || !o->holder || o->newest != r->newest)
            continue;
        if (wire_tag_cmp(o->state.tag, r->base) != 0 &&
            wire_tag_cmp(o->state.tag,
                         (struct wire_tag){r->newest, r->base.sequence}) != 0)
            continue;
        r->state = o->state;
        return true;
    }
    return false;
}

static void bring_base(struct rank *r)
{
    bool file = true;

    if (r->holder) {
        T_TRUE(wire_tag_cmp(r->state.tag, r->base) == 0);
        join(r);
        return;
    }
    for (unsigned i = 0; i < RANKS; i++)
        file &= !(t.rank[i].alive && t.rank[i].holder &&
                  t.rank[i].newest == r->newest);
    if (!t.ring.base_is_file || t.ring.generation != r->newest)
        file = false;
    if (file) {
        if (r->base.incarnation != 0)
            r->state = t.cut;
        else
            memset(&r->state, 0, sizeof(r->state));
        join(r);
    } else if (copy(r)) {
        join(r);
    }
}

static void rank_reads(struct rank *r)
{
    struct mail m = take(r->down, &r->downs);

    if (m.kind == OPEN && m.generation > r->newest) {
        r->newest = m.generation;
        r->going = r->begun = 0; // R2
        r->holder = false;
        put(r->up, &r->ups,
            &(struct mail){.kind = ANSWER,
                           .generation = m.generation,
                           .tag = r->state.tag});
    } else if (m.kind == BEGIN && m.generation == r->newest) {
        r->begun = m.generation;
        r->base = m.tag;
        r->holder = m.holder;
    } else if (m.kind == GO && m.generation == r->newest) {
        r->going = m.generation;
        give(r);
    }
}

static void rank_acts(struct rank *r)
{
    if (r->begun != 0)
        bring_base(r);
    else if (r->going != 0 && r->state.steps < STEPS &&
             t.gave[r->going][r->state.steps] == t.members[r->going])
        apply(r);
    else if (r->going != 0 && r->ups < QUEUE / 2 && t_below(2) == 0)
        put(r->up, &r->ups,
            &(struct mail){.kind = STEP,
                           .generation = r->going,
                           .rounds = r->state.tag.sequence});
    else if (r->going != 0 && r->ups < QUEUE / 2 &&
             r->state.steps > t.cut.steps)
        put(r->up, &r->ups,
            &(struct mail){
                .kind = SNAPSHOT, .generation = r->going, .of = r->state});
}

// ---- the coordinator

static struct rank *of_stream(uint64_t stream)
{
    for (unsigned i = 0; i < RANKS; i++) {
        if (t.rank[i].alive && t.rank[i].stream == stream)
            return &t.rank[i];
    }
    return NULL;
}

static void tell(const struct ring_rank *to, const struct mail *m)
{
    struct rank *r = of_stream(to->member);

    if (r != NULL)
        put(r->down, &r->downs, m);
}

static void open_generation(void)
{
    uint64_t generation = ++t.journal; // R1

    T_TRUE(generation < GENERATIONS);
    ring_open(&t.ring, generation);
    for (uint32_t i = 0; i < t.ring.count; i++) {
        const struct rank *r = of_stream(t.ring.rank[i].member);

        // One that died unseen is a member as well.
        t.members[generation] |= r == NULL ? 1u << RANKS : 1u << who(r);
        tell(&t.ring.rank[i],
             &(struct mail){.kind = OPEN, .generation = generation});
    }
}

static void choose(void)
{
    ring_choose(&t.ring, t.cut.tag, false);
    // What was counted is in the base if one that counted it has answered.
    for (uint32_t i = 0; i < t.ring.count; i++) {
        if (t.ring.rank[i].in && t.counted_in != 0 &&
            t.ring.rank[i].tag.incarnation == t.counted_in)
            T_TRUE(wire_tag_cmp(t.ring.base,
                                (struct wire_tag){t.counted_in, t.counted}) >=
                   0);
    }
    t.counted = t.ring.progress;
    t.counted_in = t.ring.generation;
    for (uint32_t i = 0; i < t.ring.count; i++) {
        if (t.ring.rank[i].in)
            tell(&t.ring.rank[i],
                 &(struct mail){.kind = BEGIN,
                                .generation = t.ring.generation,
                                .tag = t.ring.base,
                                .holder = t.ring.rank[i].holds});
    }
}

static void go(void)
{
    for (uint32_t i = 0; i < t.ring.count; i++) {
        if (t.ring.rank[i].in)
            tell(&t.ring.rank[i],
                 &(struct mail){.kind = GO, .generation = t.ring.generation});
    }
}

static void publish(const struct mail *m)
{
    // R6, and a cut only moves on.
    if (m->generation != t.ring.generation || t.ring.state < RING_COPYING ||
        m->of.steps <= t.cut.steps)
        return;
    t.cut = m->of;
    t.finished = t.cut.steps == STEPS;
}

static void coordinator_reads(struct rank *r)
{
    struct mail m = take(r->up, &r->ups);

    if (m.kind == ANSWER) {
        (void)ring_answer(&t.ring, r->stream, m.generation, m.tag);
        if (ring_answered(&t.ring))
            choose();
    } else if (m.kind == READY) {
        if (ring_ready(&t.ring, r->stream, m.generation, m.tag) == SL_OK &&
            t.ring.state == RING_RUNNING)
            go();
    } else if (m.kind == STEP) {
        if (ring_step(&t.ring, r->stream, m.generation, m.rounds) == SL_OK)
            t.counted = t.ring.progress;
    } else if (m.kind == SNAPSHOT) {
        publish(&m);
    }
}

static void detach(struct rank *r)
{
    (void)ring_leave(&t.ring, r->stream);
    r->stream = 0;
    r->ups = r->downs = 0;
}

static void attach(struct rank *r)
{
    r->stream = ++t.ids;
    T_OK(ring_join(&t.ring, r->stream, r->process, t.now));
}

static void begin_process(struct rank *r)
{
    memset(r, 0, sizeof(*r));
    r->alive = true;
    r->process = ++t.ids;
}

static void restart(void)
{
    ring_release(&t.ring);
    ring_init(&t.ring, t.journal, 1, 5, MOST);
    for (unsigned i = 0; i < RANKS; i++) {
        t.rank[i].stream = 0;
        t.rank[i].ups = t.rank[i].downs = 0;
    }
    t.counted = 0; // it knows nothing until a base is chosen
    t.counted_in = 0;
}

static void fault(struct rank *r)
{
    unsigned kind = (unsigned)t_below(5);

    if (t.faults == 0 || t_below(t.calm) != 0)
        return;
    t.faults--;
    if (kind == 0) {
        restart();
    } else if (kind < 3 && r->alive) { // noticed at once, or when it is back
        if (kind == 1 && r->stream != 0)
            detach(r);
        r->alive = false;
    } else if (r->alive && r->stream != 0) {
        detach(r); // cut off: it goes on as far as it can
    }
}

static void comes_back(struct rank *r)
{
    if (!r->alive) {
        if (r->stream != 0)
            (void)ring_leave(&t.ring, r->stream);
        begin_process(r);
    }
    if (r->stream == 0)
        attach(r);
}

static void act(void)
{
    struct rank *r = &t.rank[t_below(t.ranks)];

    t.now += t_below(40);
    fault(r);
    if ((!r->alive || r->stream == 0) && t_below(6) == 0)
        comes_back(r);
    if (ring_due(&t.ring, t.now))
        open_generation();
    if (!r->alive || (who(r) == t.slow && t_below(16) != 0))
        return;
    if (r->ups > 0 && r->stream != 0 && t_below(2) == 0)
        coordinator_reads(r);
    if (r->downs > 0 && t_below(2) == 0)
        rank_reads(r);
    else
        rank_acts(r);
}

static void live_once(void)
{
    unsigned acts = 0;

    memset(&t, 0, sizeof(t));
    ring_init(&t.ring, 0, 1 + (uint32_t)t_below(2), 5, MOST);
    t.faults = (unsigned)t_below(12);
    t.calm = 5 + (unsigned)t_below(200);
    t.slow = (uint32_t)t_below(RANKS + 1); // or none
    t.ranks = 2 + (unsigned)t_below(RANKS - 1);
    for (unsigned i = 0; i < t.ranks; i++)
        begin_process(&t.rank[i]);
    while (!t.finished) {
        act();
        T_TRUE(++acts < 200000); // every life ends
    }
    T_EQ(t.cut.steps, STEPS);
    ring_release(&t.ring);
}

TEST(ring_random, every_life_ends_with_each_step_once)
{
    for (unsigned i = 0; i < SEEDS; i++)
        live_once();
}
