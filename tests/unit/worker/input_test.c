// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <sched.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "plan/schedule.h"
#include "worker/data/input.h"

static struct data *numbers(uint64_t samples)
{
    struct data_source s = {.format = "synthetic",
                            .generator = "binary",
                            .samples = samples,
                            .seed = 3,
                            .scale = 1};
    struct data_want w = {
        .rank = 1, .dim = {2}, .outputs = 2, .labels = DATA_INDEX};
    struct data *d;

    T_OK(data_open(&d, &s, &w, t_err()));
    return d;
}

static struct input_run run_of(struct data *d, uint64_t epoch, uint64_t first,
                               uint64_t count, uint32_t batch, bool shuffle)
{
    struct input_run run = {.data = d,
                            .shuffle = shuffle,
                            .epoch = epoch,
                            .first = first,
                            .count = count,
                            .batch = batch};

    T_OK(order_init(&run.order, 11, epoch, data_samples(d)));
    return run;
}

// The digests of all batches of an epoch's closures add up to that of the
// epoch exactly when each sample is there once.
static void one_epoch(uint64_t samples, uint64_t batch, uint64_t per_closure,
                      bool shuffle)
{
    struct schedule s = {.samples = samples,
                         .batch = batch,
                         .epochs = 2,
                         .steps_per_closure = per_closure};
    struct data *d = numbers(samples);
    struct input *in;
    uint64_t digest = 0, seen = 0, closures = schedule_closures_per_epoch(&s);

    T_OK(schedule_check(&s, t_err()));
    T_OK(input_new(&in, 3, t_err()));
    for (uint64_t c = closures; c < 2 * closures; c++) {
        uint64_t first, count;
        struct input_run run;

        schedule_closure_range(&s, c, &first, &count);
        run = run_of(d, 1, first, count, (uint32_t)batch, shuffle);
        T_EQ(input_run_steps(&run), schedule_closure_steps(&s, c));
        input_open(in, &run);
        for (uint32_t k = 0; k < input_run_steps(&run); k++) {
            struct batch b;
            uint64_t step_first, step_count;

            T_OK(input_get(in, &run, k, &b, t_err()));
            schedule_step_range(&s, c, k, &step_first, &step_count);
            T_EQ(b.n, step_count);
            T_EQ(b.step, k);
            digest += b.digest;
            seen += b.n;
            input_put(in, &b);
        }
        input_close(in, &run);
    }
    T_EQ(seen, samples);
    T_EQ(digest, schedule_epoch_digest(&s, 1));
    input_free(in);
    data_free(d);
}

TEST(input, batches_cover_an_epoch_exactly_once)
{
    static const uint64_t sizes[][3] = {
        {1, 1, 1},   {1, 64, 4},   {97, 10, 3}, {100, 10, 5},
        {101, 7, 2}, {256, 64, 4}, {31, 33, 1}, {1000, 1, 97}};

    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        one_epoch(sizes[i][0], sizes[i][1], sizes[i][2], true);
        one_epoch(sizes[i][0], sizes[i][1], sizes[i][2], false);
    }
}

// Steps may be wanted in any order, with other runs open, and are always what
// they were.
TEST(input, any_step_at_any_time)
{
    struct data *d = numbers(500);
    struct input *in;
    struct input_run a, b, c;
    uint64_t digests[20] = {0};

    T_OK(input_new(&in, 3, t_err()));
    a = run_of(d, 0, 0, 200, 10, true);
    input_open(in, &a);
    for (uint32_t k = 0; k < 20; k++) {
        struct batch x;

        T_OK(input_get(in, &a, k, &x, t_err()));
        digests[k] = x.digest;
        input_put(in, &x);
    }
    b = run_of(d, 0, 200, 200, 10, true);
    c = run_of(d, 0, 400, 100, 10, true);
    input_open(in, &b);
    input_open(in, &c);
    for (int i = 0; i < 300; i++) {
        uint32_t k = (uint32_t)t_below(20);
        struct batch x;

        T_OK(input_get(in, &a, k, &x, t_err()));
        T_EQ(x.digest, digests[k]);
        input_put(in, &x);
    }
    input_close(in, &a);
    for (uint32_t k = 0; k < 10; k++) {
        struct batch x;

        T_OK(input_get(in, &c, k, &x, t_err())); // b's fill the ring first
        T_EQ(x.n, 10);
        input_put(in, &x);
    }
    input_close(in, &b);
    input_close(in, &c);
    input_free(in);
    data_free(d);
}

static void wait_ready(struct input *in, const struct input_run *run,
                       uint32_t step)
{
    while (!input_ready(in, run, step)) // the test's limit ends it
        sched_yield();
}

// The ring is read full before anything is asked for, and what is given back is
// read anew, at the latest when it is half the ring.
TEST(input, what_is_given_back_is_read_ahead)
{
    struct data *d = numbers(640);
    struct input_run run = run_of(d, 0, 0, 640, 10, true);
    uint32_t half = INPUT_SLOTS / 2, steps = input_run_steps(&run);
    struct input *in;

    T_OK(input_new(&in, 1, t_err()));
    input_open(in, &run);
    wait_ready(in, &run, INPUT_SLOTS - 1);
    for (uint32_t k = 0; k + INPUT_SLOTS < steps; k++) {
        struct batch x;

        T_OK(input_get(in, &run, k, &x, t_err()));
        T_TRUE(!input_ready(in, &run, k + INPUT_SLOTS)); // no space for it
        input_put(in, &x);
        if (k % half == half - 1)
            wait_ready(in, &run, k + INPUT_SLOTS);
    }
    input_close(in, &run);
    input_free(in);
    data_free(d);
}

// The slots go to wanted steps alone, in order: 5 is there, 3 and 4 never were.
TEST(input, only_the_steps_of_a_share_are_read_ahead)
{
    const uint32_t mine[] = {1, 2, 5, 6, 9, 10, 13, 14};
    struct data *d = numbers(16 * 8);
    struct input_run run = run_of(d, 0, 0, 16 * 8, 8, true);
    struct input *in;
    struct batch b;

    run.share = (struct input_share){.period = 4, .from = 1, .end = 3};
    T_OK(input_new(&in, 1, t_err()));
    input_open(in, &run);
    for (unsigned i = 0; i < SL_COUNT(mine); i++) {
        T_OK(input_get(in, &run, mine[i], &b, t_err()));
        T_EQ(b.step, mine[i]);
        input_put(in, &b);
        if (i + 1 < SL_COUNT(mine))
            wait_ready(in, &run, mine[i + 1]);
        T_TRUE(!input_ready(in, &run, mine[i] / 4 * 4 + 3));
        T_TRUE(!input_ready(in, &run, mine[i] / 4 * 4 + 4));
    }
    // Another share from here on; and one that nothing is left for.
    input_share(in, &run, (struct input_share){4, 0, 1});
    T_OK(input_get(in, &run, 0, &b, t_err()));
    input_put(in, &b);
    wait_ready(in, &run, 4);
    T_TRUE(!input_ready(in, &run, 1));
    input_share(in, &run, (struct input_share){4, 2, 2});
    T_OK(input_get(in, &run, 3, &b,
                   t_err())); // it may be asked for all the same
    input_put(in, &b);
    input_close(in, &run);
    input_free(in);
    data_free(d);
}

TEST(input, an_error_names_its_sample_and_can_be_met_again)
{
    const char *path = t_path("bad.csv");
    struct data_source s = {
        .format = "csv", .scale = 1, .x = path, .roots = t_roots()};
    struct data_want w = {
        .rank = 1, .dim = {1}, .outputs = 2, .labels = DATA_INDEX};
    FILE *f = fopen(path, "w");
    struct input_run run;
    struct sl_error err = SL_ERROR_INIT;
    struct input *in;
    struct data *d;
    struct batch b;

    T_TRUE(f != NULL);
    fputs("1,0\n2,1\nx,0\n4,1\n", f);
    fclose(f);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_OK(input_new(&in, 3, t_err()));
    run = run_of(d, 0, 0, 4, 1, false);
    input_open(in, &run);
    T_OK(input_get(in, &run, 0, &b, t_err()));
    input_put(in, &b);
    for (int i = 0; i < 2; i++) {
        T_FAILS(SL_EINVAL, input_get(in, &run, 2, &b, &err));
        T_HAS(err.text, "line 3");
    }
    T_OK(input_get(in, &run, 3, &b, t_err()));
    input_put(in, &b);
    input_close(in, &run);
    input_free(in);
    data_free(d);
}

// ---- a slow disk

#define PIXELS 16
#define PICTURES 96
#define SLOW 30 // microseconds of a read: longer than one from memory takes

static atomic_uint expected; // samples that the disk was told of

static enum sl_err slow_pread(struct fs_file *f, uint64_t offset, void *to,
                              size_t n, size_t *got, struct sl_error *err)
{
    uint64_t began = sl_real_us();

    while (sl_real_us() - began < SLOW)
        sched_yield();
    return fs_posix()->ops->pread(f, offset, to, n, got, err);
}

static void slow_expect(struct fs_file *f, uint64_t offset, size_t n)
{
    (void)f;
    (void)offset;
    atomic_fetch_add(&expected, n == PIXELS);
}

// Opens the file whose path follows the name of the bucket.
static enum sl_err slow_open(void *arg, struct fs_file **out, const char *path,
                             struct sl_error *err)
{
    static struct fs_ops ops;
    static struct fs fs = {&ops};
    enum sl_err rc =
        fs_open(fs_posix(), out, path + strlen("s3://b"), FS_READ, err);

    (void)arg;
    ops = *fs_posix()->ops;
    ops.pread = slow_pread;
    ops.expect = slow_expect;
    if (rc == SL_OK)
        (*out)->fs = &fs;
    return rc;
}

// Writes an IDX file of zeroes: `n` elements of each of PICTURES samples.
static void write_idx(const char *path, uint8_t n)
{
    static const uint8_t zeroes[PIXELS];
    const uint8_t head[] = {0, 0, 8, 2, 0, 0, 0, PICTURES, 0, 0, 0, n};
    FILE *f = fopen(path, "w");

    T_TRUE(f != NULL);
    fwrite(head, 1, sizeof(head), f);
    for (int i = 0; i < PICTURES; i++)
        fwrite(zeroes, 1, n, f);
    T_EQ(fclose(f), 0);
}

// Returns samples that lie on the slow disk; *roots is freed after them.
static struct data *slow_pictures(struct roots **roots)
{
    const struct roots_places places = {.open = slow_open};
    char x[600], y[600];
    struct data_source s = {
        .format = "idx", .x = x, .y = y, .scale = 1, .stay = true};
    struct data_want w = {.rank = 1,
                          .dim = {PIXELS},
                          .outputs = 1,
                          .labels = DATA_VALUES,
                          .u8 = true};
    struct data *d;

    snprintf(x, sizeof(x), "s3://b%s/x.idx", t_tmpdir());
    snprintf(y, sizeof(y), "s3://b%s/y.idx", t_tmpdir());
    write_idx(x + strlen("s3://b"), PIXELS);
    write_idx(y + strlen("s3://b"), 1);
    T_OK(roots_new(roots, "worker", "--data-root", t_err()));
    roots_read_places(*roots, &places);
    s.roots = *roots;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_FALSE(data_shared(d));
    return d;
}

// Once a batch has come from a slow disk, the disk is told all samples of those
// that follow: also where samples are changed, which many threads do.
TEST(input, a_slow_disk_is_told_what_is_read_next)
{
    static const struct augment flips = {
        .rows = 4,
        .columns = 4,
        .channels = 1,
        .u8 = true,
        .count = 1,
        .change = {{.kind = AUGMENT_FLIP, .rows = true}}};
    struct roots *roots;
    struct data *d = slow_pictures(&roots);

    for (int changed = 0; changed < 2; changed++) {
        struct input_run run = run_of(d, 0, 0, PICTURES, 8, true);
        struct input *in;

        run.augment = changed ? &flips : NULL;
        atomic_store(&expected, 0);
        T_OK(input_new(&in, 3, t_err()));
        input_open(in, &run);
        for (uint32_t k = 0; k < PICTURES / 8; k++) {
            struct batch b;

            T_OK(input_get(in, &run, k, &b, t_err()));
            input_put(in, &b);
        }
        input_close(in, &run);
        input_free(in);
        // The ring may be read before its first batch is known to be slow.
        T_LE(PICTURES - INPUT_SLOTS * 8, atomic_load(&expected));
        T_LE(atomic_load(&expected), PICTURES - 8);
    }
    data_free(d);
    roots_free(roots);
}

// ---- memory that the consumer lends

struct lender {
    unsigned asked, live; // pieces
    size_t most;          // no piece is larger; 0: any may be
};

static void *get_some(void *arg, size_t bytes)
{
    struct lender *l = arg;

    l->asked++;
    if (l->most > 0 && bytes > l->most)
        return NULL;
    l->live++;
    return malloc(bytes);
}

static void give_some(void *arg, void *at, size_t bytes)
{
    struct lender *l = arg;

    memset(at, 0xff, bytes); // all of it, and nobody reads it now
    l->live--;
    free(at);
}

// So many batches do not lie there; all are what another input reads.
static unsigned read_both(struct input *in, struct input *plain, struct data *d,
                          uint32_t batch)
{
    struct input_run a = run_of(d, 0, 0, 60 * batch, batch, true);
    struct input_run b = a;
    unsigned elsewhere = 0;

    input_open(in, &a);
    input_open(plain, &b);
    for (uint32_t k = 0; k < 60; k++) {
        struct batch x, y;

        T_OK(input_get(in, &a, k, &x, t_err()));
        T_OK(input_get(plain, &b, k, &y, t_err()));
        T_MEM(x.x, y.x, batch * data_sample_bytes(d));
        T_MEM(x.y, y.y, batch * data_label_bytes(d));
        T_FALSE(y.pinned);
        elsewhere += !x.pinned;
        input_put(plain, &y);
        input_put(in, &x);
    }
    input_close(in, &a);
    input_close(plain, &b);
    return elsewhere;
}

TEST(input, batches_are_read_into_memory_that_is_lent)
{
    struct data *d = numbers(1000);
    struct lender l = {0};
    const struct input_memory m = {get_some, give_some, &l};
    struct input *in, *plain;
    unsigned elsewhere;

    T_OK(input_new(&in, 2, t_err()));
    T_OK(input_new(&plain, 2, t_err()));
    input_memory(in, &m);
    // Each slot's first; smaller ones fit.
    elsewhere = read_both(in, plain, d, 5);
    T_LE(elsewhere + read_both(in, plain, d, 3), INPUT_SLOTS);
    T_LE(read_both(in, plain, d, 16), INPUT_SLOTS);
    T_LE(l.live, 2 * INPUT_SLOTS);
    input_memory(in, NULL);
    T_EQ(l.live, 0);
    T_EQ(read_both(in, plain, d, 5), 60);
    T_EQ(l.live, 0);
    // There is none for the samples' values, and it is not asked for again.
    l = (struct lender){.most = 16 * sizeof(int32_t)};
    input_memory(in, &m);
    T_EQ(read_both(in, plain, d, 16), 60);
    T_EQ(l.asked, 1);
    T_EQ(l.live, 0);
    // Freed with the input.
    l = (struct lender){0};
    input_memory(in, &m);
    (void)read_both(in, plain, d, 5);
    T_GT(l.live, 0);
    input_free(in);
    T_EQ(l.live, 0);
    input_free(plain);
    data_free(d);
}
