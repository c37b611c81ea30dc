// SPDX-License-Identifier: Apache-2.0
// state/shard/shard.c -- the one lock of a shard, and the checks, the apply
// and the count under it.
#include "state/shard/shard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "state/base/element.h"
#include "state/shard/tagged_rows.h"

// The shard that an event of the history is about.
#define WHICH                                                                  \
    "job=%" PRIu64 " uid=%" PRIx64 " job_incarnation=%" PRIu64                 \
    " shard=%u incarnation=%" PRIu64 " "
#define WHICH_OF(s)                                                            \
    (s)->plan.job, (s)->plan.job_uid, (s)->plan.job_incarnation,               \
        (s)->plan.shard, (s)->incarnation

_Static_assert(POOL_FORMS == WIRE_TYPES, "a copy per type is shown");
_Static_assert(FREEZE_ARRAYS == 1 + OPTIM_SLOTS_MAX, "values, slots");

struct histogram shard_waits = HISTOGRAM_DURATIONS;
struct histogram shard_applies = HISTOGRAM_DURATIONS;

// Makes what updates of whole variables need, here: an update cannot fail.
static bool make_space(struct shard *s)
{
    size_t n = apply_space(&s->plan);

    if (n == 0)
        return true;
    s->memory.space = sl_malloc_array(n, sizeof(float));
    if (s->memory.space == NULL)
        return false;
    row_memory_add_dense(n * sizeof(float));
    return true;
}

static void free_space(struct shard *s)
{
    if (s->memory.space != NULL)
        row_memory_drop_dense(apply_space(&s->plan) * sizeof(float));
    sl_free(s->memory.space);
}

// Values are seeded, slots hold what the optimizer wants before its first
// update. Those of moving statistics exist and stay as they are, so that the
// memory is one plain matrix. Values that lie elsewhere begin where a page
// does, as the region: the slots then begin behind the space of theirs.
static enum sl_err make_memory(struct shard *s, struct region_shared *values,
                               uint64_t first)
{
    const struct optim *o = &s->plan.optim;
    size_t n = s->plan.elements, bytes = plan_values_bytes(&s->plan), skip;
    unsigned slots = optim_slots(o);
    float init;

    skip = values == NULL ? 0 : region_array_at(bytes, 1) - bytes;
    if (region_new(&s->region,
                   skip + region_arrays_bytes(bytes, slots + !values)) != SL_OK)
        return SL_ENOMEM;
    row_memory_add_dense(s->region.bytes);
    if (!make_space(s))
        return SL_ENOMEM;
    if (values != NULL) {
        s->shared = region_shared_ref(values);
        s->memory.values = (float *)values->region.data + first;
    } else {
        s->memory.values = s->region.data;
    }
    if (plan_seed(&s->plan, s->memory.values) != SL_OK)
        return SL_ENOMEM;
    for (unsigned k = 0; k < slots; k++) {
        size_t at = skip + region_array_at(bytes, k + !values);

        s->memory.slots[k] = (float *)((uint8_t *)s->region.data + at);
        init = optim_slot_init(o, k);
        for (size_t i = 0; init != 0.0f && i < n; i++)
            s->memory.slots[k][i] = init;
    }
    return SL_OK;
}

void *shard_memory_at(const struct shard *s, size_t offset, size_t *bytes)
{
    size_t each = plan_values_bytes(&s->plan), in = offset % each;
    size_t array = offset / each;

    *bytes = each - in;
    return (uint8_t *)(array == 0 ? s->memory.values
                                  : s->memory.slots[array - 1]) +
           in;
}

enum sl_err shard_new(struct shard **out, struct plan *plan)
{
    return shard_new_in(out, plan, NULL, 0);
}

enum sl_err shard_new_in(struct shard **out, struct plan *plan,
                         struct region_shared *values, uint64_t first)
{
    struct shard *s = sl_calloc(1, sizeof(*s));
    enum sl_err rc;

    if (s == NULL) {
        plan_release(plan);
        return SL_ENOMEM;
    }
    s->plan = *plan;
    s->rates = plan->rates;
    s->window = wire_window_most(plan->schedule.steps_per_closure,
                                 plan->schedule.epochs);
    *plan = (struct plan){0};
    atomic_init(&s->refs, 1);
    atomic_init(&s->rows_answers, 0);
    atomic_init(&s->fed, false);
    atomic_init(&s->binds, false);
    atomic_init(&s->wakes, false);
    pthread_mutex_init(&s->wake.lock, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->armed, NULL);
    oplog_init(&s->feed);
    tagged_init(&s->tagged);
    rc = once_init(&s->once, &s->plan.schedule);
    if (rc == SL_OK)
        rc = pool_new(&s->pool);
    if (rc == SL_OK)
        rc = tables_init(&s->tables, &s->plan, NULL);
    if (rc == SL_OK)
        rc = contributions_init(&s->contributions, &s->plan, s->tables.account);
    if (rc == SL_OK)
        rc = open_round_init(&s->open, &s->plan);
    if (rc == SL_OK)
        rc = stale_init(&s->versions, &s->plan.stale, s->plan.elements);
    if (rc == SL_OK)
        rc = mirror_init(&s->mirror, &s->plan);
    if (rc == SL_OK)
        rc = make_memory(s, values, first);
    if (rc != SL_OK) {
        shard_unref(s);
        return rc;
    }
    *out = s;
    return SL_OK;
}

struct shard *shard_ref(struct shard *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void shard_unref(struct shard *s)
{
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    assert(s->memory.freeze == NULL); // an image holds a reference
    tagged_release(&s->tagged);
    pool_free(s->pool);
    row_memory_drop_dense(s->region.bytes);
    free_space(s);
    region_release(&s->region);
    region_shared_unref(s->shared);
    once_release(&s->once);
    contributions_release(&s->contributions);
    mirror_release(&s->mirror);
    open_round_release(&s->open);
    moments_release(&s->moments);
    round_rows_release(&s->rows_before, &s->tables);
    stale_release(&s->versions);
    tables_release(&s->tables);
    oplog_release(&s->feed);
    plan_release(&s->plan);
    pthread_cond_destroy(&s->armed);
    pthread_mutex_destroy(&s->wake.lock);
    pthread_mutex_destroy(&s->lock);
    sl_free(s);
}

void shard_feed_put_locked(struct shard *s, enum oplog_kind kind,
                           struct oplog_record *record)
{
    oplog_put(&s->feed, kind, record);
    atomic_store(&s->fed, oplog_goes_on(&s->feed));
}

// Wakes the feeder of the shard's replica, if there is one: the log has new
// records, or has ended. `here`: this thread may send them.
static void shard_log_more(struct shard *s, bool here)
{
    if (!atomic_load(&s->wakes))
        return;
    pthread_mutex_lock(&s->wake.lock);
    if (s->wake.fn != NULL)
        s->wake.fn(s->wake.arg, here);
    pthread_mutex_unlock(&s->wake.lock);
}

void shard_rates(struct shard *s, const struct rates *rates)
{
    pthread_mutex_lock(&s->lock);
    s->rates = *rates;
    if (oplog_goes_on(&s->feed))
        shard_feed_put_locked(s, OPLOG_RATES, oplog_rates(rates));
    pthread_mutex_unlock(&s->lock);
    shard_log_more(s, true);
}

void shard_feed_stop_locked(struct shard *s, const char *why)
{
    oplog_stop(&s->feed, why);
    atomic_store(&s->fed, false);
}

// An admission ends the move of its shard (M3), so nobody hears how its feed
// ends: it must not stop for that. A follower that is admitted follows nobody.
// A shard that is bound to a replica never stops, so a renewal leaves that feed
// as it is (P3).
static void shard_admit_locked(struct shard *s, uint64_t incarnation)
{
    bool renewed = incarnation == s->incarnation;

    if (incarnation >= s->incarnation) {
        if (!renewed || s->bound.order == 0)
            shard_feed_stop_locked(s, "the shard was admitted anew");
        s->follow.order = 0;
        s->handed = false;
    }
    if (incarnation > s->incarnation) {
        if (s->incarnation == 0)
            mirror_begin(&s->mirror, s->memory.values);
        s->incarnation = incarnation;
        s->sequence = 0;
        HISTORY("admitted",
                WHICH "from_i=%" PRIu64 " from_n=%" PRIu64 " steps=%" PRIu64
                      " base_g=%" PRIu64 " base_n=%" PRIu64,
                WHICH_OF(s), s->from.incarnation, s->from.sequence,
                counted_steps(&s->once.counted), s->ring.base.incarnation,
                s->ring.base.sequence);
    }
}

void shard_admit(struct shard *s, uint64_t incarnation)
{
    pthread_mutex_lock(&s->lock);
    shard_admit_locked(s, incarnation);
    pthread_mutex_unlock(&s->lock);
}

// M1
void shard_hand_over(struct shard *s, uint64_t incarnation)
{
    pthread_mutex_lock(&s->lock);
    s->handed = s->handed || incarnation == s->incarnation;
    pthread_mutex_unlock(&s->lock);
}

void shard_close(struct shard *s)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    shard_feed_stop_locked(s, "the shard was closed");
    pthread_mutex_unlock(&s->lock);
}

// Returns true if the shard answers workers (S5, M1).
static bool serves_locked(const struct shard *s)
{
    return !s->closed && !s->handed && s->incarnation != 0;
}

// S5; and a message of a job incarnation that we do not know yet waits
// until we have.
static enum sl_err admitted_locked(const struct shard *s, uint64_t job,
                                   struct sl_error *err)
{
    if (!serves_locked(s))
        return sl_fail(err, SL_EUNAVAIL,
                       "job %" PRIu64 " shard %u is not admitted here now; "
                       "take the newest map and try again",
                       s->plan.job, s->plan.shard);
    if (job > s->plan.job_incarnation)
        return sl_fail(err, SL_EUNAVAIL,
                       "job %" PRIu64 " shard %u: incarnation %" PRIu64
                       " of the job is not known here yet; try again",
                       s->plan.job, s->plan.shard, job);
    return SL_OK;
}

// I6, then I3.
static struct wire_refused stranger_locked(const struct shard *s, uint64_t job,
                                           uint64_t incarnation)
{
    struct wire_refused no = {.why = WIRE_REFUSED_NOT};

    if (job != s->plan.job_incarnation) {
        no.why = WIRE_REFUSED_JOB_INCARNATION;
        no.job_incarnation = s->plan.job_incarnation;
    } else if (incarnation != s->incarnation) {
        no.why = WIRE_REFUSED_INCARNATION;
    }
    return no;
}

// Closures that no lease can be for (C5): the coordinator takes our watermark
// for as high as it is, or lower. What such a set of steps told of itself would
// be larger than a message may be.
static bool is_beyond_locked(const struct shard *s, uint64_t closure)
{
    uint64_t low = counted_low(&s->once.counted);

    return closure >= low && closure - low >= s->window;
}

// Refuses an attempt that is older than the newest (I4), or of a closure beyond
// the window: that was leased before this shard fell back, and is issued again
// when it is due.
static struct wire_refused fenced_locked(const struct shard *s,
                                         uint64_t closure,
                                         struct wire_attempt attempt)
{
    struct wire_attempt newest = once_newest(&s->once, closure);
    struct wire_refused no = {.why = WIRE_REFUSED_NOT};

    if (wire_attempt_cmp(attempt, newest) < 0 || is_beyond_locked(s, closure)) {
        no.why = WIRE_REFUSED_ATTEMPT;
        no.newest = newest;
    }
    return no;
}

static enum sl_err see_locked(struct shard *s, uint64_t closure,
                              struct wire_attempt attempt, struct sl_error *err)
{
    enum sl_err rc = once_see(&s->once, closure, attempt);

    if (rc == SL_EBUSY)
        return sl_fail(err, rc,
                       "more than %d closures in flight on one shard; finish "
                       "the older ones first",
                       ONCE_ATTEMPTS_MAX);
    return rc;
}

static void counted_bits_locked(const struct shard *s, uint64_t closure,
                                struct wire_ask_reply *reply)
{
    uint32_t steps = schedule_closure_steps(&s->plan.schedule, closure);

    reply->counted_bytes = (steps + 7) / 8;
    memset(reply->counted, 0, reply->counted_bytes);
    for (uint32_t i = 0; i < steps; i++)
        if (counted_has(&s->once.counted, closure, i))
            reply->counted[i / 8] |= (uint8_t)(1u << (i % 8));
}

// The first closure of the open round, and how many it has. A ring's round is
// of the next closures that are not counted, and of one epoch (R4).
static uint64_t open_round_locked(const struct shard *s, uint32_t *count)
{
    uint64_t low = counted_low(&s->once.counted), each, left;

    if (s->plan.decided) {
        each = schedule_closures_per_epoch(&s->plan.schedule);
        left = each - low % each;
        *count = (uint32_t)sl_min(left, s->plan.contributions);
        return low;
    }
    return contributions_round(&s->plan.schedule, s->plan.contributions, low,
                               count);
}

// Sync: a round before that of this closure is open (Y4). What is counted is
// never early.
static bool is_early_locked(const struct shard *s, uint64_t closure)
{
    uint64_t first;
    uint32_t count;

    if (s->plan.contributions == 0 ||
        counted_closure_full(&s->once.counted, closure))
        return false;
    first = open_round_locked(s, &count);
    return closure >= first + count;
}

static enum sl_err ask_locked(struct shard *s, const struct wire_ask *ask,
                              struct wire_ask_reply *reply,
                              struct sl_error *err)
{
    enum sl_err rc = admitted_locked(s, ask->job_incarnation, err);

    if (rc != SL_OK)
        return rc;
    *reply = (struct wire_ask_reply){.incarnation = s->incarnation,
                                     .version = once_version(&s->once)};
    reply->refused = stranger_locked(s, ask->job_incarnation, ask->incarnation);
    if (reply->refused.why != WIRE_REFUSED_NOT)
        return SL_OK;
    rc = once_key(&s->once, ask->closure, 0, err);
    if (rc != SL_OK)
        return rc;
    reply->refused = fenced_locked(s, ask->closure, ask->attempt);
    if (reply->refused.why != WIRE_REFUSED_NOT)
        return SL_OK;
    if (is_early_locked(s, ask->closure)) {
        reply->refused.why = WIRE_REFUSED_ROUND;
        return SL_OK;
    }
    if (!ask->unproven)
        rc = see_locked(s, ask->closure, ask->attempt, err);
    HISTORY("asked",
            WHICH "closure=%" PRIu64 " term=%" PRIu64 " n=%" PRIu64
                  " unproven=%d",
            WHICH_OF(s), ask->closure, ask->attempt.term, ask->attempt.n,
            ask->unproven);
    if (rc == SL_OK)
        counted_bits_locked(s, ask->closure, reply);
    return rc;
}

enum sl_err shard_ask(struct shard *s, const struct wire_ask *ask,
                      struct wire_ask_reply *reply, struct sl_error *err)
{
    struct wire_ask_reply made;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = ask_locked(s, ask, &made, err);
    pthread_mutex_unlock(&s->lock);
    if (rc == SL_OK)
        *reply = made;
    return rc;
}

bool shard_brief(struct shard *s, bool wait, struct shard_brief *out)
{
    return shard_brief_each(s, wait, out, NULL);
}

bool shard_brief_each(struct shard *s, bool wait, struct shard_brief *out,
                      struct rowset_counts *each)
{
    if (wait)
        pthread_mutex_lock(&s->lock);
    else if (pthread_mutex_trylock(&s->lock) != 0)
        return false;
    *out = (struct shard_brief){
        .incarnation = s->incarnation,
        .closed = s->closed,
        .from = s->from,
        .low = counted_low(&s->once.counted),
        .steps = counted_steps(&s->once.counted),
        .sparse = counted_sparse(&s->once.counted),
        .counts = s->once.counts,
        .moments_of =
            s->moments.kept == NULL ? 0 : s->moments.kept->closure + 1,
    };
    tables_counts(&s->tables, &out->tables, each);
    pthread_mutex_unlock(&s->lock);
    return true;
}

enum sl_err shard_once(struct shard *s, struct once *out)
{
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = once_copy(out, &s->once);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// ---- push and pull

// Parameters for an answer; NULL: not asked for.
static void copy_from(const struct shard *s, const float *from,
                      enum wire_type type, void *values)
{
    if (values != NULL)
        element_write(type, s->plan.elements, values, from);
}

// As workers have them.
static void copy_locked(const struct shard *s, enum wire_type type,
                        void *values)
{
    copy_from(s, mirror_of(&s->mirror, s->memory.values), type, values);
}

// Writes to the history what became of a push, with the bytes of a counted one.
// Its closures but the first stand in `more`.
static void note_push(const struct shard *s, const struct wire_push *p,
                      const char *result, enum sl_err checked, bool counted)
{
    char more[WIRE_KEYS_MAX * 100];
    size_t at = 0;

    more[0] = '\0';
    for (size_t i = 1; i < wire_push_keys(p); i++) {
        struct wire_push_key key = wire_push_key(p, i);

        at += (size_t)snprintf(more + at, sizeof(more) - at,
                               "%s%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64
                               ":%" PRIx64,
                               i > 1 ? "," : "", key.closure, key.attempt.term,
                               key.attempt.n, key.samples, key.digest);
    }
    HISTORY("push",
            WHICH
            "result=%s closure=%" PRIu64 " step=%u term=%" PRIu64 " n=%" PRIu64
            " said=%" PRIu64 " based_on=%" PRIu64 " version=%" PRIu64
            " unproven=%d skip=%d absent=%zu samples=%" PRIu64
            " digest=%" PRIx64 " checked=%s wire=%d bytes=%zu payload=%lld"
            " rows=%zu rows_payload=%lld more=%s",
            WHICH_OF(s), result, p->closure, p->step, p->attempt.term,
            p->attempt.n, p->incarnation, p->based_on, once_version(&s->once),
            p->unproven, p->skip, p->absent_bytes, (uint64_t)p->samples,
            (uint64_t)p->digest, sl_err_name(checked), (int)p->wire,
            p->payload.bytes, history_bytes(counted ? &p->payload : NULL),
            p->rows.bytes, history_bytes(counted ? &p->rows : NULL), more);
}

static uint64_t delay_locked(const struct shard *s,
                             const struct wire_push *push)
{
    return stale_delay(once_version(&s->once), push->based_on);
}

static void shard_apply_locked(struct shard *s, const struct wire_push *push,
                               uint64_t samples, const struct tables_push *rows,
                               void *values)
{
    const struct apply_of of = {.rates = &s->rates,
                                .closure = push->closure,
                                .version = once_version(&s->once),
                                .based_on = push->based_on,
                                .samples = samples};
    struct apply_step step;

    apply_step_init(&step, &s->plan, &s->versions, &of);
    step.absent = push->absent;
    step.absent_bytes = push->absent_bytes;
    step.passed = s->once.passed;
    apply_update(&s->plan, &s->memory, push->wire, &push->payload, &step,
                 values);
    tables_apply(&s->tables,
                 &(struct rowset_step){.closure = push->closure,
                                       .step = push->step,
                                       .version = (uint32_t)step.t,
                                       .rate = step.rate,
                                       .factor = 1},
                 rows);
    once_pass(&s->once, push->absent, push->absent_bytes);
}

// Applies and counts: the only place where the parameters of a shard that
// answers change. Everything that can fail was done before (S1). Rows of tables
// are a part of the step (T1), and several closures one update (L5).
static void count_locked(struct shard *s, const struct wire_push *push,
                         struct push_set *set, const struct tables_push *rows,
                         struct wire_push_reply *reply, void *values)
{
    uint64_t delay = delay_locked(s, push);

    for (size_t i = 0; i < set->count; i++) {
        set->steps[i].staleness = delay;
        set->steps[i].late =
            !push->skip && stale_refuses(&s->plan.stale, delay, false);
    }
    if (push->skip)
        copy_locked(s, push->wire, values);
    else
        shard_apply_locked(s, push, set->samples, rows, values);
    // A step that is skipped beside an open round counts nothing of what the
    // round holds (L9).
    if (!push->skip) {
        moments_hold(&s->moments);
        moments_round(&s->moments, 0, UINT64_MAX);
    }
    FAULT("apply.done");
    once_add_round(&s->once, set->steps, set->count);
    FAULT("once.added");
    reply->result = WIRE_PUSH_COUNTED;
    reply->staleness = push->skip ? 0 : delay;
}

// A round that is whole, and what was made of its rows before anything changes.
struct whole_round {
    uint64_t first;
    uint32_t slots;
    bool skip;
    const char *by; // what ends it, for the history: "push", "round", "base"
    struct round_rows mean, before; // of its ids: gradients, and rows
};

// Takes all that can fail of a whole round: the mean of its rows, the memory
// that they will need, and a copy of them as they are.
static enum sl_err whole_round_locked(struct whole_round *w, struct shard *s,
                                      struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    w->skip = contributions_skip(&s->contributions);
    if (w->skip || s->tables.count == 0)
        return SL_OK;
    rc = round_rows_mean(&w->mean, &s->tables, &s->contributions);
    if (rc == SL_OK)
        w->skip = !round_rows_finite(&w->mean, &s->tables);
    if (rc == SL_OK && !w->skip)
        rc = round_rows_read(&w->before, &s->tables, &w->mean, err);
    if (rc != SL_OK && rc != SL_ECORRUPT)
        rc = sl_prefix(err, row_memory_refuse(s->tables.account, rc, err),
                       "rows of a round");
    else if (rc == SL_OK && !w->skip)
        rc = tables_reserve(&s->tables, &s->plan, &w->mean.blocks, err);
    if (rc != SL_OK || w->skip)
        round_rows_release(&w->before, &s->tables);
    if (rc != SL_OK)
        round_rows_release(&w->mean, &s->tables);
    return rc;
}

// Applies the mean of a round, as one update of values and rows (T7).
static void apply_round_locked(struct shard *s, const struct whole_round *w,
                               struct mean *mean, uint64_t largest)
{
    uint64_t version = once_version(&s->once);
    const struct apply_of of = {&s->rates, w->first, version, version, largest};
    struct apply_step step;

    apply_step_init(&step, &s->plan, &s->versions, &of);
    step.keep = mirror_keep(&s->mirror, step.keep);
    apply_mean(&s->plan, &s->memory, mean, &step);
    mirror_follow(&s->mirror, s->memory.values, step.t);
    tables_apply(&s->tables,
                 &(struct rowset_step){.closure = w->first,
                                       .version = (uint32_t)step.t,
                                       .rate = step.rate,
                                       .factor = 1},
                 &w->mean.blocks);
}

// The round is whole: one update, and all of its keys (Y2).
static void close_round_locked(struct shard *s, struct whole_round *w)
{
    uint64_t version = once_version(&s->once), largest;
    struct mean mean;
    uint32_t count;

    if (contributions_mean(&s->contributions, w->skip, &count, &largest, &mean))
        apply_round_locked(s, w, &mean, largest);
    round_rows_release(&w->mean, &s->tables);
    round_rows_release(&s->rows_before, &s->tables);
    s->rows_before = w->before; // T8
    s->contributions.past = (struct contributions_past){
        .first = w->first, .version = version, .count = w->slots};
    moments_round(&s->moments, w->first, w->slots); // L9
    FAULT("apply.done");
    once_add_round(&s->once, s->contributions.steps, count);
    FAULT("once.added");
    HISTORY("round_closed",
            WHICH "first=%" PRIu64 " most=%u keys=%u steps=%" PRIu64
                  " by=%s rounds=%" PRIu64 " skip=%d",
            WHICH_OF(s), s->contributions.first, s->contributions.most, count,
            counted_steps(&s->once.counted), w->by, s->ring.rounds, w->skip);
}

// How many of the open round are not counted.
static uint32_t shard_missing_locked(const struct shard *s, uint64_t first,
                                     uint32_t count)
{
    uint32_t missing = 0;

    for (uint64_t at = first; at < first + count; at++)
        missing += !counted_closure_full(&s->once.counted, at);
    return missing;
}

// Tells the open round, while none of its slots is counted, to a worker that
// may get one of them, so that it need not ask.
static void tell_open_locked(const struct shard *s, uint64_t *first,
                             uint32_t *count)
{
    uint64_t begins;
    uint32_t slots;

    if (s->plan.contributions == 0 || counted_full(&s->once.counted))
        return;
    begins = open_round_locked(s, &slots);
    if (shard_missing_locked(s, begins, slots) != slots)
        return;
    *first = begins + 1;
    *count = slots;
}

bool shard_round_open(struct shard *s, uint64_t closure)
{
    uint64_t first;
    uint32_t count;
    bool open = false;

    pthread_mutex_lock(&s->lock);
    if (serves_locked(s) && s->plan.contributions > 0 &&
        !counted_full(&s->once.counted)) {
        first = open_round_locked(s, &count);
        open = closure >= first && closure - first < count;
    }
    pthread_mutex_unlock(&s->lock);
    return open;
}

static enum sl_err hold_locked(struct shard *s, const struct wire_push *push,
                               const struct tables_push *rows,
                               const struct once_step *step, bool last,
                               struct sl_error *err)
{
    enum sl_err rc = contributions_hold(&s->contributions, step, push->wire,
                                        &push->payload, rows, last);

    return rc == SL_OK
               ? rc
               : sl_prefix(err, row_memory_refuse(s->tables.account, rc, err),
                           "a contribution of the round");
}

// Y1, Y2: held, or the round is whole by it.
static enum sl_err contribute_locked(struct shard *s,
                                     const struct wire_push *push,
                                     const struct tables_push *rows,
                                     struct wire_push_reply *reply,
                                     void *values, struct sl_error *err)
{
    const struct once_step step = {.closure = push->closure,
                                   .step = push->step,
                                   .skip = push->skip,
                                   .samples = push->samples,
                                   .digest = push->digest};
    enum sl_err rc = once_reserve(&s->once, push->closure);
    struct whole_round w = {.by = "push"};
    uint32_t missing;

    if (rc != SL_OK)
        return rc;
    w.first = open_round_locked(s, &w.slots);
    contributions_open(&s->contributions, w.first);
    missing = shard_missing_locked(s, w.first, w.slots);
    if (!contributions_has(&s->contributions, push->closure)) {
        rc = hold_locked(
            s, push, rows, &step,
            s->contributions.held + 1 >= missing && !s->plan.decided, err);
        if (rc == SL_OK)
            moments_hold(&s->moments);
    }
    if (rc != SL_OK)
        return rc;
    if (s->contributions.held < missing || s->plan.decided) {
        reply->result = WIRE_PUSH_HELD;
        return SL_OK;
    }
    rc = whole_round_locked(&w, s, err);
    if (rc != SL_OK) {
        contributions_drop(&s->contributions, push->closure);
        return rc;
    }
    close_round_locked(s, &w);
    copy_locked(s, push->wire, values);
    reply->result = WIRE_PUSH_COUNTED;
    return SL_OK;
}

// ---- rounds that a ring decides (R8)

// Sets the open round. Returns true if each contribution of it is held.
static bool ring_round_locked(const struct shard *s, struct whole_round *w)
{
    uint32_t missing;

    if (counted_full(&s->once.counted))
        return false;
    w->first = open_round_locked(s, &w->slots);
    missing = shard_missing_locked(s, w->first, w->slots);
    return missing > 0 && s->contributions.first == w->first &&
           s->contributions.held == missing;
}

void shard_ring(struct shard *s, struct shard_ring *out)
{
    struct whole_round w;

    pthread_mutex_lock(&s->lock);
    *out = s->ring;
    out->whole = ring_round_locked(s, &w);
    pthread_mutex_unlock(&s->lock);
}

// Applies the round that is held, whole. The job's ranks have judged it: what
// they skipped is skipped here.
static enum sl_err ring_apply_locked(struct shard *s, const char *by, bool skip,
                                     struct sl_error *err)
{
    struct whole_round w = {.by = by};
    enum sl_err rc;

    if (!ring_round_locked(s, &w))
        return sl_fail(err, SL_ESTALE,
                       "job %" PRIu64 " shard %u does not hold all of round "
                       "%" PRIu64,
                       s->plan.job, s->plan.shard, s->ring.rounds + 1);
    rc = skip ? SL_OK : whole_round_locked(&w, s, err);
    if (rc != SL_OK)
        return rc;
    w.skip = w.skip || skip;
    s->ring.rounds++;
    close_round_locked(s, &w);
    return SL_OK;
}

// R9: applies what the shard lacks of the base, which must be of its own past.
static enum sl_err ring_settle_locked(struct shard *s, struct wire_tag base,
                                      bool skip, struct sl_error *err)
{
    if (s->closed)
        return sl_fail(err, SL_EUNAVAIL, "job %" PRIu64 " shard %u is closed",
                       s->plan.job, s->plan.shard);
    if (s->incarnation == 0)
        return SL_OK;
    if (base.sequence == s->ring.rounds &&
        (base.incarnation == s->incarnation ||
         wire_tag_cmp(base, s->ring.base) == 0))
        return SL_OK;
    if (base.sequence == s->ring.rounds + 1 &&
        base.incarnation == s->incarnation)
        return ring_apply_locked(s, "base", skip, err);
    return sl_fail(err, SL_ESTALE,
                   "job %" PRIu64 " shard %u is of generation %" PRIu64
                   " and has %" PRIu64 " rounds; the base is of generation "
                   "%" PRIu64 " and has %" PRIu64,
                   s->plan.job, s->plan.shard, s->incarnation, s->ring.rounds,
                   base.incarnation, base.sequence);
}

enum sl_err shard_settle(struct shard *s, uint64_t generation,
                         struct wire_tag base, bool skip, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    bool newer;

    pthread_mutex_lock(&s->lock);
    newer = generation > s->incarnation;
    if (newer)
        rc = ring_settle_locked(s, base, skip, err);
    if (newer && rc == SL_OK) {
        contributions_clear(&s->contributions);
        s->ring.rounds = base.sequence;
        s->ring.base = base;
        shard_admit_locked(s, generation);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

enum sl_err shard_decide(struct shard *s, uint64_t generation, uint64_t rounds,
                         bool skip, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&s->lock);
    if (!s->closed && s->incarnation == generation &&
        rounds > s->ring.rounds + 1)
        rc = sl_fail(err, SL_ESTALE,
                     "job %" PRIu64 " shard %u has %" PRIu64
                     " rounds of the ring, and %" PRIu64 " are decided",
                     s->plan.job, s->plan.shard, s->ring.rounds, rounds);
    else if (!s->closed && s->incarnation == generation &&
             rounds == s->ring.rounds + 1)
        rc = ring_apply_locked(s, "round", skip, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void shard_arm_locked(struct shard *s);

// ---- rounds without slots

// Applies the mean of what is held as one update, and counts all of it, under
// the one lock (L1). `told`: a message ends the round, and no contribution.
static void shard_end_open_locked(struct shard *s, bool told)
{
    uint64_t version = once_version(&s->once), largest = s->open.largest;
    struct mean mean;
    size_t count;
    bool finite = open_round_close(&s->open, version, &count, &mean);
    const struct apply_of of = {&s->rates, s->open.steps[0].closure, version,
                                version, largest};
    struct apply_step step;

    apply_step_init(&step, &s->plan, &s->versions, &of);
    if (finite) {
        apply_mean(&s->plan, &s->memory, &mean, &step);
        mirror_follow(&s->mirror, s->memory.values, step.t);
    }
    moments_round(&s->moments, 0, UINT64_MAX); // L9
    FAULT("apply.done");
    once_add_round(&s->once, s->open.steps, count);
    FAULT("once.added");
    HISTORY("open_closed", WHICH "told=%d most=%u keys=%zu steps=%" PRIu64,
            WHICH_OF(s), told, s->open.most, count,
            counted_steps(&s->once.counted));
}

// Holds a contribution in the round that is open now, whatever its closures
// (L3); it may be the last one of the round.
static enum sl_err shard_hold_open_locked(struct shard *s,
                                          const struct wire_push *push,
                                          const struct push_set *set,
                                          struct wire_push_reply *reply,
                                          void *values)
{
    enum sl_err rc = open_round_reserve(&s->open, set->count);

    if (rc != SL_OK)
        return rc;
    reply->result = WIRE_PUSH_HELD;
    open_round_hold(&s->open, once_version(&s->once), set->steps, set->count,
                    push->wire, &push->payload);
    moments_hold(&s->moments);
    if (s->open.held < s->open.most)
        return SL_OK;
    shard_end_open_locked(s, false);
    copy_locked(s, push->wire, values);
    reply->result = WIRE_PUSH_COUNTED;
    return SL_OK;
}

bool shard_close_round(struct shard *s, uint64_t job_incarnation,
                       uint64_t closure)
{
    bool held;

    pthread_mutex_lock(&s->lock);
    held = serves_locked(s) && job_incarnation == s->plan.job_incarnation &&
           open_round_has(&s->open, closure);
    if (held)
        shard_end_open_locked(s, true);
    if (held && oplog_goes_on(&s->feed))
        shard_feed_put_locked(s, OPLOG_CLOSE, oplog_close(closure));
    shard_arm_locked(s);
    pthread_mutex_unlock(&s->lock);
    shard_log_more(s, true);
    return held;
}

// Fixed slots are single closures (Y1), and rows are of one (T4).
static enum sl_err shard_check_set(const struct shard *s,
                                   const struct push_set *set,
                                   struct sl_error *err)
{
    if (set->count > 1 && (s->plan.contributions > 0 || s->tables.count > 0))
        return sl_fail(err, SL_EINVAL,
                       "more: %zu closures in one push, to a job with rounds "
                       "of slots or with tables; push each by itself",
                       set->count);
    return push_set_keys(set, &s->once, err);
}

// Acknowledges what is counted (S2), and notes the attempts. That a newer
// attempt exists is worth knowing all the same; if there is no space to know
// it, nothing is lost.
static void shard_repeated_locked(struct shard *s, const struct wire_push *push,
                                  struct wire_push_reply *reply, void *values)
{
    for (size_t i = 0; !push->unproven && i < wire_push_keys(push); i++) {
        struct wire_push_key key = wire_push_key(push, i);

        (void)once_see(&s->once, key.closure, key.attempt);
    }
    s->once.counts.duplicates += wire_push_keys(push);
    reply->result = WIRE_PUSH_DUPLICATE;
    copy_locked(s, push->wire, values);
}

// Says why the push is refused although no closure of it is counted.
static struct wire_refused shard_refusal_locked(const struct shard *s,
                                                const struct wire_push *push)
{
    struct wire_refused no = {.why = WIRE_REFUSED_NOT};

    for (size_t i = 0; i < wire_push_keys(push); i++) {
        struct wire_push_key key = wire_push_key(push, i);

        no = fenced_locked(s, key.closure, key.attempt);
        if (no.why != WIRE_REFUSED_NOT)
            return no;
    }
    return no;
}

static enum sl_err shard_see_all_locked(struct shard *s,
                                        const struct wire_push *push,
                                        struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0;
         rc == SL_OK && !push->unproven && i < wire_push_keys(push); i++) {
        struct wire_push_key key = wire_push_key(push, i);

        rc = see_locked(s, key.closure, key.attempt, err);
    }
    return rc;
}

// Takes a push of closures that are not counted, as an update of its own or
// into an open round.
static enum sl_err shard_take_locked(struct shard *s,
                                     const struct wire_push *push,
                                     struct push_set *set,
                                     const struct tables_push *rows,
                                     struct wire_push_reply *reply,
                                     void *values, struct sl_error *err)
{
    enum sl_err rc = push_set_reserve(set, &s->once, &s->open);

    if (rc == SL_OK && s->plan.open > 0 && !push->skip)
        return shard_hold_open_locked(s, push, set, reply, values);
    if (rc == SL_OK && push->absent_bytes > 0)
        rc = once_reserve_passed(&s->once, s->plan.piece_count);
    if (rc == SL_OK && !push->skip)
        rc = tables_reserve(&s->tables, &s->plan, rows, err);
    if (rc == SL_OK)
        count_locked(s, push, set, rows, reply, values);
    return rc;
}

// Answers a push if the shard has one of its closures already. Returns false,
// and changes nothing, if it has none.
static bool shard_known_locked(struct shard *s, const struct wire_push *push,
                               const struct push_set *set,
                               struct wire_push_reply *reply, void *values)
{
    switch (push_set_here(set, &s->once, &s->open)) {
    case PUSH_SET_COUNTED:
        shard_repeated_locked(s, push, reply, values);
        return true;
    case PUSH_SET_PARTLY: // L5
        reply->refused.why = WIRE_REFUSED_SET;
        return true;
    case PUSH_SET_HELD: // L1
        reply->refused = shard_refusal_locked(s, push);
        if (reply->refused.why == WIRE_REFUSED_NOT)
            reply->result = WIRE_PUSH_HELD;
        return true;
    case PUSH_SET_NEW:
        break;
    }
    return false;
}

// `checked` is what apply_check and tables_check said of payload and rows.
static enum sl_err push_locked(struct shard *s, const struct wire_push *push,
                               const struct tables_push *rows,
                               enum sl_err checked,
                               struct wire_push_reply *reply, void *values,
                               struct sl_error *err)
{
    struct push_set set;
    enum sl_err rc;

    reply->incarnation = s->incarnation;
    reply->refused =
        stranger_locked(s, push->job_incarnation, push->incarnation);
    if (reply->refused.why != WIRE_REFUSED_NOT)
        return SL_OK;
    push_set_of(&set, push);
    rc = shard_check_set(s, &set, err);
    if (rc != SL_OK || shard_known_locked(s, push, &set, reply, values))
        return rc;
    reply->refused = shard_refusal_locked(s, push);
    if (reply->refused.why != WIRE_REFUSED_NOT)
        return SL_OK;
    if (checked != SL_OK)
        return checked;
    if (!push->skip &&
        stale_refuses(&s->plan.stale, delay_locked(s, push),
                      push->late && s->plan.contributions == 0)) {
        s->once.counts.stale++;
        reply->refused.why = WIRE_REFUSED_STALE;
        return SL_OK;
    }
    if (is_early_locked(s, push->closure)) {
        reply->refused.why = WIRE_REFUSED_ROUND;
        return SL_OK;
    }
    rc = shard_see_all_locked(s, push, err);
    if (rc == SL_OK && s->plan.contributions > 0) {
        rc = contribute_locked(s, push, rows, reply, values, err);
        if (rc == SL_OK && reply->result == WIRE_PUSH_COUNTED)
            tell_open_locked(s, &reply->open_first, &reply->open_count);
        return rc;
    }
    return rc == SL_OK
               ? shard_take_locked(s, push, &set, rows, reply, values, err)
               : rc;
}

static size_t count_absent(const struct shard *s, const struct wire_push *push)
{
    size_t n = 0;

    for (size_t i = 0; i < s->plan.piece_count; i++)
        n += wire_absent(push->absent, push->absent_bytes, i);
    return n;
}

// Checks that `absent` has bits of existing pieces only, and without a payload
// of all pieces.
static enum sl_err shard_check_absent(const struct shard *s,
                                      const struct wire_push *push,
                                      bool payload, struct sl_error *err)
{
    size_t pieces = s->plan.piece_count, n = count_absent(s, push), bits = 0;

    for (size_t i = 0; i < 8 * push->absent_bytes; i++)
        bits += wire_absent(push->absent, push->absent_bytes, i);
    if (bits > n)
        return sl_fail(err, SL_EINVAL,
                       "absent: of pieces beyond the %zu that shard %u has",
                       pieces, s->plan.shard);
    if (s->plan.contributions > 0 || s->plan.open > 0)
        return sl_fail(err, SL_EINVAL,
                       "absent: every piece of a contribution has a gradient "
                       "in rounds");
    if (!payload && n < pieces)
        return sl_fail(err, SL_EINVAL,
                       "payload: it is missing, and %zu of %zu pieces have a "
                       "gradient",
                       pieces - n, pieces);
    return SL_OK;
}

static enum sl_err shard_check_code(const struct shard *s,
                                    const struct wire_push *push,
                                    struct sl_error *err)
{
    if (s->plan.contributions > 0 || s->plan.open > 0)
        return coded_check(&s->plan.coded, push->wire, &push->payload, err);
    return sl_fail(err, SL_EINVAL,
                   "wire: %s is of contributions, and the job has no rounds; "
                   "send f32, bf16 or f16",
                   wire_type_names[push->wire]);
}

// Outside the lock, since it reads the whole payload and nothing of the shard
// that changes.
// `finite`: that the payload fits, and is, needs no look.
static enum sl_err check_payload(const struct shard *s,
                                 const struct wire_push *push, bool finite,
                                 struct sl_error *err)
{
    bool payload = push->payload.bytes > 0;
    enum sl_err rc = SL_OK;

    if (push->absent_bytes > 0)
        rc = shard_check_absent(s, push, payload, err);
    if (rc != SL_OK || (push->absent_bytes > 0 && !payload))
        return rc;
    if (!push->skip && push->wire >= WIRE_TYPES)
        return shard_check_code(s, push, err);
    if (!push->skip)
        return finite ? SL_OK
                      : apply_check(&s->plan, push->wire, &push->payload, err);
    if (payload)
        return sl_fail(err, SL_EINVAL,
                       "payload: %zu bytes in a step that is to be skipped",
                       push->payload.bytes);
    return SL_OK;
}

// Reads the blocks of rows behind a push, unless moments are there.
static enum sl_err shard_read_rows(struct tables_push *rows,
                                   const struct wire_push *push)
{
    const struct sl_slices none = SL_SLICES_NONE;

    return tables_flatten(rows, push->moments_t > 0 ? &none : &push->rows);
}

// How a push came.
struct push_way {
    bool finite;          // its payload fits, and is finite
    uint64_t number;      // of the operation of a feed; 0: from a worker
    enum oplog_kind kind; // what became of it at its source
};

// Sets *next to whether operation `number` is the next one of the feed that the
// shard follows; false: it was done before. SL_ESTATE.
static enum sl_err follows_locked(const struct shard *s, uint64_t number,
                                  bool *next, struct sl_error *err)
{
    if (s->closed || s->follow.order == 0 || s->follow.failed)
        return sl_fail(err, SL_ESTATE,
                       "job %" PRIu64 " shard %u follows no feed here",
                       s->plan.job, s->plan.shard);
    if (number > s->follow.applied + 1 || s->follow.whole)
        return sl_fail(err, SL_ESTATE,
                       "job %" PRIu64 " shard %u: operation %" PRIu64
                       " is not the next one; %" PRIu64 " are applied%s",
                       s->plan.job, s->plan.shard, number, s->follow.applied,
                       s->follow.whole ? ", and the feed has ended" : "");
    *next = number == s->follow.applied + 1;
    return SL_OK;
}

static const char *const push_results[] = {
    [WIRE_PUSH_COUNTED] = "counted",
    [WIRE_PUSH_DUPLICATE] = "duplicate",
    [WIRE_PUSH_REFUSED] = "refused",
    [WIRE_PUSH_HELD] = "held",
};

// What a push does to a shard, for its feed; OPLOG_KINDS: nothing.
static enum oplog_kind push_kind(enum wire_push_result result)
{
    return result == WIRE_PUSH_COUNTED ? OPLOG_COUNTED
           : result == WIRE_PUSH_HELD  ? OPLOG_HELD
                                       : OPLOG_KINDS;
}

// Puts what changed the shard into its feed; takes *record, which may be NULL.
static void shard_log_locked(struct shard *s, const struct wire_push *push,
                             enum wire_push_result result,
                             struct oplog_record **record)
{
    enum oplog_kind kind = push_kind(result);

    if (kind == OPLOG_KINDS || !oplog_goes_on(&s->feed))
        return;
    shard_feed_put_locked(s, kind,
                          *record != NULL ? *record : oplog_push(push));
    *record = NULL;
}

// A push from a worker, with what was made of it outside the lock.
static enum sl_err
push_worker_locked(struct shard *s, const struct wire_push *push,
                   const struct tables_push *rows, enum sl_err checked,
                   struct oplog_record **record, struct wire_push_reply *made,
                   void *values, struct sl_error *err)
{
    enum sl_err rc = admitted_locked(s, push->job_incarnation, err);

    if (rc != SL_OK)
        return rc;
    rc = push_locked(s, push, rows, checked, made, values, err);
    note_push(s, push, rc == SL_OK ? push_results[made->result] : "rejected",
              checked, made->result == WIRE_PUSH_COUNTED);
    if (rc != SL_OK || made->result == WIRE_PUSH_REFUSED)
        s->once.counts.refused++;
    else
        shard_log_locked(s, push, made->result, record);
    shard_arm_locked(s);
    return rc;
}

// A push of the feed that the shard follows (M5): it must come to what it came
// to at its source.
static enum sl_err
push_fed_locked(struct shard *s, const struct wire_push *push,
                const struct tables_push *rows, enum sl_err checked,
                const struct push_way *way, struct wire_push_reply *made,
                struct sl_error *err)
{
    bool next = false;
    enum sl_err rc = follows_locked(s, way->number, &next, err);

    if (rc != SL_OK || !next)
        return rc;
    rc = push_locked(s, push, rows, checked, made, NULL, err);
    note_push(s, push, rc == SL_OK ? push_results[made->result] : "rejected",
              checked, made->result == WIRE_PUSH_COUNTED);
    if (rc == SL_OK && push_kind(made->result) != way->kind)
        rc = sl_fail(err, SL_ECORRUPT,
                     "job %" PRIu64 " shard %u: the push of closure %" PRIu64
                     " is %s here, and its source has another outcome",
                     s->plan.job, s->plan.shard, push->closure,
                     push_results[made->result]);
    s->follow.failed = rc != SL_OK;
    s->follow.applied += rc == SL_OK;
    return rc;
}

static enum sl_err push_any(struct shard *s, const struct wire_push *push,
                            const struct push_way *way,
                            struct wire_push_reply *reply, void *values,
                            struct sl_error *err)
{
    struct wire_push_reply made = {.result = WIRE_PUSH_REFUSED,
                                   .wire = push->wire < WIRE_TYPES ? push->wire
                                                                   : WIRE_F32};
    struct sl_error why = SL_ERROR_INIT;
    struct moments_set *moments = NULL;
    struct oplog_record *record = NULL;
    struct tables_push rows;
    enum sl_err checked, rc;
    uint64_t asked, taken;

    checked = shard_read_rows(&rows, push);
    if (checked == SL_OK)
        checked = check_payload(s, push, way->finite, &why);
    if (checked == SL_OK)
        checked = tables_check(&s->tables, &rows, true, &why);
    if (checked == SL_OK)
        checked = moments_take(&moments, &s->plan, push, &why);
    if (atomic_load(&s->fed))
        record = oplog_push(push);
    asked = sl_real_us();
    pthread_mutex_lock(&s->lock);
    taken = sl_real_us();
    FAULT("shard.taken");
    moments_offer(&s->moments, moments);
    rc = way->number == 0
             ? push_worker_locked(s, push, &rows, checked, &record, &made,
                                  values, &why)
             : push_fed_locked(s, push, &rows, checked, way, &made, &why);
    moments_offer(&s->moments, NULL);
    made.version = once_version(&s->once);
    pthread_mutex_unlock(&s->lock);
    shard_log_more(s, true);
    tables_push_release(&rows);
    moments_unref(moments);
    oplog_unref(record);
    histogram_add(&shard_waits, taken - asked);
    if (rc == SL_OK && made.result == WIRE_PUSH_COUNTED)
        histogram_add(&shard_applies, sl_real_us() - taken);
    if (rc == SL_OK)
        *reply = made;
    else if (err != NULL)
        *err = why;
    return rc;
}

enum sl_err shard_push(struct shard *s, const struct wire_push *push,
                       struct wire_push_reply *reply, void *values,
                       struct sl_error *err)
{
    return push_any(s, push, &(struct push_way){.finite = false}, reply, values,
                    err);
}

enum sl_err shard_push_finite(struct shard *s, const struct wire_push *push,
                              struct wire_push_reply *reply, void *values,
                              struct sl_error *err)
{
    return push_any(s, push, &(struct push_way){.finite = true}, reply, values,
                    err);
}

static enum sl_err pull_check_locked(const struct shard *s,
                                     const struct wire_pull *pull,
                                     struct sl_error *err)
{
    enum sl_err rc = admitted_locked(s, pull->job_incarnation, err);

    if (rc != SL_OK)
        return rc;
    if (pull->job_incarnation != s->plan.job_incarnation)
        return sl_fail(err, SL_ESTALE,
                       "job %" PRIu64 " is at incarnation %" PRIu64
                       ", not %" PRIu64 "; drop the closure",
                       s->plan.job, s->plan.job_incarnation,
                       pull->job_incarnation);
    // The values of a snapshot are the same under any incarnation.
    if (!pull->has_tag && pull->incarnation != 0 &&
        pull->incarnation != s->incarnation)
        return sl_fail(err, SL_ESTALE,
                       "job %" PRIu64 " shard %u is at incarnation %" PRIu64
                       ", not %" PRIu64 "; take the newest map",
                       s->plan.job, s->plan.shard, s->incarnation,
                       pull->incarnation);
    return SL_OK;
}

enum sl_err shard_pull_check(struct shard *s, const struct wire_pull *pull,
                             struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_check_locked(s, pull, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// Returns true if a contribution is of the shard's last round. A worker
// computes it again if one shard has counted the round and another has not;
// then the first shard returns its values and rows from before the round.
static bool is_past_locked(const struct shard *s, const struct wire_pull *pull)
{
    const struct contributions_past *past = &s->contributions.past;
    uint64_t closure = pull->before_round_of - 1;

    return pull->before_round_of != 0 && closure >= past->first &&
           closure - past->first < past->count;
}

// Returns the values from which a contribution is computed.
static const float *values_locked(const struct shard *s,
                                  const struct wire_pull *pull,
                                  uint64_t *version)
{
    const struct contributions_past *past = &s->contributions.past;
    const float *now = mirror_of(&s->mirror, s->memory.values), *kept = NULL;

    *version = once_version(&s->once);
    if (!is_past_locked(s, pull))
        return now;
    if (past->version != *version) // it was not skipped
        kept = stale_find(&s->versions, past->version);
    if (kept == NULL)
        return now;
    *version = past->version;
    return kept;
}

// All of an answer, and the parameters that go with it.
static enum sl_err pull_locked(const struct shard *s,
                               const struct wire_pull *pull,
                               struct wire_pull_reply *reply,
                               const float **values, struct sl_error *err)
{
    enum sl_err rc = pull_check_locked(s, pull, err);
    uint64_t version;

    if (rc != SL_OK)
        return rc;
    *values = values_locked(s, pull, &version);
    *reply = (struct wire_pull_reply){
        .incarnation = s->incarnation,
        .version = version,
        .wire = pull->wire < WIRE_TYPES ? pull->wire : WIRE_F32};
    if (*values == mirror_of(&s->mirror, s->memory.values))
        tell_open_locked(s, &reply->open_first, &reply->open_count);
    return SL_OK;
}

enum sl_err shard_pull(struct shard *s, const struct wire_pull *pull,
                       struct wire_pull_reply *reply, void *values,
                       struct sl_error *err)
{
    const float *from = NULL;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_locked(s, pull, reply, &from, err);
    if (rc == SL_OK)
        copy_from(s, from, pull->wire, values);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

enum sl_err shard_pull_shown(struct shard *s, const struct wire_pull *pull,
                             struct wire_pull_reply *reply,
                             struct pool_buf **copy, struct sl_error *err)
{
    const float *from = NULL;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_locked(s, pull, reply, &from, err);
    *copy =
        rc == SL_OK ? pool_shown(s->pool, pull->wire, reply->version) : NULL;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

enum sl_err shard_pull_show(struct shard *s, const struct wire_pull *pull,
                            struct wire_pull_reply *reply,
                            struct pool_buf *copy, struct sl_error *err)
{
    const float *from = NULL;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_locked(s, pull, reply, &from, err);
    if (rc == SL_OK) {
        copy_from(s, from, pull->wire, copy->memory.data);
        pool_show(copy, pull->wire, reply->version);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

enum sl_err shard_pull_change(struct shard *s, const struct wire_pull *pull,
                              struct wire_pull_reply *reply, void *out,
                              size_t *bytes, struct sl_error *err)
{
    const uint8_t *change = NULL;
    const float *from = NULL;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_locked(s, pull, reply, &from, err);
    // Versions are those of one incarnation.
    if (rc == SL_OK && pull->wire == s->plan.down &&
        pull->incarnation == s->incarnation)
        change = mirror_change(&s->mirror, pull->have, reply->version, bytes);
    if (change != NULL) {
        memcpy(out, change, *bytes);
        reply->wire = pull->wire;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

enum sl_err shard_pull_moments(struct shard *s, const struct wire_pull *pull,
                               struct wire_pull_reply *reply,
                               struct moments_set **out, struct sl_error *err)
{
    const float *from = NULL;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = pull_locked(s, pull, reply, &from, err);
    if (rc == SL_OK)
        *out = moments_ref(moments_of(&s->moments, is_past_locked(s, pull)));
    pthread_mutex_unlock(&s->lock);
    if (rc != SL_OK || *out == NULL)
        return rc;
    reply->wire = s->plan.moments_wire;
    reply->moments_t = (*out)->t;
    return SL_OK;
}

// ---- rows

// Rows that are read under one hold of the lock.
#define ROWS_AT_ONCE 1024

struct rows_space {
    float *wide;   // ROWS_AT_ONCE of the longest rows
    float *values; // where rows are read to: there, or in the answer
    struct rowset_miss miss[ROWS_AT_ONCE];
};

// Reads rows as they are, or as they were before the round of the pull (T8).
// *missed: so many lie in a file, and are read without the lock.
static enum sl_err rows_locked(struct shard *s, const struct wire_pull *pull,
                               uint32_t table, size_t n, const uint8_t *ids,
                               struct rows_space *to, size_t *missed,
                               struct sl_error *err)
{
    struct rowset *set = s->tables.sets[table];
    enum sl_err rc;

    *missed = 0;
    if (!is_past_locked(s, pull)) {
        *missed = rowset_look(set, n, ids, to->values, to->miss);
        return SL_OK;
    }
    rc = rowset_read(set, n, ids, to->values, err);
    if (rc == SL_OK)
        round_rows_find(&s->rows_before, &s->tables, table, n, ids, to->values);
    return rc;
}

// Reads rows from their file, and those that have left it meanwhile under the
// lock.
static enum sl_err rows_missed(struct shard *s, uint32_t table,
                               const uint8_t *ids, struct rows_space *to,
                               size_t missed, struct sl_error *err)
{
    struct rowset *set = s->tables.sets[table];
    size_t dim = s->tables.dims[table], left, place;
    enum sl_err rc =
        rowset_fetch(set, missed, to->miss, to->values, &left, err);

    if (rc != SL_OK || left == 0)
        return rc;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; rc == SL_OK && i < left; i++) {
        place = to->miss[i].place;
        rc =
            rowset_read(set, 1, ids + place * 8, to->values + place * dim, err);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// Reads a block; the lock is given up now and then, as pushes wait for it.
static enum sl_err shard_read_block(struct shard *s,
                                    const struct wire_pull *pull,
                                    const struct table_rows *b,
                                    struct rows_space *space, uint8_t *out,
                                    struct sl_error *err)
{
    uint32_t dim = s->tables.dims[b->table];
    size_t row = table_rows_row_bytes(dim, b->type);
    bool as_is = b->type == WIRE_F32;
    enum sl_err rc = SL_OK;
    size_t missed;

    for (uint32_t at = 0, n; rc == SL_OK && at < b->count; at += n) {
        const uint8_t *ids = b->ids + (size_t)at * 8;

        n = (uint32_t)sl_min(b->count - at, ROWS_AT_ONCE);
        // Aligned: blocks are multiples of 8 bytes.
        space->values = as_is ? (void *)(out + at * row) : space->wide;
        pthread_mutex_lock(&s->lock);
        rc = rows_locked(s, pull, b->table, n, ids, space, &missed, err);
        pthread_mutex_unlock(&s->lock);
        if (rc == SL_OK)
            rc = rows_missed(s, b->table, ids, space, missed, err);
        if (rc == SL_OK && !as_is)
            element_write_rows(b->type, n, dim, out + at * row, space->wide);
    }
    if (rc != SL_OK)
        sl_prefix(err, rc, "table %s", s->plan.tables[b->table].name);
    return rc;
}

// Reads all blocks to `out`.
static enum sl_err shard_read_blocks(struct shard *s,
                                     const struct wire_pull *pull,
                                     const struct tables_push *ids,
                                     struct rows_space *space, uint8_t *out,
                                     struct sl_error *err)
{
    struct table_rows_at at = {ids->bytes, ids->n, 0};
    enum sl_err rc = SL_OK;
    struct table_rows b;

    while (rc == SL_OK && tables_next(&s->tables, &at, false, &b)) {
        size_t n =
            table_rows_elements_bytes(b.count, s->tables.dims[b.table], b.type);

        memset(out + n - sizeof(uint64_t), 0, sizeof(uint64_t));
        rc = shard_read_block(s, pull, &b, space, out, err);
        out += n;
    }
    return rc;
}

static enum sl_err rows_too_many(size_t bytes, struct sl_error *err)
{
    return sl_fail(err, SL_ERANGE,
                   "the rows have %zu bytes, and an answer at most %zu; ask "
                   "for fewer",
                   bytes, (size_t)PLAN_MAX_BYTES);
}

// Makes the answer of checked ids. The version is one before the first row is
// read.
static enum sl_err answer_rows(struct shard *s, const struct wire_pull *pull,
                               const struct tables_push *ids,
                               struct wire_pull_reply *reply, uint8_t **out,
                               size_t *bytes, struct sl_error *err)
{
    size_t n = tables_answer_bytes(&s->tables, ids);
    enum sl_err rc = shard_pull(s, pull, reply, NULL, err);
    struct rows_space space;
    uint8_t *made;

    if (rc != SL_OK)
        return rc;
    if (n > PLAN_MAX_BYTES)
        return rows_too_many(n, err);
    made = sl_malloc(n);
    space.wide = sl_malloc(ROWS_AT_ONCE * tables_row_bytes(&s->tables));
    rc = made == NULL || space.wide == NULL
             ? sl_no_memory(err)
             : shard_read_blocks(s, pull, ids, &space, made, err);
    sl_free(space.wide);
    if (rc != SL_OK) {
        sl_free(made);
        return rc;
    }
    *out = made;
    *bytes = n;
    return SL_OK;
}

enum sl_err shard_pull_rows(struct shard *s, const struct wire_pull *pull,
                            struct wire_pull_reply *reply, uint8_t **out,
                            size_t *bytes, struct sl_error *err)
{
    struct tables_push ids;
    enum sl_err rc = tables_flatten(&ids, &pull->payload);

    if (rc != SL_OK)
        return sl_no_memory(err);
    rc = tables_check(&s->tables, &ids, false, err);
    if (rc == SL_OK)
        rc = answer_rows(s, pull, &ids, reply, out, bytes, err);
    tables_push_release(&ids);
    return rc;
}

enum sl_err shard_pull_tagged_rows(struct shard *s,
                                   const struct tagged_file *file,
                                   const struct wire_pull *pull, uint8_t **out,
                                   size_t *bytes, struct sl_error *err)
{
    struct tables_push ids;
    enum sl_err rc = tables_flatten(&ids, &pull->payload);
    size_t n = 0;

    if (rc != SL_OK)
        return sl_no_memory(err);
    rc = tables_check(&s->tables, &ids, false, err);
    if (rc == SL_OK)
        n = tables_answer_bytes(&s->tables, &ids);
    if (n > PLAN_MAX_BYTES)
        rc = rows_too_many(n, err);
    if (rc == SL_OK)
        rc = tagged_rows(&s->tables, &s->plan, file, &ids, n, out, err);
    if (rc == SL_OK)
        *bytes = n;
    tables_push_release(&ids);
    return rc;
}

// ---- images

// SL_OK if an image of that incarnation may be taken now.
static enum sl_err may_freeze_locked(const struct shard *s,
                                     uint64_t incarnation, struct sl_error *err)
{
    if (s->closed || s->incarnation == 0 || s->incarnation != incarnation)
        return sl_fail(err, SL_ESTATE,
                       "job %" PRIu64 " shard %u is not admitted as "
                       "incarnation %" PRIu64,
                       s->plan.job, s->plan.shard, incarnation);
    if (s->behind)
        return sl_fail(err, SL_ESTALE,
                       "job %" PRIu64 " shard %u: its values are elsewhere",
                       s->plan.job, s->plan.shard);
    if (s->memory.freeze != NULL)
        return sl_fail(err, SL_EBUSY,
                       "job %" PRIu64 " shard %u: a snapshot is being written",
                       s->plan.job, s->plan.shard);
    return SL_OK;
}

// The instant: from here on what changes is copied first.
static enum sl_err show_locked(struct shard *s, uint64_t incarnation,
                               struct shard_image *out, struct sl_error *err)
{
    enum sl_err rc = may_freeze_locked(s, incarnation, err);

    if (rc == SL_OK)
        rc = once_copy(&out->once, &s->once);
    if (rc != SL_OK)
        return rc;
    out->tag = (struct wire_tag){s->incarnation, s->sequence};
    out->moments = moments_ref(s->moments.kept);
    s->memory.freeze = &out->freeze;
    return SL_OK;
}

// Takes the instant of the tables (T6), and decides whether it is a delta
// (T10). The chain of a base begins anew with it: what went before is in no
// list.
static void freeze_tables_locked(struct shard *s, struct shard_image *out)
{
    uint64_t version = once_version(&s->once);

    out->version = version;
    out->numbered = true;
    out->delta = shard_chain_delta(&s->chain) && tables_followed(&s->tables);
    if (out->delta) {
        tables_freeze_changed(&s->tables, version, s->chain.version);
        return;
    }
    s->chain.count = 0;
    tables_freeze(&s->tables, version);
    if (s->chain.most > 0)
        tables_follow(&s->tables);
}

// Sequence 0: the next one.
static enum sl_err freeze_locked(struct shard *s, struct wire_tag tag,
                                 struct shard_image *out, struct sl_error *err)
{
    enum sl_err rc = show_locked(s, tag.incarnation, out, err);

    if (rc != SL_OK)
        return rc;
    freeze_tables_locked(s, out);
    s->sequence = tag.sequence > 0 ? tag.sequence : s->sequence + 1;
    out->tag.sequence = s->sequence;
    if (s->bound.order != 0 && oplog_goes_on(&s->feed)) // K7
        shard_feed_put_locked(s, OPLOG_TAG, oplog_tag(s->sequence));
    HISTORY("frozen",
            WHICH "sequence=%" PRIu64 " steps=%" PRIu64 " low=%" PRIu64
                  " sparse=%zu applied=%" PRIu64 " skipped=%" PRIu64,
            WHICH_OF(s), s->sequence, counted_steps(&s->once.counted),
            counted_low(&s->once.counted),
            (size_t)counted_sparse(&s->once.counted), s->once.counts.applied,
            s->once.counts.skipped);
    return SL_OK;
}

// Allocates what an image takes, outside the lock: the instant comes later.
static enum sl_err freeze_allocate(struct shard *s, struct shard_image *out,
                                   struct sl_error *err)
{
    const void *arrays[FREEZE_ARRAYS] = {s->memory.values};
    unsigned slots = optim_slots(&s->plan.optim);

    *out = (struct shard_image){0};
    for (unsigned k = 0; k < slots; k++)
        arrays[1 + k] = s->memory.slots[k];
    return freeze_init(&out->freeze, arrays, 1 + slots,
                       plan_values_bytes(&s->plan)) == SL_OK
               ? SL_OK
               : sl_no_memory(err);
}

// `named`: under that tag.
static enum sl_err freeze(struct shard *s, bool named, struct wire_tag tag,
                          struct shard_image *out, struct sl_error *err)
{
    enum sl_err rc = freeze_allocate(s, out, err);

    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    rc = named ? freeze_locked(s, tag, out, err)
               : show_locked(s, s->incarnation, out, err);
    if (rc == SL_OK && !named)
        tables_freeze(&s->tables, once_version(&s->once));
    pthread_mutex_unlock(&s->lock);
    shard_log_more(s, false); // it may be of low priority
    if (rc != SL_OK) {
        freeze_release(&out->freeze);
        return rc;
    }
    out->shard = shard_ref(s);
    return SL_OK;
}

// ---- the source of a feed

// A feed that waits for its instant.
struct shard_arming {
    uint64_t incarnation, order;
    size_t most;
    struct shard_image *image;
    bool fed;
    enum sl_err rc;
    struct sl_error err;
};

// Contributions that are held are in no image: a feed begins when none is, so
// that its follower lacks nothing.
static bool contributions_held_locked(const struct shard *s)
{
    return s->contributions.held > 0 || s->open.held > 0;
}

// Begins the feed that waits, if this is its instant.
static void shard_arm_locked(struct shard *s)
{
    struct shard_arming *a = s->arming;

    if (a == NULL || contributions_held_locked(s))
        return;
    s->arming = NULL;
    a->rc = freeze_locked(s, (struct wire_tag){a->incarnation, 0}, a->image,
                          &a->err);
    a->fed = a->rc == SL_OK;
    if (a->fed)
        oplog_begin(&s->feed, a->order, a->most);
    atomic_store(&s->fed, oplog_goes_on(&s->feed));
    pthread_cond_broadcast(&s->armed);
}

enum sl_err shard_feed_begin(struct shard *s, uint64_t incarnation,
                             uint64_t order, size_t most, uint64_t wait_ms,
                             struct shard_image *out, bool *fed,
                             struct sl_error *err)
{
    struct shard_arming a = {.incarnation = incarnation,
                             .order = order,
                             .most = most,
                             .image = out,
                             .err = SL_ERROR_INIT};
    struct deadline until = deadline_in_ms(wait_ms);
    enum sl_err rc = freeze_allocate(s, out, err);

    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    if (s->arming == NULL && !s->plan.decided &&
        s->plan.stale.kind != STALE_DC && s->bound.order == 0) {
        s->arming = &a;
        shard_arm_locked(s);
        while (s->arming == &a && deadline_wait(&until, &s->armed, &s->lock))
            ;
    }
    if (s->arming == &a)
        s->arming = NULL;
    if (!a.fed && a.rc == SL_OK) // contributions were held all the time
        a.rc = freeze_locked(s, (struct wire_tag){incarnation, 0}, out, &a.err);
    pthread_mutex_unlock(&s->lock);
    shard_log_more(s, false); // of the snapshot, if another feed goes on
    if (a.rc != SL_OK) {
        freeze_release(&out->freeze);
        return sl_fail(err, a.rc, "%s", a.err.text);
    }
    out->shard = shard_ref(s);
    *fed = a.fed;
    return SL_OK;
}

void shard_feed_stop(struct shard *s, uint64_t order, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (order != 0 && s->feed.order == order)
        shard_feed_stop_locked(s, why);
    pthread_mutex_unlock(&s->lock);
}

enum sl_err shard_feed_next(struct shard *s, uint64_t order, uint64_t after,
                            struct oplog_record **out, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&s->lock);
    if (s->feed.order != order || s->feed.over != NULL)
        rc = sl_fail(
            err, SL_ESTATE, "job %" PRIu64 " shard %u: the feed is over: %s",
            s->plan.job, s->plan.shard,
            s->feed.order == order ? s->feed.over : "another one has begun");
    else
        *out = oplog_next(&s->feed, after);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void shard_feed_wake(struct shard *s, void (*fn)(void *arg, bool here),
                     void *arg)
{
    pthread_mutex_lock(&s->wake.lock);
    s->wake.fn = fn;
    s->wake.arg = arg;
    atomic_store(&s->wakes, fn != NULL);
    pthread_mutex_unlock(&s->wake.lock);
}

bool shard_feed_acked(struct shard *s, uint64_t order, uint64_t applied)
{
    bool whole = false;

    pthread_mutex_lock(&s->lock);
    if (s->feed.order == order) {
        oplog_acked(&s->feed, applied);
        whole = s->feed.over == NULL && s->feed.ended &&
                s->feed.acked == s->feed.last;
    }
    pthread_mutex_unlock(&s->lock);
    return whole;
}

// M1
bool shard_feed_hand_over(struct shard *s, uint64_t order, size_t most)
{
    struct oplog_sum sum;
    bool ended = false;

    pthread_mutex_lock(&s->lock);
    if (s->feed.order == order && oplog_goes_on(&s->feed) &&
        s->feed.bytes <= most && serves_locked(s)) {
        sum = oplog_sum_of(&s->once);
        sum.sequence = s->sequence;
        shard_feed_put_locked(s, OPLOG_END, oplog_end(&sum));
        ended = s->handed = s->feed.ended;
    }
    pthread_mutex_unlock(&s->lock);
    if (ended)
        FAULT("feed.ended");
    return ended;
}

// ---- its follower

void shard_follow_begin(struct shard *s, uint64_t order, uint64_t incarnation)
{
    pthread_mutex_lock(&s->lock);
    s->follow =
        (struct oplog_follow){.order = order, .incarnation = incarnation};
    mirror_begin(&s->mirror, s->memory.values);
    pthread_mutex_unlock(&s->lock);
}

bool shard_follow_stop(struct shard *s, uint64_t order)
{
    bool stops;

    pthread_mutex_lock(&s->lock);
    stops = order != 0 && s->follow.order == order && !s->follow.failed;
    if (stops)
        s->follow.order = 0;
    pthread_mutex_unlock(&s->lock);
    return stops;
}

bool shard_followed(struct shard *s, uint64_t order)
{
    bool whole;

    pthread_mutex_lock(&s->lock);
    whole = order != 0 && s->follow.order == order && s->follow.whole;
    pthread_mutex_unlock(&s->lock);
    return whole;
}

// Reads a push of a feed as one of this memory, which has no incarnation yet.
// Attempts fence within an incarnation (I4), and the next one sees its own.
static enum sl_err follow_push(struct shard *s, uint64_t number,
                               const struct oplog_op *op, struct sl_error *err)
{
    const struct push_way way = {.number = number, .kind = op->kind};
    struct wire_push_reply reply;
    struct wire_push push;
    enum sl_err rc = wire_read_push(&push, &op->bytes, err);

    if (rc != SL_OK)
        return rc;
    if (push.job != s->plan.job || push.shard != s->plan.shard || push.has_shm)
        return sl_fail(err, SL_EINVAL,
                       "FollowRequest.payload: a push for job %" PRIu64
                       " shard %u, or in shared memory",
                       push.job, push.shard);
    push.incarnation = 0;
    push.unproven = true;
    return push_any(s, &push, &way, &reply, NULL, err);
}

static enum sl_err follow_close_locked(struct shard *s,
                                       const struct oplog_op *op,
                                       struct sl_error *err)
{
    uint64_t closure = 0;
    enum sl_err rc = oplog_read_one(&closure, op, err);

    if (rc != SL_OK)
        return rc;
    if (!open_round_has(&s->open, closure))
        return sl_fail(err, SL_ECORRUPT,
                       "job %" PRIu64 " shard %u: the round that ends does not "
                       "hold closure %" PRIu64 " here",
                       s->plan.job, s->plan.shard, closure);
    shard_end_open_locked(s, true);
    return SL_OK;
}

// The memory has what that snapshot of its source has.
static enum sl_err follow_tag_locked(struct shard *s, const struct oplog_op *op,
                                     struct sl_error *err)
{
    uint64_t sequence = 0;
    enum sl_err rc = oplog_read_one(&sequence, op, err);

    if (rc == SL_OK)
        s->from = (struct wire_tag){s->follow.incarnation, sequence};
    return rc;
}

static enum sl_err follow_end_locked(struct shard *s, const struct oplog_op *op,
                                     struct sl_error *err)
{
    struct oplog_sum sum = oplog_sum_of(&s->once), source;
    enum sl_err rc = oplog_read_end(&source, op, err);

    if (rc != SL_OK)
        return rc;
    if (sum.steps != source.steps || sum.low != source.low ||
        sum.version != source.version || sum.samples != source.samples ||
        sum.digest != source.digest)
        return sl_fail(err, SL_ECORRUPT,
                       "job %" PRIu64 " shard %u has counted %" PRIu64
                       " steps of version %" PRIu64 " here, and %" PRIu64
                       " of version %" PRIu64 " at its source",
                       s->plan.job, s->plan.shard, sum.steps, sum.version,
                       source.steps, source.version);
    s->follow.whole = true;
    s->from = (struct wire_tag){s->follow.incarnation, source.sequence};
    return SL_OK;
}

static enum sl_err follow_other_locked(struct shard *s, uint64_t number,
                                       const struct oplog_op *op,
                                       struct sl_error *err)
{
    bool next = false;
    enum sl_err rc = follows_locked(s, number, &next, err);

    if (rc != SL_OK || !next)
        return rc;
    if (op->kind == OPLOG_CLOSE)
        rc = follow_close_locked(s, op, err);
    else if (op->kind == OPLOG_RATES)
        rc = oplog_read_rates(&s->rates, op, err);
    else if (op->kind == OPLOG_TAG)
        rc = follow_tag_locked(s, op, err);
    else
        rc = follow_end_locked(s, op, err);
    s->follow.failed = rc != SL_OK;
    s->follow.applied += rc == SL_OK;
    return rc;
}

static enum sl_err follow_one(struct shard *s, uint64_t number,
                              const struct oplog_op *op, struct sl_error *err)
{
    enum sl_err rc;

    if (op->kind == OPLOG_COUNTED || op->kind == OPLOG_HELD)
        return follow_push(s, number, op, err);
    pthread_mutex_lock(&s->lock);
    rc = follow_other_locked(s, number, op, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static enum sl_err follow_check_locked(const struct shard *s,
                                       const struct wire_follow *m,
                                       struct sl_error *err)
{
    if (m->order == s->follow.order &&
        m->incarnation == s->follow.incarnation &&
        m->job_incarnation == s->plan.job_incarnation)
        return SL_OK;
    return sl_fail(err, SL_ESTATE,
                   "job %" PRIu64 " shard %u does not follow order %" PRIu64
                   " of incarnation %" PRIu64 " here",
                   s->plan.job, s->plan.shard, m->order, m->incarnation);
}

enum sl_err shard_follow(struct shard *s, const struct wire_follow *m,
                         struct wire_follow_reply *reply, struct sl_error *err)
{
    uint64_t number = m->number;
    struct sl_slices rest = m->payload; // shortened, so no read begins anew
    struct oplog_op op;
    size_t at;
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = follow_check_locked(s, m, err);
    pthread_mutex_unlock(&s->lock);
    while (rc == SL_OK && rest.bytes > 0) {
        at = 0;
        rc = oplog_read(&op, &rest, &at, err);
        if (rc == SL_OK)
            rc = slices_sub(&rest, &rest, at, rest.bytes - at);
        if (rc == SL_OK)
            rc = follow_one(s, number++, &op, err);
        FAULT("feed.applied");
    }
    pthread_mutex_lock(&s->lock);
    *reply = (struct wire_follow_reply){s->follow.applied, s->follow.whole};
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// ---- images, again

enum sl_err shard_freeze_as(struct shard *s, struct wire_tag tag,
                            struct shard_image *out, struct sl_error *err)
{
    return freeze(s, true, tag, out, err);
}

enum sl_err shard_freeze_copy(struct shard *s, struct shard_image *out,
                              struct sl_error *err)
{
    return freeze(s, false, (struct wire_tag){0, 0}, out, err);
}

enum sl_err shard_freeze(struct shard *s, uint64_t incarnation,
                         struct shard_image *out, struct sl_error *err)
{
    return shard_freeze_as(s, (struct wire_tag){incarnation, 0}, out, err);
}

bool shard_is_frozen(struct shard *s)
{
    bool frozen;

    pthread_mutex_lock(&s->lock);
    frozen = s->memory.freeze != NULL;
    pthread_mutex_unlock(&s->lock);
    return frozen;
}

void shard_image_take(struct shard_image *image, size_t block, void *space,
                      const void **at, size_t *n)
{
    freeze_copy(&image->freeze, block, space);
    pthread_mutex_lock(&image->shard->lock);
    freeze_take(&image->freeze, block, space, at, n);
    pthread_mutex_unlock(&image->shard->lock);
}

// What is saved in the side stays as it is, so it is copied without the lock.
enum sl_err shard_image_read(struct shard_image *image, uint64_t offset,
                             size_t n, void *into)
{
    struct freeze *f = &image->freeze;

    if (offset > f->bytes || n > f->bytes - offset)
        return SL_ERANGE;
    pthread_mutex_lock(&image->shard->lock);
    freeze_touch(f, (size_t)offset, n);
    pthread_mutex_unlock(&image->shard->lock);
    memcpy(into, (const uint8_t *)f->side.data + offset, n);
    return SL_OK;
}

bool shard_image_rows(struct shard_image *image, size_t table,
                      enum rowset_part part, size_t most, void *out, size_t *n)
{
    bool more;

    pthread_mutex_lock(&image->shard->lock);
    more = rowset_walk(image->shard->tables.sets[table], part, most, out, n);
    pthread_mutex_unlock(&image->shard->lock);
    return more;
}

enum sl_err shard_image_walked(struct shard_image *image, size_t table,
                               struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&image->shard->lock);
    rc = rowset_walked(image->shard->tables.sets[table], err);
    pthread_mutex_unlock(&image->shard->lock);
    return rc;
}

void shard_image_kept(struct shard_image *image,
                      const uint8_t sha256[SHA256_BYTES], uint64_t bytes,
                      uint64_t file_bytes)
{
    struct shard_chain *c = &image->shard->chain;
    struct shard_chain_link *link = &c->link[c->count];

    if (!image->numbered || c->most == 0)
        return;
    pthread_mutex_lock(&image->shard->lock);
    link->tag = image->tag;
    link->bytes = bytes;
    link->file_bytes = file_bytes;
    memcpy(link->sha256, sha256, SHA256_BYTES);
    c->count++;
    c->version = image->version;
    if (image->delta)
        tables_gone_end(&image->shard->tables, true);
    image->delta = false;
    pthread_mutex_unlock(&image->shard->lock);
}

void shard_image_release(struct shard_image *image)
{
    if (image->shard == NULL)
        return;
    pthread_mutex_lock(&image->shard->lock);
    image->shard->memory.freeze = NULL;
    if (image->delta) // no file has them
        tables_gone_end(&image->shard->tables, false);
    tables_thaw(&image->shard->tables);
    pthread_mutex_unlock(&image->shard->lock);
    freeze_release(&image->freeze);
    once_release(&image->once);
    moments_unref(image->moments);
    shard_unref(image->shard);
    image->shard = NULL;
}
