// SPDX-License-Identifier: Apache-2.0
// state/shard/oplog.c -- see oplog.h.
#include "state/shard/oplog.h"

#include <endian.h>
#include <string.h>

#include "common/base/mem.h"

// ---- numbers, little-endian

static void oplog_write_number(uint8_t *to, uint64_t value)
{
    uint64_t little = htole64(value);

    memcpy(to, &little, sizeof(little));
}

static uint64_t oplog_read_number(const uint8_t *from)
{
    uint64_t little;

    memcpy(&little, from, sizeof(little));
    return le64toh(little);
}

// ---- the log

void oplog_init(struct oplog *f)
{
    *f = (struct oplog){.order = 0};
    list_init(&f->records);
}

void oplog_unref(struct oplog_record *r)
{
    if (r != NULL && atomic_fetch_sub(&r->refs, 1) == 1)
        sl_free(r);
}

static void oplog_drop_first(struct oplog *f)
{
    struct oplog_record *r =
        list_entry(list_pop_front(&f->records), struct oplog_record, node);

    f->bytes -= r->bytes;
    oplog_unref(r);
}

static void oplog_drop_all(struct oplog *f)
{
    while (!list_empty(&f->records))
        oplog_drop_first(f);
}

void oplog_release(struct oplog *f)
{
    oplog_drop_all(f);
    f->order = 0;
}

void oplog_begin(struct oplog *f, uint64_t order, size_t most)
{
    oplog_drop_all(f);
    f->order = order;
    f->most = most;
    f->last = f->acked = 0;
    f->over = NULL;
    f->ended = false;
}

void oplog_stop(struct oplog *f, const char *why)
{
    if (f->order == 0)
        return;
    oplog_drop_all(f);
    if (f->over == NULL)
        f->over = why;
}

static void oplog_mark(struct oplog_record *r, enum oplog_kind kind)
{
    r->data[OPLOG_RECORD_HEAD - 1] = (uint8_t)kind;
}

void oplog_put(struct oplog *f, enum oplog_kind kind, struct oplog_record *r)
{
    if (!oplog_goes_on(f)) {
        oplog_unref(r);
        return;
    }
    if (r == NULL || r->bytes > f->most - f->bytes) {
        oplog_unref(r);
        oplog_stop(f, r == NULL ? "no memory for its log"
                                : "its log is full: the follower is too slow");
        return;
    }
    oplog_mark(r, kind);
    r->number = ++f->last;
    f->bytes += r->bytes;
    f->ended = kind == OPLOG_END;
    list_push_back(&f->records, &r->node);
}

void oplog_acked(struct oplog *f, uint64_t applied)
{
    if (f->order == 0 || applied > f->last || applied <= f->acked)
        return;
    f->acked = applied;
    while (!list_empty(&f->records) &&
           list_entry(list_first(&f->records), struct oplog_record, node)
                   ->number <= applied)
        oplog_drop_first(f);
}

struct oplog_record *oplog_next(struct oplog *f, uint64_t after)
{
    list_for(n, &f->records)
    {
        struct oplog_record *r = list_entry(n, struct oplog_record, node);

        if (r->number <= after)
            continue;
        atomic_fetch_add(&r->refs, 1);
        return r;
    }
    return NULL;
}

// ---- records

// Makes a record without a kind, of so many bytes behind its head.
static struct oplog_record *oplog_record_new(size_t bytes)
{
    struct oplog_record *r = sl_malloc(sizeof(*r) + OPLOG_RECORD_HEAD + bytes);

    if (r == NULL)
        return NULL;
    list_node_init(&r->node);
    atomic_init(&r->refs, 1);
    r->number = 0;
    r->bytes = OPLOG_RECORD_HEAD + bytes;
    oplog_write_number(r->data, bytes);
    return r;
}

// What belongs to the call is left out: where its payload lay, and its token.
struct oplog_record *oplog_push(const struct wire_push *push)
{
    size_t payload = push->payload.bytes + push->rows.bytes, n;
    struct wire_push m = *push;
    uint8_t head[WIRE_HEAD_MAX];
    struct oplog_record *r;
    uint8_t *to;

    m.has_shm = m.has_answer = false;
    m.token = (struct wire_token){0, 0};
    m.rows_bytes = push->rows.bytes;
    n = wire_encode_push(head, &m, payload);
    r = oplog_record_new(n + payload);
    if (r == NULL)
        return NULL;
    to = r->data + OPLOG_RECORD_HEAD;
    memcpy(to, head, n);
    slices_copy(to + n, &push->payload);
    slices_copy(to + n + push->payload.bytes, &push->rows);
    return r;
}

static struct oplog_record *oplog_one(uint64_t number)
{
    struct oplog_record *r = oplog_record_new(sizeof(number));

    if (r != NULL)
        oplog_write_number(r->data + OPLOG_RECORD_HEAD, number);
    return r;
}

struct oplog_record *oplog_close(uint64_t closure)
{
    return oplog_one(closure);
}

struct oplog_record *oplog_tag(uint64_t sequence)
{
    return oplog_one(sequence);
}

struct oplog_record *oplog_rates(const struct rates *rates)
{
    struct oplog_record *r = oplog_record_new(rates->count * OPLOG_RATE_BYTES);
    uint64_t bits;

    for (uint32_t i = 0; r != NULL && i < rates->count; i++) {
        uint8_t *to = r->data + OPLOG_RECORD_HEAD + i * OPLOG_RATE_BYTES;

        memcpy(&bits, &rates->step[i].rate, sizeof(bits));
        oplog_write_number(to, rates->step[i].closure);
        oplog_write_number(to + 8, bits);
    }
    return r;
}

struct oplog_record *oplog_end(const struct oplog_sum *sum)
{
    struct oplog_record *r = oplog_record_new(OPLOG_END_BYTES);
    uint8_t *to;

    if (r == NULL)
        return NULL;
    to = r->data + OPLOG_RECORD_HEAD;
    oplog_write_number(to, sum->steps);
    oplog_write_number(to + 8, sum->low);
    oplog_write_number(to + 16, sum->version);
    oplog_write_number(to + 24, sum->samples);
    oplog_write_number(to + 32, sum->digest);
    oplog_write_number(to + 40, sum->sequence);
    return r;
}

struct oplog_sum oplog_sum_of(const struct once *once)
{
    struct oplog_sum sum = {.steps = counted_steps(&once->counted),
                            .low = counted_low(&once->counted),
                            .version = once_version(once)};

    for (size_t i = 0; i < once->epoch_count; i++) {
        sum.samples += once->epochs[i].samples;
        sum.digest += once->epochs[i].digest;
    }
    return sum;
}

// ---- reading

enum sl_err oplog_read(struct oplog_op *out, const struct sl_slices *message,
                       size_t *at, struct sl_error *err)
{
    uint8_t head[OPLOG_RECORD_HEAD];
    struct sl_slices part;
    uint64_t kind, n;

    if (slices_sub(&part, message, *at, sizeof(head)) != SL_OK)
        return sl_fail(err, SL_EINVAL,
                       "FollowRequest.payload ends within a record");
    slices_copy(head, &part);
    n = oplog_read_number(head);
    kind = n >> 56;
    n &= (UINT64_C(1) << 56) - 1;
    if (kind == 0 || kind >= OPLOG_KINDS)
        return sl_fail(err, SL_EINVAL,
                       "FollowRequest.payload: no operation has kind %u",
                       (unsigned)kind);
    if (slices_sub(&out->bytes, message, *at + sizeof(head), (size_t)n) !=
        SL_OK)
        return sl_fail(err, SL_EINVAL,
                       "FollowRequest.payload: a record of %llu bytes does not "
                       "fit",
                       (unsigned long long)n);
    out->kind = (enum oplog_kind)kind;
    *at += sizeof(head) + (size_t)n;
    return SL_OK;
}

static enum sl_err oplog_check_length(const struct oplog_op *op, bool fits,
                                      const char *what, struct sl_error *err)
{
    return fits ? SL_OK
                : sl_fail(err, SL_EINVAL,
                          "FollowRequest.payload: %zu bytes are no %s",
                          op->bytes.bytes, what);
}

enum sl_err oplog_read_one(uint64_t *number, const struct oplog_op *op,
                           struct sl_error *err)
{
    uint8_t bytes[8];
    enum sl_err rc =
        oplog_check_length(op, op->bytes.bytes == sizeof(bytes), "number", err);

    if (rc != SL_OK)
        return rc;
    slices_copy(bytes, &op->bytes);
    *number = oplog_read_number(bytes);
    return SL_OK;
}

enum sl_err oplog_read_rates(struct rates *out, const struct oplog_op *op,
                             struct sl_error *err)
{
    uint8_t bytes[RATES_MAX * OPLOG_RATE_BYTES];
    struct rates made = {.count = 0};
    size_t n = op->bytes.bytes / OPLOG_RATE_BYTES;
    enum sl_err rc = oplog_check_length(
        op, n <= RATES_MAX && op->bytes.bytes % OPLOG_RATE_BYTES == 0, "rates",
        err);
    uint64_t bits;

    if (rc != SL_OK)
        return rc;
    slices_copy(bytes, &op->bytes);
    for (size_t i = 0; i < n; i++) {
        struct rates_step *step = &made.step[made.count++];

        step->closure = oplog_read_number(bytes + i * OPLOG_RATE_BYTES);
        bits = oplog_read_number(bytes + i * OPLOG_RATE_BYTES + 8);
        memcpy(&step->rate, &bits, sizeof(bits));
    }
    if (!rates_valid(&made))
        return sl_fail(err, SL_EINVAL,
                       "FollowRequest.payload: closures of rates do not rise");
    *out = made;
    return SL_OK;
}

enum sl_err oplog_read_end(struct oplog_sum *out, const struct oplog_op *op,
                           struct sl_error *err)
{
    uint8_t bytes[OPLOG_END_BYTES];
    enum sl_err rc =
        oplog_check_length(op, op->bytes.bytes == sizeof(bytes), "end", err);

    if (rc != SL_OK)
        return rc;
    slices_copy(bytes, &op->bytes);
    *out = (struct oplog_sum){.steps = oplog_read_number(bytes),
                              .low = oplog_read_number(bytes + 8),
                              .version = oplog_read_number(bytes + 16),
                              .samples = oplog_read_number(bytes + 24),
                              .digest = oplog_read_number(bytes + 32),
                              .sequence = oplog_read_number(bytes + 40)};
    return SL_OK;
}
