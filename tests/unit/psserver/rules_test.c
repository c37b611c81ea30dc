// SPDX-License-Identifier: Apache-2.0
// Rules of the protocol that this room keeps and no other file here shows:
// each by its name. tests/history/RULES.md lists them all, with the mistake
// that must make the test fail.
#include "common/base/mem.h"
#include "psserver/roster/roster.h"
#include "state/snap/snap.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

enum { ALL = 47 }; // elements of kit_init's shard

static const struct wire_tag seed_tag = {0, 0};

// What a psserver that starts now would have of the snapshots in a folder.
static struct shard *reload(struct fs *fs, const char *folder, struct kit *k,
                            struct wire_tag at_least)
{
    struct shard *s;

    T_OK(kit_load(fs, folder, k, at_least, NULL, &s, t_err()));
    return s;
}

// ---- the shard

TEST(rules, S1_an_image_is_values_set_and_version_of_one_instant)
{
    struct shard_image image;
    struct shard *s;
    uint8_t *space = sl_malloc(FREEZE_BLOCK_BYTES), *then;
    const void *at;
    struct kit k;
    size_t n;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    then = sl_malloc(s->region.bytes);
    memcpy(then, s->region.data, s->region.bytes);
    T_OK(shard_freeze(s, 1, &image, t_err()));
    kit_count(s, 0, 1, 1); // while it is written
    T_EQ(counted_steps(&image.once.counted), 1);
    T_TRUE(counted_has(&image.once.counted, 0, 0));
    T_EQ(once_version(&image.once), 1);
    T_EQ(image.freeze.blocks, 1);
    shard_image_take(&image, 0, space, &at, &n);
    T_EQ(n, s->region.bytes);
    T_MEM(at, then, n);
    shard_image_release(&image);
    sl_free(then);
    sl_free(space);
    shard_unref(s);
}

TEST(rules, S2_what_is_refused_is_not_counted_and_what_is_skipped_is)
{
    struct wire_ask ask = kit_ask(3, 9);
    struct wire_push push = kit_push(3, 0, NULL);
    struct wire_push_reply reply;
    struct wire_ask_reply asked;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    T_OK(shard_ask(s, &ask, &asked, t_err()));
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(counted_steps(&s->once.counted), 0);
    push.attempt = ask.attempt;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(counted_steps(&s->once.counted), 1);
    T_EQ(s->once.counts.skipped, 1);
    shard_unref(s);
}

// Closure 1 is a hole between what is counted: what was loaded does not close
// it.
TEST(rules, S3_a_reloaded_shard_has_counted_what_its_own_set_says)
{
    struct shard *s, *back;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (uint32_t i = 0; i < 4; i++)
        kit_count(s, 0, i, 1);
    kit_count(s, 2, 3, 1);
    kit_snap(fs_posix(), t_tmpdir(), s);
    back = reload(fs_posix(), t_tmpdir(), &k, seed_tag);
    T_EQ(counted_low(&back->once.counted), 1);
    T_TRUE(counted_equal(&back->once.counted, &s->once.counted));
    shard_admit(back, 2);
    kit_count(back, 1, 0, 1); // counted now, and not a duplicate
    shard_unref(back);
    shard_unref(s);
}

TEST(rules, S4_a_push_is_applied_whole_or_not_at_all)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_payload_equal(&payload, -1, ALL - 1, 0); // a part of it
    push = kit_push(0, 0, &payload);
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, t_err()));
    for (int i = 0; i < ALL; i++)
        T_TRUE(s->memory.values[i] == 0.0f);
    kit_payload_release(&payload);
    kit_payload_equal(&payload, -1, ALL, 5);
    push = kit_push(0, 0, &payload);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    for (int i = 0; i < ALL; i++)
        T_TRUE(s->memory.values[i] != 0.0f);
    kit_payload_release(&payload);
    shard_unref(s);
}

TEST(rules, I6_a_push_of_another_incarnation_of_the_job_is_refused)
{
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply reply;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    k.spec.job_incarnation = 2; // it was restored to a cut
    s = kit_admitted(&k);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(reply.refused.why, WIRE_REFUSED_JOB_INCARNATION);
    T_EQ(reply.refused.job_incarnation, 2);
    T_EQ(counted_steps(&s->once.counted), 0);
    shard_unref(s);
}

TEST(rules, I6_a_snapshot_of_another_incarnation_of_the_job_is_passed_over)
{
    struct shard *s, *back;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 0, 1);
    kit_snap(fs_posix(), t_tmpdir(), s);
    k.spec.job_incarnation = 2;
    back = reload(fs_posix(), t_tmpdir(), &k, seed_tag);
    T_EQ(back->from.incarnation, 0); // the seed
    shard_unref(back);
    // Unless it is the very one that the job was restored to.
    back = reload(fs_posix(), t_tmpdir(), &k, (struct wire_tag){1, 1});
    T_EQ(back->from.incarnation, 1);
    shard_unref(back);
    shard_unref(s);
}

// ---- snapshots

// The mains fail right after snap_write has said that it is durable.
TEST(rules, K2_a_snapshot_that_was_reported_survives)
{
    struct kit k;

    kit_init(&k);
    for (uint64_t luck = 0; luck < 8; luck++) {
        struct crash_fs *disk = crash_fs_new(t_seed() + luck);
        struct fs *fs = crash_fs_ops(disk);
        struct shard *s = kit_admitted(&k), *back;

        kit_count(s, 0, 0, 1);
        kit_snap(fs, "d", s);
        crash_fs_reboot(disk);
        back = reload(fs, "d", &k, (struct wire_tag){1, 1});
        T_EQ(once_version(&back->once), 1);
        shard_unref(back);
        shard_unref(s);
        crash_fs_free(disk);
    }
}

// ---- what coordinators say

// A roster without a stream: its messages are heard here.
struct scene {
    struct kit kit;
    struct loop *loop;
    struct shard_table *store;
    struct roster *roster;
    struct shard *shard; // a reference, once it is loaded
    char *folder;        // of its snapshots
    struct wire_tag from;
    bool prepared; // as the last hello said
};

static void heard(void *arg, const Sluice__V1__AttendUp *up)
{
    struct scene *s = arg;

    if (up->kind_case != SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
        return;
    T_STR(up->shard_hello->failure, "");
    s->from = wire_tag_of(up->shard_hello->loaded);
    s->prepared = up->shard_hello->prepared;
    loop_stop(s->loop);
}

// Placed once more, and loaded.
static void scene_place(struct scene *s, bool prepare)
{
    Sluice__V1__Place m = SLUICE__V1__PLACE__INIT;
    Sluice__V1__Tag at_least = SLUICE__V1__TAG__INIT;

    m.term = 3;
    m.shard = &s->kit.spec;
    m.at_least = &at_least;
    m.prepare = prepare;
    roster_place(s->roster, &m);
    loop_run(s->loop);
}

// Placed by a coordinator of term 3, and loaded.
static void scene_open(struct scene *s)
{
    struct roster_setup setup = {.fs = fs_posix(), .send = heard, .arg = s};

    memset(s, 0, sizeof(*s));
    kit_init(&s->kit);
    T_OK(loop_new(&s->loop, t_err()));
    T_OK(store_new(&s->store));
    setup.loop = s->loop;
    setup.store = s->store;
    setup.folder = t_path("store");
    T_OK(roster_new(&s->roster, &setup));
    scene_place(s, false);
    s->shard = store_find(s->store, 7, 2);
    T_TRUE(s->shard != NULL);
    s->folder = snap_folder(t_path("store"), &s->shard->plan);
}

// Returns when the pool has done what it was given.
static void scene_close(struct scene *s)
{
    roster_free(s->roster);
    shard_unref(s->shard);
    store_free(s->store);
    loop_free(s->loop);
    sl_free(s->folder);
}

static size_t admit(struct scene *s, uint64_t term, uint64_t incarnation)
{
    Sluice__V1__Admit m = SLUICE__V1__ADMIT__INIT;

    m.term = term;
    m.job = 7;
    m.shard = 2;
    m.incarnation = incarnation;
    roster_admit(s->roster, &m);
    return roster_admitted(s->roster);
}

static void keep(struct scene *s, uint64_t term, struct wire_tag tag)
{
    struct kit_keep k;

    kit_keep_init(&k, term, tag);
    roster_keep(s->roster, &k.msg);
}

TEST(rules, I5_a_coordinator_of_an_older_term_is_not_heard)
{
    Sluice__V1__CloseJob close = SLUICE__V1__CLOSE_JOB__INIT;
    Sluice__V1__Refuse refuse = SLUICE__V1__REFUSE__INIT;
    struct scene s;

    scene_open(&s);
    T_EQ(admit(&s, 2, 1), 0);
    T_EQ(admit(&s, 3, 1), 1);
    close.term = refuse.term = 2;
    close.job = refuse.job = 7;
    refuse.shard = 2;
    roster_close_job(s.roster, &close);
    roster_refuse(s.roster, &refuse);
    T_EQ(roster_admitted(s.roster), 1);
    T_FALSE(roster_term(s.roster, 2));
    scene_close(&s);
}

// What the shard does: the term of an attempt is no reason by itself.
TEST(rules, I5_a_push_is_not_refused_for_its_term)
{
    struct wire_push push = kit_push(3, 0, NULL);
    struct wire_push_reply reply;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    push.attempt = (struct wire_attempt){5, 1};
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    push = kit_push(4, 0, NULL); // leased by a coordinator that died since
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    shard_unref(s);
}

TEST(rules, I1_what_was_loaded_takes_a_new_incarnation_only)
{
    struct scene s;

    scene_open(&s);
    T_EQ(admit(&s, 3, 2), 1);
    kit_snap(fs_posix(), s.folder, s.shard);
    scene_close(&s);
    scene_open(&s); // a new process
    T_EQ(s.from.incarnation, 2);
    T_EQ(admit(&s, 3, 2), 0);
    T_EQ(admit(&s, 3, 3), 1);
    scene_close(&s);
}

static bool there(const struct scene *s, const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", s->folder, name);
    return fs_exists(fs_posix(), path);
}

// Of a psserver that has snapshots (1, 1) to (1, 3): which are there after it
// was told to keep one.
static unsigned kept(struct scene *s, uint64_t term, struct wire_tag tag)
{
    unsigned n;

    scene_open(s);
    T_EQ(admit(s, 3, s->from.incarnation + 1), 1);
    for (int i = 0; i < 3 && s->from.incarnation == 0; i++)
        kit_snap(fs_posix(), s->folder, s->shard);
    keep(s, term, tag);
    roster_free(s->roster);
    s->roster = NULL;
    n = (unsigned)there(s, "shard-2.i1.n1.safetensors") |
        (unsigned)there(s, "shard-2.i1.n2.safetensors") << 1 |
        (unsigned)there(s, "shard-2.i1.n3.safetensors") << 2;
    scene_close(s);
    return n;
}

TEST(rules, K3_no_snapshot_goes_without_a_keep_of_this_line)
{
    struct scene s;

    T_EQ(kept(&s, 2, (struct wire_tag){1, 3}), 7); // of an older term
    T_EQ(kept(&s, 3, (struct wire_tag){9, 1}), 7); // what replaced it hears
}

TEST(rules, K3_what_a_keep_names_stays)
{
    struct scene s;

    T_EQ(kept(&s, 3, (struct wire_tag){1, 2}), 6);
    T_EQ(kept(&s, 4, (struct wire_tag){1, 3}), 4);
}

// ---- moves

static enum sl_err push_to(struct scene *s, uint64_t incarnation, uint32_t step)
{
    struct wire_push push = kit_push(0, step, NULL);
    struct wire_push_reply reply;

    push.incarnation = incarnation;
    return shard_push(s->shard, &push, &reply, NULL, t_err());
}

TEST(rules, M1_the_last_snapshot_has_all_that_was_answered)
{
    Sluice__V1__SnapshotRequest last = SLUICE__V1__SNAPSHOT_REQUEST__INIT;
    struct shard_brief brief;
    struct scene s;

    scene_open(&s);
    T_EQ(admit(&s, 3, 1), 1);
    T_OK(push_to(&s, 1, 0));
    last.job = 7;
    last.shard = 2;
    last.incarnation = last.request = 1;
    last.last = true;
    roster_snapshot(s.roster, &last);
    T_FAILS(SL_EUNAVAIL, push_to(&s, 1, 1));
    shard_brief(s.shard, true, &brief);
    T_EQ(brief.steps, 1);
    T_EQ(admit(&s, 3, 1), 1); // the move was given up
    T_OK(push_to(&s, 1, 1));
    scene_close(&s);
}

// The owner counted and wrote more while this one was prepared.
TEST(rules, M4_what_was_prepared_is_never_admitted)
{
    struct scene owner, s;

    scene_open(&owner);
    T_EQ(admit(&owner, 3, 1), 1);
    kit_snap(fs_posix(), owner.folder, owner.shard);
    scene_open(&s);
    scene_place(&s, true);
    T_TRUE(s.prepared);
    T_EQ(admit(&s, 3, 2), 0);
    T_OK(push_to(&owner, 1, 0));
    kit_snap(fs_posix(), owner.folder, owner.shard);
    scene_place(&s, false);
    T_FALSE(s.prepared);
    T_EQ(s.from.sequence, 2);
    T_EQ(admit(&s, 3, 2), 1);
    scene_close(&s);
    scene_close(&owner);
}
