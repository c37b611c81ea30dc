// SPDX-License-Identifier: Apache-2.0
// Indexes of records in the store: read where they fit, and never believed
// where they do not.
#include "worker/data/data_index.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "tests/harness/roots.h"
#include "tests/harness/t.h"
#include "worker/data/data_records.h"

#define FILES 2
#define BYTES 4096

static struct index_place place;

// ---- files that have a version, as those of a place

static uint64_t version_is;

static uint64_t version(const struct fs_file *f)
{
    return version_is;
}

// Opens two files of zeroes, which have the version `v`; 0: none.
static void open_files(struct records *r, uint64_t v)
{
    static struct fs_ops ops;
    static struct fs fs = {&ops};
    struct data_source s = {.roots = t_roots(), .index = &place};
    static const uint8_t zeroes[BYTES];
    char pattern[600];

    ops = *fs_posix()->ops;
    ops.version = version;
    version_is = v;
    place = (struct index_place){fs_posix(), t_path("store")};
    for (int i = 0; i < FILES; i++) {
        snprintf(pattern, sizeof(pattern), "%s/%d.records", t_tmpdir(), i);
        T_OK(fs_write_durable(fs_posix(), pattern, zeroes, BYTES, t_err()));
    }
    snprintf(pattern, sizeof(pattern), "%s/{0..1}.records", t_tmpdir());
    s.x = pattern;
    memset(r, 0, sizeof(*r));
    T_OK(records_open(r, &s, t_err()));
    for (int i = 0; i < FILES; i++)
        r->file[i]->fs = &fs;
}

static unsigned scans;

// Adds three extents of a file.
static enum sl_err scan(void *arg, struct records_scan *s, uint32_t file,
                        struct sl_error *err)
{
    struct records *r = arg;

    scans++;
    for (uint32_t i = 0; i < 3; i++)
        T_OK(records_add(r, (struct data_extent){i * 100, 10 + i, file}, err));
    return SL_OK;
}

// Returns the number of files in which the extents are looked for.
static unsigned looks(uint64_t v, const char *recipe)
{
    struct records r;

    scans = 0;
    open_files(&r, v);
    T_OK(records_scan(&r, recipe, scan, &r, t_err()));
    T_EQ(r.count, 3 * FILES);
    for (uint32_t i = 0; i < r.count; i++) {
        T_EQ(r.at[i].file, i / 3);
        T_EQ(r.at[i].offset, i % 3 * 100);
        T_EQ(r.at[i].bytes, 10 + i % 3);
    }
    records_release(&r);
    return scans;
}

// Returns the path of the only index in the store; NULL: there is none.
static const char *kept(void)
{
    static char path[600];
    DIR *dir = opendir(t_path("store/index"));
    struct dirent *one;
    int count = 0;

    while (dir != NULL && (one = readdir(dir)) != NULL) {
        if (one->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/store/index/%s", t_tmpdir(),
                 one->d_name);
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    T_LE(count, 1);
    return count == 1 ? path : NULL;
}

static void remove_kept(void)
{
    if (kept() != NULL)
        T_OK(fs_unlink(fs_posix(), kept(), t_err()));
}

TEST(index, records_are_looked_for_once)
{
    T_EQ(looks(7, "a"), FILES);
    T_TRUE(kept() != NULL);
    T_EQ(looks(7, "a"), 0);
}

// Files of disks have no version: another content of the same length would not
// be seen.
TEST(index, what_has_no_version_has_no_index)
{
    T_EQ(looks(0, "a"), FILES);
    T_TRUE(kept() == NULL);
    T_EQ(looks(0, "a"), FILES);
}

TEST(index, other_versions_and_other_wants_have_another)
{
    T_EQ(looks(7, "a"), FILES);
    remove_kept();
    T_EQ(looks(7, NULL), FILES);
    T_TRUE(kept() == NULL);
    T_EQ(looks(7, "a"), FILES);
    remove_kept();
    T_EQ(looks(7, "b"), FILES);
    remove_kept();
    T_EQ(looks(8, "b"), FILES);
    T_EQ(looks(8, "b"), 0);
}

// Writes an index in place of the kept one, with the hash that fits.
static void forge(const struct data_extent *at, size_t n, size_t cut)
{
    size_t bytes = n * sizeof(*at) - cut;
    struct buf b = BUF_INIT;
    struct sha256 h;
    uint8_t sum[SHA256_BYTES];

    T_OK(sha256_init(&h));
    T_OK(sha256_update(&h, at, bytes));
    T_OK(sha256_final(&h, sum));
    T_OK(buf_append(&b, sum, sizeof(sum)));
    T_OK(buf_append(&b, at, bytes));
    T_OK(fs_write_durable(fs_posix(), kept(), b.data, b.len, t_err()));
    buf_release(&b);
}

// The store may be written by anyone who has its keys.
TEST(index, what_does_not_fit_the_files_is_not_believed)
{
    const struct data_extent wrong[] = {
        {0, 10, FILES},                     // of no file
        {BYTES + 1, 0, 0},                  // behind the end
        {BYTES - 5, 6, 1},                  // beyond it
        {UINT64_MAX - 2, 10, 0},            // a sum that wraps
        {0, (uint32_t)RECORD_BYTES + 1, 0}, // too large
    };

    T_EQ(looks(7, "a"), FILES);
    for (size_t i = 0; i < SL_COUNT(wrong); i++) {
        forge(&wrong[i], 1, 0);
        T_EQ(looks(7, "a"), FILES);
        T_EQ(looks(7, "a"), 0); // it was written anew
    }
    forge(&(struct data_extent){0, 1, 0}, 1, 3);
    T_EQ(looks(7, "a"), FILES);
    forge(wrong, 0, 0);
    T_EQ(looks(7, "a"), FILES);
}

TEST(index, a_damaged_one_is_written_anew)
{
    struct buf b = BUF_INIT;

    T_EQ(looks(7, "a"), FILES);
    T_OK(fs_read_all(fs_posix(), kept(), BYTES, &b, t_err()));
    for (size_t i = 0; i < b.len; i += 7) {
        b.data[i] ^= 1;
        T_OK(fs_write_durable(fs_posix(), kept(), b.data, b.len, t_err()));
        T_EQ(looks(7, "a"), FILES);
        b.data[i] ^= 1;
    }
    for (size_t n = 0; n < b.len; n += 11) {
        T_OK(fs_write_durable(fs_posix(), kept(), b.data, n, t_err()));
        T_EQ(looks(7, "a"), FILES);
    }
    buf_release(&b);
}

TEST(index, a_store_that_cannot_be_written_stops_nobody)
{
    T_EQ(mkdir(t_path("store"), 0700), 0);
    T_OK(fs_write_durable(fs_posix(), t_path("store/index"), "", 0, t_err()));
    T_EQ(looks(7, "a"), FILES);
    T_EQ(looks(7, "a"), FILES);
}
