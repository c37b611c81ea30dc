// SPDX-License-Identifier: Apache-2.0
// TFRecord files of tf.train.Example. Byte 0: whether the rest is a file, or
// one record that gets a right frame; whether numbers, an image or raw bytes
// are read; the form of labels, and whether there are ids.
#include "common/base/buf.h"
#include "common/base/tfrecord.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/records_kit.h"
#include "tests/harness/roots.h"

static const struct id_column id_columns[] = {{.name = "user"},
                                              {.name = "word", .hashed = true}};

static const char *file_of(bool framed, const uint8_t *data, size_t size)
{
    struct buf b = BUF_INIT;
    const char *path;

    if (!framed)
        return fuzz_file("x.tfrecord", data, size);
    FUZZ_TRUE(tfrecord_append(&b, data, size) == SL_OK);
    path = fuzz_file("x.tfrecord", b.data, b.len);
    buf_release(&b);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *columns[] = {"a", "b"};
    struct data_source s = {.format = "tfrecord",
                            .scale = 1,
                            .label = {.key = "y"},
                            .roots = t_roots()};
    struct data_want want = {.rank = 3, .dim = {2, 2, 3}};

    if (size < 1)
        return 0;
    s.x = file_of(data[0] & 1, data + 1, size - 1);
    if ((data[0] & 6) == 0) {
        s.columns = columns;
        s.columns_count = 2;
    } else {
        s.image.key = "a";
        s.image.decode = data[0] & 2 ? DATA_DECODE_AUTO : DATA_DECODE_RAW;
    }
    s.ids = id_columns;
    s.ids_count = data[0] & 8 ? 2 : 0;
    want.u8 = data[0] & 16;
    want.labels = (enum data_labels)((data[0] >> 5) % 3);
    want.outputs = want.labels == DATA_VALUES ? 1 : 10;
    // The chunk that looks the file through, and the index as it grows.
    records_check(&s, &want, ((size_t)1 << 18) + 64 * size);
    return 0;
}
