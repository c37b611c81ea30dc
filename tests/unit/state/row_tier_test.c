// SPDX-License-Identifier: Apache-2.0
// Rows that lie in files: a set of short memory against one that has enough,
// through the same life, byte by byte. And files that fail.
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/num.h"
#include "plan/tables.h"
#include "state/rows/row_disk.h"
#include "state/rows/rowset_inner.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/draw.h"

#include "tests/harness/t.h"

#define DIM 30
#define IDS 3000 // ids are below
#define MOST 120 // ids of a push
#define RECORD (sizeof(struct row_header) + 4 * (DIM + 2))

static struct rowset_spec tier_spec(void)
{
    struct rowset_spec spec = {
        .table = 3,
        .dim = DIM,
        .buckets = 64 + (uint32_t)t_below(64),
        .shards = 1,
        .seed = 11,
        .initial = {SLUICE__V1__INIT_KIND__INIT_UNIFORM, -0.05, 0.05},
        .scale = 1,
        .probability = t_below(3) == 0 ? 0.5 : 1,
        .min_count = (uint32_t)t_below(3),
        .max_rows = t_below(3) == 0 ? 800 + t_below(800) : 0,
        .unused_steps = t_below(2) * (10 + t_below(60)),
        .least_norm = t_below(2) * 0.5,
    };

    row_rule_defaults(&spec.rule, ROW_RULE_ROWWISE_ADAGRAD, OPTIM_NONE);
    return spec;
}

// Each id has a row from its first update on, and keeps it.
static struct rowset_spec plain_spec(void)
{
    struct rowset_spec spec = tier_spec();

    spec.min_count = 0;
    spec.probability = 1;
    spec.max_rows = spec.unused_steps = 0;
    spec.least_norm = 0;
    return spec;
}

// The same life in memory and in short memory.
struct pair {
    struct rowset *memory, *tier;
    struct row_account account;
    uint32_t version;
    bool refused; // a push of the set with a tier was refused
};

static void pair_init_of(struct pair *p, const struct rowset_spec *spec,
                         uint64_t limit, const char *tenant)
{
    struct rowset_spec with = *spec;

    *p = (struct pair){.version = 0};
    T_OK(rowset_new(&p->memory, spec, t_err()));
    T_OK(row_account_open(&p->account, tenant));
    with.account = &p->account;
    T_OK(rowset_new(&p->tier, &with, t_err()));
    row_memory_set(limit, 0);
}

static void pair_init(struct pair *p, const struct rowset_spec *spec,
                      uint64_t limit)
{
    pair_init_of(p, spec, limit, NULL);
}

static void pair_release(struct pair *p)
{
    row_memory_set(0, 0);
    rowset_free(p->memory);
    rowset_free(p->tier);
    row_account_close(&p->account);
    T_EQ(row_disk_used(), 0);
}

static int tier_by_hash(const void *a, const void *b)
{
    uint64_t x = table_hash(*(const uint64_t *)a);
    uint64_t y = table_hash(*(const uint64_t *)b);

    return x < y ? -1 : x > y;
}

// Draws ids as they come in clicks: few often, and each once in a push.
static size_t draw_ids(uint64_t *ids)
{
    size_t n = t_below(MOST), kept = 0;

    for (size_t i = 0; i < n; i++)
        ids[i] = t_below(3) == 0 ? t_below(200) : t_below(IDS);
    qsort(ids, n, sizeof(*ids), tier_by_hash);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[kept - 1])
            ids[kept++] = ids[i];
    return kept;
}

static float grads[MOST * DIM];

static void apply_to(struct rowset *r, uint32_t version, size_t n,
                     const uint64_t *ids)
{
    struct rowset_step step = {
        .step = version, .version = version, .rate = 0.1, .factor = 1};

    rowset_apply(r, &step, n, ids, WIRE_F32, grads);
}

// Pushes the same to both; returns what the set with a tier said of it.
static enum sl_err pair_push(struct pair *p, size_t n, const uint64_t *ids)
{
    enum sl_err rc = rowset_reserve(p->tier, n, ids);

    if (rc == SL_OK)
        rc = rowset_fill(p->tier, n, ids);
    if (rc != SL_OK)
        return rc;
    p->version++;
    for (size_t i = 0; i < n * DIM; i++)
        grads[i] = (float)((i * 31 + p->version * 7 + ids[i / DIM]) % 9) - 4;
    T_OK(rowset_reserve(p->memory, n, ids));
    apply_to(p->memory, p->version, n, ids);
    apply_to(p->tier, p->version, n, ids);
    return SL_OK;
}

static void push_some(struct pair *p)
{
    static uint64_t ids[MOST];

    T_OK(pair_push(p, draw_ids(ids), ids));
}

// ---- what is in them

struct dump {
    size_t n[ROWSET_PARTS];
    uint8_t record[ROWSET_PARTS][(IDS + 100) * RECORD];
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct row_header *)a)->id;
    uint64_t y = ((const struct row_header *)b)->id;

    return x < y ? -1 : x > y;
}

// Walks on in both, some records at a time; returns false at the end.
static bool walk_on(struct rowset *r, struct dump *d, size_t most)
{
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        size_t stride = rowset_part_stride(r, part), n;

        if (rowset_walk(r, part, most, d->record[part] + d->n[part] * stride,
                        &n)) {
            d->n[part] += n;
            T_ASSERT(d->n[part] <= IDS);
            return true;
        }
    }
    return false;
}

static void dump_end(struct rowset *r, struct dump *d)
{
    T_OK(rowset_walked(r, t_err()));
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        T_EQ(d->n[part], rowset_frozen(r, part));
        qsort(d->record[part], d->n[part], rowset_part_stride(r, part), by_id);
    }
    rowset_thaw(r);
}

static struct dump one, two;

static void same_dumps(const struct rowset *r)
{
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        T_EQ(one.n[part], two.n[part]);
        T_MEM(one.record[part], two.record[part],
              one.n[part] * rowset_part_stride(r, part));
    }
}

// Freezes both, and walks them to the end while they are pushed to, or not: all
// records of the one instant are the same.
static void pair_walk(struct pair *p, bool pushes)
{
    bool more[2] = {true, true};

    memset(&one, 0, sizeof(one));
    memset(&two, 0, sizeof(two));
    rowset_freeze(p->memory, p->version);
    rowset_freeze(p->tier, p->version);
    while (more[0] || more[1]) {
        more[0] = walk_on(p->memory, &one, 1 + t_below(90));
        more[1] = walk_on(p->tier, &two, 1 + t_below(90));
        if (pushes && t_below(2) == 0)
            push_some(p);
    }
    dump_end(p->memory, &one);
    dump_end(p->tier, &two);
    same_dumps(p->memory);
}

static void pair_read(struct pair *p)
{
    static float a[MOST * DIM], b[MOST * DIM];
    static uint64_t ids[MOST];
    size_t n = draw_ids(ids);

    T_OK(rowset_read(p->memory, n, ids, a, t_err()));
    T_OK(rowset_read(p->tier, n, ids, b, t_err()));
    T_MEM(a, b, n * DIM * sizeof(*a));
}

// All that a set tells of itself, but for memory and places.
static void pair_counts(const struct pair *p, uint64_t *cold)
{
    struct rowset_counts a, b;

    rowset_counts(p->memory, &a);
    rowset_counts(p->tier, &b);
    *cold += b.cold;
    T_TRUE(b.cold <= b.rows);
    T_GE(p->account.bytes, b.bytes);
    b.bytes = a.bytes;
    b.cold = b.file_bytes = b.hits = b.misses = b.cooled = 0;
    T_MEM(&a, &b, sizeof(a));
}

// A psserver is lost: another one loads what it had, and its memory is short.
static void pair_load(struct pair *p, const struct rowset_spec *spec)
{
    struct rowset_spec with = *spec;
    uint32_t version = p->version;

    pair_walk(p, false);
    rowset_free(p->tier);
    rowset_free(p->memory);
    with.account = &p->account;
    T_OK(rowset_new(&p->memory, spec, t_err()));
    T_OK(rowset_new(&p->tier, &with, t_err()));
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        T_OK(rowset_expect(p->tier, part, two.n[part]));
        T_OK(rowset_put(p->tier, part, version, two.n[part], two.record[part],
                        t_err()));
        T_OK(rowset_put(p->memory, part, version, two.n[part], two.record[part],
                        t_err()));
    }
}

// Ends a walk early: records that only it needed are no rows on disk.
static void pair_thaw(struct pair *p)
{
    struct rowset_counts before, after;

    rowset_counts(p->tier, &before);
    rowset_thaw(p->tier);
    rowset_thaw(p->memory);
    rowset_counts(p->tier, &after);
    T_EQ(before.cold, after.cold);
}

// The push of a shard ends where another of its tables has failed.
static void pair_abandon(struct pair *p)
{
    static uint64_t ids[MOST];
    size_t n = draw_ids(ids);

    T_OK(rowset_reserve(p->tier, n, ids));
    T_OK(rowset_fill(p->tier, n, ids));
    if (t_below(2) == 0) { // the step is counted without rows
        apply_to(p->memory, ++p->version, 0, NULL);
        apply_to(p->tier, p->version, 0, NULL);
    }
}

static void pair_live(struct pair *p, const struct rowset_spec *spec,
                      uint64_t *cold)
{
    for (unsigned i = 0; i < 120; i++) {
        push_some(p);
        if (t_below(8) == 0)
            pair_abandon(p);
        if (t_below(4) == 0)
            pair_read(p);
        if (t_below(15) == 0)
            pair_walk(p, t_below(4) != 0);
        if (t_below(40) == 0) { // a snapshot that is not finished
            rowset_freeze(p->tier, p->version);
            rowset_freeze(p->memory, p->version);
            memset(&one, 0, sizeof(one));
            (void)walk_on(p->tier, &one, 60);
            push_some(p);
            pair_thaw(p);
        }
        pair_counts(p, cold);
        if (t_below(50) == 0)
            pair_load(p, spec);
    }
    pair_walk(p, true);
    pair_read(p);
}

TEST(row_tier, T9_where_a_row_lies_changes_no_byte)
{
    uint64_t cold = 0;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    for (unsigned i = 0; i < 60; i++) {
        struct rowset_spec spec = tier_spec();
        struct pair p;

        pair_init(&p, &spec, (330 << 10) + t_below(100 << 10));
        pair_live(&p, &spec, &cold);
        pair_release(&p);
    }
    T_TRUE(cold > 10000); // or the test compares a set with itself
    row_disk_set(NULL, NULL, 0);
}

// What stays in memory of a table is a number of bytes, not of rows.
TEST(row_tier, a_table_of_long_rows_needs_little_memory)
{
    struct rowset_spec spec = plain_spec();
    uint64_t ids[3], cold = 0;
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    spec.dim = 1000; // gradients of the last ids of a push are zeroes
    pair_init(&p, &spec, 64 << 10);
    for (uint64_t i = 0; i < 30; i++) {
        for (uint64_t k = 0; k < SL_COUNT(ids); k++)
            ids[k] = 3 * i + k;
        qsort(ids, SL_COUNT(ids), sizeof(*ids), tier_by_hash);
        T_OK(pair_push(&p, SL_COUNT(ids), ids));
    }
    pair_counts(&p, &cold);
    T_GE(cold, 70);
    pair_walk(&p, false);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

// Reads the ids of rows that a set says are gone, in order.
static size_t gone_ids(struct rowset *r, uint64_t *ids, size_t most)
{
    struct rowset_gone_at at = {0};
    size_t n = 0, more;

    T_TRUE(rowset_gone_known(r));
    rowset_gone_seal(r);
    while ((more = rowset_gone_read(r, ROWSET_ROWS, &at, most - n, ids + n)) >
           0)
        n += more;
    rowset_gone_end(r, true);
    qsort(ids, n, sizeof(*ids), by_number);
    return n;
}

// A delta names the rows that went, those in a file, too, and needs no base
// because some lie there.
TEST(row_tier, T10_rows_that_went_are_known_wherever_they_lie)
{
    static uint64_t a[20000], b[20000];
    struct rowset_spec spec = plain_spec();
    uint64_t cold = 0;
    struct pair p;
    size_t n;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    spec.unused_steps = 40;
    pair_init(&p, &spec, 200 << 10);
    for (unsigned i = 0; i < 60; i++)
        push_some(&p);
    pair_counts(&p, &cold);
    T_TRUE(cold > 100);
    rowset_gone_begin(p.memory);
    rowset_gone_begin(p.tier);
    for (unsigned i = 0; i < 200; i++)
        push_some(&p);
    n = gone_ids(p.tier, b, SL_COUNT(b));
    T_TRUE(n > 100 && n < SL_COUNT(b));
    T_EQ(gone_ids(p.memory, a, SL_COUNT(a)), n);
    T_MEM(a, b, n * sizeof(*a));
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// ---- files that fail

// A set of short memory, most of whose rows lie in a file, and its model.
static void pair_of_disk(struct pair *p)
{
    struct rowset_spec spec = plain_spec();
    static uint64_t ids[MOST];
    uint64_t cold = 0;

    pair_init(p, &spec, 160 << 10);
    for (uint64_t id = 0; id < 1500; id += 100) {
        for (uint64_t i = 0; i < 100; i++)
            ids[i] = id + i;
        qsort(ids, 100, sizeof(*ids), tier_by_hash);
        T_OK(pair_push(p, 100, ids));
    }
    pair_counts(p, &cold);
    T_TRUE(cold > 500);
}

// The same rows are in both, so nothing was lost or half done.
static void pair_same(struct pair *p)
{
    pair_walk(p, false);
    pair_read(p);
}

// Flips a bit of each record of a file, or cuts it off.
struct bad_fs {
    struct fs fs;
    struct fs_ops ops;
    enum { FINE, FLIPS, ENDS, FAILS } reads;
    bool full; // writes fail
};

static struct bad_fs bad;

static enum sl_err bad_pread(struct fs_file *f, uint64_t offset, void *to,
                             size_t n, size_t *got, struct sl_error *err)
{
    enum sl_err rc;

    if (bad.reads == FAILS)
        return sl_fail(err, SL_EIO, "pread %s: a bad sector", f->path);
    rc = fs_posix()->ops->pread(f, offset, to, n, got, err);
    if (rc == SL_OK && *got > 0 && bad.reads == FLIPS)
        ((uint8_t *)to)[*got / 2] ^= 16;
    if (rc == SL_OK && bad.reads == ENDS)
        *got /= 2;
    return rc;
}

static enum sl_err bad_pwrite(struct fs_file *f, uint64_t offset,
                              const void *from, size_t n, struct sl_error *err)
{
    if (bad.full)
        return sl_fail(err, SL_EIO, "pwrite %s: a bad sector", f->path);
    return fs_posix()->ops->pwrite(f, offset, from, n, err);
}

static enum sl_err bad_open(struct fs *fs, struct fs_file **out,
                            const char *path, enum fs_mode mode,
                            struct sl_error *err)
{
    enum sl_err rc = fs_posix()->ops->open(fs_posix(), out, path, mode, err);

    if (rc == SL_OK)
        (*out)->fs = fs;
    return rc;
}

static void bad_init(void)
{
    bad.ops = *fs_posix()->ops;
    bad.ops.open = bad_open;
    bad.ops.pread = bad_pread;
    bad.ops.pwrite = bad_pwrite;
    bad.ops.reserve = NULL; // read by calls
    bad.fs.ops = &bad.ops;
    bad.reads = FINE;
    row_disk_set(&bad.fs, t_tmpdir(), 0);
}

// Returns what a push of rows that lie in the file says.
static enum sl_err push_cold(struct pair *p, struct sl_error *err)
{
    uint64_t ids[100];
    enum sl_err rc;

    for (uint64_t i = 0; i < 100; i++)
        ids[i] = i;
    qsort(ids, 100, sizeof(*ids), tier_by_hash);
    rc = pair_push(p, 100, ids);
    return rc == SL_OK ? rc : row_memory_refuse(&p->account, rc, err);
}

static void fails_with(struct pair *p, int reads, const char *says)
{
    static float values[100 * DIM];
    struct sl_error wrong = SL_ERROR_INIT;
    uint64_t ids[100];

    for (uint64_t i = 0; i < 100; i++)
        ids[i] = i;
    bad.reads = reads;
    T_FAILS(SL_ECORRUPT, push_cold(p, &wrong));
    T_HAS(wrong.text, says);
    T_HAS(wrong.text, t_tmpdir());
    T_FAILS(SL_ECORRUPT, rowset_read(p->tier, 100, ids, values, &wrong));
    T_HAS(wrong.text, says);
    rowset_freeze(p->tier, p->version);
    memset(&two, 0, sizeof(two));
    while (walk_on(p->tier, &two, 90))
        ;
    T_FAILS(SL_ECORRUPT, rowset_walked(p->tier, &wrong));
    T_HAS(wrong.text, "table 3: ");
    rowset_thaw(p->tier);
    bad.reads = FINE;
}

TEST(row_tier, T9_a_row_that_a_disk_changed_is_not_trained_on)
{
    struct sl_error wrong = SL_ERROR_INIT;
    struct pair p;

    bad_init();
    pair_of_disk(&p);
    fails_with(&p, FLIPS, "is not as it was written");
    fails_with(&p, FAILS, "a bad sector");
    pair_same(&p);
    bad.reads = ENDS;
    T_FAILS(SL_ECORRUPT, push_cold(&p, &wrong));
    T_HAS(wrong.text, "it ends at byte");
    bad.reads = FINE;
    pair_same(&p);
    T_OK(push_cold(&p, &wrong));
    pair_same(&p);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

static size_t some_ids(uint64_t *ids, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = first + i;
    qsort(ids, n, sizeof(*ids), tier_by_hash);
    return n;
}

// As pair_of_disk, where the hand of the clock has gone round, so that it is
// known how often a row in memory is met: rarer rows are 0 to 99.
static void pair_of_rounds(struct pair *p)
{
    uint64_t ids[100];

    pair_of_disk(p);
    for (uint64_t first = 0; first < 1500; first += 100)
        T_OK(pair_push(p, some_ids(ids, first, 100), ids));
}

// An update is counted when its rows go back into the file. Those that cannot
// stay in memory.
TEST(row_tier, T9_a_row_that_cannot_go_back_stays_in_memory)
{
    struct rowset_counts counts;
    uint64_t ids[100], left = 0;
    struct pair p;

    bad_init();
    pair_of_rounds(&p);
    some_ids(ids, 0, 100);
    T_OK(rowset_reserve(p.tier, 100, ids));
    T_OK(rowset_reserve(p.memory, 100, ids));
    T_OK(rowset_fill(p.tier, 100, ids));
    rowset_counts(p.tier, &counts);
    bad.full = true;
    apply_to(p.memory, ++p.version, 100, ids);
    apply_to(p.tier, p.version, 100, ids);
    bad.full = false;
    pair_counts(&p, &left);
    T_EQ(left, counts.cold - 100);
    pair_same(&p);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// The next step may be counted without rows of the table.
TEST(row_tier, what_was_lent_to_an_update_that_ended_is_given_back)
{
    const struct row_pool *hot;
    uint64_t ids[100], ready;
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    pair_of_rounds(&p);
    hot = &p.tier->rows.pool;
    some_ids(ids, 0, 100);
    T_OK(rowset_reserve(p.tier, 100, ids));
    T_OK(rowset_fill(p.tier, 100, ids));
    ready = row_pool_ready(hot);
    T_OK(pair_push(&p, 0, NULL));
    T_EQ(row_pool_ready(hot) - ready, 100);
    pair_same(&p);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// A row that updates meet seldom is changed where it lies, and takes no other
// one's place; one that they meet again soon comes into memory.
TEST(row_tier, rows_that_are_met_often_come_into_memory)
{
    struct rowset_counts counts;
    uint64_t ids[50], cold[3];
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    pair_of_rounds(&p);
    some_ids(ids, 0, 50);
    for (size_t i = 0; i < SL_COUNT(cold); i++) {
        T_OK(pair_push(&p, 50, ids));
        rowset_counts(p.tier, &counts);
        cold[i] = counts.cold;
    }
    T_EQ(cold[1], cold[0] - 50); // into the place that they had only borrowed
    T_EQ(cold[2], cold[1]);
    pair_same(&p);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// Finds the file of a tier, which has no name.
static int nameless_file(void)
{
    char link[64], path[512];

    for (int fd = 0; fd < 1024; fd++) {
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        path[n < 0 ? 0 : n] = '\0';
        if (strstr(path, "/.sluice-rows-") != NULL)
            return fd;
    }
    T_FAIL("no file of rows is open");
    return -1;
}

// Of a file that is mapped. What was cut off is there no more for the
// processor, as what a disk does not give.
TEST(row_tier, T9_a_mapped_row_that_a_disk_lost_ends_the_push_alone)
{
    static float values[100 * DIM];
    struct sl_error wrong = SL_ERROR_INIT;
    uint64_t ids[100];
    struct stat is;
    struct pair p;
    int fd;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    pair_of_disk(&p);
    fd = nameless_file();
    T_EQ(fstat(fd, &is), 0);
    for (uint64_t i = 0; i < 100; i++)
        ids[i] = i;
    T_EQ(ftruncate(fd, 0), 0);
    T_FAILS(SL_ECORRUPT, rowset_read(p.tier, 100, ids, values, &wrong));
    T_HAS(wrong.text, "it ends at byte");
    T_FAILS(SL_ECORRUPT, push_cold(&p, &wrong));
    T_EQ(ftruncate(fd, is.st_size), 0);
    T_FAILS(SL_ECORRUPT, push_cold(&p, &wrong));
    T_HAS(wrong.text, "is not as it was written");
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// A shard may have a thousand tables, of most of which few rows go.
TEST(row_tier, ids_that_went_take_memory_as_they_go)
{
    struct rowset_spec spec = plain_spec();
    struct pair p;
    uint64_t ids[2], before;

    spec.max_rows = 4;
    spec.buckets = 1;
    pair_init(&p, &spec, 0);
    rowset_gone_begin(p.tier);
    before = p.account.bytes;
    for (uint64_t i = 0; i < 1000; i++) {
        ids[0] = 2 * i;
        ids[1] = 2 * i + 1;
        qsort(ids, SL_COUNT(ids), sizeof(*ids), tier_by_hash);
        T_OK(pair_push(&p, SL_COUNT(ids), ids));
        if (i == 3) // four rows, four ids, and what a push may need
            T_LE(p.account.bytes, before + 6 * RECORD + 512);
    }
    T_LE(p.account.bytes, before + 6 * RECORD + (size_t)2 * 16 * 2000);
    T_TRUE(rowset_gone_known(p.tier));
    pair_release(&p);
}

TEST(row_tier, a_disk_that_is_full_fails_the_push_and_changes_nothing)
{
    struct crash_fs *full = crash_fs_new(t_seed());
    struct sl_error wrong = SL_ERROR_INIT;
    struct pair p;

    T_OK(fs_mkdirs(crash_fs_ops(full), "rows", t_err()));
    row_disk_set(crash_fs_ops(full), "rows", 0);
    pair_of_disk(&p);
    crash_fs_fail_at(full, 1);
    T_FAILS(SL_ERANGE, push_cold(&p, &wrong));
    T_HAS(wrong.text, "--rows-dir");
    pair_same(&p);
    pair_release(&p);
    crash_fs_free(full);
    row_disk_set(NULL, NULL, 0);
}

// A turn that needs all hot records is not said to be a disk's fault, which may
// be in order again.
TEST(row_tier, too_little_memory_is_not_said_in_words_of_an_older_failure)
{
    struct sl_error wrong = SL_ERROR_INIT;
    struct row_store *s;
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    pair_of_disk(&p);
    s = &p.tier->rows;
    (void)sl_fail(&p.account.why, SL_ERANGE, "the disk was full");
    row_tier_turn(s);
    for (uint32_t i = 0; i < s->pool.used; i++)
        row_tier_need(s->tier, i);
    T_FAILS(SL_ERANGE, row_tier_fill(s, 0, NULL, NULL, 1 << 20));
    T_FAILS(SL_ERANGE, row_memory_refuse(&p.account, SL_ERANGE, &wrong));
    T_HAS(wrong.text, "no memory for another row: rows of all jobs");
    pair_same(&p);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

// Pushes new ids until one more push is refused; a disk has 60 KiB for them.
static enum sl_err pushed_until_full(struct pair *p, struct sl_error *wrong)
{
    static uint64_t ids[100];
    enum sl_err rc = SL_OK;

    for (uint64_t id = 0; rc == SL_OK && id < IDS - 100; id += 100) {
        for (uint64_t i = 0; i < 100; i++)
            ids[i] = id + i;
        qsort(ids, 100, sizeof(*ids), tier_by_hash);
        rc = pair_push(p, 100, ids);
        T_LE(row_disk_used(), 60 << 10);
    }
    return row_memory_refuse(&p->account, rc, wrong);
}

TEST(row_tier, the_limit_of_the_disk_is_kept)
{
    struct sl_error wrong = SL_ERROR_INIT;
    struct rowset_spec spec = plain_spec();
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 60 << 10);
    pair_init(&p, &spec, 160 << 10);
    T_FAILS(SL_ERANGE, pushed_until_full(&p, &wrong));
    T_HAS(wrong.text, "of 60 KiB in ");
    T_HAS(wrong.text, "--rows-disk");
    pair_walk(&p, false);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}

static void no_disk_is_left(void *arg, const char *tenant,
                            struct row_tenant_bytes used,
                            struct row_tenant_bytes most)
{
    T_EQ(used.memory + used.disk, 0);
    T_EQ(most.disk, 60 << 10);
    *(unsigned *)arg += strcmp(tenant, "a") == 0;
}

// The disk has room, and it is another tenant's.
TEST(row_tier, the_limit_of_a_tenant_s_disk_is_kept)
{
    static const struct row_tenant_bytes some = {ROW_TENANT_FREE, 60 << 10};
    struct sl_error wrong = SL_ERROR_INIT;
    struct rowset_spec spec = plain_spec();
    unsigned seen = 0;
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    T_OK(row_tenant_set("a", some));
    pair_init_of(&p, &spec, 160 << 10, "a");
    T_FAILS(SL_ERANGE, pushed_until_full(&p, &wrong));
    T_HAS(wrong.text, "rows of tenant a take ");
    T_HAS(wrong.text, "--quota a:rows_disk=BYTES");
    pair_walk(&p, false);
    pair_release(&p);
    row_tenants_each(no_disk_is_left, &seen);
    T_EQ(seen, 1);
    T_OK(row_tenant_set(
        "a", (struct row_tenant_bytes){ROW_TENANT_FREE, ROW_TENANT_FREE}));
    row_disk_set(NULL, NULL, 0);
}

// A process was killed before it could take the name from a file.
TEST(row_tier, files_that_have_kept_their_name_are_removed)
{
    struct fs_file *f;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    T_OK(fs_open(fs_posix(), &f, t_path(".sluice-rows-1-0"), FS_CREATE,
                 t_err()));
    fs_close(f);
    T_OK(fs_open(fs_posix(), &f, t_path("mine"), FS_CREATE, t_err()));
    fs_close(f);
    T_OK(row_disk_tidy(t_err()));
    T_FALSE(fs_exists(fs_posix(), t_path(".sluice-rows-1-0")));
    T_TRUE(fs_exists(fs_posix(), t_path("mine")));
    row_disk_set(NULL, NULL, 0);
}

// Two tables of an account: what the large one has in memory it gives to the
// small one, whose update is as large as its memory.
TEST(row_tier, a_table_that_grows_takes_the_memory_of_a_large_one)
{
    struct rowset_counts counts;
    struct rowset_spec spec;
    struct rowset *small;
    static uint64_t ids[100];
    struct pair p;

    row_disk_set(fs_posix(), t_tmpdir(), 0);
    pair_of_disk(&p);
    spec = plain_spec();
    spec.account = &p.account;
    T_OK(rowset_new(&small, &spec, t_err()));
    for (uint64_t i = 0; i < 100; i++)
        ids[i] = i;
    qsort(ids, 100, sizeof(*ids), tier_by_hash);
    T_OK(rowset_reserve(small, 100, ids));
    T_OK(rowset_fill(small, 100, ids));
    apply_to(small, 1, 100, ids);
    rowset_counts(small, &counts);
    T_EQ(counts.rows, 100);
    T_EQ(counts.cold, 0);
    pair_same(&p);
    rowset_free(small);
    pair_release(&p);
    row_disk_set(NULL, NULL, 0);
}
