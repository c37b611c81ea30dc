// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync_ps.c -- the compute thread's side; see sync_ps.h.
//
// All calls go through ps_turn(): take answers and maps, start the calls that
// are due, until a condition holds, or cannot hold any more, or has to be
// waited for (ps_await).
#include "trainer/push/sync_ps.h"

#include <assert.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "state/shard/contributions.h"
#include "trainer/push/sync_ps_inner.h"

// Parameters that are older than this are pulled again when a closure begins.
#define FRESH_MS 200
// Share of what topk2 left out that goes into the next contribution (error
// feedback of arXiv 2603.08163).
#define REST_KEPT 0.95f
// A program of a user waits in here while its psserver is away; between two
// looks its handlers of signals run, and a drain ends the wait.
#define LOOK_MS 200 // most time between two looks
#define MAP_EVERY_MS 500

static struct sync_ps *self(const struct sync *sync)
{
    return sl_container_of(sync, struct sync_ps, sync);
}

static bool at_rest(const struct ps_shard *p)
{
    return p->want == PS_NOTHING && !p->calling && p->shared.lent == 0;
}

// ---- driving

typedef bool (*ps_done_fn)(struct sync_ps *s, uint32_t arg);

static bool ps_is_stopped(const struct sync_ps *s)
{
    return gate_look(s->closure.gate, s->o.clock) != GATE_OPEN;
}

// Cancels calls to shards that the map has moved or lost: no answer would come.
static void cancel_moved(struct sync_ps *s)
{
    for (uint32_t i = 0; i < s->lanes; i++) {
        struct ps_shard *p = &s->shards[i];
        const struct sync_map_entry *e = &s->map.entries[p->number];

        if (p->calling &&
            (e->incarnation == 0 || !peer_is_at(&p->peer, e->address)))
            ps_cancel(p);
    }
}

// Starts the calls that are due; returns the time when the next will be.
static uint64_t start_due(struct sync_ps *s)
{
    uint64_t now = sl_now_ms(s->o.clock), next = now + LOOK_MS;

    for (uint32_t i = 0; i < s->lanes; i++) {
        struct ps_shard *p = &s->shards[i];

        if (p->want == PS_NOTHING || p->calling)
            continue;
        if (p->due_ms <= now)
            ps_start(p);
        if (!p->calling && p->due_ms < next)
            next = p->due_ms;
    }
    if (s->map_wanted && now - s->map_asked_ms >= MAP_EVERY_MS) {
        s->map_asked_ms = now;
        s->o.want_map(s->o.arg, s->o.job, s->map.version);
    }
    return next;
}

static void ps_wait_locked(struct sync_ps *s, uint64_t until_ms)
{
    uint64_t now = sl_now_ms(s->o.clock), before = sl_now_us(s->o.clock);
    uint64_t ms = until_ms > now ? until_ms - now : 0;
    struct deadline until = deadline_in_ms(ms < LOOK_MS ? ms : LOOK_MS);

    (void)deadline_wait(&until, &s->shared.changed, &s->shared.lock);
    s->seen.wait_ms += (double)(sl_now_us(s->o.clock) - before) / 1000;
}

static enum sync_result ps_result(struct sync_ps *s, bool again_ends,
                                  struct sl_error *err)
{
    if (s->failed) {
        if (err != NULL)
            *err = s->err;
        return SYNC_FAILED;
    }
    if (s->fenced)
        return SYNC_FENCED;
    if (s->early)
        return SYNC_EARLY;
    if (s->partly)
        return SYNC_PARTLY;
    if (ps_is_stopped(s))
        return SYNC_STOPPED;
    return s->again && again_ends ? SYNC_AGAIN : SYNC_OK;
}

static bool ps_is_stirred(struct sync_ps *s)
{
    bool stirred;

    pthread_mutex_lock(&s->shared.lock);
    stirred = s->shared.stirred;
    pthread_mutex_unlock(&s->shared.lock);
    return stirred;
}

// Marks the attempt as one that waits, from the first SYNC_BUSY of a call to
// its end: to be slow is not its fault meanwhile.
static enum sync_result ps_busy(struct sync_ps *s)
{
    if (!s->busy) {
        s->asked_ms = sl_now_ms(s->o.clock);
        pulse_wait(&s->closure.gate->pulse, true);
    }
    s->busy = true;
    return SYNC_BUSY;
}

static void ps_end_busy(struct sync_ps *s)
{
    if (s->busy)
        pulse_wait(&s->closure.gate->pulse, false);
    s->busy = false;
}

static enum sync_result ps_turn(struct sync_ps *s, ps_done_fn done,
                                uint32_t arg, bool again_ends,
                                struct sl_error *err)
{
    enum sync_result result;
    bool is_done;

    for (;;) {
        pthread_mutex_lock(&s->shared.lock);
        s->shared.stirred = false;
        ps_adopt_locked(s);
        ps_absorb_locked(s);
        result = ps_result(s, again_ends, err);
        is_done = result == SYNC_OK && done(s, arg);
        pthread_mutex_unlock(&s->shared.lock);
        if (result != SYNC_OK || is_done) {
            ps_end_busy(s);
            return result;
        }
        if (s->moved)
            cancel_moved(s);
        s->moved = false;
        s->next_ms = start_due(s);
        if (!ps_is_stirred(s))
            return ps_busy(s);
    }
}

// Asks the caller, LOOK_MS after the last time, whether to wait on.
static void ask_patience(struct sync_ps *s)
{
    uint64_t now = sl_now_ms(s->o.clock);

    if (s->o.patient == NULL || now - s->asked_ms < LOOK_MS)
        return;
    s->asked_ms = now;
    if (!s->o.patient(s->o.arg))
        gate_close(s->closure.gate, GATE_DRAIN);
}

static void ps_await(struct sync *sync)
{
    struct sync_ps *s = self(sync);

    pthread_mutex_lock(&s->shared.lock);
    if (!s->shared.stirred)
        ps_wait_locked(s, s->next_ms);
    pthread_mutex_unlock(&s->shared.lock);
    ask_patience(s);
}

// ---- the seam

static bool in_round(const struct sync_ps *s, uint64_t a, uint64_t b)
{
    uint32_t count;

    return contributions_round(&s->o.schedule, s->o.contributions, a, &count) ==
           contributions_round(&s->o.schedule, s->o.contributions, b, &count);
}

// Forgets what shards have said of an earlier closure.
static void ps_unsay(struct sync_ps *s)
{
    s->again = s->fenced = s->early = s->partly = s->failed = false;
}

static enum sync_result ps_open(struct sync *sync, const struct sync_closure *c,
                                struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    uint64_t now = sl_now_ms(s->o.clock);

    assert(!s->open && c->steps <= EVIDENCE_STEPS);
    s->closure = *c;
    s->open = true;
    ps_unsay(s);
    s->seen = (struct sync_seen){.refused = 0};
    for (uint32_t i = 0; i < sync->ranges_count; i++) {
        struct ps_shard *p = &s->shards[i];

        evidence_void(&p->evidence);
        p->counted_new = false;
        p->stale_times = 0;
        p->rows_version = UINT64_MAX;
        p->contribution_held = p->round_closed = p->waited = false;
        // Our closure is a slot of the round that is waited for, which is not
        // applied without it.
        if (s->o.contributions > 0 && p->want == PS_NEXT &&
            in_round(s, p->waits_for, c->closure))
            ps_cancel(p);
        if (s->o.contributions == 0 && now - p->fresh_ms > FRESH_MS)
            p->have_params = false;
    }
    return SYNC_OK;
}

// Returns true if the shard need not be asked: the answer that brought its
// parameters said that nothing of this closure's round was counted, which is a
// fact of its incarnation. If another worker has contributed the closure
// meanwhile, the push is a duplicate (S2).
static bool need_not_ask(struct sync_ps *s, struct ps_shard *p)
{
    static const uint8_t nothing[1];
    uint64_t first = p->open_first, closure = s->closure.closure;

    p->open_first = 0; // once: the next closure may be of the same round
    if (first == 0 || !p->have_params || closure < first - 1 ||
        closure - (first - 1) >= p->open_count || s->map.entries == NULL ||
        s->map.entries[p->number].incarnation != p->params_incarnation ||
        (s->closure.incarnation != 0 &&
         s->closure.incarnation != p->params_incarnation))
        return false;
    evidence_take(&p->evidence, p->params_incarnation, nothing,
                  sizeof(nothing));
    return true;
}

static bool no_rows_under_way(const struct sync_ps *s)
{
    uint32_t i = s->sync.ranges_count;

    while (i < s->lanes && at_rest(&s->shards[i]))
        i++;
    return i == s->lanes;
}

// Gives up rows that were asked for and not taken: they may be of incarnations
// that are gone, as parameters are (W1).
static void ps_give_up_rows(struct sync_ps *s)
{
    s->asked = false;
    for (uint32_t i = s->sync.ranges_count; i < s->lanes; i++) {
        struct ps_shard *p = &s->shards[i];

        ps_cancel(p);
        if (p->calling)
            continue;
        ps_move(p, PS_NOTHING, false);
        p->tries = 0;
        p->due_ms = 0;
    }
    for (uint32_t i = 0; i < s->sync.ranges_count; i++)
        s->shards[i].rows_version = UINT64_MAX;
}

// Asks and pulls what is missing. Returns true when nothing is, and rows that
// were given up lie in the caller's memory again.
static bool all_known(struct sync_ps *s, uint32_t arg)
{
    bool known = no_rows_under_way(s);

    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        struct ps_shard *p = &s->shards[i];

        if (at_rest(p) && !evidence_known(&p->evidence) && !need_not_ask(s, p))
            ps_move(p, PS_ASK, false);
        else if (at_rest(p) && !p->have_params && !s->o.by_range)
            ps_move(p, PS_PULL, false);
        known = known && at_rest(p);
    }
    return known;
}

static void past_locked(struct sync_ps *s, uint32_t op)
{
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        if (s->shards[i].step.reads_until <= op)
            s->shards[i].shared.read = false;
    }
}

static void ps_past(struct sync *sync, uint32_t op)
{
    struct sync_ps *s = self(sync);

    pthread_mutex_lock(&s->shared.lock);
    past_locked(s, op);
    pthread_mutex_unlock(&s->shared.lock);
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        struct ps_shard *p = &s->shards[i];

        if (!p->held || p->shared.read)
            continue;
        p->held = false;
        // Unless the call was given up.
        if (p->want != PS_NOTHING && !p->calling)
            ps_start(p);
    }
}

static enum sync_result ps_begin(struct sync *sync, uint32_t *step, bool *done,
                                 struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    enum sync_result result;

    ps_past(sync, UINT32_MAX); // ends the reads of a step that was given up
    ps_give_up_rows(s);
    result = ps_turn(s, all_known, 0, false, err);
    if (result != SYNC_OK)
        return result;
    s->again = false;
    *step = s->closure.steps;
    *done = evidence_first_missing(&s->shards[0].evidence, sizeof(s->shards[0]),
                                   sync->ranges_count, s->closure.steps, 0,
                                   step) == EVIDENCE_FULL;
    return SYNC_OK;
}

static uint32_t ps_next(struct sync *sync, uint32_t after)
{
    struct sync_ps *s = self(sync);
    uint32_t step = s->closure.steps;

    // A void evidence shows at the next wait, as SYNC_AGAIN.
    if (evidence_first_missing(&s->shards[0].evidence, sizeof(s->shards[0]),
                               sync->ranges_count, s->closure.steps, after + 1,
                               &step) == EVIDENCE_ASK)
        return after + 1;
    return step;
}

// Pulls what a push has not brought. Returns true when the range is ready.
static bool ps_is_range_ready(struct sync_ps *s, uint32_t range)
{
    struct ps_shard *p = &s->shards[range];

    if (at_rest(p) && !p->have_params && p->step.newer)
        ps_move(p, PS_PULL, false);
    return at_rest(p) && p->have_params;
}

static enum sync_result ps_wait(struct sync *sync, uint32_t range,
                                struct sl_error *err)
{
    assert(!self(sync)->shards[range].shared.read); // only ps_send sets it
    return ps_turn(self(sync), ps_is_range_ready, range, true, err);
}

// Codes a contribution. A worker that drains has no other that could bring what
// topk2 has left out.
static void ps_encode(struct ps_shard *p)
{
    struct sync_ps *s = p->s;
    const struct coded *form = &s->o.coded[p->number];
    const float *values = s->sync.grads + p->first;

    p->coded_as = s->o.up;
    if (s->rest != NULL && atomic_load(&s->closure.gate->draining))
        p->coded_as = WIRE_BF16;
    p->coded_bytes = coded_bytes(form, p->coded_as);
    if (s->rest != NULL)
        coded_write_rest(form, p->coded_as, REST_KEPT, values,
                         s->rest + p->first, p->coded);
    else
        coded_write(form, p->coded_as, values, p->coded);
}

static enum sync_result ps_send(struct sync *sync, uint32_t range,
                                const struct sync_step *step, bool skip,
                                struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    struct ps_shard *p = &s->shards[range];
    uint64_t began = sl_now_us(s->o.clock);
    enum sync_result result;

    pthread_mutex_lock(&s->shared.lock);
    ps_adopt_locked(s);
    ps_absorb_locked(s);
    result = ps_result(s, true, err);
    p->shared.read = result == SYNC_OK && step->reads_until > 0;
    pthread_mutex_unlock(&s->shared.lock);
    if (result != SYNC_OK)
        return result;
    assert(p->want == PS_NOTHING && !p->calling);
    if (s->o.by_range && evidence_has(&p->evidence, step->step))
        return SYNC_OK;
    // A step that is counted there already, by another attempt, is only pulled.
    // Of several closures the shard is to say itself what it has (L5).
    ps_move(p,
            evidence_has(&p->evidence, step->step) && step->more_count == 0 &&
                    step->first == NULL
                ? PS_PULL
                : PS_PUSH,
            false);
    p->step = *step;
    p->based_on = p->rows_version < p->version ? p->rows_version : p->version;
    p->rows_version = UINT64_MAX;
    p->skip = skip;
    if (s->coded != NULL && !skip && p->want == PS_PUSH)
        ps_encode(p);
    peer_next_gradient(&p->peer);
    // Through shared memory nothing is gained by an early start: the answer
    // would be kept, and copied by this thread instead of another.
    p->held = p->shared.read && peer_shares(&p->peer);
    if (!p->held)
        ps_start(p);
    s->seen.push_ms += (double)(sl_now_us(s->o.clock) - began) / 1000;
    return SYNC_OK;
}

// ---- pulls by range

static bool all_pulled(struct sync_ps *s, uint32_t from)
{
    bool there = true;

    for (uint32_t i = from; i < s->pull_end; i++) {
        struct ps_shard *p = &s->shards[i];

        if (at_rest(p) && !p->have_params)
            ps_move(p, PS_PULL, false);
        there = there && ps_is_range_ready(s, i);
    }
    return there;
}

static enum sync_result ps_pull(struct sync *sync, uint32_t from, uint32_t end,
                                struct sl_error *err)
{
    self(sync)->pull_end = end;
    return ps_turn(self(sync), all_pulled, from, false, err);
}

static bool one_at_rest(struct sync_ps *s, uint32_t range)
{
    return at_rest(&s->shards[range]);
}

static enum sync_result ps_rest(struct sync *sync, uint32_t range,
                                struct sl_error *err)
{
    return ps_turn(self(sync), one_at_rest, range, false, err);
}

static void ps_drop(struct sync *sync, uint32_t range)
{
    self(sync)->shards[range].have_params = false;
}

// ---- the end of a closure

// Returns true if the first `n` of all lanes are at rest.
static bool all_at_rest(struct sync_ps *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!at_rest(&s->shards[i]))
            return false;
    }
    return true;
}

static enum sync_result ps_settle(struct sync *sync, struct sl_error *err)
{
    ps_past(sync, UINT32_MAX);
    return ps_turn(self(sync), all_at_rest, sync->ranges_count, true, err);
}

static bool ps_counted(const struct sync *sync, uint32_t step)
{
    const struct ps_shard *p = &self(sync)->shards[0];

    return p->counted_new && p->counted_step == step;
}

static void ps_evidence(const struct sync *sync, uint64_t *incarnations)
{
    const struct sync_ps *s = self(sync);

    for (uint32_t i = 0; i < sync->ranges_count; i++)
        incarnations[i] = s->shards[i].evidence.incarnation;
}

static uint64_t ps_named(const struct sync *sync)
{
    const struct sync_ps *s = self(sync);

    for (uint32_t i = 0; i < sync->ranges_count; i++) {
        uint64_t from = s->shards[i].evidence.incarnation;

        if (s->map.entries == NULL || from == 0 ||
            s->map.entries[i].incarnation != from)
            return 0;
    }
    return s->map.version;
}

static bool ps_held(const struct sync *sync, uint32_t range)
{
    return self(sync)->shards[range].contribution_held;
}

static bool ps_closed(const struct sync *sync, uint32_t range)
{
    return self(sync)->shards[range].round_closed;
}

static void ps_seen(const struct sync *sync, struct sync_seen *out)
{
    *out = self(sync)->seen;
}

// Breaks the connections of the shards that we still wait for: their psservers
// read nothing.
static void ps_break_connections(struct sync_ps *s)
{
    for (uint32_t i = 0; i < s->lanes; i++) {
        if (!at_rest(&s->shards[i]))
            peer_break(&s->shards[i].peer);
    }
}

// Cancels what is in flight, starts no new call, and waits until all shards are
// at rest.
static void abandon(struct sync_ps *s)
{
    struct deadline until = deadline_in_ms(RPC_BREAK_MS);

    s->asked = false;
    for (uint32_t i = 0; i < s->lanes; i++) {
        ps_cancel(&s->shards[i]);
        s->shards[i].held = false;
        if (!s->shards[i].calling)
            ps_move(&s->shards[i], PS_NOTHING, false);
    }
    pthread_mutex_lock(&s->shared.lock);
    past_locked(s, UINT32_MAX);
    for (;;) {
        ps_absorb_locked(s);
        for (uint32_t i = 0; i < s->lanes; i++) {
            struct ps_shard *p = &s->shards[i];

            if (!p->calling) {
                ps_move(p, PS_NOTHING, false);
                p->tries = 0;
                p->due_ms = 0;
            }
        }
        if (all_at_rest(s, s->lanes))
            break;
        if (deadline_wait(&until, &s->shared.changed, &s->shared.lock))
            continue;
        ps_break_connections(s);
        until = deadline_in_ms(RPC_BREAK_MS);
    }
    pthread_mutex_unlock(&s->shared.lock);
}

// Pulls ahead after a contribution: when its round is applied, the parameters
// come by themselves, while the next slot is on its way to us.
static void want_next(struct sync_ps *s)
{
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        struct ps_shard *p = &s->shards[i];

        // The answer to a coded contribution has no parameters.
        if (!p->contribution_held && !(s->coded != NULL && p->round_closed))
            continue;
        p->waits_for = s->closure.closure;
        p->have_params = false;
        ps_move(p, PS_NEXT, false);
        if (!ps_start(p))
            ps_move(p, PS_NOTHING, false);
    }
}

static void ps_close(struct sync *sync)
{
    struct sync_ps *s = self(sync);

    if (!s->open)
        return;
    ps_end_busy(s);
    abandon(s);
    want_next(s);
    s->open = false;
}

// Begins calls that no closure makes.
static void ps_begin_aside(struct sync_ps *s, struct gate *gate)
{
    assert(!s->open);
    s->closure = (struct sync_closure){.gate = gate};
    ps_unsay(s);
    abandon(s); // ends calls of PS_NEXT
}

// Goes on with those calls, of every shard; SYNC_BUSY: they are under way.
static enum sync_result ps_turn_aside(struct sync_ps *s, struct sl_error *err)
{
    enum sync_result result;

    s->cutting = true;
    result = ps_turn(s, all_at_rest, s->sync.ranges_count, false, err);
    if (result == SYNC_BUSY)
        return result;
    s->cutting = false;
    abandon(s);
    return result;
}

static void ps_begin_cut(struct sync_ps *s, const struct wire_tag *tags,
                         struct gate *gate, float *to)
{
    ps_begin_aside(s, gate);
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        ps_move(&s->shards[i], PS_CUT, false);
        s->shards[i].tag = tags[i];
        s->shards[i].target = to + s->shards[i].first;
    }
}

static enum sync_result ps_pull_cut(struct sync *sync,
                                    const struct wire_tag *tags,
                                    struct gate *gate, float *to,
                                    struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    enum sync_result result;

    if (!s->cutting)
        ps_begin_cut(s, tags, gate, to);
    result = ps_turn_aside(s, err);
    if (result == SYNC_BUSY)
        return result;
    for (uint32_t i = 0; i < sync->ranges_count; i++)
        s->shards[i].target = sync->params + s->shards[i].first;
    return result;
}

static void ps_begin_moments(struct sync_ps *s, const struct sync_moments *m)
{
    ps_begin_aside(s, m->gate);
    s->moments = *m;
    for (uint32_t i = 0; i < s->sync.ranges_count; i++)
        ps_move(&s->shards[i], PS_MOMENTS, false);
}

static enum sync_result ps_moments(struct sync *sync,
                                   const struct sync_moments *m, uint64_t *t,
                                   struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    uint64_t least = UINT64_MAX;
    enum sync_result result;

    if (!s->cutting)
        ps_begin_moments(s, m);
    result = ps_turn_aside(s, err);
    if (result == SYNC_BUSY)
        return result;
    for (uint32_t i = 0; i < sync->ranges_count; i++)
        if (s->shards[i].shared.answer.moments_t < least)
            least = s->shards[i].shared.answer.moments_t;
    if (result == SYNC_OK)
        *t = least;
    return result;
}

// ---- rows

// Wants the rows that have not come. Returns true if all have.
static bool ps_want_rows(struct sync_ps *s, uint32_t arg)
{
    bool there = true;

    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        struct ps_shard *p = ps_rows_of(s, i);

        if (at_rest(p) && !p->have_rows)
            ps_move(p, PS_ROWS, false);
        there = there && at_rest(p);
    }
    return there;
}

static void ps_begin_rows(struct sync_ps *s, const struct sync_rows *rows)
{
    assert(s->o.tables);
    if (rows->tags != NULL)
        ps_begin_aside(s, rows->gate);
    assert(no_rows_under_way(s));
    s->asked = true;
    s->rows = *rows;
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        struct ps_shard *p = ps_rows_of(s, i);

        p->have_rows = rows->ids[i].bytes == 0;
        if (rows->tags != NULL)
            p->tag = rows->tags[i];
    }
}

static void ps_ask_rows(struct sync *sync, const struct sync_rows *rows)
{
    struct sync_ps *s = self(sync);

    ps_begin_rows(s, rows);
    (void)ps_want_rows(s, 0);
    (void)start_due(s);
}

// Notes how old the rows are that a step is computed from.
static void ps_note_rows(struct sync_ps *s)
{
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        const struct ps_shard *p = ps_rows_of(s, i);

        if (s->rows.ids[i].bytes > 0 && p->version < s->shards[i].rows_version)
            s->shards[i].rows_version = p->version;
    }
}

static enum sync_result ps_rows(struct sync *sync, const struct sync_rows *rows,
                                struct sl_error *err)
{
    struct sync_ps *s = self(sync);
    enum sync_result result;

    // What is under way, since this call was made before or was asked for
    // ahead, is left alone.
    if (!s->asked)
        ps_begin_rows(s, rows);
    result = ps_turn(s, ps_want_rows, 0, false, err);
    if (result == SYNC_BUSY)
        return result;
    s->asked = false;
    if (rows->tags != NULL)
        abandon(s);
    else if (result == SYNC_OK)
        ps_note_rows(s);
    return result;
}

// ---- from other threads

static enum sl_err copy_map(struct ps_map *out, uint64_t version,
                            const struct sync_map_entry *entries, size_t count)
{
    size_t texts = 0;
    char *text;

    for (size_t i = 0; i < count; i++)
        texts += strlen(entries[i].address) + 1;
    out->entries = sl_malloc(count * sizeof(*entries) + texts);
    if (out->entries == NULL)
        return SL_ENOMEM;
    text = (char *)(out->entries + count);
    for (size_t i = 0; i < count; i++) {
        out->entries[i].incarnation = entries[i].incarnation;
        out->entries[i].address = text;
        text = stpcpy(text, entries[i].address) + 1;
    }
    out->version = version;
    out->count = count;
    return SL_OK;
}

static void ps_take_map(struct sync *sync, uint64_t version,
                        const struct sync_map_entry *entries, size_t count)
{
    struct sync_ps *s = self(sync);
    struct ps_map map;

    // A map that does not fit, or that there is no memory for, counts as lost:
    // the sync asks for another.
    if (count != sync->ranges_count ||
        copy_map(&map, version, entries, count) != SL_OK)
        return;
    pthread_mutex_lock(&s->shared.lock);
    sl_free(s->shared.newer.entries);
    s->shared.newer = map;
    s->shared.has_newer = true;
    ps_stir_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

static void ps_wake(struct sync *sync)
{
    struct sync_ps *s = self(sync);

    pthread_mutex_lock(&s->shared.lock);
    ps_stir_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

static void ps_free(struct sync *sync)
{
    struct sync_ps *s = self(sync);

    if (s->shards != NULL)
        abandon(s);
    for (uint32_t i = 0; s->shards != NULL && i < s->lanes; i++)
        peer_release(&s->shards[i].peer);
    pthread_mutex_destroy(&s->shared.lock);
    pthread_cond_destroy(&s->shared.changed);
    sl_free(s->shared.newer.entries);
    sl_free(s->map.entries);
    if (s->o.params == NULL) {
        sl_free(sync->params);
        sl_free(sync->grads);
    }
    if (!s->o.by_range)
        sl_free(s->wire_grads);
    sl_free(s->coded);
    sl_free(s->rest);
    sl_free(s->shards);
    sl_free(s);
}

static const struct sync_ops ps_ops = {
    .open = ps_open,
    .begin = ps_begin,
    .next = ps_next,
    .wait = ps_wait,
    .send = ps_send,
    .past = ps_past,
    .settle = ps_settle,
    .counted = ps_counted,
    .evidence = ps_evidence,
    .named = ps_named,
    .held = ps_held,
    .closed = ps_closed,
    .seen = ps_seen,
    .close = ps_close,
    .pull_cut = ps_pull_cut,
    .moments = ps_moments,
    .await = ps_await,
    .pull = ps_pull,
    .rows = ps_rows,
    .ask_rows = ps_ask_rows,
    .rest = ps_rest,
    .drop = ps_drop,
    .map = ps_take_map,
    .wake = ps_wake,
    .free = ps_free,
};

// Returns the memory where a shard's gradient is rounded to 16 bits; NULL if it
// is sent as f32.
static void *narrow_of(struct sync_ps *s, const struct ps_shard *p)
{
    uint8_t *all = s->wire_grads;

    return all == NULL ? NULL : all + p->first * wire_type_bytes(s->o.wire);
}

static void ps_shard_init(struct sync_ps *s, uint32_t range)
{
    struct ps_shard *p = &s->shards[range];

    p->s = s;
    p->number = range;
    p->first = (size_t)s->o.shards[range].first;
    p->count = (size_t)s->o.shards[range].count;
    p->target = s->sync.params + p->first;
    peer_init(&p->peer, s->o.peers, s->o.wire, p->count, narrow_of(s, p));
    p->peer.coded = s->o.coded != NULL;
    if (!s->o.tables)
        return;
    p = ps_rows_of(s, range);
    p->s = s;
    p->number = range;
    peer_init(&p->peer, s->o.peers, s->o.wire, 0, NULL);
}

// Returns the space for a contribution of a shard. The last one, of bf16, is
// larger than topk2.
static size_t coded_bytes_most(const struct sync_ps_options *o, uint32_t range)
{
    size_t up = coded_bytes(&o->coded[range], o->up);
    size_t last = coded_bytes(&o->coded[range], WIRE_BF16);

    return up > last ? up : last;
}

static enum sl_err ps_make_coded(struct sync_ps *s)
{
    const struct sync_ps_options *o = &s->o;
    size_t bytes = 0;

    if (o->coded == NULL)
        return SL_OK;
    for (uint32_t i = 0; i < o->shards_count; i++)
        bytes += coded_bytes_most(o, i);
    s->coded = sl_malloc(bytes);
    if (o->up == WIRE_TOPK2)
        s->rest = sl_calloc((size_t)o->elements, sizeof(*s->rest));
    bytes = 0;
    for (uint32_t i = 0; s->coded != NULL && i < o->shards_count; i++) {
        s->shards[i].coded = s->coded + bytes;
        bytes += coded_bytes_most(o, i);
    }
    return s->coded != NULL && (s->rest != NULL || o->up != WIRE_TOPK2)
               ? SL_OK
               : SL_ENOMEM;
}

enum sl_err sync_ps_new(struct sync **out, const struct sync_ps_options *o,
                        struct sl_error *err)
{
    struct sync_ps *s = sl_calloc(1, sizeof(*s));
    size_t bytes = (size_t)o->elements * sizeof(float);

    if (s == NULL)
        return sl_no_memory(err);
    pthread_mutex_init(&s->shared.lock, NULL);
    pthread_cond_init(&s->shared.changed, NULL);
    s->o = *o;
    s->sync.ops = &ps_ops;
    s->sync.ranges = o->shards;
    s->sync.ranges_count = o->shards_count;
    s->sync.params = o->params != NULL ? o->params : sl_aligned(64, bytes);
    s->sync.grads = o->params != NULL ? o->grads : sl_aligned(64, bytes);
    if (o->by_range)
        s->wire_grads = o->narrow;
    else if (o->wire != WIRE_F32)
        s->wire_grads = sl_aligned(64, o->elements * wire_type_bytes(o->wire));
    s->lanes = o->tables ? 2 * o->shards_count : o->shards_count;
    s->shards = sl_calloc(s->lanes, sizeof(*s->shards));
    if (s->sync.params == NULL || s->sync.grads == NULL || s->shards == NULL ||
        (s->wire_grads == NULL) != (o->wire == WIRE_F32) ||
        ps_make_coded(s) != SL_OK) {
        ps_free(&s->sync);
        return sl_fail(err, SL_ENOMEM,
                       "no memory for the model's %llu parameters",
                       (unsigned long long)o->elements);
    }
    if (!o->by_range) {
        memset(s->sync.params, 0, bytes);
        memset(s->sync.grads, 0, bytes); // elements that no op writes stay 0
    }
    rng_init(&s->rng, sl_now_us(o->clock),
             o->seed != 0 ? o->seed : (uint64_t)(uintptr_t)s);
    for (uint32_t i = 0; i < o->shards_count; i++)
        ps_shard_init(s, i);
    *out = &s->sync;
    return SL_OK;
}
