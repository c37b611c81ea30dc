// SPDX-License-Identifier: Apache-2.0
// state/base/region.h -- large memory: parameters, copies, replies.
//
// Mapped in whole pages and offered to the kernel as huge ones: a shard is
// walked from end to end on each update, and page-table misses would cost
// more than the arithmetic. Fresh memory is zero and costs nothing before it
// is touched.
//
// A shared region holds the values of several shards, one behind the other; the
// last reference unmaps it.
//
// Threads  any.
// Memory   region_release unmaps; shared ones are counted references.
// Errors   SL_ENOMEM leaves *out as it was.
#ifndef STATE_BASE_REGION_H
#define STATE_BASE_REGION_H

#include <stdatomic.h>
#include <stddef.h>

#include "common/base/status.h"

struct region {
    void *data; // NULL: none
    size_t bytes;
};

// Maps a region of zeroes, for region_release. `bytes` may be 0: then data is
// not NULL, but must not be read. Returns SL_OK or SL_ENOMEM.
enum sl_err region_new(struct region *out, size_t bytes);

// Asks the kernel for all pages now, so that no update waits for them later. A
// page that it does not provide comes when it is touched: that is no error. The
// contents stay. May take long.
void region_populate(struct region *r);

// Unmaps; *r is {NULL, 0} then. All zeroes is allowed.
void region_release(struct region *r);

// Returns the offset in bytes of array `which` (from 0), for arrays of `bytes`
// bytes that are walked together. Arrays below 16 KiB lie one directly behind
// the other. Between two larger ones lie a page and some lines:
// arrays a large power of two apart would be in the same banks of the memory,
// and in the same sets of the caches, at every step of the walk, and Adam would
// run at a quarter of its speed.
size_t region_array_at(size_t bytes, unsigned which);
// Returns the bytes that `count` such arrays take with the gaps between them; 0
// for none.
size_t region_arrays_bytes(size_t bytes, unsigned count);

struct region_shared {
    struct region region;
    _Atomic unsigned refs;
};

// Makes a shared region of `bytes` zeroes with one reference, the caller's.
// Returns SL_OK or SL_ENOMEM.
enum sl_err region_shared_new(struct region_shared **out, size_t bytes);
// Takes one more reference and returns `r`, which is not NULL.
struct region_shared *region_shared_ref(struct region_shared *r);
// Drops a reference; the last one unmaps the region. NULL is allowed.
void region_shared_unref(struct region_shared *r);

#endif
