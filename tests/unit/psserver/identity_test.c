// SPDX-License-Identifier: Apache-2.0
// The name of a psserver, under which the coordinator knows its shards.
#include "psserver/service/identity.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

static enum sl_err open_fails(struct fs *fs, struct fs_file **out,
                              const char *path, enum fs_mode mode,
                              struct sl_error *err)
{
    return mode == FS_READ ? sl_fail(err, SL_EIO, "%s: a bad sector", path)
                           : fs_posix()->ops->open(fs, out, path, mode, err);
}

static enum sl_err stat_fails(struct fs *fs, const char *path,
                              struct fs_stat *out, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: a bad sector", path);
}

TEST(identity, a_name_is_drawn_once)
{
    char *first = NULL, *again = NULL, *other = NULL;

    T_OK(identity_name(&first, fs_posix(), t_tmpdir(), NULL, t_err()));
    T_OK(identity_name(&again, fs_posix(), t_tmpdir(), NULL, t_err()));
    T_STR(first, again);
    T_OK(identity_name(&other, fs_posix(), t_tmpdir(), "ps-7", t_err()));
    T_STR(other, "ps-7");
    sl_free(again);
    T_OK(identity_name(&again, fs_posix(), t_tmpdir(), NULL, t_err()));
    T_STR(again, "ps-7");
    sl_free(first);
    sl_free(again);
    sl_free(other);
}

// Its shards would be looked for under the old name.
TEST(identity, a_disk_that_fails_gives_no_new_name)
{
    struct fs_ops ops = *fs_posix()->ops;
    struct fs bad = {&ops};
    struct sl_error err = SL_ERROR_INIT;
    char *name = NULL, *kept = NULL;

    T_OK(identity_name(&kept, fs_posix(), t_tmpdir(), NULL, t_err()));
    ops.open = open_fails;
    ops.stat = stat_fails;
    T_FAILS(SL_EIO, identity_name(&name, &bad, t_tmpdir(), NULL, &err));
    T_HAS(err.text, "a bad sector");
    T_OK(identity_name(&name, fs_posix(), t_tmpdir(), NULL, t_err()));
    T_STR(name, kept);
    sl_free(name);
    sl_free(kept);
}
