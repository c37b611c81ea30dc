// SPDX-License-Identifier: Apache-2.0
// Files of shards that left: verified once while they are asked for, and closed
// when nobody asks any more.
#include "state/snap/archive.h"

#include <unistd.h>

#include "common/base/mem.h"
#include "state/snap/snap.h"
#include "tests/unit/psserver/kit.h"

enum { FILES = ARCHIVE_FILES + 2 };

static struct sl_error err;
static unsigned opened, unmapped;
static uint64_t said_bytes; // of each file; 0: as they are

static enum sl_err counted_open(struct fs *fs, struct fs_file **out,
                                const char *path, enum fs_mode mode,
                                struct sl_error *why)
{
    opened++;
    return fs_posix()->ops->open(fs, out, path, mode, why);
}

static void counted_unmap(struct fs *fs, struct fs_map *m)
{
    unmapped++;
    fs_posix()->ops->unmap(fs, m);
}

static enum sl_err said_stat(struct fs *fs, const char *path,
                             struct fs_stat *out, struct sl_error *why)
{
    enum sl_err rc = fs_posix()->ops->stat(fs, path, out, why);

    if (rc == SL_OK && said_bytes != 0)
        out->bytes = said_bytes;
    return rc;
}

// A store with snapshots of one shard.
struct bed {
    struct fs_ops ops;
    struct fs fs;
    struct archive archive;
    struct wire_tag tags[FILES];
    char *folder;
    uint64_t job, uid;
    uint32_t shard;
};

static void bed_init(struct bed *b)
{
    struct shard *s;
    struct kit k;

    b->ops = *fs_posix()->ops;
    b->ops.open = counted_open;
    b->ops.unmap = counted_unmap;
    b->ops.stat = said_stat;
    b->fs = (struct fs){&b->ops};
    said_bytes = 0;
    archive_init(&b->archive);
    kit_init(&k);
    s = kit_admitted(&k);
    b->job = k.spec.job;
    b->uid = k.spec.job_uid;
    b->shard = k.spec.shard;
    b->folder = snap_folder(t_tmpdir(), &s->plan);
    T_OK(fs_mkdirs(fs_posix(), b->folder, t_err()));
    for (size_t i = 0; i < FILES; i++)
        b->tags[i] = kit_snap(fs_posix(), b->folder, s);
    shard_unref(s);
    opened = unmapped = 0;
}

static void bed_release(struct bed *b)
{
    archive_release(&b->archive);
    T_EQ(unmapped, opened); // nothing stays open
    sl_free(b->folder);
}

static enum sl_err bed_ask(struct bed *b, size_t file)
{
    struct tagged_file *f;
    enum sl_err rc = archive_values(&b->archive, &b->fs, t_tmpdir(), b->job,
                                    b->shard, b->tags[file], &f, &err);

    if (rc != SL_OK)
        return rc;
    T_EQ(wire_tag_cmp(f->tag, b->tags[file]), 0);
    tagged_file_unref(f);
    return SL_OK;
}

TEST(archive, a_file_is_verified_once_while_it_is_asked_for)
{
    struct tagged_file *f;
    struct bed b;

    bed_init(&b);
    for (unsigned i = 0; i < 5; i++) {
        T_OK(bed_ask(&b, 0));
        archive_sweep(&b.archive); // it was asked for since the one before
    }
    T_EQ(opened, 1);
    T_OK(bed_ask(&b, 1)); // another file
    T_EQ(opened, 2);
    // An answer on its way keeps its file.
    T_OK(archive_values(&b.archive, &b.fs, t_tmpdir(), b.job, b.shard,
                        b.tags[0], &f, t_err()));
    archive_sweep(&b.archive);
    T_EQ(unmapped, 0);
    archive_sweep(&b.archive); // nobody asked
    T_EQ(unmapped, 1);
    T_MEM(f->values, f->values, f->bytes);
    tagged_file_unref(f);
    T_EQ(unmapped, 2);
    T_OK(bed_ask(&b, 0));
    T_EQ(opened, 3);
    bed_release(&b);
}

// As long as they are mapped their space is in use, and a job that is deleted
// gives it back.
TEST(archive, a_file_that_was_deleted_is_let_go_of)
{
    struct bed b;

    bed_init(&b);
    T_OK(bed_ask(&b, 0));
    T_OK(snap_delete_job(fs_posix(), t_tmpdir(), b.job, b.uid, t_err()));
    archive_sweep(&b.archive);
    archive_sweep(&b.archive);
    T_EQ(unmapped, 1);
    bed_release(&b);
}

TEST(archive, no_more_than_so_many_files_stay_open)
{
    struct bed b;

    bed_init(&b);
    for (size_t i = 0; i < FILES; i++)
        T_OK(bed_ask(&b, i));
    T_EQ(unmapped, FILES - ARCHIVE_FILES); // the oldest ones
    T_OK(bed_ask(&b, 2));
    T_EQ(opened, FILES);
    T_OK(bed_ask(&b, 0));
    T_EQ(opened, FILES + 1);
    bed_release(&b);
}

TEST(archive, files_that_are_large_do_not_stay_open_together)
{
    struct bed b;

    bed_init(&b);
    said_bytes = ARCHIVE_BYTES / 2;
    T_OK(bed_ask(&b, 0));
    T_OK(bed_ask(&b, 1));
    T_EQ(unmapped, 0);
    T_OK(bed_ask(&b, 2));
    T_EQ(unmapped, 1);
    said_bytes = 2 * ARCHIVE_BYTES; // alone, but kept all the same
    T_OK(bed_ask(&b, 3));
    T_EQ(unmapped, 3);
    T_OK(bed_ask(&b, 3));
    T_EQ(opened, 4);
    bed_release(&b);
}

TEST(archive, a_file_that_cannot_be_read_is_not_kept)
{
    char name[SNAP_NAME_BYTES];
    char *path;
    struct bed b;

    bed_init(&b);
    snap_file_name(name, b.shard, b.tags[0]);
    path = fs_join(b.folder, name);
    T_EQ(truncate(path, 2000), 0);
    for (unsigned i = 1; i < 3; i++) {
        T_FAILS(SL_ECORRUPT, bed_ask(&b, 0));
        T_EQ(opened, i);
    }
    sl_free(path);
    bed_release(&b);
}
