// SPDX-License-Identifier: Apache-2.0
// Samples in tar archives: names short and long, groups, classes, and what is
// refused.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "worker/data/data.h"

// ---- writing

static void put_header(struct buf *b, const char *name, char type, size_t size)
{
    uint8_t h[512] = {0};
    unsigned sum = 0;

    memcpy(h, name, strnlen(name, 100));
    memcpy(h + 100, "0000644", 8);
    snprintf((char *)h + 124, 12, "%011zo", size);
    memset(h + 148, ' ', 8);
    h[156] = (uint8_t)type;
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    for (unsigned i = 0; i < sizeof(h); i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum & 0777777);
    T_OK(buf_append(b, h, sizeof(h)));
}

static void put_member(struct buf *b, const char *name, char type,
                       const void *at, size_t n)
{
    static const uint8_t zeroes[512];

    put_header(b, name, type, n);
    T_OK(buf_append(b, at, n));
    T_OK(buf_append(b, zeroes, (512 - n % 512) % 512));
}

static void put_text(struct buf *b, const char *name, const char *text)
{
    put_member(b, name, '0', text, strlen(text));
}

static void put_image(struct buf *b, const char *name, const char *image)
{
    uint8_t bytes[1 << 14];
    char path[512];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", IMAGES, image);
    f = fopen(path, "rb");
    T_TRUE(f != NULL);
    n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    put_member(b, name, '0', bytes, n);
}

static void put_end(struct buf *b)
{
    static const uint8_t zeroes[1024];

    T_OK(buf_append(b, zeroes, sizeof(zeroes)));
}

static void write_to(const char *path, const void *at, size_t n)
{
    FILE *f = fopen(path, "wb");

    T_TRUE(f != NULL);
    T_EQ(fwrite(at, 1, n, f), n);
    T_EQ(fclose(f), 0);
}

// Writes the archive and empties the buffer.
static const char *write_tar(const char *name, struct buf *b)
{
    const char *path = t_path(name);

    put_end(b);
    write_to(path, b->data, b->len);
    buf_release(b);
    buf_init(b);
    return path;
}

// ---- sources

static const struct data_want small_image = {.rank = 3,
                                             .dim = {8, 8, 3},
                                             .outputs = 2,
                                             .labels = DATA_INDEX,
                                             .u8 = true};

static struct data_source tar_of(const char *format, const char *path)
{
    return (struct data_source){
        .format = format, .x = path, .scale = 1, .roots = t_roots()};
}

static int32_t label_of(struct data *d, uint64_t i)
{
    uint8_t x[192];
    int32_t y = -1;

    T_OK(data_read(d, i, x, &y, t_err()));
    return y;
}

static void refused(const struct data_source *s, enum sl_err code,
                    const char *why)
{
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;

    T_FAILS(code, data_open(&d, s, &small_image, &err));
    T_HAS(err.text, why);
    T_TRUE(d == NULL);
}

static void unreadable(struct data *d, uint64_t i, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;
    float x[192], y;

    T_FAILS(SL_EINVAL, data_read(d, i, x, &y, &err));
    T_HAS(err.text, why);
    T_HAS(err.text, "sample at byte ");
}

// ---- webdataset

TEST(webdataset, members_with_one_name_are_a_sample)
{
    struct data_source s = tar_of("webdataset", t_path("w-{0..1}.tar"));
    struct buf b = BUF_INIT;
    struct data *d = NULL;

    put_text(&b, "./a/1.json", "{\"label\": 0}");
    put_image(&b, "./a/1.jpg", "sampled.jpg");
    put_text(&b, "./a/1.cls", "1\n");
    put_text(&b, "./._1.cls", "9"); // as macOS writes them
    put_text(&b, "b/1.cls", "0");   // the same name elsewhere is another
    put_image(&b, "b/1.PNG", "rgb.png");
    put_text(&b, "notes.txt", "nothing of this group is read");
    write_tar("w-0.tar", &b);
    put_image(&b, "b/1.jpeg", "grey.jpg"); // no group spans two files
    put_text(&b, "b/1.cls", " 1 ");
    write_tar("w-1.tar", &b);
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(data_samples(d), 3);
    T_TRUE(data_shared(d) && data_is_u8(d));
    T_EQ(label_of(d, 2), 1);
    T_EQ(label_of(d, 0), 1);
    T_EQ(label_of(d, 1), 0);
    data_expect(d, 1);
    T_TRUE(data_memory(d) > 0);
    data_free(d);
}

TEST(webdataset, labels_are_text_json_or_npy)
{
    struct data_source s = tar_of("webdataset", NULL);
    struct buf b = BUF_INIT;
    struct data *d = NULL;

    put_image(&b, "1.jpg", "sampled.jpg");
    put_text(&b, "1.json", "{\"label\": 3, \"kind\": 1, \"far\": 1e300}");
    s.x = write_tar("j.tar", &b);
    s.label = (struct data_feature){.key = "json", .first = 2};
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(label_of(d, 0), 1);
    data_free(d);
    s.label.field = "kind";
    s.label.first = 0;
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(label_of(d, 0), 1);
    data_free(d);
    s.label.field = "none";
    T_OK(data_open(&d, &s, &small_image, t_err()));
    unreadable(d, 0, "its .json has no number 'none'");
    data_free(d);
    s.label.field = "far"; // beyond a float
    T_OK(data_open(&d, &s, &small_image, t_err()));
    unreadable(d, 0, "its .json has no number 'far'");
    data_free(d);
}

// Returns an npy of floats that count from 0.
static size_t make_npy(uint8_t *to, const char *shape, unsigned n, bool fortran)
{
    memcpy(to, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(to + 10, ' ', 118);
    to[10 + snprintf((char *)to + 10, 118,
                     "{'descr': '<f4', 'fortran_order': %s, 'shape': %s, }",
                     fortran ? "True" : "False", shape)] = ' ';
    to[127] = '\n';
    for (unsigned i = 0; i < n; i++) {
        float value = (float)i;

        memcpy(to + 128 + 4 * i, &value, sizeof(value));
    }
    return 128 + 4 * n;
}

TEST(webdataset, numbers_come_from_npy_members)
{
    static const struct data_want six = {
        .rank = 1, .dim = {6}, .outputs = 2, .labels = DATA_VALUES, .u8 = true};
    struct data_source s = tar_of("webdataset", NULL);
    struct sl_error err = SL_ERROR_INIT;
    struct buf b = BUF_INIT;
    struct data *d = NULL;
    uint8_t npy[256];
    float x[6], y[2];

    put_member(&b, "1.npy", '0', npy, make_npy(npy, "(2, 3)", 6, false));
    put_member(&b, "1.y.npy", '0', npy, make_npy(npy, "(2,)", 2, false));
    put_member(&b, "2.npy", '0', npy, make_npy(npy, "(5,)", 5, false));
    put_member(&b, "2.y.npy", '0', npy, make_npy(npy, "(2,)", 2, false));
    put_member(&b, "3.npy", '0', npy, make_npy(npy, "(2, 3)", 6, true));
    s.x = write_tar("n.tar", &b);
    s.number.key = "npy";
    s.label.key = "y.npy";
    s.scale = 2;
    T_OK(data_open(&d, &s, &six, t_err()));
    T_TRUE(!data_is_u8(d));
    T_OK(data_read(d, 0, x, y, t_err()));
    T_NEAR(x[5], 10, 0);
    T_NEAR(y[1], 1, 0);
    unreadable(d, 1, "its npy has 5 numbers; 6 are expected");
    T_FAILS(SL_ENOTSUP, data_read(d, 2, x, y, &err));
    T_HAS(err.text, "Fortran");
    data_free(d);
}

TEST(webdataset, a_sample_that_lacks_a_part_is_a_bad_sample)
{
    struct data_source s = tar_of("webdataset", NULL);
    struct buf b = BUF_INIT;
    struct data *d = NULL;

    put_image(&b, "1.jpg", "sampled.jpg");
    put_text(&b, "2.cls", "1");
    put_image(&b, "3.jpg", "sampled.jpg");
    put_text(&b, "3.cls", "secret");
    put_image(&b, "4.jpg", "sampled.jpg");
    put_text(&b, "4.cls", "2");
    put_text(&b, "5.jpg", "no image");
    put_text(&b, "5.cls", "1");
    s.x = write_tar("m.tar", &b);
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(data_samples(d), 5);
    unreadable(d, 0, "no member that ends in .cls");
    unreadable(d, 1, "no member that ends in .jpg");
    unreadable(d, 2, "its .cls is no number");
    {
        struct sl_error err = SL_ERROR_INIT;
        uint8_t x[192];
        int32_t y;

        T_FAILS(SL_ERANGE, data_read(d, 3, x, &y, &err));
        T_FAILS(SL_ECORRUPT, data_read(d, 4, x, &y, &err));
        T_HAS(err.text, "is neither JPEG nor PNG");
    }
    data_free(d);
}

TEST(webdataset, long_names_of_gnu_and_pax_are_read)
{
    struct data_source s = tar_of("webdataset", NULL);
    struct buf b = BUF_INIT;
    struct data *d = NULL;
    char name[301], text[400];

    memset(name, 'n', 300);
    name[300] = '\0';
    snprintf(text, sizeof(text), "%s.jpg", name);
    put_member(&b, "././@LongLink", 'L', text, strlen(text) + 1);
    put_image(&b, "cut", "sampled.jpg");
    snprintf(text, sizeof(text), "314 path=%s.cls\n", name);
    T_EQ(strlen(text), 314);
    put_member(&b, "pax", 'x', text, strlen(text));
    put_text(&b, "cut", "1");
    put_member(&b, "global", 'g', "20 comment=whatever\n", 20);
    put_image(&b, "2.jpg", "sampled.jpg"); // the names were for one member
    put_member(&b, "pax", 'x', "10 size=1\n", 10);
    put_text(&b, "2.cls", "0");
    s.x = write_tar("l.tar", &b);
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(data_samples(d), 2);
    T_EQ(label_of(d, 0), 1);
    T_EQ(label_of(d, 1), 0);
    data_free(d);
}

// ---- tar

TEST(tar, the_folder_of_an_image_is_its_class)
{
    struct data_source s = tar_of("tar", t_path("t-*.tar"));
    struct buf b = BUF_INIT;
    struct data *d = NULL;

    put_member(&b, "train/", '5', "", 0);
    put_image(&b, "train/dogs/1.jpg", "sampled.jpg");
    put_text(&b, "train/readme.md", "others are passed over");
    put_image(&b, "loose.jpg", "sampled.jpg");
    write_tar("t-0.tar", &b);
    put_image(&b, "train/cats/1.a.png", "rgb.png");
    put_image(&b, "train/dogs/2.jpg", "sampled.jpg");
    write_tar("t-1.tar", &b);
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_EQ(data_samples(d), 3);
    T_EQ(data_classes(d), 2);
    T_STR(data_class(d, 0), "cats");
    T_STR(data_class(d, 1), "dogs");
    T_EQ(label_of(d, 0), 1);
    T_EQ(label_of(d, 1), 0);
    T_EQ(label_of(d, 2), 1);
    data_free(d);
}

TEST(tar, the_job_may_name_the_classes)
{
    static char *names[] = {"dogs", "cats"};
    struct data_source s = tar_of("tar", NULL);
    struct buf b = BUF_INIT;
    struct data *d = NULL;

    put_image(&b, "cats/1.jpg", "sampled.jpg");
    put_image(&b, "dogs/1.jpg", "sampled.jpg");
    s.x = write_tar("t.tar", &b);
    s.names = names;
    s.names_count = 2;
    T_OK(data_open(&d, &s, &small_image, t_err()));
    T_STR(data_class(d, 0), "dogs");
    T_EQ(label_of(d, 0), 1);
    T_EQ(label_of(d, 1), 0);
    data_free(d);
    names[1] = "wolves";
    refused(&s, SL_EINVAL,
            "byte 512: an image in a folder that is none of the classes");
    s.names_count = 0;
    put_image(&b, "dogs/1.jpg", "sampled.jpg");
    s.x = write_tar("one.tar", &b);
    refused(&s, SL_EINVAL, "has 1 classes (folders), but the model has 2");
    put_text(&b, "a/1.txt", "");
    s.x = write_tar("none.tar", &b);
    refused(&s, SL_EINVAL, "holds no images");
}

// ---- what is refused

TEST(tar, links_devices_and_sparse_files_are_refused)
{
    static const struct {
        char type;
        const char *why;
    } cases[] = {{'1', "byte 0: the member is a link"},
                 {'2', "byte 0: the member is a link"},
                 {'3', "a device"},
                 {'6', "a device or a FIFO"},
                 {'S', "a sparse file"},
                 {'V', "of a type that is not read"}};

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct data_source s = tar_of("webdataset", NULL);
        struct buf b = BUF_INIT;

        put_member(&b, "1.jpg", cases[i].type, "", 0);
        s.x = write_tar("k.tar", &b);
        refused(&s, SL_ENOTSUP, cases[i].why);
    }
}

TEST(tar, broken_heads_are_refused_by_their_byte)
{
    static const struct {
        const char *pax, *why;
        enum sl_err code;
    } cases[] = {
        {"8 path=a\n", "a broken pax header", SL_ECORRUPT},
        {"99 path=a\n", "a broken pax header", SL_ECORRUPT},
        {"0 path=a\n", "a broken pax header", SL_ECORRUPT},
        {"8 patha\n", "a broken pax header", SL_ECORRUPT},
        {"x", "a broken pax header", SL_ECORRUPT},
        {"11 size=-1\n", "a pax size that is no number", SL_ECORRUPT},
        {"32 size=99999999999999999999999\n", "no number", SL_ECORRUPT},
        {"20 size=99999999999\n", "goes on beyond the end", SL_ECORRUPT},
        {"21 GNU.sparse.name=a\n", "a sparse file", SL_ENOTSUP},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct data_source s = tar_of("webdataset", NULL);
        struct buf b = BUF_INIT;

        put_member(&b, "pax", 'x', cases[i].pax, strlen(cases[i].pax));
        put_text(&b, "1.cls", "1");
        s.x = write_tar("p.tar", &b);
        refused(&s, cases[i].code, cases[i].why);
    }
}

TEST(tar, compressed_cut_and_foreign_files_are_refused)
{
    struct data_source s = tar_of("webdataset", t_path("f.tar"));
    struct buf b = BUF_INIT;
    uint8_t block[1024];

    memset(block, 'x', sizeof(block));
    write_to(s.x, block, sizeof(block));
    refused(&s, SL_ECORRUPT, "byte 0: no header of a tar is here");
    write_to(s.x, block, 100);
    refused(&s, SL_ECORRUPT, "ends at byte 100");
    memcpy(block, "\x1f\x8b", 2);
    write_to(s.x, block, sizeof(block));
    refused(&s, SL_ENOTSUP, "gunzip");
    write_to(s.x, block, 0);
    refused(&s, SL_EINVAL, "no group has a member that ends in .jpg or .cls");
    put_header(&b, "1.jpg", '0', 5000);
    write_to(s.x, b.data, b.len);
    refused(&s, SL_ECORRUPT, "byte 0: the member goes on beyond the end");
    buf_release(&b);
    buf_init(&b);
    put_header(&b, "1.jpg", '0', 0);
    memcpy(b.data + 124, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
           12);
    write_to(s.x, b.data, b.len);
    refused(&s, SL_ECORRUPT, "byte 0: ");
    buf_release(&b);
}

TEST(tar, a_flipped_bit_of_a_head_is_found)
{
    struct data_source s = tar_of("webdataset", t_path("b.tar"));
    struct buf b = BUF_INIT;

    put_text(&b, "1.cls", "1");
    put_end(&b);
    for (unsigned i = 0; i < 512; i++) {
        struct sl_error err = SL_ERROR_INIT;
        struct data *d = NULL;

        if (i >= 148 && i < 156) // the checksum may be written in several ways
            continue;
        b.data[i] ^= (uint8_t)(1u << i % 8);
        write_to(s.x, b.data, b.len);
        T_FAILS(SL_ECORRUPT, data_open(&d, &s, &small_image, &err));
        b.data[i] ^= (uint8_t)(1u << i % 8);
    }
    buf_release(&b);
}

TEST(webdataset, two_members_with_one_part_are_refused)
{
    struct data_source s = tar_of("webdataset", NULL);
    struct buf b = BUF_INIT;

    put_image(&b, "1.jpg", "sampled.jpg");
    put_image(&b, "1.png", "rgb.png");
    s.x = write_tar("2.tar", &b);
    refused(&s, SL_EINVAL, "a second member of its group");
}
