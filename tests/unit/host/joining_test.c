// SPDX-License-Identifier: Apache-2.0
// A store that stands still while a daemon joins its cluster: the loop turns.
#include "host/daemon/joining.h"

#include <pthread.h>

#include "common/base/storemark.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

#define ID UINT64_C(0x0123456789abcdef)

static struct crash_fs *disk;
static struct loop *loop;
static struct membership m;
static struct joining joining;

// ---- a store whose files are opened when the test says so

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static const struct fs_ops *real;

static enum sl_err late_open(struct fs *fs, struct fs_file **out,
                             const char *path, enum fs_mode mode,
                             struct sl_error *err)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return real->open(fs, out, path, mode, err);
}

static void begin(void)
{
    static struct fs_ops ops;
    struct fs *fs;

    disk = crash_fs_new(t_seed());
    fs = crash_fs_ops(disk);
    real = fs->ops;
    ops = *real;
    ops.open = late_open;
    fs->ops = &ops;
    T_OK(fs_mkdirs(fs, "/state", t_err()));
    T_OK(fs_mkdirs(fs, "/store", t_err()));
    T_OK(loop_new(&loop, t_err()));
    T_OK(membership_open(&m, fs, "/state", fs, "/store", t_err()));
    joining = (struct joining){.loop = loop, .membership = &m};
}

static void end(void)
{
    loop_free(loop);
    membership_release(&m);
    crash_fs_free(disk);
}

static uint64_t mark(void)
{
    uint64_t id = 0;

    T_OK(storemark_read(&id, crash_fs_ops(disk), "/store", t_err()));
    return id;
}

TEST(joining, the_loop_turns_while_the_store_stands_still)
{
    begin();
    pthread_mutex_lock(&gate);
    joining_welcome(&joining, ID);
    joining_welcome(&joining, ID); // of a stream that began anew
    loop_turn(loop);
    T_EQ(m.cluster, 0);
    T_OK(membership_check(&m, t_err())); // of nobody yet
    pthread_mutex_unlock(&gate);
    while (joining.work != NULL)
        loop_turn(loop);
    T_EQ(m.cluster, ID);
    T_EQ(mark(), ID);
    T_TRUE(membership_joined(&m, ID));
    joining_welcome(&joining, ID);
    T_TRUE(joining.work == NULL); // nothing is left to do
    joining_release(&joining);
    end();
}

TEST(joining, what_is_under_way_at_the_end_touches_nothing_of_ours)
{
    begin();
    pthread_mutex_lock(&gate);
    joining_welcome(&joining, ID);
    joining_release(&joining);
    membership_release(&m);
    pthread_mutex_unlock(&gate);
    loop_free(loop); // waits for it
    loop = NULL;
    T_EQ(m.cluster, 0);
    T_EQ(mark(), ID);
    end();
}

TEST(joining, nobody_is_joined_who_says_no_id)
{
    begin();
    joining_welcome(&joining, 0);
    T_TRUE(joining.work == NULL);
    end();
}
