// SPDX-License-Identifier: Apache-2.0
// A message type for the tests of payload and wirescan, as protoc-c would
// have made it of
//
//     message Node {
//         Node inner = 1;
//         repeated uint64 numbers = 2;
//         string name = 3;
//         repeated Node kids = 4;
//         fixed32 four = 5;
//         double eight = 6;
//         bytes payload = 15;
//     }
#ifndef TESTS_UNIT_COMMON_WIRE_KIT_H
#define TESTS_UNIT_COMMON_WIRE_KIT_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

struct node {
    ProtobufCMessage base;
    struct node *inner;
    size_t n_numbers;
    uint64_t *numbers;
    char *name;
    size_t n_kids;
    struct node **kids;
    uint32_t four;
    double eight;
    ProtobufCBinaryData payload;
};

static const ProtobufCMessageDescriptor node_descriptor;

#define FIELD(name_, id_, label_, type_, count_, of_, flags_)                  \
    {                                                                          \
        .name = #name_, .id = id_, .label = PROTOBUF_C_LABEL_##label_,         \
        .type = PROTOBUF_C_TYPE_##type_, .quantifier_offset = count_,          \
        .offset = offsetof(struct node, name_), .descriptor = of_,             \
        .flags = flags_,                                                       \
        .default_value = PROTOBUF_C_TYPE_##type_ == PROTOBUF_C_TYPE_STRING     \
                             ? protobuf_c_empty_string                         \
                             : NULL                                            \
    }

static const ProtobufCFieldDescriptor node_fields[] = {
    FIELD(inner, 1, NONE, MESSAGE, 0, &node_descriptor, 0),
    FIELD(numbers, 2, REPEATED, UINT64, offsetof(struct node, n_numbers), NULL,
          PROTOBUF_C_FIELD_FLAG_PACKED),
    FIELD(name, 3, NONE, STRING, 0, NULL, 0),
    FIELD(kids, 4, REPEATED, MESSAGE, offsetof(struct node, n_kids),
          &node_descriptor, 0),
    FIELD(four, 5, NONE, FIXED32, 0, NULL, 0),
    FIELD(eight, 6, NONE, DOUBLE, 0, NULL, 0),
    FIELD(payload, 15, NONE, BYTES, 0, NULL, 0),
};
static const unsigned node_by_name[] = {5, 4, 0, 3, 2, 1, 6};
static const ProtobufCIntRange node_ranges[] = {{1, 0}, {15, 6}, {0, 7}};

// Sets the message to an empty Node.
static void node_init(ProtobufCMessage *message)
{
    struct node *n = (struct node *)message;

    memset(n, 0, sizeof(*n));
    n->base.descriptor = &node_descriptor;
    n->name = (char *)protobuf_c_empty_string;
}

static const ProtobufCMessageDescriptor node_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "t.Node",
    .short_name = "Node",
    .c_name = "Node",
    .package_name = "t",
    .sizeof_message = sizeof(struct node),
    .n_fields = 7,
    .fields = node_fields,
    .fields_sorted_by_name = node_by_name,
    .n_field_ranges = 2,
    .field_ranges = node_ranges,
    .message_init = node_init,
};

// Makes an empty Node, for node_free.
__attribute__((unused)) static struct node *node_new(void)
{
    struct node *n = sl_malloc(sizeof(*n));

    node_init(&n->base);
    return n;
}

// Makes a tree of random content, at most `depth` messages deep below its root,
// for node_free.
__attribute__((unused)) static struct node *node_random(unsigned depth)
{
    struct node *n = node_new();

    if (t_below(2)) {
        n->name = sl_strdup("name");
        n->four = (uint32_t)t_rand();
    }
    n->eight = t_below(3) ? 0 : 1.5;
    n->n_numbers = t_below(4);
    n->numbers = sl_malloc_array(n->n_numbers, sizeof(uint64_t));
    for (size_t i = 0; i < n->n_numbers; i++)
        n->numbers[i] = t_rand() >> t_below(64);
    if (depth > 0 && t_below(2))
        n->inner = node_random(depth - 1);
    n->n_kids = depth > 0 ? t_below(3) : 0;
    n->kids = sl_malloc_array(n->n_kids, sizeof(*n->kids));
    for (size_t i = 0; i < n->n_kids; i++)
        n->kids[i] = node_random(depth - 1);
    return n;
}

// Frees a tree. NULL is allowed.
__attribute__((unused)) static void node_free(struct node *n)
{
    if (n == NULL)
        return;
    node_free(n->inner);
    for (size_t i = 0; i < n->n_kids; i++)
        node_free(n->kids[i]);
    sl_free(n->kids);
    sl_free(n->numbers);
    if (n->name != protobuf_c_empty_string)
        sl_free(n->name);
    sl_free(n);
}

// Returns the packed bytes of a tree, *size of them, for sl_free.
__attribute__((unused)) static uint8_t *node_bytes(const struct node *n,
                                                   size_t *size)
{
    uint8_t *bytes;

    *size = protobuf_c_message_get_packed_size(&n->base);
    bytes = sl_malloc(*size);
    protobuf_c_message_pack(&n->base, bytes);
    return bytes;
}

#endif
