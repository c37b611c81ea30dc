// SPDX-License-Identifier: Apache-2.0
// Id columns: cells and arrays as bags of ids, and the bags of a batch.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/buf.h"
#include "worker/data/data.h"
#include "worker/data/data_ids.h"
#include "worker/data/input.h"

#define ROW_COUNT 40

static const char *put(const char *name, const void *bytes, size_t n)
{
    static char path[600];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", t_tmpdir(), name);
    f = fopen(path, "wb");
    T_TRUE(f != NULL);
    T_EQ(fwrite(bytes, 1, n, f), n);
    T_EQ(fclose(f), 0);
    return path;
}

// Checks one bag against a text: "7,18446744073709551615", "" for none.
static void bag_is(const struct id_bag *bag, uint32_t sample, const char *ids)
{
    struct buf text = BUF_INIT;

    T_TRUE(sample < bag->samples);
    for (uint32_t i = bag->offsets[sample]; i < bag->offsets[sample + 1]; i++)
        T_OK(buf_appendf(&text, "%s%llu", text.len > 0 ? "," : "",
                         (unsigned long long)bag->ids[i]));
    T_STR(buf_text(&text), ids);
    buf_release(&text);
}

// Checks the bags of the sample that was read last, each as bag_is does.
static void read_ids_are(struct data *d, const char *first, const char *second)
{
    struct ids ids = {0};
    const struct id_bag *bags;

    T_EQ(data_id_columns(d), 2);
    T_OK(ids_begin(&ids, 2, t_err()));
    T_OK(data_gather_ids(d, &ids, t_err()));
    bags = ids_bags(&ids);
    T_EQ(bags[0].samples, 1);
    bag_is(&bags[0], 0, first);
    bag_is(&bags[1], 0, second);
    ids_release(&ids);
}

// ---- cells

static void cell_is(const struct id_column *how, const char *cell, size_t n,
                    const uint64_t *ids)
{
    struct buf out = BUF_INIT;

    T_OK(ids_parse(&out, how, cell, t_err()));
    T_EQ(out.len, n * sizeof(*ids));
    if (n > 0)
        T_MEM(out.data, ids, n * sizeof(*ids));
    buf_release(&out);
}

static void number_is(const char *cell, uint64_t id)
{
    static const struct id_column plain = {.name = "user"};

    cell_is(&plain, cell, 1, &id);
}

static void cell_fails(const char *cell, const char *says)
{
    static const struct id_column plain = {.name = "user"};
    struct sl_error err = SL_ERROR_INIT;
    struct buf out = BUF_INIT;

    T_FAILS(SL_EINVAL, ids_parse(&out, &plain, cell, &err));
    T_HAS(err.text, says);
    buf_release(&out);
}

TEST(ids, a_number_is_read_whole_or_refused)
{
    number_is("0", 0);
    number_is("007", 7);
    number_is(" 16777217\t", 16777217); // f32 has no such number
    number_is("18446744073709551615", UINT64_MAX);
    number_is("-1", UINT64_MAX);
    number_is("-0", 0);
    number_is("-9223372036854775808", UINT64_C(1) << 63);
    cell_fails("18446744073709551616", "from -2^63 to 2^64 - 1");
    cell_fails("99999999999999999999", "element 0");
    cell_fails("-9223372036854775809", "element 0");
    cell_fails("3.0", "no whole number");
    cell_fails("1e3", "no whole number");
    cell_fails("+1", "no whole number");
    cell_fails("- 1", "no whole number");
    cell_fails("-", "no whole number");
    cell_fails("1 2", "no whole number");
    cell_fails(" ", "no whole number");
    cell_fails("NA", "hash: xxh64 makes ids of text");
}

TEST(ids, a_cell_is_a_bag)
{
    static const uint64_t three[] = {5, UINT64_MAX, 5};
    static const struct id_column plain = {.name = "tags"};

    cell_is(&plain, "", 0, NULL);
    cell_is(&plain, "5|-1| 5", 3, three);
    cell_fails("5|x|6", "element 1 of the bag is no whole number");
    cell_fails("5||6", "element 1 of the bag is empty");
    cell_fails("5|", "element 1 of the bag is empty");
    cell_fails("|5", "element 0 of the bag is empty");
    cell_fails("|", "element 0 of the bag is empty");
}

// The values are those of `xxhsum -H1` and of Python's xxhash.
TEST(ids, text_is_hashed_as_others_hash_it)
{
    static const struct id_column zero = {.name = "city", .hashed = true};
    static const struct id_column seven = {
        .name = "city", .hashed = true, .seed = 7};
    static const uint64_t abc = UINT64_C(0x44bc2cf5ad770999);
    uint64_t bag[2];

    cell_is(&zero, "abc", 1, &abc);
    cell_is(&zero, "", 0, NULL);
    bag[0] = UINT64_C(0x9c593c7267c528d3);
    bag[1] = UINT64_C(0x9747502beb59e564);
    cell_is(&seven, "Paris| Lyon", 2, bag); // a blank is part of the text
}

// ---- csv

static const struct id_column csv_columns[] = {
    {.name = "user"},
    {.name = "tags"},
};

static struct data_source csv_source(const char *text)
{
    return (struct data_source){
        .format = "csv",
        .roots = t_roots(),
        .scale = 1,
        .header = true,
        .label_column = "click",
        .x = put("clicks.csv", text, strlen(text)),
        .ids = csv_columns,
        .ids_count = 2,
    };
}

static struct data_want want(uint64_t features, uint64_t outputs)
{
    return (struct data_want){
        .rank = 1, .dim = {features}, .outputs = outputs, .labels = DATA_INDEX};
}

TEST(ids, a_csv_has_dense_columns_and_ids)
{
    struct data_source s = csv_source("price,user,hour,click,tags\n"
                                      "1.5,9007199254740993,23,1,7|8|7\n"
                                      "2.5,-1,0,0,\n"
                                      "3.5,\"12|13\",1,1,\"18446744073709551615"
                                      "\"\n");
    struct data_want w = want(2, 2);
    struct data *d;
    float x[2];
    int32_t y;

    T_OK(data_open(&d, &s, &w, t_err())); // price and hour: all others
    T_EQ(data_samples(d), 3);
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_NEAR((double)x[0], 1.5, 0);
    T_NEAR((double)x[1], 23, 0);
    T_EQ(y, 1);
    read_ids_are(d, "9007199254740993", "7,8,7");
    T_OK(data_read(d, 1, x, &y, t_err()));
    read_ids_are(d, "18446744073709551615", "");
    T_OK(data_read(d, 2, x, &y, t_err()));
    read_ids_are(d, "12,13", "18446744073709551615");
    data_free(d);
}

// A bag of a cell is as long as a line may be, not as a number.
TEST(ids, a_long_bag_is_read_whole)
{
    struct buf text = BUF_INIT;
    struct data_want w = want(1, 2);
    struct data_source s;
    struct ids ids = {0};
    struct data *d;
    float x;
    int32_t y;

    T_OK(buf_append_str(&text, "price,user,click,tags\n1,2,0,"));
    for (int i = 0; i < 20000; i++)
        T_OK(buf_appendf(&text, "%s%d", i > 0 ? "|" : "", i));
    s = csv_source(buf_text(&text));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 0, &x, &y, t_err()));
    T_OK(ids_begin(&ids, 2, t_err()));
    T_OK(data_gather_ids(d, &ids, t_err()));
    T_EQ(ids_bags(&ids)[1].offsets[1], 20000);
    for (uint64_t i = 0; i < 20000; i++)
        T_ASSERT(ids_bags(&ids)[1].ids[i] == i);
    ids_release(&ids);
    data_free(d);
    buf_release(&text);
}

static void csv_fails(const char *text, const char *says)
{
    struct data_source s = csv_source(text);
    struct data_want w = want(1, 2);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x;
    int32_t y;
    enum sl_err rc = data_open(&d, &s, &w, &err);

    if (rc == SL_OK) {
        rc = data_read(d, 1, &x, &y, &err);
        data_free(d);
    }
    T_NE(rc, SL_OK);
    T_HAS(err.text, says);
}

#define HEAD "price,user,click,tags\n1,2,0,3\n"

TEST(ids, a_csv_says_which_cell_is_wrong)
{
    csv_fails(HEAD "1,x7,0,3\n", "clicks.csv: line 3, column 1 (user): element "
                                 "0 of the bag is no whole number");
    csv_fails(HEAD "1,2,0,3|4|\n", "line 3, column 3 (tags): element 2");
    csv_fails(HEAD "1,2,0,3|18446744073709551616\n", "(tags): element 1");
    csv_fails("price,user,click\n1,2,0\n1,2,0\n", "there is no column 'tags'");
    csv_fails("price,tags,click,user,hour\n1,2,0,3,4\n",
              "2 feature columns do not fit");
}

TEST(ids, a_column_is_ids_or_something_else)
{
    static const struct id_column label[] = {{.name = "click"}},
                                  number[] = {{.name = "0"}};
    char *columns[] = {"price"};
    struct data_source s = csv_source(HEAD);
    struct data_want w = want(1, 2);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;

    s.ids_count = 1;
    s.ids = label;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "column 2 is used twice");
    s.ids = number;
    s.columns = columns;
    s.columns_count = 1;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "column 0 is used twice");
}

// x, label and ids are of the same sample, whichever row is read in its place.
TEST(ids, a_row_with_a_bad_bag_may_be_passed_over)
{
    struct data_source s = csv_source("price,user,click,tags\n"
                                      "1,1,0,1\n2,2,0,1||2\n3,3,1,\n");
    struct data_want w = want(1, 2);
    struct bad_sample told[1];
    struct data *d;
    float x;
    int32_t y;

    s.bad = bad_new(1);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 1, &x, &y, t_err()));
    T_NEAR((double)x, 3, 0);
    T_EQ(y, 1);
    read_ids_are(d, "3", "");
    T_EQ(bad_tell(s.bad, told, 1), 1);
    T_HAS(told[0].what, "line 3, column 3 (tags): element 1 of the bag is "
                        "empty");
    data_free(d);
    bad_unref(s.bad);
}

// ---- npz

struct npz {
    struct buf file, directory;
    unsigned members;
};

static void zip_numbers(struct buf *b, const uint32_t *at, const char *widths)
{
    for (; *widths != '\0'; widths++, at++)
        T_OK(buf_append(b, at, (size_t)(*widths - '0'))); // little-endian
}

// Adds a stored member, an array of `bytes` bytes at `values`.
static void npz_add(struct npz *z, const char *name, const char *descr,
                    const char *shape, const void *values, size_t bytes)
{
    struct buf npy = BUF_INIT, head = BUF_INIT;
    char file[64];
    uint32_t crc, offset = (uint32_t)z->file.len, length, named;

    T_OK(buf_appendf(&head,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n",
                     descr, shape));
    T_OK(buf_append(&npy, "\x93NUMPY\x01\x00", 8));
    T_OK(buf_append_char(&npy, (char)head.len));
    T_OK(buf_append_char(&npy, 0));
    T_OK(buf_append(&npy, head.data, head.len));
    T_OK(buf_append(&npy, values, bytes));
    snprintf(file, sizeof(file), "%s.npy", name);
    named = (uint32_t)strlen(file);
    length = (uint32_t)npy.len;
    crc = (uint32_t)crc32(0, npy.data, length);
    zip_numbers(
        &z->file,
        (uint32_t[]){0x04034b50, 20, 0, 0, 0, crc, length, length, named, 0},
        "4222444422");
    T_OK(buf_append_str(&z->file, file));
    T_OK(buf_append(&z->file, npy.data, npy.len));
    zip_numbers(&z->directory,
                (uint32_t[]){0x02014b50, 20, 20, 0, 0, 0, crc, length, length,
                             named, 0, 0, 0, 0, 0, offset},
                "4222244442222244");
    T_OK(buf_append_str(&z->directory, file));
    z->members++;
    buf_release(&head);
    buf_release(&npy);
}

// Ends the file and writes it.
static const char *npz_put(struct npz *z)
{
    uint32_t at = (uint32_t)z->file.len, n = (uint32_t)z->directory.len;
    const char *path;

    T_OK(buf_append(&z->file, z->directory.data, z->directory.len));
    zip_numbers(
        &z->file,
        (uint32_t[]){0x06054b50, 0, 0, z->members, z->members, n, at, 0},
        "42222442");
    path = put("clicks.npz", z->file.data, z->file.len);
    buf_release(&z->file);
    buf_release(&z->directory);
    return path;
}

#define NPZ_ADD(z, name, descr, shape, values)                                 \
    npz_add((z), (name), (descr), (shape), (values), sizeof(values))

// Three samples: x is 1, 2, 3 and y 0, 1, 0.
static void npz_samples(struct npz *z)
{
    static const float x[] = {1, 2, 3};
    static const uint8_t y[] = {0, 1, 0};

    NPZ_ADD(z, "x", "<f4", "(3, 1)", x);
    NPZ_ADD(z, "y", "|u1", "(3,)", y);
}

static enum sl_err npz_open(struct data **out, struct npz *z,
                            struct sl_error *err)
{
    struct data_source s = {.format = "npz",
                            .roots = t_roots(),
                            .scale = 1,
                            .ids = csv_columns,
                            .ids_count = 2};
    struct data_want w = want(1, 2);

    npz_samples(z);
    s.x = npz_put(z);
    return data_open(out, &s, &w, err);
}

TEST(ids, an_npz_has_arrays_of_ids)
{
    static const int64_t user[] = {-1, INT64_MIN, 7};
    static const uint32_t tags[] = {1, 2, UINT32_MAX, 4, 5, 6};
    struct npz z = {0};
    struct data *d;
    float x;
    int32_t y;

    NPZ_ADD(&z, "user", "<i8", "(3,)", user);
    NPZ_ADD(&z, "tags", "<u4", "(3, 2)", tags);
    T_OK(npz_open(&d, &z, t_err()));
    T_EQ(data_memory(d), 3 * 4 + 3 + sizeof(user) + sizeof(tags));
    T_OK(data_read(d, 1, &x, &y, t_err()));
    T_NEAR((double)x, 2, 0);
    read_ids_are(d, "9223372036854775808", "4294967295,4");
    T_OK(data_read(d, 0, &x, &y, t_err()));
    read_ids_are(d, "18446744073709551615", "1,2");
    data_free(d);
}

TEST(ids, an_npz_has_bags_with_offsets)
{
    static const uint8_t user[] = {0xff, 0xff, 0xff, 0xfe, // big-endian: -2
                                   0,    0,    0,    1,    0, 0, 1, 0};
    static const uint64_t tags[] = {UINT64_MAX, 8, 9, 10};
    static const int32_t offsets[] = {0, 3, 3, 4};
    struct npz z = {0};
    struct data *d;
    float x;
    int32_t y;

    NPZ_ADD(&z, "user", ">i4", "(3,)", user);
    NPZ_ADD(&z, "tags", "<u8", "(4,)", tags);
    NPZ_ADD(&z, "tags.offsets", "<i4", "(4,)", offsets);
    T_OK(npz_open(&d, &z, t_err()));
    T_OK(data_read(d, 0, &x, &y, t_err()));
    read_ids_are(d, "18446744073709551614", "18446744073709551615,8,9");
    T_OK(data_read(d, 1, &x, &y, t_err()));
    read_ids_are(d, "1", "");
    T_OK(data_read(d, 2, &x, &y, t_err()));
    read_ids_are(d, "256", "10");
    data_free(d);
}

// Of a set that is larger than memory may be, arrays of ids stay in the file,
// too.
TEST(ids, arrays_may_stay_in_their_file)
{
    static const int64_t user[] = {-1, 8, 7};
    static const uint32_t tags[] = {1, 2, 3, UINT32_MAX};
    static const int64_t offsets[] = {0, 3, 3, 4};
    struct data_source s = {.format = "npz",
                            .roots = t_roots(),
                            .scale = 1,
                            .ids = csv_columns,
                            .ids_count = 2,
                            .stay = true};
    struct data_want w = want(1, 2);
    struct npz z = {0};
    struct data *d;
    float x;
    int32_t y;

    NPZ_ADD(&z, "user", "<i8", "(3,)", user);
    NPZ_ADD(&z, "tags", "<u4", "(4,)", tags);
    NPZ_ADD(&z, "tags.offsets", "<i8", "(4,)", offsets);
    npz_samples(&z);
    s.x = npz_put(&z);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_memory(d), 0);
    for (unsigned i = 0; i < 3; i++) {
        data_expect(d, i);
        data_soon(d, i);
    }
    T_OK(data_read(d, 2, &x, &y, t_err()));
    T_NEAR((double)x, 3, 0);
    read_ids_are(d, "7", "4294967295");
    T_OK(data_read(d, 1, &x, &y, t_err()));
    read_ids_are(d, "8", "");
    T_OK(data_read(d, 0, &x, &y, t_err()));
    read_ids_are(d, "18446744073709551615", "1,2,3");
    data_free(d);
}

// Checks that an npz with such tags (four of them, and offsets) is refused.
static void tags_fail(const char *descr, const char *shape, const void *values,
                      size_t bytes, const int64_t *offsets, size_t count,
                      const char *says)
{
    static const int64_t user[] = {1, 2, 3};
    struct sl_error err = SL_ERROR_INIT;
    struct npz z = {0};
    struct data *d;
    char length[32];

    NPZ_ADD(&z, "user", "<i8", "(3,)", user);
    npz_add(&z, "tags", descr, shape, values, bytes);
    snprintf(length, sizeof(length), "(%zu,)", count);
    if (offsets != NULL)
        npz_add(&z, "tags.offsets", "<i8", length, offsets,
                count * sizeof(*offsets));
    T_NE(npz_open(&d, &z, &err), SL_OK);
    T_HAS(err.text, "clicks.npz: ");
    T_HAS(err.text, says);
}

static void offsets_fail(const int64_t *offsets, size_t count, const char *says)
{
    static const int64_t tags[] = {1, 2, 3, 4};

    tags_fail("<i8", "(4,)", tags, sizeof(tags), offsets, count, says);
}

#define OFFSETS_FAIL(says, ...)                                                \
    offsets_fail((const int64_t[]){__VA_ARGS__},                               \
                 sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),     \
                 (says))

TEST(ids, offsets_that_make_no_bags_are_refused)
{
    OFFSETS_FAIL("the offsets of sample 1 in 'tags.offsets' fall", 0, 3, 2, 4);
    OFFSETS_FAIL("of sample 2 in 'tags.offsets' point beyond", 0, 3, 5, 5);
    OFFSETS_FAIL("of sample 0 in 'tags.offsets' fall", -1, 3, 3, 4);
    OFFSETS_FAIL("goes from 1 to 4; 0 to 4", 1, 3, 3, 4);
    OFFSETS_FAIL("goes from 0 to 3; 0 to 4", 0, 3, 3, 3);
    OFFSETS_FAIL("and 'tags.offsets' 4 numbers", 0, 2, 4);
    OFFSETS_FAIL("and 'tags.offsets' 4 numbers", 0, 1, 2, 3, 4);
}

TEST(ids, arrays_that_are_no_ids_are_refused)
{
    static const float floats[] = {1, 2, 3};
    static const int64_t six[] = {1, 2, 3, 4, 5, 6}, bags[] = {0, 1, 2, 3};

    tags_fail("<f4", "(3,)", floats, sizeof(floats), NULL, 0,
              "array 'tags' is of another type than int64");
    tags_fail("<i8", "(6,)", six, sizeof(six), NULL, 0, "(3) or (3, k)");
    tags_fail("<i8", "(3, 2, 1)", six, sizeof(six), NULL, 0, "(3) or (3, k)");
    tags_fail("<i8", "(3, 0)", six, 0, NULL, 0, "0 ids in each sample");
    tags_fail("<i8", "(3, 2)", six, sizeof(six), bags, 4,
              "'tags' has one dimension");
}

TEST(ids, a_bag_has_a_million_ids_at_most)
{
    static const int64_t most[] = {0, IDS_BAG_MAX, IDS_BAG_MAX, IDS_BAG_MAX},
                         over[] = {0, 0, IDS_BAG_MAX + 1, IDS_BAG_MAX + 1};
    static const int64_t user[] = {1, 2, 3};
    static uint32_t tags[3 * (IDS_BAG_MAX + 1)];
    struct npz z = {0};
    struct data *d;
    float x;
    int32_t y;

    NPZ_ADD(&z, "user", "<i8", "(3,)", user);
    NPZ_ADD(&z, "tags.offsets", "<i8", "(4,)", most);
    npz_add(&z, "tags", "<u4", "(1000000,)", tags, IDS_BAG_MAX * sizeof(*tags));
    T_OK(npz_open(&d, &z, t_err()));
    T_OK(data_read(d, 0, &x, &y, t_err()));
    data_free(d);
    tags_fail("<u4", "(1000001,)", tags, (IDS_BAG_MAX + 1) * sizeof(*tags),
              over, 4, "of sample 1 in 'tags.offsets' are over 1000000 ids");
    tags_fail("<u4", "(3, 1000001)", tags, sizeof(tags), NULL, 0,
              "has 1000001 ids in each sample; 1 to 1000000");
}

TEST(ids, an_npz_needs_every_column)
{
    static const int64_t user[] = {1, 2, 3};
    struct sl_error err = SL_ERROR_INIT;
    struct npz z = {0};
    struct data *d;

    NPZ_ADD(&z, "user", "<i8", "(3,)", user);
    T_FAILS(SL_ENOENT, npz_open(&d, &z, &err));
    T_HAS(err.text, "tags.npy");
}

// ---- batches

// Sample i has the label i, the user 2^60 + i, and i % 4 tags, i * 10 and up.
static struct data *numbered(void)
{
    struct buf text = BUF_INIT;
    struct data_want w = want(1, ROW_COUNT);
    struct data_source s;
    struct data *d;

    T_OK(buf_append_str(&text, "price,user,click,tags\n"));
    for (int i = 0; i < ROW_COUNT; i++) {
        T_OK(buf_appendf(&text, "1,%llu,%d,", (1ull << 60) + (unsigned)i, i));
        for (int k = 0; k < i % 4; k++)
            T_OK(buf_appendf(&text, "%s%d", k > 0 ? "|" : "", i * 10 + k));
        T_OK(buf_append_char(&text, '\n'));
    }
    s = csv_source(buf_text(&text));
    T_OK(data_open(&d, &s, &w, t_err()));
    buf_release(&text);
    return d;
}

static void batch_has_ids_of_its_samples(const struct batch *b, unsigned *seen)
{
    const int32_t *label = b->y;

    T_EQ(b->ids[0].samples, b->n);
    T_EQ(b->ids[1].samples, b->n);
    T_EQ(b->ids[0].offsets[b->n], b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t *at = &b->ids[1].offsets[i];
        uint32_t n = (uint32_t)label[i];

        seen[n]++;
        T_EQ(b->ids[0].ids[i], (UINT64_C(1) << 60) + n);
        T_EQ(at[1] - at[0], n % 4);
        for (uint32_t k = at[0]; k < at[1]; k++)
            T_EQ(b->ids[1].ids[k], n * 10 + k - at[0]);
    }
}

// Two epochs, shuffled: the bags of a batch are in the order of its samples,
// and they are told of as soon as the batch has been read.
TEST(ids, a_batch_has_the_ids_of_its_samples)
{
    struct data *d = numbered();
    unsigned seen[ROW_COUNT] = {0};
    struct input *in;

    T_OK(input_new(&in, 3, t_err()));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct input_run run = {.data = d,
                                .shuffle = true,
                                .epoch = epoch,
                                .count = ROW_COUNT,
                                .batch = 7};
        const struct id_bag *next = NULL;
        struct batch b;

        T_OK(order_init(&run.order, t_seed(), epoch, ROW_COUNT));
        input_open(in, &run);
        for (uint32_t k = 0; k < input_run_steps(&run); k++) {
            T_OK(input_get(in, &run, k, &b, t_err()));
            T_TRUE(k == 0 || next == b.ids);
            batch_has_ids_of_its_samples(&b, seen);
            next = input_ids(in, &run, k + 1);
            while (next == NULL && k + 1 < input_run_steps(&run))
                next = input_ids(in, &run, k + 1);
            input_put(in, &b);
        }
        T_PTR(next, NULL);
        input_close(in, &run);
    }
    for (unsigned i = 0; i < ROW_COUNT; i++)
        T_EQ(seen[i], 2);
    input_free(in);
    data_free(d);
}

TEST(ids, data_without_ids_has_batches_without_bags)
{
    struct data_source s = {.format = "synthetic",
                            .generator = "binary",
                            .samples = 4,
                            .seed = 3,
                            .scale = 1};
    struct data_want w = want(2, 2);
    struct input_run run = {.count = 4, .batch = 4};
    struct input *in;
    struct batch b;

    T_OK(data_open(&run.data, &s, &w, t_err()));
    T_EQ(data_id_columns(run.data), 0);
    T_OK(input_new(&in, 1, t_err()));
    input_open(in, &run);
    T_OK(input_get(in, &run, 0, &b, t_err()));
    T_PTR(b.ids, NULL);
    input_put(in, &b);
    input_close(in, &run);
    input_free(in);
    data_free(run.data);
}

TEST(ids, a_batch_has_a_bound)
{
    static uint64_t ids[IDS_BAG_MAX];
    struct sl_error err = SL_ERROR_INIT;
    struct ids s = {0};
    unsigned full = IDS_BATCH_MAX / IDS_BAG_MAX;

    T_OK(ids_begin(&s, 1, t_err()));
    for (unsigned i = 0; i < full; i++)
        T_OK(ids_add(&s, 0, ids, IDS_BAG_MAX, t_err()));
    T_FAILS(SL_ERANGE, ids_add(&s, 0, ids, IDS_BAG_MAX, &err));
    T_HAS(err.text, "take a smaller batch");
    T_EQ(ids_bags(&s)[0].samples, full);
    T_OK(ids_begin(&s, 0, t_err()));
    T_PTR(ids_bags(&s), NULL);
    ids_release(&s);
}
