// SPDX-License-Identifier: Apache-2.0
// Files of tf.train.Example: golden bytes, every bit changed, every prefix.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/tfrecord.h"
#include "worker/data/data.h"
#include "worker/data/data_example.h"

// label = int64 7, as TensorFlow writes it, in its frame.
static const uint8_t golden[] = {
    0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x24, 0x1f, 0x64, 0x25,
    0x0a, 0x10, 0x0a, 0x0e, 0x0a, 0x05, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x12,
    0x05, 0x1a, 0x03, 0x0a, 0x01, 0x07, 0x36, 0x8c, 0x84, 0xb9};

TEST(tfrecord, framing_is_that_of_tensorflow)
{
    struct buf b = BUF_INIT;
    uint64_t n = 0;

    T_OK(tfrecord_append(&b, golden + 12, 18));
    T_EQ(b.len, sizeof(golden));
    T_MEM(b.data, golden, sizeof(golden));
    T_TRUE(tfrecord_head(golden, &n));
    T_EQ(n, 18);
    T_TRUE(tfrecord_whole(golden + 12, 18, golden + 30));
    buf_release(&b);
}

// ---- writing an Example, in the order of TensorFlow or as the test wants

static void put_bytes(struct buf *b, unsigned field, const void *at, size_t n)
{
    uint8_t head[8];
    size_t k = 0;

    head[k++] = (uint8_t)(field << 3 | 2);
    for (size_t left = n;; left >>= 7) {
        head[k++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
        if (left <= 127)
            break;
    }
    T_OK(buf_append(b, head, k));
    T_OK(buf_append(b, at, n));
}

// Adds a feature whose list, of kind 1 to 3, has these fields.
static void put_feature(struct buf *features, const char *key, unsigned kind,
                        const struct buf *list)
{
    struct buf feature = BUF_INIT, entry = BUF_INIT;

    put_bytes(&feature, kind, list->data, list->len);
    put_bytes(&entry, 1, key, strlen(key));
    put_bytes(&entry, 2, feature.data, feature.len);
    put_bytes(features, 1, entry.data, entry.len);
    buf_release(&feature);
    buf_release(&entry);
}

static void put_blob(struct buf *features, const char *key, const void *at,
                     size_t n)
{
    struct buf list = BUF_INIT;

    put_bytes(&list, 1, at, n);
    put_feature(features, key, 1, &list);
    buf_release(&list);
}

static void put_floats(struct buf *features, const char *key, const float *x,
                       size_t n, bool packed)
{
    struct buf list = BUF_INIT;

    if (packed)
        put_bytes(&list, 1, x, n * sizeof(*x));
    for (size_t i = 0; !packed && i < n; i++) {
        T_OK(buf_append(&list, "\x0d", 1));
        T_OK(buf_append(&list, &x[i], sizeof(*x)));
    }
    put_feature(features, key, 2, &list);
    buf_release(&list);
}

// Integers below 128.
static void put_ints(struct buf *features, const char *key, const char *x,
                     size_t n, bool packed)
{
    struct buf list = BUF_INIT;

    if (packed)
        put_bytes(&list, 1, x, n);
    for (size_t i = 0; !packed && i < n; i++) {
        T_OK(buf_append(&list, "\x08", 1));
        T_OK(buf_append(&list, &x[i], 1));
    }
    put_feature(features, key, 3, &list);
    buf_release(&list);
}

// Frames the features as an Example and empties them.
static void put_record(struct buf *file, struct buf *features)
{
    struct buf example = BUF_INIT;

    put_bytes(&example, 1, features->data, features->len);
    T_OK(tfrecord_append(file, example.data, example.len));
    buf_release(&example);
    buf_release(features);
    buf_init(features);
}

static void write_to(const char *path, const void *at, size_t n)
{
    FILE *f = fopen(path, "wb");

    T_TRUE(f != NULL);
    T_EQ(fwrite(at, 1, n, f), n);
    T_EQ(fclose(f), 0);
}

static const char *write_file(const char *name, const void *at, size_t n)
{
    const char *path = t_path(name);

    write_to(path, at, n);
    return path;
}

static char *columns[] = {"a", "b"};

static struct data_source numbers_of(const char *path)
{
    return (struct data_source){.format = "tfrecord",
                                .x = path,
                                .columns = columns,
                                .columns_count = 2,
                                .label = {.key = "y"},
                                .scale = 1,
                                .roots = t_roots()};
}

static struct data_want want_of(uint64_t n, enum data_labels labels)
{
    return (struct data_want){
        .rank = 1, .dim = {n}, .outputs = 10, .labels = labels, .u8 = true};
}

// Two records with the features a (two floats), b (an integer), y, and ids.
static void write_numbers(struct buf *file)
{
    struct buf f = BUF_INIT;
    const float a[] = {1.5f, -2}, c[] = {4, 5};

    put_floats(&f, "a", a, 2, true);
    put_ints(&f, "b", "\3", 1, true);
    put_ints(&f, "y", "\7", 1, true);
    put_ints(&f, "user", "\1\2", 2, true);
    put_blob(&f, "word", "abc", 3);
    put_record(file, &f);
    put_ints(&f, "y", "\1", 1, true);  // the last of two counts
    put_ints(&f, "y", "\6", 1, false); // in any order, unpacked
    put_ints(&f, "b", "\2", 1, false);
    put_floats(&f, "a", c, 2, false);
    put_record(file, &f);
}

TEST(tfrecord, numbers_and_labels_come_from_lists_packed_or_not)
{
    struct data_want want = want_of(3, DATA_INDEX);
    struct buf file = BUF_INIT;
    struct data_source s;
    struct data *d = NULL;
    float x[3];
    int32_t y;

    write_numbers(&file);
    s = numbers_of(write_file("n.tfrecord", file.data, file.len));
    s.scale = 2;
    s.label.first = 1;
    T_OK(data_open(&d, &s, &want, t_err()));
    T_EQ(data_samples(d), 2);
    T_TRUE(!data_is_u8(d));
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_NEAR(x[0], 8, 0);
    T_NEAR(x[1], 10, 0);
    T_NEAR(x[2], 4, 0);
    T_EQ(y, 5);
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_NEAR(x[1], -4, 0);
    T_NEAR(x[2], 6, 0);
    T_EQ(y, 6);
    data_expect(d, 0);
    T_TRUE(data_memory(d) > 0);
    data_free(d);
    buf_release(&file);
}

TEST(tfrecord, ids_are_integers_or_hashed_bytes)
{
    static const struct id_column columns_of_ids[] = {
        {.name = "user"}, {.name = "word", .hashed = true}};
    struct data_want want = want_of(3, DATA_INDEX);
    struct buf file = BUF_INIT;
    struct ids ids = {0};
    const struct id_bag *bags;
    struct data_source s;
    struct data *d = NULL;
    float x[3];
    int32_t y;

    write_numbers(&file);
    s = numbers_of(write_file("n.tfrecord", file.data, file.len));
    s.ids = columns_of_ids;
    s.ids_count = 2;
    T_OK(data_open(&d, &s, &want, t_err()));
    T_TRUE(!data_shared(d));
    T_OK(ids_begin(&ids, 2, t_err()));
    for (unsigned i = 0; i < 2; i++) {
        T_OK(data_read(d, i, x, &y, t_err()));
        T_OK(data_gather_ids(d, &ids, t_err()));
    }
    bags = ids_bags(&ids);
    T_EQ(bags[0].offsets[1], 2);
    T_EQ(bags[0].offsets[2], 2); // the second record has no users
    T_EQ(bags[0].ids[1], 2);
    T_EQ(bags[1].ids[0], UINT64_C(0x44bc2cf5ad770999)); // XXH64("abc")
    ids_release(&ids);
    data_free(d);
    buf_release(&file);
}

// ---- images

static size_t load_image(const char *name, uint8_t *to, size_t size)
{
    char path[512];
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", IMAGES, name);
    f = fopen(path, "rb");
    T_TRUE(f != NULL);
    n = fread(to, 1, size, f);
    fclose(f);
    return n;
}

static struct data_source images_of(const char *path)
{
    return (struct data_source){.format = "tfrecord",
                                .x = path,
                                .image = {.key = "image/encoded"},
                                .label = {.key = "image/class/label"},
                                .scale = 1,
                                .roots = t_roots()};
}

TEST(tfrecord, images_of_several_files_are_decoded_and_resized)
{
    struct data_want want = {.rank = 3,
                             .dim = {8, 8, 3},
                             .outputs = 10,
                             .labels = DATA_INDEX,
                             .u8 = true};
    static const char *const names[] = {"sampled.jpg", "rgb.png"};
    struct data_source s = images_of(t_path("i-*.tfrecord"));
    struct buf f = BUF_INIT;
    uint8_t image[1 << 14], x[192];
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;
    int32_t y;

    for (unsigned i = 0; i < 2; i++) {
        struct buf file = BUF_INIT;

        put_blob(&f, "image/encoded", image,
                 load_image(names[i], image, sizeof(image)));
        put_ints(&f, "image/class/label", &"\3\4"[i], 1, true);
        put_record(&file, &f);
        write_file(i == 0 ? "i-0.tfrecord" : "i-1.tfrecord", file.data,
                   file.len);
        buf_release(&file);
    }
    T_OK(data_open(&d, &s, &want, t_err()));
    T_TRUE(data_shared(d) && data_is_u8(d));
    T_EQ(data_samples(d), 2);
    for (unsigned i = 0; i < 2; i++) {
        T_OK(data_read(d, i, x, &y, t_err()));
        T_EQ(y, 3 + (int)i);
    }
    data_free(d);
    s.image.decode = DATA_DECODE_PNG;
    T_OK(data_open(&d, &s, &want, t_err()));
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_FAILS(SL_EINVAL, data_read(d, 0, x, &y, &err));
    T_HAS(err.text, "i-0.tfrecord: sample at byte 12: feature 'image/encoded': "
                    "is no PNG");
    data_free(d);
}

TEST(tfrecord, raw_bytes_are_the_sample)
{
    struct data_want want = want_of(4, DATA_INDEX);
    struct buf f = BUF_INIT, file = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct data_source s;
    struct data *d = NULL;
    uint8_t x[4];
    int32_t y;

    for (unsigned n = 4; n < 6; n++) {
        put_blob(&f, "image/encoded", "\1\2\3\4\5", n);
        put_ints(&f, "image/class/label", "\3", 1, true);
        put_record(&file, &f);
    }
    s = images_of(write_file("raw.tfrecord", file.data, file.len));
    s.image.decode = DATA_DECODE_RAW;
    T_OK(data_open(&d, &s, &want, t_err()));
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_EQ(x[3], 4);
    T_FAILS(SL_EINVAL, data_read(d, 1, x, &y, &err));
    T_HAS(err.text, "has 5 bytes; the model reads 4");
    data_free(d);
    buf_release(&file);
}

// ---- what is refused

TEST(tfrecord, what_a_record_lacks_is_said_by_its_key)
{
    static const struct {
        const char *a, *label;
        uint64_t reads;
        const char *why;
    } cases[] = {
        {"none", "y", 3, "feature 'none' is missing; floats or integers"},
        {"word", "y", 3, "feature 'word' is a list of bytes"},
        {"a", "none", 3, "feature 'none' is missing"},
        {"a", "user", 3, "feature 'user' has more numbers than the 1"},
        {"a", "y", 4, "has 3 numbers in its features; the model reads 4"},
        {"a", "y", 2, "feature 'b' has more numbers than the 0"},
    };
    struct buf file = BUF_INIT;
    const char *path;

    write_numbers(&file);
    path = write_file("n.tfrecord", file.data, file.len);
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct data_want want = want_of(cases[i].reads, DATA_INDEX);
        struct data_source s = numbers_of(path);
        char *keys[] = {(char *)(uintptr_t)cases[i].a, "b"};
        struct sl_error err = SL_ERROR_INIT;
        struct data *d = NULL;
        float x[4];
        int32_t y;

        s.columns = keys;
        s.label.key = cases[i].label;
        T_OK(data_open(&d, &s, &want, t_err()));
        T_FAILS(SL_EINVAL, data_read(d, 0, x, &y, &err));
        T_HAS(err.text, cases[i].why);
        T_HAS(err.text, "n.tfrecord: sample at byte 12");
        data_free(d);
    }
    buf_release(&file);
}

// A key of the file may hold a NUL byte, and be as long as its record.
TEST(tfrecord, a_key_that_goes_on_behind_a_nul_is_another)
{
    struct buf file = BUF_INIT, f = BUF_INIT, list = BUF_INIT;
    struct buf entry = BUF_INIT, feature = BUF_INIT, key = BUF_INIT;
    struct data_want want = want_of(3, DATA_INDEX);
    struct data_source s;
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;
    float x[3];
    int32_t y;

    T_OK(buf_append(&key, "y", 2));
    for (unsigned i = 0; i < 1u << 16; i++)
        T_OK(buf_append(&key, "0123456789abcdef", 16));
    put_bytes(&list, 1, "\7", 1);
    put_bytes(&feature, 3, list.data, list.len);
    put_bytes(&entry, 1, key.data, key.len);
    put_bytes(&entry, 2, feature.data, feature.len);
    put_bytes(&f, 1, entry.data, entry.len);
    put_floats(&f, "a", (const float[]){1, 2}, 2, true);
    put_ints(&f, "b", "\3", 1, true);
    put_record(&file, &f);
    s = numbers_of(write_file("k.tfrecord", file.data, file.len));
    T_OK(data_open(&d, &s, &want, t_err()));
    T_FAILS(SL_EINVAL, data_read(d, 0, x, &y, &err));
    T_HAS(err.text, "feature 'y' is missing");
    data_free(d);
    buf_release(&file);
    buf_release(&f);
    buf_release(&list);
    buf_release(&entry);
    buf_release(&feature);
    buf_release(&key);
}

// Opens the bytes as a file and reads all of it; the number of samples read.
static uint64_t samples_of(const char *path, const uint8_t *at, size_t n)
{
    struct data_want want = want_of(3, DATA_INDEX);
    struct data_source s = numbers_of(path);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;
    uint64_t good = 0;
    float x[3];
    int32_t y;

    write_to(path, at, n);
    if (data_open(&d, &s, &want, &err) != SL_OK) {
        T_HAS(err.text, n > 0 ? "b.tfrecord" : "no samples");
        return 0;
    }
    for (uint64_t i = 0; i < data_samples(d); i++) {
        if (data_read(d, i, x, &y, &err) == SL_OK)
            good++;
        else
            T_HAS(err.text, "b.tfrecord: sample at byte ");
    }
    data_free(d);
    return good;
}

TEST(tfrecord, every_bit_is_under_a_checksum)
{
    const char *path = t_path("b.tfrecord");
    struct buf file = BUF_INIT;

    write_numbers(&file);
    T_EQ(samples_of(path, file.data, file.len), 2);
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] ^= (uint8_t)(1u << i % 8);
        T_TRUE(samples_of(path, file.data, file.len) < 2);
        file.data[i] ^= (uint8_t)(1u << i % 8);
    }
    buf_release(&file);
}

TEST(tfrecord, a_file_that_is_cut_short_is_refused)
{
    const char *path = t_path("b.tfrecord");
    struct buf file = BUF_INIT;
    uint64_t first = 0;

    write_numbers(&file);
    T_TRUE(tfrecord_head(file.data, &first));
    first += TFRECORD_HEAD + TFRECORD_TAIL;
    for (size_t n = 0; n < file.len; n++)
        T_EQ(samples_of(path, file.data, n), n == first ? 1 : 0);
    buf_release(&file);
}

TEST(tfrecord, a_compressed_file_and_a_huge_length_are_told)
{
    static const uint8_t gz[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct data_want want = want_of(3, DATA_INDEX);
    struct data_source s = numbers_of(write_file("z", gz, sizeof(gz)));
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;
    struct buf b = BUF_INIT;

    T_FAILS(SL_ENOTSUP, data_open(&d, &s, &want, &err));
    T_HAS(err.text, "gunzip");
    // A length of 2^63 with its checksum.
    T_OK(tfrecord_append(&b, "\0\0\0\0\0\0\0\x80", 8));
    memmove(b.data, b.data + 12, 12);
    s.x = write_file("huge", b.data, 24);
    T_FAILS(SL_ERANGE, data_open(&d, &s, &want, &err));
    T_HAS(err.text, "byte 0: a record of over");
    buf_release(&b);
}

TEST(tfrecord, no_length_leads_out_of_an_example)
{
    const char *key = "y";
    struct example_list list;
    struct buf file = BUF_INIT;
    uint64_t n = 0;
    uint8_t *copy;

    write_numbers(&file);
    T_TRUE(tfrecord_head(file.data, &n));
    copy = malloc(n);
    T_TRUE(copy != NULL);
    for (size_t i = 0; i < n; i++) { // any byte, with any high value
        memcpy(copy, file.data + TFRECORD_HEAD, n);
        copy[i] |= 0x7f;
        (void)example_find(copy, n, &key, 1, &list, NULL);
        copy[i] |= 0xff;
        (void)example_find(copy, n, &key, 1, &list, NULL);
    }
    free(copy);
    buf_release(&file);
}
