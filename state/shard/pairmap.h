// SPDX-License-Identifier: Apache-2.0
// state/shard/pairmap.h -- from (job, shard) to a pointer.
//
// Threads  one at a time.
// Memory   values are borrowed and never NULL. All zeroes is an empty map.
// Errors   SL_ENOMEM leaves the map as it was.
#ifndef STATE_SHARD_PAIRMAP_H
#define STATE_SHARD_PAIRMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/map.h"
#include "common/base/status.h"

struct pairmap {
    struct map jobs; // job -> struct map of shard -> value, owned
};

// Position of a walk; all zeroes at the start.
struct pairmap_at {
    struct map *shards;
    size_t job, shard;
};

// Returns the value of a pair; NULL if absent.
void *pairmap_get(const struct pairmap *m, uint64_t job, uint32_t shard);
// Sets the value of a pair, not NULL; one that it replaces is not freed.
// Returns SL_OK or SL_ENOMEM.
enum sl_err pairmap_put(struct pairmap *m, uint64_t job, uint32_t shard,
                        void *value);
// Removes a pair and returns its value; NULL if absent.
void *pairmap_remove(struct pairmap *m, uint64_t job, uint32_t shard);

// Returns the next value of a walk, in no order, and moves *at; NULL at the
// end. The map must not change meanwhile.
void *pairmap_next(const struct pairmap *m, struct pairmap_at *at);
// Frees the tables, not the values; the map is empty then. All zeroes is
// allowed.
void pairmap_release(struct pairmap *m);

#endif
