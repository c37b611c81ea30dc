// SPDX-License-Identifier: Apache-2.0
// One suite for what a file system has to do, run over the real one and over
// crash_fs; then what makes a file durable.
#include "common/base/fs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

static enum sl_err add_name(void *arg, const char *name)
{
    enum sl_err rc = buf_append_str(arg, name);

    return rc == SL_OK ? buf_append_char(arg, ' ') : rc;
}

static enum sl_err stop_walk(void *arg, const char *name)
{
    ++*(int *)arg;
    return SL_ECANCELED;
}

static void write_file(struct fs *fs, const char *path, const char *text)
{
    struct fs_file *f;

    T_OK(fs_open(fs, &f, path, FS_WRITE, t_err()));
    T_OK(fs_write(f, text, strlen(text), t_err()));
    fs_close(f);
}

static void expect(struct fs *fs, const char *path, const char *text)
{
    struct buf b = BUF_INIT;

    T_OK(fs_read_all(fs, path, 1 << 20, &b, t_err()));
    T_STR(buf_text(&b), text);
    buf_release(&b);
}

static void conform_files(struct fs *fs, const char *a, const char *b)
{
    struct fs_file *f;
    struct fs_map map;
    struct buf out = BUF_INIT;
    uint64_t size;
    size_t got;
    char text[8];

    T_FAILS(SL_ENOENT, fs_open(fs, &f, a, FS_READ, t_err()));
    write_file(fs, a, "hello");
    T_FAILS(SL_EEXIST, fs_open(fs, &f, a, FS_CREATE, t_err()));
    T_OK(fs_open(fs, &f, a, FS_APPEND, t_err()));
    T_OK(fs_write(f, " you", 4, t_err()));
    T_OK(fs_sync(f, t_err()));
    fs_close(f);
    T_OK(fs_open(fs, &f, a, FS_READ, t_err()));
    T_OK(fs_size(f, &size, t_err()));
    T_EQ(size, 9);
    T_OK(fs_pread(f, 6, text, 8, &got, t_err()));
    T_EQ(got, 3);
    T_MEM(text, "you", 3);
    T_OK(fs_pread(f, 100, text, 8, &got, t_err()));
    T_EQ(got, 0);
    T_OK(fs_map_file(f, &map, t_err()));
    fs_close(f);
    T_EQ(map.bytes, 9);
    T_MEM(map.data, "hello you", 9);
    fs_unmap(fs, &map);
    fs_unmap(fs, &map); // twice is allowed
    T_OK(fs_open(fs, &f, b, FS_CREATE, t_err()));
    T_OK(fs_write(f, "0123456789", 10, t_err()));
    T_OK(fs_pwrite(f, 2, "ab", 2, t_err()));
    T_OK(fs_pwrite(f, 12, "!", 1, t_err())); // over a hole
    fs_close(f);
    T_OK(fs_read_all(fs, b, 13, &out, t_err()));
    T_EQ(out.len, 13);
    T_MEM(out.data, "01ab456789\0\0!", 13);
    T_FAILS(SL_ERANGE, fs_read_all(fs, b, 12, &out, t_err()));
    buf_release(&out);
    T_OK(fs_rename(fs, b, a, t_err()));
    T_FALSE(fs_exists(fs, b));
    T_OK(fs_unlink(fs, a, t_err()));
    T_FAILS(SL_ENOENT, fs_unlink(fs, a, t_err()));
}

static void conform_dirs(struct fs *fs, const char *root)
{
    char *deep = fs_join(root, "x/y//z/"), *file = fs_join(deep, "f");
    struct buf names = BUF_INIT;
    struct fs_stat st;
    struct fs_map map;
    struct fs_file *f;
    int calls = 0;

    T_OK(fs_mkdirs(fs, deep, t_err()));
    T_OK(fs_mkdirs(fs, deep, t_err())); // again
    T_OK(fs_stat_path(fs, deep, &st, t_err()));
    T_TRUE(st.is_dir);
    write_file(fs, file, "");
    T_OK(fs_stat_path(fs, file, &st, t_err()));
    T_TRUE(!st.is_dir && st.bytes == 0);
    T_OK(fs_open(fs, &f, file, FS_READ, t_err()));
    T_OK(fs_map_file(f, &map, t_err())); // of nothing
    T_EQ(map.bytes, 0);
    fs_unmap(fs, &map);
    fs_close(f);
    sl_free(file);
    file = fs_join(deep, "a");
    write_file(fs, file, "x");
    T_OK(fs_list(fs, deep, add_name, &names, t_err()));
    T_STR(buf_text(&names), "a f ");
    T_FAILS(SL_ECANCELED, fs_list(fs, deep, stop_walk, &calls, t_err()));
    T_EQ(calls, 1);
    T_FAILS(SL_ENOENT, fs_list(fs, file, add_name, &names, t_err()));
    T_OK(fs_sync_dir(fs, deep, t_err()));
    buf_release(&names);
    sl_free(deep);
    sl_free(file);
}

TEST(fs, posix_conforms)
{
    conform_files(fs_posix(), t_path("a"), t_path("b"));
    conform_dirs(fs_posix(), t_tmpdir());
}

TEST(fs, crash_fs_conforms)
{
    struct crash_fs *fs = crash_fs_new(1);

    conform_files(crash_fs_ops(fs), "a", "b");
    conform_dirs(crash_fs_ops(fs), ".");
    crash_fs_free(fs);
}

TEST(fs, names)
{
    static const char *const rows[][2] = {
        {"a/b/c", "a/b"}, {"c", "."}, {"/c", "/"}, {"/a/b", "/a"}};

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        char *dir = fs_dirname(rows[i][0]);

        T_STR(dir, rows[i][1]);
        sl_free(dir);
    }
}

TEST(fs, errors_name_the_path)
{
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *f;

    T_FAILS(SL_ENOENT, fs_open(fs_posix(), &f, "/nowhere/x", FS_READ, &err));
    T_HAS(err.text, "/nowhere/x: open: No such file");
    if (geteuid() == 0)
        return; // root may write anywhere
    T_FAILS(SL_EDENIED, fs_mkdirs(fs_posix(), "/proc/x/y", t_err()));
}

TEST(fs, write_durable_replaces)
{
    const char *path = t_path("state");

    T_OK(fs_write_durable(fs_posix(), path, "old", 3, t_err()));
    expect(fs_posix(), path, "old");
    T_OK(fs_write_durable(fs_posix(), path, "newer", 5, t_err()));
    expect(fs_posix(), path, "newer");
    T_FALSE(fs_exists(fs_posix(), t_path("state.tmp")));
}

TEST(fs, write_new_replaces_nothing)
{
    const char *path = t_path("mark");
    struct sl_error err = SL_ERROR_INIT;

    T_OK(fs_write_new(fs_posix(), path, "first", 5, t_err()));
    T_FAILS(SL_EEXIST, fs_write_new(fs_posix(), path, "second", 6, &err));
    T_HAS(err.text, path);
    expect(fs_posix(), path, "first");
    T_FALSE(fs_exists(fs_posix(), t_path("mark.tmp")));
}

static bool is_text(struct fs *fs, const char *path, const uint8_t *want,
                    size_t len)
{
    struct buf b = BUF_INIT;
    bool same = fs_read_all(fs, path, 1 << 20, &b, NULL) == SL_OK &&
                b.len == len && memcmp(b.data, want, len) == 0;

    buf_release(&b);
    return same;
}

// Every write, sync and rename is a place where the machine may die. What is
// there afterwards is the old file or the new one, whole, and the new one if
// the call said so. Many seeds, since a reboot may be lucky.
TEST(fs, write_durable_crash_at_every_step_leaves_old_or_new)
{
    uint8_t old[3000], new[2000];
    bool died = true;

    memset(old, 'o', sizeof(old));
    memset(new, 'n', sizeof(new));
    for (unsigned step = 1; died; step++) {
        for (unsigned seed = 0; seed < 40; seed++) {
            struct crash_fs *crash = crash_fs_new(t_seed() + seed);
            struct fs *fs = crash_fs_ops(crash);
            enum sl_err rc;

            T_OK(fs_mkdirs(fs, "d", t_err()));
            T_OK(fs_write_durable(fs, "d/f", old, sizeof(old), t_err()));
            crash_fs_die_at(crash, step);
            rc = fs_write_durable(fs, "d/f", new, sizeof(new), NULL);
            died = crash_fs_died(crash);
            T_EQ(rc == SL_OK, !died);
            crash_fs_reboot(crash);
            T_TRUE(is_text(fs, "d/f", new, sizeof(new)) ||
                   (rc != SL_OK && is_text(fs, "d/f", old, sizeof(old))));
            // And what the death left behind does not stand in the way.
            T_OK(fs_write_durable(fs, "d/f", new, sizeof(new), t_err()));
            crash_fs_free(crash);
        }
    }
}

TEST(fs, write_durable_one_failure_at_every_step)
{
    bool failed = true;

    for (unsigned step = 1; failed; step++) {
        struct crash_fs *crash = crash_fs_new(t_seed() + step);
        struct fs *fs = crash_fs_ops(crash);
        enum sl_err rc;

        T_OK(fs_write_durable(fs, "f", "old", 3, t_err()));
        crash_fs_fail_at(crash, step);
        rc = fs_write_durable(fs, "f", "new", 3, NULL);
        failed = rc != SL_OK;
        T_TRUE(rc == SL_OK || rc == SL_EIO);
        T_FALSE(fs_exists(fs, "f.tmp"));
        crash_fs_reboot(crash);
        T_TRUE(is_text(fs, "f", (const uint8_t *)"new", 3) ||
               (failed && is_text(fs, "f", (const uint8_t *)"old", 3)));
        crash_fs_free(crash);
    }
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    T_ASSERT(stat(path, &st) == 0);
    return st.st_mode & 0777;
}

TEST(fs, what_is_private_is_for_its_user_alone)
{
    const char *path = t_path("top/state/file");
    mode_t was = umask(022);
    struct fs_file *f = NULL;
    bool others = true;

    T_OK(fs_private_folder(t_path("top/state"), &others, t_err()));
    T_FALSE(others);
    T_EQ(mode_of(t_path("top")), 0755); // others may need it
    T_EQ(mode_of(t_path("top/state")), 0700);
    T_OK(fs_mkdirs(fs_private(), t_path("top/state/a/b"), t_err()));
    T_EQ(mode_of(t_path("top/state/a")), 0700);
    T_OK(fs_open(fs_private(), &f, path, FS_CREATE, t_err()));
    fs_close(f);
    T_EQ(mode_of(path), 0600);
    // Of before: reading changes nothing, writing does.
    T_ASSERT(chmod(path, 0664) == 0 && chmod(t_path("top/state"), 0750) == 0);
    T_OK(fs_open(fs_private(), &f, path, FS_READ, t_err()));
    fs_close(f);
    T_EQ(mode_of(path), 0664);
    T_OK(fs_open(fs_private(), &f, path, FS_APPEND, t_err()));
    fs_close(f);
    T_EQ(mode_of(path), 0600);
    T_OK(fs_private_folder(t_path("top/state"), &others, t_err()));
    T_TRUE(others);
    T_EQ(mode_of(t_path("top/state")), 0750);
    // A store is as its umask has it.
    T_OK(fs_mkdirs(fs_posix(), t_path("store"), t_err()));
    T_OK(fs_open(fs_posix(), &f, t_path("store/x"), FS_CREATE, t_err()));
    fs_close(f);
    T_EQ(mode_of(t_path("store")), 0755);
    T_EQ(mode_of(t_path("store/x")), 0644);
    umask(was);
}

TEST(fs, mkdirs_is_durable)
{
    bool died = true;

    for (unsigned step = 1; died; step++) {
        struct crash_fs *crash = crash_fs_new(t_seed() + step);
        struct fs *fs = crash_fs_ops(crash);
        enum sl_err rc;

        crash_fs_die_at(crash, step);
        rc = fs_mkdirs(fs, "a/b/c", NULL);
        died = crash_fs_died(crash);
        crash_fs_reboot(crash);
        if (rc == SL_OK)
            T_TRUE(fs_exists(fs, "a/b/c"));
        T_OK(fs_mkdirs(fs, "a/b/c", t_err()));
        crash_fs_free(crash);
    }
}

// Whoever made the folder failed, or was killed, before its name was durable:
// the next who wants it must not take it for granted. (sim.life, seed 34)
TEST(fs, mkdirs_makes_a_folder_durable_that_is_there_already)
{
    for (unsigned step = 1; step < 8; step++) {
        struct crash_fs *crash = crash_fs_new(t_seed() + step);
        struct fs *fs = crash_fs_ops(crash);

        crash_fs_fail_at(crash, step);
        (void)fs_mkdirs(fs, "a/b/c", NULL);
        T_OK(fs_mkdirs(fs, "a/b/c", t_err()));
        T_OK(fs_write_durable(fs, "a/b/c/f", "x", 1, t_err()));
        T_TRUE(crash_fs_durable(crash, "a/b/c/f"));
        crash_fs_reboot(crash);
        T_TRUE(fs_exists(fs, "a/b/c/f"));
        crash_fs_free(crash);
    }
}

// A second sync would succeed, and the bytes would still be lost.
TEST(fs, a_failed_sync_is_final)
{
    struct crash_fs *crash = crash_fs_new(1);
    struct fs *fs = crash_fs_ops(crash);
    struct fs_file *f;

    T_OK(fs_open(fs, &f, "f", FS_CREATE, t_err()));
    T_OK(fs_write(f, "x", 1, t_err()));
    crash_fs_fail_at(crash, 1);
    T_FAILS(SL_EIO, fs_sync(f, t_err()));
    T_FAILS(SL_EIO, fs_sync(f, t_err()));
    T_FAILS(SL_EIO, fs_write(f, "y", 1, t_err()));
    T_FAILS(SL_EIO, fs_pwrite(f, 0, "y", 1, t_err()));
    fs_close(f);
    crash_fs_free(crash);
}

TEST(fs, each_allocation_may_fail)
{
    const char *path = t_path("f");
    uint64_t before = sl_mem_live();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct buf b = BUF_INIT;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = fs_write_durable(fs_posix(), path, "text", 4, t_err());
        if (rc == SL_OK)
            rc = fs_read_all(fs_posix(), path, 100, &b, t_err());
        if (rc == SL_OK)
            rc = fs_mkdirs(fs_posix(), path, t_err()) == SL_ENOMEM ? SL_ENOMEM
                                                                   : SL_OK;
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        buf_release(&b);
        T_EQ(sl_mem_live(), before);
    }
}
