// SPDX-License-Identifier: Apache-2.0
// What a message becomes, slice by slice, before core sees it.
#include "common/net/rpc_inner.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static const grpc_slice *slices_of(grpc_byte_buffer *buffer, size_t *n)
{
    *n = buffer->data.raw.slice_buffer.count;
    return buffer->data.raw.slice_buffer.slices;
}

TEST(rpc_msg, parts_are_referenced_and_not_copied)
{
    static uint8_t tensor[3][100000];
    atomic_int released = 0;
    grpc_byte_buffer *buffer;
    const grpc_slice *s;
    struct rpc_msg msg;
    size_t n;

    grpc_init();
    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, 40), "head", 4);
    for (int i = 0; i < 3; i++)
        rpc_msg_part(&msg, tensor[i], sizeof(tensor[i]));
    rpc_msg_on_release(&msg, count, &released);
    T_EQ(rpc_msg_bytes(&msg), 40 + sizeof(tensor));
    buffer = rpc_msg_seal(&msg);
    T_EQ(grpc_byte_buffer_length(buffer), 40 + sizeof(tensor));
    s = slices_of(buffer, &n);
    T_EQ(n, 4);
    for (int i = 0; i < 3; i++) {
        T_PTR(GRPC_SLICE_START_PTR(s[1 + i]), tensor[i]);
        T_EQ(GRPC_SLICE_LENGTH(s[1 + i]), sizeof(tensor[i]));
    }
    T_EQ(atomic_load(&released), 0);
    grpc_byte_buffer_destroy(buffer);
    T_EQ(atomic_load(&released), 1);
    grpc_shutdown();
}

TEST(rpc_msg, a_large_head_is_handed_over)
{
    grpc_byte_buffer *buffer;
    const grpc_slice *s;
    struct rpc_msg msg;
    uint64_t live = sl_mem_live();
    uint8_t *head;
    size_t n;

    grpc_init();
    rpc_msg_init(&msg);
    T_TRUE(rpc_msg_head(&msg, 3000) != NULL); // replaced
    head = rpc_msg_head(&msg, 5000);
    memset(head, 1, 5000);
    buffer = rpc_msg_seal(&msg);
    s = slices_of(buffer, &n);
    T_EQ(n, 1);
    T_PTR(GRPC_SLICE_START_PTR(s[0]), head);
    grpc_byte_buffer_destroy(buffer);
    T_EQ(sl_mem_live(), live);
    grpc_shutdown();
}

TEST(rpc_msg, release_runs_once_also_without_bytes)
{
    atomic_int released = 0;
    grpc_byte_buffer *buffer;
    struct rpc_msg msg;

    grpc_init();
    rpc_msg_init(&msg);
    rpc_msg_on_release(&msg, count, &released);
    buffer = rpc_msg_seal(&msg);
    T_EQ(atomic_load(&released), 1);
    T_EQ(grpc_byte_buffer_length(buffer), 0);
    grpc_byte_buffer_destroy(buffer);

    rpc_msg_init(&msg);
    rpc_msg_part(&msg, "", 0);
    rpc_msg_part(&msg, "abc", 3);
    rpc_msg_part(&msg, "", 0);
    rpc_msg_on_release(&msg, count, &released);
    buffer = rpc_msg_seal(&msg);
    T_EQ(atomic_load(&released), 1);
    grpc_byte_buffer_destroy(buffer);
    T_EQ(atomic_load(&released), 2);

    rpc_msg_init(&msg);
    rpc_msg_part(&msg, "abc", 3);
    rpc_msg_on_release(&msg, count, &released);
    rpc_msg_drop(&msg);
    rpc_msg_drop(&msg); // it is empty now
    T_EQ(atomic_load(&released), 3);
    grpc_shutdown();
}

TEST(rpc_msg, out_of_memory_leaves_the_message)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, 4), "head", 4);
    sl_mem_fail_at(1);
    T_TRUE(rpc_msg_head(&msg, 1000) == NULL);
    T_TRUE(sl_mem_failed());
    T_EQ(rpc_msg_bytes(&msg), 4);
    T_MEM(msg.head, "head", 4);
    rpc_msg_drop(&msg);
}

// A body of many slices, few slices, none; moved, set again.
TEST(rpc_msg, bodies_keep_their_slices)
{
    struct rpc_body body = {.buffer = NULL};
    static uint8_t bytes[100];
    atomic_int released = 0;

    grpc_init();
    for (size_t n = 0; n <= 100; n += 10) {
        grpc_slice slices[100];
        struct rpc_body *moved;
        uint8_t back[100];

        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)(i + n);
            slices[i] =
                grpc_slice_new_with_user_data(&bytes[i], 1, count, &released);
        }
        rpc_body_set(&body, grpc_raw_byte_buffer_create(slices, n));
        T_EQ(body.slices.bytes, n);
        moved = rpc_body_move(&body);
        T_EQ(body.slices.bytes, 0);
        T_EQ(rpc_body_slices(moved)->bytes, n);
        slices_copy(back, rpc_body_slices(moved));
        T_MEM(back, bytes, n);
        rpc_body_free(moved);
        atomic_store(&released, 0);
        for (size_t i = 0; i < n; i++)
            grpc_slice_unref(slices[i]);
        T_EQ(atomic_load(&released), n);
    }
    rpc_body_release(&body);
    grpc_shutdown();
}
