// SPDX-License-Identifier: Apache-2.0
#include "bench/target.h"

#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "common/base/copy.h"

#define DEADLINE_MS 60000
#define SLOT_ALIGN 64
#define SMALL_BYTES ((size_t)32 << 10)

// Of no effect on the result: small, finite, and not denormal when it is
// multiplied by a learning rate.
#define GRADIENT 1e-3f

static const char *const methods[] = {
    [TARGET_PUSH] = WIRE_PUSH,
    [TARGET_PULL] = WIRE_PULL,
    [TARGET_PUSH_PULL] = WIRE_PUSH_PULL,
    [TARGET_ASK] = WIRE_ASK,
};

static const struct rpc_call_options options = {
    .deadline_ms = DEADLINE_MS,
    .max_reply_bytes = RPC_DATA_BYTES,
    .wait_for_ready = true,
};

// ---- opening

static struct wire_pull pull_of(const struct target *t)
{
    return (struct wire_pull){.job = t->job,
                              .job_incarnation = t->job_incarnation,
                              .shard = t->shard,
                              .incarnation = t->incarnation};
}

static void look(struct target *t)
{
    struct wire_pull pull = pull_of(t);
    struct sl_error err = SL_ERROR_INIT;
    struct wire_pull_reply reply;
    struct rpc_body *body;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    program_must(wire_head_pull(&msg, &pull, 0), NULL, "pull");
    program_must(
        rpc_call_sync(t->channel, WIRE_PULL, &msg, &options, &body, &err), &err,
        "pull");
    program_must(wire_read_pull_reply(&reply, rpc_body_slices(body), &err),
                 &err, "the answer to a pull");
    t->bytes = reply.payload.bytes;
    t->version = reply.version;
    rpc_body_free(body);
}

// One per psserver, as a worker has them: the first of its shards owns it.
static struct rpc_channel *channel_to(const char *address,
                                      const struct rpc_tls *tls,
                                      const struct target *before, size_t count,
                                      struct rpc_io *io)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_channel *made;

    for (size_t i = 0; i < count; i++)
        if (strcmp(rpc_channel_address(before[i].channel), address) == 0)
            return before[i].channel;
    program_must(rpc_channel_new(&made, io, address, tls, NULL, &err), &err,
                 address);
    return made;
}

static void open_one(struct target *t)
{
    float *grad;

    look(t);
    t->grad = program_memory(t->bytes);
    t->values = program_memory(t->bytes);
    grad = (float *)(void *)t->grad;
    for (size_t i = 0; i < t->bytes / sizeof(float); i++)
        grad[i] = GRADIENT;
}

const struct conf_key target_keys[] = {
    {.name = "job", .kind = CONF_INT, .value = "1", .help = "Its number."},
    {.name = "job-incarnation",
     .kind = CONF_INT,
     .value = "1",
     .help = "As `sluice -o json status JOB` tells it."},
    {.name = "shard",
     .kind = CONF_MULTI,
     .help = "Where a shard lies and under which incarnation: "
             "ADDRESS=INCARNATION; all of the job's, in order."},
    {.name = "shm",
     .kind = CONF_CHOICE,
     .value = "off",
     .choices = "off|calls|there|copy",
     .help = "As a worker of the psserver's host: small calls over a socket of "
             "their own; and memory is shared instead of sending bytes, where "
             "the gradient lies already, or is copied to for each call."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = NULL},
};

// ADDRESS=INCARNATION.
static void read_shard(struct target *t, const char *said, char address[300])
{
    const char *cut = strrchr(said, '=');
    char *end = NULL;

    if (cut != NULL && cut - said < 300)
        t->incarnation = strtoull(cut + 1, &end, 10);
    if (end == NULL || end == cut + 1 || *end != '\0')
        program_die("--shard %s: ADDRESS=INCARNATION is wanted", said);
    memcpy(address, said, (size_t)(cut - said));
    address[cut - said] = '\0';
}

size_t targets_open(struct target targets[TARGETS_MAX], struct rpc_io **io,
                    const struct conf *c)
{
    struct rpc_io_options threads = {.threads = 1};
    size_t count = conf_list_count(c, "shard");
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_tls tls;
    char address[300];

    program_must(tls_read_conf(&tls, c, &err), &err, "certificates");
    if (count == 0 || count > TARGETS_MAX)
        program_die("--shard: 1 to %d of them are wanted", TARGETS_MAX);
    program_pin((int)conf_int(c, "cpu"));
    program_must(rpc_io_new(io, &threads, &err), &err, "I/O threads");
    for (size_t i = 0; i < count; i++) {
        targets[i].job = (uint64_t)conf_int(c, "job");
        targets[i].job_incarnation = (uint64_t)conf_int(c, "job-incarnation");
        targets[i].shard = (uint32_t)i;
        read_shard(&targets[i], conf_list_at(c, "shard", i), address);
        targets[i].channel = channel_to(
            address, tls.ca_file != NULL ? &tls : NULL, targets, i, *io);
        open_one(&targets[i]);
    }
    return count;
}

// A slot: a gradient, and room for parameters.
static size_t half_slot(const struct target *t)
{
    return (t->bytes + SLOT_ALIGN - 1) & ~(size_t)(SLOT_ALIGN - 1);
}

void targets_share(struct target *targets, size_t count, size_t slots,
                   const struct conf *c)
{
    const char *how = conf_str(c, "shm");
    bool calls = strcmp(how, "calls") == 0;

    for (size_t i = 0; i < count && strcmp(how, "off") != 0; i++) {
        struct target *t = &targets[i];

        target_shm_open(&t->shm, t->channel,
                        calls ? 0 : slots * 2 * half_slot(t));
        t->copies = strcmp(how, "copy") == 0;
        for (size_t k = 0; k < slots && !calls; k++)
            memcpy(t->shm.memory.at + k * 2 * half_slot(t), t->grad, t->bytes);
    }
}

static bool owns_channel(const struct target *targets, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (targets[k].channel == targets[i].channel)
            return false;
    return true;
}

void targets_close(struct target *targets, size_t count, struct rpc_io *io)
{
    // Backwards: who shares a channel is asked before its owner frees it.
    for (size_t i = count; i-- > 0;) {
        target_shm_close(&targets[i].shm);
        if (owns_channel(targets, i))
            rpc_channel_free(targets[i].channel);
        free(targets[i].grad);
        free(targets[i].values);
    }
    rpc_io_free(io);
}

// ---- calls

static bool shares(const struct target *t)
{
    return t->shm.memory.at != NULL;
}

static struct wire_shm ref_of(const struct target_op *op, bool values)
{
    const struct target *t = op->target;
    size_t half = half_slot(t);

    return (struct wire_shm){.region = t->shm.region,
                             .offset = (2 * op->slot + values) * half,
                             .bytes = t->bytes};
}

static enum sl_err head(struct rpc_msg *msg, const struct target_op *op)
{
    const struct target *t = op->target;
    struct wire_pull pull = pull_of(t);
    struct wire_push push = {.job = t->job,
                             .job_incarnation = t->job_incarnation,
                             .incarnation = t->incarnation,
                             .shard = t->shard,
                             .closure = op->closure,
                             .step = op->step,
                             .attempt = op->attempt,
                             .samples = 1};
    struct wire_ask ask = {.job = t->job,
                           .job_incarnation = t->job_incarnation,
                           .incarnation = t->incarnation,
                           .shard = t->shard,
                           .closure = op->closure,
                           .attempt = op->attempt};

    push.has_shm = push.has_answer = pull.has_answer = shares(t);
    push.shm = ref_of(op, false);
    push.answer = pull.answer = ref_of(op, true);
    push.has_answer &= op->call == TARGET_PUSH_PULL;
    if (op->call == TARGET_PULL)
        return wire_head_pull(msg, &pull, 0);
    if (op->call == TARGET_ASK)
        return wire_head_ask(msg, &ask);
    return wire_head_push(msg, &push, shares(t) ? 0 : t->bytes);
}

static enum sl_err take_values(const struct target_op *op, bool in_shm,
                               const struct sl_slices *values,
                               struct sl_error *err)
{
    struct target *t = op->target;

    if (in_shm) {
        sl_copy(t->values, t->shm.memory.at + ref_of(op, true).offset,
                t->bytes);
        return SL_OK;
    }
    if (values->bytes != t->bytes)
        return sl_fail(err, SL_ECORRUPT, "%zu bytes of parameters, not %zu",
                       values->bytes, t->bytes);
    slices_copy(t->values, values);
    return SL_OK;
}

static enum sl_err read_push(const struct target_op *op,
                             const struct sl_slices *body, struct sl_error *err)
{
    struct wire_push_reply reply;
    enum sl_err rc = wire_read_push_reply(&reply, body, err);

    if (rc != SL_OK)
        return rc;
    if (reply.result != WIRE_PUSH_COUNTED)
        return sl_fail(err, SL_ESTATE,
                       "step %u of closure %llu was not counted: result %d",
                       (unsigned)op->step, (unsigned long long)op->closure,
                       (int)reply.result);
    if (op->call == TARGET_PUSH_PULL)
        return take_values(op, reply.in_shm, &reply.payload, err);
    return SL_OK;
}

static enum sl_err read_answer(const struct target_op *op,
                               const struct sl_slices *body,
                               struct sl_error *err)
{
    struct wire_pull_reply pulled;
    struct wire_ask_reply asked;
    enum sl_err rc;

    switch (op->call) {
    case TARGET_ASK:
        return wire_read_ask_reply(&asked, body, err);
    case TARGET_PULL:
        rc = wire_read_pull_reply(&pulled, body, err);
        return rc == SL_OK
                   ? take_values(op, pulled.in_shm, &pulled.payload, err)
                   : rc;
    default:
        return read_push(op, body, err);
    }
}

static void answered(void *arg, enum sl_err code, const struct sl_error *err,
                     const struct sl_slices *reply)
{
    struct target_op *op = arg;
    struct sl_error mine = SL_ERROR_INIT;

    if (code == SL_OK) {
        code = read_answer(op, reply, &mine);
        err = &mine;
    }
    op->done(op, code, err);
}

// As a worker decides it (trainer/push/sync_ps_call.c).
static bool is_small(const struct target_op *op)
{
    return shares(op->target) || op->target->bytes <= SMALL_BYTES;
}

void target_start(struct target_op *op)
{
    const struct target *t = op->target;
    struct rpc_call_options how = options;
    struct rpc_msg msg;

    bool pushes = op->call == TARGET_PUSH || op->call == TARGET_PUSH_PULL;

    op->began_s = program_now_s();
    if (pushes && t->copies)
        sl_copy(t->shm.memory.at + ref_of(op, false).offset, t->grad, t->bytes);
    rpc_msg_init(&msg);
    program_must(head(&msg, op), NULL, "the head of a message");
    if (pushes && !shares(t))
        rpc_msg_part(&msg, t->grad, t->bytes);
    how.small = is_small(op);
    rpc_call_start(t->channel, methods[op->call], &msg, &how, answered, op,
                   NULL);
}

size_t target_op_bytes(const struct target_op *op)
{
    switch (op->call) {
    case TARGET_ASK:
        return 0;
    case TARGET_PUSH_PULL:
        return 2 * op->target->bytes;
    default:
        return op->target->bytes;
    }
}
