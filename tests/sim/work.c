// SPDX-License-Identifier: Apache-2.0
// tests/sim/work.c -- the compute thread of a worker: leases to their outcomes,
// as worker/lease/compute.c and task*.c run them.
//
// The driver of a lease (trainer/lease/steps.h) and all that it does with
// shards are the product's. A step is played: it takes some time, and its
// gradient is what truth.h says. Its ranges become fresh, and are sent, as
// those of a model of layers: the next step reads the first layers while the
// last ones, or the answers for them, are on their way. Other steps are those
// of a program of the user's (lib): all is fresh, all is sent.
#include "tests/sim/fiber.h"
#include "tests/sim/grouper.h"
#include "tests/sim/hand.h"
#include "tests/sim/ranker.h"
#include "tests/sim/truth.h"
#include "trainer/base/grad.h"
#include "trainer/lease/repeats.h"
#include "trainer/lease/steps.h"
#include "trainer/push/job_tables.h"
#include "trainer/push/sync_ps.h"

// ---- the job

static void drop_job(struct hand *h)
{
    struct work_job *j = &h->job;

    if (j->sync != NULL) {
        record_attach(j->record, NULL);
        j->sync->ops->free(j->sync);
    }
    job_tables_free(j->tables);
    record_unref(j->record);
    free(j->cut);
    free(j->params);
    free(j->grads);
    *j = (struct work_job){NULL};
}

static void want_map_run(struct sim *s, struct sim_event *e)
{
    struct hand *h = proc_get(s, e->proc)->self;

    worker_member_want_map(h->member, e->a, e->b);
}

static void want_map(void *arg, uint64_t job, uint64_t have)
{
    struct hand *h = arg;

    if (h->proc->alive)
        sim_after(h->sim, sim_below(h->sim, 50),
                  &(struct sim_event){.kind = SIM_POSTED,
                                      .proc = h->proc->number,
                                      .a = job,
                                      .b = have,
                                      .run = want_map_run});
}

// The job of a lease: the one that is kept, or a new one if JobOpen has said
// something newer.
static struct work_job *get_job(struct hand *h, const struct lease *l)
{
    struct work_job *j = &h->job;

    if (j->record == l->record)
        return j;
    drop_job(h);
    j->record = record_ref(l->record);
    j->nonfinite = nonfinite_rule(l->record->open->spec->train);
    return j;
}

// A program of the user's that has a part of its vectors in memory at a time.
static void be_by_range(struct work_job *j, struct sync_ps_options *o)
{
    j->params = calloc(o->elements, sizeof(float));
    j->grads = calloc(o->elements, sizeof(float));
    T_ASSERT(j->params != NULL && j->grads != NULL);
    o->by_range = true;
    o->params = j->params;
    o->grads = j->grads;
}

static struct sync *get_sync(struct hand *h, struct work_job *j)
{
    struct sync_ps_options o;

    if (j->sync != NULL)
        return j->sync;
    o = record_sync(j->record);
    o.peers = h->peers;
    o.clock = &h->sim->clock.clock;
    o.want_map = want_map;
    o.arg = h;
    o.seed = h->proc->process;
    if (h->sim->knobs.tables)
        T_OK(job_tables_new(&j->tables, j->record->open->spec->model,
                            o.shards_count, t_err()));
    else if (h->sim->knobs.mode == SIM_ASYNC && h->proc->slot % 3 == 1)
        be_by_range(j, &o);
    T_OK(sync_ps_new(&j->sync, &o, t_err()));
    record_attach(j->record, j->sync);
    return j->sync;
}

// ---- a step

struct work_step {
    struct hand *hand;
    struct lease *lease;
    struct sync *sync;
    struct steps *steps;
    uint64_t samples, digest, us; // us: that computing it takes
    bool skip;                    // it is not finite
    bool grouped, parted;         // steps are a group's; that is over
    struct repeats repeats;       // in an audited round
    bool doubtful;                // its two results differ (A5),
    double wrong;                 // by this, in one element
    uint64_t given_up_us;         // when a step was given up last
    unsigned times;
};

static void begin(struct work_step *w)
{
    struct sim *s = w->hand->sim;
    const struct schedule *sched = &s->knobs.schedule;
    uint64_t closure = w->lease->closure, first, us = s->knobs.compute_us;

    schedule_step_range(sched, closure, w->steps->step, &first, &w->samples);
    w->digest = 0;
    for (uint64_t i = first; i < first + w->samples; i++)
        w->digest += schedule_digest(schedule_epoch(sched, closure), i);
    w->us = us / 2 + sim_below(s, us);
    w->skip = sim_chance(s, s->knobs.skips);
}

// One of `parts` parts of the step's time.
static void compute(struct work_step *w, uint64_t parts)
{
    w->hand->computes = true;
    fiber_sleep(w->us / parts);
    w->hand->computes = false;
    pulse_beat(&w->lease->gate.pulse);
}

// In sync the mean of a round is applied: what makes it the sum.
static double round_size(const struct work_step *w)
{
    const struct knobs *k = &w->hand->sim->knobs;
    uint64_t epoch = schedule_closures_per_epoch(&k->schedule);
    uint64_t place, left;

    if (k->open > 0 && k->quorum > 1)
        return TRUTH_SHARES;
    if (k->contributions == 0)
        return 1;
    place = w->lease->closure % epoch;
    left = epoch - place / k->contributions * k->contributions;
    return (double)(left < k->contributions ? left : k->contributions);
}

static void write_gradient(const struct work_step *w, uint32_t range)
{
    const struct elements *r = &w->sync->ranges[range];
    double v[SIM_FIELDS] = {1, 1, 1, 1}, size = round_size(w);

    if (w->hand->sim->knobs.soak == NULL)
        truth_step(v, w->lease->closure, w->steps->step);
    v[0] += w->wrong; // and no shard may ever see it
    for (uint64_t k = 0; k < r->count; k++)
        w->sync->grads[r->first + k] = (float)(v[k % SIM_FIELDS] * size);
}

// Makes the step's gradients of rows, when all answers to the one before are
// there: one row of each shard, of which the sum is twice added up (T3).
static void write_rows(const struct work_step *w)
{
    struct job_tables *t = w->hand->job.tables;
    double v[SIM_FIELDS];
    float part[2][SIM_FIELDS];
    uint64_t ids[2];

    if (t == NULL)
        return;
    job_tables_begin(t);
    truth_step(v, w->lease->closure, w->steps->step);
    for (unsigned k = 0; k < SIM_FIELDS; k++) {
        part[0][k] = (float)(v[k] + 7);
        part[1][k] = -7;
    }
    for (uint32_t i = 0; i < w->sync->ranges_count; i++) {
        ids[0] = ids[1] = truth_row(i, w->sync->ranges_count);
        T_OK(job_tables_add(t, 0, 2, ids, part[0], t_err()));
    }
    T_OK(job_tables_pack(t, WIRE_F32, WIRE_F32, w->sync->ranges, t_err()));
    w->hand->sim->seen.rows += w->sync->ranges_count;
}

static void note(struct work_step *w)
{
    write_rows(w);
    steps_note(w->steps, w->samples, (double)w->samples,
               (double)(w->samples / 2));
}

// Sends a range, whose parameters ops before `read_until` go on reading.
static enum sync_result send(struct work_step *w, uint32_t range,
                             uint32_t read_until)
{
    struct sync_step step = {.step = w->steps->step,
                             .samples = w->samples,
                             .digest = w->digest,
                             .wanted = range,
                             .reads_until = read_until};

    if (w->skip)
        return steps_skip(w->steps, range, &step);
    write_gradient(w, range);
    T_TRUE(job_tables_fill(w->hand->job.tables, range, &step));
    return steps_whole(w->steps, range, &step, true);
}

// The parameters of a range are of one instant: each field is the same in all
// of it (truth.h).
static void check_fresh(const struct work_step *w, uint32_t range)
{
    const struct elements *r = &w->sync->ranges[range];
    const float *at = w->sync->params + r->first;

    for (uint64_t k = SIM_FIELDS; k < r->count; k++)
        T_TRUE(at[k] == at[k % SIM_FIELDS]);
}

// ---- audited rounds (A1)

#define RESULT_MOST 1024 // elements

// Notes result `i` of an audited round: each element is one of the parameters
// and the step's, so it is another one on other parameters. The first worker is
// wrong now and then.
static void note_result(struct work_step *w, uint32_t i)
{
    const struct repeats *r = &w->repeats;
    uint64_t closure = r->slots[i];
    struct sim *s = w->hand->sim;
    const char *name = s->slots[w->hand->proc->slot].name;
    const struct elements *last = &w->sync->ranges[w->sync->ranges_count - 1];
    size_t n = (size_t)(last->first + last->count);
    double v[SIM_FIELDS];
    float result[RESULT_MOST];

    T_LE(n, RESULT_MOST);
    truth_step(v, closure % SIM_CLOSURES, w->steps->step); // of a long job, too
    for (size_t at = 0; at < n; at++)
        result[at] = w->sync->params[at] + (float)v[at % SIM_FIELDS];
    sim_round(sim_kind(s, name), result, n);
    if (sim_is_wrong(s, name)) {
        s->seen.repeats_wrong++;
        s->seen.flips += sim_spoil(s, result, n);
    }
    repeats_note(r, w->lease, sim_kind(s, name), closure, result, n);
    s->seen.repeats++;
}

// SYNC_STOPPED: the step is not to be sent (A5).
static enum sync_result audit(struct work_step *w)
{
    struct repeats *r = &w->repeats;
    const struct lease_repeat *said = w->lease->outcome.repeats;
    const struct elements *last = &w->sync->ranges[w->sync->ranges_count - 1];

    if (r->count == 0)
        return SYNC_OK;
    repeats_inputs(r, 0, w->sync->params, (size_t)(last->first + last->count));
    for (uint32_t i = 0; i < r->count; i++) {
        if (i > 0)
            compute(w, 1);
        note_result(w, i);
    }
    w->wrong = r->twice && said[0].output != said[1].output;
    w->doubtful = repeats_differ(r, w->lease);
    w->hand->sim->seen.doubtful += w->doubtful;
    return w->doubtful ? SYNC_STOPPED : SYNC_OK;
}

// All of it is fresh, then computed, then sent: a program of the user's, or a
// step of which all shards skip it, or none.
static enum sync_result step_whole(struct work_step *w)
{
    enum sync_result result = steps_fresh_wait(w->steps);

    if (result != SYNC_OK)
        return result;
    for (uint32_t i = 0; i < w->sync->ranges_count; i++)
        check_fresh(w, i);
    result = audit(w);
    if (result != SYNC_OK)
        return result;
    compute(w, 1);
    note(w);
    for (uint32_t i = 0; result == SYNC_OK && i < w->sync->ranges_count; i++)
        result = send(w, i, 0);
    steps_end(w->steps);
    return result;
}

// What a range's ops read, until one that is behind the last of them.
struct work_read {
    uint32_t until; // 0: nobody reads it
    float params[64];
};

static void begin_read(const struct work_step *w, uint32_t range,
                       struct work_read *read)
{
    const struct elements *r = &w->sync->ranges[range];

    T_LE(r->count, SL_COUNT(read->params));
    check_fresh(w, range);
    read->until = 2 * w->sync->ranges_count;
    memcpy(read->params, w->sync->params + r->first, r->count * sizeof(float));
}

// Before op `op` ends: what the ops from it on read has not changed.
static void check_reads(const struct work_step *w,
                        const struct work_read reads[SIM_SHARDS], uint32_t op)
{
    for (uint32_t i = 0; i < w->sync->ranges_count; i++) {
        const struct elements *r = &w->sync->ranges[i];

        if (reads[i].until > op)
            T_MEM(reads[i].params, w->sync->params + r->first,
                  r->count * sizeof(float));
    }
}

// Op i reads range i; op 2n - 1 - i reads it again and makes its gradient, of
// which another op may still read the parameters when it is sent.
static enum sync_result step_layers(struct work_step *w)
{
    struct work_read reads[SIM_SHARDS] = {{0}};
    uint32_t n = w->sync->ranges_count;
    enum sync_result result = SYNC_OK;

    for (uint32_t i = 0; i < n; i++) {
        result = sync_wait(w->sync, i, &w->steps->err);
        if (result != SYNC_OK)
            return result;
        begin_read(w, i, &reads[i]);
        compute(w, 2 * (uint64_t)n);
        check_reads(w, reads, i);
    }
    steps_report(w->steps); // the step before has all its answers
    note(w);
    for (uint32_t i = n; result == SYNC_OK && i-- > 0;) {
        uint32_t op = 2 * n - 1 - i;
        uint32_t until = op + 1 + (uint32_t)sim_below(w->hand->sim, 3);

        compute(w, 2 * (uint64_t)n);
        check_reads(w, reads, op);
        reads[i].until = until > op + 1 && until <= 2 * n ? until : 0;
        result = send(w, i, reads[i].until);
        w->sync->ops->past(w->sync, op + 1);
    }
    w->sync->ops->past(w->sync, 2 * n);
    steps_end(w->steps);
    return result;
}

// The memory of a gradient goes: nobody reads it any more.
static enum sync_result drop_gradient(struct work_step *w, uint32_t range)
{
    const struct elements *r = &w->sync->ranges[range];
    enum sync_result result = sync_rest(w->sync, range, &w->steps->err);

    if (result == SYNC_OK)
        memset(w->sync->grads + r->first, 0xff, r->count * sizeof(float));
    return result;
}

static enum sync_result step_by_range(struct work_step *w)
{
    struct sim *s = w->hand->sim;
    uint32_t n = w->sync->ranges_count;
    enum sync_result result = sync_settle(w->sync, &w->steps->err);

    steps_report(w->steps);
    for (uint32_t i = 0; result == SYNC_OK && i < n; i++) {
        result = sync_pull(w->sync, i, i + 1, &w->steps->err);
        if (result != SYNC_OK)
            break;
        check_fresh(w, i);
        compute(w, 2 * (uint64_t)n);
        if (sim_chance(s, 800))
            w->sync->ops->drop(w->sync, i);
    }
    note(w);
    for (uint32_t i = 0; result == SYNC_OK && i < n; i++) {
        compute(w, 2 * (uint64_t)n);
        result = send(w, i, 0);
        if (result == SYNC_OK && sim_chance(s, 500))
            result = drop_gradient(w, (uint32_t)sim_below(s, i + 1));
    }
    steps_end(w->steps);
    s->seen.by_range += result == SYNC_OK;
    return result;
}

static enum sync_result step_run(struct work_step *w)
{
    struct sim *s = w->hand->sim;

    atomic_store(&w->lease->gate.pulse.step, w->steps->step);
    begin(w);
    if (w->hand->job.params != NULL)
        return step_by_range(w);
    repeats_begin(&w->repeats, w->lease);
    if (s->knobs.contributions > 0 || s->knobs.open > 0 || sim_chance(s, 500) ||
        w->repeats.count > 0)
        return step_whole(w);
    return step_layers(w);
}

// ---- leases

static enum sync_result next_step(struct steps *steps)
{
    enum sync_result result;

    do
        result = steps_go(steps);
    while (result == SYNC_OK && steps_between(steps));
    return result;
}

// A step was given up. Many times without a moment between them: a loop without
// end.
static void give_up(struct work_step *w)
{
    struct sim *s = w->hand->sim;

    w->times = sim_now(s) == w->given_up_us ? w->times + 1 : 0;
    w->given_up_us = sim_now(s);
    T_LT(w->times, 1000);
    s->seen.void_evidence++;
    steps_again(w->steps);
}

static enum sync_result all_steps(struct work_step *w)
{
    enum sync_result result = next_step(w->steps);

    while (result == SYNC_OK && w->steps->at != STEPS_DONE) {
        result = w->grouped ? grouper_step(w->hand->group, w->steps, &w->parted,
                                           &w->doubtful)
                            : step_run(w);
        if (result == SYNC_AGAIN) {
            give_up(w);
            result = SYNC_OK;
        }
        if (result == SYNC_OK)
            result = next_step(w->steps);
    }
    steps_report(w->steps);
    w->hand->sim->seen.early += result == SYNC_EARLY;
    return result;
}

static void train(struct hand *h, struct work_job *j, struct lease *l)
{
    struct steps steps;
    struct work_step w = {.hand = h,
                          .lease = l,
                          .sync = get_sync(h, j),
                          .steps = &steps,
                          .grouped = grouper_is_in(h->group)};
    enum sync_result result;

    steps_init(&steps, l, w.sync, &j->nonfinite);
    result = steps_open(&steps);
    if (result == SYNC_OK)
        result = all_steps(&w);
    h->sim->seen.parted += w.parted;
    if (result == SYNC_STOPPED && w.parted)
        lease_hand_back(l, "the worker's group has ended");
    else if (result == SYNC_STOPPED && w.doubtful)
        lease_hand_back(l, "it computed a step twice, with two results");
    else
        steps_conclude(&steps, result);
    w.sync->ops->close(w.sync);
}

// What the cut's snapshots held is what was pulled.
static void check_cut(struct sim *s, const struct lease *l,
                      const struct sync *sync, const float *cut)
{
    for (uint32_t i = 0; i < sync->ranges_count; i++) {
        const struct ledger *ledger = truth_snapshot(s, i, l->tags[i]);

        T_TRUE(ledger != NULL);
        truth_values(ledger, cut + sync->ranges[i].first,
                     sync->ranges[i].count);
    }
}

static void evaluate(struct hand *h, struct work_job *j, struct lease *l)
{
    struct sync *sync = get_sync(h, j);
    struct lease_metrics m = {.steps = l->steps, .samples = l->count};
    struct sl_error err = SL_ERROR_INIT;
    enum sync_result result;

    if (j->cut == NULL)
        j->cut = calloc(j->record->layout.elements, sizeof(float));
    T_ASSERT(j->cut != NULL);
    result = sync_pull_cut(sync, l->tags, &l->gate, j->cut, &err);
    if (result == SYNC_FAILED) {
        lease_fail(l, err.code, &err);
        l->outcome.job_error = false; // its files are gone
    } else if (result != SYNC_OK) {
        lease_stopped(l);
    } else {
        if (h->sim->knobs.soak == NULL)
            check_cut(h->sim, l, sync, j->cut);
        m.loss_samples = l->count;
        m.loss_sum = (double)l->count;
        m.right_sum = (double)(l->count / 2);
        lease_set_progress(l, &m);
    }
}

static void probe(const struct sim *s, struct lease *l)
{
    Sluice__V1__DataFacts *facts = &l->outcome.facts;

    sluice__v1__data_facts__init(facts);
    facts->train_samples = s->knobs.schedule.samples;
    facts->test_samples = 20;
}

static void done(void *arg)
{
    struct lease *l = arg;
    struct hand *h = l->done_arg;

    h->sim->seen.evaluations += h->proc->alive && l->kind == LEASE_EVALUATE &&
                                l->outcome.kind == OUTCOME_COMPLETE;
    worker_member_done(h->member, l);
}

static void run(struct hand *h, struct lease *l)
{
    struct lease *outer = h->runs; // a ring lease, which lasts as its job

    l->gate.pulse.outer = outer == NULL ? NULL : &outer->gate.pulse;
    l->outcome.kind = OUTCOME_COMPLETE;
    atomic_store(&l->running, true);
    h->runs = l;
    if (gate_look(&l->gate, &h->sim->clock.clock) != GATE_OPEN)
        lease_stopped(l); // closed while it waited
    else if (l->kind == LEASE_PROBE)
        probe(h->sim, l);
    else if (l->kind == LEASE_RING && h->group != NULL)
        grouper_run(h->group, get_sync(h, get_job(h, l)), l);
    else if (l->kind == LEASE_RING)
        ranker_run(h->rank, l);
    else if (l->kind == LEASE_EVALUATE && h->sim->knobs.mode == SIM_RING)
        ranker_evaluate(h->rank, l);
    else if (l->kind == LEASE_EVALUATE)
        evaluate(h, get_job(h, l), l);
    else
        train(h, get_job(h, l), l);
    h->runs = outer;
    l->gate.pulse.outer = NULL;
    l->done_arg = h;
    loop_post_task(&h->loop, &l->done, done, l);
}

static struct lease *take_inner(struct hand *h)
{
    list_for(n, &h->queue)
    {
        struct lease *l = list_entry(n, struct lease, queued);

        if (l->kind == LEASE_RING || l->record != h->runs->record)
            continue;
        list_remove(n);
        return l;
    }
    return NULL;
}

void work_between(struct hand *h)
{
    struct lease *l;

    while ((l = take_inner(h)) != NULL)
        run(h, l);
}

void work_run(void *hand)
{
    struct hand *h = hand;

    while (!h->quit || !list_empty(&h->queue)) {
        struct list_node *n = list_pop_front(&h->queue);

        if (n != NULL)
            run(h, list_entry(n, struct lease, queued));
        if (h->forget)
            drop_job(h);
        h->forget = false;
        if (list_empty(&h->queue) && !h->quit)
            (void)fiber_await(&h->queue, 3600 * SIM_SECOND);
    }
    drop_job(h);
}
