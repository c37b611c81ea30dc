// SPDX-License-Identifier: Apache-2.0
#include "common/net/wirescan.h"

#include "tests/unit/common/wire_kit.h"

static enum sl_err scan(const void *bytes, size_t size)
{
    return wire_scan(&node_descriptor, bytes, size, NULL, t_err());
}

// What must be refused, as bytes.
#define REFUSED(code, ...)                                                     \
    do {                                                                       \
        static const uint8_t refused_[] = {__VA_ARGS__};                       \
        T_FAILS(code, scan(refused_, sizeof(refused_)));                       \
    } while (0)
#define ACCEPTED(...)                                                          \
    do {                                                                       \
        static const uint8_t accepted_[] = {__VA_ARGS__};                      \
        T_OK(scan(accepted_, sizeof(accepted_)));                              \
    } while (0)

TEST(wirescan, what_is_valid)
{
    T_OK(scan("", 0));
    ACCEPTED(0x0a, 0);                      // an empty inner
    ACCEPTED(0x10, 5);                      // one number, not packed
    ACCEPTED(0x12, 2, 5, 6);                // two, packed
    ACCEPTED(0x12, 0);                      // none, packed
    ACCEPTED(0x2d, 1, 2, 3, 4);             // fixed32
    ACCEPTED(0x31, 1, 2, 3, 4, 5, 6, 7, 8); // double
    ACCEPTED(0x7a, 3, 1, 2, 3);             // payload
    ACCEPTED(0x38, 5);                      // unknown field 7, a varint
    ACCEPTED(0x3a, 2, 0xff, 0xff);          // unknown, bytes
    ACCEPTED(0x3d, 1, 2, 3, 4);             // unknown, 32 bits
    ACCEPTED(0x22, 4, 0x0a, 0, 0x10, 1);    // a kid with an inner
    ACCEPTED(0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1);
    ACCEPTED(0xf8, 0xff, 0xff, 0xff, 0x0f, 0); // the highest number
}

TEST(wirescan, what_is_not)
{
    REFUSED(SL_ECORRUPT, 0x10);                            // no value
    REFUSED(SL_ECORRUPT, 0x10, 0x80);                      // cut off
    REFUSED(SL_ECORRUPT, 0x80);                            // in the tag
    REFUSED(SL_ECORRUPT, 0x1a);                            // no length
    REFUSED(SL_ECORRUPT, 0x1a, 5, 'a');                    // past the end
    REFUSED(SL_ECORRUPT, 0x0a, 5, 0x10, 1);                // inner past the end
    REFUSED(SL_ECORRUPT, 0x0a, 2, 0x1a, 3, 'a', 'b', 'c'); // past its parent
    REFUSED(SL_ECORRUPT, 0x0a, 1, 0x10, 1);    // inner ends inside a field
    REFUSED(SL_ECORRUPT, 0x12, 2, 5, 0x80);    // packed ends inside a number
    REFUSED(SL_ECORRUPT, 0x2d, 1, 2, 3);       // 3 of 4 bytes
    REFUSED(SL_ECORRUPT, 0x31, 1, 2, 3, 4);    // 4 of 8
    REFUSED(SL_ECORRUPT, 0x08, 1);             // inner as a number
    REFUSED(SL_ECORRUPT, 0x18, 1);             // name as a number
    REFUSED(SL_ECORRUPT, 0x28, 1);             // fixed32 as a varint
    REFUSED(SL_ECORRUPT, 0x2a, 4, 1, 2, 3, 4); // not repeated, yet packed
    REFUSED(SL_ECORRUPT, 0x00, 1);             // field 0
    REFUSED(SL_ECORRUPT, 0x0b);                // a group of a known field
    REFUSED(SL_ECORRUPT, 0x3b, 0x3c);          // and of an unknown one
    REFUSED(SL_ECORRUPT, 0x3c);                // the end of a group
    REFUSED(SL_ECORRUPT, 0x3e, 1);             // wire type 6
    REFUSED(SL_ECORRUPT, 0x80, 0x80, 0x80, 0x80, 0x10, 1); // beyond 32 bits
    REFUSED(SL_ECORRUPT, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 1); // eleven bytes
    // A length of nearly 2^64 must not wrap.
    REFUSED(SL_ECORRUPT, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 1);
}

TEST(wirescan, errors_name_message_and_field)
{
    static const uint8_t bytes[] = {0x22, 2, 0x1a, 9};
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_ECORRUPT,
            wire_scan(&node_descriptor, bytes, sizeof(bytes), NULL, &err));
    T_HAS(err.text, "t.Node.name");
    T_HAS(err.text, "at byte 4");
}

// `levels` messages, each inside the one before: 34 KB for 10,000.
static uint8_t *nested(size_t levels, size_t *size)
{
    uint8_t *bytes = sl_malloc(levels * 5 + 16), *at = bytes + levels * 5 + 16;
    size_t inside = 0;

    for (size_t i = 0; i < levels; i++) {
        uint8_t length[4];
        size_t n = 0, value = inside;

        do {
            length[n] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
            n++;
            value >>= 7;
        } while (value > 0);
        at -= n;
        memcpy(at, length, n);
        *--at = 0x0a;
        inside += n + 1;
    }
    memmove(bytes, at, inside);
    *size = inside;
    return bytes;
}

TEST(wirescan, nesting_is_bounded_and_does_not_recurse)
{
    size_t size;

    for (size_t levels = 0; levels <= 12; levels++) {
        uint8_t *bytes = nested(levels, &size);

        T_FAILS(levels <= WIRE_MAX_DEPTH ? SL_OK : SL_ERANGE,
                scan(bytes, size));
        sl_free(bytes);
    }
    for (size_t levels = 10000; levels <= 1000000; levels *= 10) {
        uint8_t *bytes = nested(levels, &size);

        T_FAILS(SL_ERANGE, scan(bytes, size));
        sl_free(bytes);
    }
}

TEST(wirescan, limits)
{
    struct wire_limits limits = {
        .max_bytes = 10, .max_depth = 1, .max_fields = 3};
    static const uint8_t eleven[11] = {0x1a, 9};
    static const uint8_t deep[] = {0x0a, 2, 0x0a, 0};
    static const uint8_t three[] = {0x10, 1, 0x10, 2, 0x10, 3};
    static const uint8_t packed[] = {0x12, 3, 1, 2, 3};

    T_FAILS(SL_ERANGE,
            wire_scan(&node_descriptor, eleven, 11, &limits, t_err()));
    T_FAILS(SL_ERANGE, wire_scan(&node_descriptor, deep, 4, &limits, t_err()));
    T_OK(wire_scan(&node_descriptor, deep + 2, 2, &limits, t_err()));
    T_OK(wire_scan(&node_descriptor, three, 6, &limits, t_err()));
    limits.max_fields = 2;
    T_FAILS(SL_ERANGE, wire_scan(&node_descriptor, three, 6, &limits, t_err()));
    T_FAILS(SL_ERANGE,
            wire_scan(&node_descriptor, packed, 5, &limits, t_err()));
}

// ---- unpacking

TEST(wirescan, whatever_is_packed_is_accepted_and_comes_back)
{
    for (int i = 0; i < 500; i++) {
        struct node *in = node_random(i % 9);
        size_t size, again;
        uint8_t *bytes = node_bytes(in, &size), *back;
        struct wire_arena arena;
        ProtobufCMessage *out;

        if (size > 256 << 10) {
            node_free(in);
            sl_free(bytes);
            continue;
        }
        wire_arena_init(&arena);
        T_OK(wire_unpack_checked(&out, &arena, &node_descriptor, bytes, size,
                                 NULL, t_err()));
        back = node_bytes((struct node *)out, &again);
        T_EQ(again, size);
        T_MEM(back, bytes, size);
        wire_arena_release(&arena);
        sl_free(back);
        sl_free(bytes);
        node_free(in);
    }
}

// A message cut at any byte, or with a byte changed, is refused or read: it
// never reads outside (the sanitizer watches an allocation of that size).
TEST(wirescan, damaged_messages_do_no_harm)
{
    for (int i = 0; i < 60; i++) {
        struct node *in = node_random(4);
        size_t size;
        uint8_t *bytes = node_bytes(in, &size);

        for (size_t cut = 0; cut < size && cut < 300; cut++) {
            uint8_t *part = sl_malloc(cut);
            struct wire_arena arena;
            ProtobufCMessage *out;

            memcpy(part, bytes, cut);
            if (cut > 0 && i % 2)
                part[t_below(cut)] ^= (uint8_t)(1u << t_below(8));
            wire_arena_init(&arena);
            wire_unpack_checked(&out, &arena, &node_descriptor, part, cut, NULL,
                                NULL);
            wire_arena_release(&arena);
            sl_free(part);
        }
        sl_free(bytes);
        node_free(in);
    }
}

TEST(wirescan, slices_are_gathered)
{
    static const uint8_t bytes[] = {0x10, 7, 0x1a, 3, 'a', 'b', 'c'};

    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        struct sl_slice two[2] = {{bytes, cut},
                                  {bytes + cut, sizeof(bytes) - cut}};
        struct sl_slices all = slices_all(two, 2);
        struct wire_arena arena;
        ProtobufCMessage *out;
        struct node *n;

        wire_arena_init(&arena);
        T_OK(wire_unpack_slices(&out, &arena, &node_descriptor, &all, NULL,
                                t_err()));
        n = (struct node *)out;
        T_EQ(n->n_numbers, 1);
        T_EQ(n->numbers[0], 7);
        T_STR(n->name, "abc");
        wire_arena_release(&arena);
    }
}

TEST(wirescan, no_bytes_are_an_empty_message)
{
    struct sl_slices none = SL_SLICES_NONE;
    struct wire_arena arena;
    ProtobufCMessage *out;

    wire_arena_init(&arena);
    T_OK(wire_unpack_slices(&out, &arena, &node_descriptor, &none, NULL,
                            t_err()));
    T_EQ(((struct node *)out)->n_kids, 0);
    wire_arena_release(&arena);
}

// Two bytes of wire make a struct of over a hundred: the budget says no
// before the heap does.
TEST(wirescan, a_million_empty_messages_hit_the_budget)
{
    struct wire_limits many = {.max_fields = 10000000};
    size_t size = 2000000;
    uint8_t *bytes = sl_malloc(size);
    struct sl_error err = SL_ERROR_INIT;
    struct wire_arena arena;
    ProtobufCMessage *out;

    for (size_t i = 0; i < size; i += 2) {
        bytes[i] = 0x22;
        bytes[i + 1] = 0;
    }
    wire_arena_init(&arena);
    T_FAILS(SL_ERANGE, wire_unpack_checked(&out, &arena, &node_descriptor,
                                           bytes, size, NULL, t_err()));
    T_FAILS(SL_ECORRUPT, wire_unpack_checked(&out, &arena, &node_descriptor,
                                             bytes, size, &many, &err));
    T_LE(arena.used_bytes, arena.budget_bytes);
    wire_arena_release(&arena);
    sl_free(bytes);
}

// An honest list of small messages fits.
TEST(wirescan, many_small_messages_fit_the_budget)
{
    struct node *in = node_new();
    struct wire_arena arena;
    ProtobufCMessage *out;
    uint8_t *bytes;
    size_t size;

    in->n_kids = 20000;
    in->kids = sl_malloc_array(in->n_kids, sizeof(*in->kids));
    for (size_t i = 0; i < in->n_kids; i++) {
        in->kids[i] = node_new();
        in->kids[i]->four = (uint32_t)i + 1;
        in->kids[i]->name = sl_strdup("w");
    }
    bytes = node_bytes(in, &size);
    wire_arena_init(&arena);
    T_OK(wire_unpack_checked(&out, &arena, &node_descriptor, bytes, size, NULL,
                             t_err()));
    T_EQ(((struct node *)out)->n_kids, 20000);
    wire_arena_release(&arena);
    sl_free(bytes);
    node_free(in);
}

TEST(wirescan, an_arena_without_memory_fails_cleanly)
{
    static uint8_t bytes[60001] = {0x1a, 0xdd, 0xd4, 0x03}; // a long name
    struct wire_arena arena;
    ProtobufCMessage *out;
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        uint64_t live = sl_mem_live();

        wire_arena_init(&arena);
        sl_mem_fail_at(n);
        if (wire_unpack_checked(&out, &arena, &node_descriptor, bytes,
                                sizeof(bytes), NULL, NULL) == SL_OK)
            T_EQ(((struct node *)out)->name[0], 0);
        failed = sl_mem_failed();
        wire_arena_release(&arena);
        T_EQ(sl_mem_live(), live);
    }
}

TEST(wirescan, an_arena_gives_aligned_memory_within_its_budget)
{
    struct wire_arena arena;
    size_t total = 0;
    uint8_t *p;

    wire_arena_init(&arena);
    for (size_t n = 0; (p = wire_arena_alloc(&arena, n)) != NULL; n++) {
        T_EQ((uintptr_t)p % 16, 0);
        memset(p, 0xee, n);
        total += n;
    }
    T_GT(total, 60000);
    T_LE(arena.used_bytes, 65536);
    T_TRUE(wire_arena_alloc(&arena, SIZE_MAX) == NULL);
    wire_arena_reset(&arena);
    T_EQ(arena.used_bytes, 0);
    T_TRUE(wire_arena_alloc(&arena, 60000) != NULL);
    wire_arena_release(&arena);
}
