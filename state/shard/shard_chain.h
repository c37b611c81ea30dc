// SPDX-License-Identifier: Apache-2.0
// state/shard/shard_chain.h -- the snapshots that the next one of a shard with
// tables may be a delta to (T10).
//
//     base <- delta <- delta <- ...
//
// A delta has the records that changed since the file before it, and the ids
// that went. It is written only if the file before it is durable; and a base is
// written where a delta would not pay: the records of the deltas together are
// more than half of those of the base, or there are `most` of them.
//
// Threads  shard_chain_delta: under the shard's lock; the rest: the thread that
//          writes the shard's snapshot. There is one at a time.
// Memory   a value; it owns nothing.
// Units    bytes of the records of tables; a version counts the updates.
// Errors   none.
#ifndef STATE_SHARD_SHARD_CHAIN_H
#define STATE_SHARD_SHARD_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "proto/table_chain.h"
#include "proto/wire.h"

#define SHARD_CHAIN_MOST TABLE_CHAIN_FILES
#define SHARD_CHAIN_PART 2 // part of the base that all deltas may come to

struct shard_chain_link {
    struct wire_tag tag;
    uint8_t sha256[SHA256_BYTES]; // of the whole file
    uint64_t bytes;               // of its tables (snap_written.table_bytes)
    uint64_t file_bytes;          // of all of it
};

struct shard_chain {
    unsigned most;  // deltas; 0: all snapshots are whole
    unsigned count; // files; 0: the next one is a base
    struct shard_chain_link link[SHARD_CHAIN_MOST]; // the base first
    uint64_t version;                               // of the newest file
};

// Returns true if the next snapshot may be a delta, as far as the files say.
static inline bool shard_chain_delta(const struct shard_chain *c)
{
    uint64_t deltas = 0;

    for (unsigned i = 1; i < c->count; i++)
        deltas += c->link[i].bytes;
    return c->count > 0 && c->count <= c->most && c->count < SHARD_CHAIN_MOST &&
           deltas <= c->link[0].bytes / SHARD_CHAIN_PART;
}

#endif
