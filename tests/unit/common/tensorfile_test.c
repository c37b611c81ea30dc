// SPDX-License-Identifier: Apache-2.0
#include "common/base/tensorfile.h"

#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

static struct tensor_info vector(const char *name, enum tensor_dtype dtype,
                                 uint64_t n)
{
    return (struct tensor_info){
        .name = name, .dtype = dtype, .rank = 1, .shape = {n}};
}

// Writes tensors whose bytes are 0, 1, 2 ... through the data.
static enum sl_err write_to(struct fs *fs, const char *path,
                            struct tensor_info *tensors, size_t count,
                            const struct tensor_meta *meta, size_t meta_count,
                            bool checks, struct sl_error *err)
{
    struct tensorfile_writer *w;
    enum sl_err rc = tensorfile_layout(tensors, count, err);
    uint64_t bytes = count > 0 ? tensors[count - 1].end : 0;
    uint8_t piece[37];

    if (rc == SL_OK)
        rc = tensorfile_create(&w, fs, path, tensors, count, meta, meta_count,
                               checks, err);
    if (rc != SL_OK)
        return rc;
    for (uint64_t at = 0; at < bytes;) {
        size_t n =
            bytes - at < sizeof(piece) ? (size_t)(bytes - at) : sizeof(piece);

        for (size_t i = 0; i < n; i++)
            piece[i] = (uint8_t)(at + i);
        rc = tensorfile_append(w, piece, n, err);
        if (rc != SL_OK) {
            tensorfile_abort(w);
            return rc;
        }
        at += n;
    }
    return tensorfile_finish(w, NULL, err);
}

// The bytes that the format prescribes, written out by hand.
TEST(tensorfile, golden)
{
    static const char want[] =
        "38000000000000007b2277223a7b226474797065223a22463332222c22736861706522"
        "3a5b325d2c22646174615f6f666673657473223a5b302c385d7d7d20200000803f0000"
        "0040";
    const float values[2] = {1, 2};
    struct tensor_info t = vector("w", TENSOR_F32, 2);
    struct tensorfile_writer *w;
    struct buf file = BUF_INIT;
    char hex[sizeof(want)];
    uint64_t bytes;

    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), &t, 1, NULL, 0, false,
                           t_err()));
    T_OK(tensorfile_append(w, values, sizeof(values), t_err()));
    T_OK(tensorfile_finish(w, &bytes, t_err()));
    T_EQ(bytes, 72);
    T_OK(fs_read_all(fs_posix(), t_path("f"), 1000, &file, t_err()));
    T_EQ(file.len, 72);
    hex_encode(hex, file.data, file.len);
    T_STR(hex, want);
    buf_release(&file);
}

TEST(tensorfile, round_trip)
{
    struct tensor_info tensors[] = {
        vector("dense/kernel#m", TENSOR_F32, 7),
        vector("half", TENSOR_BF16, 3),
        vector("empty", TENSOR_F32, 0),
        {.name = "scalar \"\\\n\xc3\xa4", .dtype = TENSOR_F64, .rank = 0},
        {.name = "m", .dtype = TENSOR_I64, .rank = 3, .shape = {2, 1, 3}},
        vector("flags", TENSOR_BOOL, 5),
    };
    const struct tensor_meta meta[] = {{"sluice.format", "1"},
                                       {"quote\"", "line\n\x7f"}};
    struct tensorfile *f;

    T_OK(write_to(fs_posix(), t_path("f"), tensors, 6, meta, 2, true, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    T_OK(tensorfile_verify(f, t_err()));
    T_EQ(tensorfile_count(f), 6);
    T_STR(tensorfile_meta(f, "quote\""), "line\n\x7f");
    T_TRUE(tensorfile_meta(f, "none") == NULL);
    T_EQ(tensorfile_meta_count(f), 4); // and two checksums
    T_STR(tensorfile_meta_at(f, 0).key, "sluice.format");
    for (size_t i = 0; i < 6; i++) {
        const struct tensor_info *t = tensorfile_find(f, tensors[i].name);
        const uint8_t *data;

        T_TRUE(t != NULL);
        T_EQ(t->begin, tensors[i].begin);
        T_EQ(t->end, tensors[i].end);
        T_EQ(t->dtype, tensors[i].dtype);
        T_EQ(t->rank, tensors[i].rank);
        data = tensorfile_data(f, t);
        for (uint64_t b = t->begin; b < t->end; b++)
            T_EQ(data[b - t->begin], (uint8_t)b);
    }
    T_TRUE(tensorfile_find(f, "nothing") == NULL);
    tensorfile_close(f);
    tensorfile_close(NULL);
}

// Somebody else cuts a file short after it was opened, to any length.
TEST(tensorfile, what_is_read_and_not_mapped_may_be_cut_short)
{
    struct tensor_info t = vector("v", TENSOR_U8, 20000);
    const char *path = t_path("model.safetensors");
    const struct tensor_info *found;
    struct tensorfile *f = NULL;
    struct fs_file *file;
    uint8_t bytes[10000];
    uint64_t size;

    T_OK(write_to(fs_posix(), path, &t, 1, NULL, 0, false, t_err()));
    T_OK(fs_open(fs_posix(), &file, path, FS_READ, t_err()));
    T_OK(fs_size(file, &size, t_err()));
    T_OK(tensorfile_open_read(&f, file, size, 0, t_err()));
    found = tensorfile_find(f, "v");
    T_OK(tensorfile_read(f, found, 10000, bytes, 10000, t_err()));
    T_EQ(bytes[0], 10000 % 256);
    T_EQ(truncate(path, 15000), 0);
    T_OK(tensorfile_read(f, found, 0, bytes, 10000, t_err()));
    T_FAILS(SL_ECORRUPT,
            tensorfile_read(f, found, 10000, bytes, 10000, t_err()));
    tensorfile_close(f);
    for (uint64_t n = 0; n < 100; n++)
        T_FAILS(SL_ECORRUPT, tensorfile_open_read(&f, file, n, 0, t_err()));
    T_EQ(truncate(path, 3), 0);
    T_FAILS(SL_ECORRUPT, tensorfile_open_read(&f, file, size, 0, t_err()));
    fs_close(file);
}

static void verified_unmapped(struct fs *fs)
{
    struct tensor_info t = vector("v", TENSOR_U8, 20000);
    const char *path = t_path("model.safetensors");
    struct tensorfile *f = NULL;
    FILE *file;

    T_OK(write_to(fs, path, &t, 1, NULL, 0, true, t_err()));
    T_OK(tensorfile_open_unmapped(&f, fs, path, 0, t_err()));
    T_OK(tensorfile_verify(f, t_err()));
    file = fopen(path, "r+");
    T_ASSERT(file != NULL && fseek(file, -7, SEEK_END) == 0);
    T_ASSERT(fputc('x', file) == 'x' && fclose(file) == 0);
    T_FAILS(SL_ECORRUPT, tensorfile_verify(f, t_err()));
    T_EQ(truncate(path, 10000), 0);
    T_FAILS(SL_ECORRUPT, tensorfile_verify(f, t_err()));
    tensorfile_close(f);
}

TEST(tensorfile, checksums_are_verified_of_what_is_not_mapped)
{
    verified_unmapped(fs_posix());
    verified_unmapped(fs_private());
}

TEST(tensorfile, layout_is_wide_first_then_by_name)
{
    struct tensor_info tensors[] = {
        vector("b", TENSOR_F16, 1), vector("z", TENSOR_F64, 1),
        vector("a", TENSOR_F32, 1), vector("A", TENSOR_F32, 1)};

    T_OK(tensorfile_layout(tensors, 4, t_err()));
    T_STR(tensors[0].name, "z");
    T_STR(tensors[1].name, "A");
    T_STR(tensors[2].name, "a");
    T_STR(tensors[3].name, "b");
    T_EQ(tensors[3].begin, 16);
    T_EQ(tensors[3].end, 18);
}

TEST(tensorfile, no_tensor_at_all)
{
    struct tensorfile *f;

    T_OK(write_to(fs_posix(), t_path("f"), NULL, 0, NULL, 0, true, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    T_EQ(tensorfile_count(f), 0);
    T_OK(tensorfile_verify(f, t_err()));
    tensorfile_close(f);
    T_OK(write_to(fs_posix(), t_path("f"), NULL, 0, NULL, 0, false, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    T_FAILS(SL_ENOENT, tensorfile_verify(f, t_err()));
    T_EQ(tensorfile_meta_count(f), 0);
    tensorfile_close(f);
}

TEST(tensorfile, patch_keeps_the_width)
{
    const struct tensor_meta meta[] = {{"step", "000"}, {"text", "a\"b"}};
    struct tensorfile_writer *w;
    struct tensorfile *f;

    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), NULL, 0, meta, 2, true,
                           t_err()));
    T_OK(tensorfile_patch(w, "step", "042", t_err()));
    T_FAILS(SL_EINVAL, tensorfile_patch(w, "step", "42", t_err()));
    T_FAILS(SL_EINVAL, tensorfile_patch(w, "step", "0042", t_err()));
    T_FAILS(SL_EINVAL, tensorfile_patch(w, "step", "0\"2", t_err()));
    T_FAILS(SL_EINVAL, tensorfile_patch(w, "text", "abc", t_err()));
    T_FAILS(SL_ENOENT, tensorfile_patch(w, "other", "x", t_err()));
    T_OK(tensorfile_finish(w, NULL, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    T_STR(tensorfile_meta(f, "step"), "042");
    T_STR(tensorfile_meta(f, "text"), "a\"b");
    T_OK(tensorfile_verify(f, t_err()));
    tensorfile_close(f);
}

TEST(tensorfile, the_writer_wants_all_bytes_and_no_more)
{
    struct tensor_info t = vector("w", TENSOR_F32, 2);
    struct tensorfile_writer *w;

    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), &t, 1, NULL, 0, true,
                           t_err()));
    T_OK(tensorfile_append(w, "1234567", 7, t_err()));
    T_FAILS(SL_ERANGE, tensorfile_append(w, "12", 2, t_err()));
    T_FAILS(SL_ESTATE, tensorfile_finish(w, NULL, t_err()));
    T_FALSE(fs_exists(fs_posix(), t_path("f")));
    T_FALSE(fs_exists(fs_posix(), t_path("f.tmp")));
}

static struct tensor_info bytes_at(const char *name, uint64_t begin, uint64_t n)
{
    return (struct tensor_info){.name = name,
                                .dtype = TENSOR_U8,
                                .rank = 1,
                                .shape = {n},
                                .begin = begin,
                                .end = begin + n};
}

// The file is the one that a writer of the final sizes makes, but for blanks.
TEST(tensorfile, sizes_may_become_smaller_behind_the_data)
{
    struct tensor_info most[] = {bytes_at("a", 0, 1000),
                                 bytes_at("b", 1000, 500)};
    struct tensor_info last[] = {bytes_at("a", 0, 3), bytes_at("b", 3, 0)};
    struct tensor_info more[] = {bytes_at("a", 0, 3),
                                 bytes_at("a longer name", 3, UINT32_MAX)};
    struct tensor_meta meta = {"key", "value"};
    struct tensorfile_writer *w;
    struct tensorfile *f;
    uint64_t bytes;

    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), most, 2, &meta, 1, true,
                           t_err()));
    T_OK(tensorfile_append(w, "xyz", 3, t_err()));
    T_OK(tensorfile_shrink(w, last, 2, &meta, 1, t_err()));
    T_FAILS(SL_ERANGE, tensorfile_append(w, "x", 1, t_err()));
    T_OK(tensorfile_patch(w, "key", "VALUE", t_err()));
    T_OK(tensorfile_finish(w, &bytes, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    T_OK(tensorfile_verify(f, t_err()));
    T_EQ(tensorfile_find(f, "b")->end, 3);
    T_MEM(tensorfile_data(f, tensorfile_find(f, "a")), "xyz", 3);
    T_TRUE(strcmp(tensorfile_meta(f, "key"), "VALUE") == 0);
    tensorfile_close(f);
    T_OK(tensorfile_create(&w, fs_posix(), t_path("g"), last, 2, &meta, 1, true,
                           t_err()));
    T_FAILS(SL_ERANGE, tensorfile_shrink(w, more, 2, &meta, 1, t_err()));
    tensorfile_abort(w);
}

TEST(tensorfile, what_was_not_begun_is_not_removed)
{
    struct tensor_info t = vector("w", TENSOR_F32, 2);
    struct tensorfile_writer *w;

    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(fs_write_durable(fs_posix(), t_path("f.tmp"), "other", 5, t_err()));
    t.begin = 4;
    T_FAILS(SL_EINVAL, tensorfile_create(&w, fs_posix(), t_path("f"), &t, 1,
                                         NULL, 0, true, t_err()));
    T_TRUE(fs_exists(fs_posix(), t_path("f.tmp")));
    t.begin = 0;
    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), &t, 1, NULL, 0, true,
                           t_err()));
    tensorfile_abort(w);
    T_FALSE(fs_exists(fs_posix(), t_path("f.tmp")));
}

// Blocks of 16 MiB have a checksum each.
TEST(tensorfile, many_blocks)
{
    const size_t n = TENSORFILE_BLOCK_BYTES * 2 + 5;
    struct tensor_info t = vector("w", TENSOR_U8, n);
    uint8_t *bytes = calloc(1, n);
    struct tensorfile_writer *w;
    struct crash_fs *crash = crash_fs_new(1);
    struct fs *fs = crash_fs_ops(crash);
    struct tensorfile *f;

    for (size_t i = 0; i < n; i += 1000)
        bytes[i] = (uint8_t)i;
    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&w, fs, "f", &t, 1, NULL, 0, true, t_err()));
    T_OK(tensorfile_append(w, bytes, n - 1000000, t_err()));
    T_OK(tensorfile_append(w, bytes + n - 1000000, 1000000, t_err()));
    T_OK(tensorfile_finish(w, NULL, t_err()));
    T_OK(tensorfile_open(&f, fs, "f", 0, t_err()));
    T_EQ(strlen(tensorfile_meta(f, TENSORFILE_KEY_DATA)), 24);
    T_OK(tensorfile_verify(f, t_err()));
    T_MEM(tensorfile_data(f, tensorfile_at(f, 0)), bytes, n);
    tensorfile_close(f);
    free(bytes);
    crash_fs_free(crash);
}

// Any flipped bit is found: by the parser, or by a checksum.
TEST(tensorfile, every_flipped_bit_is_found)
{
    struct tensor_info tensors[] = {vector("a", TENSOR_F32, 5),
                                    vector("b", TENSOR_F16, 3)};
    const struct tensor_meta meta[] = {{"sluice.version", "17"}};
    struct crash_fs *crash = crash_fs_new(1);
    struct fs *fs = crash_fs_ops(crash);
    struct fs_stat st = {0};

    T_OK(write_to(fs, "f", tensors, 2, meta, 1, true, t_err()));
    T_OK(fs_stat_path(fs, "f", &st, t_err()));
    for (uint64_t byte = 0; byte < st.bytes; byte++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct tensorfile *f = NULL;
            enum sl_err rc;

            T_OK(crash_fs_flip(crash, "f", byte, bit));
            rc = tensorfile_open(&f, fs, "f", 0, t_err());
            if (rc == SL_OK)
                rc = tensorfile_verify(f, t_err());
            // A flip in the name of a checksum key removes the checksum.
            T_TRUE(rc == SL_ECORRUPT || rc == SL_ENOENT);
            tensorfile_close(f);
            T_OK(crash_fs_flip(crash, "f", byte, bit));
        }
    }
    crash_fs_free(crash);
}

static enum sl_err parse_text(const char *header, size_t data_bytes)
{
    uint8_t bytes[2048] = {0};
    size_t n = strlen(header);
    struct tensorfile *f = NULL;
    enum sl_err rc;

    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    memcpy(bytes + 8, header, n);
    rc = tensorfile_parse(&f, "text", bytes, 8 + n + data_bytes, 0, t_err());
    tensorfile_close(f);
    return rc;
}

#define TENSOR(name, dtype, shape, begin, end)                                 \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape                  \
    "],\"data_offsets\":[" #begin "," #end "]}"

TEST(tensorfile, rejects)
{
    static const struct {
        const char *header;
        size_t data;
        enum sl_err want;
    } rows[] = {
        {"{" TENSOR("a", "F32", "2", 0, 8) "}", 8, SL_OK},
        {"{" TENSOR("a", "F32", "2", 0, 8) "}   ", 8, SL_OK},
        {"{" TENSOR("a", "F32", "", 0, 4) "}", 4, SL_OK}, // a scalar
        {"{}", 0, SL_OK},
        {"{" TENSOR("b", "F32", "1", 4, 8) "," TENSOR(
             "a", "F32", "1", 0, 4) "," TENSOR("e", "F32", "0", 4, 4) "}",
         8, SL_OK},
        {"{" TENSOR("a", "F32", "2", 0, 8) "}", 9, SL_ECORRUPT}, // more data
        {"{" TENSOR("a", "F32", "2", 0, 8) "}", 7, SL_ECORRUPT}, // less
        {"{" TENSOR("a", "F32", "1", 4, 8) "}", 8, SL_ECORRUPT}, // hole first
        {"{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("b", "F32", "1", 8,
                                                      12) "}",
         12, SL_ECORRUPT}, // hole between
        {"{" TENSOR("a", "F32", "2", 0, 8) "," TENSOR("b", "F32", "1", 4,
                                                      8) "}",
         8, SL_ECORRUPT}, // overlap
        {"{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("a", "F32", "1", 4,
                                                      8) "}",
         8, SL_ECORRUPT},                                        // twice
        {"{" TENSOR("a", "F32", "3", 0, 8) "}", 8, SL_ECORRUPT}, // size
        {"{" TENSOR("a", "F32", "-1", 0, 4) "}", 4, SL_ECORRUPT},
        {"{" TENSOR("a", "F32", "1.0", 0, 4) "}", 4, SL_ECORRUPT},
        {"{" TENSOR("a", "F8", "4", 0, 4) "}", 4, SL_ECORRUPT}, // dtype
        {"{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4,
         SL_ECORRUPT}, // rank 9
        {"{" TENSOR("a", "F32", "4611686018427387904,4", 0, 0) "}", 0,
         SL_ECORRUPT}, // the product wraps to 0
        {"{" TENSOR("a", "F32", "1", 4, 0) "}", 4, SL_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, SL_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
         "\"x\":1}}",
         4, SL_ECORRUPT}, // a fourth member
        {"{\"a\":5}", 0, SL_ECORRUPT},
        {"{\"__metadata__\":{\"a\":5}}", 0, SL_ECORRUPT},
        {"{\"__metadata__\":[]}", 0, SL_ECORRUPT},
        {"{\"__metadata__\":{\"a\":\"\xff\"}}", 0, SL_ECORRUPT}, // UTF-8
        {"[]", 0, SL_ECORRUPT},
        {" {}", 0, SL_ECORRUPT},
        {"{", 0, SL_ECORRUPT},
        {"{}x", 0, SL_ECORRUPT},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        if (parse_text(rows[i].header, rows[i].data) != rows[i].want)
            T_FAIL("row %zu, %s: not %s", i, rows[i].header,
                   sl_err_name(rows[i].want));
}

TEST(tensorfile, rejects_lengths_that_lie)
{
    uint8_t bytes[16] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    struct tensorfile *f;

    T_OK(tensorfile_parse(&f, "x", bytes, 10, 0, t_err()));
    tensorfile_close(f);
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 9, 0, t_err()));
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 7, 0, t_err()));
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 0, 0, t_err()));
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 10, 1, t_err()));
    bytes[7] = 0x80; // 2^63 and more
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 10, 0, t_err()));
    memset(bytes, 0xff, 8);
    T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", bytes, 10, 0, t_err()));
}

TEST(tensorfile, another_format_is_called_by_its_name)
{
    static const struct {
        const char *begin, *says;
    } rows[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "LFS"},
        {"PK\x03\x04 and what follows", "torch.load"},
        {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", "a pickle"},
        {"\x89HDF\r\n\x1a\n and so on", "sluice.keras.save_weights"},
        {"\x93NUMPY\x01 and so on", "numpy"},
        {"GGUF and so on", "GGUF"},
        {"<!DOCTYPE html>", "an HTML or XML page"},
    };
    struct sl_error err = SL_ERROR_INIT;
    struct tensorfile *f;

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        T_FAILS(SL_ECORRUPT, tensorfile_parse(&f, "x", rows[i].begin,
                                              strlen(rows[i].begin), 0, &err));
        T_HAS(err.text, rows[i].says);
    }
}

TEST(tensorfile, types_that_nobody_computes_with_are_passed_over)
{
    T_EQ(parse_text("{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR(
                        "b", "F8_E4M3", "4", 4, 8) "," TENSOR("c", "C64", "1",
                                                              8, 16) "}",
                    16),
         SL_OK);
}

// A file exists under its name whole, or not at all, or as the old one.
TEST(tensorfile, crash_at_every_step_leaves_old_or_new)
{
    const struct tensor_meta old[] = {{"v", "old"}}, new[] = {{"v", "new"}};
    bool died = true;

    for (unsigned step = 1; died; step++) {
        for (unsigned seed = 0; seed < 10; seed++) {
            struct tensor_info t = vector("w", TENSOR_F32, 300);
            struct crash_fs *crash = crash_fs_new(t_seed() + seed);
            struct fs *fs = crash_fs_ops(crash);
            struct tensorfile *f;
            enum sl_err rc;

            T_OK(write_to(fs, "f", &t, 1, old, 1, true, t_err()));
            crash_fs_die_at(crash, step);
            rc = write_to(fs, "f", &t, 1, new, 1, true, NULL);
            died = crash_fs_died(crash);
            crash_fs_reboot(crash);
            T_OK(tensorfile_open(&f, fs, "f", 0, t_err()));
            T_OK(tensorfile_verify(f, t_err()));
            T_TRUE(strcmp(tensorfile_meta(f, "v"), "new") == 0 || rc != SL_OK);
            tensorfile_close(f);
            crash_fs_free(crash);
        }
    }
}

TEST(tensorfile, each_allocation_may_fail)
{
    const struct tensor_meta meta[] = {{"v", "1"}};
    uint64_t before = sl_mem_live();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct tensor_info t = vector("w", TENSOR_F32, 30);
        struct tensorfile *f = NULL;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = write_to(fs_posix(), t_path("f"), &t, 1, meta, 1, true, t_err());
        if (rc == SL_OK)
            rc = tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err());
        if (rc == SL_OK)
            rc = tensorfile_verify(f, t_err());
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        tensorfile_close(f);
        T_EQ(sl_mem_live(), before);
        T_LT(n, 60);
    }
}
