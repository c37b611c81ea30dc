// SPDX-License-Identifier: Apache-2.0
// trainer/ring/packed.h -- what a state has counted, as bytes: its CountedSet,
// then its ShardCounts.
//
// Threads  pure.
// Memory   packed_read fills *out (once_release), which on failure owns
//          nothing. packed_once may have appended a part when it fails.
// Errors   SL_ECORRUPT, SL_ENOMEM. `err` may be NULL.
#ifndef TRAINER_RING_PACKED_H
#define TRAINER_RING_PACKED_H

#include "common/base/buf.h"
#include "state/shard/once.h"

// Appends the CountedSet and the ShardCounts of *once to `to`, and sets
// *set_bytes and *counts_bytes to their lengths, which are undefined on
// failure. `passed` has a number for each of `pieces` pieces (once.h), or is
// NULL; it is not changed.
enum sl_err packed_once(struct buf *to, const struct once *once,
                        uint64_t *passed, size_t pieces, uint64_t *set_bytes,
                        uint64_t *counts_bytes);

// Sets *out to what packed_once has packed: both messages lie one behind the
// other in packed[set_bytes + counts_bytes]. Checks that they fit the schedule,
// which is copied, and each other (once_check). *out need not be zeroed.
// SL_ECORRUPT if not, and if out->passed was packed for another number of
// pieces than `pieces` (none at all is allowed); SL_ENOMEM.
enum sl_err packed_read(struct once *out, const struct schedule *schedule,
                        size_t pieces, const uint8_t *packed,
                        uint64_t set_bytes, uint64_t counts_bytes,
                        struct sl_error *err);

#endif
