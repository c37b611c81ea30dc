// SPDX-License-Identifier: Apache-2.0
// tests/sim/rank_rounds.c -- a rank that sums: what it gives to a round and
// gets from the others, the copy ahead of a newcomer, files of cuts.
#include "plan/round.h"
#include "tests/sim/rank.h"
#include "tests/sim/rings.h"

#define PATIENCE_US (2 * SIM_SECOND)
#define AGAIN_US 30000 // what could not pass

// ---- counts

void round_counts(struct sim *s, const struct rank_state *state,
                  struct rank_counts *out)
{
    const struct schedule *sched = &s->knobs.schedule;

    T_LE(sched->epochs, SL_COUNT(out->epoch));
    out->msg = (Sluice__V1__ShardCounts)SLUICE__V1__SHARD_COUNTS__INIT;
    out->msg.version = state->tag.sequence;
    out->msg.counted = out->msg.applied = counted_steps(&state->counted);
    out->msg.low = counted_low(&state->counted);
    for (uint32_t i = 0; i < sched->epochs; i++) {
        out->epoch[i] = (Sluice__V1__EpochCount)SLUICE__V1__EPOCH_COUNT__INIT;
        out->epoch[i].epoch = i;
        out->epochs[i] = &out->epoch[i];
    }
    for (uint64_t c = 0; c < schedule_closures(sched); c++) {
        Sluice__V1__EpochCount *e = &out->epoch[schedule_epoch(sched, c)];

        for (uint32_t k = 0; k < schedule_closure_steps(sched, c); k++) {
            uint64_t first, samples;

            if (!counted_has(&state->counted, c, k))
                continue;
            schedule_step_range(sched, c, k, &first, &samples);
            e->steps++;
            e->samples += samples;
            for (uint64_t i = first; i < first + samples; i++)
                e->digest += schedule_digest(e->epoch, i);
        }
    }
    out->msg.epochs = out->epochs;
    out->msg.n_epochs = sched->epochs;
}

static void send_step(struct crew *c)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingStep m = SLUICE__V1__RING_STEP__INIT;
    struct rank *r = c->rank;
    struct rank_counts counts;

    round_counts(c->sim, &r->state, &counts);
    counts.msg.n_epochs = 0;
    m.job = c->sim->job;
    m.job_incarnation = c->job_incarnation;
    m.generation = r->going;
    m.sequence = r->state.tag.sequence;
    m.counts = &counts.msg;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_STEP;
    up.ring_step = &m;
    if (session_up(c->sim, c->proc, &up))
        r->told = m.sequence;
}

// ---- files of cuts

struct writing {
    struct rank_state state; // as it was when it was frozen
    struct shard_image *image;
    uint32_t part;
    uint64_t request;
};

static void writing_free(void *data)
{
    struct writing *w = data;

    rank_clear(&w->state);
    shard_image_release(w->image);
    free(w->image);
    free(w);
}

static void send_file(struct crew *c, const struct rank_state *s, uint32_t part,
                      uint64_t request, const char *failure)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__SnapshotReport m = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(s->tag);
    struct rank_counts counts;
    struct wire_counted set;
    uint8_t sha[32] = {1};

    T_OK(wire_counted_init(&set, &s->counted));
    round_counts(c->sim, s, &counts);
    m.job = c->sim->job;
    m.job_incarnation = c->job_incarnation;
    m.shard = part;
    m.tag = &tag;
    m.file = "part.safetensors";
    m.folder = "/shared";
    m.file_bytes = 10;
    m.sha256.data = sha;
    m.sha256.len = sizeof(sha);
    m.counted = &set.msg;
    m.counts = &counts.msg;
    m.request = request;
    m.failure = (char *)failure;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT;
    up.snapshot = &m;
    crew_send(c, &up);
    wire_counted_release(&set);
}

// Only now it is there, whatever has become of its generation (R6).
static void written_run(struct sim *s, struct sim_event *e)
{
    struct crew *c = proc_get(s, e->proc)->self;
    struct writing *w = e->data;

    if (!s->healed && sim_chance(s, s->knobs.write_fault)) {
        s->seen.write_faults++;
        send_file(c, &w->state, w->part, w->request, "simulated");
        return;
    }
    rings_add_file(s, w->part, &w->state);
    send_file(c, &w->state, w->part, w->request, "");
}

static void start_writing(struct crew *c, uint32_t part)
{
    uint64_t slow = sim_chance(c->sim, 200) ? SIM_SECOND : 15000;
    struct shard_image *image = give_freeze(c->rank->give, part);
    struct rank *r = c->rank;
    struct writing *w;

    if (image == NULL) {
        send_file(c, &r->state, part, r->request[part], "it is being copied");
        return;
    }
    w = calloc(1, sizeof(*w));
    T_ASSERT(w != NULL);
    w->image = image;
    w->part = part;
    w->request = r->request[part];
    rank_copy(&w->state, &r->state);
    sim_after(c->sim, sim_below(c->sim, slow),
              &(struct sim_event){.kind = SIM_POOL,
                                  .proc = c->proc->number,
                                  .a = w->request,
                                  .b = part,
                                  .data = w,
                                  .run = written_run,
                                  .drop = writing_free});
}

// R6: each part at the round that was named, or the last.
void round_write(struct crew *c)
{
    struct rank *r = c->rank;
    bool last = counted_full(&r->state.counted);

    for (uint32_t i = 0; i < c->sim->shards; i++) {
        if (r->request[i] == 0 ||
            (!last && r->state.tag.sequence < r->at_round[i]))
            continue;
        if (r->at_round[i] != 0 && r->state.tag.sequence > r->at_round[i])
            send_file(c, &r->state, i, r->request[i], "that round is past");
        else
            start_writing(c, i);
        r->request[i] = 0;
    }
}

// ---- rounds

static uint32_t keys_of(const struct rank *r, struct round_key *keys)
{
    T_LE(r->contributions, SIM_STEPS);
    return round_next(&r->state.counted, r->contributions, keys); // R4
}

static void add_key(double sum[SIM_FIELDS], const struct round_key *key)
{
    double v[SIM_FIELDS];

    truth_step(v, key->closure, key->step);
    for (unsigned i = 0; i < SIM_FIELDS; i++)
        sum[i] += v[i];
}

static bool complete(const struct rank *r)
{
    for (uint32_t i = 0; i < r->ranks; i++) {
        const struct gift *g = &r->got[i][r->state.tag.sequence % 2];

        if (!g->there || g->sequence != r->state.tag.sequence)
            return false;
    }
    return true;
}

// All give to one round of one state; together that is the keys of the round.
static void check_gifts(struct sim *s, const struct rank *r,
                        const struct round_key *keys, uint32_t count)
{
    double asked[SIM_FIELDS] = {0}, given[SIM_FIELDS] = {0};

    for (uint32_t i = 0; i < count; i++)
        add_key(asked, &keys[i]);
    for (uint32_t i = 0; i < r->ranks; i++) {
        const struct gift *g = &r->got[i][r->state.tag.sequence % 2];

        if (g->state != rings_mark(&r->state))
            T_FAIL("R3: two ranks of generation %llu sum at round %llu of "
                   "different states",
                   (unsigned long long)r->going,
                   (unsigned long long)r->state.tag.sequence);
        for (unsigned k = 0; k < SIM_FIELDS; k++)
            given[k] += g->sum[k];
    }
    for (unsigned k = 0; k < SIM_FIELDS; k++)
        T_EQ((int64_t)given[k], (int64_t)asked[k]);
}

static void apply(struct crew *c)
{
    struct rank *r = c->rank;
    struct rank_state *s = &r->state;
    struct round_key keys[SIM_STEPS];
    uint32_t count = keys_of(r, keys);

    round_write(c);
    check_gifts(c->sim, r, keys, count);
    T_LT(s->tag.sequence, SIM_STEPS);
    for (uint32_t i = 0; i < count; i++) {
        rings_count(c->sim, s, keys[i].closure, keys[i].step);
        T_OK(counted_add(&s->counted, keys[i].closure, keys[i].step));
    }
    for (uint32_t i = 0; i < r->ranks; i++)
        r->got[i][s->tag.sequence % 2].there = false;
    s->by[s->tag.sequence++] = (uint32_t)r->going;
    r->gave = false;
    r->waits_us = sim_now(c->sim);
    rings_applied(c->sim, c->proc, s);
    give_round(r->give, s, keys, count);
}

static void go_on(struct crew *c)
{
    while (c->rank->going != 0 && c->rank->gave && complete(c->rank))
        apply(c);
    if (c->rank->going != 0)
        round_drive(c);
}

// ---- what ranks send each other

static uint32_t index_of(const struct rank *r, uint64_t process)
{
    for (uint32_t i = 0; i < r->ranks; i++)
        if (r->process[i] == process)
            return i;
    return UINT32_MAX;
}

// Its kernel says that nobody is there any more.
static void reset_sender(struct sim *s, const struct gift *g)
{
    struct proc *from = proc_get(s, g->from);
    struct rank *r = from == NULL ? NULL : ((struct crew *)from->self)->rank;
    uint32_t index;

    if (r == NULL || r->going != g->generation)
        return;
    index = index_of(r, s->procs[g->to - 1]->process);
    if (index != UINT32_MAX)
        rank_broken(from->self, index);
}

static void gift_run(struct sim *s, struct sim_event *e)
{
    struct gift *g = e->data;
    struct proc *to = proc_get(s, g->to);
    uint32_t from_host = s->procs[g->from - 1]->host;
    struct rank *r;

    if (to == NULL) {
        reset_sender(s, g);
        return;
    }
    if (net_cut(s, from_host, to->host) || to->paused_until_us > sim_now(s)) {
        if (proc_get(s, g->from) == NULL)
            return;
        sim_after(s, AGAIN_US, e); // the event's data goes with it
        e->data = NULL;
        return;
    }
    r = ((struct crew *)to->self)->rank;
    if (r->newest != g->generation || r->state.tag.incarnation != g->generation)
        return; // R2
    T_TRUE(g->sequence == r->state.tag.sequence ||
           g->sequence == r->state.tag.sequence + 1);
    r->got[g->index][g->sequence % 2] = *g;
    go_on(to->self);
}

static void send_gift(struct crew *c, const struct gift *gift, struct proc *to)
{
    struct gift *copy = malloc(sizeof(*copy));

    T_ASSERT(copy != NULL);
    *copy = *gift;
    copy->to = to->number;
    sim_after(c->sim, net_delay(c->sim, c->proc->host, to->host),
              &(struct sim_event){.kind = SIM_GIFT,
                                  .a = gift->generation,
                                  .b = gift->sequence,
                                  .data = copy,
                                  .run = gift_run,
                                  .drop = free});
}

static void give(struct crew *c)
{
    struct rank *r = c->rank;
    struct gift gift = {.from = c->proc->number,
                        .generation = r->going,
                        .sequence = r->state.tag.sequence,
                        .index = r->self,
                        .state = rings_mark(&r->state),
                        .there = true};
    struct round_key keys[SIM_STEPS];
    uint32_t first, count, all = keys_of(r, keys), dead = UINT32_MAX;

    round_slots(all, r->ranks, r->self, &first, &count);
    for (uint32_t i = first; i < first + count; i++)
        add_key(gift.sum, &keys[i]);
    r->gave = true;
    r->got[r->self][gift.sequence % 2] = gift;
    for (uint32_t i = 0; i < r->ranks; i++) {
        struct proc *to = rank_proc(c->sim, r->process[i]);

        if (to == NULL)
            dead = i;
        else if (i != r->self)
            send_gift(c, &gift, to);
    }
    if (dead != UINT32_MAX)
        rank_broken(c, dead);
}

static void computed_run(struct sim *s, struct sim_event *e)
{
    struct crew *c = proc_get(s, e->proc)->self;
    struct rank *r = c->rank;

    if (r->number != e->a || !r->computes || r->going == 0)
        return;
    r->computes = false;
    give(c);
    go_on(c);
}

static void compute(struct crew *c)
{
    uint64_t us = c->sim->knobs.compute_us;

    c->rank->computes = true;
    sim_after(c->sim, us / 2 + sim_below(c->sim, us),
              &(struct sim_event){.kind = SIM_COMPUTED,
                                  .proc = c->proc->number,
                                  .a = ++c->rank->number,
                                  .run = computed_run});
}

// Who keeps it waiting, if that takes too long.
static uint32_t suspect(struct crew *c)
{
    const struct rank *r = c->rank;

    if (!r->gave || sim_now(c->sim) - r->waits_us < PATIENCE_US)
        return UINT32_MAX;
    for (uint32_t i = 0; i < r->ranks; i++)
        if (!r->got[i][r->state.tag.sequence % 2].there)
            return i;
    return UINT32_MAX;
}

void round_drive(struct crew *c)
{
    struct rank *r = c->rank;
    bool over = counted_full(&r->state.counted);

    round_write(c);
    if (r->told != r->state.tag.sequence && (over || sim_chance(c->sim, 600)))
        send_step(c);
    if (over)
        return;
    if (suspect(c) != UINT32_MAX)
        rank_broken(c, suspect(c));
    else if (!r->computes && !r->gave && !give_lags(r->give))
        compute(c);
}

// ---- a newcomer's copy, while the others go on

// Whoever gives out the part that it asks for next, if that can be reached now.
static struct rank *giver(struct crew *c)
{
    const Sluice__V1__RingCopy *m = c->rank->copy;
    uint64_t process = m->ranks[take_part(c->rank->take) % m->n_ranks]->process;
    struct proc *p = rank_proc(c->sim, process);
    struct rank *r;

    if (p == NULL || p == c->proc || p->paused_until_us > sim_now(c->sim) ||
        net_cut(c->sim, p->host, c->proc->host) ||
        net_cut(c->sim, c->proc->host, p->host))
        return NULL;
    r = ((struct crew *)p->self)->rank;
    return r->going == m->generation ? r : NULL;
}

static void say_copied(struct crew *c)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingCopied m = SLUICE__V1__RING_COPIED__INIT;
    struct rank *r = c->rank;
    Sluice__V1__Tag tag = wire_tag_msg(r->state.tag);

    m.job = c->sim->job;
    m.job_incarnation = c->job_incarnation;
    m.generation = r->copies;
    m.tag = &tag;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_COPIED;
    up.ring_copied = &m;
    r->copies = 0;
    take_free(r->take);
    r->take = NULL;
    session_up(c->sim, c->proc, &up);
}

// A call at a time. What leads nowhere is given up, and said so.
void round_copy_ahead(struct crew *c)
{
    struct rank *r = c->rank, *from;
    enum sl_err rc = SL_EBUSY;

    if (sim_now(c->sim) < r->copy_us)
        return;
    from = giver(c);
    if (from != NULL)
        rc = take_call(r->take, from->give);
    if (from != NULL &&
        take_is_level(r->take, counted_steps(&from->state.counted))) {
        rank_copy(&r->state, &from->state);
        c->sim->seen.copied_ahead++;
        say_copied(c);
    } else if ((rc != SL_OK && rc != SL_EBUSY) ||
               sim_now(c->sim) >= r->copy_until_us) {
        say_copied(c);
    }
}
