// SPDX-License-Identifier: Apache-2.0
// worker/lease/closures.c -- further leases of a contribution, and their end.
#include "worker/lease/closures.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "proto/spec.h"
#include "trainer/lease/tally.h"
#include "worker/lease/reading.h"

void closures_init(struct closures *c, const struct task_env *env,
                   struct worker_job *job)
{
    const Sluice__V1__TrainSpec *train = job->record->open->spec->train;
    bool sets = job->inner != NULL && spec_sets(train);

    *c = (struct closures){
        .env = env, .job = job, .most = sets ? spec_inner_closures(train) : 1};
}

// Ends the reading of a lease that has its outcome: it counts beats of the
// first lease, which may be gone before it.
static void closures_let_go(const struct closures *c, struct lease *l)
{
    task_unprepare(c->env->input, l);
    l->gate.pulse.outer = NULL;
}

static void closures_hand_back(struct closures *c, const char *why)
{
    for (uint32_t i = 1; i < c->count; i++) {
        lease_hand_back(c->one[i].lease, why);
        closures_let_go(c, c->one[i].lease);
    }
    c->count = 0;
    c->steps = 0;
}

void closures_begin(struct closures *c)
{
    closures_hand_back(c, "a shard has been replaced");
    sl_free(c->incarnations);
    c->incarnations = NULL;
}

void closures_add(struct closures *c, struct lease *l,
                  const struct contribution *from)
{
    c->one[c->count++] = (struct closures_one){.lease = l,
                                               .samples = from->samples,
                                               .digest = from->digest,
                                               .loss_sum = from->loss_sum,
                                               .right_sum = from->right_sum};
    c->steps += from->count;
    if (c->count > 1) // it waits for the push: to stand still is no fault
        atomic_store(&l->running, false);
}

// Returns the closures of a contribution that begins with lease `first`.
static uint32_t closures_wanted(const struct closures *c,
                                const struct lease *first)
{
    return first->closures == 0 || first->closures > c->most ? c->most
                                                             : first->closures;
}

struct lease *closures_next(struct closures *c, struct lease *first)
{
    struct sl_error err = SL_ERROR_INIT;
    struct lease *l;
    enum sl_err rc;

    if (c->env->next == NULL || pulse_over(&first->gate.pulse))
        return NULL;
    if (c->job->alone > 0) {
        c->job->alone--;
        return NULL;
    }
    if (c->count >= closures_wanted(c, first))
        return NULL;
    l = c->env->next(c->env->arg, c->job);
    if (l == NULL)
        return NULL;
    atomic_store(&l->running, true);
    l->gate.pulse.outer = &first->gate.pulse;
    rc = gate_look(&l->gate, c->env->clock) == GATE_OPEN
             ? task_prepare(c->env->input, c->job, l, &err)
             : SL_ECANCELED;
    if (rc == SL_OK)
        return l;
    lease_fail(l, rc, &err);
    closures_let_go(c, l);
    return NULL;
}

bool closures_undo(struct closures *c, struct lease *first, struct lease *l)
{
    if (c->count == 0 || l == first || !pulse_over(&l->gate.pulse) ||
        gate_look(&first->gate, c->env->clock) != GATE_OPEN)
        return false;
    if (atomic_load(&l->gate.draining))
        gate_close(&l->gate, GATE_DRAIN);
    lease_stopped(l);
    closures_let_go(c, l);
    return true;
}

void closures_fill(struct closures *c, const struct sync *sync,
                   struct sync_step *step)
{
    if (c->count == 0)
        return;
    step->samples = c->one[0].samples;
    step->digest = c->one[0].digest;
    for (uint32_t i = 1; i < c->count; i++)
        c->keys[i - 1] =
            (struct wire_push_key){.closure = c->one[i].lease->closure,
                                   .attempt = c->one[i].lease->attempt,
                                   .samples = c->one[i].samples,
                                   .digest = c->one[i].digest};
    step->more = c->keys;
    step->more_count = c->count - 1;
    if (c->count > 1 && c->incarnations == NULL) {
        c->incarnations =
            sl_malloc_array(sync->ranges_count, sizeof(*c->incarnations));
        if (c->incarnations != NULL)
            sync->ops->evidence(sync, c->incarnations);
    }
}

// Returns true if the shards are those that the contribution was pushed to.
// Evidence of others is of the first closure alone (W1).
static bool closures_hold(const struct closures *c, const struct sync *sync,
                          const struct lease *first)
{
    const struct outcome *o = &first->outcome;

    return c->incarnations != NULL && o->kind == OUTCOME_COMPLETE &&
           o->incarnations_count == sync->ranges_count &&
           memcmp(o->incarnations, c->incarnations,
                  sync->ranges_count * sizeof(*c->incarnations)) == 0;
}

// Adds a closure that was counted or is held to its lease's metrics.
static void closures_tell(const struct closures_one *one, bool skipped)
{
    struct lease_metrics m = lease_progress(one->lease);

    m.next = 1;
    m.steps++;
    m.samples += one->samples;
    m.skipped += skipped;
    if (!skipped && isfinite(one->loss_sum)) {
        m.loss_samples += one->samples;
        m.loss_sum += one->loss_sum;
        m.right_sum += isfinite(one->right_sum) ? one->right_sum : 0;
    }
    lease_set_progress(one->lease, &m);
}

bool closures_part(struct closures *c)
{
    if (c->count < 2)
        return false;
    c->job->alone = c->most;
    return true;
}

void closures_end(struct closures *c, const struct sync *sync,
                  enum sync_result result, bool skipped)
{
    struct sl_error none = SL_ERROR_INIT;

    if (result == SYNC_PARTLY)
        c->job->alone = c->most;
    if (c->count > 1 && result == SYNC_OK &&
        !closures_hold(c, sync, c->one[0].lease))
        result = SYNC_AGAIN;
    if (result == SYNC_FAILED)
        closures_hand_back(c, "the contribution that it was in has failed");
    for (uint32_t i = 1; i < c->count; i++) {
        if (result == SYNC_OK)
            closures_tell(&c->one[i], skipped);
        tally_conclude(c->one[i].lease, sync, result, &none);
        closures_let_go(c, c->one[i].lease);
    }
    c->count = 0;
    sl_free(c->incarnations);
    c->incarnations = NULL;
}
