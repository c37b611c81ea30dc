// SPDX-License-Identifier: Apache-2.0
// psserver/local/local_region.h -- shared by local*.c only: the regions that
// are mapped, by their numbers.
//
// A region is memory of a worker that is mapped here (local_shared.h). The
// table has those that calls may still find; a call that has found one holds a
// use of it, by which it stays mapped.
//
// Threads  local_table_take, and local_give of its uses: any. The rest: the
//          loop.
// Memory   a table outlives its regions and their uses.
// Errors   outputs are untouched.
#ifndef PSSERVER_LOCAL_LOCAL_REGION_H
#define PSSERVER_LOCAL_LOCAL_REGION_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/net/local/shm.h"
#include "psserver/local/local_shared.h"

// The regions that are mapped. Calls find them here, on any thread.
struct local_table {
    pthread_mutex_t lock; // guards the map
    struct map regions;   // number -> struct local_region
    _Atomic size_t bytes; // mapped bytes, also those that only calls still use
};

// A mapped memory.
struct local_region {
    struct local_table *table;
    struct shm memory;
    uint64_t number;
    _Atomic unsigned refs; // one of the table, one per use
    struct list_node node; // place in its peer's list; the loop's
};

// Makes an empty table.
void local_table_init(struct local_table *t);
// Frees what the table has; no region is left in it, and none still used.
void local_table_release(struct local_table *t);

// Maps the `bytes` bytes of `fd`, which came over the socket, and enters them
// as a region with a number of its own. On the loop. `fd` stays the caller's,
// and may be closed at once. *out, unchanged on failure, has the table's
// reference (local_table_drop). SL_EBUSY: more than LOCAL_BYTES would be
// mapped, or no number was free; SL_EDENIED: `fd` is no sealed memory of that
// size; SL_ENOMEM; SL_EIO. Else returns SL_OK.
enum sl_err local_table_add(struct local_table *t, int fd, size_t bytes,
                            struct local_region **out, struct sl_error *err);

// Takes a region out of the table, with the table's reference: no new call
// finds it, and it is unmapped and freed when its last use ends, which may be
// here.
void local_table_drop(struct local_region *r);

// Finds the region that `ref` names and takes a reference to it, in *out, for
// local_give. Returns SL_OK; SL_ENOENT: no such region; SL_ERANGE: the range is
// not within it.
enum sl_err local_table_take(struct local_table *t, const struct wire_shm *ref,
                             struct local_use *out, struct sl_error *err);

#endif
