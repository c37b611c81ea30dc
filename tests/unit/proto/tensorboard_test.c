// SPDX-License-Identifier: Apache-2.0
// tests/unit/proto/tensorboard_test.c -- records, byte by byte as TensorFlow
// and TensorBoard write them.
#include "proto/tensorboard.h"

#include "common/base/tfrecord.h"
#include "tests/harness/t.h"

static void check_bytes(struct buf *b, const char *want)
{
    struct buf got = BUF_INIT;

    for (size_t i = 0; i < b->len; i++)
        T_OK(buf_appendf(&got, "%02x", b->data[i]));
    T_STR(buf_text(&got), want);
    buf_release(&got);
    buf_release(b);
}

TEST(tensorboard, an_empty_record)
{
    struct buf b = BUF_INIT;

    T_OK(tfrecord_append(&b, NULL, 0));
    check_bytes(&b, "000000000000000029039807d8ea82a2");
}

// An Example with label = 7, as in TensorFlow's own files.
TEST(tensorboard, a_record_is_framed_by_two_checksums)
{
    static const uint8_t bytes[] = {0x0a, 0x10, 0x0a, 0x0e, 0x0a, 0x05,
                                    0x6c, 0x61, 0x62, 0x65, 0x6c, 0x12,
                                    0x05, 0x1a, 0x03, 0x0a, 0x01, 0x07};
    struct buf b = BUF_INIT;

    T_OK(tfrecord_append(&b, bytes, sizeof(bytes)));
    check_bytes(&b, "1200000000000000241f64250a100a0e0a056c6162656c"
                    "12051a030a0107368c84b9");
}

// TensorFlow's, and then who wrote it.
TEST(tensorboard, a_file_begins_with_its_version)
{
    struct buf b = BUF_INIT;

    T_OK(tensorboard_version(&b, 1700000000000000));
    T_EQ(b.len, 40 + 10);
    T_EQ(memcmp(b.data + 12,
                "\x09\x00\x00\x00\x40\xfc\x54\xd9\x41\x1a\x0d"
                "brain.Event:2\x52\x08\x0a\x06sluice",
                34),
         0);
    buf_release(&b);
}

TEST(tensorboard, a_scalar_is_a_tensor_of_rank_0)
{
    static const struct tensorboard_at at = {1700000001000000, 1};
    struct tensorboard_scalar loss = {"loss", 0.5f, true};
    struct buf b = BUF_INIT;

    T_OK(tensorboard_scalars(&b, &at, &loss, 1));
    check_bytes(&b, "300000000000000095f5d05f0900004040fc54d94110012a230a210a04"
                    "6c6f7373420a080112002a040000003f4a0d0a090a077363616c617273"
                    "2001914bd0aa");
    T_OK(tensorboard_scalars(&b, &at, &loss, 0));
    T_EQ(b.len, 0);
}

// Without what was said of its tag before.
TEST(tensorboard, the_second_value_of_a_tag_has_no_metadata)
{
    static const struct tensorboard_at at = {1700000001000000, 1};
    struct tensorboard_scalar loss = {"loss", 0.5f, false};
    struct buf b = BUF_INIT;

    T_OK(tensorboard_scalars(&b, &at, &loss, 1));
    T_EQ(b.len, 64 - 15);
    buf_release(&b);
}
