// SPDX-License-Identifier: Apache-2.0
// lib/ring.c -- the thread of a rank, and the slot that it and the user's
// thread hand to each other.
#include "lib/ring.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "worker/device/grad.h"
#include "worker/lease/ring_round.h"
#include "worker/lease/task.h"
#include "worker/lease/task_ring.h"

#define LOOK_MS 200 // at the gate, at least so often

enum slot_state { SLOT_NONE, SLOT_OFFERED, SLOT_TAKEN, SLOT_DONE };
enum bucket_state { BUCKET_OPEN, BUCKET_WHOLE, BUCKET_ADDED };

struct lib_ring {
    struct contributor base;
    struct sluice *session;
    struct lease *lease;
    struct kept_job *job;
    pthread_t thread;

    // The ring's thread.
    struct round_key *keys; // of the round's slots, and the one behind; owned
    uint32_t keys_count, keys_capacity;
    bool skips;     // the program said so of a slot of the round
    uint64_t round; // of which slots were computed last
    uint32_t computed;

    // Under the session's lock.
    struct {
        enum slot_state at;
        struct round_key key, next;
        bool foreseen;       // next
        struct wire_tag tag; // of the parameters
        uint32_t ranks, self;
        unsigned char *bucket; // enum bucket_state; owned
        struct sluice_result result;
        uint64_t redone;
        bool stale;   // the generation is over
        bool leaving; // the program lets go of all of it
        bool ended;   // the thread has
    } shared;
};

static struct lib_ring *ring_of(struct contributor *c)
{
    return (struct lib_ring *)c;
}

static void lock(struct lib_ring *g)
{
    pthread_mutex_lock(&g->session->shared.lock);
}

static void unlock(struct lib_ring *g)
{
    pthread_mutex_unlock(&g->session->shared.lock);
}

static void changed_locked(struct lib_ring *g)
{
    pthread_cond_broadcast(&g->session->shared.changed);
}

// ---- the contributor, on the ring's thread

static enum sl_err place(struct contributor *c, struct sl_error *err)
{
    struct lib_ring *g = ring_of(c);

    lock(g);
    g->shared.stale = false;
    unlock(g);
    return rank_values(&c->ring->rank, c->ring->fresh, err);
}

static enum sl_err choose(struct contributor *c,
                          const struct round_key *const rounds[2],
                          const uint32_t counts[2], struct sl_error *err)
{
    struct lib_ring *g = ring_of(c);
    uint32_t count = counts[0] + (counts[1] > 0);
    struct round_key *more;

    g->skips = false;
    g->computed = 0;
    if (count > g->keys_capacity) {
        more = sl_realloc_array(g->keys, count, sizeof(*more));
        if (more == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for %" PRIu32 " slots",
                           count);
        g->keys = more;
        g->keys_capacity = count;
    }
    for (uint32_t i = 0; i < counts[0]; i++)
        g->keys[i] = rounds[0][i];
    if (counts[1] > 0)
        g->keys[counts[0]] = rounds[1][0];
    g->keys_count = count;
    return SL_OK;
}

static void offer(struct lib_ring *g, const struct ring_round *r, uint32_t slot)
{
    lock(g);
    g->shared.at = SLOT_OFFERED;
    g->shared.key = g->keys[slot];
    g->shared.foreseen = slot + 1 < g->keys_count;
    if (g->shared.foreseen)
        g->shared.next = g->keys[slot + 1];
    g->shared.tag = g->base.ring->rank.tag;
    g->shared.ranks = r->ranks;
    g->shared.self = r->self;
    memset(g->shared.bucket, BUCKET_OPEN, g->base.ring->buckets_count);
    changed_locked(g);
    unlock(g);
}

// Nobody would miss it; or the program is not coming back.
static bool withdraws_locked(struct lib_ring *g)
{
    const struct sluice *s = g->session;

    if (g->shared.leaving)
        return true;
    return g->shared.at == SLOT_OFFERED &&
           (g->shared.stale || s->shared.draining ||
            gate_look(&g->lease->gate, g->base.clock) != GATE_OPEN);
}

// A bucket that is whole and not added yet; else their count.
static uint32_t whole_locked(const struct lib_ring *g)
{
    uint32_t n = g->base.ring->buckets_count;

    for (uint32_t b = n; b-- > 0;) {
        if (g->shared.bucket[b] == BUCKET_WHOLE)
            return b;
    }
    return n;
}

// Until a bucket is whole or the slot is over.
static enum slot_state next_move(struct lib_ring *g, uint32_t *bucket)
{
    struct sluice *s = g->session;
    enum slot_state at;

    lock(g);
    for (;;) {
        struct deadline until = deadline_in_ms(LOOK_MS);

        if (withdraws_locked(g))
            g->shared.at = SLOT_NONE;
        at = g->shared.at;
        *bucket = whole_locked(g);
        if (at == SLOT_NONE || at == SLOT_DONE ||
            *bucket < g->base.ring->buckets_count)
            break;
        (void)deadline_wait(&until, &s->shared.changed, &s->shared.lock);
    }
    unlock(g);
    return at;
}

static enum sl_err add(struct lib_ring *g, struct ring_round *r, uint32_t b,
                       struct sl_error *err)
{
    const struct overlap_range *range = &g->base.ring->buckets[b];
    const float *grads = g->base.ring->grads;

    lock(g);
    g->shared.bucket[b] = BUCKET_ADDED;
    unlock(g);
    return round_whole(
        r, b, grad_finite(grads + range->first, (size_t)range->count), 1, err);
}

// The rest of a slot that the program has ended. `bucket` is the ring's
// thread's then.
static enum sl_err add_rest(struct lib_ring *g, struct ring_round *r,
                            struct sl_error *err)
{
    const struct sluice_result *result = &g->shared.result;
    enum sl_err rc = SL_OK;

    g->computed++;
    g->round = g->base.ring->rank.tag.sequence;
    r->loss_sum += isfinite(result->loss_sum) ? result->loss_sum : 0;
    r->right_sum += result->right;
    if (result->skip) {
        g->skips = true;
        round_spoilt(r, false);
    }
    for (uint32_t b = g->base.ring->buckets_count; rc == SL_OK && b-- > 0;) {
        if (!r->bad && g->shared.bucket[b] != BUCKET_ADDED)
            rc = add(g, r, b, err);
    }
    return rc;
}

static enum sl_err compute(struct contributor *c, struct ring_round *r,
                           uint32_t slot, struct sl_error *err)
{
    struct lib_ring *g = ring_of(c);
    enum slot_state at;
    enum sl_err rc = SL_OK;
    uint32_t b;

    offer(g, r, slot);
    for (;;) {
        at = next_move(g, &b);
        if (at == SLOT_NONE)
            return sl_fail(err, SL_ECANCELED,
                           "the program has not computed it");
        if (at == SLOT_DONE || rc != SL_OK)
            break;
        rc = add(g, r, b, err);
    }
    if (rc == SL_OK)
        rc = add_rest(g, r, err);
    lock(g);
    g->shared.at = SLOT_NONE;
    unlock(g);
    return rc;
}

static bool scaled(struct contributor *c, struct ring_round *r, bool finite)
{
    (void)r;
    return !finite && ring_of(c)->skips;
}

// What was computed of a round that the state has not is to be done again.
static void leave(struct contributor *c)
{
    struct lib_ring *g = ring_of(c);

    lock(g);
    if (g->computed > 0 && c->ring->rank.tag.sequence == g->round)
        g->shared.redone += g->computed;
    unlock(g);
    g->computed = 0;
}

static void hurry(struct contributor *c)
{
    struct lib_ring *g = ring_of(c);

    lock(g);
    g->shared.stale = true;
    changed_locked(g);
    unlock(g);
}

static const struct contributor_ops ops = {
    .place = place,
    .choose = choose,
    .compute = compute,
    .scaled = scaled,
    .leave = leave,
    .hurry = hurry,
};

static void *run(void *arg)
{
    struct lib_ring *g = arg;

    g->lease->outcome.kind = OUTCOME_COMPLETE;
    task_ring_run(&g->base, g->lease);
    lock(g);
    g->shared.at = SLOT_NONE;
    g->shared.ended = true;
    changed_locked(g);
    unlock(g);
    return NULL;
}

// ---- the ring, on the user's thread

static void ring_free(struct lib_ring *g)
{
    sl_free(g->keys);
    sl_free(g->shared.bucket);
    sl_free(g);
}

enum sl_err ring_start(struct sluice *s, struct lease *l, struct kept_job *j,
                       struct sl_error *err)
{
    struct lib_ring *g = sl_calloc(1, sizeof(*g));

    if (g == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    g->base = (struct contributor){.ops = &ops,
                                   .clock = sl_clock_real(),
                                   .ring = j->ring,
                                   .model = j->model,
                                   .optimizer = &j->optimizer,
                                   .skip_nonfinite = j->skip_nonfinite,
                                   .max_nonfinite = j->max_nonfinite,
                                   .nonfinite = &j->nonfinite};
    g->session = s;
    g->lease = l;
    g->job = j;
    g->shared.bucket = sl_calloc(j->ring->buckets_count, 1);
    if (g->shared.bucket == NULL ||
        pthread_create(&g->thread, NULL, run, g) != 0) {
        ring_free(g);
        return sl_fail(err, SL_ENOMEM, "no memory for a rank's thread");
    }
    pthread_setname_np(g->thread, "sluice-ring");
    s->ring = g;
    return SL_OK;
}

// The lease goes back as its outcome says.
static void end(struct sluice *s)
{
    struct lib_ring *g = s->ring;

    s->ring = NULL;
    session_done(s, g->lease);
    ring_free(g);
}

void ring_stop(struct sluice *s, const char *why, const struct sl_error *failed,
               bool job_error)
{
    struct lib_ring *g = s->ring;
    struct lease *l = g->lease;

    lock(g);
    g->shared.leaving = true;
    changed_locked(g);
    unlock(g);
    gate_close(&l->gate, GATE_DRAIN);
    seat_wake(l->seat, true);
    pthread_join(g->thread, NULL);
    if (failed != NULL) {
        task_fail(l, failed->code, failed);
        l->outcome.job_error = job_error;
    } else if (l->outcome.kind == OUTCOME_HAND_BACK) {
        task_hand_back(l, why);
    }
    end(s);
}

bool ring_news_locked(const struct lib_ring *g)
{
    return g->shared.at == SLOT_OFFERED || g->shared.ended;
}

bool ring_reap(struct sluice *s, enum sl_err *rc, struct sl_error *err)
{
    struct lib_ring *g = s->ring;
    const struct outcome *o = &g->lease->outcome;
    bool ended;

    lock(g);
    ended = g->shared.ended;
    unlock(g);
    if (!ended)
        return false;
    pthread_join(g->thread, NULL);
    *rc = SL_OK;
    if (o->kind == OUTCOME_FAILED)
        *rc = sl_fail(err, o->err.code, "job %" PRIu64 ": %s", g->lease->job,
                      o->err.text);
    end(s);
    return true;
}

// ---- a slot, on the user's thread

static void tell(struct lib_ring *g, struct sluice_closure *c)
{
    const struct schedule *s = &g->lease->record->schedule;

    c->key = g->shared.key;
    c->info.ranks = g->shared.ranks;
    c->info.rank = g->shared.self;
    c->info.generation = g->shared.tag.incarnation;
    c->info.rounds = g->shared.tag.sequence;
    c->info.redone = g->shared.redone;
    if (g->shared.foreseen && schedule_epoch(s, g->shared.next.closure) ==
                                  schedule_epoch(s, c->key.closure))
        schedule_step_range(s, g->shared.next.closure, g->shared.next.step,
                            &c->info.next_first, &c->info.next_count);
}

bool ring_grab(struct lib_ring *g, struct sluice_closure *c)
{
    bool there;

    lock(g);
    there = g->shared.at == SLOT_OFFERED && !withdraws_locked(g);
    if (there) {
        g->shared.at = SLOT_TAKEN;
        tell(g, c);
    }
    unlock(g);
    if (there) {
        c->lease = g->lease;
        c->job = g->job;
    }
    return there;
}

// It is not ours any more, or would count for nothing: it goes.
static bool lost_locked(struct lib_ring *g)
{
    bool lost = g->shared.at != SLOT_TAKEN || g->shared.stale ||
                gate_look(&g->lease->gate, g->base.clock) != GATE_OPEN;

    if (lost && g->shared.at == SLOT_TAKEN) {
        g->shared.at = SLOT_NONE;
        changed_locked(g);
    }
    return lost;
}

static enum sl_err lose(struct sluice_closure *c, struct sl_error *err)
{
    c->at = CLOSURE_LOST;
    c->inside = false;
    return sl_fail(err, SL_ECANCELED,
                   "the ring is made anew, or left: the step counts for "
                   "nothing; take the next closure");
}

enum sl_err ring_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err)
{
    struct lib_ring *g = c->session->ring;
    bool lost = false;

    *out = (struct sluice_step){.none = c->at == CLOSURE_DONE,
                                .number = c->key.step};
    if (out->none)
        return SL_OK;
    lock(g);
    lost = c->at == CLOSURE_LOST || lost_locked(g);
    unlock(g);
    if (lost)
        return lose(c, err);
    schedule_step_range(&c->lease->record->schedule, c->key.closure,
                        c->key.step, &c->first, &c->count);
    out->first = c->first;
    out->count = c->count;
    c->at = CLOSURE_STEPS;
    c->inside = true;
    return SL_OK;
}

// The bucket that leaves last waits for what sluice_end says: by it a round is
// skipped.
enum sl_err ring_ready(struct sluice_closure *c, uint32_t bucket,
                       struct sl_error *err)
{
    struct lib_ring *g = c->session->ring;
    bool lost;

    c->sent[bucket] = true;
    lock(g);
    lost = lost_locked(g);
    if (!lost && bucket > 0) {
        g->shared.bucket[bucket] = BUCKET_WHOLE;
        changed_locked(g);
    }
    unlock(g);
    return lost ? lose(c, err) : SL_OK;
}

enum sl_err ring_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err)
{
    struct lib_ring *g = c->session->ring;
    bool lost;

    lock(g);
    lost = lost_locked(g);
    if (!lost) {
        g->shared.at = SLOT_DONE;
        g->shared.result = *r;
        changed_locked(g);
    }
    unlock(g);
    if (lost)
        return lose(c, err);
    c->inside = false;
    c->at = CLOSURE_DONE;
    return SL_OK;
}

bool ring_over(const struct sluice_closure *c)
{
    return c->at == CLOSURE_DONE || c->at == CLOSURE_LOST;
}
