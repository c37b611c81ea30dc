// SPDX-License-Identifier: Apache-2.0
#include "state/snap/snap.h"

#include <stdatomic.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

static const struct wire_tag seed_tag = {0, 0};

static bool same(const struct shard *a, const struct shard *b)
{
    return a->region.bytes == b->region.bytes &&
           memcmp(a->region.data, b->region.data, a->region.bytes) == 0 &&
           counted_equal(&a->once.counted, &b->once.counted) &&
           memcmp(&a->once.counts, &b->once.counts, sizeof(a->once.counts)) ==
               0 &&
           a->once.epoch_count == b->once.epoch_count;
}

TEST(snap, names_are_read_back_and_nothing_else_is_one)
{
    const char *others[] = {
        "shard-1.i2.n3.safetensors.tmp",
        "shard-01.i2.n3.safetensors",
        "shard-1.i2.n3.safetensor",
        "shard--1.i2.n3.safetensors",
        "shard-1.i2.safetensors",
        "xshard-1.i2.n3.safetensors",
        "shard-1.i+2.n3.safetensors",
        "shard-4294967296.i2.n3.safetensors",
        "cut-3.json",
    };
    char name[SNAP_NAME_BYTES];
    struct wire_tag tag = {0};
    uint32_t shard = 0;

    snap_file_name(name, 17, (struct wire_tag){UINT64_MAX, 3});
    T_TRUE(snap_file_parse(name, &shard, &tag));
    T_EQ(shard, 17);
    T_EQ(tag.incarnation, UINT64_MAX);
    T_EQ(tag.sequence, 3);
    for (size_t i = 0; i < SL_COUNT(others); i++)
        T_FALSE(snap_file_parse(others[i], &shard, &tag));
}

TEST(snap, folders_cannot_be_made_to_lie_elsewhere)
{
    struct plan p = {.job = 4, .job_uid = UINT64_C(0xfeed00000abc)};
    char *folder;

    p.job_name = (char *)"../../etc/x";
    folder = snap_folder("store", &p);
    T_STR(folder, "store/_._.._etc_x-j-4-00000abc");
    T_TRUE(snap_folder_is(folder + 6, 4, p.job_uid));
    T_FALSE(snap_folder_is(folder + 6, 5, p.job_uid));
    T_FALSE(snap_folder_is(folder + 6, 4, 1));
    sl_free(folder);
}

TEST(snap, what_was_written_is_read_back_whole)
{
    const char *names[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    struct shard *s, *back;
    struct crash_fs *disk;
    struct fs *fs;
    struct kit k;

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        disk = crash_fs_new(t_seed());
        fs = crash_fs_ops(disk);
        kit_init(&k);
        kit_optimizer(&k, names[i], 0.5);
        s = kit_admitted(&k);
        kit_count(s, 0, 1, 0.5f);
        kit_count(s, 29, 3, 1.5f);
        kit_snap(fs, "d", s);
        T_OK(kit_load(fs, "d", &k, seed_tag, NULL, &back, t_err()));
        T_TRUE(same(s, back));
        T_EQ(back->from.incarnation, 1);
        T_EQ(back->from.sequence, 1);
        T_EQ(back->incarnation, 0); // not admitted: I1 gives it a new one
        shard_unref(back);
        shard_unref(s);
        crash_fs_free(disk);
    }
}

// With the counts of pieces that were passed over; those of none are no key.
TEST(snap, what_was_passed_over_is_read_back)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct shard *s, *back;
    struct wire_push push;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    kit_payload_equal(&payload, 0.5f, 47, 0);
    push = kit_push(0, 0, &payload);
    push.absent_bytes = 1;
    push.absent[0] = 4;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    kit_snap(fs, "d", s);
    T_OK(kit_load(fs, "d", &k, seed_tag, NULL, &back, t_err()));
    T_TRUE(same(s, back));
    T_EQ(back->once.passed_count, 3);
    T_EQ(back->once.passed[0], 0);
    T_EQ(back->once.passed[2], 1);
    kit_count(s, 1, 0, 0.5f);
    shard_admit(back, 2);
    push = kit_push(1, 0, &payload);
    push.incarnation = 2;
    T_OK(shard_push(back, &push, &reply, NULL, t_err()));
    T_MEM(back->memory.values, s->memory.values, 47 * sizeof(float));
    kit_payload_release(&payload);
    shard_unref(back);
    shard_unref(s);
    crash_fs_free(disk);
}

TEST(snap, the_report_is_of_the_file)
{
    struct sha256 h = {0};
    struct snap_written w = {0};
    uint8_t sum[SHA256_BYTES];
    struct buf bytes = BUF_INIT;
    struct tensorfile *f;
    struct shard *s;
    struct kit k;
    char *path;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    kit_count(s, 0, 1, 0.5f);
    T_OK(snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
    T_STR(w.file, "shard-2.i1.n1.safetensors");
    path = fs_join(t_tmpdir(), w.file);
    T_OK(fs_read_all(fs_posix(), path, 1u << 20, &bytes, t_err()));
    T_EQ(bytes.len, w.bytes);
    T_OK(sha256_init(&h));
    T_OK(sha256_update(&h, bytes.data, bytes.len));
    T_OK(sha256_final(&h, sum));
    T_MEM(sum, w.sha256, SHA256_BYTES);
    T_EQ(counted_steps(&w.once.counted), 1);
    // Any reader of the format finds the variables and slots by name.
    T_OK(tensorfile_open(&f, fs_posix(), path, 0, t_err()));
    T_EQ(tensorfile_count(f), 9);
    T_TRUE(tensorfile_find(f, "dense/bias") != NULL);
    T_EQ(tensorfile_find(f, "dense/kernel")->shape[1], 7);
    T_STR(tensorfile_meta(f, SNAP_KEY_JOB_UID), "1122334455667788");
    T_STR(tensorfile_meta(f, "sluice.rows.norm/moving_mean"), "0:3");
    T_STR(tensorfile_meta(f, SNAP_KEY_OPTIMIZER), "adam 1");
    tensorfile_close(f);
    sl_free(path);
    buf_release(&bytes);
    snap_written_release(&w);
    shard_unref(s);
}

// Finite gradients, each of which is applied, and one value too many.
TEST(snap, the_report_names_a_variable_whose_values_are_not_finite)
{
    struct snap_written w = {0};
    struct shard *s;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "sgd", 0.5);
    s = kit_admitted(&k);
    kit_count(s, 0, 1, 0.5f);
    T_OK(snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
    T_STR(w.not_finite, "");
    snap_written_release(&w);
    kit_count(s, 0, 2, 3e38f);
    kit_count(s, 0, 3, 3e38f);
    kit_count(s, 1, 0, 3e38f);
    T_OK(snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
    T_STR(w.not_finite, "dense/kernel");
    snap_written_release(&w);
    shard_unref(s);
}

TEST(snap, an_older_incarnation_takes_no_snapshot)
{
    struct snap_written w = {0};
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    T_FAILS(SL_ESTATE, snap_write(fs_posix(), t_tmpdir(), s, 2, &w, t_err()));
    shard_admit(s, 3);
    T_FAILS(SL_ESTATE, snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
    T_OK(snap_write(fs_posix(), t_tmpdir(), s, 3, &w, t_err()));
    snap_written_release(&w);
    shard_close(s);
    T_FAILS(SL_ESTATE, snap_write(fs_posix(), t_tmpdir(), s, 3, &w, t_err()));
    shard_unref(s);
}

// What is counted would be more than a reader takes.
TEST(snap, none_is_written_that_nobody_could_read)
{
    struct snap_written w = {0};
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s, *back = NULL;
    struct kit k;

    kit_init(&k);
    kit_long_closures(&k);
    s = kit_admitted(&k);
    kit_count_too_much(s);
    T_FAILS(SL_ERANGE, snap_write(fs_posix(), t_tmpdir(), s, 1, &w, &err));
    T_HAS(err.text, "7700 closures behind the watermark");
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, seed_tag, NULL, &back, t_err()));
    T_EQ(back->from.sequence, 0);
    shard_unref(back);
    shard_unref(s);
}

// A tag that was given twice is an error, never a file that changes.
TEST(snap, K1_nobody_overwrites_a_file)
{
    struct snap_written w = {0};
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_snap(fs_posix(), t_tmpdir(), s);
    s->sequence = 0;
    T_FAILS(SL_EEXIST, snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
    shard_unref(s);
}

// ---- which one is loaded

TEST(snap, the_highest_that_holds_is_loaded)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct buf passed = BUF_INIT;
    struct shard *s, *back;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (uint32_t i = 0; i < 3; i++) {
        kit_count(s, 0, i, 1);
        kit_snap(fs, "d", s);
    }
    shard_admit(s, 2);
    kit_count(s, 0, 3, 1);
    kit_snap(fs, "d", s); // (2, 1) outranks (1, 3)
    T_OK(kit_load(fs, "d", &k, seed_tag, &passed, &back, t_err()));
    T_EQ(back->from.incarnation, 2);
    T_EQ(once_version(&back->once), 4);
    shard_unref(back);
    T_EQ(passed.len, 0);

    T_OK(crash_fs_flip(disk, "d/shard-2.i2.n1.safetensors", 200, 3));
    T_OK(kit_load(fs, "d", &k, seed_tag, &passed, &back, t_err()));
    T_EQ(back->from.sequence, 3);
    T_EQ(once_version(&back->once), 3);
    T_HAS(buf_text(&passed), "shard-2.i2.n1.safetensors");
    shard_unref(back);

    // K7: at least (1, 3) is still there; at least (2, 0) is not.
    T_OK(kit_load(fs, "d", &k, (struct wire_tag){1, 3}, NULL, &back, t_err()));
    shard_unref(back);
    T_FAILS(SL_ECORRUPT, kit_load(fs, "d", &k, (struct wire_tag){2, 0}, NULL,
                                  &back, t_err()));
    buf_release(&passed);
    shard_unref(s);
    crash_fs_free(disk);
}

TEST(snap, K7_the_seed_will_do_only_while_no_cut_exists)
{
    struct shard *back, *fresh;
    struct kit k;

    kit_init(&k);
    fresh = kit_shard(&k);
    T_OK(kit_load(fs_posix(), t_path("nowhere"), &k, seed_tag, NULL, &back,
                  t_err()));
    T_TRUE(same(fresh, back));
    T_EQ(back->from.incarnation, 0);
    shard_unref(back);
    T_FAILS(SL_ECORRUPT,
            kit_load(fs_posix(), t_path("nowhere"), &k, (struct wire_tag){1, 1},
                     NULL, &back, t_err()));
    shard_unref(fresh);
}

TEST(snap, a_file_of_another_job_shard_or_shape_is_not_loaded)
{
    struct shard *s, *back;
    struct wire_tag first = {1, 1};
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    kit_snap(fs_posix(), t_tmpdir(), s);
    shard_unref(s);
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    shard_unref(back);
    k.spec.job_uid++;
    T_FAILS(SL_ECORRUPT,
            kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    k.spec.job_uid--;
    kit_optimizer(&k, "adam", 1);
    T_FAILS(SL_ECORRUPT,
            kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    kit_optimizer(&k, "sgd", 1);
    k.shapes[0][0] = 7; // 7 x 5 in place of 5 x 7
    k.shapes[0][1] = 5;
    k.pieces[0].rows = 7;
    T_FAILS(SL_ECORRUPT,
            kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    k.shapes[0][0] = 5;
    k.shapes[0][1] = 7;
    k.pieces[0].rows = 5;
    k.geometry.samples = 1; // its counted set does not fit this schedule
    k.geometry.epochs = 1;
    k.spec.job_incarnation = 1;
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    shard_unref(back);
    k.geometry.samples = 40;
    // I6: of another incarnation of the job, only the very cut it was
    // restored to.
    k.spec.job_incarnation = 2;
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, first, NULL, &back, t_err()));
    shard_unref(back);
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, seed_tag, NULL, &back, t_err()));
    T_EQ(back->from.incarnation, 0); // passed over: the seed
    shard_unref(back);
}

// Writes a file of one value with this metadata and verifies it.
static enum sl_err verify(struct tensor_meta meta, bool checks)
{
    struct tensor_info t = {
        .name = "w", .dtype = TENSOR_F32, .rank = 1, .shape = {1}};
    struct tensorfile_writer *w;
    struct tensorfile *f;
    const float value = 1;
    enum sl_err rc;

    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&w, fs_posix(), t_path("f"), &t, 1, &meta, 1, checks,
                           t_err()));
    T_OK(tensorfile_append(w, &value, sizeof(value), t_err()));
    T_OK(tensorfile_finish(w, NULL, t_err()));
    T_OK(tensorfile_open(&f, fs_posix(), t_path("f"), 0, t_err()));
    rc = snap_verify(f, t_err());
    tensorfile_close(f);
    return rc;
}

TEST(snap, a_file_without_checksums_or_of_another_format_is_none)
{
    struct tensor_meta ours = {SNAP_KEY_FORMAT, SNAP_FORMAT};
    struct tensor_meta newer = {SNAP_KEY_FORMAT, "3"};
    struct tensor_meta none = {"a", "b"};

    T_OK(verify(ours, true));
    T_FAILS(SL_ECORRUPT, verify(ours, false));
    T_FAILS(SL_ENOTSUP, verify(newer, true));
    T_FAILS(SL_ECORRUPT, verify(none, true));
}

// Any bit of the file, anywhere: it is noticed, and the older one is used.
TEST(snap, a_flipped_bit_anywhere_is_noticed)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct snap_written w = {0};
    struct shard *s, *back;
    char path[128];
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    kit_snap(fs, "d", s);
    kit_count(s, 0, 2, 1);
    T_OK(snap_write(fs, "d", s, 1, &w, t_err()));
    snprintf(path, sizeof(path), "d/%s", w.file);
    for (uint64_t byte = 0; byte < w.bytes; byte++) {
        unsigned bit = (unsigned)t_below(8);

        T_OK(crash_fs_flip(disk, path, byte, bit));
        T_OK(kit_load(fs, "d", &k, seed_tag, NULL, &back, t_err()));
        if (back->from.sequence != 1)
            T_FAIL("byte %llu bit %u of %s: not noticed",
                   (unsigned long long)byte, bit, path);
        shard_unref(back);
        T_OK(crash_fs_flip(disk, path, byte, bit));
    }
    T_OK(kit_load(fs, "d", &k, seed_tag, NULL, &back, t_err()));
    T_TRUE(same(s, back));
    shard_unref(back);
    snap_written_release(&w);
    shard_unref(s);
    crash_fs_free(disk);
}

// ---- faults

// Every write, sync and rename is a place where the machine may die. What a
// restarted server then loads is the old snapshot or the new one, whole,
// values and counted set together, and the new one if snap_write said so.
TEST(snap, crash_at_every_step_leaves_old_or_new)
{
    struct shard *old, *new, *found;
    bool died = true;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    old = kit_admitted(&k);
    new = kit_admitted(&k);
    kit_count(old, 0, 0, 1);
    kit_count(new, 0, 0, 1);
    kit_count(new, 5, 1, 2);
    for (uint64_t step = 1; died; step++) {
        for (uint64_t luck = 0; luck < 8; luck++) {
            struct crash_fs *disk = crash_fs_new(t_seed() + 8 * step + luck);
            struct fs *fs = crash_fs_ops(disk);
            struct snap_written w = {0};
            enum sl_err rc;

            old->sequence = 0;
            new->sequence = 1;
            kit_snap(fs, "d", old);
            crash_fs_die_at(disk, step);
            rc = snap_write(fs, "d", new, 1, &w, t_err());
            died = crash_fs_died(disk);
            crash_fs_reboot(disk);
            T_OK(kit_load(fs, "d", &k, (struct wire_tag){1, 1}, NULL, &found,
                          t_err()));
            T_TRUE(same(found, new) || (rc != SL_OK && same(found, old)));
            // The next one gets through, over whatever was left behind.
            new->sequence = 2;
            kit_snap(fs, "d", new);
            shard_unref(found);
            snap_written_release(&w);
            crash_fs_free(disk);
        }
    }
    shard_unref(old);
    shard_unref(new);
}

// A disk that fails once, and does not die: an error, and a shard that goes
// on.
TEST(snap, an_error_of_the_disk_is_an_answer)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct shard *s, *back;
    unsigned failed = 0;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    for (uint64_t step = 1;; step++) {
        struct snap_written w = {0};
        enum sl_err rc;

        crash_fs_fail_at(disk, step);
        rc = snap_write(fs, "d", s, 1, &w, t_err());
        snap_written_release(&w);
        if (rc == SL_OK)
            break;
        failed++;
    }
    crash_fs_fail_at(disk, 0);
    T_GT(failed, 5);
    T_OK(kit_load(fs, "d", &k, seed_tag, NULL, &back, t_err()));
    T_TRUE(same(s, back));
    shard_unref(back);
    shard_unref(s);
    crash_fs_free(disk);
}

static void ignore(void *arg, const char *file, const struct sl_error *why)
{
}

TEST(snap, out_of_memory_is_an_answer)
{
    struct shard *s, *back;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    for (uint64_t n = 1;; n++) {
        struct snap_written w = {0};
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = snap_write(fs_posix(), t_tmpdir(), s, 1, &w, NULL);
        if (!sl_mem_failed()) {
            T_OK(rc);
            snap_written_release(&w);
            break;
        }
        T_NE(rc, SL_OK);
        T_TRUE(s->memory.freeze == NULL);
    }
    for (uint64_t n = 1;; n++) {
        struct shard *fresh = kit_shard(&k);
        enum sl_err rc;
        bool refused;

        sl_mem_fail_at(n);
        rc = snap_load(fs_posix(), t_tmpdir(), seed_tag, false, fresh, ignore,
                       NULL, NULL);
        refused = sl_mem_failed();
        T_EQ(rc, refused ? SL_ENOMEM : SL_OK);
        T_TRUE(rc != SL_OK || same(fresh, s));
        shard_unref(fresh);
        if (!refused)
            break;
    }
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, (struct wire_tag){1, 1}, NULL,
                  &back, t_err()));
    shard_unref(back);
    shard_unref(s);
}

// ---- one instant, while pushes go on

struct pusher {
    struct shard *shard;
    unsigned number;
    _Atomic bool stop;
};

enum { STEPS = 4, PUSHERS = 2 };

// Gradients are small integers, so that sums are exact in any order: those of
// all 400,000 keys too, where the disk is slow and the pushes go on.
static float of_key(uint64_t closure, uint32_t step)
{
    return (float)(1 + (closure * STEPS + step) % 80);
}

static void *push_all(void *arg)
{
    struct pusher *p = arg;
    uint64_t closures = schedule_closures(&p->shard->plan.schedule);

    for (uint64_t c = p->number; c < closures; c += PUSHERS)
        for (uint32_t step = 0; step < STEPS; step++) {
            if (atomic_load(&p->stop))
                return NULL;
            kit_count(p->shard, c, step, -of_key(c, step));
        }
    return NULL;
}

static double sum_of(const struct once *o)
{
    double sum = 0;

    for (uint64_t c = 0; c < o->counted.closures; c++)
        for (uint32_t step = 0; step < STEPS; step++)
            if (counted_has(&o->counted, c, step))
                sum += of_key(c, step);
    return sum;
}

// The values of a file are the sum of exactly the keys that the file counts:
// S1 and "the counted set is part of every snapshot", under load.
TEST(snap, a_snapshot_under_load_is_one_instant)
{
    enum { ELEMENTS = 300000, SNAPSHOTS = 12 }; // several blocks
    struct pusher pushers[PUSHERS];
    pthread_t threads[PUSHERS];
    struct shard *s, *back;
    struct kit k;

    kit_clear(&k);
    kit_variable(&k, "w", (uint64_t[]){ELEMENTS, 0});
    k.geometry.samples = 400000;
    k.geometry.epochs = 1;
    s = kit_admitted(&k);
    T_GT(shard_bytes(s), 4 * FREEZE_BLOCK_BYTES);
    for (unsigned i = 0; i < PUSHERS; i++) {
        pushers[i].shard = s;
        pushers[i].number = i;
        atomic_init(&pushers[i].stop, false);
        pthread_create(&threads[i], NULL, push_all, &pushers[i]);
    }
    for (uint64_t n = 1; n <= SNAPSHOTS; n++) {
        struct snap_written w = {0};
        double sum;

        T_OK(snap_write(fs_posix(), t_tmpdir(), s, 1, &w, t_err()));
        T_OK(kit_load(fs_posix(), t_tmpdir(), &k, w.tag, NULL, &back, t_err()));
        T_EQ(back->from.sequence, n);
        sum = sum_of(&back->once);
        T_LT(sum, 16777216.0); // exact in f32
        for (size_t i = 0; i < ELEMENTS; i++)
            if (back->memory.values[i] != (float)sum)
                T_FAIL("snapshot %llu: element %zu is %g, its keys say %g",
                       (unsigned long long)n, i, back->memory.values[i], sum);
        T_TRUE(counted_equal(&back->once.counted, &w.once.counted));
        shard_unref(back);
        snap_written_release(&w);
    }
    for (unsigned i = 0; i < PUSHERS; i++) {
        atomic_store(&pushers[i].stop, true);
        pthread_join(threads[i], NULL);
    }
    shard_unref(s);
}

TEST(snap, pushes_after_the_instant_do_not_reach_the_image)
{
    enum { ELEMENTS = 200000 };
    struct shard_image image;
    const void *at;
    struct shard *s;
    uint8_t *space;
    size_t n, floats = 0;
    struct kit k;

    kit_clear(&k);
    kit_optimizer(&k, "adam", 0.1);
    kit_variable(&k, "w", (uint64_t[]){ELEMENTS, 0});
    s = kit_admitted(&k);
    space = sl_malloc(FREEZE_BLOCK_BYTES);
    T_OK(shard_freeze(s, 1, &image, t_err()));
    // A first part from the memory, the rest from the side.
    for (size_t b = 0; b < image.freeze.blocks; b++) {
        if (b == 3)
            kit_count(s, 0, 0, 1);
        shard_image_take(&image, b, space, &at, &n);
        for (size_t i = 0; i < n / 4; i++, floats++)
            T_EQ(((const float *)at)[i], 0);
    }
    T_EQ(floats, 3 * ELEMENTS);
    T_EQ(image.freeze.pending, 0);
    T_EQ(counted_steps(&image.once.counted), 0);
    T_FAILS(SL_EBUSY, shard_freeze(s, 1, &(struct shard_image){0}, t_err()));
    shard_image_release(&image);
    T_TRUE(s->memory.values[0] < 0);
    sl_free(space);
    shard_unref(s);
}

// ---- tags, and what may go

TEST(snap, values_by_tag_are_those_of_the_instant)
{
    float then[47];
    struct tagged_file *file;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    memcpy(then, s->memory.values, sizeof(then));
    kit_snap(fs_posix(), t_tmpdir(), s);
    kit_count(s, 0, 1, 1);
    T_OK(snap_values(fs_posix(), t_tmpdir(), &s->plan, (struct wire_tag){1, 1},
                     &file, t_err()));
    T_EQ(file->bytes, sizeof(then));
    T_MEM(file->values, then, sizeof(then));
    T_EQ(file->version, 1);
    tagged_file_unref(file);
    T_FAILS(SL_ENOENT, snap_values(fs_posix(), t_tmpdir(), &s->plan,
                                   (struct wire_tag){1, 2}, &file, t_err()));
    shard_unref(s);
}

TEST(snap, only_what_lies_below_is_collected_and_only_of_the_shard)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct wire_tag tags[] = {{1, 3}, {1, 1}};
    const struct snap_keep keep = {tags, {1, 3}, 2, false};
    struct shard *s, *other;
    unsigned removed;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (int i = 0; i < 3; i++)
        kit_snap(fs, "d", s);
    k.spec.shard = 3;
    for (int i = 0; i < 3; i++)
        k.pieces[i].shard = 3;
    other = kit_admitted(&k);
    kit_snap(fs, "d", other);
    T_OK(fs_write_durable(fs, "d/cut-1.json", "x", 1, t_err()));
    T_OK(snap_collect(fs, "d", 2, &keep, NULL, &removed, t_err()));
    T_EQ(removed, 1); // what lies between is named by nobody
    T_TRUE(fs_exists(fs, "d/shard-2.i1.n1.safetensors"));
    T_FALSE(fs_exists(fs, "d/shard-2.i1.n2.safetensors"));
    T_TRUE(fs_exists(fs, "d/shard-2.i1.n3.safetensors"));
    T_TRUE(fs_exists(fs, "d/shard-3.i1.n1.safetensors"));
    T_TRUE(fs_exists(fs, "d/cut-1.json"));
    shard_unref(s);
    shard_unref(other);
    crash_fs_free(disk);
}

static void none_waits(struct tagged_waiter *w, enum sl_err rc,
                       const struct sl_error *err, struct tagged_file *file)
{
    tagged_file_unref(file);
}

// Maps a snapshot as the first pull by its tag does.
static void map_tag(struct shard *s, struct wire_tag tag)
{
    struct tagged_waiter w = {.done = none_waits};
    struct sl_error err = SL_ERROR_INIT;
    struct tagged_file *file;

    T_EQ(tagged_find(&s->tagged, tag, &w, &file), TAGGED_OPEN);
    T_OK(snap_values(fs_posix(), t_tmpdir(), &s->plan, tag, &file, t_err()));
    tagged_opened(&s->tagged, tag, SL_OK, &err, file);
}

// Returns how many mappings of this process are of files without a name.
static unsigned mapped_unnamed(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    char line[4096];

    T_ASSERT(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        count += strstr(line, ".safetensors (deleted)") != NULL;
    fclose(maps);
    return count;
}

// The disk has the space of a deleted file back once no process maps it.
TEST(snap, what_is_collected_is_mapped_no_more)
{
    struct wire_tag tags[] = {{1, 3}, {1, 1}};
    const struct snap_keep keep = {tags, {1, 3}, 2, false};
    struct tagged_waiter w = {.done = none_waits};
    struct tagged_file *sent, *file;
    struct shard *s;
    unsigned removed;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (uint64_t i = 1; i <= 3; i++) {
        kit_snap(fs_posix(), t_tmpdir(), s);
        map_tag(s, (struct wire_tag){1, i});
    }
    T_EQ(tagged_find(&s->tagged, (struct wire_tag){1, 2}, &w, &sent),
         TAGGED_HERE);
    T_OK(snap_collect(fs_posix(), t_tmpdir(), 2, &keep, &s->tagged, &removed,
                      t_err()));
    T_EQ(removed, 1);
    T_EQ(mapped_unnamed(), 1); // an answer is on its way
    tagged_file_unref(sent);
    T_EQ(mapped_unnamed(), 0);
    for (uint64_t i = 1; i <= 3; i += 2) {
        T_EQ(tagged_find(&s->tagged, (struct wire_tag){1, i}, &w, &file),
             TAGGED_HERE);
        tagged_file_unref(file);
    }
    shard_unref(s);
}

TEST(snap, what_an_earlier_death_left_half_written_is_swept)
{
    const char *half = "shard-2.i9.n9.safetensors.tmp";
    struct shard *back;
    struct kit k;

    kit_init(&k);
    T_OK(fs_write_durable(fs_posix(), t_path(half), "x", 1, t_err()));
    T_OK(fs_write_durable(fs_posix(), t_path("shard-3.i1.n1.safetensors.tmp"),
                          "x", 1, t_err()));
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, seed_tag, NULL, &back, t_err()));
    T_FALSE(fs_exists(fs_posix(), t_path(half)));
    T_TRUE(fs_exists(fs_posix(), t_path("shard-3.i1.n1.safetensors.tmp")));
    shard_unref(back);
}

TEST(snap, a_deleted_job_leaves_no_snapshot_and_others_keep_theirs)
{
    char *folder[2];
    struct shard *s;
    struct kit k;

    for (int i = 0; i < 2; i++) {
        kit_init(&k);
        k.spec.job = 7 + (uint64_t)i;
        s = kit_admitted(&k);
        folder[i] = snap_folder(t_tmpdir(), &s->plan);
        kit_snap(fs_posix(), folder[i], s);
        shard_unref(s);
    }
    T_OK(snap_delete_job(fs_posix(), t_tmpdir(), 7, k.spec.job_uid, t_err()));
    for (int i = 0; i < 2; i++) {
        char *path = fs_join(folder[i], "shard-2.i1.n1.safetensors");

        T_EQ(fs_exists(fs_posix(), path), i == 1);
        sl_free(path);
        sl_free(folder[i]);
    }
}
