// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/trainer/fake_ps.h"

#include <math.h>
#include <pthread.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/half.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/base/element.h"
#include "state/shard/coded.h"
#include "tests/harness/t.h"

#define HELD 64
#define LOST 16

struct fake_ps {
    struct fake_ps_options o;
    struct rpc_server *server;
    pthread_mutex_t lock;
    struct fake_shard shard[FAKE_SHARDS];
    struct rng rng;
    unsigned before, after, forget, wide, stale;
    bool ahead; // see fake_ps_ahead
    bool hold;
    struct rpc_call *held[HELD];
    unsigned held_count;
    struct local_use lost[LOST]; // memory of calls without an answer
    size_t lost_bytes[LOST];
    unsigned lost_count;
    struct {
        bool set;
        uint64_t version;
        uint8_t bytes[256];
        size_t n;
    } change;
    unsigned countdown; // pushes until fn; 0: none
    void (*fn)(void *arg);
    void *arg;
};

static bool unlucky(struct fake_ps *f, unsigned of_1000)
{
    return rng_below(&f->rng, 1000) < of_1000;
}

// The call is over if true.
static bool before(struct fake_ps *f, struct rpc_call *call)
{
    if (f->hold && f->held_count < HELD) {
        f->held[f->held_count++] = call;
        return true;
    }
    if (!unlucky(f, f->before))
        return false;
    rpc_answer(call, SL_EUNAVAIL, NULL, NULL);
    return true;
}

static enum wire_refused_why judge(struct fake_ps *f, struct fake_shard *s,
                                   uint64_t job_incarnation,
                                   uint64_t incarnation, uint64_t closure,
                                   struct wire_attempt attempt)
{
    T_ASSERT(closure < FAKE_CLOSURES);
    if (job_incarnation != f->o.job_incarnation)
        return WIRE_REFUSED_JOB_INCARNATION;
    if (incarnation != s->incarnation)
        return WIRE_REFUSED_INCARNATION;
    if (wire_attempt_cmp(attempt, s->newest[closure]) < 0)
        return WIRE_REFUSED_ATTEMPT;
    if (f->ahead)
        return WIRE_REFUSED_ROUND;
    s->newest[closure] = attempt;
    return WIRE_REFUSED_NOT;
}

static void ask_locked(struct fake_ps *f, struct rpc_call *call)
{
    struct wire_ask_reply reply = {.incarnation = 0};
    struct wire_ask ask;
    struct fake_shard *s;
    struct rpc_msg msg;

    T_ASSERT(wire_read_ask(&ask, rpc_call_body(call), NULL) == SL_OK);
    T_ASSERT(ask.shard < f->o.shards && ask.job == f->o.job);
    s = &f->shard[ask.shard];
    reply.refused.why = judge(f, s, ask.job_incarnation, ask.incarnation,
                              ask.closure, ask.attempt);
    reply.refused.newest = s->newest[ask.closure];
    reply.refused.job_incarnation = f->o.job_incarnation;
    reply.incarnation = s->incarnation;
    reply.version = s->version;
    if (reply.refused.why == WIRE_REFUSED_NOT) {
        reply.counted_bytes = FAKE_STEPS / 8;
        for (unsigned i = 0; i < FAKE_STEPS; i++)
            reply.counted[i / 8] |=
                (uint8_t)(s->counted[ask.closure][i] << (i % 8));
    }
    rpc_msg_init(&msg);
    T_ASSERT(wire_head_ask_reply(&msg, &reply) == SL_OK);
    rpc_answer(call, SL_OK, NULL, &msg);
}

// In place: `at` has space for f32s, and the numbers as they came.
static void widen(enum wire_type type, size_t n, float *at)
{
    for (size_t i = n; type != WIRE_F32 && i-- > 0;) {
        uint16_t h;

        memcpy(&h, (uint8_t *)at + 2 * i, 2);
        at[i] = type == WIRE_BF16 ? half_from_bf16(h) : half_from_f16(h);
    }
}

static void narrow(enum wire_type type, size_t n, const float *from, void *to)
{
    if (type == WIRE_F32)
        memcpy(to, from, n * sizeof(float));
    for (size_t i = 0; type != WIRE_F32 && i < n; i++) {
        uint16_t h =
            type == WIRE_BF16 ? half_to_bf16(from[i]) : half_to_f16(from[i]);

        memcpy((uint8_t *)to + 2 * i, &h, 2);
    }
}

static void read_code(const struct fake_shard *s, const struct wire_push *push,
                      float *g)
{
    struct coded form = {NULL, 0};

    T_ASSERT(coded_add(&form, s->count, false) == SL_OK);
    T_ASSERT(coded_check(&form, push->wire, &push->payload, NULL) == SL_OK);
    coded_read(&form, push->wire, &push->payload, g);
    coded_release(&form);
}

static void apply(struct fake_ps *f, struct fake_shard *s,
                  const struct wire_push *push, const void *grad)
{
    float *g = sl_malloc(s->count * sizeof(float));
    double sum = 0;

    s->narrow += push->wire != WIRE_F32;
    if (push->wire >= WIRE_TYPES) {
        read_code(s, push, g);
    } else if (push->has_shm) {
        T_ASSERT(push->shm.bytes == wire_shm_bytes(push->wire, s->count));
        memcpy(g, grad, push->shm.bytes);
        s->shared++;
    } else {
        T_ASSERT(push->payload.bytes == s->count * wire_type_bytes(push->wire));
        slices_copy(g, &push->payload);
    }
    if (push->wire < WIRE_TYPES)
        widen(push->wire, s->count, g);
    for (size_t i = 0; i < s->count; i++) {
        T_ASSERT(isfinite(g[i]));
        sum += (double)g[i] * (double)g[i];
        s->values[i] -= f->o.rate * g[i];
    }
    if (sqrt(sum) > s->largest_norm)
        s->largest_norm = sqrt(sum);
    s->version++;
    s->applied++;
    sl_free(g);
}

// ---- rows

float fake_first(uint32_t table, uint64_t id, uint32_t k)
{
    return (float)(id % 1000) + (float)(100000 * table + 10000 * k);
}

// The row of an id that is this shard's; NULL: it has none.
static struct fake_row *row_of(struct fake_shard *s, uint32_t table,
                               uint64_t id)
{
    for (unsigned i = 0; i < s->rows_count; i++)
        if (s->rows[i].table == table && s->rows[i].id == id)
            return &s->rows[i];
    return NULL;
}

static struct fake_row *row_made(struct fake_ps *f, struct fake_shard *s,
                                 uint32_t table, uint64_t id)
{
    struct fake_row *row = row_of(s, table, id);

    if (row != NULL)
        return row;
    T_ASSERT(s->rows_count < FAKE_ROWS);
    row = &s->rows[s->rows_count++];
    *row = (struct fake_row){.table = table, .id = id};
    for (uint32_t k = 0; k < f->o.dims[table]; k++)
        row->values[k] = fake_first(table, id, k);
    return row;
}

static uint64_t id_at(const struct fake_ps *f, const struct fake_shard *s,
                      const struct table_rows *b, uint32_t i)
{
    uint64_t id, before;

    memcpy(&id, b->ids + (size_t)i * 8, 8);
    T_ASSERT(table_shard(table_bucket(table_hash(id), FAKE_BUCKETS),
                         FAKE_BUCKETS, f->o.shards) == s - f->shard);
    if (i == 0)
        return id;
    memcpy(&before, b->ids + (size_t)(i - 1) * 8, 8);
    T_ASSERT(table_hash(before) < table_hash(id));
    return id;
}

// The bytes of all blocks in one piece, which is the caller's.
static uint8_t *blocks_of(const struct sl_slices *all, struct table_rows_at *at)
{
    uint8_t *bytes = sl_malloc(all->bytes);

    slices_copy(bytes, all);
    *at = (struct table_rows_at){bytes, all->bytes, 0};
    return bytes;
}

static void apply_rows(struct fake_ps *f, struct fake_shard *s,
                       const struct wire_push *push)
{
    float g[FAKE_DIM];
    struct table_rows_at at;
    uint8_t *bytes = blocks_of(&push->rows, &at);

    while (at.left > 0) {
        struct table_rows b;
        size_t row;

        T_ASSERT(table_rows_next(&b, &at, f->o.dims, FAKE_TABLES, true, NULL) ==
                 SL_OK);
        T_ASSERT(b.type == push->wire || b.type == WIRE_INT8);
        row = table_rows_row_bytes(f->o.dims[b.table], b.type);
        for (uint32_t i = 0; i < b.count; i++) {
            struct fake_row *to = row_made(f, s, b.table, id_at(f, s, &b, i));

            element_read_row(b.type, f->o.dims[b.table], g,
                             b.elements + i * row);
            for (uint32_t k = 0; k < f->o.dims[b.table]; k++)
                to->values[k] -= f->o.rate * g[k];
        }
    }
    sl_free(bytes);
}

static void pull_rows_locked(struct fake_ps *f, struct rpc_call *call,
                             const struct wire_pull *pull, struct fake_shard *s)
{
    struct wire_pull_reply reply = {.incarnation = s->incarnation,
                                    .version = s->version,
                                    .wire = pull->wire};
    struct table_rows_at at;
    uint8_t *bytes = blocks_of(&pull->payload, &at);
    uint8_t *out = sl_calloc(FAKE_ROWS, FAKE_DIM * sizeof(float));
    size_t n = 0;
    struct rpc_msg msg;

    s->rows_pulls++;
    s->rows_before = pull->before_round_of;
    while (at.left > 0) {
        float values[FAKE_DIM];
        struct table_rows b;
        uint32_t dim;

        T_ASSERT(table_rows_next(&b, &at, f->o.dims, FAKE_TABLES, false,
                                 NULL) == SL_OK);
        dim = f->o.dims[b.table];
        for (uint32_t i = 0; i < b.count; i++) {
            uint64_t id = id_at(f, s, &b, i);
            const struct fake_row *row = row_of(s, b.table, id);

            for (uint32_t k = 0; k < dim; k++)
                values[k] =
                    row != NULL ? row->values[k] : fake_first(b.table, id, k);
            element_write_rows(b.type, 1, dim,
                               out + n + i * table_rows_row_bytes(dim, b.type),
                               values);
        }
        n += table_rows_elements_bytes(b.count, dim, b.type);
    }
    sl_free(bytes);
    rpc_msg_init(&msg);
    T_ASSERT(wire_head_pull_reply(&msg, &reply, n) == SL_OK);
    rpc_msg_part(&msg, out, n);
    rpc_msg_on_release(&msg, sl_free, out);
    rpc_answer(call, SL_OK, NULL, &msg);
}

// Returns how many closures of a push are counted.
static size_t there(const struct fake_shard *s, const struct wire_push *push)
{
    size_t n = 0;

    for (size_t i = 0; i < wire_push_keys(push); i++)
        n += s->counted[wire_push_key(push, i).closure][push->step];
    return n;
}

static void mark(struct fake_shard *s, const struct wire_push *push)
{
    for (size_t i = 0; i < wire_push_keys(push); i++) {
        struct wire_push_key key = wire_push_key(push, i);
        uint64_t *digest = &s->digest[key.closure][push->step];

        T_ASSERT(*digest == 0 || *digest == key.digest); // the same samples
        *digest = key.digest;
        s->counted[key.closure][push->step] = true;
    }
}

static enum wire_push_result count(struct fake_ps *f, struct fake_shard *s,
                                   const struct wire_push *push,
                                   const void *grad)
{
    size_t n = there(s, push);

    T_ASSERT(push->step < FAKE_STEPS);
    s->pushes++;
    if (n > 0 && n < wire_push_keys(push))
        return WIRE_PUSH_REFUSED;
    mark(s, push);
    if (n > 0) {
        s->duplicates++;
        return WIRE_PUSH_DUPLICATE;
    }
    if (push->skip)
        s->skipped++;
    else
        apply(f, s, push, grad);
    if (push->moments_t > 0) {
        T_ASSERT(push->rows.bytes <= sizeof(s->moments));
        slices_copy(s->moments, &push->rows);
        s->moments_bytes = push->rows.bytes;
        s->moments_t = push->moments_t;
    } else if (push->rows.bytes > 0) {
        apply_rows(f, s, push);
    }
    return WIRE_PUSH_COUNTED;
}

static void values_copy(struct rpc_msg *msg, enum wire_type type,
                        const struct fake_shard *s)
{
    size_t bytes = s->count * wire_type_bytes(type);
    void *copy = sl_malloc(bytes);

    narrow(type, s->count, s->values, copy);
    rpc_msg_part(msg, copy, bytes);
    rpc_msg_on_release(msg, sl_free, copy);
}

// Takes the use.
static void spoil_later(struct fake_ps *f, struct local_use *use, size_t bytes)
{
    if (use->region != NULL && f->lost_count < LOST) {
        f->lost[f->lost_count] = *use;
        f->lost_bytes[f->lost_count++] = bytes;
    } else {
        local_give(use);
    }
}

static void spoil(struct fake_ps *f)
{
    for (unsigned i = 0; i < f->lost_count; i++)
        memset(f->lost[i].at, 0xff, f->lost_bytes[i]);
}

static void spoil_no_more(struct fake_ps *f)
{
    while (f->lost_count > 0)
        local_give(&f->lost[--f->lost_count]);
}

static bool find_gradient(struct fake_ps *f, const struct wire_push *push,
                          struct local_use *out)
{
    return !unlucky(f, f->forget) &&
           local_take(f->o.local, &push->shm, out, NULL) == SL_OK;
}

// False: as bytes.
static bool put_values(struct fake_ps *f, const struct fake_shard *s,
                       enum wire_type type, const struct wire_shm *where)
{
    struct local_use use;

    T_ASSERT(where->bytes == wire_shm_bytes(type, s->count));
    if (local_take(f->o.local, where, &use, NULL) != SL_OK)
        return false;
    narrow(type, s->count, s->values, use.at);
    local_give(&use);
    return true;
}

static bool is_stale(struct fake_ps *f, struct fake_shard *s,
                     const struct wire_push *push)
{
    unsigned *refused = &s->stale[push->closure][push->step];

    T_ASSERT(!push->late || *refused >= 3);
    if (push->skip || s->counted[push->closure][push->step])
        return false;
    s->late += push->late;
    if (push->late || !unlucky(f, f->stale))
        return false;
    ++*refused;
    return true;
}

static void push_as(struct fake_ps *f, struct rpc_call *call, bool pulls)
{
    struct wire_push_reply reply = {.result = WIRE_PUSH_REFUSED};
    struct local_use grad = {NULL, NULL};
    struct wire_push push;
    struct fake_shard *s;
    struct rpc_msg msg;

    T_ASSERT(wire_read_push(&push, rpc_call_body(call), NULL) == SL_OK);
    T_ASSERT(push.shard < f->o.shards && push.job == f->o.job);
    s = &f->shard[push.shard];
    if (push.has_shm && !find_gradient(f, &push, &grad))
        reply.refused.why = WIRE_REFUSED_REGION;
    else
        reply.refused.why = judge(f, s, push.job_incarnation, push.incarnation,
                                  push.closure, push.attempt);
    if (reply.refused.why == WIRE_REFUSED_NOT && is_stale(f, s, &push))
        reply.refused.why = WIRE_REFUSED_STALE;
    reply.refused.newest = s->newest[push.closure];
    reply.refused.job_incarnation = f->o.job_incarnation;
    if (reply.refused.why == WIRE_REFUSED_NOT) {
        T_ASSERT(push.based_on <= s->version);
        s->delay = s->version - push.based_on;
        reply.result = count(f, s, &push, grad.at);
        if (reply.result == WIRE_PUSH_REFUSED)
            reply.refused.why = WIRE_REFUSED_SET;
        if (reply.result == WIRE_PUSH_COUNTED && s->holds)
            reply.result = WIRE_PUSH_HELD;
    } else {
        s->refused++;
    }
    reply.incarnation = s->incarnation;
    reply.version = s->version;
    rpc_msg_init(&msg);
    if (push.has_answer && reply.result != WIRE_PUSH_REFUSED)
        reply.in_shm = put_values(f, s, push.wire, &push.answer);
    reply.wire = push.wire < WIRE_TYPES ? push.wire : WIRE_F32;
    if (reply.result == WIRE_PUSH_REFUSED || reply.in_shm || !pulls) {
        T_ASSERT(wire_head_push_reply(&msg, &reply, 0) == SL_OK);
    } else {
        T_ASSERT(wire_head_push_reply(&msg, &reply,
                                      s->count * wire_type_bytes(push.wire)) ==
                 SL_OK);
        values_copy(&msg, push.wire, s);
    }
    if (unlucky(f, f->after)) {
        rpc_msg_drop(&msg);
        rpc_answer(call, SL_EUNAVAIL, NULL, NULL);
        spoil_later(f, &grad, push.shm.bytes);
    } else {
        local_give(&grad);
        rpc_answer(call, SL_OK, NULL, &msg);
    }
    spoil(f);
    if (f->countdown > 0 && --f->countdown == 0)
        f->fn(f->arg);
}

static void push_locked(struct fake_ps *f, struct rpc_call *call)
{
    push_as(f, call, true);
}

static void push_alone_locked(struct fake_ps *f, struct rpc_call *call)
{
    push_as(f, call, false);
}

static void answer_change(struct fake_ps *f, struct rpc_call *call,
                          const struct fake_shard *s, enum wire_type wire)
{
    const struct wire_pull_reply reply = {.incarnation = s->incarnation,
                                          .version = f->change.version,
                                          .wire = wire};
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    T_ASSERT(wire_head_pull_reply(&msg, &reply, f->change.n) == SL_OK);
    rpc_msg_part(&msg, f->change.bytes, f->change.n);
    rpc_answer(call, SL_OK, NULL, &msg);
}

// Answers with the moments that it has.
static void answer_moments(struct rpc_call *call, const struct fake_shard *s)
{
    const struct wire_pull_reply reply = {.incarnation = s->incarnation,
                                          .version = s->version,
                                          .moments_t = s->moments_t};
    uint8_t *copy = sl_malloc(sizeof(s->moments));
    struct rpc_msg msg;

    T_ASSERT(copy != NULL);
    memcpy(copy, s->moments, s->moments_bytes);
    rpc_msg_init(&msg);
    T_ASSERT(wire_head_pull_reply(&msg, &reply, s->moments_bytes) == SL_OK);
    rpc_msg_part(&msg, copy, s->moments_bytes);
    rpc_msg_on_release(&msg, sl_free, copy);
    rpc_answer(call, SL_OK, NULL, &msg);
}

static void pull_locked(struct fake_ps *f, struct rpc_call *call)
{
    struct wire_pull_reply reply = {0};
    struct wire_pull pull;
    struct fake_shard *s;
    struct rpc_msg msg;

    T_ASSERT(wire_read_pull(&pull, rpc_call_body(call), NULL) == SL_OK);
    T_ASSERT(pull.shard < f->o.shards);
    s = &f->shard[pull.shard];
    if ((pull.incarnation != 0 && pull.incarnation != s->incarnation) ||
        (pull.has_tag && pull.tag.sequence != 1)) {
        rpc_answer(call, pull.has_tag ? SL_ENOENT : SL_ESTALE, NULL, NULL);
        return;
    }
    if (pull.payload.bytes > 0) {
        pull_rows_locked(f, call, &pull, s);
        return;
    }
    if (pull.moments) {
        answer_moments(call, s);
        return;
    }
    s->pulls += !pull.has_tag;
    s->have = pull.have;
    if (pull.wire >= WIRE_TYPES && f->change.set) {
        answer_change(f, call, s, pull.wire);
        return;
    }
    if (pull.wire >= WIRE_TYPES)
        pull.wire = WIRE_F32;
    reply.incarnation = s->incarnation;
    reply.version = s->version;
    rpc_msg_init(&msg);
    reply.in_shm = pull.has_answer && put_values(f, s, pull.wire, &pull.answer);
    // A snapshot is f32; and so is what a psserver of old has.
    reply.wire = pull.has_tag || unlucky(f, f->wide) ? WIRE_F32 : pull.wire;
    if (reply.in_shm)
        reply.wire = pull.wire;
    T_ASSERT(wire_head_pull_reply(
                 &msg, &reply,
                 reply.in_shm ? 0 : s->count * wire_type_bytes(reply.wire)) ==
             SL_OK);
    if (!reply.in_shm)
        values_copy(&msg, reply.wire, s);
    rpc_answer(call, SL_OK, NULL, &msg);
}

#define HANDLER(name)                                                          \
    static void name(struct rpc_call *call, void *arg)                         \
    {                                                                          \
        struct fake_ps *f = arg;                                               \
                                                                               \
        pthread_mutex_lock(&f->lock);                                          \
        if (!before(f, call))                                                  \
            name##_locked(f, call);                                            \
        pthread_mutex_unlock(&f->lock);                                        \
    }
HANDLER(ask)
HANDLER(push)
HANDLER(push_alone)
HANDLER(pull)

static void about(struct rpc_call *call, void *arg)
{
    const struct fake_ps *f = arg;
    Sluice__V1__LocalReply reply;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    local_about(f->o.local, &reply);
    T_ASSERT(wire_msg(&msg, &reply.base) == SL_OK);
    rpc_answer(call, SL_OK, NULL, &msg);
}

static const struct rpc_method methods[] = {
    {.path = WIRE_LOCAL, .unary = about},
    {.path = WIRE_ASK, .unary = ask},
    {.path = WIRE_PUSH_PULL,
     .max_request_bytes = RPC_DATA_BYTES,
     .unary = push},
    {.path = WIRE_PUSH,
     .max_request_bytes = RPC_DATA_BYTES,
     .unary = push_alone},
    {.path = WIRE_PULL, .max_request_bytes = RPC_DATA_BYTES, .unary = pull},
};

struct fake_ps *fake_ps_new(struct rpc_io *io, const struct fake_ps_options *o)
{
    struct fake_ps *f = sl_calloc(1, sizeof(*f));
    struct rpc_table table = {methods, SL_COUNT(methods), f};
    size_t first = 0;

    f->o = *o;
    pthread_mutex_init(&f->lock, NULL);
    rng_init(&f->rng, t_seed(), 77);
    T_ASSERT(o->shards <= FAKE_SHARDS);
    for (uint32_t i = 0; i < o->shards; i++) {
        struct fake_shard *s = &f->shard[i];

        s->first = first;
        s->count = o->counts[i];
        first += s->count;
        s->incarnation = 1;
        s->values = sl_malloc(s->count * sizeof(float));
        s->rows = sl_calloc(FAKE_ROWS, sizeof(*s->rows));
        rng_fill_uniform(s->values, 1, 1, s->first, s->count);
        for (size_t k = 0; k < s->count; k++)
            s->values[k] = (s->values[k] - 0.5f) * 0.4f;
    }
    T_ASSERT(rpc_server_new(&f->server, io, &table, 1, NULL, NULL) == SL_OK);
    T_ASSERT(rpc_server_bind(f->server, o->address, NULL, NULL, NULL) == SL_OK);
    rpc_server_start(f->server);
    return f;
}

void fake_ps_free(struct fake_ps *f)
{
    fake_ps_hold(f, false);
    rpc_server_free(f->server);
    spoil_no_more(f);
    for (uint32_t i = 0; i < f->o.shards; i++)
        sl_free(f->shard[i].values);
    for (uint32_t i = 0; i < f->o.shards; i++)
        sl_free(f->shard[i].rows);
    pthread_mutex_destroy(&f->lock);
    sl_free(f);
}

struct fake_shard *fake_ps_lock(struct fake_ps *f)
{
    pthread_mutex_lock(&f->lock);
    return f->shard;
}

void fake_ps_unlock(struct fake_ps *f)
{
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_change(struct fake_ps *f, uint64_t version, const void *bytes,
                    size_t n)
{
    T_ASSERT(n <= sizeof(f->change.bytes));
    pthread_mutex_lock(&f->lock);
    f->change.set = true;
    f->change.version = version;
    f->change.n = n;
    memcpy(f->change.bytes, bytes, n);
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_luck(struct fake_ps *f, unsigned before_, unsigned after)
{
    pthread_mutex_lock(&f->lock);
    f->before = before_;
    f->after = after;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_local(struct fake_ps *f, struct local *local)
{
    pthread_mutex_lock(&f->lock);
    spoil_no_more(f);
    f->o.local = local;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_wide(struct fake_ps *f, unsigned of_1000)
{
    pthread_mutex_lock(&f->lock);
    f->wide = of_1000;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_ahead(struct fake_ps *f)
{
    pthread_mutex_lock(&f->lock);
    f->ahead = true;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_stale(struct fake_ps *f, unsigned of_1000)
{
    pthread_mutex_lock(&f->lock);
    f->stale = of_1000;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_forget(struct fake_ps *f, unsigned of_1000)
{
    pthread_mutex_lock(&f->lock);
    f->forget = of_1000;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_hold(struct fake_ps *f, bool hold)
{
    pthread_mutex_lock(&f->lock);
    f->hold = hold;
    for (unsigned i = 0; !hold && i < f->held_count; i++)
        rpc_answer(f->held[i], SL_EUNAVAIL, NULL, NULL);
    if (!hold)
        f->held_count = 0;
    pthread_mutex_unlock(&f->lock);
}

void fake_ps_after(struct fake_ps *f, unsigned pushes, void (*fn)(void *arg),
                   void *arg)
{
    pthread_mutex_lock(&f->lock);
    f->countdown = pushes;
    f->fn = fn;
    f->arg = arg;
    pthread_mutex_unlock(&f->lock);
}
