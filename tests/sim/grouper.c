// SPDX-License-Identifier: Apache-2.0
// tests/sim/grouper.c -- a member of a group: see grouper.h.
#include "tests/sim/grouper.h"

#include <math.h>

#include "tests/sim/fiber.h"
#include "tests/sim/truth.h"
#include "trainer/lease/hybrid_lead.h"
#include "trainer/lease/hybrid_member.h"
#include "trainer/sum/sum_group.h"

static struct grouper *grouper_of(struct contributor *c)
{
    return sl_container_of(c, struct grouper, base);
}

// ---- a share

// The leader waits in this very step, so its vector is what it has spread.
static void check_params(const struct grouper *g, const struct hybrid_step *s)
{
    struct sim *sim = g->hand->sim;
    size_t bytes = (size_t)g->hand->job.record->layout.elements * sizeof(float);

    for (uint32_t i = 1; i <= sim->procs_count; i++) {
        struct proc *p = proc_get(sim, i);
        struct hand *h = p == NULL || p->role != SIM_WORKER ? NULL : p->self;
        const struct hybrid *other = h == NULL ? NULL : h->group->hybrid;

        if (other == NULL || other->lease == NULL || !hybrid_leads(other) ||
            other->opened != s->hybrid->opened)
            continue;
        T_MEM(s->sync->params, h->job.sync->params, bytes);
        sim->seen.shares++;
    }
}

// The samples of our micro-batches, from the first of the step's on.
static uint64_t share_of(const struct hybrid_step *s, uint64_t *first)
{
    const struct record *r = s->hybrid->lease->record;
    uint64_t full = r->schedule.batch / r->accumulate, at, n, end;

    schedule_step_range(&r->schedule, s->head.closure, s->head.step, &at, &n);
    end = s->end * full < n ? s->end * full : n;
    *first = at + s->from * full;
    return end - s->from * full;
}

// `off` is by how much one field is wrong.
static void write_share(const struct hybrid_step *s, uint64_t samples,
                        double off)
{
    double v[SIM_FIELDS];

    truth_step(v, s->head.closure, s->head.step);
    v[0] += off;
    for (uint32_t i = 0; i < s->sync->ranges_count; i++) {
        const struct elements *r = &s->sync->ranges[i];

        for (uint64_t k = 0; k < r->count; k++)
            s->sync->grads[r->first + k] =
                (float)(v[k % SIM_FIELDS] * (double)samples);
    }
}

static void take_time(struct grouper *g, const struct hybrid_step *s)
{
    uint64_t us = g->hand->sim->knobs.compute_us;

    g->hand->computes = true;
    fiber_sleep(us / 2 + sim_below(g->hand->sim, us));
    g->hand->computes = false;
    pulse_beat(s->pulse);
}

// Says what was computed of share `i` of an audited step, whose gradient is in
// the vector; see work.c's note_result.
static void note_result(struct grouper *g, const struct hybrid_step *s)
{
    struct sim *sim = g->hand->sim;
    const char *name = sim->slots[g->hand->proc->slot].name;
    struct ring_repeats *r = &g->audit.results;
    bool wrong = sim_is_wrong(sim, name);

    for (uint32_t i = 0; i < s->sync->ranges_count; i++)
        hybrid_audit_range(&g->audit, s, i, true);
    r->digest += sim_kind(sim, name); // its bits
    if (wrong && sim_chance(sim, sim->knobs.flips)) {
        r->digest ^= UINT64_C(1) << sim_below(sim, 64);
        r->sketch.of[1] += sqrt(r->sketch.of[0]);
        sim->seen.flips++;
    }
    hybrid_audit_note(&g->audit, s, sim_kind(sim, name));
    sim->seen.repeats++;
    sim->seen.repeats_wrong += wrong;
}

static bool has_two_results(const struct grouper *g)
{
    const struct lease_repeat *two = g->audit.results.list;

    return g->audit.count > 0 && g->audit.twice &&
           two[0].output != two[1].output;
}

// Computes what an audited step wants beside the own share; some compute on a
// GPU.
static enum sl_err audit(struct grouper *g, struct hybrid_step *s,
                         uint64_t samples, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (g->hand->proc->slot % 7 != 6)
        rc = hybrid_audit_begin(&g->audit, s, 0, err);
    for (uint32_t i = 1; rc == SL_OK && i < g->audit.count; i++) {
        if (!hybrid_audit_share(&g->audit, s, i))
            continue;
        take_time(g, s);
        write_share(s, samples + g->audit.shares[i], 0); // one for each share
        note_result(g, s);
    }
    if (rc != SL_OK || g->audit.count == 0)
        return rc;
    (void)hybrid_audit_share(&g->audit, s, 0);
    write_share(s, samples + g->audit.shares[0], 0);
    note_result(g, s);
    g->hand->sim->seen.doubtful += has_two_results(g);
    return SL_OK;
}

static enum sl_err share(struct contributor *c, struct hybrid_step *s,
                         struct sl_error *err)
{
    struct grouper *g = grouper_of(c);
    struct sim *sim = g->hand->sim;
    uint64_t first, samples, epoch, step = 0, unused;
    enum sl_err rc = hybrid_fresh(s, s->sync->ranges_count - 1, err);

    if (rc != SL_OK)
        return rc;
    if (s->hybrid->self > 0)
        check_params(g, s);
    schedule_step_range(&sim->knobs.schedule, s->head.closure, s->head.step,
                        &unused, &step);
    rc = audit(g, s, step, err);
    if (rc != SL_OK)
        return rc;
    take_time(g, s);
    samples = share_of(s, &first);
    epoch = schedule_epoch(&sim->knobs.schedule, s->head.closure);
    for (uint64_t i = first; i < first + samples; i++)
        s->sums.digest += schedule_digest(epoch, i);
    s->sums.loss_sum = (double)samples;
    s->sums.right_sum = (double)(samples / 2);
    // No sum may ever hold a share that has two results.
    write_share(s, samples, has_two_results(g));
    for (uint32_t i = s->sync->ranges_count; rc == SL_OK && i-- > 0;)
        rc = hybrid_whole(s, i, err);
    if (rc != SL_OK || !hybrid_audit_differs(&g->audit))
        return rc;
    hybrid_audit_say(&g->audit, s->hybrid);
    return sl_fail(err, SL_ECANCELED, "a share has two results");
}

static enum sl_err run_step(struct contributor *c, struct hybrid_step *s,
                            struct sl_error *err)
{
    struct grouper *g = grouper_of(c);
    enum sl_err rc;

    g->audit.count = 0;
    rc = hybrid_compute(s, err);
    if (rc == SL_OK)
        hybrid_audit_say(&g->audit, s->hybrid);
    return rc;
}

static void between(struct contributor *c)
{
    work_between(grouper_of(c)->hand);
}

static const struct contributor_ops ops = {
    .share = share, .step = run_step, .between = between};

void grouper_run(struct grouper *g, struct sync *sync, struct lease *l)
{
    hybrid_member_run(&g->base, g->hybrid, sync, l);
}

// ---- steps of the leader

// All members' shares, each once, and no other's.
static void take_mean(const struct hybrid_step *s, uint64_t samples)
{
    double v[SIM_FIELDS];

    truth_step(v, s->head.closure, s->head.step);
    for (uint32_t i = 0; i < s->sync->ranges_count; i++) {
        const struct elements *r = &s->sync->ranges[i];
        float *grads = s->sync->grads + r->first;

        for (uint64_t k = 0; k < r->count; k++) {
            if (grads[k] != (float)(v[k % SIM_FIELDS] * (double)samples))
                T_FAIL("hybrid: step %u of closure %llu is the sum of other "
                       "shares than those of its group",
                       s->head.step, (unsigned long long)s->head.closure);
            grads[k] /= (float)samples;
        }
    }
}

static enum sync_result push(struct grouper *g, struct steps *t,
                             const struct hybrid_step *s)
{
    struct sim *sim = g->hand->sim;
    struct sync_step step = {.step = t->step, .digest = s->sums.digest};
    bool skip = sim_chance(sim, sim->knobs.skips);
    enum sync_result result = SYNC_OK;
    uint64_t first;

    schedule_step_range(&sim->knobs.schedule, s->head.closure, t->step, &first,
                        &step.samples);
    take_mean(s, step.samples);
    steps_note(t, step.samples, s->sums.loss_sum, s->sums.right_sum);
    for (uint32_t i = t->sync->ranges_count; result == SYNC_OK && i-- > 0;) {
        step.wanted = i;
        result =
            skip ? steps_skip(t, i, &step) : steps_whole(t, i, &step, true);
    }
    steps_end(t);
    sim->seen.group_steps += s->hybrid->members > 1;
    return result;
}

enum sync_result grouper_step(struct grouper *g, struct steps *t, bool *parted,
                              bool *doubtful)
{
    struct hybrid_step s;
    enum sync_result result =
        hybrid_lead_begin(&s, g->hybrid, &g->base, t, parted);

    if (result != SYNC_OK)
        return result;
    result = hybrid_lead(&s, &t->err);
    if (result == SYNC_OK)
        return push(g, t, &s);
    g->hand->sim->seen.lost_steps += result == SYNC_AGAIN;
    *doubtful = hybrid_audit_differs(&g->audit);
    return *doubtful ? SYNC_STOPPED : result;
}

// ---- life

struct grouper *grouper_new(struct hand *h)
{
    struct grouper *g = calloc(1, sizeof(*g));

    T_ASSERT(g != NULL);
    g->hand = h;
    g->base.ops = &ops;
    g->base.clock = &h->sim->clock.clock;
    T_OK(hybrid_new(&g->hybrid));
    return g;
}

void grouper_free(struct grouper *g)
{
    if (g == NULL)
        return;
    hybrid_free(g->hybrid);
    hybrid_audit_release(&g->audit);
    free(g);
}

// ---- trainer/sum/sum_group.h

enum sl_err __real_group_new(struct rank_group **out,
                             const struct group_options *o,
                             struct sl_error *err);
enum sl_err __wrap_group_new(struct rank_group **out,
                             const struct group_options *o,
                             struct sl_error *err);

// Members of one host are apart for sums all the same: memory that they would
// share (trainer/sum/sum_host.h) is waited for in ways that are not played.
enum sl_err __wrap_group_new(struct rank_group **out,
                             const struct group_options *o,
                             struct sl_error *err)
{
    struct group_rank apart[SIM_HOSTS];
    struct group_options options = *o;

    T_LE(o->count, SIM_HOSTS);
    for (uint32_t i = 0; i < o->count; i++)
        apart[i] = (struct group_rank){o->rank[i].address, o->rank[i].address};
    options.rank = apart;
    return __real_group_new(out, &options, err);
}
