// SPDX-License-Identifier: Apache-2.0
// trainer/push/peer.c -- the choice of how each call to a psserver travels.
#include "trainer/push/peer.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "kernels/cast.h"
#include "state/base/element.h"
#include "trainer/sum/add.h"

#define ASK_DEADLINE_MS 5000
#define DATA_DEADLINE_MS 15000
#define SMALL_REPLY_BYTES ((size_t)32 << 10)

void peer_init(struct peer *p, struct peers *peers, enum wire_type type,
               size_t count, void *narrow)
{
    *p = (struct peer){
        .peers = peers, .type = type, .count = count, .narrow = narrow};
}

static void disconnect(struct peer *p)
{
    if (p->buffer != NULL)
        peer_shm_give(p->shm, p->buffer, true);
    p->buffer = NULL;
    p->shm = NULL;
    peers_put(p->peers, p->channel);
    p->channel = NULL;
}

void peer_release(struct peer *p)
{
    disconnect(p);
    sl_free(p->spare);
    p->spare = NULL;
}

bool peer_is_at(const struct peer *p, const char *address)
{
    return p->channel != NULL &&
           strcmp(rpc_channel_address(p->channel), address) == 0;
}

// Looks for shared memory between two calls, so that the next one finds it.
// Not before a call: nothing but the message may lie between a gradient and the
// wire.
static void peer_check_shm(struct peer *p)
{
    if (p->shm != NULL)
        peer_shm_look(p->shm);
}

enum sl_err peer_connect(struct peer *p, const char *address)
{
    struct rpc_channel *channel = NULL;
    struct peer_shm *shm = NULL;
    enum sl_err rc;

    if (peer_is_at(p, address))
        return SL_OK;
    rc = peers_get(p->peers, address, &channel, &shm, NULL);
    if (rc != SL_OK)
        return rc;
    disconnect(p);
    p->channel = channel;
    p->shm = shm;
    p->worth = peers_worth(p->peers, p->count * wire_type_bytes(p->type));
    peer_check_shm(p);
    return SL_OK;
}

// ---- calls

// Returns true if the answer fits a packet, as far as we know.
static bool reply_is_small(const struct peer *p)
{
    return p->named || p->count * sizeof(float) <= SMALL_REPLY_BYTES;
}

static void peer_start_call(struct peer *p, const char *method,
                            struct rpc_msg *msg,
                            const struct rpc_call_options *options,
                            const struct peer_call *call)
{
    rpc_call_start(p->channel, method, msg, options, call->done, call->arg,
                   &p->ticket);
}

enum sl_err peer_ask(struct peer *p, const struct wire_ask *m,
                     const struct peer_call *call)
{
    const struct rpc_call_options options = {
        .deadline_ms = ASK_DEADLINE_MS,
        .max_reply_bytes = RPC_CONTROL_BYTES,
        .small = true,
    };
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    p->named = false;
    rc = wire_head_ask(&msg, m);
    if (rc != SL_OK)
        rpc_msg_drop(&msg);
    else
        peer_start_call(p, WIRE_ASK, &msg, &options, call);
    return rc;
}

// Returns true if the call that is made now refers to shared memory. If there
// is none now, it sends bytes.
static bool names_buffer(struct peer *p)
{
    if (p->shm == NULL || !p->worth || p->by_bytes || p->coded)
        return false;
    if (p->buffer == NULL)
        p->buffer = peer_shm_take(p->shm, wire_shm_bytes(p->type, p->count));
    return p->buffer != NULL;
}

static struct wire_shm gradient_in(const struct shm_buffer *b)
{
    return (struct wire_shm){.region = b->region, .bytes = b->bytes};
}

static struct wire_shm values_in(const struct shm_buffer *b)
{
    return (struct wire_shm){
        .region = b->region, .offset = b->half, .bytes = b->bytes};
}

enum sl_err peer_pull(struct peer *p, struct wire_pull *m,
                      const struct peer_call *call)
{
    struct rpc_call_options options = {
        .deadline_ms = DATA_DEADLINE_MS,
        .max_reply_bytes = RPC_DATA_BYTES,
    };
    struct rpc_msg msg;
    enum sl_err rc;

    m->has_answer = p->named = !m->has_tag && !m->moments && names_buffer(p);
    if (!m->has_tag && m->wire < WIRE_TYPES)
        m->wire = p->type;
    if (p->named)
        m->answer = values_in(p->buffer);
    options.small = reply_is_small(p);
    rpc_msg_init(&msg);
    rc = wire_head_pull(&msg, m, 0);
    if (rc != SL_OK)
        rpc_msg_drop(&msg);
    else
        peer_start_call(p, WIRE_PULL, &msg, &options, call);
    return rc;
}

enum sl_err peer_pull_rows(struct peer *p, struct wire_pull *m,
                           const struct peer_ids *ids,
                           const struct peer_call *call)
{
    const struct rpc_call_options options = {
        .deadline_ms = DATA_DEADLINE_MS,
        .max_reply_bytes = RPC_DATA_BYTES,
        .small = ids->reply_bytes <= SMALL_REPLY_BYTES,
    };
    struct rpc_msg msg;
    enum sl_err rc;

    p->named = false;
    rpc_msg_init(&msg);
    rc = wire_head_pull(&msg, m, ids->bytes);
    if (rc != SL_OK) {
        rpc_msg_drop(&msg);
        return rc;
    }
    rpc_msg_part(&msg, ids->blocks, ids->bytes);
    rpc_msg_on_release(&msg, call->released, call->arg);
    peer_start_call(p, WIRE_PULL, &msg, &options, call);
    return SL_OK;
}

// Copies the gradient to shared memory, so that no call refers to the caller's:
// however the call ends, the caller may write to its vector then.
static void name_buffer(struct peer *p, struct wire_push *m,
                        const float *gradient)
{
    m->has_shm = gradient != NULL;
    m->has_answer = true;
    if (m->has_shm) {
        cast_narrow(element_dtype(p->type), p->count, gradient,
                    p->buffer->memory.at);
        m->shm = gradient_in(p->buffer);
    }
    m->answer = values_in(p->buffer);
    FAULT("shm.named");
}

// Returns what is sent as bytes: the gradient itself, or its rounded copy,
// which the transport may still be reading for an earlier call of this step.
static const void *as_sent(struct peer *p, const float *gradient)
{
    if (p->type == WIRE_F32)
        return gradient;
    if (!p->narrowed)
        cast_narrow(element_dtype(p->type), p->count, gradient, p->narrow);
    p->narrowed = true;
    return p->narrow;
}

enum sl_err peer_push(struct peer *p, struct wire_push *m,
                      const float *gradient, struct peer_call *call)
{
    struct rpc_call_options options = {
        .deadline_ms = DATA_DEADLINE_MS,
        .max_reply_bytes = RPC_DATA_BYTES,
        .turn = call->turn,
    };
    size_t bytes = 0;
    struct rpc_msg msg;
    enum sl_err rc;

    m->wire = call->coded_bytes > 0 ? call->coded_as : p->type;
    p->named = names_buffer(p);
    if (call->coded_bytes > 0)
        bytes = call->coded_bytes;
    else if (p->named)
        name_buffer(p, m, gradient);
    else if (gradient != NULL)
        bytes = p->count * wire_type_bytes(p->type);
    options.small = call->bare || reply_is_small(p);
    rpc_msg_init(&msg);
    m->rows_bytes = call->rows_bytes;
    rc = wire_head_push(&msg, m, bytes + call->rows_bytes);
    if (rc != SL_OK) {
        rpc_msg_drop(&msg);
        return rc;
    }
    if (bytes > 0)
        rpc_msg_part(&msg,
                     call->coded_bytes > 0 ? call->coded : as_sent(p, gradient),
                     bytes);
    if (call->rows_bytes > 0)
        rpc_msg_part(&msg, call->rows, call->rows_bytes);
    call->lent = bytes + call->rows_bytes > 0;
    if (call->lent)
        rpc_msg_on_release(&msg, call->released, call->arg);
    FAULT("task.push");
    peer_start_call(p, call->bare ? WIRE_PUSH : WIRE_PUSH_PULL, &msg, &options,
                    call);
    return SL_OK;
}

void peer_next_gradient(struct peer *p)
{
    p->narrowed = false;
}

void peer_cancel(struct peer *p)
{
    rpc_cancel(p->channel, p->ticket);
}

void peer_break(struct peer *p)
{
    rpc_channel_break(p->channel);
}

void peer_ended(struct peer *p, bool answered)
{
    peer_check_shm(p);
    if (!p->named)
        return;
    p->named = false;
    if (answered)
        return;
    peer_shm_give(p->shm, p->buffer, false);
    p->buffer = NULL;
}

bool peer_send_bytes(struct peer *p)
{
    bool news = !p->by_bytes;

    p->by_bytes = true;
    return news;
}

void peer_rest(struct peer *p)
{
    p->by_bytes = false;
}

bool peer_shares(const struct peer *p)
{
    return p->buffer != NULL && !p->by_bytes;
}

// ---- the parameters of an answer

// A psserver may always answer with f32 in a message, but in shared memory only
// with the type that was asked for.
enum sl_err peer_fits(const struct peer *p, const struct peer_values *v,
                      bool by_tag, struct sl_error *err)
{
    size_t bytes = p->count * wire_type_bytes(v->type);
    bool asked = !by_tag && v->type == p->type;

    if (v->in_shm
            ? p->named && asked
            : v->payload->bytes == bytes && (asked || v->type == WIRE_F32))
        return SL_OK;
    return sl_fail(err, SL_ECORRUPT, "%zu bytes of parameters in %s, not %zu",
                   v->payload->bytes, wire_type_names[v->type], bytes);
}

void peer_copy(struct peer *p, const struct peer_values *v, float *to)
{
    if (v->in_shm)
        cast_widen(element_dtype(v->type), p->count,
                   p->buffer->memory.at + p->buffer->half, to);
    else
        add_copy(to, v->type, v->payload);
}

enum sl_err peer_keep(struct peer *p, const struct peer_values *v)
{
    if (!v->in_shm && p->spare == NULL)
        // The widest type is f32.
        p->spare = sl_malloc_array(p->count, sizeof(float));
    if (!v->in_shm && p->spare == NULL)
        return SL_ENOMEM;
    if (!v->in_shm)
        slices_copy(p->spare, v->payload);
    p->kept = true;
    p->kept_in_shm = v->in_shm;
    p->kept_type = v->type;
    return SL_OK;
}

void peer_copy_kept(struct peer *p, float *to)
{
    const void *from = p->spare;

    if (!p->kept)
        return;
    if (p->kept_in_shm)
        from = p->buffer->memory.at + p->buffer->half;
    cast_widen(element_dtype(p->kept_type), p->count, from, to);
    p->kept = false;
}
