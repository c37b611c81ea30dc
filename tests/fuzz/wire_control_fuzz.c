// SPDX-License-Identifier: Apache-2.0
// The control plane: Attend both ways, every request and reply of Jobs, and
// the messages that snapshots hold. Byte 0 chooses which.
#include <jansson.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/net/wirescan.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/harness/pb_text.h"

#define UNTOUCHED ((ProtobufCMessage *)(uintptr_t)0xa5)

typedef enum sl_err (*unpack_fn)(ProtobufCMessage **out,
                                 struct wire_arena *arena,
                                 const struct sl_slices *bytes,
                                 struct sl_error *err);

#define UNPACK(name, Type)                                                     \
    static enum sl_err unpack_##name(                                          \
        ProtobufCMessage **out, struct wire_arena *arena,                      \
        const struct sl_slices *bytes, struct sl_error *err)                   \
    {                                                                          \
        Sluice__V1__##Type *m = NULL;                                          \
        enum sl_err rc = wire_unpack_##name(&m, arena, bytes, err);            \
                                                                               \
        if (rc == SL_OK)                                                       \
            *out = &m->base;                                                   \
        else                                                                   \
            FUZZ_TRUE(m == NULL);                                              \
        return rc;                                                             \
    }
WIRE_UNPACK_MAP(UNPACK)

#define ENTRY(name, Type) unpack_##name,
static const unpack_fn unpacks[] = {WIRE_UNPACK_MAP(ENTRY)};

#define DESCRIPTOR(name, Type) &sluice__v1__##name##__descriptor,
static const ProtobufCMessageDescriptor *const descriptors[] = {
    WIRE_UNPACK_MAP(DESCRIPTOR)};

// wirescan_arena.c: 33 times the message, the structs of its nested messages,
// and 64 KiB; gathered once if it came in pieces.
static size_t budget_of(const ProtobufCMessageDescriptor *descriptor,
                        const uint8_t *bytes, size_t size)
{
    size_t structs = 0;

    if (wire_scan_structs(descriptor, bytes, size, NULL, &structs, NULL) !=
        SL_OK)
        structs = 0; // refused before anything is unpacked
    return 36 * size + structs + (80u << 10);
}

// Packed, copied and by way of JSON it stays what it is.
static void check_accepted(unpack_fn unpack, const ProtobufCMessage *m,
                           struct wire_arena *arena)
{
    struct buf first = BUF_INIT, second = BUF_INIT;
    ProtobufCMessage *read = UNTOUCHED, *copy = NULL;
    struct sl_slice one;
    struct sl_slices all;

    FUZZ_TRUE(wire_pack(m, &first) == SL_OK);
    one = (struct sl_slice){first.data, first.len};
    all = slices_one(&one);
    FUZZ_TRUE(unpack(&read, arena, &all, NULL) == SL_OK);
    FUZZ_TRUE(wire_pack(read, &second) == SL_OK);
    FUZZ_TRUE(
        first.len == second.len &&
        (first.len == 0 || memcmp(first.data, second.data, first.len) == 0));
    FUZZ_TRUE(wire_check(read, NULL) == SL_OK);
    buf_reset(&second);
    FUZZ_TRUE(wire_dup(&copy, read) == SL_OK);
    FUZZ_TRUE(wire_pack(copy, &second) == SL_OK);
    FUZZ_TRUE(first.len == second.len);
    wire_free(copy);
    buf_release(&first);
    buf_release(&second);
}

// Compared as text, since JSON leaves out the fields that nobody knows.
static void check_json(const ProtobufCMessage *m)
{
    struct buf text = BUF_INIT, again = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *read = NULL;
    json_t *value = NULL;

    FUZZ_TRUE(pb_text(&text, m, false) == SL_OK);
    FUZZ_TRUE(sl_json_parse(&value, "m", buf_text(&text), text.len, NULL,
                            &err) == SL_OK);
    if (pbjson_read(&read, m->descriptor, value, "m", &err) == SL_OK) {
        FUZZ_TRUE(pb_text(&again, read, false) == SL_OK);
        FUZZ_TRUE(strcmp(buf_text(&text), buf_text(&again)) == 0);
        wire_free(read);
    } else {
        fuzz_refused(err.code, &err);
    }
    json_decref(value);
    buf_release(&text);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_arena *arena, *other;
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *m = UNTOUCHED, *pieces = UNTOUCHED;
    struct fuzz_cut cut;
    struct sl_slice one;
    struct sl_slices all;
    unpack_fn unpack;
    size_t budget;
    enum sl_err rc;

    if (size == 0)
        return 0;
    unpack = unpacks[data[0] % SL_COUNT(unpacks)];
    budget =
        budget_of(descriptors[data[0] % SL_COUNT(unpacks)], data + 1, size - 1);
    one = (struct sl_slice){data + 1, size - 1};
    all = slices_one(&one);
    fuzz_cut_init(&cut, data + 1, size - 1);
    arena = sl_malloc(sizeof(*arena));
    other = sl_malloc(sizeof(*other));
    FUZZ_TRUE(arena != NULL && other != NULL);
    wire_arena_init(arena);
    wire_arena_init(other);
    fuzz_budget(2 * budget);
    rc = unpack(&m, arena, &all, &err);
    FUZZ_TRUE(arena->used_bytes <= budget);
    FUZZ_TRUE(unpack(&pieces, other, &cut.slices, NULL) == rc);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(unpack, m, other);
        check_json(m);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(m == UNTOUCHED && pieces == UNTOUCHED);
    }
    wire_arena_release(arena);
    wire_arena_release(other);
    sl_free(arena);
    sl_free(other);
    return 0;
}
