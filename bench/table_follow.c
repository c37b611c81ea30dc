// SPDX-License-Identifier: Apache-2.0
// bench/table_follow.c -- what a feed of a table costs (client/files): the
// bytes of its base and of a delta, and how fast it compares two cuts.
//
// The snapshots are made here, and their rows lie as those of a psserver do: in
// no order of hashes. Time is the process's own, since other work on the
// machine must not count: that of the disk is not in it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "client/files/table_feed.h"
#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/table_rows.h"

struct world {
    uint64_t rows, changed; // every `changed`-th row of the second cut
    uint32_t dim, shards;
    size_t stride; // bytes of a record: values and one slot
    const char *folder;
    struct sl_error err;
};

static void must(struct world *w, enum sl_err rc, const char *what)
{
    program_must(rc, &w->err, what);
}

static char *world_path(struct world *w, const char *name)
{
    char *path = fs_join(w->folder, name);

    if (path == NULL)
        program_die("out of memory");
    return path;
}

static uint32_t world_shard(const struct world *w, uint64_t id)
{
    return table_shard(table_bucket(table_hash(id), TABLE_BUCKETS),
                       TABLE_BUCKETS, w->shards);
}

static void record_fill(const struct world *w, uint8_t *record, uint64_t row,
                        bool second)
{
    const uint64_t id = sl_mix64(row);
    float *values = (float *)(record + TABLE_RECORD_HEAD);

    memcpy(record, &id, sizeof(id));
    for (uint32_t i = 0; i < w->dim; i++)
        values[i] = (float)(id >> i % 32 & 0xffff);
    if (second && row % w->changed == 0)
        values[0] += 1.0F;
}

// Writes a shard's snapshot of the first or the second cut.
static void shard_write(struct world *w, uint32_t shard, bool second,
                        const char *path)
{
    struct tensor_info t = {
        .name = TABLE_ROWS_TENSOR "users", .dtype = TENSOR_U8, .rank = 2};
    uint8_t *record = program_memory(w->stride);
    struct tensorfile_writer *file;

    for (uint64_t i = 0; i < w->rows; i++)
        t.shape[0] += world_shard(w, sl_mix64(i)) == shard;
    t.shape[1] = w->stride;
    must(w, tensorfile_layout(&t, 1, &w->err), "layout");
    must(w,
         tensorfile_create(&file, fs_posix(), path, &t, 1, NULL, 0, true,
                           &w->err),
         "create");
    for (uint64_t i = 0; i < w->rows; i++) {
        if (world_shard(w, sl_mix64(i)) != shard)
            continue;
        record_fill(w, record, i, second);
        must(w, tensorfile_append(file, record, w->stride, &w->err), "append");
    }
    must(w, tensorfile_finish(file, NULL, &w->err), "finish");
    sl_free(record);
}

static void cut_open(struct world *w, struct table_export *x, bool second)
{
    *x = (struct table_export){.name = NULL};
    must(w, table_export_begin(x, "users", w->dim, 0, w->shards, &w->err),
         "begin");
    for (uint32_t i = 0; i < w->shards; i++) {
        char name[32];
        char *path;

        snprintf(name, sizeof(name), "snapshot-%u", i);
        path = world_path(w, name);
        shard_write(w, i, second, path);
        must(w, table_export_file(x, i, fs_posix(), path, NULL, &w->err),
             "snapshot");
        must(w, fs_unlink(fs_posix(), path, &w->err), "unlink");
        sl_free(path);
    }
}

// Adds a cut to the feed; returns the seconds that it took.
static double cut_add(struct world *w, struct table_feed *feed, bool second)
{
    struct table_export x;
    double began;

    cut_open(w, &x, second);
    began = program_cpu_s();
    must(w, table_feed_add(feed, &x, "bench", second ? 2 : 1, &w->err), "add");
    began = program_cpu_s() - began;
    table_export_release(&x);
    return began;
}

static void run_follow(struct world *w)
{
    char *folder = world_path(w, "feed");
    struct table_feed feed;
    double base_s, delta_s;

    must(w,
         table_feed_open(&feed, folder, "j-1", "users", w->dim,
                         FEED_DELTAS_MOST, &w->err),
         "feed");
    base_s = cut_add(w, &feed, false);
    delta_s = cut_add(w, &feed, true);
    printf("{\"base\": %" PRIu64 ", \"delta\": %" PRIu64
           ", \"changed\": %" PRIu64
           ", \"base_s\": %.3f, \"delta_s\": %.3f, \"peak\": %.0f}\n",
           feed.files[0].bytes, feed.files[1].bytes, feed.files[1].changed,
           base_s, delta_s, program_peak_bytes());
    table_feed_release(&feed);
    sl_free(folder);
}

static const struct conf_about about = {
    .program = "table_follow",
    .usage = "table_follow --folder DIR [OPTION]...",
    .text = "Follows a table over two cuts, of which the second one changed "
            "some rows; says the bytes and seconds of base and delta.",
    .example = "table_follow --folder /tmp/feed --rows 1000000",
};

static const struct conf_key keys[] = {
    {.name = "folder", .kind = CONF_STRING, .help = "Empty folder for it."},
    {.name = "rows",
     .kind = CONF_INT,
     .value = "4194304",
     .min = 1,
     .max = 1000000000,
     .help = "Rows of the table."},
    {.name = "dim",
     .kind = CONF_INT,
     .value = "16",
     .min = 1,
     .max = TABLE_DIM_MOST,
     .help = "Values of a row."},
    {.name = "shards",
     .kind = CONF_INT,
     .value = "2",
     .min = 1,
     .max = 64,
     .help = "Shards of the table."},
    {.name = "every",
     .kind = CONF_INT,
     .value = "100",
     .min = 1,
     .max = 1000000,
     .help = "One row of so many changes."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct world w = {.rows = (uint64_t)conf_int(c, "rows"),
                      .changed = (uint64_t)conf_int(c, "every"),
                      .dim = (uint32_t)conf_int(c, "dim"),
                      .shards = (uint32_t)conf_int(c, "shards"),
                      .folder = conf_str(c, "folder")};

    if (w.folder == NULL)
        program_die("name a folder with --folder");
    w.stride = (TABLE_RECORD_HEAD + (w.dim + 1) * sizeof(float) + 7) & ~7u;
    program_pin((int)conf_int(c, "cpu"));
    run_follow(&w);
    conf_free(c);
    return 0;
}
