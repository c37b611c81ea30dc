// SPDX-License-Identifier: Apache-2.0
// common/net/wirescan.h -- protobuf bytes from outside, checked before
// unpacking.
//
// protobuf-c has no limit of depth: 34 KB of nested messages overflow the
// stack. So bytes are first walked without recursion, with the descriptor of
// the message they claim to be: size, depth, number of fields, wire types as
// declared, lengths inside their parent, no groups. Only then are they
// unpacked, into an arena with a budget.
//
// Threads  any; an arena belongs to one thread at a time.
// Memory   An unpacked message lives in its arena and dies with its reset or
//          release: no *_free_unpacked.
// Errors   SL_ECORRUPT for what is no message of this type; SL_ERANGE for one
//          over a limit; a scan counts both (rpc_refused). The text names
//          message, field and offset. A call that fails leaves *out as it was;
//          `err` may be NULL.
#ifndef COMMON_NET_WIRESCAN_H
#define COMMON_NET_WIRESCAN_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/slices.h"
#include "common/base/status.h"

#define WIRE_MAX_DEPTH 8 // messages inside the outermost one

#define WIRE_MAX_FIELDS ((size_t)262144)

#define WIRE_MAX_BYTES ((size_t)4 << 20)

struct wire_limits {
    size_t max_bytes;   // 0: WIRE_MAX_BYTES
    unsigned max_depth; // 0: WIRE_MAX_DEPTH, also the largest value
    size_t max_fields;  // fields and elements at all levels; 0: WIRE_MAX_FIELDS
};

// Returns the most bytes of a message; `limits` may be NULL: the default.
static inline size_t wire_max_bytes(const struct wire_limits *limits)
{
    return limits != NULL && limits->max_bytes > 0 ? limits->max_bytes
                                                   : WIRE_MAX_BYTES;
}

// Checks that `bytes` (NULL is allowed if `size` is 0) hold one message of the
// type `descriptor` within `limits` (NULL: all defaults); allocates nothing.
enum sl_err wire_scan(const ProtobufCMessageDescriptor *descriptor,
                      const uint8_t *bytes, size_t size,
                      const struct wire_limits *limits, struct sl_error *err);

// Checks the same and sets *structs to the bytes that the structs of nested
// messages will take, which may be a hundred times those of the wire; undefined
// after a failure.
enum sl_err wire_scan_structs(const ProtobufCMessageDescriptor *descriptor,
                              const uint8_t *bytes, size_t size,
                              const struct wire_limits *limits, size_t *structs,
                              struct sl_error *err);

#define WIRE_ARENA_SPACE 4096

// An allocator for one or more messages that never holds more than its
// budget. Large: lives in a call's scratch, on a stack, in a struct.
struct wire_arena {
    ProtobufCAllocator allocator; // protobuf-c's view of the arena
    struct wire_chunk *chunks;    // memory beyond `space`, newest first; owned
    size_t used_bytes, budget_bytes;
    uint8_t *next, *end; // memory that small pieces are cut from
    _Alignas(16) uint8_t space[WIRE_ARENA_SPACE];
};

// Makes an empty arena of uninitialised memory; allocates nothing. The arena
// must not move: it points into itself. Every other function needs it before.
void wire_arena_init(struct wire_arena *arena);

// Frees what wire_arena_release frees, and leaves the arena as after init.
// Also after a failed unpack.
void wire_arena_reset(struct wire_arena *arena);

// Frees what the arena has allocated beyond `space`; a second call does
// nothing. Only wire_arena_init or _reset makes it usable again.
void wire_arena_release(struct wire_arena *arena);

// Returns memory of the arena, aligned to 16 and not zeroed, within the budget
// set by the last unpack (64 KiB before that); NULL beyond, or when out of
// memory.
void *wire_arena_alloc(struct wire_arena *arena, size_t bytes);

// Scans, then unpacks into the arena, beside what it holds already. *out is of
// the descriptor's type; `bytes` are not needed any more. SL_ECORRUPT also when
// out of memory. What a failed call took of the arena goes with the arena.
// `limits` may be NULL.
enum sl_err wire_unpack_checked(ProtobufCMessage **out,
                                struct wire_arena *arena,
                                const ProtobufCMessageDescriptor *descriptor,
                                const uint8_t *bytes, size_t size,
                                const struct wire_limits *limits,
                                struct sl_error *err);

// Unpacks slices in the same way; none are an empty message. Several are first
// copied together, unless they are over limits->max_bytes: in the arena, whose
// budget is raised for that. SL_ENOMEM.
enum sl_err wire_unpack_slices(ProtobufCMessage **out, struct wire_arena *arena,
                               const ProtobufCMessageDescriptor *descriptor,
                               const struct sl_slices *slices,
                               const struct wire_limits *limits,
                               struct sl_error *err);

#endif
