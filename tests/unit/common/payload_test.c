// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/payload.h"

#include "tests/unit/common/wire_kit.h"

enum { PAYLOAD = 15 };

// ---- a message as one run of bytes, cut anywhere

#define CUTS 12

struct cut {
    uint8_t *copy[CUTS + 1]; // each piece its own allocation
    struct sl_slice at[CUTS + 1];
    struct sl_slices all;
};

static void cut_random(struct cut *c, const uint8_t *bytes, size_t size)
{
    size_t from = 0;

    for (int i = 0; i <= CUTS; i++) {
        size_t left = size - from;
        size_t n = i == CUTS ? left : t_below(left + 1) / (t_below(3) + 1);

        c->copy[i] = sl_malloc(n);
        memcpy(c->copy[i], bytes + from, n);
        c->at[i] = (struct sl_slice){c->copy[i], n};
        from += n;
    }
    c->all = slices_all(c->at, CUTS + 1);
    T_EQ(c->all.bytes, size);
}

static void cut_free(struct cut *c)
{
    for (int i = 0; i <= CUTS; i++)
        sl_free(c->copy[i]);
}

static struct sl_slices whole(struct sl_slice *one, const void *bytes, size_t n)
{
    *one = (struct sl_slice){bytes, n};
    return slices_one(one);
}

// ---- what our own writer sends

// The header and payload of a random message, as they would go out.
static uint8_t *write_message(const struct node *n, const uint8_t *payload,
                              size_t payload_bytes, size_t *size)
{
    struct rpc_msg msg;
    uint8_t *bytes;

    rpc_msg_init(&msg);
    T_OK(payload_head(&msg, &n->base, PAYLOAD, payload_bytes, t_err()));
    rpc_msg_part(&msg, payload, payload_bytes);
    *size = rpc_msg_bytes(&msg);
    bytes = sl_malloc(*size);
    memcpy(bytes, msg.head, msg.head_bytes);
    memcpy(bytes + msg.head_bytes, payload, payload_bytes);
    rpc_msg_drop(&msg);
    return bytes;
}

TEST(payload, written_messages_are_plain_protobuf)
{
    static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, 1 << 20};

    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        struct node *n = node_random(2);
        uint8_t *data = sl_malloc(sizes[i]), *bytes;
        ProtobufCMessage *read;
        size_t size, again;
        uint8_t *canonical;

        memset(data, 0xa5, sizes[i]);
        bytes = write_message(n, data, sizes[i], &size);
        read = protobuf_c_message_unpack(&node_descriptor, NULL, size,
                                         size ? bytes : (uint8_t *)"");
        T_TRUE(read != NULL);
        T_EQ(((struct node *)read)->payload.len, sizes[i]);
        T_MEM(((struct node *)read)->payload.data, data, sizes[i]);
        // Byte for byte what the generated code would have written.
        canonical = node_bytes((struct node *)read, &again);
        T_EQ(again, size);
        T_MEM(canonical, bytes, size);
        protobuf_c_message_free_unpacked(read, NULL);
        sl_free(canonical);
        sl_free(bytes);
        sl_free(data);
        node_free(n);
    }
}

TEST(payload, wherever_it_is_cut_it_is_split_the_same)
{
    for (int i = 0; i < 500; i++) {
        struct node *n = node_random(i % 4);
        size_t head_bytes, size, payload_bytes = t_below(5000);
        uint8_t *head = node_bytes(n, &head_bytes);
        uint8_t *data = sl_malloc(payload_bytes), *bytes, *back;
        struct payload_parts parts;
        struct cut cut;

        for (size_t k = 0; k < payload_bytes; k++)
            data[k] = (uint8_t)t_rand();
        bytes = write_message(n, data, payload_bytes, &size);
        cut_random(&cut, bytes, size);
        T_OK(payload_split(&parts, &cut.all, PAYLOAD, 0, t_err()));
        T_EQ(parts.head_bytes, head_bytes);
        T_MEM(parts.head, head, head_bytes);
        T_EQ(parts.payload.bytes, payload_bytes);
        back = sl_malloc(payload_bytes);
        slices_copy(back, &parts.payload);
        T_MEM(back, data, payload_bytes);
        payload_release(&parts);
        cut_free(&cut);
        sl_free(back);
        sl_free(bytes);
        sl_free(data);
        sl_free(head);
        node_free(n);
    }
}

TEST(payload, it_is_not_copied)
{
    static uint8_t tensor[4096];
    uint8_t head[] = {0x10, 7, 0x7a, 0x80, 0x20};
    struct sl_slice at[2] = {{head, 5}, {tensor, 4096}};
    struct sl_slices message = slices_all(at, 2);
    struct payload_parts parts;
    struct slices_cursor c;
    size_t n;

    T_OK(payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    slices_cursor_init(&c, &parts.payload);
    T_PTR(slices_next(&c, SIZE_MAX, &n), tensor);
    T_EQ(n, 4096);
    payload_release(&parts);
}

// ---- what other writers may send

TEST(payload, fields_in_any_order_and_the_last_payload_counts)
{
    static const uint8_t bytes[] = {
        0x7a, 2,    'x',  'y',       // a payload to be replaced
        0x10, 7,                     // numbers
        0x7a, 3,    'a',  'b',  'c', // the payload
        0x2d, 1,    2,    3,    4,   // four
        0x31, 1,    2,    3,    4,    5,    6,    7, 8, // eight
        0x1a, 1,    'n',                                // name
        0xf8, 0xff, 0xff, 0xff, 0x0f, 0x80, 0x01,       // unknown
    };
    static const uint8_t head[] = {
        0x10, 7, 0x2d, 1,    2, 3,   4,    0x31, 1,    2,    3,    4,    5,
        6,    7, 8,    0x1a, 1, 'n', 0xf8, 0xff, 0xff, 0xff, 0x0f, 0x80, 0x01,
    };

    for (int i = 0; i < 200; i++) {
        struct payload_parts parts;
        struct cut cut;
        uint8_t back[3];

        cut_random(&cut, bytes, sizeof(bytes));
        T_OK(payload_split(&parts, &cut.all, PAYLOAD, 0, t_err()));
        T_EQ(parts.head_bytes, sizeof(head));
        T_MEM(parts.head, head, sizeof(head));
        T_EQ(parts.payload.bytes, 3);
        slices_copy(back, &parts.payload);
        T_MEM(back, "abc", 3);
        payload_release(&parts);
        cut_free(&cut);
    }
}

TEST(payload, it_may_be_absent_or_empty)
{
    static const uint8_t absent[] = {0x10, 7}, empty[] = {0x7a, 0, 0x10, 7};
    struct payload_parts parts;
    struct sl_slices message;
    struct sl_slice one;

    message = whole(&one, absent, sizeof(absent));
    T_OK(payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    T_EQ(parts.payload.bytes, 0);
    T_EQ(parts.head_bytes, 2);
    payload_release(&parts);
    message = whole(&one, empty, sizeof(empty));
    T_OK(payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    T_EQ(parts.payload.bytes, 0);
    T_EQ(parts.head_bytes, 2);
    payload_release(&parts);
    message = SL_SLICES_NONE;
    T_OK(payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    T_EQ(parts.payload.bytes, 0);
    T_EQ(parts.head_bytes, 0);
    payload_release(&parts);
}

// ---- what nobody may send

#define REFUSED(code, ...)                                                     \
    do {                                                                       \
        static const uint8_t refused_[] = {__VA_ARGS__};                       \
        struct payload_parts parts_;                                           \
        struct sl_slice one_;                                                  \
        struct sl_slices message_ = whole(&one_, refused_, sizeof(refused_));  \
                                                                               \
        T_FAILS(code, payload_split(&parts_, &message_, PAYLOAD, 8, t_err())); \
    } while (0)

TEST(payload, damage_is_refused)
{
    REFUSED(SL_ECORRUPT, 0x7a);                   // no length
    REFUSED(SL_ECORRUPT, 0x7a, 4, 'a', 'b', 'c'); // past the end
    REFUSED(SL_ECORRUPT, 0x7a, 0x80);             // cut off
    REFUSED(SL_ECORRUPT, 0x78, 1);                // not bytes
    REFUSED(SL_ECORRUPT, 0x1a, 5, 'a');           // another field, past the end
    REFUSED(SL_ECORRUPT, 0x2d, 1, 2, 3);          // 3 of 4 bytes
    REFUSED(SL_ECORRUPT, 0x00);                   // field 0
    REFUSED(SL_ECORRUPT, 0x7b, 0x7c);             // groups
    REFUSED(SL_ECORRUPT, 0x3b, 0x3c);
    REFUSED(SL_ECORRUPT, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 1);
    REFUSED(SL_ECORRUPT, 0x7a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 1);
    REFUSED(SL_ERANGE, 0x1a, 7, 1, 2, 3, 4, 5, 6, 7); // 9 bytes of head, not 8
}

TEST(payload, out_of_memory_is_an_answer)
{
    static uint8_t bytes[9000] = {0x1a, 0x98, 0x46}; // a name of 8984 bytes
    struct payload_parts parts;
    struct sl_slices message;
    struct sl_slice one;
    uint64_t live = sl_mem_live();

    message = whole(&one, bytes, 3 + 0x2318);
    sl_mem_fail_at(1);
    T_FAILS(SL_ENOMEM, payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    T_TRUE(sl_mem_failed());
    T_OK(payload_split(&parts, &message, PAYLOAD, 0, t_err()));
    T_EQ(parts.head_bytes, 3 + 0x2318);
    payload_release(&parts);
    T_EQ(sl_mem_live(), live);
}
