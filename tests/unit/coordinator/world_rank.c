// SPDX-License-Identifier: Apache-2.0
// The ranks of the world: they keep R2, R3, R4 and R7, and look whether their
// states are equal and no step is applied twice.
#include <string.h>

#include "plan/audited.h"
#include "plan/round.h"
#include "tests/unit/coordinator/world_members.h"

static void clear(struct fake_state *s)
{
    counted_release(&s->counted);
    memset(s, 0, sizeof(*s));
}

static void copy(struct fake_state *to, const struct fake_state *from)
{
    clear(to);
    *to = *from;
    T_OK(counted_copy(&to->counted, &from->counted));
}

static void forget_begin(struct fake_rank *r)
{
    wire_free((ProtobufCMessage *)r->begun);
    r->begun = NULL;
}

void fake_rank_leave(struct fake_member *m)
{
    m->rank.joined = false;
    m->rank.going = 0;
    m->rank.copies = 0;
    memset(m->rank.request, 0, sizeof(m->rank.request));
    forget_begin(&m->rank);
}

void fake_rank_drop(struct fake_member *m)
{
    fake_rank_leave(m);
    clear(&m->rank.state);
    memset(&m->rank, 0, sizeof(m->rank));
}

// ---- what the coordinator says

static void take_open(struct world *w, struct fake_member *m,
                      const Sluice__V1__RingOpen *open)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingAnswer answer = SLUICE__V1__RING_ANSWER__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(m->rank.state.tag);

    if (open->generation <= m->rank.newest || !m->rank.joined)
        return;
    m->rank.newest = open->generation;
    m->rank.going = 0; // R2
    m->rank.copies = 0;
    memset(m->rank.request, 0, sizeof(m->rank.request));
    forget_begin(&m->rank);
    if (w->groups) { // they have no state, and numbers of terms
        clear(&m->rank.state);
        tag = wire_tag_msg(m->rank.state.tag);
    } else {
        T_LT(open->generation, WORLD_GENERATIONS);
    }
    if (open->generation > w->generation)
        w->generation = open->generation;
    answer.job = open->job;
    answer.job_incarnation = open->job_incarnation;
    answer.generation = open->generation;
    answer.tag = &tag;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER;
    up.ring_answer = &answer;
    fake_send(m, &up);
}

static void give(struct world *w, struct fake_rank *r)
{
    if (!counted_full(&r->state.counted))
        w->gave[r->going][r->state.tag.sequence] |= (uint16_t)(1u << r->self);
}

static void take_keep(struct world *w, const Sluice__V1__Keep *keep)
{
    struct wire_tag oldest = wire_tag_of(keep->tags[0]);
    unsigned kept = 0;

    for (size_t i = 1; i < keep->n_tags; i++) {
        if (wire_tag_cmp(wire_tag_of(keep->tags[i]), oldest) < 0)
            oldest = wire_tag_of(keep->tags[i]);
    }
    for (unsigned i = 0; i < w->files_count; i++) {
        if (wire_tag_cmp(w->files[i].tag, oldest) < 0)
            counted_release(&w->files[i].counted);
        else
            w->files[kept++] = w->files[i];
    }
    w->files_count = kept;
}

void fake_rank_read(struct world *w, struct fake_member *m,
                    Sluice__V1__AttendDown *message)
{
    struct fake_rank *r = &m->rank;
    ProtobufCMessage *begun = NULL;

    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN:
        take_open(w, m, message->ring_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN:
        if (message->ring_begin->generation != r->newest || !r->joined)
            return;
        forget_begin(r);
        T_OK(wire_dup(&begun, &message->ring_begin->base));
        r->begun = (Sluice__V1__RingBegin *)begun;
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_GO:
        if (message->ring_go->generation != r->newest || !r->joined)
            return;
        T_EQ(r->state.tag.incarnation, r->newest);
        r->going = r->newest;
        if (!w->groups)
            give(w, r);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_COPY:
        if (r->joined && message->ring_copy->generation >= r->newest)
            r->copies = message->ring_copy->generation;
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        if (message->snapshot->incarnation == r->going && !w->no_files) {
            r->request[message->snapshot->shard] = message->snapshot->request;
            r->at_round[message->snapshot->shard] = message->snapshot->at_round;
        }
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        take_keep(w, message->keep);
        break;
    default:
        break;
    }
}

// ---- what it says

static void say_join(struct fake_member *m, const Sluice__V1__Lease *lease)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingJoin join = SLUICE__V1__RING_JOIN__INIT;

    join.job = lease->job;
    join.job_incarnation = lease->job_incarnation;
    join.attempt = lease->attempt;
    join.address = m->host != NULL ? "10.0.0.1:1" : "127.0.0.1:1";
    join.host = m->name;
    join.copies = 1;
    join.lanes = join.tokens = !m->one_lane;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_JOIN;
    up.ring_join = &join;
    fake_send(m, &up);
    m->rank.joined = true;
    m->rank.attempt = wire_attempt_of(lease->attempt);
}

static Sluice__V1__ShardCounts counts_of(const struct fake_state *s)
{
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;

    counts.version = s->tag.sequence;
    counts.counted = counts.applied = counted_steps(&s->counted);
    return counts;
}

static void say_ready(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingReady ready = SLUICE__V1__RING_READY__INIT;
    Sluice__V1__ShardCounts counts = counts_of(&m->rank.state);
    Sluice__V1__Tag tag = wire_tag_msg(m->rank.state.tag);
    struct wire_counted set;

    T_OK(wire_counted_init(&set, &m->rank.state.counted));
    ready.job = w->job;
    ready.job_incarnation = 1;
    ready.generation = m->rank.newest;
    ready.tag = &tag;
    ready.counted = &set.msg;
    ready.counts = &counts;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_READY;
    up.ring_ready = &ready;
    fake_send(m, &up);
    wire_counted_release(&set);
}

// Results of its last round, of the slots of its rank and of the next ones.
// Right ones depend on the slot alone.
struct fake_results {
    Sluice__V1__Repeat items[WORLD_ROUNDS + 1], *list[WORLD_ROUNDS + 1];
    struct sketch sketches[WORLD_ROUNDS + 1];
};

static void fake_result(struct world *w, struct fake_member *m,
                        struct round_key key, Sluice__V1__Repeat *out,
                        struct sketch *sketch)
{
    sluice__v1__repeat__init(out);
    out->closure = key.closure;
    out->step = key.step;
    out->inputs = m->rank.going << 32 | m->rank.state.tag.sequence;
    out->output = 1000 + 8 * key.closure + key.step;
    fake_result_of(w, m, out, sketch);
}

static size_t fake_results_of(struct world *w, struct fake_member *m,
                              struct fake_results *out)
{
    const struct fake_rank *r = &m->rank;
    uint64_t ranks[AUDITED_WORKERS];
    uint32_t n = audited_slots(0, r->ranks, r->self, ranks), first, slots;
    size_t count = 0;

    for (uint32_t i = 0; m->host != NULL && i < (m->meddles ? 1 : n); i++) {
        round_slots(r->last_count, m->meddles ? 1 : r->ranks,
                    m->meddles ? 0 : (uint32_t)ranks[i], &first, &slots);
        for (uint32_t k = first; k < first + slots; k++, count++)
            fake_result(w, m, r->last[k], &out->items[count],
                        &out->sketches[count]);
    }
    if (m->meddles && count > 1) // as many as it may say, one of another round
        out->items[count - 1].closure += WORLD_CLOSURES;
    for (size_t i = 0; i < count; i++)
        out->list[i] = &out->items[i];
    return count;
}

static void say_step(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingStep step = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__ShardCounts counts = counts_of(&m->rank.state);
    struct fake_results results;

    step.job = w->job;
    step.job_incarnation = 1;
    step.generation = m->rank.going;
    step.sequence = m->rank.state.tag.sequence;
    step.counts = &counts;
    step.repeats = results.list;
    step.n_repeats = fake_results_of(w, m, &results);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_STEP;
    up.ring_step = &step;
    fake_send(m, &up);
    m->rank.told = step.sequence;
}

// ---- its state

static const struct fake_state *file_of(const struct world *w,
                                        struct wire_tag tag)
{
    for (unsigned i = 0; i < w->files_count; i++) {
        if (wire_tag_cmp(w->files[i].tag, tag) == 0)
            return &w->files[i];
    }
    return NULL;
}

// Of one that holds the base, and has not gone on from there.
static const struct fake_state *
holder_of(struct world *w, const Sluice__V1__RingBegin *b, struct wire_tag base)
{
    const struct wire_tag placed = {b->generation, base.sequence};

    for (size_t i = 0; i < b->n_holders; i++) {
        uint64_t process = b->ranks[b->holders[i]]->process;

        for (unsigned k = 0; k < WORLD_MEMBERS; k++) {
            const struct fake_member *m = &w->members[k];

            if (m->used && m->alive && m->process == process &&
                (wire_tag_cmp(m->rank.state.tag, base) == 0 ||
                 wire_tag_cmp(m->rank.state.tag, placed) == 0))
                return &m->rank.state;
        }
    }
    return NULL;
}

static bool bring_base(struct world *w, struct fake_member *m)
{
    const Sluice__V1__RingBegin *b = m->rank.begun;
    struct wire_tag base = wire_tag_of(b->base_tag);
    struct fake_state *mine = &m->rank.state;
    const struct fake_state *from;

    if (b->n_holders > 0) {
        from = holder_of(w, b, base);
        if (from == NULL)
            return false; // it has died: another generation will come
    } else if (base.incarnation != 0) {
        T_EQ(b->n_sources, w->shards);
        from = file_of(w, base);
        T_TRUE(from != NULL); // K3
    } else {
        clear(mine);
        T_OK(counted_init(&mine->counted, &w->schedule));
        return true;
    }
    if (from != mine)
        copy(mine, from);
    return true;
}

static void place_base(struct world *w, struct fake_member *m)
{
    struct fake_rank *r = &m->rank;

    if (!bring_base(w, m))
        return;
    r->state.tag =
        (struct wire_tag){r->newest, wire_tag_of(r->begun->base_tag).sequence};
    r->ranks = (uint32_t)r->begun->n_ranks;
    r->self = r->begun->self;
    r->contributions = r->begun->contributions;
    r->lanes = r->begun->lanes;
    r->token = wire_token_of(r->begun->token);
    T_EQ(r->begun->ranks[r->self]->process, m->process);
    r->told = r->state.tag.sequence;
    forget_begin(r);
    say_ready(w, m);
}

// What a rank of that generation has now, if one is left.
static void copy_ahead(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingCopied copied = SLUICE__V1__RING_COPIED__INIT;
    Sluice__V1__Tag tag;

    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        const struct fake_member *o = &w->members[i];

        if (o->used && o->alive && o->rank.going == m->rank.copies)
            copy(&m->rank.state, &o->rank.state);
    }
    tag = wire_tag_msg(m->rank.state.tag);
    copied.job = w->job;
    copied.job_incarnation = 1;
    copied.generation = m->rank.copies;
    copied.tag = &tag;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_COPIED;
    up.ring_copied = &copied;
    fake_send(m, &up);
    m->rank.copies = 0;
    w->copied_ahead++;
}

static void check_equal(struct world *w, const struct fake_rank *r)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        const struct fake_rank *o = &w->members[i].rank;

        if (!w->members[i].alive || o->going != r->going)
            continue;
        T_TRUE(o->state.tag.sequence + 1 >= r->state.tag.sequence &&
               r->state.tag.sequence + 1 >= o->state.tag.sequence);
        if (o->state.tag.sequence != r->state.tag.sequence)
            continue;
        T_TRUE(counted_equal(&o->state.counted, &r->state.counted));
        T_EQ(memcmp(o->state.by, r->state.by, sizeof(r->state.by)), 0);
    }
}

static void apply(struct world *w, struct fake_rank *r)
{
    struct round_key keys[WORLD_ROUNDS];
    uint32_t count =
        round_next(&r->state.counted, r->contributions, keys); // R4

    for (uint32_t i = 0; i < count; i++)
        T_OK(counted_add(&r->state.counted, keys[i].closure, keys[i].step));
    T_LT(r->state.tag.sequence, WORLD_ROUNDS);
    r->state.by[r->state.tag.sequence++] = r->going;
    r->last_count = count;
    memcpy(r->last, keys, count * sizeof(keys[0]));
    check_equal(w, r);
    give(w, r);
}

// ---- files

static void say_file(struct world *w, struct fake_member *m, uint32_t part,
                     const char *failure)
{
    const struct fake_state *s = &m->rank.state;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__SnapshotReport report = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__ShardCounts counts = counts_of(s);
    Sluice__V1__Tag tag = wire_tag_msg(s->tag);
    struct wire_counted set;
    uint8_t sha[32] = {1};

    T_OK(wire_counted_init(&set, &s->counted));
    report.job = w->job;
    report.job_incarnation = 1;
    report.shard = part;
    report.tag = &tag;
    report.file = "part.safetensors";
    report.folder = "/shared";
    report.file_bytes = 10;
    report.sha256.data = sha;
    report.sha256.len = sizeof(sha);
    report.counted = &set.msg;
    report.counts = &counts;
    report.request = m->rank.request[part];
    report.failure = (char *)failure;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT;
    up.snapshot = &report;
    fake_send(m, &up);
    wire_counted_release(&set);
    m->rank.request[part] = 0;
}

// True if it wrote or refused one, or must not go on before it has.
static bool write_part(struct world *w, struct fake_member *m)
{
    const struct fake_state *s = &m->rank.state;

    for (uint32_t i = 0; i < WORLD_SHARDS; i++) {
        bool last = counted_full(&s->counted);

        if (m->rank.request[i] == 0)
            continue;
        if (!last && s->tag.sequence > m->rank.at_round[i]) {
            say_file(w, m, i, "passed");
            return true;
        }
        if (!last && s->tag.sequence < m->rank.at_round[i])
            continue;
        if (file_of(w, s->tag) == NULL) {
            T_LT(w->files_count, WORLD_SNAPS);
            memset(&w->files[w->files_count], 0, sizeof(w->files[0]));
            copy(&w->files[w->files_count++], s);
        }
        say_file(w, m, i, "");
        return true;
    }
    return false;
}

void fake_rank_work(struct world *w, struct fake_member *m,
                    const Sluice__V1__Lease *lease)
{
    struct fake_rank *r = &m->rank;
    const struct fake_state *s = &r->state;

    if (r->joined &&
        wire_attempt_cmp(r->attempt, wire_attempt_of(lease->attempt)) != 0)
        r->joined = false;
    if (!r->joined) {
        if (m->stream != 0)
            say_join(m, lease);
        return;
    }
    if (r->begun != NULL) {
        place_base(w, m);
        return;
    }
    if (r->copies != 0 && m->stream != 0) {
        copy_ahead(w, m);
        return;
    }
    if (r->going == 0 || w->groups || write_part(w, m))
        return;
    if (!counted_full(&s->counted) &&
        w->gave[r->going][s->tag.sequence] == (1u << r->ranks) - 1)
        apply(w, r);
    else if (r->told != s->tag.sequence && m->stream != 0)
        say_step(w, m);
}
