// SPDX-License-Identifier: Apache-2.0
// tests/sim/rings.c -- the record of a ring's states, generations and files;
// the checks are named by the rules of docs/protocol.md.
#include "tests/sim/rings.h"

#include <inttypes.h>

#include "common/base/rng.h"
#include "coordinator/core/job.h"
#include "tests/sim/books.h"

#define GENERATIONS 8192

struct generation {
    uint64_t term; // of the coordinator that opened it
    uint32_t members;
    uint64_t process[SIM_HOSTS];
    uint64_t rounds[SIM_HOSTS];                         // applied by each
    uint64_t mark[SIM_STEPS + 1], steps[SIM_STEPS + 1]; // by rounds; 0: nobody
};

struct file {
    struct list_node node;
    uint32_t part;
    struct rank_state state;
};

struct rings {
    struct generation *of[GENERATIONS];
    uint64_t newest, begun; // that was opened; whose base is chosen,
    uint64_t marked;        // before the coordinator was called
    uint64_t written;       // cut that was last seen being written
    struct list files;
    struct rank_state cut; // the last published one
};

void rings_new(struct sim *s)
{
    s->rings = calloc(1, sizeof(*s->rings));
    T_ASSERT(s->rings != NULL);
    list_init(&s->rings->files);
}

static void file_free(struct file *f)
{
    list_remove(&f->node);
    rank_clear(&f->state);
    free(f);
}

void rings_free(struct sim *s)
{
    list_for_safe(n, &s->rings->files)
        file_free(list_entry(n, struct file, node));
    for (unsigned i = 0; i < GENERATIONS; i++)
        free(s->rings->of[i]);
    rank_clear(&s->rings->cut);
    free(s->rings);
}

static struct generation *generation(struct sim *s, uint64_t number)
{
    T_LT(number, GENERATIONS);
    if (s->rings->of[number] == NULL)
        s->rings->of[number] = calloc(1, sizeof(struct generation));
    T_ASSERT(s->rings->of[number] != NULL);
    return s->rings->of[number];
}

void rings_called(struct sim *s)
{
    s->rings->marked = s->rings->begun;
}

// ---- states

uint64_t rings_mark(const struct rank_state *state)
{
    uint64_t mark = 1;

    for (uint64_t i = 0; i < state->tag.sequence; i++)
        mark = sl_mix64(mark ^ state->by[i]);
    for (unsigned i = 0; i < SIM_STEPS; i++)
        mark = mark * 31 + state->ledger.of[i];
    return sl_mix64(mark) | 1;
}

void rings_count(struct sim *s, struct rank_state *state, uint64_t closure,
                 uint32_t step)
{
    uint64_t at = schedule_global_step(&s->knobs.schedule, closure, step);
    double v[SIM_FIELDS];

    if (state->ledger.of[at] != TRUTH_NOT)
        T_FAIL("once: a rank applies step %u of closure %" PRIu64 " again",
               step, closure);
    state->ledger.of[at] = TRUTH_APPLIED;
    truth_step(v, closure, step);
    for (unsigned i = 0; i < SIM_FIELDS; i++)
        state->ledger.sum[i] += v[i];
    s->seen.counted++;
}

static void note_state(struct sim *s, const struct rank_state *state)
{
    struct generation *g = generation(s, state->tag.incarnation);
    uint64_t n = state->tag.sequence, mark = rings_mark(state);

    truth_equal(&state->ledger, &state->counted);
    if (g->mark[n] != 0 && g->mark[n] != mark)
        T_FAIL("R3: two states are round %" PRIu64 " of generation %" PRIu64, n,
               state->tag.incarnation);
    g->mark[n] = mark;
    g->steps[n] = counted_steps(&state->counted);
}

uint64_t rings_steps(struct sim *s, struct wire_tag tag)
{
    T_LE(tag.sequence, SIM_STEPS);
    return generation(s, tag.incarnation)->steps[tag.sequence];
}

// What a cut holds is never lost.
static bool follows_cut(struct sim *s, const struct rank_state *state)
{
    const struct rank_state *cut = &s->rings->cut;

    return state->tag.sequence >= cut->tag.sequence &&
           memcmp(state->by, cut->by, cut->tag.sequence * sizeof(cut->by[0])) ==
               0;
}

static void note_rounds(struct sim *s, struct proc *p,
                        const struct rank_state *state)
{
    struct generation *g = generation(s, state->tag.incarnation);

    for (uint32_t i = 0; i < g->members; i++)
        if (g->process[i] == p->process)
            g->rounds[i] = state->tag.sequence;
}

void rings_placed(struct sim *s, struct proc *p, const struct rank_state *state)
{
    if (state->tag.incarnation == s->rings->newest && !follows_cut(s, state))
        T_FAIL("R3: generation %" PRIu64 " begins at round %" PRIu64
               " with a state that lacks the last cut",
               state->tag.incarnation, state->tag.sequence);
    note_state(s, state);
    note_rounds(s, p, state);
}

void rings_applied(struct sim *s, struct proc *p,
                   const struct rank_state *state)
{
    const struct generation *g = generation(s, state->tag.incarnation);

    s->seen.ring_rounds++;
    note_state(s, state);
    note_rounds(s, p, state);
    for (uint32_t i = 0; i < g->members; i++) // all gave to it
        T_GE(g->rounds[i] + 1, state->tag.sequence);
}

// ---- generations

void rings_opened(struct sim *s, const Sluice__V1__RingOpen *m)
{
    struct generation *g = generation(s, m->generation);

    for (uint32_t i = 0; i < s->shards; i++)
        books_check_admit(s, i, m->generation);
    if (m->generation < s->rings->newest ||
        (g->term != 0 && g->term != m->term))
        T_FAIL("R1: generation %" PRIu64 " is opened by term %" PRIu64
               " after %" PRIu64 " by term %" PRIu64,
               m->generation, m->term, s->rings->newest, g->term);
    s->seen.generations += g->term == 0;
    g->term = m->term;
    s->rings->newest = m->generation;
}

void rings_begun(struct sim *s, const Sluice__V1__RingBegin *m)
{
    struct generation *g = generation(s, m->generation);
    struct wire_tag base = wire_tag_of(m->base_tag);
    const struct rank_state *r;

    T_EQ(m->generation, s->rings->newest);
    T_LE(m->n_ranks, SIM_HOSTS);
    g->members = (uint32_t)m->n_ranks;
    s->rings->begun = m->generation;
    if (wire_tag_cmp(base, s->rings->cut.tag) < 0)
        T_FAIL("R3: the base of generation %" PRIu64
               " lies before the last cut",
               m->generation);
    for (uint32_t i = 0; i < m->n_ranks; i++) {
        g->process[i] = m->ranks[i]->process;
        g->rounds[i] =
            g->rounds[i] < base.sequence ? base.sequence : g->rounds[i];
        r = rank_answered(s, g->process[i], m->generation);
        if (r != NULL && wire_tag_cmp(r->tag, base) > 0)
            T_FAIL("R3: the base of generation %" PRIu64
                   " is not the highest that answered",
                   m->generation);
    }
    for (size_t i = 0; i < m->n_holders; i++) {
        r = rank_answered(s, g->process[m->holders[i]], m->generation);
        if (r != NULL)
            T_EQ(wire_tag_cmp(r->tag, base), 0);
    }
}

// R6: what is being written is of the generation that there was then.
static void look_at_cut(struct sim *s, const struct job *job)
{
    if (job->cuts.now == NULL || !job->cuts.now->writing ||
        job->cuts.now->n == s->rings->written)
        return;
    s->rings->written = job->cuts.now->n;
    for (uint32_t i = 0; i < job->shards.count; i++)
        if (job->cuts.now->shard[i].tag.incarnation != job->ring.generation)
            T_FAIL("R6: cut %" PRIu64 " is of generation %" PRIu64
                   ", which %" PRIu64 " has followed",
                   job->cuts.now->n, job->cuts.now->shard[i].tag.incarnation,
                   job->ring.generation);
}

void rings_look(struct sim *s, const struct job *job)
{
    const struct generation *g;
    uint64_t progress = job->ring.progress;

    look_at_cut(s, job);
    if (job->ring.state != RING_RUNNING || job->ring.generation == 0)
        return;
    g = generation(s, job->ring.generation);
    for (uint32_t i = 0; i < g->members; i++)
        if (progress > g->rounds[i])
            T_FAIL("R5: %" PRIu64 " rounds of generation %" PRIu64
                   " are progress, and a member has applied %" PRIu64,
                   progress, job->ring.generation, g->rounds[i]);
    T_EQ(job->rounds.counted, progress);
    for (uint32_t i = 0; i < job->shards.count; i++)
        T_EQ(counted_steps(evidence_counted(&job->shards.evidence, i)),
             g->steps[progress]);
}

// ---- files

const struct rank_state *rings_file(struct sim *s, uint32_t part,
                                    struct wire_tag tag)
{
    list_for(n, &s->rings->files)
    {
        struct file *f = list_entry(n, struct file, node);

        if (f->part == part && wire_tag_cmp(f->state.tag, tag) == 0)
            return &f->state;
    }
    return NULL;
}

void rings_add_file(struct sim *s, uint32_t part,
                    const struct rank_state *state)
{
    struct file *f;

    if (rings_file(s, part, state->tag) != NULL)
        return;
    f = calloc(1, sizeof(*f));
    T_ASSERT(f != NULL);
    f->part = part;
    rank_copy(&f->state, state);
    list_push_back(&s->rings->files, &f->node);
}

void rings_keep(struct sim *s, const Sluice__V1__Keep *keep)
{
    struct wire_tag oldest;

    if (keep->n_tags == 0)
        return;
    oldest = wire_tag_of(keep->tags[0]);
    for (size_t i = 1; i < keep->n_tags; i++)
        if (wire_tag_cmp(wire_tag_of(keep->tags[i]), oldest) < 0)
            oldest = wire_tag_of(keep->tags[i]);
    list_for_safe(n, &s->rings->files)
    {
        struct file *f = list_entry(n, struct file, node);

        if (f->part == keep->shard && wire_tag_cmp(f->state.tag, oldest) < 0)
            file_free(f);
    }
}

// ---- cuts

void rings_verify(struct sim *s, const Sluice__V1__Checkpoint *c)
{
    struct wire_tag tag = wire_tag_of(c->shards[0]->tag);

    for (size_t i = 0; i < c->n_shards; i++) {
        const Sluice__V1__CheckpointShard *f = c->shards[i];
        const struct rank_state *state = rings_file(s, f->shard, tag);

        if (wire_tag_cmp(wire_tag_of(f->tag), tag) != 0)
            T_FAIL("R6: the parts of cut %" PRIu64 " are of two rounds",
                   c->cut);
        if (state == NULL)
            T_FAIL("durable: part %u of cut %" PRIu64 " is gone (K3)", f->shard,
                   c->cut);
        T_EQ(rings_mark(state),
             generation(s, tag.incarnation)->mark[tag.sequence]);
        T_EQ(f->steps, counted_steps(&state->counted));
        if (c->complete)
            T_TRUE(counted_full(&state->counted)); // E1
    }
}

void rings_cut(struct sim *s, const Sluice__V1__Checkpoint *c)
{
    struct wire_tag tag = wire_tag_of(c->shards[0]->tag);
    const struct rank_state *state;

    T_EQ(c->n_shards, s->shards);
    if (s->rings->marked > tag.incarnation)
        T_FAIL("K5: the base of generation %" PRIu64 " was chosen while cut "
               "%" PRIu64 " was written",
               s->rings->marked, c->cut);
    rings_verify(s, c);
    state = rings_file(s, 0, tag);
    if (!follows_cut(s, state))
        T_FAIL("R6: cut %" PRIu64 " does not follow the one before", c->cut);
    T_EQ(c->steps, counted_steps(&state->counted));           // E3
    T_EQ(books_low(s, c->cut), counted_low(&state->counted)); // C4
    rank_copy(&s->rings->cut, state);
    s->seen.cuts++;
}
