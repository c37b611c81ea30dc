// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shard_rows.h -- what psservers report of the rows of
// a job's sparse tables, shard by shard.
//
// Nothing is decided by these figures: they are kept, compared and shown. A job
// has room for SHARD_ROWS_MOST of them: of the tables beyond, those with the
// highest numbers, nothing is known.
//
// Threads  the loop.
// Memory   taken with the first report of a shard.
// Units    ms of coord_now.
// Errors   without memory nothing is kept, or shown.
#ifndef COORDINATOR_CORE_SHARDS_SHARD_ROWS_H
#define COORDINATOR_CORE_SHARDS_SHARD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

#define SHARD_ROWS_MOST 16384u // tables of all shards of a job

// How many rows a table had at a time.
struct rows_mark {
    uint64_t ms, rows;
};

// A table of a shard.
struct known_table {
    bool known;                       // it was reported
    Sluice__V1__TableFigures figures; // without its growth, and nothing owned
    // Two earlier reports, for the growth since the first: at least a minute
    // lies between them, or they are the same.
    struct rows_mark mark[2];
};

struct shard_rows {
    struct known_table *table; // owned; by the table's number
    uint32_t count;            // 0: nothing was reported
};

// Takes what a shard reports, one of `shards` of a job with so many tables.
void shard_rows_take(struct shard_rows *r,
                     const Sluice__V1__ShardReport *report, size_t tables,
                     uint32_t shards, uint64_t now_ms);
// Forgets it all: the shard was loaded anew.
void shard_rows_release(struct shard_rows *r);

// Returns the bytes of all known tables.
uint64_t shard_rows_bytes(const struct shard_rows *r);

// Adds the known tables to the status of the shard, with their growth by now.
// False without memory.
bool shard_rows_show(const struct shard_rows *r, Sluice__V1__ShardStatus *m,
                     uint64_t now_ms);

// Replaces the tables in the status of an ended job's shard, one of so many, by
// those of its last report, which has them all. False, with nothing replaced,
// if the report has none, or fewer, or without memory.
bool shard_rows_replace(Sluice__V1__ShardStatus *m,
                        const Sluice__V1__ShardReport *report, uint32_t shards);

#endif
