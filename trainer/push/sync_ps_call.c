// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync_ps_call.c -- the calls of one shard, out and back.
//
// Runs on the compute thread (out) and on I/O threads (back). Nothing here
// calls the peer with our lock held: a release function may run inside such a
// call and takes the lock.
#include <assert.h>
#include <string.h>

#include "common/base/fault.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/base/element.h"
#include "trainer/push/sync_ps_inner.h"
#include "trainer/sum/add.h"

#define PAUSE_FIRST_MS 10
#define PAUSE_MOST_MS 1000
#define STALE_REFUSALS_MOST 3

// (want, calling) is at rest, wanted or in flight. A wanted call may give way
// to another one before it is started.
void ps_move(struct ps_shard *p, enum ps_want want, bool calling)
{
    bool starts = !p->calling && calling;
    bool ends = p->calling && !calling;

    assert(!calling || want != PS_NOTHING);
    assert((!starts && !ends) || want == p->want);
    assert(!(p->calling && calling));
    p->want = want;
    p->calling = calling;
}

// ---- answers, on an I/O thread

void ps_stir_locked(struct sync_ps *s)
{
    s->shared.stirred = true;
    pthread_cond_signal(&s->shared.changed);
}

static bool still_read(struct ps_shard *p)
{
    bool read;

    pthread_mutex_lock(&p->s->shared.lock);
    read = p->shared.read;
    pthread_mutex_unlock(&p->s->shared.lock);
    return read;
}

// Copies the parameters of an answer to the target, or keeps them aside while
// the old ones are read.
static enum sl_err take_values(struct ps_shard *p, const struct peer_values *v,
                               struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = peer_fits(&p->peer, v, p->want == PS_CUT, &why);

    p->shared.answer.values_bytes =
        v->in_shm ? p->count * wire_type_bytes(v->type) : v->payload->bytes;
    if (rc != SL_OK)
        return sl_fail(err, rc, "shard %u answers with %s", p->number,
                       why.text);
    if (v->in_shm)
        FAULT("shm.answered");
    if (!still_read(p))
        peer_copy(&p->peer, v, p->target);
    else if (peer_keep(&p->peer, v) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "shard %u: no memory for parameters",
                       p->number);
    return SL_OK;
}

// Adds what changed to the parameters that the shard knows us to have.
static enum sl_err take_change(struct ps_shard *p,
                               const struct wire_pull_reply *m,
                               struct sl_error *err)
{
    const struct coded *form = p->s->o.coded;
    bool same = m->payload.bytes == 0;
    enum sl_err rc = SL_OK;

    p->shared.answer.values_bytes = m->payload.bytes;
    if (form == NULL || p->has.asked == 0 || m->wire != p->s->o.down ||
        m->version + same != p->has.asked)
        return sl_fail(err, SL_ECORRUPT,
                       "shard %u answers with a change to version %llu in %s, "
                       "which was not asked for",
                       p->number, (unsigned long long)m->version,
                       wire_type_names[m->wire]);
    form += p->number;
    if (!same)
        rc = coded_check(form, m->wire, &m->payload, err);
    if (rc != SL_OK)
        return sl_prefix(err, SL_ECORRUPT, "shard %u", p->number);
    if (!same)
        coded_apply(form, m->wire, &m->payload, p->target);
    p->has.version = m->version + 1;
    return SL_OK;
}

// Takes the parameters of a pull. What comes in full replaces what the shard
// knew us to have, unless it is of a snapshot or kept aside.
static enum sl_err take_pulled(struct ps_shard *p,
                               const struct wire_pull_reply *m,
                               struct sl_error *err)
{
    const struct peer_values v = {m->in_shm, m->wire, &m->payload};
    enum sl_err rc;

    if (m->wire >= WIRE_TYPES)
        return take_change(p, m, err);
    rc = take_values(p, &v, err);
    if (rc == SL_OK && p->want != PS_CUT) {
        p->has.incarnation = m->incarnation;
        p->has.version = p->peer.kept ? 0 : m->version + 1;
    }
    return rc;
}

static enum sl_err read_push(struct ps_shard *p, const struct sl_slices *bytes,
                             struct ps_answer *a)
{
    struct wire_push_reply m;
    enum sl_err rc = wire_read_push_reply(&m, bytes, &a->err);

    if (rc != SL_OK)
        return rc;
    a->incarnation = m.incarnation;
    a->version = m.version;
    a->open_first = m.open_first;
    a->open_count = m.open_count;
    a->staleness = m.staleness;
    a->result = m.result;
    a->refused = m.refused;
    if (m.result == WIRE_PUSH_REFUSED || m.result == WIRE_PUSH_HELD ||
        p->s->o.by_range || p->s->o.coded != NULL)
        return SL_OK;
    return take_values(p, &(struct peer_values){m.in_shm, m.wire, &m.payload},
                       &a->err);
}

static uint32_t rows_of_range(const struct sync_rows_table *t, uint32_t range)
{
    return t->first[range + 1] - t->first[range];
}

// Returns the bytes of a shard's answer.
static size_t rows_bytes(const struct ps_shard *p)
{
    const struct sync_rows *r = &p->s->rows;
    size_t bytes = 0;

    for (uint32_t i = 0; i < r->count; i++)
        bytes += table_rows_elements_bytes(
            rows_of_range(&r->tables[i], p->number), r->tables[i].dim, r->type);
    return bytes;
}

// Reads rows of one byte an element, which may be cut anywhere.
static void take_int8(float *to, uint32_t dim, const struct sl_slices *rows)
{
    uint8_t row[sizeof(float) + TABLE_DIM_MOST];
    struct slices_cursor at;

    slices_cursor_init(&at, rows);
    for (; slices_take(&at, row, table_rows_row_bytes(dim, WIRE_INT8)) == SL_OK;
         to += dim)
        element_read_row(WIRE_INT8, dim, to, row);
}

// Copies the rows of an answer to their places.
static enum sl_err take_rows(struct ps_shard *p,
                             const struct wire_pull_reply *m,
                             struct sl_error *err)
{
    const struct sync_rows *r = &p->s->rows;
    struct sl_slices rows;
    size_t at = 0;

    if (m->in_shm || m->payload.bytes != rows_bytes(p))
        return sl_fail(err, SL_ECORRUPT,
                       "shard %u answers with %zu bytes of rows, not %zu in %s",
                       p->number, m->payload.bytes, rows_bytes(p),
                       wire_type_names[r->type]);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct sync_rows_table *t = &r->tables[i];
        float *to = t->values + (size_t)t->first[p->number] * t->dim;
        uint32_t n = rows_of_range(t, p->number);

        if (n == 0)
            continue;
        (void)slices_sub(&rows, &m->payload, at,
                         n * table_rows_row_bytes(t->dim, r->type));
        if (r->type == WIRE_INT8)
            take_int8(to, t->dim, &rows);
        else
            add_copy(to, r->type, &rows);
        at += table_rows_elements_bytes(n, t->dim, r->type);
    }
    return SL_OK;
}

// Copies the moments of an answer, which may have none, to their places.
static enum sl_err take_moments(struct ps_shard *p,
                                const struct wire_pull_reply *m,
                                struct sl_error *err)
{
    const struct sync_moments *to = &p->s->moments;
    size_t each = p->count * wire_type_bytes(to->wire);
    struct sl_slices vector;

    p->shared.answer.moments_t = m->moments_t;
    p->shared.answer.values_bytes = m->payload.bytes;
    if (m->payload.bytes != (m->moments_t > 0 ? to->vectors * each : 0) ||
        (m->moments_t > 0 && m->wire != to->wire))
        return sl_fail(err, SL_ECORRUPT,
                       "shard %u answers with %zu bytes of moments in %s, not "
                       "%u vectors of %zu in %s",
                       p->number, m->payload.bytes, wire_type_names[m->wire],
                       to->vectors, each, wire_type_names[to->wire]);
    for (unsigned k = 0; m->moments_t > 0 && k < to->vectors; k++) {
        (void)slices_sub(&vector, &m->payload, k * each, each);
        add_copy(to->to + k * to->elements + p->first, to->wire, &vector);
    }
    return SL_OK;
}

static enum sl_err read_pull(struct ps_shard *p, const struct sl_slices *bytes,
                             struct ps_answer *a)
{
    struct wire_pull_reply m;
    enum sl_err rc = wire_read_pull_reply(&m, bytes, &a->err);

    if (rc != SL_OK)
        return rc;
    a->incarnation = m.incarnation;
    a->version = m.version;
    a->open_first = m.open_first;
    a->open_count = m.open_count;
    if (p->want == PS_ROWS)
        return take_rows(p, &m, &a->err);
    if (p->want == PS_MOMENTS)
        return take_moments(p, &m, &a->err);
    FAULT("task.pull_part");
    return take_pulled(p, &m, &a->err);
}

static enum sl_err read_ask(const struct sl_slices *bytes, struct ps_answer *a)
{
    struct wire_ask_reply m;
    enum sl_err rc = wire_read_ask_reply(&m, bytes, &a->err);

    if (rc != SL_OK)
        return rc;
    a->incarnation = m.incarnation;
    a->version = m.version;
    a->refused = m.refused;
    a->counted_bytes = m.counted_bytes;
    memcpy(a->counted, m.counted, m.counted_bytes);
    return SL_OK;
}

static const char *const names[] = {
    [PS_ASK] = "ask",      [PS_PULL] = "pull", [PS_PUSH] = "push",
    [PS_CUT] = "pull",     [PS_NEXT] = "pull", [PS_ROWS] = "pull",
    [PS_MOMENTS] = "pull",
};

// Takes an answer. Until `answered` is set, the compute thread leaves this
// shard's range and answer alone; so only that flag is set under the lock.
static void ps_call_done(void *arg, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *reply)
{
    struct ps_shard *p = arg;
    struct ps_answer *a = &p->shared.answer;

    a->rc = code;
    a->refused.why = WIRE_REFUSED_NOT;
    a->values_bytes = 0;
    if (code != SL_OK && err != NULL)
        a->err = *err;
    else if (code == SL_OK && p->want == PS_ASK)
        a->rc = read_ask(reply, a);
    else if (code == SL_OK && p->want == PS_PUSH)
        a->rc = read_push(p, reply, a);
    else if (code == SL_OK)
        a->rc = read_pull(p, reply, a);
    span_end(p->span.began, names[p->want], SPANS_CALL, p->span.of);

    pthread_mutex_lock(&p->s->shared.lock);
    p->shared.answered = true;
    ps_stir_locked(p->s);
    pthread_mutex_unlock(&p->s->shared.lock);
}

static void ps_call_lend(struct ps_shard *p)
{
    pthread_mutex_lock(&p->s->shared.lock);
    p->shared.lent++;
    pthread_mutex_unlock(&p->s->shared.lock);
}

static void released(void *arg)
{
    struct ps_shard *p = arg;

    pthread_mutex_lock(&p->s->shared.lock);
    p->shared.lent--;
    ps_stir_locked(p->s);
    pthread_mutex_unlock(&p->s->shared.lock);
}

// ---- calls, on the compute thread

static enum sl_err ps_call_ask(struct ps_shard *p, const struct peer_call *call)
{
    const struct sync_ps *s = p->s;
    const struct wire_ask m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .token = s->o.token,
        .incarnation = s->closure.incarnation != 0
                           ? s->closure.incarnation
                           : s->map.entries[p->number].incarnation,
        .closure = s->closure.closure,
        .attempt = s->closure.attempt,
        .proof = s->closure.proof,
        .shard = s->o.first_shard + p->number,
    };

    return peer_ask(&p->peer, &m, call);
}

// Returns a pull from the shard: of its present state, or of that of its tag.
static struct wire_pull ps_pull_of(const struct ps_shard *p, bool has_tag)
{
    const struct sync_ps *s = p->s;
    struct wire_pull m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .token = s->o.token,
        .shard = s->o.first_shard + p->number,
        .has_tag = has_tag,
    };

    if (has_tag)
        m.tag = p->tag;
    else
        m.incarnation = s->map.entries[p->number].incarnation;
    return m;
}

static enum sl_err ps_call_pull(struct ps_shard *p,
                                const struct peer_call *call)
{
    const struct sync_ps *s = p->s;
    struct wire_pull m = ps_pull_of(p, p->want == PS_CUT);

    if (p->want == PS_NEXT)
        m.after_round_of = p->waits_for + 1;
    else if (!m.has_tag && s->o.contributions > 0)
        m.before_round_of = s->closure.closure + 1;
    if (!m.has_tag && s->o.coded != NULL) {
        m.wire = s->o.down;
        if (p->has.incarnation == m.incarnation)
            m.have = p->has.version;
    }
    p->has.asked = m.have;
    return peer_pull(&p->peer, &m, call);
}

static enum sl_err ps_call_rows(struct ps_shard *p, struct peer_call *call)
{
    const struct sync_ps *s = p->s;
    const struct sync_rows *r = &s->rows;
    const struct sync_rows_ids *ids = &r->ids[p->number];
    struct wire_pull m = ps_pull_of(p, r->tags != NULL);
    enum sl_err rc;

    m.ids_of_tag = m.has_tag;
    m.wire = m.has_tag ? WIRE_F32 : s->o.wire;
    if (!m.has_tag && s->o.contributions > 0)
        m.before_round_of = s->closure.closure + 1; // T8
    ps_call_lend(p);
    rc = peer_pull_rows(
        &p->peer, &m,
        &(struct peer_ids){ids->blocks, ids->bytes, rows_bytes(p)}, call);
    if (rc != SL_OK)
        released(p);
    return rc;
}

static enum sl_err ps_call_moments(struct ps_shard *p,
                                   const struct peer_call *call)
{
    const struct sync_ps *s = p->s;
    struct wire_pull m = ps_pull_of(p, false);

    m.moments = true;
    if (s->o.contributions > 0)
        m.before_round_of = s->moments.closure + 1;
    return peer_pull(&p->peer, &m, call);
}

// Returns true if the step was refused for its delay so often that it is to be
// applied as it is, at a smaller rate: else a slow worker would never have a
// step counted.
static bool ps_call_is_late(const struct ps_shard *p)
{
    return p->stale_times >= STALE_REFUSALS_MOST &&
           p->stale_step == p->step.step;
}

// Returns the bytes of the gradient of a push, as it travels.
static size_t ps_call_gradient_bytes(const struct ps_shard *p,
                                     const struct peer_call *call, bool empty)
{
    if (empty)
        return 0;
    return call->coded != NULL ? call->coded_bytes
                               : p->count * wire_type_bytes(p->s->o.wire);
}

// A lent gradient may be released before peer_push returns, so it counts as
// lent before; no other thread acts on that.
static enum sl_err ps_call_push(struct ps_shard *p, struct peer_call *call)
{
    struct sync_ps *s = p->s;
    struct wire_push m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .token = s->o.token,
        .incarnation = p->evidence.incarnation,
        .closure = s->closure.closure,
        .attempt = s->closure.attempt,
        .based_on = p->based_on,
        .map_version = s->map.version,
        .samples = p->step.samples,
        .digest = p->step.digest,
        .shard = s->o.first_shard + p->number,
        .step = p->step.step,
        .skip = p->skip,
        .late = ps_call_is_late(p),
    };
    bool empty = p->skip || p->step.none;
    enum sl_err rc;

    if (!p->skip)
        m.absent_bytes = p->step.absent_bytes;
    memcpy(m.absent, p->step.absent, m.absent_bytes);
    if (p->step.first != NULL) {
        m.closure = p->step.first->closure;
        m.attempt = p->step.first->attempt;
        m.samples = p->step.first->samples;
        m.digest = p->step.first->digest;
    }
    for (uint32_t i = 0; i < p->step.more_count; i++)
        wire_push_add(&m, &p->step.more[i]);
    if (!p->skip) {
        call->rows = p->step.rows;
        call->rows_bytes = p->step.rows_bytes;
        m.moments_t = p->step.moments_t;
    }
    call->turn = p->step.wanted;
    if (!empty && s->o.coded != NULL) {
        call->coded = p->coded;
        call->coded_bytes = p->coded_bytes;
        call->coded_as = p->coded_as;
    }
    p->pushing = call->rows_bytes + ps_call_gradient_bytes(p, call, empty);
    call->bare = s->o.by_range || s->o.coded != NULL;
    ps_call_lend(p);
    rc = peer_push(&p->peer, &m, empty ? NULL : s->sync.grads + p->first, call);
    if (!call->lent)
        released(p);
    return rc;
}

// Fault points behind the start of a call, which is on its way.
static void sent(const struct ps_shard *p)
{
    if (p->want == PS_PULL)
        FAULT("task.pull_sent");
    else if (p->want == PS_PUSH)
        FAULT("task.push_part"); // the other shards have no push yet
}

static enum sl_err ps_call_start(struct ps_shard *p)
{
    struct peer_call call = {
        .done = ps_call_done, .released = released, .arg = p};

    p->span.began = span_begin();
    p->span.of = span_of_shard(p->s->o.job, p->s->closure.closure, p->step.step,
                               p->number);
    if (p->want != PS_PUSH)
        p->span.of.step = 0;
    if (p->want == PS_ASK)
        return ps_call_ask(p, &call);
    if (p->want == PS_PUSH)
        return ps_call_push(p, &call);
    if (p->want == PS_ROWS)
        return ps_call_rows(p, &call);
    if (p->want == PS_MOMENTS)
        return ps_call_moments(p, &call);
    return ps_call_pull(p, &call);
}

bool ps_start(struct ps_shard *p)
{
    struct sync_ps *s = p->s;

    if (s->map.entries == NULL || s->map.entries[p->number].incarnation == 0 ||
        peer_connect(&p->peer, s->map.entries[p->number].address) != SL_OK) {
        ps_pause(p);
        s->map_wanted = true;
        return false;
    }
    ps_move(p, p->want, true);
    if (ps_call_start(p) != SL_OK) {
        ps_move(p, p->want, false);
        ps_pause(p);
        return false;
    }
    sent(p);
    return true;
}

void ps_cancel(struct ps_shard *p)
{
    if (p->calling)
        peer_cancel(&p->peer);
}

void ps_pause(struct ps_shard *p)
{
    unsigned doublings = p->tries < 7 ? p->tries : 7;
    uint64_t ms = (uint64_t)PAUSE_FIRST_MS << doublings;

    if (ms > PAUSE_MOST_MS)
        ms = PAUSE_MOST_MS;
    p->tries++;
    ms = ms / 2 + rng_below(&p->s->rng, ms + 1);
    p->due_ms = sl_now_ms(p->s->o.clock) + ms;
}
