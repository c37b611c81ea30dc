// SPDX-License-Identifier: Apache-2.0
#include "coordinator/journal/journal_manifest.h"

#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/manifest.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

TEST(manifest, its_path_names_the_job_and_stays_in_the_store)
{
    struct buf path = BUF_INIT;

    T_OK(manifest_path(&path, "/s", "fashion-cnn", 7,
                       UINT64_C(0x1122334455667788), 3));
    T_STR(buf_text(&path), "/s/fashion-cnn-j-7-55667788/cut-3.json");
    buf_reset(&path);
    T_OK(manifest_path(&path, "/s", "../x/y", 7, 1, 3));
    T_STR(buf_text(&path), "/s/___x_y-j-7-00000001/cut-3.json");
    buf_release(&path);
}

// Compares the members of the manifest of the test below.
static void says_all(const json_t *root)
{
    const json_t *first = json_array_get(json_object_get(root, "shards"), 0);
    const char *value = NULL;
    uint64_t number = 0;

    T_OK(sl_json_u64(&number, root, "cut", t_err()));
    T_EQ(number, 3);
    T_OK(sl_json_str(&value, root, "job_uid", t_err()));
    T_STR(value, "0x1122334455667788");
    T_OK(sl_json_u64(&number, json_object_get(root, "geometry"), "samples",
                     t_err()));
    T_EQ(number, 60000);
    T_OK(sl_json_str(&value, first, "sha256", t_err()));
    T_EQ(strncmp(value, "abcd0000", 8), 0);
    T_EQ(strlen(value), 64);
    T_OK(sl_json_str(&value, first, "file", t_err()));
    T_STR(value, "shard-0.i2.n9.safetensors");
    T_OK(sl_json_u64(&number, json_object_get(first, "tag"), "sequence",
                     t_err()));
    T_EQ(number, 9);
    T_OK(sl_json_u64(&number, json_object_get(first, "counts"), "counted",
                     t_err()));
    T_EQ(number, 4690);
}

TEST(manifest, says_all_that_is_needed_to_read_the_cut)
{
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    Sluice__V1__CheckpointsReply layout = SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    Sluice__V1__Checkpoint cut = SLUICE__V1__CHECKPOINT__INIT;
    Sluice__V1__CheckpointShard shard = SLUICE__V1__CHECKPOINT_SHARD__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    Sluice__V1__JobStatus counts = SLUICE__V1__JOB_STATUS__INIT;
    Sluice__V1__ShardStatus status = SLUICE__V1__SHARD_STATUS__INIT;
    Sluice__V1__ShardCounts of_file = SLUICE__V1__SHARD_COUNTS__INIT;
    struct schedule schedule = {60000, 64, 5, 16};
    struct manifest m = {
        .job = 7,
        .job_uid = 0x1122334455667788,
        .job_incarnation = 1,
        .term = 4,
        .job_name = "fashion",
        .spec = &spec,
        .schedule = &schedule,
        .layout = &layout,
        .checkpoint = &cut,
        .counts = &counts,
    };
    Sluice__V1__CheckpointShard *shards[] = {&shard};
    Sluice__V1__ShardStatus *statuses[] = {&status};
    uint8_t sha[32] = {0xab, 0xcd};
    struct buf text = BUF_INIT;
    json_t *root = NULL;

    spec.name = "fashion";
    tag.incarnation = 2;
    tag.sequence = 9;
    shard.tag = &tag;
    shard.folder = "/disk";
    shard.file = "shard-0.i2.n9.safetensors";
    shard.sha256.data = sha;
    shard.sha256.len = sizeof(sha);
    of_file.counted = 4690;
    status.counts = &of_file;
    cut.cut = 3;
    cut.shards = shards;
    cut.n_shards = 1;
    counts.shards = statuses;
    counts.n_shards = 1;

    T_OK(manifest_text(&text, &m));
    T_OK(sl_json_parse(&root, "m", buf_text(&text), text.len, NULL, t_err()));
    says_all(root);
    json_decref(root);
    buf_release(&text);
}

static struct buf borrowed(const char *text)
{
    return (struct buf){(uint8_t *)text, strlen(text), strlen(text) + 1};
}

// Every step of writing it is a place where the machine may die. After the
// reboot it is not there, or there and whole; and there if writing it was
// acknowledged. And what K6 has seen stays, whenever the machine dies next.
TEST(manifest, K6_crash_at_every_step_leaves_none_or_all)
{
    struct buf text = borrowed("{\"format\": 1, \"cut\": 1}\n");
    const char *path = "/store/j/cut-1.json";
    bool died = true;

    for (unsigned step = 1; died; step++) {
        struct crash_fs *fs = crash_fs_new(t_seed() + step);
        struct buf found = BUF_INIT;
        bool there = false;
        enum sl_err rc;

        T_OK(fs_mkdirs(crash_fs_ops(fs), "/store", t_err()));
        crash_fs_die_at(fs, step);
        rc = manifest_write(crash_fs_ops(fs), path, &text, NULL);
        died = crash_fs_died(fs);
        crash_fs_reboot(fs);

        T_OK(manifest_settle(crash_fs_ops(fs), path, &there, t_err()));
        T_TRUE(there || rc != SL_OK);
        crash_fs_reboot(fs);
        T_EQ(fs_exists(crash_fs_ops(fs), path), there);
        if (there) {
            T_OK(fs_read_all(crash_fs_ops(fs), path, 1000, &found, t_err()));
            T_STR(buf_text(&found), buf_text(&text));
        }
        buf_release(&found);
        crash_fs_free(fs);
    }
}

TEST(manifest, one_that_nobody_could_read_is_not_written)
{
    struct crash_fs *fs = crash_fs_new(t_seed());
    struct buf text = {.len = MANIFEST_BYTES + 1};

    text.data = sl_calloc(1, text.len);
    T_FAILS(SL_ERANGE, manifest_write(crash_fs_ops(fs), "/store/j/cut-1.json",
                                      &text, t_err()));
    T_FALSE(fs_exists(crash_fs_ops(fs), "/store/j/cut-1.json"));
    buf_release(&text);
    crash_fs_free(fs);
}

TEST(manifest, one_that_was_removed_does_not_come_back)
{
    struct crash_fs *fs = crash_fs_new(t_seed());
    struct buf text = borrowed("{}");
    uint64_t highest = 9;

    T_OK(manifest_highest(crash_fs_ops(fs), "/store/j", &highest, t_err()));
    T_EQ(highest, 0);
    T_OK(fs_mkdirs(crash_fs_ops(fs), "/store", t_err()));
    T_OK(manifest_write(crash_fs_ops(fs), "/store/j/cut-2.json", &text,
                        t_err()));
    T_OK(manifest_write(crash_fs_ops(fs), "/store/j/cut-11.json", &text,
                        t_err()));
    T_OK(manifest_write(crash_fs_ops(fs), "/store/j/cut-99.json.old", &text,
                        t_err()));
    T_OK(manifest_highest(crash_fs_ops(fs), "/store/j", &highest, t_err()));
    T_EQ(highest, 11);
    // It is gone, but not durably so; the next call makes up for it.
    crash_fs_fail_at(fs, 2);
    T_FAILS(SL_EIO,
            manifest_remove(crash_fs_ops(fs), "/store/j/cut-11.json", NULL));
    T_OK(manifest_remove(crash_fs_ops(fs), "/store/j/cut-11.json", t_err()));
    crash_fs_reboot(fs);
    T_OK(manifest_highest(crash_fs_ops(fs), "/store/j", &highest, t_err()));
    T_EQ(highest, 2);
    crash_fs_free(fs);
}
