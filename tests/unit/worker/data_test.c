// SPDX-License-Identifier: Apache-2.0
// Readers against golden bytes, cut short at every byte (under ASan a read
// past the end is an error), and with every byte changed.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "data_golden.h"
#include "worker/data/data.h"
#include "worker/data/data_array.h"
#include "plan/order.h"
#include "worker/data/data_inflate.h"

// u8 [2,3] = 0..5
static const uint8_t golden_idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0,
                                     0, 0, 3, 0, 1, 2, 3, 4, 5};

static const char *put(const char *name, const void *bytes, size_t n)
{
    static char paths[8][600]; // t_path allows 64 in all
    static unsigned next;
    char *path = paths[next++ % 8];
    FILE *f;

    snprintf(path, sizeof(paths[0]), "%s/%s", t_tmpdir(), name);
    f = fopen(path, "wb");
    T_TRUE(f != NULL);
    T_EQ(fwrite(bytes, 1, n, f), n);
    T_EQ(fclose(f), 0);
    return path;
}

static const char *put_text(const char *name, const char *text)
{
    return put(name, text, strlen(text));
}

static double element(const struct array *a, uint64_t row, uint64_t i)
{
    uint8_t scratch[64];
    const uint8_t *raw = NULL;

    T_OK(array_row(a, row, scratch, &raw, t_err()));
    return array_double(a, raw + i * array_type_bytes(a->type));
}

static void check_idx(const struct array *a)
{
    T_EQ(a->rows, 2);
    T_EQ(a->row_elements, 3);
    for (uint64_t r = 0; r < 2; r++) {
        for (uint64_t i = 0; i < 3; i++)
            T_EQ((int)element(a, r, i), (int)(r * 3 + i));
    }
}

TEST(idx, reads_golden_bytes)
{
    struct array a = {.rows = 0};

    T_OK(array_open_idx(&a, t_roots(), put("a", golden_idx, sizeof(golden_idx)),
                        NULL, t_err()));
    check_idx(&a);
    array_release(&a);
}

TEST(idx, reads_gzip)
{
    struct array a = {.rows = 0};

    T_OK(array_open_idx(&a, t_roots(),
                        put("a.gz", golden_idx_gz, sizeof(golden_idx_gz)), NULL,
                        t_err()));
    check_idx(&a);
    array_release(&a);
}

TEST(idx, big_endian_types)
{
    static const uint8_t i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0};
    static const uint8_t f64[] = {0,    0,    0x0e, 1, 0, 0, 0, 1,
                                  0xbf, 0xf8, 0,    0, 0, 0, 0, 0};
    struct array a = {.rows = 0};

    T_OK(array_open_idx(&a, t_roots(), put("i16", i16, sizeof(i16)), NULL,
                        t_err()));
    T_EQ((int)element(&a, 0, 0), -2);
    T_EQ((int)element(&a, 1, 0), 256);
    array_release(&a);
    T_OK(array_open_idx(&a, t_roots(), put("f64", f64, sizeof(f64)), NULL,
                        t_err()));
    T_NEAR(element(&a, 0, 0), -1.5, 0);
    array_release(&a);
}

typedef enum sl_err (*open_fn)(struct array *out, const struct roots *roots,
                               const char *path, struct pulse *pulse,
                               struct sl_error *err);

static enum sl_err open_x(struct array *out, const struct roots *roots,
                          const char *path, struct pulse *pulse,
                          struct sl_error *err)
{
    return array_open_npz(out, roots, path, "x", pulse, err);
}

// Any shorter file is refused, with words, and nothing is left behind.
static void truncate_everywhere(open_fn open, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct array a = {.rows = 77};
        struct sl_error err = SL_ERROR_INIT;

        T_NE(open(&a, t_roots(), put("cut", bytes, i), NULL, &err), SL_OK);
        T_NE(err.text[0], 0);
        T_EQ(a.rows, 77);
    }
}

// Any changed byte is refused or read as something: no more is promised, but
// no memory is touched that should not be.
static void change_everywhere(open_fn open, const uint8_t *bytes, size_t n)
{
    uint8_t copy[4096];

    T_LE(n, sizeof(copy));
    for (size_t i = 0; i < n; i++) {
        struct array a = {.rows = 0};

        memcpy(copy, bytes, n);
        copy[i] ^= (uint8_t)(1 + t_below(255));
        if (open(&a, t_roots(), put("changed", copy, n), NULL, NULL) == SL_OK) {
            for (uint64_t r = 0; r < a.rows && a.row_bytes <= 64; r++)
                (void)element(&a, r, 0);
            array_release(&a);
        }
    }
}

TEST(idx, every_shorter_file_is_refused)
{
    truncate_everywhere(array_open_idx, golden_idx, sizeof(golden_idx));
    truncate_everywhere(array_open_idx, golden_idx_gz, sizeof(golden_idx_gz));
    change_everywhere(array_open_idx, golden_idx, sizeof(golden_idx));
    change_everywhere(array_open_idx, golden_idx_gz, sizeof(golden_idx_gz));
}

TEST(idx, longer_file_is_refused)
{
    uint8_t more[sizeof(golden_idx) + 1] = {0};
    struct array a = {.rows = 0};
    struct sl_error err = SL_ERROR_INIT;

    memcpy(more, golden_idx, sizeof(golden_idx));
    T_FAILS(SL_ECORRUPT,
            array_open_idx(&a, t_roots(), put("m", more, sizeof(more)), NULL,
                           &err));
    T_HAS(err.text, "19 bytes long");
    T_HAS(err.text, "promises fewer");
}

TEST(idx, shape_overflow_is_refused)
{
    static const uint8_t big[] = {0,    0,    8,    3,    255,  255,
                                  255,  255,  0xff, 0xff, 0xff, 0xff,
                                  0xff, 0xff, 0xff, 0xff};
    struct array a = {.rows = 0};

    T_FAILS(SL_ERANGE, array_open_idx(&a, t_roots(), put("b", big, sizeof(big)),
                                      NULL, NULL));
}

// ---- npy

static size_t npy(uint8_t *out, const char *descr, const char *order,
                  const char *shape, const void *data, size_t bytes)
{
    char head[119];
    int n = snprintf(head, sizeof(head),
                     "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
                     descr, order, shape);

    memset(head + n, ' ', sizeof(head) - (size_t)n);
    head[117] = '\n';
    memcpy(out, "\x93NUMPY\1\0\x76\0", 10);
    memcpy(out + 10, head, 118);
    memcpy(out + 128, data, bytes);
    return 128 + bytes;
}

TEST(npy, reads_golden_bytes)
{
    static const float two[] = {1, 2};
    uint8_t file[256];
    size_t n = npy(file, "<f4", "False", "(2,)", two, sizeof(two));
    struct array a = {.rows = 0};

    T_EQ(n, 136); // as numpy.save writes it
    T_OK(array_open_npy(&a, t_roots(), put("a.npy", file, n), NULL, t_err()));
    T_EQ(a.rows, 2);
    T_EQ(a.row_elements, 1);
    T_NEAR(element(&a, 1, 0), 2, 0);
    array_release(&a);
    truncate_everywhere(array_open_npy, file, n);
    change_everywhere(array_open_npy, file, n);
}

TEST(npy, every_type)
{
    static const struct {
        const char *descr;
        uint8_t bytes[8];
        size_t size;
        double value;
    } cases[] = {
        {"|b1", {1}, 1, 1},
        {"|i1", {0xff}, 1, -1},
        {">u2", {1, 2}, 2, 258},
        {"<i2", {0xfe, 0xff}, 2, -2},
        {">i4", {0xff, 0xff, 0xff, 0xfd}, 4, -3},
        {"<u4", {0, 0, 0, 0x80}, 4, 2147483648.0},
        {"<i8", {0xfc, 255, 255, 255, 255, 255, 255, 255}, 8, -4},
        {">u8", {0, 0, 0, 0, 0, 0, 1, 0}, 8, 256},
        {"<f2", {0x00, 0x3e}, 2, 1.5},
        {"<f2", {0x01, 0x00}, 2, 0x1p-24},
        {">f4", {0x40, 0x20, 0, 0}, 4, 2.5},
        {"<f8", {0, 0, 0, 0, 0, 0, 0x0c, 0xc0}, 8, -3.5},
        // numpy.save of an array of ml_dtypes.bfloat16; others write the name.
        {"<V2", {0x10, 0xc0}, 2, -2.25},
        {"|V2", {0x80, 0x00}, 2, 0x1p-126},
        {"bfloat16", {0xc0, 0x3f}, 2, 1.5},
    };
    uint8_t file[256];

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        size_t n = npy(file, cases[i].descr, "False", "(1,)", cases[i].bytes,
                       cases[i].size);
        struct array a = {.rows = 0};
        float f;
        const uint8_t *raw = NULL;

        T_OK(array_open_npy(&a, t_roots(), put("t.npy", file, n), NULL,
                            t_err()));
        T_NEAR(element(&a, 0, 0), cases[i].value, 0);
        T_OK(array_row(&a, 0, NULL, &raw, t_err()));
        array_floats(&a, raw, 1, 2, 1, &f);
        T_NEAR((double)f, cases[i].value * 2 + 1,
               cases[i].value > 1e6 ? 1000 : 1e-6);
        array_release(&a);
    }
}

TEST(npy, refuses_what_could_run_code_or_is_no_number)
{
    static const char *const bad[] = {"|O", "|S3", "<U3", "|V8", "<M8", "<c8"};
    uint8_t file[256], data[64] = {0};

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        size_t n = npy(file, bad[i], "False", "(1,)", data, 8);
        struct array a = {.rows = 0};
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(SL_ENOTSUP, array_open_npy(&a, t_roots(), put("o.npy", file, n),
                                           NULL, &err));
        T_HAS(err.text, "numpy type (descr)");
        T_TRUE(strstr(err.text, bad[i]) == NULL);
    }
}

TEST(npy, fortran_order_is_turned)
{
    // Columns of [[1,2,3],[4,5,6]].
    static const int32_t columns[] = {1, 4, 2, 5, 3, 6};
    uint8_t file[256];
    size_t n = npy(file, "<i4", "True", "(2, 3)", columns, sizeof(columns));
    struct array a = {.rows = 0};

    T_OK(array_open_npy(&a, t_roots(), put("f.npy", file, n), NULL, t_err()));
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 3; i++)
            T_EQ((int)element(&a, (uint64_t)r, (uint64_t)i), r * 3 + i + 1);
    }
    array_release(&a);
}

// ---- npz

static void check_npz(const char *path)
{
    struct array a = {.rows = 0};

    T_OK(array_open_npz(&a, t_roots(), path, "x", NULL, t_err()));
    T_EQ(a.rows, 3);
    T_NEAR(element(&a, 2, 1), 6, 0);
    array_release(&a);
    T_OK(array_open_npz(&a, t_roots(), path, "y", NULL, t_err()));
    T_EQ((int)element(&a, 0, 0), 2);
    array_release(&a);
}

TEST(npz, reads_stored_and_deflated)
{
    check_npz(put("s.npz", golden_stored_npz, sizeof(golden_stored_npz)));
    check_npz(put("d.npz", golden_deflated_npz, sizeof(golden_deflated_npz)));
}

TEST(npz, names_the_members_that_are_there)
{
    struct array a = {.rows = 0};
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_ENOENT, array_open_npz(&a, t_roots(),
                                      put("s.npz", golden_stored_npz,
                                          sizeof(golden_stored_npz)),
                                      "images", NULL, &err));
    T_HAS(err.text, "images.npy");
    T_HAS(err.text, "none of its 2 members");
}

// A member that need not be there is told from a file that has gone.
TEST(npz, a_missing_member_is_no_missing_file)
{
    struct array a = {.rows = 7};
    struct sl_error err = SL_ERROR_INIT;
    const char *path =
        put("s.npz", golden_stored_npz, sizeof(golden_stored_npz));

    T_OK(array_open_npz_any(&a, t_roots(), path, "images", NULL, t_err()));
    T_EQ(a.rows, 7);
    T_TRUE(a.path == NULL);
    T_EQ(unlink(path), 0);
    T_FAILS(SL_ENOENT,
            array_open_npz_any(&a, t_roots(), path, "x", NULL, &err));
    T_EQ(a.rows, 7);
    put("s.npz", golden_stored_npz, sizeof(golden_stored_npz));
    T_OK(array_open_npz_any(&a, t_roots(), path, "x", NULL, t_err()));
    T_EQ(a.rows, 3);
    array_release(&a);
}

TEST(npz, damage_is_found)
{
    uint8_t copy[sizeof(golden_stored_npz)];
    struct array a = {.rows = 0};
    struct sl_error err = SL_ERROR_INIT;

    truncate_everywhere(open_x, golden_stored_npz, sizeof(golden_stored_npz));
    truncate_everywhere(open_x, golden_deflated_npz,
                        sizeof(golden_deflated_npz));
    change_everywhere(open_x, golden_stored_npz, sizeof(golden_stored_npz));
    change_everywhere(open_x, golden_deflated_npz, sizeof(golden_deflated_npz));
    // One bit of a number: only the checksum knows.
    memcpy(copy, golden_stored_npz, sizeof(copy));
    for (size_t i = 0; i + 4 < sizeof(copy); i++) {
        static const uint8_t six[] = {0, 0, 0xc0, 0x40};

        if (memcmp(copy + i, six, 4) == 0)
            copy[i] ^= 1;
    }
    T_FAILS(SL_ECORRUPT,
            array_open_npz(&a, t_roots(), put("c.npz", copy, sizeof(copy)), "x",
                           NULL, &err));
    T_HAS(err.text, "CRC");
}

// The directory says of y, its last member, that it has nearly 2^64 bytes: with
// its header it seemed to have none.
TEST(npz, a_size_near_2_to_the_64_is_refused)
{
    enum { END = 22, ENTRY = 46, NAME = 5, EXTRA = 12 };

    static const uint8_t wide[] = {1, 0, sizeof(uint64_t), 0};
    size_t end = sizeof(golden_stored_npz) - END, at = end - ENTRY - NAME;
    uint64_t packed = UINT64_MAX - 30 - NAME + 1;
    uint8_t copy[sizeof(golden_stored_npz) + EXTRA];
    struct array a = {.rows = 0};
    struct sl_error err = SL_ERROR_INIT;

    memcpy(copy, golden_stored_npz, end);
    memcpy(copy + end + EXTRA, golden_stored_npz + end, END);
    T_EQ(memcmp(copy + at, "PK\1\2", 4), 0);
    memset(copy + at + 20, 0xff, 4); // the size is in the extra field
    copy[at + 30] = EXTRA;
    memcpy(copy + end, wide, sizeof(wide));
    memcpy(copy + end + sizeof(wide), &packed, sizeof(packed));
    copy[end + EXTRA + 12] += EXTRA; // bytes of the directory
    T_FAILS(SL_ECORRUPT,
            array_open_npz(&a, t_roots(), put("w.npz", copy, sizeof(copy)), "x",
                           NULL, &err));
    T_HAS(err.text, "member 1: bad size");
}

// ---- of any size

#define TIB (UINT64_C(1) << 40)

static struct pulse over(void)
{
    static const _Atomic int closed = 1;

    return (struct pulse){.closed = &closed};
}

// A file that has so many bytes more than are written, and no blocks for them.
static const char *put_sparse(const char *name, const char *text, uint64_t more)
{
    const char *path = put_text(name, text);

    T_EQ(truncate(path, (off_t)(strlen(text) + more)), 0);
    return path;
}

// It was read to its end for a line break.
TEST(csv, a_line_that_does_not_end_is_refused_at_once)
{
    struct data_source s = {.format = "csv", .roots = t_roots(), .scale = 1};
    struct data_want w = {.rank = 1, .dim = {2}, .outputs = 3};
    struct pulse pulse = {.closed = NULL};
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;

    s.pulse = &pulse;
    s.x = put_sparse("long.csv", "1,2,0\n1,2,0\n", TIB);
    T_FAILS(SL_ERANGE, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "long.csv: line 3: is longer than 1 MiB");
    T_LE(pulse.beats, 8);
}

// Whoever waits for it is gone: no reader goes on, whatever there is to read.
TEST(data, no_reader_goes_on_when_the_attempt_is_over)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    const char *idx = put("x", golden_idx, sizeof(golden_idx));
    const char *gz = put("x.gz", golden_idx_gz, sizeof(golden_idx_gz));
    const char *y = put("y", labels, sizeof(labels));
    const struct data_source sources[] = {
        {.format = "csv", .x = put_text("a.csv", "1,2,0\n")},
        {.format = "idx", .x = idx, .y = y},
        {.format = "idx", .x = gz, .y = y},
        {.format = "npz",
         .x = put("s.npz", golden_stored_npz, sizeof(golden_stored_npz))},
        {.format = "npz",
         .x = put("d.npz", golden_deflated_npz, sizeof(golden_deflated_npz))},
        {.format = "images", .x = t_tmpdir()},
    };

    for (size_t i = 0; i < SL_COUNT(sources); i++) {
        struct data_source s = sources[i];
        struct data_want w = {
            .rank = 3, .dim = {1, 2, 1}, .outputs = 3, .labels = DATA_INDEX};
        struct pulse pulse = over();
        struct sl_error err = SL_ERROR_INIT;
        struct data *d;

        s.roots = t_roots();
        s.scale = 1;
        s.pulse = &pulse;
        T_FAILS(SL_ECANCELED, data_open(&d, &s, &w, &err));
        T_HAS(err.text, "is over");
        T_EQ(pulse.beats, 0);
    }
}

// Opens a source with each allocation refused in turn.
static void no_memory_is_said(const struct data_source *s,
                              const struct data_want *w)
{
    bool refused = true;

    for (uint64_t n = 1; refused; n++) {
        struct sl_error err = SL_ERROR_INIT;
        struct data *d = NULL;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = data_open(&d, s, w, &err);
        refused = sl_mem_failed();
        if (!refused)
            T_OK(rc);
        else if (rc != SL_ENOMEM || err.text[0] == '\0')
            T_FAIL("%s, allocation %llu: %s: '%s'", s->x, (unsigned long long)n,
                   sl_err_name(rc), err.text);
        data_free(d);
    }
}

TEST(data, no_memory_is_said_wherever_it_is_missing)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    struct data_source idx = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_source one = {.format = "csv", .roots = t_roots(), .scale = 1};
    struct data_want w = {
        .rank = 1, .dim = {3}, .outputs = 5, .labels = DATA_INDEX};

    idx.y = put("y", labels, sizeof(labels));
    idx.x = put("x", golden_idx, sizeof(golden_idx));
    no_memory_is_said(&idx, &w);
    idx.x = put("x.gz", golden_idx_gz, sizeof(golden_idx_gz));
    no_memory_is_said(&idx, &w);
    idx.weights = put("w", labels, sizeof(labels));
    no_memory_is_said(&idx, &w);
    w.dim[0] = 2;
    one.x = put_text("a.csv", "1,2,0\n");
    no_memory_is_said(&one, &w);
    one.format = "npz";
    one.x = put("s.npz", golden_stored_npz, sizeof(golden_stored_npz));
    no_memory_is_said(&one, &w);
    one.x = put("d.npz", golden_deflated_npz, sizeof(golden_deflated_npz));
    no_memory_is_said(&one, &w);
}

TEST(npy, reading_and_turning_stop_when_the_attempt_is_over)
{
    uint8_t file[512];
    size_t n = npy(file, "|u1", "True", "(3, 2)", "abcdef", 6);
    const char *path = put("f.npy", file, n);
    struct pulse pulse = over();
    struct array a = {.rows = 0};

    T_FAILS(SL_ECANCELED, array_open_npy(&a, t_roots(), path, &pulse, NULL));
    T_EQ(pulse.beats, 0);
}

// ---- inflated piece by piece

#define PIECES 9

static struct inflater *inflate_of(const char *path, struct inflate_source *s)
{
    struct inflater *from = NULL;

    T_OK(roots_file(t_roots(), &s->file, path, t_err()));
    T_OK(inflater_new(&from, s, t_err()));
    return from;
}

// Stored blocks of 65,535 bytes, which are their numbers.
static const char *put_blocks(const char *name, unsigned blocks,
                              uint64_t *bytes)
{
    static uint8_t block[5 + 65535];
    const char *path = put(name, "", 0);
    FILE *f;

    f = fopen(path, "wb");
    T_TRUE(f != NULL);
    for (unsigned b = 0; b < blocks; b++) {
        memset(block, (int)b, sizeof(block));
        memcpy(block, b + 1 == blocks ? "\1\xff\xff\0\0" : "\0\xff\xff\0\0", 5);
        T_EQ(fwrite(block, 1, sizeof(block), f), sizeof(block));
    }
    T_EQ(fclose(f), 0);
    *bytes = blocks * sizeof(block);
    return path;
}

TEST(inflate, a_stream_is_read_a_piece_at_a_time)
{
    const unsigned blocks = PIECES * 16;
    struct inflate_source s = {.form = INFLATE_RAW};
    struct pulse pulse = {.closed = NULL}, ended = over();
    const char *path = put_blocks("blocks", blocks, &s.bytes);
    uint8_t *to = malloc(blocks * 65535u + 1);
    struct sl_error err = SL_ERROR_INIT;
    struct inflater *from;
    size_t got = 0;

    s.pulse = &pulse;
    from = inflate_of(path, &s);
    T_OK(inflater_read(from, to, blocks * 65535u + 1, &got, t_err()));
    T_EQ(got, blocks * 65535u);
    for (size_t i = 0; i < got; i++)
        T_ASSERT(to[i] == i / 65535);
    T_EQ(pulse.beats, PIECES + 1);
    inflater_free(from);
    fs_close(s.file);
    s.pulse = &ended;
    from = inflate_of(path, &s);
    T_FAILS(SL_ECANCELED, inflater_read(from, to, blocks * 65535u, &got, &err));
    inflater_free(from);
    fs_close(s.file);
    free(to);
}

// Its directory says that it is a TiB long: a piece of that is in memory.
TEST(inflate, a_member_is_not_read_whole)
{
    struct inflate_source s = {.form = INFLATE_RAW, .bytes = TIB};
    const char *path = put_sparse("sparse", "", TIB);
    struct sl_error err = SL_ERROR_INIT;
    struct inflater *from = inflate_of(path, &s);
    uint8_t to[16];
    size_t got = 0;

    T_FAILS(SL_ECORRUPT, inflater_read(from, to, sizeof(to), &got, &err));
    T_HAS(err.text, "is damaged near its byte");
    inflater_free(from);
    fs_close(s.file);
}

// ---- sources

static struct data_want want(uint64_t features, uint64_t outputs,
                             enum data_labels labels)
{
    return (struct data_want){
        .rank = 1, .dim = {features}, .outputs = outputs, .labels = labels};
}

TEST(data, idx_pair_scales_and_checks_labels)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 4};
    struct data_source s = {
        .format = "idx", .roots = t_roots(), .scale = 0.5, .offset = -1};
    struct data_want w = want(3, 5, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x[3];
    int32_t y;

    s.x = put("x", golden_idx, sizeof(golden_idx));
    s.y = put("y", labels, sizeof(labels));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), 2);
    T_EQ(data_memory(d), 2 * 3 + 2);
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_EQ(y, 4);
    T_NEAR((double)x[2], 1.5, 0);
    T_FAILS(SL_ERANGE, data_read(d, 2, x, &y, NULL));
    data_free(d);
    w.outputs = 4; // label 4 is none of them
    T_FAILS(SL_ERANGE, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "sample 1");
    w = want(4, 5, DATA_INDEX);
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "(3)");
    T_HAS(err.text, "(4)");
}

TEST(data, classes_become_one_hot)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 3, DATA_ONE_HOT);
    struct data *d;
    float x[3], y[3];

    s.x = put("x", golden_idx, sizeof(golden_idx));
    s.y = put("y", labels, sizeof(labels));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(y));
    T_OK(data_read(d, 1, x, y, t_err()));
    T_EQ((int)y[0] * 100 + (int)y[1] * 10 + (int)y[2], 1);
    data_free(d);
}

TEST(data, a_label_has_a_class_for_each_row)
{
    static const uint8_t x[] = {0, 0, 8, 2, 0, 0, 0, 2, 0,
                                0, 0, 3, 0, 1, 2, 3, 4, 5};
    static const uint8_t y[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0,
                                0, 2, 0, 0, 0, 1, 2, 0, 1, 2};
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    int32_t classes[2];
    float features[3], hot[6];

    w.rows = 2;
    s.x = put("x", x, sizeof(x));
    s.y = put("y", y, sizeof(y));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(classes));
    T_OK(data_read(d, 1, features, classes, t_err()));
    T_EQ(classes[0] * 10 + classes[1], 12);
    data_free(d);
    w.labels = DATA_ONE_HOT;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(hot));
    T_OK(data_read(d, 0, features, hot, t_err()));
    for (int i = 0; i < 6; i++)
        T_TRUE(hot[i] == (i == 2 || i == 3));
    data_free(d);
    w.labels = DATA_INDEX;
    w.outputs = 2; // a label of 2 is no class
    T_FAILS(SL_ERANGE, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "sample 0");
    w = want(3, 3, DATA_INDEX);
    w.rows = 3;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "3 labels per sample are wanted, one for each row of "
                    "outputs, not 2");
    s = (struct data_source){.format = "csv", .x = s.x, .label_column = "0"};
    T_FAILS(SL_ENOTSUP, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "keep labels in an npy or npz");
}

// f32 [2] = 0.5, 3 and [2,2] = 1..4, as IDX.
static const uint8_t golden_weights[] = {0,    0, 13, 1, 0,    0,    0, 2,
                                         0x3f, 0, 0,  0, 0x40, 0x40, 0, 0};
static const uint8_t golden_row_weights[] = {
    0, 0, 13,   2, 0, 0, 0,    2,    0, 0, 0,    2,    0x3f, 0x80,
    0, 0, 0x40, 0, 0, 0, 0x40, 0x40, 0, 0, 0x40, 0x80, 0,    0};

TEST(data, a_weight_is_behind_its_label)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    static const double classes[] = {10, 20, 30}, heavy[] = {1, 2, 1e39};
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct {
        int32_t label;
        float weight;
    } y;
    struct data *d;
    float x[3], hot[4];
    uint64_t plain;

    s.x = put("x", golden_idx, sizeof(golden_idx));
    s.y = put("y", labels, sizeof(labels));
    T_OK(data_open(&d, &s, &w, t_err()));
    plain = data_hash(d);
    T_TRUE(!data_weighted(d));
    T_FAILS(SL_EINVAL, data_weigh_classes(d, classes, 2, &err));
    T_HAS(err.text, "2 weights of classes, and the model has 3 outputs");
    T_FAILS(SL_EINVAL, data_weigh_classes(d, heavy, 3, &err));
    T_HAS(err.text, "class 2: a weight is 1e+39; one is from 0 to 1e+15");
    T_OK(data_weigh_classes(d, classes, 3, t_err()));
    T_EQ(data_label_bytes(d), sizeof(y));
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_EQ(y.label, 2);
    T_NEAR((double)y.weight, 30, 0);
    data_free(d);
    s.weights = put("w", golden_weights, sizeof(golden_weights));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_TRUE(data_weighted(d));
    T_NE(data_hash(d), plain);
    T_OK(data_read(d, 0, x, &y, t_err()));
    T_NEAR((double)y.weight, 0.5, 0);
    T_OK(data_weigh_classes(d, classes, 3, t_err()));
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_NEAR((double)y.weight, 90, 0);
    data_free(d);
    w.labels = DATA_ONE_HOT;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_weigh_classes(d, classes, 3, t_err()));
    T_EQ(data_label_bytes(d), sizeof(hot));
    T_OK(data_read(d, 0, x, hot, t_err()));
    T_NEAR((double)hot[1], 1, 0);
    T_NEAR((double)hot[3], 10, 0);
    data_free(d);
}

TEST(data, each_row_of_outputs_may_have_a_weight)
{
    static const uint8_t y[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 1, 2};
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct {
        int32_t label;
        float weight;
    } rows[2];
    struct data *d;
    float x[3];

    w.rows = 2;
    s.x = put("x", golden_idx, sizeof(golden_idx));
    s.y = put("y", y, sizeof(y));
    s.weights = put("w", golden_row_weights, sizeof(golden_row_weights));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(rows));
    T_OK(data_read(d, 1, x, rows, t_err()));
    T_EQ(rows[0].label * 10 + rows[1].label, 12);
    T_NEAR((double)(rows[0].weight * 10 + rows[1].weight), 34, 0);
    data_free(d);
    s.weights = put("one", golden_weights, sizeof(golden_weights));
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 1, x, rows, t_err()));
    T_NEAR((double)(rows[0].weight * 10 + rows[1].weight), 33, 0);
    data_free(d);
    s.weights = put("three", golden_idx, sizeof(golden_idx));
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "three: one weight per sample is wanted, or one for each "
                    "row of outputs, not 3");
    s.format = "images";
    w.rows = 0;
    T_FAILS(SL_ENOTSUP, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "format images has no weights");
}

// Files of weights go with those of samples, in their order.
TEST(data, files_of_weights_are_joined)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    // f32 [2] = 7, 9
    static const uint8_t more[] = {0,    0,    13, 1, 0,    0,    0, 2,
                                   0x40, 0xe0, 0,  0, 0x41, 0x10, 0, 0};
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct {
        int32_t label;
        float weight;
    } y;
    struct data *d;
    float x[3];

    for (int i = 0; i < 2; i++) {
        put(i == 0 ? "x0" : "x1", golden_idx, sizeof(golden_idx));
        put(i == 0 ? "y0" : "y1", labels, sizeof(labels));
    }
    put("w0", golden_weights, sizeof(golden_weights));
    put("w1", more, sizeof(more));
    s.x = t_path("x{0..1}");
    s.y = t_path("y{0..1}");
    s.weights = t_path("w{0..1}");
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_NEAR((double)y.weight, 3, 0);
    T_OK(data_read(d, 2, x, &y, t_err()));
    T_NEAR((double)y.weight, 7, 0);
    data_free(d);
    s.weights = t_path("w1");
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "each file of samples needs one of weights");
}

// A column of weights is no feature; in several files, and in a part of them.
TEST(csv, a_column_of_weights)
{
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .scale = 1,
                            .header = true,
                            .label_column = "y",
                            .weights = "w"};
    const struct data_part part = {.seed = 1, .part = 0.5};
    static const double classes[] = {1, 10};
    struct data_want w = want(1, 1, DATA_VALUES);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d, *split;
    float x, y[2];

    put_text("p0.csv", "a,w,y\n1,0.5,1\n2,0,0\n");
    put_text("p1.csv", "w,y,a\n7,1,3\n-1,0,4\n");
    s.x = t_path("p{0..1}.csv");
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_label_bytes(d), sizeof(y));
    T_OK(data_read(d, 2, &x, y, t_err()));
    T_NEAR((double)(x * 100 + y[0] * 10 + y[1]), 317, 0);
    T_FAILS(SL_EINVAL, data_read(d, 3, &x, y, &err));
    T_HAS(err.text, "p1.csv: line 3, column 0: a weight is -1; one is from 0 "
                    "to 1e+15");
    T_OK(data_split(&split, d, &part, NULL, NULL, t_err()));
    T_OK(data_weigh_classes(split, classes, 2, t_err()));
    for (uint64_t i = 0; i < data_samples(split); i++) {
        if (data_read(split, i, &x, y, NULL) != SL_OK)
            continue;
        T_NEAR((double)y[1], x < 2 ? 5 : x < 3 ? 0 : 70, 0);
    }
    T_OK(
        data_read(d, 2, &x, y, t_err())); // the whole has no weights of classes
    T_NEAR((double)y[1], 7, 0);
    data_free(split);
    data_free(d);
    s.x = put_text("none.csv", "a,y\n1,0\n");
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "there is no column 'w'");
}

TEST(data, hash_tells_files_apart)
{
    struct data_source s = {.format = "idx", .roots = t_roots(), .scale = 1};
    struct data_want w = want(3, 10, DATA_INDEX);
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    struct data *a, *b;

    s.x = put("x", golden_idx, sizeof(golden_idx));
    s.y = put("y", labels, sizeof(labels));
    T_OK(data_open(&a, &s, &w, t_err()));
    s.limit = 1;
    T_OK(data_open(&b, &s, &w, t_err()));
    T_EQ(data_samples(b), 1);
    T_NE(data_hash(a), data_hash(b));
    data_free(b);
    s.limit = 0;
    s.x = put("other", golden_idx, sizeof(golden_idx));
    T_OK(data_open(&b, &s, &w, t_err()));
    T_NE(data_hash(a), data_hash(b));
    data_free(a);
    data_free(b);
}

TEST(csv, header_quotes_and_line_ends)
{
    char *columns[] = {"b", "a"};
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .scale = 1,
                            .header = true,
                            .label_column = "label",
                            .columns = columns,
                            .columns_count = 2};
    struct data_want w = want(2, 3, DATA_INDEX);
    struct data *d;
    float x[2];
    int32_t y;

    s.x = put_text("t.csv", "\xef\xbb\xbf"
                            "a,\"b\",label\r\n"
                            "1,2,0\r\n"
                            "\"-3.5\", 1e2 ,2\n"
                            "0,0,1");
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), 3);
    T_OK(data_read(d, 1, x, &y, t_err()));
    T_NEAR((double)x[0], 100, 0);
    T_NEAR((double)x[1], -3.5, 0);
    T_EQ(y, 2);
    T_OK(data_read(d, 2, x, &y, t_err()));
    T_EQ(y, 1);
    data_free(d);
}

static void csv_fails(const char *text, uint64_t number, const char *says)
{
    struct data_source s = {.format = "csv", .roots = t_roots(), .scale = 1};
    struct data_want w = want(2, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x[2];
    int32_t y;
    enum sl_err rc;

    s.x = put_text("bad.csv", text);
    rc = data_open(&d, &s, &w, &err);
    if (rc == SL_OK) {
        rc = data_read(d, number, x, &y, &err);
        data_free(d);
    }
    T_NE(rc, SL_OK);
    T_HAS(err.text, says);
}

TEST(csv, rows_that_are_none_may_be_passed_over)
{
    struct data_source s = {.format = "csv", .roots = t_roots(), .scale = 1};
    struct data_want w = want(2, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct bad_sample told[3];
    struct data *d;
    float x[2];
    int32_t y;

    s.x = put_text("rows.csv", "1,2,0\n3,x,1\n5,6,9\n7,8,2\n9,\xff,1\n");
    s.bad = bad_new(2);
    w.test = true;
    T_OK(data_open(&d, &s, &w, t_err()));
    for (uint64_t i = 1; i < 4; i++) { // all are the fourth row
        T_OK(data_read(d, i, x, &y, t_err()));
        T_EQ(y, 2);
        T_NEAR((double)x[0], 7, 0);
    }
    T_EQ(bad_tell(s.bad, told, 3), 2);
    T_TRUE(told[0].test && told[1].test);
    T_STR(told[0].what, "rows.csv: line 2, column 1 is not a number");
    T_HAS(told[1].what, "rows.csv: line 3: its label is too large");
    T_FAILS(SL_ERANGE, data_read(d, 4, x, &y, &err));
    T_HAS(err.text, "line 5, column 1");
    data_free(d);
    bad_unref(s.bad);
}

static void found(struct data_bad *b, bool test, uint64_t number)
{
    struct bad_sample s = {.test = test, .number = number};

    T_OK(bad_note(b, &s, t_err()));
}

// What is new first; then the others in turn, for who has forgotten them.
TEST(bad, all_are_told_and_told_again)
{
    struct data_bad *b = bad_new(10), *same = bad_ref(b);
    struct bad_sample told[3];
    unsigned seen[4] = {0};

    bad_unref(same);
    T_EQ(bad_tell(b, told, 3), 0);
    found(b, false, 0);
    found(b, false, 0);
    found(b, true, 0);
    T_TRUE(bad_has(b, true, 0));
    T_FALSE(bad_has(b, true, 1));
    T_EQ(bad_tell(b, told, 3), 2);
    found(b, false, 1);
    found(b, false, 2);
    T_EQ(bad_tell(b, told, 3), 3);
    T_EQ(told[0].number, 1);
    T_EQ(told[1].number, 2);
    T_EQ(told[2].number, 0);
    for (unsigned i = 0; i < 4; i++) {
        T_EQ(bad_tell(b, told, 1), 1);
        seen[told[0].test ? 3 : told[0].number]++;
    }
    for (unsigned i = 0; i < 4; i++)
        T_EQ(seen[i], 1);
    bad_unref(b);
}

TEST(csv, says_what_is_wrong_and_where)
{
    csv_fails("1,2,0\n1,,0\n", 1, "line 2, column 1 is empty");
    csv_fails("1,2,0\n1,x,0\n", 1, "line 2, column 1 is not a number");
    csv_fails("1,2,0\n1,0x10,0\n", 1, "not a number");
    csv_fails("1,2,0\n1,inf,0\n", 1, "not a number");
    csv_fails("1,2,0\n1,2\n", 1, "fewer than the 3 columns");
    csv_fails("1,2,0\n1,2,0,1\n", 1, "more than the 3 columns");
    csv_fails("1,2,0\n1,2,3\n", 1, "its label is too large; the model has 3");
    csv_fails("1,2,0\n1,\"2\n\",0\n", 1, "quote does not end");
    csv_fails("1,2,3,0\n", 0, "3 feature columns");
    csv_fails("", 0, "empty");
}

// Reads the only feature of a file's first sample.
static float csv_first(const void *bytes, size_t n, bool header, uint64_t lines)
{
    struct data_source s = {
        .format = "csv", .roots = t_roots(), .scale = 1, .header = header};
    struct data_want w = want(1, 3, DATA_INDEX);
    struct data *d;
    float x;
    int32_t y;

    s.x = put("one.csv", bytes, n);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(data_samples(d), lines);
    T_OK(data_read(d, 0, &x, &y, t_err()));
    data_free(d);
    return x;
}

static float csv_text(const char *text, uint64_t lines)
{
    return csv_first(text, strlen(text), false, lines);
}

TEST(csv, empty_lines_at_the_end_are_none)
{
    T_NEAR((double)csv_text("1.5,0\n", 1), 1.5, 0);
    T_NEAR((double)csv_text("1.5,0\n2,1\n\n", 2), 1.5, 0);
    T_NEAR((double)csv_text("1.5,0\r\n2,1\r\n\r\n\r\n", 2), 1.5, 0);
    T_NEAR((double)csv_text("1.5,0\n2,1\n\r\n\n", 2), 1.5, 0);
    T_NEAR((double)csv_first("a,b\n4,0\n\n", 9, true, 1), 4, 0);
    csv_fails("1,2,0\n\n1,2,0\n", 1, "line 2: is empty");
    csv_fails("\n\n", 0, "is empty");
}

TEST(csv, a_number_is_read_whole_or_refused)
{
    static const char within[] = "1,4.\00025,0\n", tail[] = "1,2,0\n\0\0\0";
    static const char wide[] = "\xff\xfe"
                               "1\0,\0002\0";
    char digits[640], at[5200];
    struct data_source s = {.format = "csv", .roots = t_roots(), .scale = 1};
    struct data_want w = want(2, 3, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x[2];
    int32_t y;

    s.x = put("nul.csv", within, sizeof(within) - 1);
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "line 1, column 1 holds a NUL byte");
    s.x = put("nul.csv", tail, sizeof(tail) - 1);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_FAILS(SL_EINVAL, data_read(d, 1, x, &y, &err));
    T_HAS(err.text, "line 2, column 0 holds a NUL byte");
    data_free(d);
    s.x = put("wide.csv", wide, sizeof(wide) - 1);
    T_FAILS(SL_ENOTSUP, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "UTF-16");

    // 1 and 600 zeroes, times 10 to the power of -600: not 1e255.
    memset(digits, '0', sizeof(digits));
    digits[0] = '1';
    snprintf(digits + 601, sizeof(digits) - 601, "e-600,0\n");
    T_NEAR((double)csv_text(digits, 1), 1, 0);
    memset(at, '1', sizeof(at));
    snprintf(at + 5000, sizeof(at) - 5000, ",2,0\n");
    csv_fails(at, 0, "column 0 is longer than 4095 bytes");
}

// One that is finite as a double, but no float, is no number: in features,
// labels and weights.
TEST(csv, a_number_beyond_a_float_is_refused)
{
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .scale = 1,
                            .header = true,
                            .label_column = "y",
                            .weights = "w"};
    struct data_want w = want(1, 1, DATA_VALUES);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;
    float x, y[2];

    T_NEAR((double)csv_text("3.4028235e38,0\n", 1), (double)FLT_MAX, 0);
    csv_fails("1,2,0\n1,1e300,0\n", 1, "line 2, column 1 is not a number");
    csv_fails("1,2,0\n-3.5e38,2,0\n", 1, "line 2, column 0 is not a number");
    s.x = put_text("far.csv", "a,w,y\n1,1,1e300\n1,1e300,1\n");
    T_OK(data_open(&d, &s, &w, t_err()));
    T_FAILS(SL_EINVAL, data_read(d, 0, &x, y, &err));
    T_HAS(err.text, "line 2, column 2 is not a number");
    T_FAILS(SL_EINVAL, data_read(d, 1, &x, y, &err));
    T_HAS(err.text, "line 3, column 1 is not a number");
    data_free(d);
}

TEST(csv, says_what_a_line_may_mean)
{
    csv_fails("a,b,label\n1,2,0\n", 0, "say header: true");
    csv_fails("1,2,setosa\n", 0, "classes are written as numbers from 0");
    csv_fails("1,2,0\n1,2,setosa\n", 1, "column 2 is not a number; classes");
    csv_fails("1,2,0\n\"1,500\",2,0\n", 1, "thousands no separator");
    csv_fails("1,2,0\n1,NA,0\n", 1, "fill in or drop missing values");
    csv_fails("1,2,0\r1,2,0\r", 0, "CR alone");
}

TEST(csv, names_of_a_header_may_have_blanks_around_them)
{
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .scale = 1,
                            .header = true,
                            .label_column = "label"};
    struct data_want w = want(2, 3, DATA_INDEX);
    struct data *d;

    s.x = put_text("blank.csv", "a, label , b\n1,2,3\n");
    T_OK(data_open(&d, &s, &w, t_err()));
    data_free(d);
}

TEST(csv, every_number_of_lines_is_found)
{
    struct buf text = BUF_INIT;

    for (int lines = 1; lines < 40; lines++) {
        struct data_source s = {
            .format = "csv", .roots = t_roots(), .scale = 1};
        struct data_want w = want(1, 100, DATA_INDEX);
        struct data *d;
        float x;
        int32_t y;

        buf_reset(&text);
        for (int i = 0; i < lines; i++)
            T_OK(buf_appendf(&text, "%d,%d%s", i * 7, i,
                             i + 1 < lines || lines % 2 ? "\n" : ""));
        s.x = put("n.csv", text.data, text.len);
        T_OK(data_open(&d, &s, &w, t_err()));
        T_EQ(data_samples(d), lines);
        for (int i = lines; i-- > 0;) {
            T_OK(data_read(d, (uint64_t)i, &x, &y, t_err()));
            T_EQ(y, i);
            T_EQ((int)x, i * 7);
        }
        data_free(d);
    }
    buf_release(&text);
}

// ---- synthetic

TEST(synthetic, a_sample_is_a_function_of_seed_and_number)
{
    struct data_source s = {.format = "synthetic",
                            .generator = "classes",
                            .classes = 4,
                            .samples = 1000,
                            .seed = 7,
                            .scale = 1};
    struct data_want w = want(8, 4, DATA_INDEX);
    struct data *a, *b, *test;
    float xa[8], xb[8];
    int32_t ya, yb;
    unsigned seen = 0, same = 0;

    T_OK(data_open(&a, &s, &w, t_err()));
    T_OK(data_open(&b, &s, &w, t_err()));
    w.test = true;
    T_OK(data_open(&test, &s, &w, t_err()));
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t k = t_below(1000);

        T_OK(data_read(a, k, xa, &ya, t_err()));
        T_OK(data_read(b, i, xb, &yb, t_err())); // b goes another way
        T_OK(data_read(b, k, xb, &yb, t_err()));
        T_EQ(ya, yb);
        T_MEM(xa, xb, sizeof(xa));
        seen |= 1u << ya;
        T_OK(data_read(test, k, xb, &yb, t_err()));
        same += memcmp(xa, xb, sizeof(xa)) == 0;
    }
    T_EQ(seen, 15); // every class occurs
    T_EQ(same, 0);  // the test set is other samples
    data_free(a);
    data_free(b);
    data_free(test);
}

TEST(synthetic, says_what_does_not_fit)
{
    struct data_source s = {.format = "synthetic",
                            .generator = "classes",
                            .classes = 11,
                            .samples = 10,
                            .scale = 1};
    struct data_want w = want(8, 10, DATA_INDEX);
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;

    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "11 classes");
    s.generator = "spirals";
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "spirals");
    s.format = "parquet";
    T_FAILS(SL_ENOTSUP, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "parquet");
}

// ---- parts

// Reads all samples of a part of x = 0, 1, ... 999, marks them in `seen`, and
// frees it. Returns how many there are.
static uint64_t read_split(struct data *d, uint8_t seen[1000])
{
    uint64_t n = data_samples(d), last = 0;

    for (uint64_t i = 0; i < n; i++) {
        float x;
        int32_t y;

        data_soon(d, i);
        T_OK(data_read(d, i, &x, &y, t_err()));
        T_EQ(y, (int)x % 3);
        T_TRUE(i == 0 || (uint64_t)x > last); // in their order
        last = (uint64_t)x;
        seen[last]++;
    }
    data_free(d);
    return n;
}

static struct data *thousand(void)
{
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .delimiter = ',',
                            .label_column = "1",
                            .scale = 1};
    struct data_want w = want(1, 3, DATA_INDEX);
    struct buf text = BUF_INIT;
    struct data *d;

    for (int i = 0; i < 1000; i++)
        T_OK(buf_appendf(&text, "%d,%d\n", i, i % 3));
    s.x = put_text("thousand.csv", buf_text(&text));
    buf_release(&text);
    T_OK(data_open(&d, &s, &w, t_err()));
    return d;
}

TEST(split, each_sample_is_in_one_part)
{
    static const double parts[] = {0.001, 0.1, 0.5, 0.99};

    for (size_t i = 0; i < SL_COUNT(parts); i++) {
        struct data_part p = {.seed = 3, .part = parts[i]};
        struct data *whole = thousand(), *train, *test;
        uint8_t seen[1000] = {0};
        uint64_t n;

        p.seed = i == 0 ? 2 : 3;
        T_OK(data_split(&train, whole, &p, NULL, NULL, t_err()));
        p.held = true;
        T_OK(data_split(&test, whole, &p, NULL, NULL, t_err()));
        T_TRUE(data_hash(train) != data_hash(test));
        data_free(whole); // the parts keep it
        n = read_split(test, seen);
        T_NEAR((double)n / 1000, parts[i], 0.04);
        T_EQ(n + read_split(train, seen), 1000);
        for (size_t k = 0; k < 1000; k++)
            T_EQ(seen[k], 1);
    }
}

TEST(split, a_part_without_samples_is_refused)
{
    struct data_part p = {.part = 1e-9, .held = true};
    struct data *whole = thousand(), *d = NULL;
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, data_split(&d, whole, &p, NULL, NULL, &err));
    T_STR(err.text, "none of the 1000 samples is held out; give "
                    "data.validation another share");
    data_free(whole);
}

// A bad sample is passed over by its number in the part, and another of the
// same part stands in for it.
TEST(split, a_bad_sample_is_replaced_out_of_its_own_part)
{
    struct data_source s = {.format = "csv",
                            .roots = t_roots(),
                            .delimiter = ',',
                            .label_column = "1",
                            .scale = 1};
    struct data_part p = {.seed = 3, .part = 0.3, .held = true};
    struct data_want w = want(1, 3, DATA_INDEX);
    struct data_bad *bad = bad_new(1);
    struct buf text = BUF_INIT;
    struct bad_sample told[2];
    struct data *whole, *d;
    float x, next;
    int32_t y;
    int k = 0; // the first sample that is held out

    while (!order_held_out(p.seed, (uint64_t)k, p.part))
        k++;
    for (int i = 0; i < 100; i++)
        T_OK(buf_appendf(&text, i == k ? "x,0\n" : "%d,0\n", i));
    s.x = put_text("part.csv", buf_text(&text));
    buf_release(&text);
    T_OK(data_open(&whole, &s, &w, t_err()));
    T_OK(data_split(&d, whole, &p, bad, NULL, t_err()));
    data_free(whole);
    T_OK(data_read(d, 1, &next, &y, t_err()));
    T_OK(data_read(d, 0, &x, &y, t_err()));
    T_TRUE(x == next && order_held_out(p.seed, (uint64_t)x, p.part));
    T_EQ(bad_tell(bad, told, 2), 1);
    T_EQ(told[0].number, 0);
    T_TRUE(told[0].test);
    data_free(d);
    bad_unref(bad);
}
