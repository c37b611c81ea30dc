// SPDX-License-Identifier: Apache-2.0
// A store that does not answer is not one that holds nothing.
#include "common/base/mem.h"
#include "state/snap/archive.h"
#include "tests/unit/psserver/kit.h"

static struct sl_error err;
static bool away, files_away; // files_away: folders still answer

static enum sl_err refuse(const char *path, struct sl_error *why)
{
    return sl_fail(why, SL_EUNAVAIL, "%s: nobody answers", path);
}

static enum sl_err away_open(struct fs *fs, struct fs_file **out,
                             const char *path, enum fs_mode mode,
                             struct sl_error *why)
{
    return away || files_away ? refuse(path, why)
                              : fs_posix()->ops->open(fs, out, path, mode, why);
}

static enum sl_err away_stat(struct fs *fs, const char *path,
                             struct fs_stat *out, struct sl_error *why)
{
    return away ? refuse(path, why) : fs_posix()->ops->stat(fs, path, out, why);
}

static enum sl_err away_list(struct fs *fs, const char *dir, fs_name_fn fn,
                             void *arg, struct sl_error *why)
{
    return away ? refuse(dir, why)
                : fs_posix()->ops->list(fs, dir, fn, arg, why);
}

static struct fs *store(void)
{
    static struct fs_ops ops;
    static struct fs fs = {&ops};

    ops = *fs_posix()->ops;
    ops.open = away_open;
    ops.stat = away_stat;
    ops.list = away_list;
    ops.mkdir = NULL; // as S3 has none
    away = files_away = false;
    err = (struct sl_error)SL_ERROR_INIT;
    return &fs;
}

TEST(away, K7_a_shard_does_not_begin_from_its_seed)
{
    struct fs *fs = store();
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_shard(&k);
    away = true;
    T_FAILS(SL_EUNAVAIL, snap_load(fs, t_tmpdir(), (struct wire_tag){0, 0},
                                   false, s, NULL, NULL, &err));
    T_HAS(err.text, "nobody answers");
    away = false;
    T_OK(snap_load(fs, t_tmpdir(), (struct wire_tag){0, 0}, false, s, NULL,
                   NULL, t_err()));
    shard_unref(s);
}

static void no_file_is_passed_over(void *arg, const char *file,
                                   const struct sl_error *why)
{
    T_FAIL("%s: %s", file, why->text);
}

// The newest may be good: neither an older one nor the seed stands in for it.
TEST(away, K7_a_file_that_cannot_be_read_now_is_not_passed_over)
{
    struct fs *fs = store();
    struct wire_tag newest;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_snap(fs, t_tmpdir(), s);
    kit_count(s, 0, 0, 1);
    newest = kit_snap(fs, t_tmpdir(), s);
    shard_unref(s);
    s = kit_shard(&k);
    files_away = true;
    T_FAILS(SL_EUNAVAIL,
            snap_load(fs, t_tmpdir(), (struct wire_tag){0, 0}, false, s,
                      no_file_is_passed_over, NULL, &err));
    T_HAS(err.text, "cannot be read now");
    T_HAS(err.text, "nobody answers");
    files_away = false;
    T_OK(snap_load(fs, t_tmpdir(), (struct wire_tag){0, 0}, false, s,
                   no_file_is_passed_over, NULL, t_err()));
    T_EQ(wire_tag_cmp(s->from, newest), 0);
    shard_unref(s);
}

TEST(away, a_jobs_files_do_not_count_as_deleted)
{
    struct fs *fs = store();
    struct shard *s;
    struct kit k;
    char *folder;

    kit_init(&k);
    s = kit_admitted(&k);
    folder = snap_folder(t_tmpdir(), &s->plan);
    T_OK(fs_mkdirs(fs_posix(), folder, t_err()));
    kit_snap(fs, folder, s);
    away = true;
    T_FAILS(SL_EUNAVAIL,
            snap_delete_job(fs, t_tmpdir(), k.spec.job, k.spec.job_uid, &err));
    away = false;
    T_OK(snap_delete_job(fs, t_tmpdir(), k.spec.job, k.spec.job_uid, t_err()));
    T_OK(snap_delete_job(fs, "/nowhere/at/all", 1, 1, t_err()));
    sl_free(folder);
    shard_unref(s);
}

TEST(away, K1_a_file_is_not_written_where_it_is_not_known_to_be_new)
{
    struct snap_written w;
    struct fs *fs = store();
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    away = true;
    T_FAILS(SL_EUNAVAIL, snap_write(fs, t_tmpdir(), s, 1, &w, &err));
    away = false;
    T_OK(snap_write(fs, t_tmpdir(), s, 1, &w, t_err()));
    snap_written_release(&w);
    shard_unref(s);
}

// Where ours is in S3 and a record names a folder, that is one.
TEST(away, paths_of_records_have_the_file_system_that_they_name)
{
    struct fs *fs = store();

    T_PTR(snap_fs_of(fs, "s3://bucket/x", "/var/lib/other"), fs_posix());
    T_PTR(snap_fs_of(fs, "s3://bucket/x", "s3://bucket/y"), fs);
    T_PTR(snap_fs_of(fs, "/store", "/var/lib/other"), fs);
    T_PTR(snap_fs_of(fs, "", "/var/lib/other"), fs);
}
