// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shard_rows.h -- what psservers report of the rows of
// a job's sparse tables, shard by shard.
//
// Nothing is decided by these figures: they are kept, compared and shown. A job
// has room for SHARD_ROWS_MOST of them: of the tables beyond, those with the
// highest numbers, nothing is known.
//
// Threads  the loop.
// Memory   taken with the first report of a shard. No pointer is NULL; `shards`
//          is not 0.
// Units    ms of coord_now.
// Errors   without memory nothing is kept, or shown.
#ifndef COORDINATOR_CORE_SHARDS_SHARD_ROWS_H
#define COORDINATOR_CORE_SHARDS_SHARD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/tables.h"
#include "proto/wire.h"

#define SHARD_ROWS_MOST 16384u // tables of all shards of a job

// How many rows a table had at a time.
struct rows_mark {
    uint64_t ms, rows;
};

// A table of a shard.
struct known_table {
    bool known; // it was reported
    // Last reported figures, without growth; their lists hot_ids and
    // hot_updates point at the arrays below.
    Sluice__V1__TableFigures figures;
    uint64_t hot_ids[TABLE_HOT], hot_updates[TABLE_HOT];
    // Two earlier reports, for the growth since the first: at least a minute
    // lies between them, or they are the same.
    struct rows_mark mark[2];
};

struct shard_rows {
    struct known_table *table; // owned; by the table's number
    uint32_t count;            // 0: nothing was reported
};

// Takes the figures of tables in a report of one shard of a job that has
// `tables` tables and `shards` shards, at now_ms, in place of those of earlier
// reports; drops those of tables that there is no room for. *r is all zeroes
// before the first report.
void shard_rows_take(struct shard_rows *r,
                     const Sluice__V1__ShardReport *report, size_t tables,
                     uint32_t shards, uint64_t now_ms);
// Frees all figures and leaves *r all zeroes, as the shard was loaded anew.
void shard_rows_release(struct shard_rows *r);

struct rows_sum {
    uint64_t rows, bytes, disk; // bytes of memory, and of the disk
};

// Returns the sums over all known tables of the shard; zeroes if none is known.
struct rows_sum shard_rows_sum(const struct shard_rows *r);

// Adds the known tables to the status m of the shard, which has none, with
// their growth until now_ms (not known before two seconds have passed). Returns
// true; or false without memory, with a part of them there, which wire_free
// frees.
bool shard_rows_show(const struct shard_rows *r, Sluice__V1__ShardStatus *m,
                     uint64_t now_ms);

// Replaces the tables in the status m of a shard of an ended job with `shards`
// shards by those of its last report. Returns true; or false, with nothing
// replaced, if the report has no tables, or fewer than m, or without memory.
bool shard_rows_replace(Sluice__V1__ShardStatus *m,
                        const Sluice__V1__ShardReport *report, uint32_t shards);

#endif
