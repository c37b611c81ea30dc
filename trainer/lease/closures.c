// SPDX-License-Identifier: Apache-2.0
// trainer/lease/closures.c -- further leases of a contribution, and their end.
#include "trainer/lease/closures.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "proto/spec.h"
#include "trainer/lease/tally.h"

// Closures of a stream: its first lease ends with it, so what is behind it is
// not known to be counted before.
#define STREAM_CLOSURES 64

void closures_init(struct closures *c, const struct closures_env *env,
                   struct lease *first, uint32_t *alone)
{
    const Sluice__V1__TrainSpec *train = first->record->open->spec->train;

    *c = (struct closures){
        .env = *env,
        .first = first,
        .alone = alone,
        .streams = spec_streams(train),
        .most = spec_sets(train)
                    ? sl_min(spec_inner_closures(train), WIRE_KEYS_MAX)
                    : 1};
}

// Ends the reading of a lease that has its outcome: it counts beats of the
// first lease, which may be gone before it.
static void closures_let_go(const struct closures *c, struct lease *l)
{
    if (c->env.put != NULL)
        c->env.put(c->env.arg, l);
    l->gate.pulse.outer = NULL;
}

// Hands back all leases but the first; `goes_on`: the task does, so the
// coordinator has them before it ends.
static void closures_hand_back(struct closures *c, const char *why,
                               bool goes_on)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->one[i].lease == c->first)
            continue;
        if (gate_look(&c->one[i].lease->gate, c->env.clock) != GATE_OPEN)
            lease_stopped(c->one[i].lease);
        else
            lease_hand_back(c->one[i].lease, why);
        closures_let_go(c, c->one[i].lease);
        if (goes_on)
            c->env.give(c->env.arg, c->one[i].lease);
    }
    c->count = 0;
    c->steps = 0;
}

void closures_begin(struct closures *c)
{
    closures_hand_back(c, "a shard has been replaced", true);
    sl_free(c->incarnations);
    c->incarnations = NULL;
    c->taken = 1;
    c->added = 0;
}

void closures_add(struct closures *c, struct lease *l,
                  const struct closures_steps *of)
{
    c->one[c->count++] =
        (struct closures_one){.lease = l, .number = c->added++, .of = *of};
    c->steps += of->count;
    if (l != c->first) // it waits for the push: to stand still is no fault
        atomic_store(&l->running, false);
}

// Returns the closures of a contribution, or of a stream, that begins with
// lease `first`.
static uint32_t closures_wanted(const struct closures *c,
                                const struct lease *first)
{
    if (c->streams)
        return STREAM_CLOSURES;
    return first->closures == 0 || first->closures > c->most ? c->most
                                                             : first->closures;
}

// Returns true if a lease of the contribution was taken away: its closure may
// be leased once more, and is in no push twice.
static bool closures_lost_one(const struct closures *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (pulse_over(&c->one[i].lease->gate.pulse))
            return true;
    return false;
}

struct lease *closures_next(struct closures *c, struct lease *first)
{
    struct sl_error err = SL_ERROR_INIT;
    struct lease *l;
    enum sl_err rc;

    if (c->env.next == NULL || pulse_over(&first->gate.pulse) ||
        closures_lost_one(c))
        return NULL;
    if (*c->alone > 0) {
        (*c->alone)--;
        return NULL;
    }
    if (c->taken >= closures_wanted(c, first))
        return NULL;
    l = c->env.next(c->env.arg);
    if (l == NULL)
        return NULL;
    atomic_store(&l->running, true);
    l->gate.pulse.outer = &first->gate.pulse;
    rc = gate_look(&l->gate, c->env.clock) == GATE_OPEN ? SL_OK : SL_ECANCELED;
    if (rc == SL_OK && c->env.get != NULL)
        rc = c->env.get(c->env.arg, l, &err);
    if (rc == SL_OK) {
        c->taken++;
        return l;
    }
    lease_fail(l, rc, &err);
    closures_let_go(c, l);
    return NULL;
}

bool closures_undo(struct closures *c, struct lease *first, struct lease *l)
{
    if ((c->count == 0 && !c->streams) || l == first ||
        !pulse_over(&l->gate.pulse) ||
        gate_look(&first->gate, c->env.clock) != GATE_OPEN)
        return false;
    if (atomic_load(&l->gate.draining))
        gate_close(&l->gate, GATE_DRAIN);
    lease_stopped(l);
    closures_let_go(c, l);
    return true;
}

static struct wire_push_key closures_key(const struct closures_one *one)
{
    return (struct wire_push_key){.closure = one->lease->closure,
                                  .attempt = one->lease->attempt,
                                  .samples = one->of.samples,
                                  .digest = one->of.digest};
}

void closures_note(struct closures *c, const struct sync *sync)
{
    if (c->incarnations != NULL)
        return;
    c->incarnations =
        sl_malloc_array(sync->ranges_count, sizeof(*c->incarnations));
    if (c->incarnations != NULL)
        sync->ops->evidence(sync, c->incarnations);
}

void closures_fill(struct closures *c, const struct sync *sync,
                   struct sync_step *step)
{
    if (c->count == 0)
        return;
    step->samples = c->one[0].of.samples;
    step->digest = c->one[0].of.digest;
    for (uint32_t i = 1; i < c->count; i++)
        c->keys[0][i - 1] = closures_key(&c->one[i]);
    step->more = c->keys[0];
    step->more_count = c->count - 1;
    if (c->count > 1)
        closures_note(c, sync);
}

// Returns true if the shards that a lease's outcome names are those that the
// contribution was pushed to. Evidence of others is of the first closure alone
// (W1).
static bool closures_hold(const struct closures *c, const struct sync *sync,
                          const struct lease *of)
{
    const struct outcome *o = &of->outcome;

    return c->incarnations != NULL && o->kind == OUTCOME_COMPLETE &&
           o->incarnations_count == sync->ranges_count &&
           memcmp(o->incarnations, c->incarnations,
                  sync->ranges_count * sizeof(*c->incarnations)) == 0;
}

// Adds a closure that was counted or is held to its lease's metrics.
static void closures_tell(const struct closures_one *one, bool skipped)
{
    struct lease_metrics m = lease_progress(one->lease);

    skipped = skipped || one->skipped;

    m.next = 1;
    m.steps++;
    m.samples += one->of.samples;
    m.skipped += skipped;
    if (!skipped && isfinite(one->of.loss_sum)) {
        m.loss_samples += one->of.samples;
        m.loss_sum += one->of.loss_sum;
        m.right_sum += isfinite(one->of.right_sum) ? one->of.right_sum : 0;
    }
    lease_set_progress(one->lease, &m);
}

bool closures_change(struct closures *c, const struct model *model,
                     float *grads, bool finite)
{
    struct outcome *o = &c->first->outcome;

    if (!lease_change(c->first, model, grads, finite))
        return false;
    if (c->count > 1) {
        o->aside = o->changed = false;
        *c->alone = c->most;
    }
    return true;
}

void closures_end(struct closures *c, const struct sync *sync,
                  enum sync_result result, bool skipped)
{
    struct sl_error none = SL_ERROR_INIT;

    if (result == SYNC_PARTLY)
        *c->alone = c->most;
    if (c->count > 1 && result == SYNC_OK && !closures_hold(c, sync, c->first))
        result = SYNC_AGAIN;
    if (result == SYNC_FAILED)
        closures_hand_back(c, "the contribution that it was in has failed",
                           false);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->one[i].lease == c->first)
            continue;
        if (result == SYNC_OK)
            closures_tell(&c->one[i], skipped);
        tally_conclude(c->one[i].lease, sync, result, &none);
        closures_let_go(c, c->one[i].lease);
    }
    c->count = 0;
    sl_free(c->incarnations);
    c->incarnations = NULL;
}

// ---- streams

bool closures_cover(struct closures *c, uint32_t fragment, uint32_t since,
                    struct sync_step *step)
{
    uint32_t from = 0;

    while (from < c->count && c->one[from].number < since)
        from++;
    if (from == c->count)
        return false;
    for (uint32_t i = from; i < c->count; i++)
        c->keys[fragment][i - from] = closures_key(&c->one[i]);
    step->first = c->keys[fragment];
    step->more = c->keys[fragment] + 1;
    step->more_count = c->count - from - 1;
    return true;
}

void closures_counted(struct closures *c, const struct sync *sync)
{
    struct sl_error none = SL_ERROR_INIT;
    struct closures_one one = c->one[0];

    memmove(c->one, c->one + 1, --c->count * sizeof(c->one[0]));
    if (one.lease == c->first)
        return; // its outcome is the task's
    closures_tell(&one, false);
    tally_conclude(one.lease, sync, SYNC_OK, &none);
    if (!closures_hold(c, sync, one.lease))
        lease_hand_back(one.lease, "a shard has been replaced");
    closures_let_go(c, one.lease);
    c->env.give(c->env.arg, one.lease);
}

void closures_drop(struct closures *c, enum sync_result result)
{
    if (result == SYNC_PARTLY)
        *c->alone = c->most;
    closures_hand_back(c,
                       result == SYNC_PARTLY
                           ? "a shard has a part of its contribution"
                           : "the stream of its closure has ended",
                       result == SYNC_AGAIN);
}
