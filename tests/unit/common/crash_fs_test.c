// SPDX-License-Identifier: Apache-2.0
// A fault injector needs a test of its own: does it really lose what may be
// lost, and keep what must be kept?
#include "tests/harness/crash_fs.h"

#include "common/base/buf.h"
#include "tests/harness/t.h"

#define SEEDS 200

static struct crash_fs *crash;
static struct fs *fs;

static void boot(uint64_t seed)
{
    crash = crash_fs_new(seed);
    fs = crash_fs_ops(crash);
}

static void put(const char *path, const char *text, bool sync)
{
    struct fs_file *f;

    T_OK(fs_open(fs, &f, path, FS_WRITE, t_err()));
    T_OK(fs_write(f, text, strlen(text), t_err()));
    if (sync)
        T_OK(fs_sync(f, t_err()));
    fs_close(f);
}

// The text of a file; NULL if it is not there. Holds until the next call.
static const char *get(const char *path)
{
    static struct buf b;

    buf_release(&b);
    if (fs_read_all(fs, path, 1 << 20, &b, NULL) != SL_OK)
        return NULL;
    return buf_text(&b);
}

static bool is(const char *path, const char *want)
{
    const char *text = get(path);

    return text != NULL && strcmp(text, want) == 0;
}

TEST(crash_fs, what_was_synced_survives)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        boot(seed);
        put("f", "kept", true);
        T_OK(fs_sync_dir(fs, ".", t_err()));
        crash_fs_reboot(crash);
        T_STR(get("f"), "kept");
        crash_fs_free(crash);
    }
}

// All fates occur: a name without sync_dir may be lost, bytes without sync may
// be lost, and both may be there.
TEST(crash_fs, what_was_not_synced_may_be_lost)
{
    unsigned no_name = 0, no_bytes = 0, whole = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        boot(seed);
        put("f", "text", false);
        crash_fs_reboot(crash);
        no_name += get("f") == NULL;
        no_bytes += is("f", "");
        whole += is("f", "text");
        crash_fs_free(crash);
    }
    T_EQ(no_name + no_bytes + whole, SEEDS);
    T_TRUE(no_name > SEEDS / 10 && no_bytes > SEEDS / 10 && whole > SEEDS / 10);
}

TEST(crash_fs, a_synced_file_may_lose_its_name)
{
    unsigned lost = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        boot(seed);
        put("f", "text", true);
        crash_fs_reboot(crash);
        lost += get("f") == NULL;
        T_TRUE(get("f") == NULL || is("f", "text"));
        crash_fs_free(crash);
    }
    T_TRUE(lost > SEEDS / 10 && lost < SEEDS);
}

// Rename without sync of the file: the well-known empty file.
TEST(crash_fs, a_rename_may_overtake_the_bytes)
{
    unsigned old = 0, new = 0, torn = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        boot(seed);
        put("f", "old", true);
        T_OK(fs_sync_dir(fs, ".", t_err()));
        put("f.tmp", "new", false);
        T_OK(fs_rename(fs, "f.tmp", "f", t_err()));
        crash_fs_reboot(crash);
        old += is("f", "old");
        new += is("f", "new");
        torn += is("f", "");
        crash_fs_free(crash);
    }
    T_EQ(old + new + torn, SEEDS); // one of the two names leads somewhere
    T_TRUE(old > 10 && new > 10 && torn > 10);
}

TEST(crash_fs, a_write_may_be_torn_at_sectors)
{
    char text[2049];
    unsigned torn = 0;

    memset(text, 'x', 2048);
    text[2048] = '\0';
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct fs_stat st = {0};
        struct buf b = BUF_INIT;

        boot(seed);
        put("f", "", true);
        T_OK(fs_sync_dir(fs, ".", t_err()));
        put("f", text, false);
        crash_fs_reboot(crash);
        T_OK(fs_stat_path(fs, "f", &st, t_err()));
        T_EQ(st.bytes % 512, 0);
        T_OK(fs_read_all(fs, "f", 4096, &b, t_err()));
        torn += st.bytes > 0 && memchr(b.data, 0, b.len) != NULL;
        for (size_t at = 0; at < b.len; at += 512)
            T_TRUE(memchr(b.data + at, b.data[at] ^ 'x', 512) == NULL);
        buf_release(&b);
        crash_fs_free(crash);
    }
    T_GT(torn, 10);
}

TEST(crash_fs, the_dead_answer_nothing)
{
    struct fs_file *f;
    struct fs_stat st;
    uint64_t size;

    boot(1);
    T_OK(fs_open(fs, &f, "f", FS_CREATE, t_err()));
    T_EQ(crash_fs_steps(crash), 1);
    crash_fs_die_at(crash, 2);
    T_OK(fs_write(f, "a", 1, t_err()));
    T_FALSE(crash_fs_died(crash));
    T_FAILS(SL_EIO, fs_write(f, "b", 1, t_err()));
    T_TRUE(crash_fs_died(crash));
    T_FAILS(SL_EIO, fs_stat_path(fs, "f", &st, t_err()));
    T_FAILS(SL_EIO, fs_size(f, &size, t_err()));
    T_FAILS(SL_EIO, fs_rename(fs, "f", "g", t_err()));
    T_FAILS(SL_EIO, fs_unlink(fs, "f", t_err()));
    T_FAILS(SL_EIO, fs_mkdirs(fs, "d", t_err()));
    T_FAILS(SL_EIO, fs_sync_dir(fs, ".", t_err()));
    crash_fs_reboot(crash);
    T_FAILS(SL_EIO, fs_size(f, &size, t_err())); // of an earlier life
    fs_close(f);
    put("g", "alive", true);
    T_STR(get("g"), "alive");
    crash_fs_free(crash);
}

// After a failed sync the cache says "clean": later syncs succeed in vain.
TEST(crash_fs, a_failed_sync_loses_the_bytes_silently)
{
    struct fs_file *f;

    boot(1);
    T_OK(fs_open(fs, &f, "f", FS_CREATE, t_err()));
    T_OK(fs_sync_dir(fs, ".", t_err()));
    T_OK(fs_write(f, "gone", 4, t_err()));
    crash_fs_fail_at(crash, 1);
    T_FAILS(SL_EIO, fs_sync(f, t_err()));
    f->poisoned = false; // a caller that does not obey fs.h
    T_OK(fs_sync(f, t_err()));
    T_STR(get("f"), "gone"); // still in the cache
    fs_close(f);
    crash_fs_reboot(crash);
    T_STR(get("f"), "");
    crash_fs_free(crash);
}

TEST(crash_fs, a_lost_folder_takes_its_files_along)
{
    unsigned lost = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct sl_error err = SL_ERROR_INIT;

        boot(seed);
        T_OK(fs->ops->mkdir(fs, "d", &err));
        put("d/f", "x", true);
        T_OK(fs_sync_dir(fs, "d", t_err()));
        crash_fs_reboot(crash);
        lost += !fs_exists(fs, "d");
        T_EQ(fs_exists(fs, "d"), fs_exists(fs, "d/f"));
        crash_fs_free(crash);
    }
    T_TRUE(lost > 10 && lost < SEEDS);
}

TEST(crash_fs, the_same_seed_gives_the_same_luck)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        char first[16] = "";

        for (int again = 0; again < 2; again++) {
            const char *text;

            boot(seed);
            put("f", "text", false);
            crash_fs_reboot(crash);
            text = get("f");
            if (again == 0)
                snprintf(first, sizeof(first), "%s", text ? text : "(none)");
            else
                T_STR(text != NULL ? text : "(none)", first);
            crash_fs_free(crash);
        }
    }
}

TEST(crash_fs, flips_a_bit)
{
    boot(1);
    put("f", "abc", true);
    T_OK(crash_fs_flip(crash, "f", 1, 0));
    T_STR(get("f"), "acc");
    T_FAILS(SL_ERANGE, crash_fs_flip(crash, "f", 3, 0));
    T_FAILS(SL_ENOENT, crash_fs_flip(crash, "g", 0, 0));
    crash_fs_free(crash);
}

// It says so exactly when no reboot can take anything of the file away.
TEST(crash_fs, durable_is_what_every_reboot_keeps)
{
    static const struct {
        bool bytes, name, folder, more; // synced, and then written to
        bool durable;
    } cases[] = {
        {true, true, true, false, true},   {false, true, true, false, false},
        {true, false, true, false, false}, {true, true, false, false, false},
        {true, true, true, true, false},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        bool lost = false;

        for (unsigned seed = 0; seed < SEEDS; seed++) {
            struct buf got = BUF_INIT;

            boot(seed);
            T_OK(fs->ops->mkdir(fs, "d", t_err()));
            put("d/f", "new", cases[i].bytes);
            if (cases[i].name)
                T_OK(fs_sync_dir(fs, "d", t_err()));
            if (cases[i].folder)
                T_OK(fs_sync_dir(fs, "", t_err()));
            if (cases[i].more)
                put("d/f", "newer", false);
            T_EQ(crash_fs_durable(crash, "d/f"), cases[i].durable);
            crash_fs_reboot(crash);
            if (fs_read_all(fs, "d/f", 100, &got, NULL) != SL_OK ||
                got.len != (cases[i].more ? 5 : 3))
                lost = true;
            buf_release(&got);
            crash_fs_free(crash);
        }
        T_EQ(lost, !cases[i].durable);
    }
}
