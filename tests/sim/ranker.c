// SPDX-License-Identifier: Apache-2.0
// tests/sim/ranker.c -- a rank's contributions: see ranker.h.
#include "tests/sim/ranker.h"

#include <math.h>

#include "common/base/mem.h"
#include "tests/sim/calls.h"
#include "tests/sim/fiber.h"
#include "tests/sim/rings.h"
#include "trainer/base/grad.h"
#include "trainer/lease/ring_round.h"
#include "trainer/lease/task_ring.h"
#include "trainer/sum/ranks.h"

#define BUCKET_BYTES 64 // the few parameters in several buckets

struct ranker {
    struct contributor base;
    struct sim *sim;
    struct hand *hand;
    struct ring_env env;
    struct ranks *ranks;
    struct wire_tag seen; // of its state, when it was looked at last
    uint64_t answered;    // generation
    uint64_t copies;      // that it copied a piece of; 0: none

    // What it keeps of the job, since the JobOpen that it knows.
    struct record *record; // a reference
    struct model *model;
    struct spec_optimizer optimizer;
    struct nonfinite nonfinite;
    struct job_ring *ring;

    struct round_key *keys; // of our slots
    uint32_t keys_count;
};

static struct ranker *ranker_of(struct contributor *c)
{
    return sl_container_of(c, struct ranker, base);
}

static void look(struct ranker *r)
{
    if (r->ring != NULL && r->hand->proc->alive)
        rings_look_at(r->sim, r->hand->proc, &r->ring->rank, r->answered,
                      &r->seen);
}

// ---- contributions

static enum sl_err place(struct contributor *c, struct sl_error *err)
{
    look(ranker_of(c));
    ranker_of(c)->copies = 0;
    return SL_OK;
}

static enum sl_err choose(struct contributor *c,
                          const struct round_key *const rounds[2],
                          const uint32_t counts[2], struct sl_error *err)
{
    struct ranker *r = ranker_of(c);

    look(r);
    r->keys = realloc(r->keys, (counts[0] + 1) * sizeof(*r->keys));
    T_ASSERT(r->keys != NULL);
    r->keys_count = counts[0];
    if (counts[0] > 0)
        memcpy(r->keys, rounds[0], counts[0] * sizeof(*r->keys));
    return SL_OK;
}

// The mean over all samples of the round makes rings_step's numbers of these.
static void write_gradient(struct ranker *r, const struct ring_round *round,
                           const struct round_key *key, uint64_t samples)
{
    const struct record *record = round->lease->record;
    double v[SIM_FIELDS];

    rings_step(v, key->closure, key->step, r->ring->rank.tag.incarnation);
    for (uint32_t i = 0; i < record->layout.shards_count; i++) {
        float *to = r->ring->grads + record->shards[i].first;

        for (uint64_t k = 0; k < record->shards[i].count; k++)
            to[k] = (float)(v[k % SIM_FIELDS] * (double)round->samples /
                            (double)samples);
    }
}

// Takes the time of a step.
static enum sl_err take_time(struct ranker *r, struct sl_error *err)
{
    uint64_t us = r->sim->knobs.compute_us;

    r->hand->computes = true;
    fiber_sleep(us / 2 + sim_below(r->sim, us));
    r->hand->computes = false;
    return fiber_dying() ? sl_fail(err, SL_ECANCELED, "the process died")
                         : SL_OK;
}

// Says what was computed of a slot; see work.c's note_result. The first worker
// is wrong now and then.
static void say_result(struct ranker *r, struct ring_round *round,
                       struct round_key key)
{
    struct sim *s = r->sim;
    const char *name = s->slots[r->hand->proc->slot].name;
    bool wrong = sim_is_wrong(s, name);
    struct ring_repeats *audit = &round->audit;

    if (!round_audited(round))
        return;
    audit->digest += sim_kind(s, name); // its bits
    if (wrong && sim_chance(s, s->knobs.flips)) {
        audit->digest ^= UINT64_C(1) << sim_below(s, 64);
        audit->sketch.of[1] += sqrt(audit->sketch.of[0]);
        s->seen.flips++;
    }
    round_result(round, key, sim_kind(s, name));
    s->seen.repeats++;
    s->seen.repeats_wrong += wrong;
}

static enum sl_err compute(struct contributor *c, struct ring_round *round,
                           uint32_t slot, struct sl_error *err)
{
    struct ranker *r = ranker_of(c);
    enum sl_err rc;

    T_LT(slot, r->keys_count);
    rc = take_time(r, err);
    if (rc != SL_OK)
        return rc;
    write_gradient(r, round, &r->keys[slot],
                   round->steps[round->first + slot].samples);
    round->loss_sum += (double)round->steps[round->first + slot].samples;
    for (uint32_t b = r->ring->buckets_count; rc == SL_OK && b-- > 0;)
        rc = round_whole(round, b, true, 1, err);
    say_result(r, round, r->keys[slot]);
    return rc;
}

// ---- audited rounds (A1)

static bool inputs(struct contributor *c, uint64_t *out)
{
    struct ranker *r = ranker_of(c);

    // A gradient that is played depends on the generation, too.
    *out = grad_digest(r->ring->rank.tag.incarnation, rank_flat(&r->ring->rank),
                       (size_t)r->model->elements);
    return r->hand->proc->slot % 5 != 0; // some compute on a GPU
}

static enum sl_err repeat(struct contributor *c, struct ring_round *round,
                          const struct round_key *key, struct sl_error *err)
{
    struct ranker *r = ranker_of(c);
    enum sl_err rc = take_time(r, err);

    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < round->count; i++)
        if (round->steps[i].closure == key->closure &&
            round->steps[i].step == key->step)
            write_gradient(r, round, key, round->steps[i].samples);
    for (uint32_t b = 0; rc == SL_OK && b < r->ring->buckets_count; b++)
        rc = round_whole(round, b, true, 1, err);
    say_result(r, round, *key);
    return rc;
}

static void between(struct contributor *c)
{
    look(ranker_of(c));
    work_between(ranker_of(c)->hand);
}

static void leave(struct contributor *c)
{
}

static const struct contributor_ops ops = {
    .place = place,
    .choose = choose,
    .inputs = inputs,
    .repeat = repeat,
    .compute = compute,
    .between = between,
    .leave = leave,
};

// ---- the job

// A coordinator that has come back opens the job anew: the state stays.
static void take_record(struct ranker *r, struct record *record)
{
    const Sluice__V1__JobSpec *spec = record->open->spec;
    struct job_ring *ring = NULL;
    size_t bytes;

    if (r->record == record)
        return;
    record_unref(r->record);
    r->record = record_ref(record);
    model_free(r->model);
    r->model = NULL;
    T_OK(model_make(&r->model, spec->model, t_err()));
    T_OK(record_fits(record, r->model, t_err()));
    T_OK(spec_optimizer(&r->optimizer, spec->optimizer, t_err()));
    r->nonfinite = nonfinite_rule(spec->train);
    bytes = (size_t)r->model->elements * sizeof(float);
    T_OK(job_ring_new(&ring, r->model, BUCKET_BYTES));
    ring->own = sl_aligned(64, bytes);
    T_ASSERT(ring->own != NULL);
    memset(ring->own, 0, bytes);
    ring->grads = ring->own;
    if (r->ring != NULL)
        job_ring_hand(r->ring, ring, record->open);
    job_ring_free(r->ring);
    r->ring = ring;
    T_OK(job_ring_sum(ring, r->model->elements, t_err()));
    r->base = (struct contributor){.ops = &ops,
                                   .clock = &r->sim->clock.clock,
                                   .ring = ring,
                                   .model = r->model,
                                   .optimizer = &r->optimizer,
                                   .nonfinite = &r->nonfinite};
}

void ranker_run(struct ranker *r, struct lease *l)
{
    take_record(r, l->record);
    task_ring_run(&r->base, l);
}

// ---- evaluations

static enum sl_err read_part(struct ranker *r, uint32_t part,
                             struct wire_tag tag, struct sl_error *err)
{
    const struct plan *plan = &r->ring->rank.parts[part]->plan;
    const struct ledger *ledger = rings_ledger(r->sim, tag);
    char *folder = snap_folder(r->env.store, plan);
    struct tagged_file *file = NULL;
    enum sl_err rc = snap_values(r->env.fs, folder, plan, tag, &file, err);

    if (rc == SL_OK) {
        T_TRUE(ledger != NULL);
        T_EQ(file->bytes, plan_values_bytes(plan));
        truth_values(ledger, file->values, plan->elements);
    }
    tagged_file_unref(file);
    sl_free(folder);
    return rc;
}

// As worker/lease/job_rank.c does: the state says how to read the files.
void ranker_evaluate(struct ranker *r, struct lease *l)
{
    struct lease_metrics m = lease_progress(l);
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (r->ring == NULL || r->ring->rank.count != l->tags_count)
        rc = sl_fail(&err, SL_ESTATE, "the state has other parts");
    for (uint32_t i = 0; rc == SL_OK && i < l->tags_count; i++)
        rc = read_part(r, i, l->tags[i], &err);
    if (rc != SL_OK) {
        lease_fail(l, rc, &err);
        return;
    }
    m.steps = l->steps;
    m.samples = m.loss_samples = l->count;
    m.loss_sum = (double)l->count;
    m.right_sum = (double)(l->count / 2);
    lease_set_progress(l, &m);
}

// ---- what others see

static struct ranker *ranker_at(const struct proc *p)
{
    const struct hand *h = p->role == SIM_WORKER ? p->self : NULL;

    return h == NULL ? NULL : h->rank;
}

void ranker_look(struct sim *s, struct proc *p)
{
    struct ranker *r = s->knobs.mode == SIM_RING ? ranker_at(p) : NULL;

    if (r != NULL)
        look(r);
}

void ranker_note_copy(struct proc *p, uint64_t generation)
{
    ranker_at(p)->copies = generation;
}

void ranker_note_answer(struct proc *p, uint64_t generation)
{
    ranker_at(p)->answered = generation;
}

bool ranker_answered(struct sim *s, uint64_t process, uint64_t generation,
                     struct wire_tag *out)
{
    struct proc *p = proc_of(s, process);
    const struct ranker *r = p == NULL ? NULL : ranker_at(p);

    if (r == NULL || r->answered != generation || r->ring == NULL ||
        r->ring->rank.tag.incarnation == generation)
        return false;
    *out = r->ring->rank.tag;
    return true;
}

// ---- life

static bool send_up(void *arg, const Sluice__V1__AttendUp *up)
{
    const struct ranker *r = arg;

    rings_said(r->sim, r->hand->proc, up);
    return attendee_send(r->hand->attend, up);
}

struct ranker *ranker_new(struct hand *h)
{
    struct ranker *r = calloc(1, sizeof(*r));
    struct rpc_table table;

    T_ASSERT(r != NULL);
    r->sim = h->sim;
    r->hand = h;
    T_OK(ranks_new(&r->ranks));
    table = ranks_table(r->ranks);
    calls_serve(h->sim, h->proc, &table);
    r->env = (struct ring_env){.loop = &h->loop,
                               .clock = &h->sim->clock.clock,
                               .send = send_up,
                               .arg = r,
                               .address = h->proc->address,
                               .host = h->sim->knobs.mode == SIM_RING
                                           ? h->sim->slots[h->proc->slot].name
                                           : proc_host_name(h->proc),
                               .fs = &h->proc->files.fs,
                               .store = "/store",
                               .ahead_bytes = sim_chance(h->sim, 500) ? 1 : 0,
                               .ranks = r->ranks,
                               .io = &h->io};
    return r;
}

void ranker_free(struct ranker *r)
{
    if (r == NULL)
        return;
    r->sim->seen.died_copying +=
        r->copies != 0 && r->seen.incarnation != r->copies;
    job_ring_free(r->ring);
    model_free(r->model);
    record_unref(r->record);
    ranks_free(r->ranks);
    free(r->keys);
    free(r);
}

const struct ring_env *ranker_env(const struct ranker *r)
{
    return r == NULL ? NULL : &r->env;
}
