// SPDX-License-Identifier: Apache-2.0
// plan/tables.h -- which shard of a job has which row of a sparse table.
//
// A table is a map of ids, any numbers of 64 bits, to rows. An id's hash falls
// into one of the table's buckets; their number never changes, and a shard has
// a contiguous range of buckets. So workers, programs and psservers find a
// row's shard from its id alone, and no process keeps a vocabulary.
//
// In messages the ids of a table come in rising order of their hash (T3). The
// order of hashes is that of buckets, and so of shards: a sender that has
// sorted the ids of a step once has them by shard.
//
// The result crosses machines and versions: never change the arithmetic.
//
// Threads  functions of their arguments; any.
// Memory   nothing is kept.
// Units    buckets and shards count from 0; a table has `buckets` buckets and
//          the job `shards` shards, neither is 0.
// Errors   none.
#ifndef PLAN_TABLES_H
#define PLAN_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/num.h"
#include "common/base/rng.h"

#define TABLES_MOST 1000             // tables of a job
#define TABLE_HOT 8                  // rows with most updates that are known
#define TABLE_BUCKETS 4096           // of a table that does not say
#define TABLE_BUCKETS_MOST 65536     // limit
#define TABLE_DIM_MOST 4096          // elements of a row
#define TABLE_STEPS_MOST 0xfffffffeu // steps of a job that has tables
#define TABLE_ROWS_MOST 0xfffffff0u  // rows of a table on one shard

// Returns number i of the ids that lie one behind another at `ids`, which may
// be any address.
static inline uint64_t table_id(const void *ids, size_t i)
{
    uint64_t id;

    memcpy(&id, (const uint8_t *)ids + i * sizeof(id), sizeof(id));
    return id;
}

// Returns the hash of an id; no two ids have the same. The salt keeps the ids
// 0, 1, 2 of one table from the same places as seeds that sl_mix64 makes
// elsewhere.
static inline uint64_t table_hash(uint64_t id)
{
    return sl_mix64(id ^ 0x7461626c65206964u);
}

// Returns the bucket, below `buckets`, into which `hash` falls: the buckets are
// equal parts of the range of all hashes, in order.
static inline uint32_t table_bucket(uint64_t hash, uint32_t buckets)
{
    return (uint32_t)((hash >> 32) * buckets >> 32);
}

// Returns the shard, below `shards`, that has bucket `bucket`. If there are
// more shards than buckets, some have none.
static inline uint32_t table_shard(uint32_t bucket, uint32_t buckets,
                                   uint32_t shards)
{
    return (uint32_t)((uint64_t)bucket * shards / buckets);
}

// Returns the first bucket of shard `shard`; for `shard` == `shards`, the
// number of buckets. A shard has no bucket if the next one's first is the same.
static inline uint32_t table_first(uint32_t shard, uint32_t buckets,
                                   uint32_t shards)
{
    return (uint32_t)sl_ceil_div((uint64_t)shard * buckets, shards);
}

// Returns the share of a shard in a limit of `most` rows for the whole table,
// in proportion to its buckets. The shares of all shards add up to `most`.
static inline uint64_t table_part(uint64_t most, uint32_t shard,
                                  uint32_t buckets, uint32_t shards)
{
    uint32_t first = table_first(shard, buckets, shards);
    uint32_t end = table_first(shard + 1, buckets, shards);

    return (uint64_t)((unsigned __int128)most * end / buckets) -
           (uint64_t)((unsigned __int128)most * first / buckets);
}

#endif
