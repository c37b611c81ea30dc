// SPDX-License-Identifier: Apache-2.0
// tests/unit/client/table_world.h -- a sparse table that changes, and its
// snapshots on disk, for tests of what is written of it.
//
// Threads  one.
// Memory   open_cut's *x is the caller's (table_export_release).
#ifndef TESTS_UNIT_CLIENT_TABLE_WORLD_H
#define TESTS_UNIT_CLIENT_TABLE_WORLD_H

#include <stdio.h>

#include "client/files/table_export.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "tests/harness/t.h"

enum { IDS = 60, DIM = 3, SHARDS = 2, RECORD = 32 };

// Returns the path of a file of the test; until the fourth call from now.
static const char *place(const char *name)
{
    static char path[4][4096];
    static unsigned next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", t_tmpdir(), name);
    return path[next];
}

// What a table has at a cut.
struct world {
    bool has[IDS];
    float values[IDS][DIM];
};

// Returns the id of row i, below IDS.
static uint64_t id_of(int i)
{
    return sl_mix64((uint64_t)i);
}

// Returns the shard that an id lies on.
static uint32_t shard_of(uint64_t id)
{
    return table_shard(table_bucket(table_hash(id), TABLE_BUCKETS),
                       TABLE_BUCKETS, SHARDS);
}

// Changes some rows, makes some and takes some away; some come back with the
// bytes that they had.
static void world_step(struct world *w)
{
    for (int i = 0; i < IDS; i++) {
        uint64_t coin = t_rand() % 10;

        if (coin == 0)
            w->has[i] = !w->has[i];
        if (coin == 1)
            w->values[i][t_rand() % DIM] = (float)(t_rand() % 4) - 2.0F;
        if (coin == 2) // bits decide, and not numbers
            w->values[i][0] = w->values[i][0] == 0.0F ? -w->values[i][0] : 0.0F;
    }
}

// Writes the record of row i; its header but for the id, and its slots, are
// drawn.
static void record_of(uint8_t record[RECORD], const struct world *w, int i)
{
    const uint64_t id = id_of(i);

    for (int k = 0; k < RECORD; k++) // header and slots: of no matter
        record[k] = (uint8_t)t_rand();
    memcpy(record, &id, sizeof(id));
    memcpy(record + TABLE_RECORD_HEAD, w->values[i], sizeof(w->values[i]));
}

// Writes the snapshot of a shard to `path`; its rows begin anywhere.
static void write_shard(const struct world *w, uint32_t shard, const char *path)
{
    static uint8_t records[IDS * RECORD];
    struct tensorfile_writer *file;
    struct tensor_info t = {
        .name = "#rows.users", .dtype = TENSOR_U8, .rank = 2};
    int first = (int)(t_rand() % IDS);
    size_t n = 0;

    for (int k = 0; k < IDS; k++) {
        int i = (first + k) % IDS;

        if (w->has[i] && shard_of(id_of(i)) == shard)
            record_of(records + n++ * RECORD, w, i);
    }
    t.shape[0] = n;
    t.shape[1] = RECORD;
    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&file, fs_posix(), path, &t, 1, NULL, 0, true,
                           t_err()));
    T_OK(tensorfile_append(file, records, n * RECORD, t_err()));
    T_OK(tensorfile_finish(file, NULL, t_err()));
}

// Opens the rows of a cut, whose files are written for it, and replaced by the
// fourth call after it.
static void open_cut(struct table_export *x, const struct world *w)
{
    static unsigned files;

    *x = (struct table_export){.name = NULL};
    T_OK(table_export_begin(x, "users", DIM, 0, SHARDS, t_err()));
    for (uint32_t i = 0; i < SHARDS; i++) {
        char name[32];

        // Of two cuts, and of the next ones in their place.
        snprintf(name, sizeof(name), "snapshot-%u", files++ % 8);
        write_shard(w, i, place(name));
        T_OK(table_export_file(x, i, fs_posix(), place(name), NULL, t_err()));
    }
}

// Returns the row of an id; -1: it is no row's.
static int find_id(uint64_t id)
{
    for (int i = 0; i < IDS; i++)
        if (id_of(i) == id)
            return i;
    return -1;
}

#endif
