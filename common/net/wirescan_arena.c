// SPDX-License-Identifier: Apache-2.0
// common/net/wirescan_arena.c -- the arena that messages are unpacked into.
//
// Memory is handed out in one direction and given back all at once. The first
// few KiB lie in the struct, so that a small message costs no malloc.
//
// The budget. protobuf-c keeps 40 bytes per field while it parses (twice that
// where its table has just grown), and a struct per nested message: some 24 to
// 100 bytes where the wire has 6, and hundreds for a layer of a model, of which
// the wire has 10. So the budget is 32 times the size, which an honest list of
// small fields needs, plus the structs that the scan has counted, plus 64 KiB;
// and never over 64 MiB beyond the size itself.
#include <string.h>

#include "common/base/mem.h"
#include "common/net/wirescan.h"

#define BUDGET_BASE ((size_t)64 << 10)
#define BUDGET_FACTOR 32
#define BUDGET_MOST ((size_t)64 << 20)
#define CHUNK_LEAST ((size_t)16 << 10)
#define ALIGN 16

struct wire_chunk {
    struct wire_chunk *older;
    _Alignas(ALIGN) uint8_t bytes[];
};

static void *chunk_add(struct wire_arena *arena, size_t bytes)
{
    size_t size = bytes > CHUNK_LEAST ? bytes : CHUNK_LEAST;
    struct wire_chunk *chunk = sl_malloc(sizeof(*chunk) + size);

    if (chunk == NULL)
        return NULL;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    // A large piece does not end the chunk that small ones are cut from.
    if (bytes < size) {
        arena->next = chunk->bytes + bytes;
        arena->end = chunk->bytes + size;
    }
    return chunk->bytes;
}

void *wire_arena_alloc(struct wire_arena *arena, size_t bytes)
{
    uint8_t *start = arena->next;

    if (bytes > arena->budget_bytes - arena->used_bytes)
        return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (bytes > arena->budget_bytes - arena->used_bytes)
        return NULL;
    if (bytes <= (size_t)(arena->end - start)) {
        arena->next += bytes;
    } else {
        start = chunk_add(arena, bytes);
        if (start == NULL)
            return NULL;
    }
    arena->used_bytes += bytes;
    return start;
}

static void *allocator_alloc(void *data, size_t bytes)
{
    return wire_arena_alloc(data, bytes);
}

static void allocator_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer; // goes with the arena
}

void wire_arena_init(struct wire_arena *arena)
{
    arena->allocator =
        (ProtobufCAllocator){allocator_alloc, allocator_free, arena};
    arena->chunks = NULL;
    arena->used_bytes = 0;
    arena->budget_bytes = BUDGET_BASE;
    arena->next = arena->space;
    arena->end = arena->space + sizeof(arena->space);
}

void wire_arena_release(struct wire_arena *arena)
{
    while (arena->chunks != NULL) {
        struct wire_chunk *chunk = arena->chunks;

        arena->chunks = chunk->older;
        sl_free(chunk);
    }
}

void wire_arena_reset(struct wire_arena *arena)
{
    wire_arena_release(arena);
    wire_arena_init(arena);
}

static void budget_raise(struct wire_arena *arena, size_t size, size_t structs)
{
    size_t more =
        size > BUDGET_MOST / BUDGET_FACTOR ? BUDGET_MOST : size * BUDGET_FACTOR;

    more = structs > BUDGET_MOST - more ? BUDGET_MOST : more + structs;
    arena->budget_bytes = arena->used_bytes + size + more + BUDGET_BASE;
}

enum sl_err wire_unpack_checked(ProtobufCMessage **out,
                                struct wire_arena *arena,
                                const ProtobufCMessageDescriptor *descriptor,
                                const uint8_t *bytes, size_t size,
                                const struct wire_limits *limits,
                                struct sl_error *err)
{
    static const uint8_t nothing[1];
    ProtobufCMessage *message;
    size_t structs;
    enum sl_err rc =
        wire_scan_structs(descriptor, bytes, size, limits, &structs, err);

    if (rc != SL_OK)
        return rc;
    budget_raise(arena, size, structs);
    message = protobuf_c_message_unpack(descriptor, &arena->allocator, size,
                                        size ? bytes : nothing);
    if (message == NULL)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: %zu bytes could not be unpacked (after %zu of %zu "
                       "bytes of memory)",
                       descriptor->name, size, arena->used_bytes,
                       arena->budget_bytes);
    *out = message;
    return SL_OK;
}

enum sl_err wire_unpack_slices(ProtobufCMessage **out, struct wire_arena *arena,
                               const ProtobufCMessageDescriptor *descriptor,
                               const struct sl_slices *slices,
                               const struct wire_limits *limits,
                               struct sl_error *err)
{
    struct slices_cursor cursor;
    const uint8_t *bytes;
    uint8_t *gathered;
    size_t n = 0;

    slices_cursor_init(&cursor, slices);
    bytes = slices_next(&cursor, SIZE_MAX, &n);
    // The scan refuses what is larger, without a look at the bytes.
    if (n < slices->bytes && slices->bytes <= wire_max_bytes(limits)) {
        arena->budget_bytes = arena->used_bytes + slices->bytes + ALIGN;
        gathered = wire_arena_alloc(arena, slices->bytes);
        if (gathered == NULL)
            return sl_fail(err, SL_ENOMEM, "%s: no memory for %zu bytes",
                           descriptor->name, slices->bytes);
        slices_copy(gathered, slices);
        bytes = gathered;
    }
    return wire_unpack_checked(out, arena, descriptor, bytes, slices->bytes,
                               limits, err);
}
