// SPDX-License-Identifier: Apache-2.0
// proto/wire_ps.c -- the tables of the data plane's messages, and their
// writers.
#include "proto/wire_ps.h"

#include <string.h>

#define FIELD(s, number, kind, member, max, of)                                \
    {                                                                          \
        number, kind, offsetof(struct s, member), max, #member, of             \
    }
#define TABLE(name, Type, fields, descriptor)                                  \
    const struct wire_table name = {Type, fields, SL_COUNT(fields),            \
                                    &sluice__v1__##descriptor##__descriptor}

static const struct wire_field attempt_fields[] = {
    FIELD(wire_attempt, 1, WIRE_U64, term, 0, NULL),
    FIELD(wire_attempt, 2, WIRE_U64, n, 0, NULL),
};
static TABLE(attempt_table, "Attempt", attempt_fields, attempt);

static const struct wire_field tag_fields[] = {
    FIELD(wire_tag, 1, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_tag, 2, WIRE_U64, sequence, 0, NULL),
};
static TABLE(tag_table, "Tag", tag_fields, tag);

static const struct wire_field refused_fields[] = {
    FIELD(wire_refused, 1, WIRE_ENUM, why, WIRE_REFUSED_SET, NULL),
    FIELD(wire_refused, 2, WIRE_MESSAGE, newest, 0, &attempt_table),
    FIELD(wire_refused, 3, WIRE_U64, job_incarnation, 0, NULL),
};
static TABLE(refused_table, "Refused", refused_fields, refused);

static const struct wire_field shm_fields[] = {
    FIELD(wire_shm, 1, WIRE_FIXED64, region, 0, NULL),
    FIELD(wire_shm, 2, WIRE_U64, offset, 0, NULL),
    FIELD(wire_shm, 3, WIRE_U64, bytes, 0, NULL),
};
static TABLE(shm_table, "ShmRef", shm_fields, shm_ref);

static const struct wire_field token_fields[] = {
    FIELD(wire_token, 1, WIRE_FIXED64, low, 0, NULL),
    FIELD(wire_token, 2, WIRE_FIXED64, high, 0, NULL),
};
static TABLE(token_table, "JobToken", token_fields, job_token);

static const struct wire_field ask_fields[] = {
    FIELD(wire_ask, 1, WIRE_U64, job, 0, NULL),
    FIELD(wire_ask, 2, WIRE_U64, job_incarnation, 0, NULL),
    FIELD(wire_ask, 3, WIRE_U32, shard, 0, NULL),
    FIELD(wire_ask, 4, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_ask, 5, WIRE_U64, closure, 0, NULL),
    FIELD(wire_ask, 6, WIRE_MESSAGE, attempt, 0, &attempt_table),
    FIELD(wire_ask, 7, WIRE_MESSAGE, token, 0, &token_table),
    FIELD(wire_ask, 8, WIRE_MESSAGE, proof, 0, &token_table),
};
TABLE(wire_table_ask, "AskRequest", ask_fields, ask_request);

// The reader fills `counted` and, before it, counted_bytes.
static const struct wire_field ask_reply_fields[] = {
    FIELD(wire_ask_reply, 1, WIRE_U64, incarnation, 0, NULL),
    {2, WIRE_BYTES, offsetof(struct wire_ask_reply, counted_bytes),
     WIRE_COUNTED_BYTES, "counted", NULL},
    FIELD(wire_ask_reply, 3, WIRE_U64, version, 0, NULL),
    FIELD(wire_ask_reply, 4, WIRE_MESSAGE, refused, 0, &refused_table),
};
TABLE(wire_table_ask_reply, "AskReply", ask_reply_fields, ask_reply);
_Static_assert(offsetof(struct wire_ask_reply, counted) ==
                   offsetof(struct wire_ask_reply, counted_bytes) +
                       sizeof(size_t),
               "WIRE_BYTES: the bytes follow their length");
_Static_assert(offsetof(struct wire_push, absent) ==
                   offsetof(struct wire_push, absent_bytes) + sizeof(size_t),
               "WIRE_BYTES: the bytes follow their length");
_Static_assert(offsetof(struct wire_push, more) ==
                   offsetof(struct wire_push, more_bytes) + sizeof(size_t),
               "WIRE_BYTES: the bytes follow their length");

static const struct wire_field push_fields[] = {
    FIELD(wire_push, 1, WIRE_U64, job, 0, NULL),
    FIELD(wire_push, 2, WIRE_U64, job_incarnation, 0, NULL),
    FIELD(wire_push, 3, WIRE_U32, shard, 0, NULL),
    FIELD(wire_push, 4, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_push, 5, WIRE_U64, closure, 0, NULL),
    FIELD(wire_push, 6, WIRE_U32, step, 0, NULL),
    FIELD(wire_push, 7, WIRE_MESSAGE, attempt, 0, &attempt_table),
    FIELD(wire_push, 8, WIRE_U64, based_on, 0, NULL),
    FIELD(wire_push, 9, WIRE_U64, map_version, 0, NULL),
    FIELD(wire_push, 10, WIRE_U64, samples, 0, NULL),
    FIELD(wire_push, 11, WIRE_FIXED64, digest, 0, NULL),
    FIELD(wire_push, 12, WIRE_BOOL, skip, 0, NULL),
    FIELD(wire_push, 13, WIRE_MESSAGE, shm, 0, &shm_table),
    FIELD(wire_push, 14, WIRE_MESSAGE, answer, 0, &shm_table),
    FIELD(wire_push, 16, WIRE_ENUM, wire, WIRE_TOPK2, NULL),
    FIELD(wire_push, 17, WIRE_BOOL, late, 0, NULL),
    FIELD(wire_push, 18, WIRE_MESSAGE, token, 0, &token_table),
    {19, WIRE_BYTES, offsetof(struct wire_push, absent_bytes),
     WIRE_ABSENT_BYTES, "absent", NULL},
    FIELD(wire_push, 20, WIRE_U64, rows_bytes, 0, NULL),
    {21, WIRE_BYTES, offsetof(struct wire_push, more_bytes), WIRE_MORE_BYTES,
     "more", NULL},
    FIELD(wire_push, 22, WIRE_U64, moments_t, 0, NULL),
    FIELD(wire_push, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_push, "PushRequest", push_fields, push_request);

static const struct wire_field push_reply_fields[] = {
    FIELD(wire_push_reply, 1, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_push_reply, 2, WIRE_ENUM, result, WIRE_PUSH_HELD, NULL),
    FIELD(wire_push_reply, 3, WIRE_MESSAGE, refused, 0, &refused_table),
    FIELD(wire_push_reply, 4, WIRE_U64, version, 0, NULL),
    FIELD(wire_push_reply, 5, WIRE_U64, staleness, 0, NULL),
    FIELD(wire_push_reply, 6, WIRE_BOOL, in_shm, 0, NULL),
    FIELD(wire_push_reply, 7, WIRE_ENUM, wire, WIRE_TOPK2, NULL),
    FIELD(wire_push_reply, 8, WIRE_U64, open_first, 0, NULL),
    FIELD(wire_push_reply, 9, WIRE_U32, open_count, 0, NULL),
    FIELD(wire_push_reply, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_push_reply, "PushReply", push_reply_fields, push_reply);

static const struct wire_field pull_fields[] = {
    FIELD(wire_pull, 1, WIRE_U64, job, 0, NULL),
    FIELD(wire_pull, 2, WIRE_U64, job_incarnation, 0, NULL),
    FIELD(wire_pull, 3, WIRE_U32, shard, 0, NULL),
    FIELD(wire_pull, 4, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_pull, 5, WIRE_MESSAGE, tag, 0, &tag_table),
    FIELD(wire_pull, 6, WIRE_MESSAGE, answer, 0, &shm_table),
    FIELD(wire_pull, 7, WIRE_ENUM, wire, WIRE_TOPK2, NULL),
    FIELD(wire_pull, 8, WIRE_U64, before_round_of, 0, NULL),
    FIELD(wire_pull, 9, WIRE_U64, after_round_of, 0, NULL),
    FIELD(wire_pull, 10, WIRE_MESSAGE, token, 0, &token_table),
    FIELD(wire_pull, 11, WIRE_U64, first_record, 0, NULL),
    FIELD(wire_pull, 12, WIRE_BOOL, ids_of_tag, 0, NULL),
    FIELD(wire_pull, 13, WIRE_U64, have, 0, NULL),
    FIELD(wire_pull, 14, WIRE_BOOL, moments, 0, NULL),
    FIELD(wire_pull, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_pull, "PullRequest", pull_fields, pull_request);

static const struct wire_field pull_reply_fields[] = {
    FIELD(wire_pull_reply, 1, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_pull_reply, 2, WIRE_U64, version, 0, NULL),
    FIELD(wire_pull_reply, 3, WIRE_BOOL, in_shm, 0, NULL),
    FIELD(wire_pull_reply, 4, WIRE_ENUM, wire, WIRE_TOPK2, NULL),
    FIELD(wire_pull_reply, 5, WIRE_U64, open_first, 0, NULL),
    FIELD(wire_pull_reply, 6, WIRE_U32, open_count, 0, NULL),
    FIELD(wire_pull_reply, 7, WIRE_U64, records, 0, NULL),
    FIELD(wire_pull_reply, 8, WIRE_U32, record_bytes, 0, NULL),
    FIELD(wire_pull_reply, 9, WIRE_U64, moments_t, 0, NULL),
    FIELD(wire_pull_reply, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_pull_reply, "PullReply", pull_reply_fields, pull_reply);

static const struct wire_field piece_fields[] = {
    FIELD(wire_piece, 1, WIRE_U64, job, 0, NULL),
    FIELD(wire_piece, 2, WIRE_U64, generation, 0, NULL),
    FIELD(wire_piece, 3, WIRE_U32, from, 0, NULL),
    FIELD(wire_piece, 4, WIRE_U64, bucket, 0, NULL),
    FIELD(wire_piece, 5, WIRE_U32, hop, 0, NULL),
    FIELD(wire_piece, 6, WIRE_U64, first, 0, NULL),
    FIELD(wire_piece, 7, WIRE_ENUM, wire, WIRE_TOPK2, NULL),
    FIELD(wire_piece, 8, WIRE_U32, lane, 0, NULL),
    FIELD(wire_piece, 9, WIRE_MESSAGE, token, 0, &token_table),
    FIELD(wire_piece, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_piece, "PieceRequest", piece_fields, piece_request);

static const struct wire_field state_reply_fields[] = {
    FIELD(wire_state_reply, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_state_reply, "StateReply", state_reply_fields, state_reply);

static const struct wire_field follow_fields[] = {
    FIELD(wire_follow, 1, WIRE_U64, job, 0, NULL),
    FIELD(wire_follow, 2, WIRE_U64, job_incarnation, 0, NULL),
    FIELD(wire_follow, 3, WIRE_U32, shard, 0, NULL),
    FIELD(wire_follow, 4, WIRE_U64, incarnation, 0, NULL),
    FIELD(wire_follow, 5, WIRE_U64, order, 0, NULL),
    FIELD(wire_follow, 6, WIRE_U64, number, 0, NULL),
    FIELD(wire_follow, 15, WIRE_PAYLOAD, payload, 0, NULL),
};
TABLE(wire_table_follow, "FollowRequest", follow_fields, follow_request);

static const struct wire_field follow_reply_fields[] = {
    FIELD(wire_follow_reply, 1, WIRE_U64, applied, 0, NULL),
    FIELD(wire_follow_reply, 2, WIRE_BOOL, whole, 0, NULL),
};
TABLE(wire_table_follow_reply, "FollowReply", follow_reply_fields,
      follow_reply);

_Static_assert(sizeof(enum wire_refused_why) == 4 &&
                   sizeof(enum wire_type) == 4,
               "WIRE_ENUM is 32 bits");
_Static_assert(WIRE_F16 == WIRE_TYPES - 1 && WIRE_TOPK2 == WIRE_CODES - 1,
               "the highest known");

const char *const wire_type_names[WIRE_CODES] = {
    [WIRE_F32] = "f32",   [WIRE_BF16] = "bf16", [WIRE_F16] = "f16",
    [WIRE_INT8] = "int8", [WIRE_E3M0] = "e3m0", [WIRE_TOPK2] = "topk2",
};

// ---- writing

static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

static uint8_t *put_fixed64(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        *to++ = (uint8_t)(value >> 8 * i);
    return to;
}

static uint64_t get_fixed64(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

void wire_push_add(struct wire_push *m, const struct wire_push_key *key)
{
    uint8_t *to = m->more + m->more_bytes;

    to = put_fixed64(to, key->closure);
    to = put_fixed64(to, key->attempt.term);
    to = put_fixed64(to, key->attempt.n);
    to = put_fixed64(to, key->samples);
    (void)put_fixed64(to, key->digest);
    m->more_bytes += WIRE_KEY_BYTES;
}

struct wire_push_key wire_push_key(const struct wire_push *m, size_t i)
{
    const uint8_t *at = m->more + (i - 1) * WIRE_KEY_BYTES;

    if (i == 0)
        return (struct wire_push_key){m->closure, m->attempt, m->samples,
                                      m->digest};
    return (struct wire_push_key){
        .closure = get_fixed64(at),
        .attempt = {get_fixed64(at + 8), get_fixed64(at + 16)},
        .samples = get_fixed64(at + 24),
        .digest = get_fixed64(at + 32)};
}

// The value of a field that is a varint on the wire.
static uint64_t wire_load_value(const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_U32:
    case WIRE_ENUM:
        return *(const uint32_t *)at;
    case WIRE_BOOL:
        return *(const bool *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static uint8_t *put_bytes(uint8_t *to, unsigned number, const void *bytes,
                          size_t n)
{
    to = put_varint(to, number << 3 | 2);
    to = put_varint(to, n);
    memcpy(to, bytes, n);
    return to + n;
}

// Scalars that are 0 are left out, as proto3 has it. `absent` has a bit for
// the number of each submessage that is not there.
static uint8_t *wire_put_fields(uint8_t *to, const struct wire_table *table,
                                const void *m, uint32_t absent)
{
    for (unsigned i = 0; i < table->count; i++) {
        const struct wire_field *f = &table->fields[i];
        const uint8_t *at = (const uint8_t *)m + f->at;

        if (f->kind == WIRE_MESSAGE) {
            uint8_t inner[64];

            if (!(absent >> f->number & 1))
                to = put_bytes(
                    to, f->number, inner,
                    (size_t)(wire_put_fields(inner, f->of, at, 0) - inner));
        } else if (f->kind == WIRE_BYTES) {
            if (*(const size_t *)at > 0)
                to = put_bytes(to, f->number, at + sizeof(size_t),
                               *(const size_t *)at);
        } else if (f->kind != WIRE_PAYLOAD && wire_load_value(f, at) != 0) {
            bool fixed = f->kind == WIRE_FIXED64;

            to = put_varint(to, (unsigned)f->number << 3 | (fixed ? 1 : 0));
            to = fixed ? put_fixed64(to, wire_load_value(f, at))
                       : put_varint(to, wire_load_value(f, at));
        }
    }
    return to;
}

static size_t encode(uint8_t *out, const struct wire_table *table,
                     const void *m, uint32_t absent, size_t payload_bytes)
{
    uint8_t *to = wire_put_fields(out, table, m, absent);

    if (payload_bytes > 0) {
        to = put_varint(to, WIRE_PAYLOAD_NUMBER << 3 | 2);
        to = put_varint(to, payload_bytes);
    }
    return (size_t)(to - out);
}

// The bit of a field of this number, if there is no token.
static uint32_t no_token(const struct wire_token *t, unsigned number)
{
    return t->low == 0 && t->high == 0 ? 1u << number : 0;
}

size_t wire_encode_ask(uint8_t out[WIRE_HEAD_MAX], const struct wire_ask *m)
{
    return encode(out, &wire_table_ask, m, no_token(&m->token, 7), 0);
}

size_t wire_encode_ask_reply(uint8_t out[WIRE_HEAD_MAX],
                             const struct wire_ask_reply *m)
{
    uint32_t absent = m->refused.why == WIRE_REFUSED_NOT ? 1u << 4 : 0;

    return encode(out, &wire_table_ask_reply, m, absent, 0);
}

size_t wire_encode_push(uint8_t out[WIRE_HEAD_MAX], const struct wire_push *m,
                        size_t payload_bytes)
{
    uint32_t absent = (m->has_shm ? 0 : 1u << 13) |
                      (m->has_answer ? 0 : 1u << 14) | no_token(&m->token, 18);

    return encode(out, &wire_table_push, m, absent, payload_bytes);
}

size_t wire_encode_piece(uint8_t out[WIRE_HEAD_MAX], const struct wire_piece *m,
                         size_t payload_bytes)
{
    return encode(out, &wire_table_piece, m, no_token(&m->token, 9),
                  payload_bytes);
}

size_t wire_encode_push_reply(uint8_t out[WIRE_HEAD_MAX],
                              const struct wire_push_reply *m,
                              size_t payload_bytes)
{
    uint32_t absent = m->refused.why == WIRE_REFUSED_NOT ? 1u << 3 : 0;

    return encode(out, &wire_table_push_reply, m, absent, payload_bytes);
}

size_t wire_encode_pull(uint8_t out[WIRE_HEAD_MAX], const struct wire_pull *m,
                        size_t payload_bytes)
{
    uint32_t absent = (m->has_tag ? 0 : 1u << 5) |
                      (m->has_answer ? 0 : 1u << 6) | no_token(&m->token, 10);

    return encode(out, &wire_table_pull, m, absent, payload_bytes);
}

size_t wire_encode_pull_reply(uint8_t out[WIRE_HEAD_MAX],
                              const struct wire_pull_reply *m,
                              size_t payload_bytes)
{
    return encode(out, &wire_table_pull_reply, m, 0, payload_bytes);
}

// ---- as the header of an rpc_msg

static enum sl_err wire_set_head(struct rpc_msg *msg, const uint8_t *bytes,
                                 size_t n)
{
    uint8_t *to = rpc_msg_head(msg, n);

    if (to == NULL)
        return SL_ENOMEM;
    memcpy(to, bytes, n);
    return SL_OK;
}

enum sl_err wire_head_ask(struct rpc_msg *msg, const struct wire_ask *m)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head, wire_encode_ask(head, m));
}

enum sl_err wire_head_ask_reply(struct rpc_msg *msg,
                                const struct wire_ask_reply *m)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head, wire_encode_ask_reply(head, m));
}

enum sl_err wire_head_push(struct rpc_msg *msg, const struct wire_push *m,
                           size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head, wire_encode_push(head, m, payload_bytes));
}

enum sl_err wire_head_push_reply(struct rpc_msg *msg,
                                 const struct wire_push_reply *m,
                                 size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head,
                         wire_encode_push_reply(head, m, payload_bytes));
}

enum sl_err wire_head_pull(struct rpc_msg *msg, const struct wire_pull *m,
                           size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head, wire_encode_pull(head, m, payload_bytes));
}

enum sl_err wire_head_pull_reply(struct rpc_msg *msg,
                                 const struct wire_pull_reply *m,
                                 size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head,
                         wire_encode_pull_reply(head, m, payload_bytes));
}

enum sl_err wire_head_piece(struct rpc_msg *msg, const struct wire_piece *m,
                            size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head, wire_encode_piece(head, m, payload_bytes));
}

enum sl_err wire_head_state_reply(struct rpc_msg *msg, size_t payload_bytes)
{
    const struct wire_state_reply m = {SL_SLICES_NONE};
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(
        msg, head, encode(head, &wire_table_state_reply, &m, 0, payload_bytes));
}

enum sl_err wire_head_follow(struct rpc_msg *msg, const struct wire_follow *m,
                             size_t payload_bytes)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head,
                         encode(head, &wire_table_follow, m, 0, payload_bytes));
}

enum sl_err wire_head_follow_reply(struct rpc_msg *msg,
                                   const struct wire_follow_reply *m)
{
    uint8_t head[WIRE_HEAD_MAX];

    return wire_set_head(msg, head,
                         encode(head, &wire_table_follow_reply, m, 0, 0));
}
