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
//          object is shared and counted; bytes are the caller's.
// Units    bytes.
// Errors   those of object.h. `err` may be NULL.
#ifndef HOST_PLACE_FETCH_H
#define HOST_PLACE_FETCH_H

#include "host/place/object.h"

struct fetch;

// Starts `threads` threads (> 0), or as many of them as the system gives.
// `pieces` is borrowed; NULL: no cache on the disk. SL_ENOMEM: also if the
// system gives no thread.
enum sl_err fetch_new(struct fetch **out, struct pieces *pieces,
                      unsigned threads, struct sl_error *err);
// Ends and joins the threads, which waits for a request under way (cut it off
// by s3.h's `leaving`), and frees. NULL is allowed.
void fetch_free(struct fetch *f);

// Reads n bytes from `offset`, which the object has. Waits. SL_ECANCELED: after
// fetch_leave, or if the calling thread may not wait on
// (common/base/file_wait.h). What is in `to` after a failure is undefined.
enum sl_err fetch_read(struct fetch *f, struct object *o, uint64_t offset,
                       void *to, size_t n, struct sl_error *err);

// Has those bytes fetched that are neither in memory nor on the disk, if few
// others are waited for. Does not wait.
void fetch_expect(struct fetch *f, struct object *o, uint64_t offset, size_t n);

// Ends the reads that wait, and later ones that would have to wait for a place,
// with SL_ECANCELED. Does not wait.
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

// Sets *out to the figures of now.
void fetch_figures(struct fetch *f, struct fetch_figures *out);

#endif
