// SPDX-License-Identifier: Apache-2.0
// psserver/service/exchange.c -- the payloads of one call: from the wire or
// from shared memory, and the answer's way back.
#include "psserver/service/exchange.h"

#include "common/base/fault.h"
#include "state/shard/copyin.h"

static enum sl_err take_bytes(struct shard *shard, size_t bytes,
                              struct pool_buf **out, struct sl_error *err)
{
    enum sl_err rc = pool_take(shard->pool, bytes, out);

    if (rc == SL_EBUSY)
        return sl_fail(err, rc,
                       "%d answers with parameters are on their way from one "
                       "shard; try again later",
                       POOL_MAX);
    return rc;
}

static enum sl_err take_buf(struct shard *shard, enum wire_type type,
                            struct pool_buf **out, struct sl_error *err)
{
    return take_bytes(shard, plan_wire_bytes(&shard->plan, type), out, err);
}

// Copies a gradient out of shared memory, which is ours to read until the
// answer and no longer. The shard refuses one that is not finite, in its order,
// from the copy.
static enum sl_err copy_gradient(struct exchange *x, struct local *local,
                                 struct shard *shard, struct wire_push *m,
                                 struct sl_error *err)
{
    size_t n = shard->plan.elements, bytes = wire_shm_bytes(m->wire, n);
    struct local_use from = {NULL, NULL};
    enum sl_err rc = local_take(local, &m->shm, &from, err);

    if (rc != SL_OK)
        return rc;
    if (m->shm.bytes != bytes)
        rc = sl_fail(err, SL_EINVAL,
                     "shm: %llu bytes, but shard %u of the job has %zu in %s",
                     (unsigned long long)m->shm.bytes, m->shard, bytes,
                     wire_type_names[m->wire]);
    else
        rc = take_buf(shard, m->wire, &x->copy, err);
    if (rc == SL_OK) {
        x->finite = copyin_finite(m->wire, x->copy->memory.data, from.at, n);
        FAULT("shm.copied");
        x->copied = (struct sl_slice){x->copy->memory.data,
                                      n * wire_type_bytes(m->wire)};
        m->payload = slices_one(&x->copied);
    }
    local_give(&from);
    return rc;
}

// Takes the caller's memory for the answer; returns false if `want` is NULL,
// not mapped, or of the wrong size.
static bool exchange_take_answer(struct exchange *x, struct local *local,
                                 struct shard *shard, enum wire_type type,
                                 const struct wire_shm *want)
{
    if (want == NULL ||
        want->bytes != wire_shm_bytes(type, shard->plan.elements) ||
        local_take(local, want, &x->answer, NULL) != SL_OK)
        return false;
    x->values = x->answer.at;
    return true;
}

// Takes room for the parameters that a push makes.
static enum sl_err take_local(struct exchange *x, struct local *local,
                              struct shard *shard, const struct wire_push *m,
                              struct sl_error *err)
{
    enum sl_err rc;

    if (exchange_take_answer(x, local, shard, m->wire,
                             m->has_answer ? &m->answer : NULL))
        return SL_OK;
    rc = take_buf(shard, m->wire, &x->reply, err);
    if (rc == SL_OK)
        x->values = x->reply->memory.data;
    return rc;
}

enum sl_err exchange_push(struct exchange *x, struct local *local,
                          struct shard *shard, struct wire_push *m, bool fresh,
                          struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (fresh && m->wire >= WIRE_TYPES)
        return sl_fail(err, SL_EINVAL,
                       "PushPull: parameters are not sent in %s; take Push, "
                       "then Pull",
                       wire_type_names[m->wire]);
    if (m->has_shm)
        rc = copy_gradient(x, local, shard, m, err);
    if (rc == SL_OK && fresh)
        rc = take_local(x, local, shard, m, err);
    return rc;
}

// Takes what changed; leaves x->reply NULL if the whole parameters are needed.
static enum sl_err exchange_pull_change(struct exchange *x, struct shard *shard,
                                        const struct wire_pull *m,
                                        struct wire_pull_reply *reply,
                                        struct sl_error *err)
{
    enum sl_err rc = take_bytes(shard, coded_bytes(&shard->plan.coded, m->wire),
                                &x->reply, err);

    if (rc == SL_OK)
        rc = shard_pull_change(shard, m, reply, x->reply->memory.data,
                               &x->bytes, err);
    if (rc != SL_OK || reply->wire == m->wire)
        return rc;
    pool_give(x->reply);
    x->reply = NULL;
    return SL_OK;
}

static enum sl_err exchange_pull_whole(struct exchange *x, struct local *local,
                                       struct shard *shard,
                                       const struct wire_pull *m,
                                       struct wire_pull_reply *reply,
                                       struct sl_error *err)
{
    enum sl_err rc;

    x->bytes = plan_wire_bytes(&shard->plan, m->wire);
    if (exchange_take_answer(x, local, shard, m->wire,
                             m->has_answer ? &m->answer : NULL))
        return shard_pull(shard, m, reply, x->values, err);
    rc = shard_pull_shown(shard, m, reply, &x->reply, err);
    if (rc != SL_OK || x->reply != NULL)
        return rc;
    rc = take_buf(shard, m->wire, &x->reply, err);
    if (rc == SL_OK)
        rc = shard_pull_show(shard, m, reply, x->reply, err);
    return rc;
}

enum sl_err exchange_pull(struct exchange *x, struct local *local,
                          struct shard *shard, const struct wire_pull *m,
                          struct wire_pull_reply *reply, struct sl_error *err)
{
    struct wire_pull whole = *m;
    enum sl_err rc;

    if (m->wire < WIRE_TYPES)
        return exchange_pull_whole(x, local, shard, m, reply, err);
    rc = exchange_pull_change(x, shard, m, reply, err);
    if (rc != SL_OK || x->reply != NULL)
        return rc;
    whole.wire = WIRE_F32;
    return exchange_pull_whole(x, local, shard, &whole, reply, err);
}

static void exchange_release_reply(void *buf)
{
    pool_give(buf);
}

void exchange_reply(struct exchange *x, struct rpc_msg *msg, size_t bytes)
{
    if (x->reply == NULL)
        return;
    if (bytes > 0)
        rpc_msg_part(msg, x->reply->memory.data, bytes);
    rpc_msg_on_release(msg, exchange_release_reply, x->reply);
    x->reply = NULL;
}

void exchange_end(struct exchange *x)
{
    pool_give(x->copy);
    pool_give(x->reply);
    local_give(&x->answer);
}
