// SPDX-License-Identifier: Apache-2.0
// The data plane, against protobuf-c as the other implementation.
#include "proto/wire_ps.h"
#include "tests/unit/proto/t_proto.h"

static const struct wire_table *const tables[] = {
    &wire_table_ask,        &wire_table_ask_reply, &wire_table_push,
    &wire_table_push_reply, &wire_table_pull,      &wire_table_pull_reply,
};

static void check_table(const struct wire_table *t)
{
    static const ProtobufCType types[] = {
        [WIRE_U64] = PROTOBUF_C_TYPE_UINT64,
        [WIRE_U32] = PROTOBUF_C_TYPE_UINT32,
        [WIRE_BOOL] = PROTOBUF_C_TYPE_BOOL,
        [WIRE_FIXED64] = PROTOBUF_C_TYPE_FIXED64,
        [WIRE_ENUM] = PROTOBUF_C_TYPE_ENUM,
        [WIRE_MESSAGE] = PROTOBUF_C_TYPE_MESSAGE,
        [WIRE_BYTES] = PROTOBUF_C_TYPE_BYTES,
        [WIRE_PAYLOAD] = PROTOBUF_C_TYPE_BYTES,
    };

    T_STR(t->name, t->descriptor->short_name);
    T_EQ(t->count, t->descriptor->n_fields);
    for (unsigned i = 0; i < t->count; i++) {
        const struct wire_field *f = &t->fields[i];
        const ProtobufCFieldDescriptor *d =
            protobuf_c_message_descriptor_get_field(t->descriptor, f->number);

        T_TRUE(d != NULL);
        T_STR(f->name, d->name);
        T_EQ(types[f->kind], d->type);
        if (f->kind == WIRE_MESSAGE) {
            T_TRUE(f->of->descriptor == d->descriptor);
            check_table(f->of);
        }
        if (f->kind == WIRE_ENUM) {
            const ProtobufCEnumDescriptor *e = d->descriptor;

            T_EQ(f->max, e->values[e->n_values - 1].value);
        }
    }
}

TEST(wire_ps, tables_are_the_schema)
{
    for (unsigned i = 0; i < SL_COUNT(tables); i++)
        check_table(tables[i]);
    check_table(&wire_table_piece);
    check_table(&wire_table_state_reply);
    check_table(&wire_table_follow);
    check_table(&wire_table_follow_reply);
}

static struct wire_push a_push(void)
{
    return (struct wire_push){
        .job = 7,
        .job_incarnation = 1,
        .incarnation = 300,
        .closure = 41,
        .attempt = {3, 9},
        .based_on = 1000,
        .map_version = 12,
        .samples = 32,
        .digest = UINT64_C(0x1122334455667788),
        .shard = 2,
        .step = 5,
    };
}

TEST(wire_ps, golden_push_head)
{
    static const uint8_t golden[] = {
        0x08, 7,    0x10, 1,    0x18, 2,    0x20, 0xac, 2,    0x28,
        41,   0x30, 5,    0x3a, 4,    0x08, 3,    0x10, 9,    0x40,
        0xe8, 7,    0x48, 12,   0x50, 32,   0x59, 0x88, 0x77, 0x66,
        0x55, 0x44, 0x33, 0x22, 0x11, 0x7a, 0x80, 0x80, 0x80, 0x02};
    struct wire_push m = a_push();
    uint8_t head[WIRE_HEAD_MAX];
    size_t n = wire_encode_push(head, &m, 4 << 20);

    T_EQ(n, sizeof(golden));
    T_MEM(head, golden, n);
}

TEST(wire_ps, golden_answers)
{
    static const uint8_t refused[] = {0x08, 5,    0x10, 3,    0x1a, 8,    0x08,
                                      1,    0x12, 4,    0x08, 2,    0x10, 6};
    static const uint8_t asked[] = {0x08, 5, 0x12, 2, 0xff, 0x01, 0x18, 9};
    struct wire_push_reply push = {
        .incarnation = 5,
        .result = WIRE_PUSH_REFUSED,
        .refused = {WIRE_REFUSED_ATTEMPT, {2, 6}, 0}};
    struct wire_ask_reply ask = {.incarnation = 5,
                                 .version = 9,
                                 .counted_bytes = 2,
                                 .counted = {0xff, 0x01}};
    uint8_t head[WIRE_HEAD_MAX];

    T_EQ(wire_encode_push_reply(head, &push, 0), sizeof(refused));
    T_MEM(head, refused, sizeof(refused));
    T_EQ(wire_encode_ask_reply(head, &ask), sizeof(asked));
    T_MEM(head, asked, sizeof(asked));
}

// Reads bytes as the message number `which` of `tables`; wipes `out` first so
// that all of it can be compared.
union any {
    struct wire_ask ask;
    struct wire_ask_reply ask_reply;
    struct wire_push push;
    struct wire_push_reply push_reply;
    struct wire_pull pull;
    struct wire_pull_reply pull_reply;
};

static enum sl_err read_any(unsigned which, union any *out,
                            const struct sl_slices *s, struct sl_error *err)
{
    memset(out, 0, sizeof(*out));
    switch (which) {
    case 0:
        return wire_read_ask(&out->ask, s, err);
    case 1:
        return wire_read_ask_reply(&out->ask_reply, s, err);
    case 2:
        return wire_read_push(&out->push, s, err);
    case 3:
        return wire_read_push_reply(&out->push_reply, s, err);
    case 4:
        return wire_read_pull(&out->pull, s, err);
    default:
        return wire_read_pull_reply(&out->pull_reply, s, err);
    }
}

static size_t write_any(unsigned which, uint8_t head[WIRE_HEAD_MAX],
                        const union any *m, size_t payload_bytes)
{
    switch (which) {
    case 0:
        return wire_encode_ask(head, &m->ask);
    case 1:
        return wire_encode_ask_reply(head, &m->ask_reply);
    case 2:
        return wire_encode_push(head, &m->push, payload_bytes);
    case 3:
        return wire_encode_push_reply(head, &m->push_reply, payload_bytes);
    case 4:
        return wire_encode_pull(head, &m->pull, payload_bytes);
    default:
        return wire_encode_pull_reply(head, &m->pull_reply, payload_bytes);
    }
}

static struct sl_slices *payload_of(unsigned which, union any *m)
{
    return which == 2   ? &m->push.payload
           : which == 3 ? &m->push_reply.payload
           : which == 4 ? &m->pull.payload
           : which == 5 ? &m->pull_reply.payload
                        : NULL;
}

static void mend_shm(Sluice__V1__ShmRef *r)
{
    if (r == NULL)
        return;
    r->region |= 1;
    r->offset = t_below(UINT64_C(1) << 60) * 4;
    r->bytes = 4 + t_below(1 << 30) * 4;
}

// One of zeros is none, and is not written.
static void mend_token(ProtobufCMessage *m)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "token");
    Sluice__V1__JobToken *token =
        f == NULL ? NULL : *(Sluice__V1__JobToken **)field_at(m, f, 0);

    if (token != NULL)
        token->low |= 1;
}

// Returns how many types a message takes as it is.
static unsigned types_of(const ProtobufCMessage *m, unsigned which)
{
    const Sluice__V1__PushRequest *push = (const void *)m;
    const Sluice__V1__PullRequest *pull = (const void *)m;
    const Sluice__V1__PullReply *reply = (const void *)m;

    if (which == 2 && push->shm == NULL && push->answer == NULL)
        return WIRE_CODES;
    if (which == 4 && pull->answer == NULL && pull->payload.len == 0)
        return WIRE_TOPK2;
    return which == 5 && !reply->in_shm ? WIRE_TOPK2 : WIRE_TYPES;
}

// Makes the closures that a push counts different ones of whole bytes.
static void mend_more(Sluice__V1__PushRequest *m)
{
    m->more.len -= m->more.len % WIRE_KEY_BYTES;
    if (m->more.len > WIRE_MORE_BYTES)
        m->more.len = WIRE_MORE_BYTES;
    if (m->step > 0 || m->absent.len > 0 || m->rows_bytes > 0)
        m->more.len = 0;
    for (size_t i = 0; i < m->more.len; i += WIRE_KEY_BYTES)
        m->more.data[i] = (uint8_t)(m->closure + 1 + i / WIRE_KEY_BYTES);
}

// Makes a random message valid: what the decoders ask for beyond the form.
static void mend(ProtobufCMessage *m, unsigned which)
{
    Sluice__V1__PushRequest *push = (void *)m;
    Sluice__V1__PushReply *reply = (void *)m;
    Sluice__V1__PullReply *pull_reply = (void *)m;
    Sluice__V1__AskReply *ask_reply = (void *)m;
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(d, "shard");

    if (which == 2)
        mend_more(push);
    if (f != NULL) {
        *(uint32_t *)field_at(m, f, 0) %= WIRE_SHARDS_MAX;
        f = protobuf_c_message_descriptor_get_field_by_name(d, "job");
        *(uint64_t *)field_at(m, f, 0) |= 1;
    }
    f = protobuf_c_message_descriptor_get_field_by_name(d, "payload");
    if (f != NULL) {
        const ProtobufCFieldDescriptor *type =
            protobuf_c_message_descriptor_get_field_by_name(d, "wire");
        ProtobufCBinaryData *payload = field_at(m, f, 0);
        int *wire = field_at(m, type, 0);

        *wire %= (int)types_of(m, which);
        payload->len &= *wire == WIRE_F32    ? ~(size_t)3
                        : *wire < WIRE_TYPES ? ~(size_t)1
                                             : SIZE_MAX;
    }
    mend_token(m);
    if (which == 1 && ask_reply->refused != NULL)
        ask_reply->refused->why = SLUICE__V1__REFUSED_WHY__REFUSED_ATTEMPT;
    if (which == 2) {
        push->step %= WIRE_CLOSURE_STEPS_MAX;
        push->rows_bytes = push->shm != NULL ? push->payload.len
                           : push->payload.len > 8
                               ? 4 * t_below((push->payload.len - 1) / 4)
                               : 0;
        if (push->rows_bytes == 0)
            push->moments_t = 0;
        if (push->absent.len > 0)
            push->absent.data[push->absent.len - 1] |= 1;
        push->skip = push->payload.len == 0 && push->shm == NULL &&
                     push->absent.len == 0;
        mend_shm(push->shm);
        mend_shm(push->answer);
    }
    if (which == 4) {
        Sluice__V1__PullRequest *pull = (Sluice__V1__PullRequest *)m;

        mend_shm(pull->answer);
        if (pull->answer != NULL || (pull->tag != NULL && !pull->ids_of_tag))
            pull->payload.len = 0;
        pull->ids_of_tag &= pull->tag != NULL && pull->payload.len > 0;
        pull->moments &=
            pull->tag == NULL && pull->answer == NULL && pull->payload.len == 0;
        if (pull->tag != NULL) // (0,0) is refused
            pull->tag->sequence |= 1;
    }
    if (which == 5)
        pull_reply->in_shm &= pull_reply->payload.len == 0;
    if (which == 3) {
        if (reply->refused != NULL)
            reply->refused->why = SLUICE__V1__REFUSED_WHY__REFUSED_STALE;
        reply->in_shm &= reply->payload.len == 0;
        reply->result = reply->refused != NULL
                            ? SLUICE__V1__PUSH_RESULT__PUSH_REFUSED
                            : SLUICE__V1__PUSH_RESULT__PUSH_COUNTED;
    }
}

// The other implementation's bytes -> ours -> our bytes -> the other's: what
// it packs again is what it packed first.
// The bytes behind the head of a message: its payload and a push's rows.
static size_t behind_head(uint8_t *to, unsigned which, union any *m)
{
    const struct sl_slices *payload = payload_of(which, m);
    size_t n = payload == NULL ? 0 : payload->bytes;

    if (to != NULL && n > 0)
        slices_copy(to, payload);
    if (which == 2 && to != NULL)
        slices_copy(to + n, &m->push.rows);
    return which == 2 ? n + m->push.rows.bytes : n;
}

static void round_trip(unsigned which)
{
    const ProtobufCMessageDescriptor *d = tables[which]->descriptor;
    ProtobufCMessage *m = t_random_message(d), *back;
    struct buf packed, ours = BUF_INIT, again = BUF_INIT;
    uint8_t head[WIRE_HEAD_MAX];
    union any any;
    struct t_cut cut;

    mend(m, which);
    packed = t_packed(m);
    t_cut(&cut, packed.data, packed.len, 1 + (unsigned)t_below(20));
    T_OK(read_any(which, &any, &cut.all, t_err()));
    T_OK(buf_append(
        &ours, head,
        write_any(which, head, &any, behind_head(NULL, which, &any))));
    if (behind_head(NULL, which, &any) > 0)
        behind_head(buf_extend(&ours, behind_head(NULL, which, &any)), which,
                    &any);
    back = protobuf_c_message_unpack(d, &wire_heap, ours.len, ours.data);
    T_TRUE(back != NULL);
    T_OK(wire_pack(back, &again));
    // We always write attempts, also (0, 0) ones that were absent.
    if (again.len == packed.len)
        T_MEM(again.data, packed.data, packed.len);
    else
        T_TRUE(again.len > packed.len && again.len <= packed.len + 2 * 2);
    t_uncut(&cut);
    buf_release(&packed);
    buf_release(&ours);
    buf_release(&again);
    wire_free(back);
    wire_free(m);
}

TEST(wire_ps, round_trips_with_protobuf_c_cut_anywhere)
{
    for (unsigned i = 0; i < 3000; i++)
        round_trip(i % SL_COUNT(tables));
}

TEST(wire_ps, what_is_no_range_of_shared_memory)
{
    static const struct wire_shm wrong[] = {
        {.region = 0, .offset = 0, .bytes = 4},
        {.region = 1, .offset = 0, .bytes = 0},
        {.region = 1, .offset = 0, .bytes = 6},
        {.region = 1, .offset = 2, .bytes = 4},
        {.region = 1, .offset = UINT64_MAX - 3, .bytes = 4},
        {.region = 1, .offset = 8, .bytes = UINT64_MAX - 7}};
    uint8_t head[WIRE_HEAD_MAX];

    for (size_t i = 0; i < 3 * SL_COUNT(wrong); i++) {
        struct wire_push push = a_push(), out;
        struct wire_pull pull = {.job = 1}, pulled;
        struct sl_slice one = {head, 0};
        struct sl_slices s;

        push.shm = push.answer = (struct wire_shm){1, 0, 4};
        push.has_shm = true;
        push.has_answer = i % 3 == 1;
        pull.has_answer = i % 3 == 2;
        *(i % 3 == 0   ? &push.shm
          : i % 3 == 1 ? &push.answer
                       : &pull.answer) = wrong[i / 3];
        one.len = i % 3 == 2 ? wire_encode_pull(head, &pull, 0)
                             : wire_encode_push(head, &push, 0);
        s = slices_one(&one);
        if (i % 3 == 2)
            T_FAILS(SL_EINVAL, wire_read_pull(&pulled, &s, t_err()));
        else
            T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
    }
}

TEST(wire_ps, floats_are_in_one_place)
{
    struct wire_push m = a_push(), out;
    struct wire_push_reply reply = {.result = WIRE_PUSH_COUNTED,
                                    .in_shm = true};
    uint8_t bytes[WIRE_HEAD_MAX + 4] = {0};
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    m.has_shm = true;
    m.shm = (struct wire_shm){1, 0, 4};
    one.len = wire_encode_push(bytes, &m, 4) + 4; // and a payload
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
    m.skip = true; // nothing is to be read
    one.len = wire_encode_push(bytes, &m, 0);
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
    one.len = wire_encode_push_reply(bytes, &reply, 4) + 4;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push_reply(&reply, &s, t_err()));
}

TEST(wire_ps, any_order_and_unknown_fields)
{
    static const float payload[2] = {1.5f, -2};
    struct wire_push in = a_push(), out;
    struct buf b = BUF_INIT;
    uint8_t head[WIRE_HEAD_MAX];
    struct t_cut cut;
    size_t n = wire_encode_push(head, &in, 0);
    float got[2];

    // Payload first; then fields 100 (varint), 101 (length 3), 102 (fixed32).
    T_OK(buf_append(&b, "\x7a\x08", 2));
    T_OK(buf_append(&b, payload, 8));
    T_OK(buf_append(&b, "\xa0\x06\x05\xaa\x06\x03xyz\xb5\x06zzzz", 15));
    T_OK(buf_append(&b, head, n));
    t_cut(&cut, b.data, b.len, 30);
    T_OK(wire_read_push(&out, &cut.all, t_err()));
    T_EQ(out.digest, in.digest);
    T_EQ(out.attempt.n, 9);
    T_EQ(out.payload.bytes, 8);
    slices_copy(got, &out.payload);
    T_MEM(got, payload, 8);
    t_uncut(&cut);
    buf_release(&b);
}

TEST(wire_ps, the_last_of_two_payloads_counts)
{
    struct wire_pull_reply out;
    static const uint8_t bytes[] = {0x7a, 4,    1, 1, 1, 1, 0x08,
                                    3,    0x7a, 4, 2, 2, 2, 2};
    struct sl_slice one = {bytes, sizeof(bytes)};
    struct sl_slices s = slices_one(&one);
    uint8_t got[4];

    T_OK(wire_read_pull_reply(&out, &s, t_err()));
    T_EQ(out.payload.bytes, 4);
    slices_copy(got, &out.payload);
    T_EQ(got[0], 2);
}

TEST(wire_ps, payload_is_not_copied)
{
    struct wire_push m = a_push(), out;
    uint8_t head[WIRE_HEAD_MAX];
    static uint8_t big[4096];
    struct sl_slice at[2] = {{head, 0}, {big, sizeof(big)}};
    struct sl_slices s;

    at[0].len = wire_encode_push(head, &m, sizeof(big));
    s = slices_all(at, 2);
    T_OK(wire_read_push(&out, &s, t_err()));
    T_EQ(out.payload.bytes, sizeof(big));
    struct slices_cursor c;
    size_t n;

    slices_cursor_init(&c, &out.payload);
    T_PTR(slices_next(&c, SIZE_MAX, &n), big);
    T_EQ(n, sizeof(big));
}

static void refused_push(enum sl_err code, const char *why,
                         const struct wire_push *m, size_t payload_bytes)
{
    struct sl_error err = SL_ERROR_INIT;
    uint8_t bytes[WIRE_HEAD_MAX + 64] = {0};
    struct wire_push out;
    struct sl_slice one = {bytes, wire_encode_push(bytes, m, payload_bytes) +
                                      payload_bytes};
    struct sl_slices s = slices_one(&one);

    T_FAILS(code, wire_read_push(&out, &s, &err));
    T_STR(err.text, why);
}

TEST(wire_ps, says_what_a_push_must_say)
{
    struct wire_push m = a_push();

    m.job = 0;
    refused_push(SL_EINVAL, "PushRequest.job is missing", &m, 4);
    m = a_push();
    m.shard = WIRE_SHARDS_MAX;
    refused_push(SL_EINVAL, "PushRequest.shard is 65536; at most 65535", &m, 4);
    m = a_push();
    m.step = WIRE_CLOSURE_STEPS_MAX;
    refused_push(SL_EINVAL, "PushRequest.step is 4096; at most 4095", &m, 4);
    m = a_push();
    refused_push(SL_EINVAL,
                 "PushRequest.payload has 6 bytes, not a multiple of 4 (f32)",
                 &m, 6);
    m.wire = WIRE_BF16;
    refused_push(SL_EINVAL,
                 "PushRequest.payload has 7 bytes, not a multiple of 2 (bf16)",
                 &m, 7);
    m.wire = WIRE_F32;
    m.skip = true;
    refused_push(SL_EINVAL, "PushRequest: a skipped step has a payload", &m, 4);
    m.absent_bytes = 1;
    m.absent[0] = 1;
    refused_push(SL_EINVAL, "PushRequest has both skip and absent", &m, 0);
    m.skip = false;
    m.absent_bytes = 2;
    refused_push(SL_EINVAL, "PushRequest.absent ends with a byte of zeros", &m,
                 4);
}

// Which pieces have no gradient; of all of them there may be no payload.
TEST(wire_ps, a_push_says_what_is_absent)
{
    uint8_t bytes[WIRE_HEAD_MAX + 8] = {0};
    struct wire_push m = a_push(), out;
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    m.absent_bytes = WIRE_ABSENT_BYTES; // with all that a head can have
    memset(m.absent, 0xff, sizeof(m.absent));
    m.token = (struct wire_token){UINT64_MAX, UINT64_MAX};
    m.has_answer = true;
    m.answer = (struct wire_shm){1, UINT64_MAX - 7, 4};
    m.closure = m.based_on = m.map_version = m.samples = UINT64_MAX;
    for (size_t payload = 0; payload <= 8; payload += 8) {
        one.len = wire_encode_push(bytes, &m, payload);
        T_TRUE(one.len <= WIRE_HEAD_MAX);
        one.len += payload;
        s = slices_one(&one);
        T_OK(wire_read_push(&out, &s, t_err()));
        T_EQ(out.payload.bytes, payload);
        T_EQ(out.absent_bytes, WIRE_ABSENT_BYTES);
        T_TRUE(wire_absent(out.absent, out.absent_bytes, WIRE_ABSENT_MAX - 1));
        T_FALSE(wire_absent(out.absent, out.absent_bytes, WIRE_ABSENT_MAX));
    }
}

TEST(wire_ps, a_payload_says_its_type)
{
    struct wire_pull_reply reply = {.version = 3, .wire = WIRE_F16};
    struct wire_pull pull = {.job = 1, .wire = WIRE_BF16};
    uint8_t bytes[WIRE_HEAD_MAX + 64] = {0};
    struct wire_push m = a_push();
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    for (unsigned t = 0; t < WIRE_TYPES; t++) {
        m.wire = (enum wire_type)t;
        // An odd number of 16 bits, and a header that ends before them.
        one.len = wire_encode_push(bytes, &m, t == WIRE_F32 ? 12 : 6);
        T_EQ(bytes[one.len - 2], 0x7a);
        one.len += t == WIRE_F32 ? 12 : 6;
        s = slices_one(&one);
        memset(&m, 0xff, sizeof(m));
        T_OK(wire_read_push(&m, &s, t_err()));
        T_EQ(m.wire, t);
        T_EQ(m.payload.bytes, 3 * wire_type_bytes(m.wire));
    }
    for (unsigned t = WIRE_TYPES; t < WIRE_CODES; t++) { // any bytes
        m.wire = (enum wire_type)t;
        one.len = wire_encode_push(bytes, &m, 5) + 5;
        s = slices_one(&one);
        T_OK(wire_read_push(&m, &s, t_err()));
        T_EQ(m.payload.bytes, 5);
        m.has_shm = true;
        m.shm = (struct wire_shm){1, 0, 8};
        one.len = wire_encode_push(bytes, &m, 0);
        s = slices_one(&one);
        T_FAILS(SL_EINVAL, wire_read_push(&m, &s, t_err()));
        m.has_shm = false;
    }
    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    pull.wire = WIRE_F32;
    T_OK(wire_read_pull(&pull, &s, t_err()));
    T_EQ(pull.wire, WIRE_BF16);
    pull.has_tag = true; // (0,0)
    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&pull, &s, t_err()));
    pull.tag.sequence = 1;
    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    T_OK(wire_read_pull(&pull, &s, t_err()));
    one.len = wire_encode_pull_reply(bytes, &reply, 2) + 2;
    s = slices_one(&one);
    T_OK(wire_read_pull_reply(&reply, &s, t_err()));
    T_EQ(reply.wire, WIRE_F16);
    T_EQ(reply.payload.bytes, 2);
    T_EQ(wire_shm_bytes(WIRE_F32, 3), 12);
    T_EQ(wire_shm_bytes(WIRE_BF16, 3), 8);
    T_EQ(wire_shm_bytes(WIRE_F16, 4), 8);
}

TEST(wire_ps, rows_are_the_end_of_a_payload)
{
    uint8_t bytes[WIRE_HEAD_MAX + 24] = {0};
    struct wire_push m = a_push(), out;
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    for (unsigned i = 0; i < 4; i++) { // of 24 bytes, at last all of them
        m.rows_bytes = 8 * i;
        one.len = wire_encode_push(bytes, &m, 24) + 24;
        s = slices_one(&one);
        T_OK(wire_read_push(&out, &s, t_err()));
        T_EQ(out.rows.bytes, 8 * i);
        T_EQ(out.payload.bytes, 24 - 8 * i);
    }
    m.rows_bytes = 32;
    one.len = wire_encode_push(bytes, &m, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
    m.skip = true;
    m.rows_bytes = 24;
    one.len = wire_encode_push(bytes, &m, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
}

// With several closures, too, which rows are not (L9).
TEST(wire_ps, moments_are_behind_the_payload)
{
    uint8_t bytes[WIRE_HEAD_MAX + 24] = {0};
    struct wire_push m = a_push(), out;
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    m.step = 0;
    m.absent_bytes = 0;
    wire_push_add(&m, &(struct wire_push_key){.closure = m.closure + 1});
    for (unsigned i = 0; i < 2; i++) {
        m.moments_t = 70 * i;
        m.rows_bytes = 16;
        one.len = wire_encode_push(bytes, &m, 24) + 24;
        s = slices_one(&one);
        T_EQ(wire_read_push(&out, &s, NULL), i == 0 ? SL_EINVAL : SL_OK);
    }
    T_EQ(out.moments_t, 70);
    T_EQ(out.rows.bytes, 16);
    m.rows_bytes = 0;
    one.len = wire_encode_push(bytes, &m, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_push(&out, &s, t_err()));
}

TEST(wire_ps, a_pull_of_moments_is_of_nothing_else)
{
    uint8_t bytes[WIRE_HEAD_MAX + 24] = {0};
    struct wire_pull pull = {.job = 1, .job_incarnation = 1, .moments = true};
    struct sl_slice one = {bytes, 0};
    struct wire_pull got;
    struct sl_slices s;

    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    T_OK(wire_read_pull(&got, &s, t_err()));
    T_TRUE(got.moments);
    one.len = wire_encode_pull(bytes, &pull, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&got, &s, t_err()));
    pull.has_tag = true;
    pull.tag = (struct wire_tag){1, 1};
    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&got, &s, t_err()));
}

TEST(wire_ps, a_pull_has_ids_or_the_name_of_a_table)
{
    uint8_t bytes[WIRE_HEAD_MAX + WIRE_NAME_BYTES + 1] = {0};
    struct wire_pull pull = {.job = 1}, pulled;
    struct sl_slice one = {bytes, 0};
    struct sl_slices s;

    one.len = wire_encode_pull(bytes, &pull, 24) + 24;
    s = slices_one(&one);
    T_OK(wire_read_pull(&pulled, &s, t_err()));
    T_EQ(pulled.payload.bytes, 24);
    pull.has_tag = true; // then they are a table's name
    pull.tag.sequence = 1;
    pull.first_record = 7;
    for (unsigned i = 0; i < 2; i++) {
        size_t n = i == 0 ? WIRE_NAME_BYTES : WIRE_NAME_BYTES + 1;

        one.len = wire_encode_pull(bytes, &pull, n) + n;
        s = slices_one(&one);
        T_EQ(wire_read_pull(&pulled, &s, NULL), i == 0 ? SL_OK : SL_EINVAL);
    }
    T_EQ(pulled.first_record, 7);
    pull.ids_of_tag = true; // or ids
    one.len = wire_encode_pull(bytes, &pull, WIRE_NAME_BYTES + 1) +
              WIRE_NAME_BYTES + 1;
    s = slices_one(&one);
    T_OK(wire_read_pull(&pulled, &s, t_err()));
    T_TRUE(pulled.ids_of_tag);
    one.len = wire_encode_pull(bytes, &pull, 0);
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&pulled, &s, t_err()));
    pull.has_tag = false;
    one.len = wire_encode_pull(bytes, &pull, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&pulled, &s, t_err()));
    pull.ids_of_tag = false;
    pull.has_tag = false;
    pull.has_answer = true;
    pull.answer = (struct wire_shm){1, 0, 4};
    one.len = wire_encode_pull(bytes, &pull, 24) + 24;
    s = slices_one(&one);
    T_FAILS(SL_EINVAL, wire_read_pull(&pulled, &s, t_err()));
}

static void refused_bytes(unsigned which, enum sl_err code, const char *bytes,
                          size_t n)
{
    struct sl_slice one = {(const uint8_t *)bytes, n};
    struct sl_slices s = slices_one(&one);
    union any out;

    T_FAILS(code, read_any(which, &out, &s, NULL));
}

TEST(wire_ps, refuses_what_is_no_message)
{
    refused_bytes(0, SL_ECORRUPT, "\x0b\x0c", 2);     // a group
    refused_bytes(0, SL_ECORRUPT, "\x00\x01", 2);     // field 0
    refused_bytes(0, SL_ECORRUPT, "\x0a\x01x", 3);    // job as bytes
    refused_bytes(0, SL_ECORRUPT, "\x32\x05\x08", 3); // reaches past the end
    refused_bytes(0, SL_ECORRUPT, "\x08\xff", 2);     // cut varint
    refused_bytes(0, SL_ECORRUPT,
                  "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                  "\x01",
                  12); // eleven bytes
    refused_bytes(0, SL_EINVAL, "\x08\x01\x18\x80\x80\x80\x80\x10",
                  8);                           // shard 2^32
    refused_bytes(3, SL_EINVAL, "\x08\x01", 2); // no result
    refused_bytes(3, SL_EINVAL, "\x10\x07", 2); // unknown result
    refused_bytes(3, SL_EINVAL, "\x10\x03", 2); // refused, no why
    refused_bytes(3, SL_EINVAL, "\x10\x01\x1a\x02\x08\x01", 6); // counted, why
    refused_bytes(1, SL_EINVAL, "\x22\x00", 2);         // refused without why
    refused_bytes(4, SL_EINVAL, "\x08\x01\x38\x06", 4); // unknown type
    refused_bytes(4, SL_EINVAL, "\x08\x01\x38\x05", 4); // a change in topk2
    refused_bytes(5, SL_EINVAL, "\x20\x06", 2);
    refused_bytes(5, SL_EINVAL, "\x20\x05", 2);
    refused_bytes(5, SL_EINVAL, "\x20\x04\x18\x01", 4); // in shared memory
    refused_bytes(3, SL_EINVAL, "\x10\x01\x38\x04", 4); // of a push
    refused_bytes(5, SL_EINVAL, "\x7a\x02zz", 4);       // half an f32
}

TEST(wire_ps, limits_what_comes_beside_the_payload)
{
    struct buf b = BUF_INIT;
    struct wire_pull_reply out;
    struct sl_slice one;
    struct sl_slices s;

    T_OK(buf_append(&b, "\xaa\x06\x80\x80\x04", 5)); // field 101, 64 KiB
    memset(buf_extend(&b, 65536), 'x', 65536);
    one = (struct sl_slice){b.data, b.len};
    s = slices_one(&one);
    T_FAILS(SL_ERANGE, wire_read_pull_reply(&out, &s, NULL));
    buf_release(&b);
}

// No input may do more than be refused. Sanitizers watch.
TEST(wire_ps, survives_truncation_and_mutation)
{
    for (unsigned i = 0; i < 600; i++) {
        unsigned which = i % SL_COUNT(tables);
        ProtobufCMessage *m = t_random_message(tables[which]->descriptor);
        struct buf packed;

        mend(m, which);
        packed = t_packed(m);
        for (size_t n = 0; n < packed.len; n++) {
            struct t_cut cut;
            union any out;

            t_cut(&cut, packed.data, n, 1 + (unsigned)t_below(3));
            (void)read_any(which, &out, &cut.all, NULL);
            t_uncut(&cut);
        }
        for (unsigned j = 0; packed.len > 0 && j < 40; j++) {
            struct t_cut cut;
            union any out;

            packed.data[t_below(packed.len)] ^= (uint8_t)(1u << t_below(8));
            t_cut(&cut, packed.data, packed.len, 1 + (unsigned)t_below(3));
            (void)read_any(which, &out, &cut.all, NULL);
            t_uncut(&cut);
        }
        buf_release(&packed);
        wire_free(m);
    }
}

TEST(wire_ps, allocates_nothing)
{
    struct wire_push m = a_push(), out;
    uint8_t bytes[WIRE_HEAD_MAX + 64] = {0};
    struct sl_slice one = {bytes, wire_encode_push(bytes, &m, 64) + 64};
    struct sl_slices s = slices_one(&one);
    uint64_t before = sl_mem_calls();

    T_OK(wire_read_push(&out, &s, t_err()));
    T_EQ(sl_mem_calls(), before);
}

TEST(wire_ps, pairs_are_ordered)
{
    struct wire_attempt a = {1, 9}, b = {2, 1}, c = {2, 2};
    struct wire_tag s = {1, 5}, t = {2, 0};

    T_LT(wire_attempt_cmp(a, b), 0);
    T_LT(wire_attempt_cmp(b, c), 0);
    T_GT(wire_attempt_cmp(c, a), 0);
    T_EQ(wire_attempt_cmp(c, c), 0);
    T_LT(wire_tag_cmp(s, t), 0);
    T_LT(wire_tag_cmp(wire_tag_of(NULL), s), 0);
}

// Written, and read again; of its payload only the size can be asked then.
static enum sl_err piece_again(struct wire_piece *got,
                               const struct wire_piece *m,
                               const uint8_t *payload, size_t n,
                               struct sl_error *err)
{
    uint8_t bytes[RPC_MSG_SPACE];
    struct sl_slice one;
    struct sl_slices all;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    T_OK(wire_head_piece(&msg, m, n));
    memcpy(bytes, msg.head, msg.head_bytes);
    memcpy(bytes + msg.head_bytes, payload, n);
    one = (struct sl_slice){bytes, msg.head_bytes + n};
    rpc_msg_drop(&msg);
    all = slices_one(&one);
    return wire_read_piece(got, &all, err);
}

TEST(wire_ps, a_piece_is_read_as_it_was_written)
{
    const struct wire_piece m = {.job = 7,
                                 .generation = 300,
                                 .bucket = 5,
                                 .first = 1u << 20,
                                 .from = 3,
                                 .hop = UINT32_MAX,
                                 .lane = 1,
                                 .wire = WIRE_BF16};
    static const uint8_t payload[6] = {1, 2, 3, 4, 5, 6};
    struct wire_piece got;

    T_OK(piece_again(&got, &m, payload, sizeof(payload), t_err()));
    T_EQ(got.job, m.job);
    T_EQ(got.generation, m.generation);
    T_EQ(got.bucket, m.bucket);
    T_EQ(got.first, m.first);
    T_EQ(got.from, m.from);
    T_EQ(got.hop, m.hop);
    T_EQ(got.lane, m.lane);
    T_EQ(got.wire, m.wire);
    T_EQ(got.payload.bytes, sizeof(payload));
}

TEST(wire_ps, a_piece_is_of_a_lane_that_there_is)
{
    static const uint8_t payload[4] = {1, 2, 3, 4};
    struct wire_piece m = {.job = 7, .generation = 1};

    for (m.lane = 0; m.lane <= WIRE_LANES; m.lane++) {
        struct sl_error err = SL_ERROR_INIT;
        struct wire_piece got;
        enum sl_err rc = piece_again(&got, &m, payload, sizeof(payload), &err);

        T_EQ(rc, m.lane < WIRE_LANES ? SL_OK : SL_EINVAL);
        T_STR(err.text, m.lane < WIRE_LANES
                            ? ""
                            : "PieceRequest.lane is 2; 0 to 1 are allowed");
    }
}

// ---- pushes of several closures

static struct wire_push of_three(void)
{
    struct wire_push m = {.job = 1, .closure = 4, .samples = 2, .skip = true};

    for (uint64_t i = 0; i < 2; i++)
        wire_push_add(&m, &(struct wire_push_key){.closure = 9 - i,
                                                  .attempt = {3, i},
                                                  .samples = 7,
                                                  .digest = ~i});
    return m;
}

static enum sl_err read_back(struct wire_push *out, const struct wire_push *m,
                             struct sl_error *err)
{
    uint8_t head[WIRE_HEAD_MAX];
    struct sl_slice one = {head, wire_encode_push(head, m, 0)};
    struct sl_slices bytes = slices_one(&one);

    return wire_read_push(out, &bytes, err);
}

static void refused(struct wire_push m, const char *words)
{
    struct sl_error err = SL_ERROR_INIT;
    struct wire_push out;

    T_FAILS(SL_EINVAL, read_back(&out, &m, &err));
    T_HAS(err.text, words);
}

TEST(wire_ps, a_push_names_the_closures_that_it_counts)
{
    struct wire_push m = of_three(), out;

    T_OK(read_back(&out, &m, t_err()));
    T_EQ(wire_push_keys(&out), 3);
    T_EQ(wire_push_key(&out, 0).closure, 4);
    T_EQ(wire_push_key(&out, 0).samples, 2);
    T_EQ(wire_push_key(&out, 1).closure, 9);
    T_EQ(wire_push_key(&out, 2).closure, 8);
    T_EQ(wire_push_key(&out, 2).attempt.term, 3);
    T_EQ(wire_push_key(&out, 2).attempt.n, 1);
    T_EQ(wire_push_key(&out, 2).samples, 7);
    T_TRUE(wire_push_key(&out, 2).digest == ~UINT64_C(1));
    m.more_bytes--;
    refused(m, "a closure has 40");
    m = of_three();
    m.closure = 8;
    refused(m, "names closure 8 twice");
    m = of_three();
    m.step = 1;
    refused(m, "a step above 0");
}
