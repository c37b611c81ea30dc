// SPDX-License-Identifier: Apache-2.0
// worker/sync/sync_ps_call.c -- the calls of one shard, out and back.
//
// Runs on the compute thread (out) and on I/O threads (back). Nothing here
// calls the transport with our lock held: a release function may run inside
// such a call and takes the lock.
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "kernels/cast.h"
#include "worker/sync/sync_ps_inner.h"

#define ASK_DEADLINE_MS 5000
#define DATA_DEADLINE_MS 15000
#define SMALL_REPLY_BYTES ((size_t)32 << 10)

static enum kern_dtype dtype_of(enum wire_type type)
{
    return type == WIRE_F32    ? KERN_F32
           : type == WIRE_BF16 ? KERN_BF16
                               : KERN_F16;
}

// From slices that are cut anywhere, also inside an element.
static void widen_slices(float *to, enum wire_type type,
                         const struct sl_slices *payload)
{
    struct slices_runs it;
    const void *run;
    size_t n;

    (void)slices_runs_init(&it, payload, wire_type_bytes(type));
    for (; (run = slices_runs_next(&it, SIZE_MAX, &n)) != NULL; to += n)
        cast_widen(dtype_of(type), n, run, to);
}

static void widen_room(struct ps_shard *p, enum wire_type type)
{
    cast_widen(dtype_of(type), p->count, p->room->memory.at + p->room->half,
               p->target);
}

// For later: what a message holds is gone when its callback returns.
static enum sl_err keep_payload(struct ps_shard *p, bool in_shm,
                                enum wire_type type,
                                const struct sl_slices *payload,
                                struct sl_error *err)
{
    struct ps_answer *a = &p->shared.answer;

    if (!in_shm && p->spare == NULL)
        p->spare = sl_malloc_array(p->count, sizeof(float)); // the widest
    if (!in_shm && p->spare == NULL)
        return sl_fail(err, SL_ENOMEM, "shard %u: no memory for parameters",
                       p->number);
    if (!in_shm)
        slices_copy(p->spare, payload);
    a->kept.any = true;
    a->kept.in_shm = in_shm;
    a->kept.type = type;
    return SL_OK;
}

void ps_take_kept(struct ps_shard *p)
{
    struct ps_answer *a = &p->shared.answer;

    if (!a->kept.any)
        return;
    if (a->kept.in_shm)
        widen_room(p, a->kept.type);
    else
        cast_widen(dtype_of(a->kept.type), p->count, p->spare, p->target);
    a->kept.any = false;
}

static bool still_read(struct ps_shard *p)
{
    bool read;

    pthread_mutex_lock(&p->s->shared.lock);
    read = p->shared.read;
    pthread_mutex_unlock(&p->s->shared.lock);
    return read;
}

// The parameters of an answer: from the message, or from where we asked for
// them. A psserver may always answer with f32, but not in a smaller room.
static enum sl_err take_payload(struct ps_shard *p, bool in_shm,
                                enum wire_type type,
                                const struct sl_slices *payload,
                                struct sl_error *err)
{
    size_t bytes = p->count * wire_type_bytes(type);
    bool asked = p->want != PS_CUT && type == p->s->o.wire;

    if (in_shm ? !p->named || !asked
               : payload->bytes != bytes || !(asked || type == WIRE_F32))
        return sl_fail(err, SL_ECORRUPT,
                       "shard %u answers with %zu bytes of parameters in %s, "
                       "not %zu",
                       p->number, payload->bytes, wire_type_names[type], bytes);
    if (in_shm)
        FAULT("shm.answered");
    if (still_read(p))
        return keep_payload(p, in_shm, type, payload, err);
    if (in_shm)
        widen_room(p, type);
    else
        widen_slices(p->target, type, payload);
    return SL_OK;
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
    a->result = m.result;
    a->refused = m.refused;
    if (m.result == WIRE_PUSH_REFUSED)
        return SL_OK;
    return take_payload(p, m.in_shm, m.wire, &m.payload, &a->err);
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
    FAULT("task.pull_part");
    return take_payload(p, m.in_shm, m.wire, &m.payload, &a->err);
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

// On an I/O thread. Until `answered` is set, the compute thread leaves this
// shard's range and answer alone; so only that is done under the lock.
static void done(void *arg, enum sl_err code, const struct sl_error *err,
                 const struct sl_slices *reply)
{
    struct ps_shard *p = arg;
    struct ps_answer *a = &p->shared.answer;

    a->rc = code;
    a->refused.why = WIRE_REFUSED_NOT;
    if (code != SL_OK && err != NULL)
        a->err = *err;
    else if (code == SL_OK && p->want == PS_ASK)
        a->rc = read_ask(reply, a);
    else if (code == SL_OK && p->want == PS_PUSH)
        a->rc = read_push(p, reply, a);
    else if (code == SL_OK)
        a->rc = read_pull(p, reply, a);

    pthread_mutex_lock(&p->s->shared.lock);
    p->shared.answered = true;
    pthread_cond_signal(&p->s->shared.changed);
    pthread_mutex_unlock(&p->s->shared.lock);
}

static void released(void *arg)
{
    struct ps_shard *p = arg;

    pthread_mutex_lock(&p->s->shared.lock);
    p->shared.referenced = false;
    pthread_cond_signal(&p->s->shared.changed);
    pthread_mutex_unlock(&p->s->shared.lock);
}

static enum sl_err ask_message(struct ps_shard *p, struct rpc_msg *msg)
{
    const struct sync_ps *s = p->s;
    struct wire_ask m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .incarnation = s->map.entries[p->number].incarnation,
        .closure = s->closure.closure,
        .attempt = s->closure.attempt,
        .shard = p->number,
    };

    return wire_head_ask(msg, &m);
}

static struct wire_shm shm_ref(const struct ps_shard *p, bool values)
{
    return (struct wire_shm){.region = p->room->region,
                             .offset = values ? p->room->half : 0,
                             .bytes = p->room->bytes};
}

// Before a call with a payload. Without a room now, this one sends bytes.
static bool has_room(struct ps_shard *p)
{
    if (p->near == NULL || !p->roomy || p->by_bytes)
        return false;
    if (p->room == NULL)
        p->room = near_take(p->near, wire_shm_bytes(p->s->o.wire, p->count));
    return p->room != NULL;
}

static enum sl_err pull_message(struct ps_shard *p, struct rpc_msg *msg)
{
    const struct sync_ps *s = p->s;
    struct wire_pull m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .shard = p->number,
    };

    if (p->want == PS_CUT) {
        m.has_tag = true;
        m.tag = p->tag; // as f32
    } else {
        m.wire = s->o.wire;
        m.incarnation = s->map.entries[p->number].incarnation;
        m.has_answer = p->named = has_room(p);
    }
    if (p->named)
        m.answer = shm_ref(p, true);
    return wire_head_pull(msg, &m);
}

// The gradient is copied, so that nobody refers to ours: whatever becomes of
// the call, it is the compute thread's again when that knows.
static void name_room(struct ps_shard *p, struct wire_push *m)
{
    p->named = true;
    m->has_shm = !p->skip;
    m->has_answer = true;
    if (m->has_shm) {
        cast_narrow(dtype_of(m->wire), p->count, p->s->sync.grads + p->first,
                    p->room->memory.at);
        m->shm = shm_ref(p, false);
    }
    m->answer = shm_ref(p, true);
    FAULT("shm.named");
}

// What is sent as bytes: the gradient itself, or what was made of it. The
// transport may still be reading that for an earlier call of this step.
static const void *wire_gradient(struct ps_shard *p)
{
    const float *grads = p->s->sync.grads + p->first;
    enum wire_type type = p->s->o.wire;
    uint8_t *to = p->s->wire_grads;

    if (type == WIRE_F32)
        return grads;
    to += p->first * wire_type_bytes(type);
    if (!p->rounded)
        cast_narrow(dtype_of(type), p->count, grads, to);
    p->rounded = true;
    return to;
}

static enum sl_err push_message(struct ps_shard *p, struct rpc_msg *msg)
{
    struct sync_ps *s = p->s;
    size_t bytes = p->skip ? 0 : p->count * wire_type_bytes(s->o.wire);
    struct wire_push m = {
        .job = s->o.job,
        .job_incarnation = s->o.job_incarnation,
        .incarnation = p->evidence.incarnation,
        .closure = s->closure.closure,
        .attempt = s->closure.attempt,
        .based_on = p->version,
        .map_version = s->map.version,
        .samples = p->step.samples,
        .digest = p->step.digest,
        .shard = p->number,
        .step = p->step.step,
        .skip = p->skip,
        .wire = s->o.wire,
    };
    enum sl_err rc;

    if (has_room(p)) {
        name_room(p, &m);
        return wire_head_push(msg, &m, 0);
    }
    rc = wire_head_push(msg, &m, bytes);
    if (rc != SL_OK || p->skip)
        return rc;
    // Nobody else looks at `referenced` before the call is started.
    pthread_mutex_lock(&s->shared.lock);
    p->shared.referenced = true;
    pthread_mutex_unlock(&s->shared.lock);
    rpc_msg_part(msg, wire_gradient(p), bytes);
    rpc_msg_on_release(msg, released, p);
    return SL_OK;
}

void ps_disconnect(struct ps_shard *p)
{
    if (p->room != NULL)
        near_give(p->near, p->room, true);
    p->room = NULL;
    p->near = NULL;
    peers_put(p->s->o.peers, p->channel);
    p->channel = NULL;
}

// The channel to where the map says that the shard is.
static enum sl_err connect_to(struct ps_shard *p, const char *address)
{
    struct rpc_channel *channel = NULL;
    enum sl_err rc;

    if (p->channel != NULL &&
        strcmp(rpc_channel_address(p->channel), address) == 0)
        return SL_OK;
    rc = peers_get(p->s->o.peers, address, &channel, NULL);
    if (rc != SL_OK)
        return rc;
    ps_disconnect(p);
    p->channel = channel;
    p->near = peers_near(p->s->o.peers, channel,
                         p->count * wire_type_bytes(p->s->o.wire), &p->roomy);
    return SL_OK;
}

static const struct {
    const char *method;
    int64_t deadline_ms;
    size_t max_reply_bytes;
    enum sl_err (*message)(struct ps_shard *p, struct rpc_msg *msg);
} calls[] = {
    [PS_ASK] = {WIRE_ASK, ASK_DEADLINE_MS, RPC_CONTROL_BYTES, ask_message},
    [PS_PULL] = {WIRE_PULL, DATA_DEADLINE_MS, RPC_DATA_BYTES, pull_message},
    [PS_PUSH] = {WIRE_PUSH_PULL, DATA_DEADLINE_MS, RPC_DATA_BYTES,
                 push_message},
    [PS_CUT] = {WIRE_PULL, DATA_DEADLINE_MS, RPC_DATA_BYTES, pull_message},
};

// What comes back fits a packet, so far as we know.
static bool is_small(const struct ps_shard *p)
{
    return p->want == PS_ASK || p->named ||
           p->count * sizeof(float) <= SMALL_REPLY_BYTES;
}

bool ps_start(struct ps_shard *p)
{
    struct sync_ps *s = p->s;
    struct rpc_call_options options = {
        .deadline_ms = calls[p->want].deadline_ms,
        .max_reply_bytes = calls[p->want].max_reply_bytes,
        .turn = p->want == PS_PUSH ? p->step.wanted : 0,
    };
    struct rpc_msg msg;

    if (s->map.entries == NULL || s->map.entries[p->number].incarnation == 0 ||
        connect_to(p, s->map.entries[p->number].address) != SL_OK) {
        ps_pause(p);
        s->map_wanted = true;
        return false;
    }
    rpc_msg_init(&msg);
    p->named = false;
    if (calls[p->want].message(p, &msg) != SL_OK) {
        rpc_msg_drop(&msg);
        ps_pause(p);
        return false;
    }
    p->calling = true;
    options.small = is_small(p);
    if (p->near != NULL)
        near_look(p->near);
    if (p->want == PS_PUSH)
        FAULT("task.push");
    rpc_call_start(p->channel, calls[p->want].method, &msg, &options, done, p,
                   &p->ticket);
    if (p->want == PS_PULL)
        FAULT("task.pull_sent");
    else if (p->want == PS_PUSH)
        FAULT("task.push_part"); // the other shards have not got theirs
    return true;
}

void ps_cancel(struct ps_shard *p)
{
    if (p->calling)
        rpc_cancel(p->channel, p->ticket);
}
