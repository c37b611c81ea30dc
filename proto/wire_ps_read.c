// SPDX-License-Identifier: Apache-2.0
// proto/wire_ps_read.c -- the reader of the data plane: a walk over slices,
// byte by byte, that allocates nothing.
//
// A message may be cut anywhere; the payload is one range of it and is left
// where it lies.
#include "proto/wire_ps.h"

#include <string.h>

// A place in the slices of a message, and the end of the (sub)message.
struct wire_walk {
    const struct sl_slice *slice;
    size_t offset;  // into the slice
    size_t at, end; // bytes of the whole message
};

static void walk_init(struct wire_walk *w, const struct sl_slices *s)
{
    w->slice = s->at;
    w->offset = s->offset_bytes;
    w->at = 0;
    w->end = s->bytes;
}

// n <= w->end - w->at. `to` may be NULL.
static void walk_take(struct wire_walk *w, uint8_t *to, size_t n)
{
    w->at += n;
    while (n > 0) {
        size_t run;

        while (w->offset >= w->slice->len) {
            w->offset -= w->slice->len;
            w->slice++;
        }
        run = w->slice->len - w->offset;
        if (run > n)
            run = n;
        if (to != NULL) {
            memcpy(to, w->slice->data + w->offset, run);
            to += run;
        }
        w->offset += run;
        n -= run;
    }
}

static bool walk_varint(struct wire_walk *w, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && w->at < w->end; shift += 7) {
        uint8_t byte;

        walk_take(w, &byte, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool walk_fixed64(struct wire_walk *w, uint64_t *out)
{
    uint8_t bytes[8];
    uint64_t value = 0;

    if (w->end - w->at < 8)
        return false;
    walk_take(w, bytes, 8);
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    *out = value;
    return true;
}

static bool walk_length(struct wire_walk *w, size_t *out)
{
    uint64_t n;

    if (!walk_varint(w, &n) || n > w->end - w->at)
        return false;
    *out = (size_t)n;
    return true;
}

// Steps over the value of a field that is not known.
static bool walk_skip(struct wire_walk *w, unsigned type)
{
    uint64_t ignored;
    size_t n = 0;

    switch (type) {
    case 0:
        return walk_varint(w, &ignored);
    case 1:
        n = 8;
        break;
    case 2:
        if (!walk_length(w, &n))
            return false;
        break;
    case 5:
        n = 4;
        break;
    default: // groups: no message of ours ever had one
        return false;
    }
    if (n > w->end - w->at)
        return false;
    walk_take(w, NULL, n);
    return true;
}

static enum sl_err wire_fail_corrupt(const struct wire_table *table, size_t at,
                                     const char *field, struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT, "%s: not readable at byte %zu%s%s",
                   table->name, at, field != NULL ? ", field " : "",
                   field != NULL ? field : "");
}

static enum sl_err store_number(const struct wire_table *table,
                                const struct wire_field *f, void *to,
                                uint64_t value, struct sl_error *err)
{
    uint64_t max = f->kind == WIRE_U32    ? UINT32_MAX
                   : f->kind == WIRE_ENUM ? f->max
                                          : UINT64_MAX;

    if (value > max)
        return sl_fail(err, SL_EINVAL, "%s.%s is %llu; the highest is %llu",
                       table->name, f->name, (unsigned long long)value,
                       (unsigned long long)max);
    if (f->kind == WIRE_BOOL)
        *(bool *)to = value != 0;
    else if (f->kind == WIRE_U32 || f->kind == WIRE_ENUM)
        *(uint32_t *)to = (uint32_t)value;
    else
        *(uint64_t *)to = value;
    return SL_OK;
}

// What a read has seen of its outermost message.
struct seen {
    uint32_t numbers; // bit n: field n
    size_t payload_at, payload_bytes;
    size_t payload_all; // with earlier ones: the last payload counts
};

static enum sl_err read_fields(struct wire_walk *w,
                               const struct wire_table *table, void *out,
                               struct seen *seen, struct sl_error *err);

static enum sl_err read_block(struct wire_walk *w,
                              const struct wire_table *table,
                              const struct wire_field *f, void *to,
                              struct seen *seen, struct sl_error *err)
{
    size_t n, at = w->at;

    if (!walk_length(w, &n))
        return wire_fail_corrupt(table, at, f->name, err);
    if (f->kind == WIRE_PAYLOAD) {
        seen->payload_at = w->at;
        seen->payload_bytes = n;
        seen->payload_all += n;
        walk_take(w, NULL, n);
        return SL_OK;
    }
    if (f->kind == WIRE_BYTES) {
        if (n > f->max)
            return sl_fail(err, SL_ERANGE, "%s.%s has %zu bytes; at most %u",
                           table->name, f->name, n, f->max);
        *(size_t *)to = n;
        walk_take(w, (uint8_t *)to + sizeof(size_t), n);
        return SL_OK;
    }
    // A submessage that comes twice is merged, as every reader does it. The
    // tables are two levels deep, so this recursion is too.
    struct wire_walk inner = *w;
    struct seen ignored = {0, 0, 0, 0};
    enum sl_err rc;

    inner.end = inner.at + n;
    rc = read_fields(&inner, f->of, to, &ignored, err);
    if (rc != SL_OK)
        return rc;
    walk_take(w, NULL, n);
    return SL_OK;
}

static const struct wire_field *wire_find_field(const struct wire_table *table,
                                                uint64_t number)
{
    for (unsigned i = 0; i < table->count; i++)
        if (table->fields[i].number == number)
            return &table->fields[i];
    return NULL;
}

static enum sl_err read_field(struct wire_walk *w,
                              const struct wire_table *table,
                              const struct wire_field *f, unsigned type,
                              void *out, struct seen *seen,
                              struct sl_error *err)
{
    unsigned want = f->kind == WIRE_FIXED64   ? 1
                    : f->kind >= WIRE_MESSAGE ? 2
                                              : 0;
    uint8_t *to = (uint8_t *)out + f->at;
    size_t at = w->at;
    uint64_t value;

    if (type != want)
        return wire_fail_corrupt(table, at, f->name, err);
    seen->numbers |= 1u << f->number;
    if (want == 2)
        return read_block(w, table, f, to, seen, err);
    if (want == 1 ? !walk_fixed64(w, &value) : !walk_varint(w, &value))
        return wire_fail_corrupt(table, at, f->name, err);
    return store_number(table, f, to, value, err);
}

static enum sl_err read_fields(struct wire_walk *w,
                               const struct wire_table *table, void *out,
                               struct seen *seen, struct sl_error *err)
{
    while (w->at < w->end) {
        const struct wire_field *f;
        size_t at = w->at;
        uint64_t key;
        enum sl_err rc;

        if (!walk_varint(w, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
            return wire_fail_corrupt(table, at, NULL, err);
        f = wire_find_field(table, key >> 3);
        if (f == NULL) {
            if (!walk_skip(w, key & 7))
                return wire_fail_corrupt(table, at, NULL, err);
            continue;
        }
        rc = read_field(w, table, f, key & 7, out, seen, err);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

// `out` is zeroed and then filled; payload, if the message has one, is set.
static enum sl_err wire_read_message(const struct wire_table *table, void *out,
                                     size_t out_bytes,
                                     struct sl_slices *payload,
                                     const struct sl_slices *bytes,
                                     struct seen *seen, struct sl_error *err)
{
    struct wire_walk w;
    enum sl_err rc;

    memset(out, 0, out_bytes);
    memset(seen, 0, sizeof(*seen));
    walk_init(&w, bytes);
    rc = read_fields(&w, table, out, seen, err);
    if (rc != SL_OK)
        return rc;
    if (bytes->bytes - seen->payload_all > WIRE_REST_MAX)
        return sl_fail(
            err, SL_ERANGE, "%s has %zu bytes beside its payload; at most %zu",
            table->name, bytes->bytes - seen->payload_all, WIRE_REST_MAX);
    if (payload == NULL)
        return SL_OK;
    if (seen->payload_bytes == 0) {
        *payload = SL_SLICES_NONE;
        return SL_OK;
    }
    return slices_sub(payload, bytes, seen->payload_at, seen->payload_bytes);
}

// ---- what the fields must say

static enum sl_err check_ids(const struct wire_table *table, uint64_t job,
                             uint32_t shard, struct sl_error *err)
{
    if (job == 0)
        return sl_fail(err, SL_EINVAL, "%s.job is missing", table->name);
    if (shard >= WIRE_SHARDS_MAX)
        return sl_fail(err, SL_EINVAL, "%s.shard is %u; at most %u",
                       table->name, shard, WIRE_SHARDS_MAX - 1);
    return SL_OK;
}

// `end`: the first type that this message does not take.
static enum sl_err check_type(const struct wire_table *table,
                              enum wire_type type, unsigned end,
                              struct sl_error *err)
{
    if (type < end)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "%s.wire is %s; %s is the last that it takes", table->name,
                   wire_type_names[type], wire_type_names[end - 1]);
}

// A payload has whole elements.
static enum sl_err check_whole(const struct wire_table *table,
                               const struct sl_slices *payload,
                               enum wire_type type, struct sl_error *err)
{
    size_t element = type < WIRE_TYPES ? wire_type_bytes(type) : 1;

    if (payload->bytes % element != 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.payload has %zu bytes, not a multiple of %zu (%s)",
                       table->name, payload->bytes, element,
                       wire_type_names[type]);
    return SL_OK;
}

// `there`: the message has a Refused; it must then say why.
static enum sl_err check_refused(const struct wire_table *table, bool there,
                                 bool wanted, const struct wire_refused *r,
                                 struct sl_error *err)
{
    if (there && r->why == WIRE_REFUSED_NOT)
        return sl_fail(err, SL_EINVAL, "%s.refused does not say why",
                       table->name);
    if (there != wanted)
        return sl_fail(err, SL_EINVAL, "%s.refused does not fit the result",
                       table->name);
    return SL_OK;
}

// `field` is a ShmRef's. Whether the region is there and large enough is the
// psserver's question.
static enum sl_err check_shm(const struct wire_table *table, const char *field,
                             const struct wire_shm *r, struct sl_error *err)
{
    uint64_t end;

    if (r->region == 0)
        return sl_fail(err, SL_EINVAL, "%s.%s.region is missing", table->name,
                       field);
    if (r->bytes == 0 || r->bytes % sizeof(float) != 0 ||
        r->offset % sizeof(float) != 0 ||
        __builtin_add_overflow(r->offset, r->bytes, &end))
        return sl_fail(err, SL_EINVAL,
                       "%s.%s: %llu bytes at %llu; both must be multiples of "
                       "4, and not 0 bytes",
                       table->name, field, (unsigned long long)r->bytes,
                       (unsigned long long)r->offset);
    return SL_OK;
}

enum sl_err wire_read_ask(struct wire_ask *out, const struct sl_slices *bytes,
                          struct sl_error *err)
{
    const struct wire_table *table = &wire_table_ask;
    struct wire_ask m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), NULL, bytes, &seen, err);
    if (rc == SL_OK)
        rc = check_ids(table, m.job, m.shard, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_ask_reply(struct wire_ask_reply *out,
                                const struct sl_slices *bytes,
                                struct sl_error *err)
{
    const struct wire_table *table = &wire_table_ask_reply;
    struct wire_ask_reply m;
    struct seen seen;
    bool refused;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), NULL, bytes, &seen, err);
    if (rc != SL_OK)
        return rc;
    refused = seen.numbers >> 4 & 1;
    rc = check_refused(table, refused, refused, &m.refused, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

// Takes the rows, which are the end of the payload, out of it.
static enum sl_err split_rows(const struct wire_table *table,
                              struct wire_push *m, struct sl_error *err)
{
    struct sl_slices all = m->payload;

    if (m->moments_t > 0 && m->rows_bytes == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.moments_t is %llu, and there are no moments",
                       table->name, (unsigned long long)m->moments_t);
    if (m->rows_bytes > all.bytes || (m->skip && m->rows_bytes > 0))
        return sl_fail(err, SL_EINVAL,
                       "%s.rows_bytes is %llu; the payload has %zu bytes%s",
                       table->name, (unsigned long long)m->rows_bytes,
                       all.bytes, m->skip ? ", and the step is skipped" : "");
    m->rows = m->payload = SL_SLICES_NONE;
    if (m->rows_bytes > 0)
        (void)slices_sub(&m->rows, &all, all.bytes - m->rows_bytes,
                         m->rows_bytes);
    if (all.bytes > m->rows_bytes)
        (void)slices_sub(&m->payload, &all, 0, all.bytes - m->rows_bytes);
    return SL_OK;
}

// Checks the closures that a push counts besides the first.
static enum sl_err check_more(const struct wire_table *table,
                              const struct wire_push *m, struct sl_error *err)
{
    size_t n = wire_push_keys(m);

    if (m->more_bytes == 0)
        return SL_OK;
    if (m->more_bytes % WIRE_KEY_BYTES != 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.more has %zu bytes; a closure has %d", table->name,
                       m->more_bytes, WIRE_KEY_BYTES);
    if (m->step > 0 || m->absent_bytes > 0 ||
        (m->rows_bytes > 0 && m->moments_t == 0))
        return sl_fail(err, SL_EINVAL,
                       "%s has more, and a step above 0, absent or rows",
                       table->name);
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (wire_push_key(m, i).closure == wire_push_key(m, k).closure)
                return sl_fail(err, SL_EINVAL,
                               "%s.more names closure %llu twice", table->name,
                               (unsigned long long)wire_push_key(m, i).closure);
    return SL_OK;
}

enum sl_err wire_read_push(struct wire_push *out, const struct sl_slices *bytes,
                           struct sl_error *err)
{
    const struct wire_table *table = &wire_table_push;
    struct wire_push m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);
    if (rc == SL_OK)
        rc = check_ids(table, m.job, m.shard, err);
    if (rc == SL_OK)
        rc = split_rows(table, &m, err);
    if (rc == SL_OK)
        rc = check_whole(table, &m.payload, m.wire, err);
    if (rc != SL_OK)
        return rc;
    if (m.step >= WIRE_CLOSURE_STEPS_MAX)
        return sl_fail(err, SL_EINVAL, "%s.step is %u; at most %u", table->name,
                       m.step, WIRE_CLOSURE_STEPS_MAX - 1);
    m.has_shm = seen.numbers >> 13 & 1;
    m.has_answer = seen.numbers >> 14 & 1;
    if (m.wire >= WIRE_TYPES && (m.has_shm || m.has_answer))
        return sl_fail(err, SL_EINVAL,
                       "%s has shared memory, and wire is %s, which is sent as "
                       "bytes",
                       table->name, wire_type_names[m.wire]);
    if (m.has_shm && m.payload.bytes > 0)
        return sl_fail(err, SL_EINVAL, "%s has both shm and a payload",
                       table->name);
    rc = check_more(table, &m, err);
    if (rc != SL_OK)
        return rc;
    if (m.skip && m.absent_bytes > 0)
        return sl_fail(err, SL_EINVAL, "%s has both skip and absent",
                       table->name);
    if (m.absent_bytes > 0 && m.absent[m.absent_bytes - 1] == 0)
        return sl_fail(err, SL_EINVAL, "%s.absent ends with a byte of zeros",
                       table->name);
    // Whether one is missing is the shard's to say: one of rows alone has none.
    if (m.skip && (m.payload.bytes > 0 || m.has_shm))
        return sl_fail(err, SL_EINVAL, "%s: a skipped step has a payload",
                       table->name);
    rc = m.has_shm ? check_shm(table, "shm", &m.shm, err) : SL_OK;
    if (rc == SL_OK && m.has_answer)
        rc = check_shm(table, "answer", &m.answer, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

// Parameters are whole, and in one place.
static enum sl_err check_place(const struct wire_table *table, bool in_shm,
                               const struct sl_slices *payload,
                               enum wire_type type, struct sl_error *err)
{
    if (in_shm && payload->bytes > 0)
        return sl_fail(err, SL_EINVAL, "%s has a payload, and in_shm is set",
                       table->name);
    return check_whole(table, payload, type, err);
}

enum sl_err wire_read_push_reply(struct wire_push_reply *out,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err)
{
    const struct wire_table *table = &wire_table_push_reply;
    struct wire_push_reply m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);
    if (rc != SL_OK)
        return rc;
    rc = check_type(table, m.wire, WIRE_TYPES, err);
    if (rc != SL_OK)
        return rc;
    if (m.result == WIRE_PUSH_UNKNOWN)
        return sl_fail(err, SL_EINVAL, "%s.result is missing", table->name);
    rc = check_refused(table, seen.numbers >> 3 & 1,
                       m.result == WIRE_PUSH_REFUSED, &m.refused, err);
    if (rc == SL_OK)
        rc = check_place(table, m.in_shm, &m.payload, m.wire, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_pull(struct wire_pull *out, const struct sl_slices *bytes,
                           struct sl_error *err)
{
    const struct wire_table *table = &wire_table_pull;
    struct wire_pull m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);
    if (rc == SL_OK)
        rc = check_ids(table, m.job, m.shard, err);
    if (rc == SL_OK)
        rc = check_type(table, m.wire, WIRE_TOPK2, err);
    if (rc != SL_OK)
        return rc;
    m.has_tag = seen.numbers >> 5 & 1;
    if (m.has_tag && m.tag.incarnation == 0 && m.tag.sequence == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.tag is (0,0): the seed, of which there is no file",
                       table->name);
    m.has_answer = seen.numbers >> 6 & 1;
    if (m.wire >= WIRE_TYPES && (m.has_answer || m.payload.bytes > 0))
        return sl_fail(err, SL_EINVAL,
                       "%s has %s, and wire is %s, which is of parameters sent "
                       "as bytes",
                       table->name, m.has_answer ? "shared memory" : "ids",
                       wire_type_names[m.wire]);
    if (m.payload.bytes > 0 && m.has_answer)
        return sl_fail(err, SL_EINVAL, "%s is of rows, and has shared memory",
                       table->name);
    if (m.moments && (m.has_tag || m.has_answer || m.payload.bytes > 0))
        return sl_fail(err, SL_EINVAL,
                       "%s is of moments, and has a tag, shared memory or ids",
                       table->name);
    if (m.ids_of_tag && (!m.has_tag || m.payload.bytes == 0))
        return sl_fail(err, SL_EINVAL,
                       "%s.ids_of_tag is set, and there is no tag, or no ids",
                       table->name);
    if (m.has_tag && !m.ids_of_tag && m.payload.bytes > WIRE_NAME_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "%s has a tag, and %zu bytes as the name of a table",
                       table->name, m.payload.bytes);
    if (m.has_answer)
        rc = check_shm(table, "answer", &m.answer, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_pull_reply(struct wire_pull_reply *out,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err)
{
    const struct wire_table *table = &wire_table_pull_reply;
    struct wire_pull_reply m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);
    if (rc == SL_OK)
        rc = check_type(table, m.wire, m.in_shm ? WIRE_TYPES : WIRE_TOPK2, err);
    if (rc == SL_OK)
        rc = check_place(table, m.in_shm, &m.payload, m.wire, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_piece(struct wire_piece *out,
                            const struct sl_slices *bytes, struct sl_error *err)
{
    const struct wire_table *table = &wire_table_piece;
    struct wire_piece m;
    struct seen seen;
    enum sl_err rc;

    rc = wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);
    if (rc == SL_OK)
        rc = check_ids(table, m.job, 0, err);
    if (rc == SL_OK)
        rc = check_type(table, m.wire, WIRE_TYPES, err);
    if (rc == SL_OK)
        rc = check_whole(table, &m.payload, m.wire, err);
    if (rc == SL_OK && m.payload.bytes == 0)
        rc = sl_fail(err, SL_EINVAL, "%s.payload is missing", table->name);
    if (rc == SL_OK && m.lane >= WIRE_LANES)
        rc = sl_fail(err, SL_EINVAL, "%s.lane is %u; 0 to %d are allowed",
                     table->name, m.lane, WIRE_LANES - 1);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_state_reply(struct wire_state_reply *out,
                                  const struct sl_slices *bytes,
                                  struct sl_error *err)
{
    struct wire_state_reply m;
    struct seen seen;
    enum sl_err rc = wire_read_message(&wire_table_state_reply, &m, sizeof(m),
                                       &m.payload, bytes, &seen, err);

    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_follow(struct wire_follow *out,
                             const struct sl_slices *bytes,
                             struct sl_error *err)
{
    const struct wire_table *table = &wire_table_follow;
    struct wire_follow m;
    struct seen seen;
    enum sl_err rc =
        wire_read_message(table, &m, sizeof(m), &m.payload, bytes, &seen, err);

    if (rc == SL_OK)
        rc = check_ids(table, m.job, m.shard, err);
    if (rc == SL_OK && (m.order == 0 || m.number == 0))
        rc = sl_fail(err, SL_EINVAL, "%s.%s is missing", table->name,
                     m.order == 0 ? "order" : "number");
    if (rc == SL_OK)
        *out = m;
    return rc;
}

enum sl_err wire_read_follow_reply(struct wire_follow_reply *out,
                                   const struct sl_slices *bytes,
                                   struct sl_error *err)
{
    struct wire_follow_reply m;
    struct seen seen;
    enum sl_err rc = wire_read_message(&wire_table_follow_reply, &m, sizeof(m),
                                       NULL, bytes, &seen, err);

    if (rc == SL_OK)
        *out = m;
    return rc;
}
