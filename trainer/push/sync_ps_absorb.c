// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync_ps_absorb.c -- what answers and maps change.
//
// On the compute thread, with the lock (for the shared fields; a shard whose
// call has ended is the compute thread's again). No transport calls.
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "state/shard/contributions.h"
#include "trainer/push/sync_ps_inner.h"
#include "trainer/base/figures.h"

#define TRIES_BEFORE_MAP 2
#define EARLY_MS 20

void ps_fail(struct sync_ps *s, enum sl_err rc, const struct sl_error *err)
{
    if (s->failed)
        return;
    s->failed = true;
    s->err = *err;
    s->err.code = rc;
}

static void ps_shard_rest(struct ps_shard *p)
{
    ps_move(p, PS_NOTHING, false);
    if (p->tries > 0)
        gate_trouble(p->s->closure.gate, NULL, NULL);
    p->tries = 0;
    p->due_ms = 0;
    peer_rest(&p->peer);
}

// Forgets what is known of a shard that is not the one we took it for (W1).
static void ps_shard_forget(struct ps_shard *p)
{
    evidence_void(&p->evidence);
    p->have_params = false;
    p->s->again = true;
    p->s->map_wanted = true;
    ps_shard_rest(p);
}

// Returns true if the call is for values or rows of a snapshot.
static bool ps_wants_cut(const struct ps_shard *p)
{
    return p->want == PS_CUT || (p->want == PS_ROWS && p->s->rows.tags != NULL);
}

// Handles a call that failed. Its outcome is unknown in most cases: then the
// same call is made again.
static void failed_call(struct ps_shard *p, const struct ps_answer *a)
{
    struct sync_ps *s = p->s;
    bool moved = a->rc == SL_ENOENT || a->rc == SL_ESTALE || a->rc == SL_ESTATE;

    if (ps_wants_cut(p) && moved) {
        // The snapshot is gone; waiting does not help.
        ps_fail(s, a->rc, &a->err);
        ps_shard_rest(p);
        return;
    }
    if (!moved && !sl_err_transient(a->rc) && a->rc != SL_ECANCELED) {
        ps_fail(s, a->rc, &a->err);
        ps_shard_rest(p);
        return;
    }
    ps_pause(p);
    if (!moved && a->rc != SL_ECANCELED && s->map.entries != NULL)
        gate_trouble(s->closure.gate, s->map.entries[p->number].address,
                     a->err.text);
    if (moved || p->tries > TRIES_BEFORE_MAP)
        s->map_wanted = true;
}

// Handles a push refused as stale: pull, and compute the step again. The
// parameters of the other shards are as old, except where a gradient is still
// on its way.
static void stale(struct ps_shard *p)
{
    struct sync_ps *s = p->s;

    if (p->stale_times > 0 && p->stale_step != p->step.step)
        p->stale_times = 0;
    p->stale_step = p->step.step;
    p->stale_times++;
    for (uint32_t i = 0; i < s->sync.ranges_count; i++) {
        if (!s->shards[i].calling)
            s->shards[i].have_params = false;
    }
    if (!s->again)
        figures_steps(FIGURES_STALE, 1);
    s->again = true;
    ps_shard_rest(p);
}

// Waits for the round before ours: we were leased a slot of the round behind
// the open one (Y4), and its parameters come when the open one is applied. A
// shard that is further behind answers at once, so it is asked again after a
// while. The coordinator takes the slot back if it needs us for the open round;
// but it does not know of a slot that was leased on a stream which has ended,
// and what it leased since waits behind that.
static void await_round(struct ps_shard *p)
{
    struct sync_ps *s = p->s;
    struct gate *gate = s->closure.gate;
    uint32_t count;
    uint64_t first = contributions_round(&s->o.schedule, s->o.contributions,
                                         s->closure.closure, &count);

    if (first == 0 || atomic_load(&gate->left)) {
        s->early = true;
        ps_shard_rest(p);
        return;
    }
    if (atomic_load(&gate->draining))
        gate_close(gate, GATE_DRAIN); // no step of the closure is begun
    p->have_params = false;
    ps_move(p, PS_NEXT, false);
    p->waits_for = first - 1;
    p->due_ms = p->waited ? sl_now_ms(s->o.clock) + EARLY_MS : 0;
    p->waited = true;
}

static void ps_shard_on_refused(struct ps_shard *p, enum wire_refused_why why)
{
    struct sync_ps *s = p->s;

    switch (why) {
    case WIRE_REFUSED_ATTEMPT:
    case WIRE_REFUSED_JOB_INCARNATION:
        s->fenced = true;
        ps_shard_rest(p);
        return;
    case WIRE_REFUSED_STALE:
        stale(p);
        return;
    case WIRE_REFUSED_ROUND:
        // A shard without rounds of slots never says so.
        if (p->want == PS_ASK && s->o.contributions > 0) {
            await_round(p);
            return;
        }
        s->early = true;
        ps_shard_rest(p);
        return;
    case WIRE_REFUSED_SET: // L6
        s->partly = true;
        ps_shard_rest(p);
        return;
    case WIRE_REFUSED_REGION: // the same again, at once, as bytes
        if (!peer_send_bytes(&p->peer))
            ps_pause(p); // it was sent as bytes already
        return;
    case WIRE_REFUSED_INCARNATION:
    case WIRE_REFUSED_NOT:
        break;
    }
    if (p->want == PS_ASK) { // no evidence or parameters yet
        ps_pause(p);
        s->map_wanted = true;
        return;
    }
    ps_shard_forget(p);
}

static void ps_shard_on_asked(struct ps_shard *p, const struct ps_answer *a)
{
    if (a->refused.why != WIRE_REFUSED_NOT) {
        ps_shard_on_refused(p, a->refused.why);
        return;
    }
    FAULT("task.asked");
    evidence_take(&p->evidence, a->incarnation, a->counted, a->counted_bytes);
    // A round that is counted in part is computed from the parameters before
    // it, so those that we have must be of that version.
    if (p->params_incarnation != a->incarnation ||
        (p->s->o.contributions > 0 &&
         (p->version != a->version || evidence_has(&p->evidence, 0))))
        p->have_params = false;
    ps_shard_rest(p);
}

static void ps_shard_note_params(struct ps_shard *p, const struct ps_answer *a)
{
    p->have_params = true;
    p->params_incarnation = a->incarnation;
    p->version = a->version;
    p->open_first = a->open_first;
    p->open_count = a->open_count;
    p->fresh_ms = sl_now_ms(p->s->o.clock);
}

// Takes pulled parameters. By range they are also pulled in a step that was
// given up, when the evidence is void.
static void pulled(struct ps_shard *p, const struct ps_answer *a)
{
    if (a->incarnation != p->evidence.incarnation &&
        !(p->s->o.by_range && p->s->again)) {
        ps_shard_forget(p);
        return;
    }
    ps_shard_note_params(p, a);
    FAULT("task.pulled");
    ps_shard_rest(p);
}

// Takes pulled rows, as `pulled` does parameters: in a step that was given up
// those of a shard that has taken another's place will do.
static void rows_came(struct ps_shard *p, const struct ps_answer *a)
{
    struct sync_ps *s = p->s;
    struct ps_shard *of = &s->shards[p->number];

    p->have_rows = ps_wants_cut(p) || s->again ||
                   a->incarnation == of->evidence.incarnation;
    p->version = a->version;
    ps_shard_rest(p);
    if (p->have_rows)
        return;
    s->again = s->map_wanted = true;
    if (!of->calling) // else its own answer tells
        ps_shard_forget(of);
}

// Takes the answer of PS_NEXT. If it failed, the next closure pulls when it
// begins.
static void came(struct ps_shard *p, const struct ps_answer *a)
{
    p->have_params = false;
    if (a->rc == SL_OK)
        ps_shard_note_params(p, a);
    ps_shard_rest(p);
}

static void ps_shard_add_figures(const struct ps_shard *p,
                                 const struct ps_answer *a)
{
    if (a->result == WIRE_PUSH_COUNTED)
        figures_staleness(a->staleness);
    else if (a->result == WIRE_PUSH_DUPLICATE && p->number == 0)
        figures_steps(FIGURES_DUPLICATE, 1);
}

static void pushed(struct ps_shard *p, const struct ps_answer *a)
{
    if (a->result == WIRE_PUSH_REFUSED) {
        p->s->seen.refused += a->refused.why != WIRE_REFUSED_REGION;
        ps_shard_on_refused(p, a->refused.why);
        return;
    }
    if (!evidence_note(&p->evidence, a->incarnation, p->step.step)) {
        ps_shard_forget(p);
        return;
    }
    p->s->seen.pushed_bytes += p->pushing;
    FAULT("task.acked");
    HISTORY("acked", "job=%llu closure=%llu step=%u shard=%u incarnation=%llu",
            (unsigned long long)p->s->o.job, (unsigned long long)ps_closure(p),
            p->step.step, p->number, (unsigned long long)a->incarnation);
    ps_shard_add_figures(p, a);
    p->counted_new = a->result != WIRE_PUSH_DUPLICATE;
    p->counted_step = p->step.step;
    // Y3. Of a stream an earlier push may be held still when this one is a
    // repeat (L8).
    p->contribution_held = a->result == WIRE_PUSH_HELD ||
                           (a->result == WIRE_PUSH_DUPLICATE &&
                            p->step.first != NULL && p->contribution_held);
    p->round_closed =
        p->s->o.contributions > 0 && a->result == WIRE_PUSH_COUNTED;
    if (!p->contribution_held)
        ps_shard_note_params(p, a);
    if (p->s->o.by_range || p->s->o.coded != NULL ||
        (p->contribution_held && p->step.newer))
        p->have_params = false; // a bare push brings no parameters
    ps_shard_rest(p);
}

static void absorb(struct ps_shard *p)
{
    const struct ps_answer *a = &p->shared.answer;

    if (a->rc == SL_OK)
        p->s->seen.pulled_bytes += a->values_bytes;
    peer_copy_kept(&p->peer, p->target);
    peer_ended(&p->peer,
               a->rc == SL_OK && a->refused.why != WIRE_REFUSED_REGION);
    if (p->want == PS_NEXT) {
        came(p, a);
        return;
    }
    if (p->want == PS_ROWS && !p->s->asked) { // it was given up
        ps_shard_rest(p);
        return;
    }
    if (a->rc != SL_OK) {
        failed_call(p, a);
        return;
    }
    pulse_beat(&p->s->closure.gate->pulse);
    switch (p->want) {
    case PS_ASK:
        ps_shard_on_asked(p, a);
        return;
    case PS_PULL:
        pulled(p, a);
        return;
    case PS_PUSH:
        pushed(p, a);
        return;
    case PS_ROWS:
        rows_came(p, a);
        return;
    case PS_CUT:
    case PS_MOMENTS:
    case PS_NEXT:
    case PS_NOTHING:
        ps_shard_rest(p);
        return;
    }
}

void ps_absorb_locked(struct sync_ps *s)
{
    for (uint32_t i = 0; i < s->lanes; i++) {
        struct ps_shard *p = &s->shards[i];

        if (!p->calling || !p->shared.answered || p->shared.read)
            continue;
        p->shared.answered = false;
        ps_move(p, p->want, false);
        absorb(p);
        // The map may have named another incarnation meanwhile.
        if (p->want == PS_NOTHING && i == p->number && s->map.entries != NULL &&
            !evidence_map(&p->evidence, s->map.entries[i].incarnation))
            ps_shard_forget(p);
    }
}

void ps_adopt_locked(struct sync_ps *s)
{
    if (!s->shared.has_newer)
        return;
    s->shared.has_newer = false;
    sl_free(s->map.entries);
    s->map = s->shared.newer;
    s->moved = true;
    s->shared.newer.entries = NULL;
    for (uint32_t i = 0; i < s->lanes; i++) {
        struct ps_shard *p = &s->shards[i];
        uint64_t incarnation = s->map.entries[p->number].incarnation;

        p->due_ms = 0; // ends the pause: the shard may be elsewhere now
        if (p->want == PS_CUT || p->want == PS_MOMENTS || p->want == PS_NEXT ||
            p->want == PS_ROWS || p->calling)
            continue; // its answer tells, or it is cancelled
        if (!evidence_map(&p->evidence, incarnation))
            ps_shard_forget(p);
    }
    s->map_wanted = false;
}
