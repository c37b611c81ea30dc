// SPDX-License-Identifier: Apache-2.0
#include "common/base/membership.h"

#include "common/base/storemark.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

#define ID UINT64_C(0x0123456789abcdef)

static struct crash_fs *disk;
static struct fs *fs;
static struct sl_error err;

static void begin(void)
{
    disk = crash_fs_new(t_seed());
    fs = crash_fs_ops(disk);
    T_OK(fs_mkdirs(fs, "/state", t_err()));
    T_OK(fs_mkdirs(fs, "/store", t_err()));
}

static void end(struct membership *m)
{
    membership_release(m);
    crash_fs_free(disk);
}

static void joined(struct membership *m, const char *store)
{
    T_OK(membership_open(m, fs, "/state", fs, store, t_err()));
    T_OK(membership_join(m, ID, t_err()));
}

TEST(membership, is_learned_once_and_survives_a_crash)
{
    struct membership m;

    begin();
    T_OK(membership_open(&m, fs, "/state", fs, "/store", t_err()));
    T_EQ(m.cluster, 0);
    T_OK(membership_check(&m, t_err())); // of no cluster yet: as it is
    T_OK(membership_join(&m, ID, t_err()));
    membership_release(&m);
    crash_fs_reboot(disk);
    T_OK(membership_open(&m, fs, "/state", fs, "/store", t_err()));
    T_EQ(m.cluster, ID);
    T_OK(membership_check(&m, t_err()));
    end(&m);
}

TEST(membership, a_store_that_is_not_mounted_is_not_begun_anew)
{
    struct membership m;

    begin();
    joined(&m, "/store");
    T_OK(fs_unlink(fs, "/store/cluster.id", t_err()));
    T_FAILS(SL_ESTATE, membership_check(&m, &err));
    T_HAS(err.text, "Mount it");
    membership_release(&m);
    T_FAILS(SL_ESTATE, membership_open(&m, fs, "/state", fs, "/store", &err));
    T_HAS(err.text, "echo 0123456789abcdef > /store/cluster.id");
    T_OK(storemark_write(fs, "/store", ID, t_err())); // as it says
    T_OK(membership_open(&m, fs, "/state", fs, "/store", t_err()));
    end(&m);
}

TEST(membership, another_store_may_begin_empty)
{
    struct membership m;

    begin();
    joined(&m, "/store");
    membership_release(&m);
    joined(&m, "/other");
    T_OK(membership_check(&m, t_err()));
    end(&m);
}

TEST(membership, a_store_of_another_cluster_is_refused)
{
    struct membership m;

    begin();
    joined(&m, "/store");
    membership_release(&m);
    T_FAILS(SL_ESTATE, storemark_write(fs, "/store", ID + 1, &err));
    T_OK(fs_unlink(fs, "/store/" STOREMARK_FILE, t_err()));
    T_OK(storemark_write(fs, "/store", ID + 1, t_err()));
    T_FAILS(SL_ESTATE, membership_open(&m, fs, "/state", fs, "/store", &err));
    T_HAS(err.text, "0123456789abcdf0");
    m = (struct membership){0};
    end(&m);
}

TEST(membership, who_has_lost_its_state_belongs_to_its_store)
{
    struct membership m;

    begin();
    T_OK(storemark_write(fs, "/store", ID, t_err()));
    T_OK(membership_open(&m, fs, NULL, fs, "/store", t_err()));
    T_EQ(m.cluster, ID);
    membership_release(&m);
    T_OK(membership_open(&m, fs, NULL, fs, NULL, t_err())); // keeps nothing
    T_EQ(m.cluster, 0);
    T_OK(membership_join(&m, ID, t_err()));
    T_EQ(m.cluster, ID);
    end(&m);
}

TEST(membership, a_file_that_is_no_id_is_said_to_be_none)
{
    struct membership m = {0};

    begin();
    T_OK(fs_write_durable(fs, "/state/cluster", "12\n", 3, t_err()));
    T_FAILS(SL_ECORRUPT, membership_open(&m, fs, "/state", fs, "/store", &err));
    T_HAS(err.text, "/state/cluster");
    end(&m);
}

static enum sl_err open_fails(struct fs *f, struct fs_file **out,
                              const char *path, enum fs_mode mode,
                              struct sl_error *e)
{
    return sl_fail(e, SL_EIO, "%s: a bad sector", path);
}

static enum sl_err stat_fails(struct fs *f, const char *path,
                              struct fs_stat *out, struct sl_error *e)
{
    return sl_fail(e, SL_EIO, "%s: a bad sector", path);
}

TEST(membership, is_not_taken_for_none_where_the_disk_fails)
{
    struct membership m;
    struct fs_ops ops;
    struct fs bad = {&ops};

    begin();
    joined(&m, "/store");
    ops = *fs->ops;
    ops.open = open_fails;
    ops.stat = stat_fails;
    membership_release(&m);
    T_FAILS(SL_EIO, membership_open(&m, &bad, "/state", fs, "/store", &err));
    T_HAS(err.text, "/state/cluster: a bad sector");
    end(&m);
}
