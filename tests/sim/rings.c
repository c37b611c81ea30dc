// SPDX-License-Identifier: Apache-2.0
// tests/sim/rings.c -- the record of a ring's states, generations and files;
// the checks are named by the rules of docs/protocol.md.
#include "tests/sim/rings.h"

#include <inttypes.h>

#include "common/base/rng.h"
#include "coordinator/core/job.h"
#include "tests/sim/books.h"
#include "tests/sim/disk.h"
#include "tests/sim/ranker.h"
#include "trainer/ring/rank_inner.h"

#define GENERATIONS 8192
#define STEP_MARKS 4093 // so that sums of them are exact

// A state: a round more than the one before.
struct line_state {
    struct list_node node;
    const struct line_state *before; // NULL: nothing was counted
    uint64_t generation;             // of its last round
    uint64_t rounds, steps;
    struct ledger ledger;
};

struct generation {
    uint64_t term; // of the coordinator that opened it
    struct wire_tag base;
    bool from_files; // nobody holds the base
    uint32_t members;
    uint64_t process[SIM_HOSTS];
    uint64_t rounds[SIM_HOSTS];                 // applied by each
    const struct line_state *at[SIM_STEPS + 1]; // by rounds; NULL: nobody
};

struct rings {
    struct generation *of[GENERATIONS];
    uint64_t newest, begun; // that was opened; whose base is chosen,
    uint64_t marked;        // before the coordinator was called
    uint64_t written;       // cut that was last seen being written
    uint64_t uid;           // of the job
    struct list states;
    struct line_state *seed;
    const struct line_state *cut; // the last published one
    struct wire_tag cut_tag;
    Sluice__V1__JobOpen *open; // owned; NULL: not yet
};

static struct line_state *
state_new(struct sim *s, const struct line_state *before, uint64_t generation)
{
    struct line_state *state = calloc(1, sizeof(*state));

    T_ASSERT(state != NULL);
    list_push_back(&s->rings->states, &state->node);
    if (before == NULL)
        return state;
    *state = (struct line_state){.node = state->node,
                                 .before = before,
                                 .generation = generation,
                                 .rounds = before->rounds + 1,
                                 .steps = before->steps,
                                 .ledger = before->ledger};
    return state;
}

void rings_new(struct sim *s)
{
    s->rings = calloc(1, sizeof(*s->rings));
    T_ASSERT(s->rings != NULL);
    list_init(&s->rings->states);
    s->rings->seed = state_new(s, NULL, 0);
    s->rings->cut = s->rings->seed;
}

void rings_free(struct sim *s)
{
    list_for_safe(n, &s->rings->states)
    {
        list_remove(n);
        free(list_entry(n, struct line_state, node));
    }
    for (unsigned i = 0; i < GENERATIONS; i++)
        free(s->rings->of[i]);
    wire_free((ProtobufCMessage *)s->rings->open);
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

void rings_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step,
                uint64_t generation)
{
    uint64_t mark = sl_mix64(generation << 32 ^ closure << 8 ^ step);

    truth_step(out, closure, step);
    out[3] = (double)(1 + mark % STEP_MARKS);
}

static const struct line_state *state_of(struct sim *s, struct wire_tag tag)
{
    T_LE(tag.sequence, SIM_STEPS);
    return generation(s, tag.incarnation)->at[tag.sequence];
}

const struct ledger *rings_ledger(struct sim *s, struct wire_tag tag)
{
    const struct line_state *state = state_of(s, tag);

    return state == NULL ? NULL : &state->ledger;
}

// What a cut holds is never lost.
static bool follows_cut(struct sim *s, const struct line_state *state)
{
    while (state != NULL && state->rounds > s->rings->cut->rounds)
        state = state->before;
    return state == s->rings->cut;
}

// R3, S1: the parts are that state, all of it.
static void check_state(const struct line_state *state, const struct rank *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct shard *part = r->parts[i];

        truth_equal(&state->ledger, &part->once.counted);
        T_EQ(part->once.counts.version, state->rounds);
        T_EQ(part->once.counts.applied, state->steps);
        truth_values(&state->ledger, part->memory.values, part->plan.elements);
    }
}

// A step becomes part of a state (R4: once).
static void state_count(struct sim *s, struct line_state *state,
                        uint64_t closure, uint32_t step)
{
    uint64_t at = schedule_global_step(&s->knobs.schedule, closure, step);
    double v[SIM_FIELDS];

    state->ledger.of[at] = TRUTH_APPLIED;
    rings_step(v, closure, step, state->generation);
    for (unsigned i = 0; i < SIM_FIELDS; i++)
        state->ledger.sum[i] += v[i];
    state->steps++;
}

// The first rank has applied a round: what it has counted is the round's.
static const struct line_state *first_round(struct sim *s, struct generation *g,
                                            const struct rank *r)
{
    const struct schedule *sched = &s->knobs.schedule;
    const struct counted *counted = &rank_once(r)->counted;
    const struct line_state *before = g->at[r->tag.sequence - 1];
    struct line_state *state;

    if (before == NULL)
        T_FAIL("R3: round %" PRIu64 " of generation %" PRIu64
               " follows a state that nobody had",
               r->tag.sequence, r->tag.incarnation);
    state = state_new(s, before, r->tag.incarnation);
    for (uint64_t c = 0; c < schedule_closures(sched); c++)
        for (uint32_t k = 0; k < schedule_closure_steps(sched, c); k++)
            if (counted_has(counted, c, k) &&
                before->ledger.of[schedule_global_step(sched, c, k)] ==
                    TRUTH_NOT)
                state_count(s, state, c, k);
    T_GT(state->steps, before->steps);
    g->at[r->tag.sequence] = state;
    return state;
}

static uint32_t member_of(const struct generation *g, const struct proc *p)
{
    for (uint32_t i = 0; i < g->members; i++)
        if (g->process[i] == p->process)
            return i;
    return UINT32_MAX;
}

static void applied(struct sim *s, struct generation *g, uint32_t self,
                    const struct rank *r, const struct line_state *state)
{
    s->seen.ring_rounds++;
    s->seen.counted += state->steps - state->before->steps;
    g->rounds[self] = r->tag.sequence;
    for (uint32_t i = 0; i < g->members; i++) // all gave to it
        T_GE(g->rounds[i] + 1, r->tag.sequence);
}

static void placed(struct sim *s, struct generation *g, uint32_t self,
                   const struct rank *r, struct wire_tag before,
                   const struct line_state *state)
{
    if (r->tag.incarnation == s->rings->newest && !follows_cut(s, state))
        T_FAIL("R3: generation %" PRIu64 " begins at round %" PRIu64
               " with a state that lacks the last cut",
               r->tag.incarnation, r->tag.sequence);
    T_EQ(r->tag.sequence, g->base.sequence);
    g->rounds[self] = r->tag.sequence;
    s->seen.base_files += g->from_files;
    s->seen.base_copies += !g->from_files && g->base.incarnation != 0 &&
                           wire_tag_cmp(before, g->base) != 0;
}

void rings_look_at(struct sim *s, struct proc *p, const struct rank *r,
                   uint64_t answered, struct wire_tag *last)
{
    const struct line_state *state;
    struct wire_tag before = *last;
    struct generation *g;
    uint32_t self;
    bool round;

    *last = r->tag;
    if (!rank_has_state(r) || wire_tag_cmp(r->tag, before) == 0)
        return;
    state = state_of(s, r->tag);
    g = generation(s, r->tag.incarnation);
    self = member_of(g, p);
    round = before.incarnation == r->tag.incarnation;
    // Who follows under another lease copies anew, maybe what is older.
    if (round && self != UINT32_MAX && r->tag.sequence != before.sequence + 1)
        T_FAIL("R3: a member goes from round %" PRIu64 " to %" PRIu64
               " of generation %" PRIu64,
               before.sequence, r->tag.sequence, before.incarnation);
    if (state == NULL && round && self != UINT32_MAX)
        state = first_round(s, g, r);
    if (state == NULL)
        T_FAIL("R3: a rank has round %" PRIu64 " of generation %" PRIu64
               ", which nobody had",
               r->tag.sequence, r->tag.incarnation);
    check_state(state, r);
    if (self != UINT32_MAX && answered > r->tag.incarnation)
        T_FAIL("R2: a member of generation %" PRIu64
               " has another state after its answer to %" PRIu64,
               r->tag.incarnation, answered);
    if (self == UINT32_MAX)
        s->seen.copied_ahead += !round;
    else if (round)
        applied(s, g, self, r, state);
    else
        placed(s, g, self, r, before, state);
}

// ---- generations

void rings_job_open(struct sim *s, const Sluice__V1__JobOpen *m)
{
    ProtobufCMessage *copy = NULL;

    if (m->n_pieces == 0 || s->rings->open != NULL)
        return;
    T_OK(wire_dup(&copy, &m->base));
    s->rings->open = (Sluice__V1__JobOpen *)copy;
}

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
    s->rings->uid = m->job_uid;
}

// K3: the files are there that the ranks will load.
static void check_sources(struct sim *s, const Sluice__V1__RingBegin *m)
{
    struct wire_tag base = wire_tag_of(m->base_tag);
    char name[SNAP_NAME_BYTES], path[512];

    T_EQ(m->n_sources, s->shards);
    for (uint32_t i = 0; i < m->n_sources; i++) {
        snap_file_name(name, i, base);
        snprintf(path, sizeof(path), "%s/%s", m->sources[i]->folder, name);
        if (!fs_exists(crash_fs_ops(s->store), path))
            T_FAIL("K3: %s, of the base of generation %" PRIu64 ", is gone",
                   path, m->generation);
    }
}

void rings_begun(struct sim *s, const Sluice__V1__RingBegin *m)
{
    struct generation *g = generation(s, m->generation);
    struct wire_tag base = wire_tag_of(m->base_tag), tag;

    T_EQ(m->generation, s->rings->newest);
    T_LE(m->n_ranks, SIM_HOSTS);
    g->from_files = m->n_holders == 0 && base.incarnation != 0;
    g->members = (uint32_t)m->n_ranks;
    g->base = base;
    s->rings->begun = m->generation;
    if (wire_tag_cmp(base, s->rings->cut_tag) < 0)
        T_FAIL("R3: the base of generation %" PRIu64
               " lies before the last cut",
               m->generation);
    for (uint32_t i = 0; i < m->n_ranks; i++) {
        g->process[i] = m->ranks[i]->process;
        g->rounds[i] =
            g->rounds[i] < base.sequence ? base.sequence : g->rounds[i];
        if (ranker_answered(s, g->process[i], m->generation, &tag) &&
            wire_tag_cmp(tag, base) > 0)
            T_FAIL("R3: the base of generation %" PRIu64
                   " is not the highest that answered",
                   m->generation);
    }
    for (size_t i = 0; i < m->n_holders; i++)
        if (ranker_answered(s, g->process[m->holders[i]], m->generation, &tag))
            T_EQ(wire_tag_cmp(tag, base), 0);
    if (g->from_files)
        check_sources(s, m);
    g->at[base.sequence] =
        base.incarnation == 0 ? s->rings->seed : state_of(s, base);
    T_TRUE(g->at[base.sequence] != NULL);
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
             g->at[progress]->steps);
}

// ---- files

// A set of parts, as a rank makes it, to read files into (rank_set_free).
static struct shard **parts_new(struct sim *s, uint32_t *count)
{
    const struct rank_job j = {.open = s->rings->open, .uid = s->rings->uid};
    struct shard **parts = NULL;

    T_TRUE(s->rings->open != NULL);
    T_OK(rank_set_new(&parts, count, &j, NULL, t_err()));
    return parts;
}

// K2, S1: what is reported is durable, and the state of its tag.
static void reported(struct sim *s, const Sluice__V1__SnapshotReport *m)
{
    struct fs *fs = crash_fs_ops(s->store);
    struct wire_tag tag = wire_tag_of(m->tag);
    const struct line_state *state = state_of(s, tag);
    struct shard **parts;
    uint32_t count = 0;
    char path[512];

    T_TRUE(state != NULL);
    snprintf(path, sizeof(path), "%s/%s", m->folder, m->file);
    // A rank that was told to delete older files may have been told of this.
    if (wire_tag_cmp(tag, s->rings->cut_tag) < 0 && !fs_exists(fs, path))
        return;
    if (!crash_fs_durable(s->store, path))
        T_FAIL("K2: %s was reported and is not durable", path);
    parts = parts_new(s, &count);
    T_LT(m->shard, count);
    T_OK(snap_read(fs, m->folder, tag, (struct wire_tag){0, 0}, parts[m->shard],
                   t_err()));
    truth_equal(&state->ledger, &parts[m->shard]->once.counted);
    truth_values(&state->ledger, parts[m->shard]->memory.values,
                 parts[m->shard]->plan.elements);
    T_EQ(m->counts->counted, state->steps);
    rank_set_free(parts, count);
}

void rings_said(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up)
{
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN)
        s->seen.broken++;
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER)
        ranker_note_answer(p, up->ring_answer->generation);
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT &&
        s->knobs.mode == SIM_RING && up->snapshot->failure[0] == '\0')
        reported(s, up->snapshot);
}

// ---- cuts

void rings_verify(struct sim *s, const Sluice__V1__Checkpoint *c)
{
    struct wire_tag tag = wire_tag_of(c->shards[0]->tag);
    const struct line_state *state = state_of(s, tag);
    uint32_t count = 0;
    struct shard **parts = parts_new(s, &count);

    T_TRUE(state != NULL);
    T_EQ(c->n_shards, count);
    for (size_t i = 0; i < c->n_shards; i++) {
        const Sluice__V1__CheckpointShard *f = c->shards[i];

        if (wire_tag_cmp(wire_tag_of(f->tag), tag) != 0)
            T_FAIL("R6: the parts of cut %" PRIu64 " are of two rounds",
                   c->cut);
        cuts_check_file(f, crash_fs_ops(s->store), parts[f->shard],
                        &state->ledger, c->complete);
    }
    rank_set_free(parts, count);
}

void rings_cut(struct sim *s, const Sluice__V1__Checkpoint *c)
{
    struct wire_tag tag = wire_tag_of(c->shards[0]->tag);
    const struct line_state *state = state_of(s, tag);

    T_EQ(c->n_shards, s->shards);
    if (s->rings->marked > tag.incarnation)
        T_FAIL("K5: the base of generation %" PRIu64 " was chosen while cut "
               "%" PRIu64 " was written",
               s->rings->marked, c->cut);
    rings_verify(s, c);
    if (!follows_cut(s, state))
        T_FAIL("R6: cut %" PRIu64 " does not follow the one before", c->cut);
    T_EQ(c->steps, state->steps);                             // E3
    T_EQ(books_low(s, c->cut), truth_low(s, &state->ledger)); // C4
    s->rings->cut = state;
    s->rings->cut_tag = tag;
    s->seen.cuts++;
}
