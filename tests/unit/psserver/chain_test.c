// SPDX-License-Identifier: Apache-2.0
// Snapshots of a shard with tables as a base and deltas (T10). A shard lives
// through random updates and snapshots; what each file restores is compared,
// byte by byte, with the rows that the shard had at its instant.
#include "state/shard/shard_chain.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/snap/archive.h"
#include "state/snap/snap.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

enum { DIM = 3, IDS = 12, NAMES = 150, ELEMENTS = 47, TABLES = 2, DELTAS = 5 };
#define RECORD 32 // bytes of a row: 16, three f32, zeroes
#define PARTS (TABLES * ROWSET_PARTS)

// ---- a shard with tables, and its pushes

// Rows go for three reasons: unused, small, and the table is full. The ids of
// the second table wait first.
static struct shard *chained_shard(struct kit *k)
{
    struct shard *s = NULL;
    struct plan plan;

    T_ASSERT(plan_read(&plan, &k->spec, NULL) == SL_OK);
    plan.tables = sl_calloc(TABLES, sizeof(*plan.tables));
    T_ASSERT(plan.tables != NULL);
    plan.table_count = TABLES;
    plan.tables[0] = kit_plan_table("users", &plan, 0, DIM);
    plan.tables[1] = kit_plan_table("tags", &plan, 1, DIM);
    plan.tables[0].spec.max_rows = 60;
    plan.tables[0].spec.least_norm = 4;
    plan.tables[1].spec.min_count = 2;
    plan.tables[1].spec.unused_steps = 40;
    T_ASSERT(shard_new(&s, &plan) == SL_OK);
    s->chain.most = DELTAS;
    return s;
}

// A shard that pushes and snapshots are of.
struct life {
    struct kit kit;
    struct shard *shard;
    struct rng rng;
    uint32_t steps;
    uint8_t bytes[4 * ELEMENTS + TABLES * (16 + IDS * 8 + IDS * DIM * 4 + 8)];
    struct sl_slice one;
};

static void life_begin(struct life *l, uint64_t seed)
{
    memset(l, 0, sizeof(*l));
    kit_init(&l->kit);
    kit_long_closures(&l->kit);
    rng_init(&l->rng, seed, 1);
    l->shard = chained_shard(&l->kit);
    shard_admit(l->shard, 1);
}

// Few ids come often, as in data; some never come twice.
static size_t draw_ids(struct life *l, uint64_t ids[IDS])
{
    size_t n = 0;

    for (size_t i = 0; i < IDS; i++) {
        uint64_t most = 1 + rng_below(&l->rng, NAMES), id;
        bool there = false;

        id = rng_below(&l->rng, most);
        for (size_t j = 0; j < n; j++)
            there = there || ids[j] == id;
        if (!there)
            ids[n++] = id;
    }
    qsort(ids, n, sizeof(ids[0]), kit_ids_by_hash);
    return n;
}

static void life_push(struct life *l)
{
    struct wire_push push = kit_push(l->steps / 4096, l->steps % 4096, NULL);
    uint8_t *at = l->bytes + 4 * ELEMENTS;
    struct wire_push_reply reply;
    struct sl_slices all;
    uint64_t ids[IDS];
    size_t n = draw_ids(l, ids);

    for (uint32_t t = 0; t < TABLES; t++) {
        at = table_rows_head(at, t, (uint32_t)n, WIRE_F32);
        memcpy(at, ids, n * 8);
        at += n * 8;
        for (size_t i = 0; i < n * DIM; i++) {
            float g = (float)rng_below(&l->rng, 9) - 3;

            memcpy(at + 4 * i, &g, 4);
        }
        at += table_rows_elements_bytes((uint32_t)n, DIM, WIRE_F32);
    }
    push.skip = false;
    push.rows_bytes = (uint64_t)(at - l->bytes) - 4 * ELEMENTS;
    l->one = (struct sl_slice){l->bytes, (size_t)(at - l->bytes)};
    all = slices_one(&l->one);
    T_OK(slices_sub(&push.payload, &all, 0, 4 * ELEMENTS));
    T_OK(slices_sub(&push.rows, &all, 4 * ELEMENTS, (size_t)push.rows_bytes));
    T_OK(shard_push(l->shard, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    l->steps++;
}

static void life_pushes(struct life *l, unsigned most)
{
    for (uint32_t n = rng_below(&l->rng, most); n > 0; n--)
        life_push(l);
}

// ---- all records of an instant

struct dump {
    struct buf part[PARTS]; // records by id
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = table_id(a, 0), y = table_id(b, 0);

    return x < y ? -1 : x > y;
}

static void dump_sort(struct buf *b, size_t stride)
{
    if (b->len > 0)
        qsort(b->data, b->len / stride, stride, by_id);
}

static void dump_take(struct dump *d, struct shard *s)
{
    struct shard_image image;
    uint8_t space[64 * RECORD];
    size_t n;

    memset(d, 0, sizeof(*d));
    T_OK(shard_freeze_copy(s, &image, t_err()));
    for (size_t i = 0; i < PARTS; i++) {
        enum rowset_part part = (enum rowset_part)(i % ROWSET_PARTS);
        struct rowset *set = s->tables.sets[i / ROWSET_PARTS];
        size_t stride = rowset_part_stride(set, part);

        while (shard_image_rows(&image, i / ROWSET_PARTS, part, 64, space, &n))
            T_OK(buf_append(&d->part[i], space, n * stride));
        dump_sort(&d->part[i], stride);
    }
    shard_image_release(&image);
}

static void dump_release(struct dump *d)
{
    for (size_t i = 0; i < PARTS; i++)
        buf_release(&d->part[i]);
}

static void dump_is(const struct dump *a, const struct dump *b)
{
    for (size_t i = 0; i < PARTS; i++) {
        T_EQ(a->part[i].len, b->part[i].len);
        if (a->part[i].len > 0)
            T_MEM(a->part[i].data, b->part[i].data, a->part[i].len);
    }
}

static struct shard *load(struct life *l, struct fs *fs, struct wire_tag tag)
{
    struct shard *s = chained_shard(&l->kit);

    T_OK(snap_read(fs, "d", tag, tag, s, t_err()));
    shard_admit(s, 9);
    return s;
}

// A file restores what the shard had.
static void restores(struct life *l, struct fs *fs, struct wire_tag tag,
                     const struct dump *want)
{
    struct shard *s = load(l, fs, tag);
    struct dump got;

    dump_take(&got, s);
    dump_is(&got, want);
    dump_release(&got);
    shard_unref(s);
}

// Reads a table as an export from psservers does, some records at a time.
static void exports(const struct tagged_file *f, const char *table,
                    const struct buf *want)
{
    struct sl_slice one = {(const uint8_t *)table, strlen(table)};
    struct sl_slices name = slices_one(&one);
    struct tagged_records part = {.bytes = 1};
    struct buf got = BUF_INIT;

    while (part.bytes > 0) {
        T_OK(tagged_file_records(f, &name, got.len / RECORD, 5 * RECORD + 1,
                                 &part, t_err()));
        T_EQ(part.record_bytes, RECORD);
        T_EQ(part.records * RECORD, want->len);
        if (part.bytes > 0)
            T_OK(buf_append(&got, part.at, part.bytes));
        sl_free(part.copy);
    }
    dump_sort(&got, RECORD);
    T_EQ(got.len, want->len);
    if (want->len > 0)
        T_MEM(got.data, want->data, want->len);
    buf_release(&got);
}

static void maps(struct life *l, struct fs *fs, struct wire_tag tag,
                 const struct dump *want)
{
    struct tagged_file *f;

    T_OK(snap_values(fs, "d", &l->shard->plan, tag, &f, t_err()));
    exports(f, "users", &want->part[0]);
    exports(f, "tags", &want->part[2]);
    tagged_file_unref(f);
}

// ---- snapshots

// Takes a snapshot while updates go on; false: it was not written.
static bool life_snap(struct life *l, struct fs *fs, struct wire_tag *tag,
                      struct dump *at)
{
    struct sl_error err = SL_ERROR_INIT;
    struct snap_written out = {0};
    struct shard_image image;
    enum sl_err rc;

    dump_take(at, l->shard);
    T_OK(shard_freeze(l->shard, 1, &image, t_err()));
    life_pushes(l, 8);
    rc = snap_write_image(fs, "d", &image, &out, &err);
    shard_image_release(&image);
    *tag = out.tag;
    snap_written_release(&out);
    if (rc != SL_OK)
        dump_release(at);
    return rc == SL_OK;
}

static void keep_newest(struct fs *fs, struct wire_tag tag)
{
    struct wire_tag tags[] = {tag};
    const struct snap_keep keep = {
        .tags = tags, .newest = tag, .count = 1, .chains = true};
    unsigned removed;

    T_OK(snap_collect(fs, "d", 2, &keep, NULL, &removed, t_err()));
}

static unsigned links_of(struct fs *fs, struct wire_tag tag)
{
    struct table_chain_link link[TABLE_CHAIN_FILES];
    char name[SNAP_NAME_BYTES], path[SNAP_NAME_BYTES + 2];
    struct tensorfile *f;
    size_t count = 0;

    snap_file_name(name, 2, tag);
    snprintf(path, sizeof(path), "d/%s", name);
    T_OK(tensorfile_open(&f, fs, path, SNAP_HEADER_MAX, t_err()));
    T_OK(table_chain_links(link, &count, f, t_err()));
    tensorfile_close(f);
    return (unsigned)count;
}

TEST(chain, T10_a_chain_restores_what_a_whole_snapshot_would)
{
    unsigned deltas = 0, bases = 0;
    struct life l;

    for (uint64_t round = 0; round < 6; round++) {
        struct crash_fs *disk = crash_fs_new(t_seed() + round);
        struct fs *fs = crash_fs_ops(disk);

        life_begin(&l, t_seed() + round);
        life_pushes(&l, 60);
        for (unsigned i = 0; i < 40; i++) {
            struct wire_tag tag;
            struct dump at;

            life_pushes(&l, i % 3 == 0 ? 40 : 4);
            if (rng_below(&l.rng, 5) == 0) // the disk is full
                crash_fs_fail_at(disk, 1 + rng_below(&l.rng, 12));
            if (!life_snap(&l, fs, &tag, &at))
                continue;
            crash_fs_fail_at(disk, 0);
            if (links_of(fs, tag) > 0)
                deltas++;
            else
                bases++;
            if (rng_below(&l.rng, 2) == 0)
                keep_newest(fs, tag);
            restores(&l, fs, tag, &at);
            maps(&l, fs, tag, &at);
            dump_release(&at);
        }
        shard_unref(l.shard);
        crash_fs_free(disk);
    }
    T_TRUE(deltas > 20 && bases > 6);
}

// Whatever a crash leaves of the disk, the newest file that was reported is
// there with all that it needs.
TEST(chain, T10_what_was_reported_is_restored_after_a_crash)
{
    struct life l;

    for (uint64_t step = 1; step < 120; step += 3) {
        struct crash_fs *disk = crash_fs_new(t_seed() + step);
        struct fs *fs = crash_fs_ops(disk);
        struct dump at = {0}, newest = {0};
        struct wire_tag tag, reported = {0, 0};

        life_begin(&l, t_seed() + step);
        crash_fs_die_at(disk, step);
        for (unsigned i = 0; i < 20 && !crash_fs_died(disk); i++) {
            life_pushes(&l, 9);
            if (!life_snap(&l, fs, &tag, &at))
                continue;
            dump_release(&newest);
            newest = at;
            reported = tag;
        }
        crash_fs_reboot(disk);
        if (reported.sequence > 0)
            restores(&l, fs, reported, &newest);
        dump_release(&newest);
        shard_unref(l.shard);
        crash_fs_free(disk);
    }
}

// ---- damaged files

// Makes a base and two deltas; returns the tag of the newest one.
static struct wire_tag three_files(struct life *l, struct fs *fs)
{
    struct wire_tag tag = {0, 0};
    struct dump at;

    life_begin(l, t_seed());
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned n = i == 0 ? 50 : 1; n > 0; n--)
            life_push(l);
        T_TRUE(life_snap(l, fs, &tag, &at));
        dump_release(&at);
    }
    T_EQ(links_of(fs, tag), 2);
    return tag;
}

static void is_refused(struct life *l, struct fs *fs, struct wire_tag tag)
{
    struct shard *s = chained_shard(&l->kit);
    struct sl_error err = SL_ERROR_INIT;
    struct tagged_file *f = NULL;
    enum sl_err rc = snap_read(fs, "d", tag, tag, s, &err);

    T_TRUE(rc == SL_ECORRUPT || rc == SL_ENOENT || rc == SL_ENOTSUP);
    T_TRUE(strstr(err.text, "shard-2.i1.n") != NULL);
    rc = snap_values(fs, "d", &l->shard->plan, tag, &f, &err);
    T_TRUE(rc != SL_OK && f == NULL);
    shard_unref(s);
}

static void path_of(char path[SNAP_NAME_BYTES + 2], uint64_t sequence)
{
    char name[SNAP_NAME_BYTES];

    snap_file_name(name, 2, (struct wire_tag){1, sequence});
    snprintf(path, SNAP_NAME_BYTES + 2, "d/%s", name);
}

static void put_file(struct fs *fs, const char *path, const void *bytes,
                     size_t n)
{
    T_OK(fs_unlink(fs, path, t_err()));
    T_OK(fs_write_durable(fs, path, bytes, n, t_err()));
}

static void read_file(struct fs *fs, const char *path, struct buf *out)
{
    struct fs_file *file;
    struct fs_map map;

    T_OK(fs_open(fs, &file, path, FS_READ, t_err()));
    T_OK(fs_map_file(file, &map, t_err()));
    T_OK(buf_append(out, map.data, map.bytes));
    fs_unmap(fs, &map);
    fs_close(file);
}

TEST(chain, T10_damage_to_any_file_of_a_chain_is_found)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    char path[SNAP_NAME_BYTES + 2];
    struct wire_tag tag;
    struct life l;

    tag = three_files(&l, fs);
    for (uint64_t n = 1; n <= 3; n++) {
        struct buf whole = BUF_INIT;

        path_of(path, n);
        read_file(fs, path, &whole);
        for (unsigned i = 0; i < 24; i++) {
            size_t at = rng_below(&l.rng, (uint32_t)whole.len);

            whole.data[at] ^= 1 << i % 8;
            put_file(fs, path, whole.data, whole.len);
            is_refused(&l, fs, tag);
            whole.data[at] ^= 1 << i % 8;
            put_file(fs, path, whole.data, at);
            is_refused(&l, fs, tag);
        }
        T_OK(fs_unlink(fs, path, t_err()));
        is_refused(&l, fs, tag);
        T_OK(fs_write_durable(fs, path, whole.data, whole.len, t_err()));
        buf_release(&whole);
    }
    shard_unref(load(&l, fs, tag));
    shard_unref(l.shard);
    crash_fs_free(disk);
}

static void passed_over(void *arg, const char *file, const struct sl_error *why)
{
    ++*(unsigned *)arg;
}

// An older snapshot is loaded in place of one whose chain is broken.
TEST(chain, a_broken_chain_is_passed_over)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    char path[SNAP_NAME_BYTES + 2];
    unsigned passed = 0;
    struct shard *s;
    struct life l;

    three_files(&l, fs);
    path_of(path, 2);
    T_OK(fs_unlink(fs, path, t_err()));
    s = chained_shard(&l.kit);
    T_OK(snap_load(fs, "d", (struct wire_tag){1, 1}, false, s, passed_over,
                   &passed, t_err()));
    T_EQ(passed, 1);
    T_EQ(s->from.sequence, 1);
    shard_unref(s);
    shard_unref(l.shard);
    crash_fs_free(disk);
}

// ---- what is kept

TEST(chain, T10_files_below_a_kept_one_are_not_deleted)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    char path[SNAP_NAME_BYTES + 2];
    struct wire_tag tag;
    struct dump at;
    struct life l;

    tag = three_files(&l, fs);
    keep_newest(fs, tag);
    for (uint64_t n = 1; n <= 3; n++) {
        path_of(path, n);
        T_TRUE(fs_exists(fs, path));
    }
    l.shard->chain.count = 0; // the next one is a base
    T_TRUE(life_snap(&l, fs, &tag, &at));
    keep_newest(fs, tag);
    for (uint64_t n = 1; n <= 3; n++) {
        path_of(path, n);
        T_FALSE(fs_exists(fs, path));
    }
    restores(&l, fs, tag, &at);
    dump_release(&at);
    shard_unref(l.shard);
    crash_fs_free(disk);
}

TEST(chain, T10_a_file_that_cannot_be_read_keeps_all_below_it)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct wire_tag tags[] = {{1, 3}};
    const struct snap_keep keep = {
        .tags = tags, .newest = {1, 3}, .count = 1, .chains = true};
    char path[SNAP_NAME_BYTES + 2];
    struct sl_error err = SL_ERROR_INIT;
    unsigned removed;
    struct life l;

    three_files(&l, fs);
    path_of(path, 3);
    put_file(fs, path, "torn", 4);
    T_TRUE(snap_collect(fs, "d", 2, &keep, NULL, &removed, &err) != SL_OK);
    T_EQ(removed, 0);
    shard_unref(l.shard);
    crash_fs_free(disk);
}

// ---- when a file is a base

TEST(chain, deltas_that_come_to_half_of_the_base_make_a_new_one)
{
    struct shard_chain c = {.most = 8};

    T_FALSE(shard_chain_delta(&c));
    c.count = 1;
    c.link[0].bytes = 100;
    T_TRUE(shard_chain_delta(&c));
    c.link[c.count++].bytes = 50;
    T_TRUE(shard_chain_delta(&c));
    c.link[c.count++].bytes = 1;
    T_FALSE(shard_chain_delta(&c));
    c.link[2].bytes = 0;
    c.count = 8;
    T_TRUE(shard_chain_delta(&c)); // seven are there
    c.count = 9;
    T_FALSE(shard_chain_delta(&c));
    c.most = 0;
    c.count = 1;
    T_FALSE(shard_chain_delta(&c));
}

TEST(chain, a_loaded_shard_begins_with_a_base)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct snap_written out;
    struct wire_tag tag;
    struct shard *s;
    struct life l;

    tag = three_files(&l, fs);
    s = load(&l, fs, tag);
    T_OK(snap_write(fs, "d", s, 9, &out, t_err()));
    T_EQ(links_of(fs, out.tag), 0);
    snap_written_release(&out);
    shard_unref(s);
    shard_unref(l.shard);
    crash_fs_free(disk);
}

// ---- rows of a shard that is followed

// Does at a follower what the log has. Returns whether it is whole.
static bool follow_log(struct shard *source, struct shard *follower)
{
    struct wire_follow m = {
        .job = 7, .job_incarnation = 1, .incarnation = 1, .order = 5};
    struct wire_follow_reply reply = {0};
    struct oplog_record *r = NULL;
    struct sl_slice one;

    m.shard = 2;
    T_OK(shard_feed_next(source, 5, 0, &r, t_err()));
    while (r != NULL) {
        m.number++;
        one = (struct sl_slice){r->data, r->bytes};
        m.payload = slices_one(&one);
        T_OK(shard_follow(follower, &m, &reply, t_err()));
        shard_feed_acked(source, 5, reply.applied);
        oplog_unref(r);
        r = NULL;
        T_OK(shard_feed_next(source, 5, m.number, &r, t_err()));
    }
    return reply.whole;
}

// Which ids wait, are admitted and go is the same at both (T4, T5).
TEST(chain, M5_rows_follow_their_shard)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    struct snap_written out;
    struct shard_image image;
    struct dump want, got;
    struct shard *follower;
    bool fed = false;
    struct life l;

    three_files(&l, fs);
    life_pushes(&l, 40);
    T_OK(shard_feed_begin(l.shard, 1, 5, 1 << 24, 0, &image, &fed, t_err()));
    T_TRUE(fed);
    life_pushes(&l, 40);
    T_OK(snap_write_image(fs, "d", &image, &out, t_err()));
    shard_image_release(&image);
    follower = chained_shard(&l.kit);
    T_OK(snap_read(fs, "d", out.tag, out.tag, follower, t_err()));
    snap_written_release(&out);
    shard_follow_begin(follower, 5, 1);
    life_pushes(&l, 200);
    T_TRUE(shard_feed_hand_over(l.shard, 5, 1 << 24));
    T_TRUE(follow_log(l.shard, follower));
    shard_admit(follower, 2);
    dump_take(&want, l.shard);
    dump_take(&got, follower);
    dump_is(&got, &want);
    dump_release(&want);
    dump_release(&got);
    shard_unref(follower);
    shard_unref(l.shard);
    crash_fs_free(disk);
}
