// SPDX-License-Identifier: Apache-2.0
// A job is deleted while a snapshot of it is being written.
#include <semaphore.h>

#include "common/base/mem.h"
#include "psserver/roster/roster_inner.h"
#include "tests/unit/psserver/kit.h"

struct closing {
    struct kit kit;
    struct loop *loop;
    struct shard_table *store;
    struct roster *roster;
    bool loaded, deleted; // the coordinator was told
};

static sem_t reached, go; // of the file that is about to get its name

static enum sl_err held_rename(struct fs *fs, const char *from, const char *to,
                               struct sl_error *why)
{
    sem_post(&reached);
    while (sem_wait(&go) != 0)
        ;
    return fs_posix()->ops->rename(fs, from, to, why);
}

static void closing_heard(void *arg, const Sluice__V1__AttendUp *up)
{
    struct closing *c = arg;

    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
        c->loaded = true;
    else if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_DELETED)
        c->deleted = true;
    else
        return;
    loop_stop(c->loop);
}

// A shard is admitted, and its job deleted while a snapshot is being written.
static void closing_open(struct closing *c)
{
    static struct fs_ops ops;
    static struct fs fs = {&ops};
    struct roster_setup setup = {.fs = &fs, .send = closing_heard, .arg = c};
    Sluice__V1__Place place = SLUICE__V1__PLACE__INIT;
    Sluice__V1__Admit admit = SLUICE__V1__ADMIT__INIT;
    Sluice__V1__SnapshotRequest wish = SLUICE__V1__SNAPSHOT_REQUEST__INIT;
    Sluice__V1__CloseJob m = SLUICE__V1__CLOSE_JOB__INIT;
    Sluice__V1__Tag at_least = SLUICE__V1__TAG__INIT;

    memset(c, 0, sizeof(*c));
    kit_init(&c->kit);
    ops = *fs_posix()->ops;
    ops.rename = held_rename;
    sem_init(&reached, 0, 0);
    sem_init(&go, 0, 0);
    T_OK(loop_new(&c->loop, t_err()));
    T_OK(store_new(&c->store));
    setup.loop = c->loop;
    setup.store = c->store;
    setup.folder = t_path("store");
    T_OK(roster_new(&c->roster, &setup));
    place.term = admit.term = m.term = 1;
    place.shard = &c->kit.spec;
    place.at_least = &at_least;
    roster_place(c->roster, &place);
    loop_run(c->loop);
    T_TRUE(c->loaded);
    admit.job = wish.job = m.job = 7;
    admit.shard = wish.shard = 2;
    admit.incarnation = wish.incarnation = wish.request = 1;
    roster_admit(c->roster, &admit);
    roster_snapshot(c->roster, &wish);
    while (sem_wait(&reached) != 0)
        ;
    m.job_uid = c->kit.spec.job_uid;
    m.delete_snapshots = 1;
    roster_close_job(c->roster, &m);
}

static void closing_end(struct closing *c)
{
    roster_free(c->roster);
    store_free(c->store);
    loop_free(c->loop);
}

// What is written then would come when all else is gone, and stay.
TEST(roster_close, a_job_is_deleted_behind_its_last_snapshot)
{
    struct closing c;
    struct shard *shard;
    char *folder, *path;

    closing_open(&c);
    shard = kit_shard(&c.kit);
    folder = snap_folder(t_path("store"), &shard->plan);
    path = fs_join(folder, "shard-2.i1.n1.safetensors");
    T_EQ(c.roster->working, 1); // the removal has not begun
    sem_post(&go);
    loop_run(c.loop);
    T_TRUE(c.deleted);
    T_TRUE(fs_exists(fs_posix(), folder));
    T_FALSE(fs_exists(fs_posix(), path));
    shard_unref(shard);
    sl_free(folder);
    sl_free(path);
    closing_end(&c);
}

TEST(roster_close, a_server_that_ends_deletes_what_it_was_told_to)
{
    struct closing c;

    closing_open(&c);
    sem_post(&go);
    closing_end(&c);
    T_TRUE(c.deleted);
}
