// SPDX-License-Identifier: Apache-2.0
// host/place/fetch.h -- bytes of objects at places, a piece at a time.
//
// A piece is looked for in memory (the last 32 pieces), then in the cache on
// the disk, and else a thread fetches it by one ranged request. While an object
// is read in its order the next pieces are fetched, too, and so is what a
// reader expects. A piece is fetched once, however many threads wait for it.
//
// Threads  all: any.
// Memory   fetch_free, when no read is under way; it ends the threads. An
// object
//          is shared and counted; bytes are the caller's.
// Units    bytes.
// Errors   those of object.h; SL_ECANCELED after fetch_leave. `err` may be
// NULL.
#ifndef HOST_PLACE_FETCH_H
#define HOST_PLACE_FETCH_H

#include "host/place/object.h"

struct fetch;

// Starts `threads` threads. `pieces` is borrowed; NULL: no cache on the disk.
enum sl_err fetch_new(struct fetch **out, struct pieces *pieces,
                      unsigned threads, struct sl_error *err);
void fetch_free(struct fetch *f); // NULL is allowed

// Reads n bytes from `offset`, which the object has. Waits.
enum sl_err fetch_read(struct fetch *f, struct object *o, uint64_t offset,
                       void *to, size_t n, struct sl_error *err);

// Has those bytes fetched that are neither in memory nor on the disk, if few
// others are waited for. Does not wait.
void fetch_expect(struct fetch *f, struct object *o, uint64_t offset, size_t n);

// Ends all reads, now and later, with SL_ECANCELED.
void fetch_leave(struct fetch *f);

// What was read since the start, and what the cache holds now.
struct fetch_figures {
    uint64_t fetched_bytes; // from places
    uint64_t requests;      // pieces that were asked for at places
    uint64_t failures;      // pieces of those that did not come
    uint64_t hits;          // reads that the disk answered
    uint64_t cache_bytes;   // of all workers that share the cache; 0: none
    uint64_t damaged;       // pieces of the cache
};

void fetch_figures(struct fetch *f, struct fetch_figures *out);

#endif
