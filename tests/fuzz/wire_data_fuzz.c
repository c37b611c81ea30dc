// SPDX-License-Identifier: Apache-2.0
// The data plane: Ask, Push, Pull and their replies, and a piece of a sum
// between ranks. Byte 0 chooses which.
#include "common/base/mem.h"
#include "tests/harness/payload.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5
#define PAYLOAD_NUMBER 15

union message {
    struct wire_ask ask;
    struct wire_ask_reply ask_reply;
    struct wire_push push;
    struct wire_push_reply push_reply;
    struct wire_pull pull;
    struct wire_pull_reply pull_reply;
    struct wire_piece piece;
};

// One kind of message: read into a union, encode from it.
struct kind {
    enum sl_err (*read)(union message *m, const struct sl_slices *bytes,
                        struct sl_error *err);
    size_t (*encode)(uint8_t out[WIRE_HEAD_MAX], const union message *m,
                     size_t payload);
    const struct sl_slices *(*payload)(const union message *m);
    enum wire_type (*type)(const union message *m);
    // Rows of tables, behind the payload or instead of it; NULL: never any.
    const struct sl_slices *(*rows)(const union message *m);
};

#define READ(name)                                                             \
    static enum sl_err read_##name(                                            \
        union message *m, const struct sl_slices *bytes, struct sl_error *err) \
    {                                                                          \
        return wire_read_##name(&m->name, bytes, err);                         \
    }
#define PLAIN(name)                                                            \
    READ(name)                                                                 \
    static size_t encode_##name(uint8_t *out, const union message *m,          \
                                size_t payload)                                \
    {                                                                          \
        return wire_encode_##name(out, &m->name);                              \
    }                                                                          \
    static const struct kind name = {read_##name, encode_##name, NULL, NULL,   \
                                     NULL};
#define ENCODE(name)                                                           \
    static size_t encode_##name(uint8_t *out, const union message *m,          \
                                size_t payload)                                \
    {                                                                          \
        return wire_encode_##name(out, &m->name, payload);                     \
    }
#define LOADED(name, rows)                                                     \
    READ(name)                                                                 \
    ENCODE(name)                                                               \
    static const struct sl_slices *payload_##name(const union message *m)      \
    {                                                                          \
        return &m->name.payload;                                               \
    }                                                                          \
    static enum wire_type type_##name(const union message *m)                  \
    {                                                                          \
        return m->name.wire;                                                   \
    }                                                                          \
    static const struct kind name = {read_##name, encode_##name,               \
                                     payload_##name, type_##name, rows};

static const struct sl_slices *rows_of_push(const union message *m)
{
    return &m->push.rows;
}

static const struct sl_slices *ids_of_pull(const union message *m)
{
    return &m->pull.payload;
}

PLAIN(ask)
PLAIN(ask_reply)
LOADED(push, rows_of_push)
LOADED(push_reply, NULL)
LOADED(pull_reply, NULL)
LOADED(piece, NULL)
READ(pull)
ENCODE(pull)
static const struct kind pull = {read_pull, encode_pull, NULL, NULL,
                                 ids_of_pull};

static const struct kind *const kinds[] = {
    &ask, &push, &pull, &ask_reply, &push_reply, &pull_reply, &piece};

// The message as the writer makes it, with its payload and rows.
static size_t write_out(const struct kind *k, const union message *m,
                        uint8_t *out)
{
    const struct sl_slices *payload = k->payload ? k->payload(m) : NULL;
    const struct sl_slices *rows = k->rows ? k->rows(m) : NULL;
    size_t bytes = payload ? payload->bytes : 0;
    size_t more = rows ? rows->bytes : 0, n = k->encode(out, m, bytes + more);

    FUZZ_TRUE(n <= WIRE_HEAD_MAX);
    if (bytes > 0) {
        FUZZ_TRUE(bytes % wire_type_bytes(k->type(m)) == 0);
        slices_copy(out + n, payload);
    }
    if (more > 0)
        slices_copy(out + n + bytes, rows);
    return n + bytes + more;
}

// What was accepted is written, read again and written the same.
static void again(const struct kind *k, const uint8_t *first, size_t n,
                  uint8_t *second)
{
    struct sl_slice one = {first, n};
    struct sl_slices all = slices_one(&one);
    union message m;

    FUZZ_TRUE(k->read(&m, &all, NULL) == SL_OK);
    FUZZ_TRUE(write_out(k, &m, second) == n);
    FUZZ_TRUE(memcmp(first, second, n) == 0);
}

// The other reader of such messages agrees about what is one at all.
static void split(const struct sl_slices *bytes, bool accepted)
{
    struct payload_parts parts;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = payload_split(&parts, bytes, PAYLOAD_NUMBER, 0, &err);

    if (rc == SL_OK) {
        FUZZ_TRUE(parts.head_bytes + parts.payload.bytes <= bytes->bytes);
        payload_release(&parts);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(!accepted || rc == SL_ERANGE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct kind *k;
    struct sl_error err = SL_ERROR_INIT;
    struct fuzz_cut cut;
    struct sl_slice one;
    struct sl_slices all;
    union message m, pieces;
    uint8_t *first, *second;
    enum sl_err rc;

    if (size == 0)
        return 0;
    k = kinds[data[0] % SL_COUNT(kinds)];
    one = (struct sl_slice){data + 1, size - 1};
    all = slices_one(&one);
    fuzz_cut_init(&cut, data + 1, size - 1);
    fuzz_budget(0); // the data plane allocates nothing
    memset(&m, UNTOUCHED, sizeof(m));
    memset(&pieces, UNTOUCHED, sizeof(pieces));
    rc = k->read(&m, &all, &err);
    FUZZ_TRUE(k->read(&pieces, &cut.slices, NULL) == rc);
    fuzz_budget(4 * size + 65536);
    split(&cut.slices, rc == SL_OK && k->payload != NULL);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(fuzz_all(&m, UNTOUCHED, sizeof(m)));
        FUZZ_TRUE(fuzz_all(&pieces, UNTOUCHED, sizeof(pieces)));
        return 0;
    }
    fuzz_budget(SIZE_MAX);
    first = sl_malloc(size + WIRE_HEAD_MAX);
    second = sl_malloc(size + WIRE_HEAD_MAX);
    FUZZ_TRUE(first != NULL && second != NULL);
    size = write_out(k, &m, first);
    again(k, first, size, second);
    FUZZ_TRUE(write_out(k, &pieces, second) == size);
    FUZZ_TRUE(memcmp(first, second, size) == 0);
    sl_free(first);
    sl_free(second);
    return 0;
}
