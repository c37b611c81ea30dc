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

// Appends both messages and returns the length of each. `passed`: counts of
// `pieces` pieces (once.h), or NULL. `passed` is not changed; on failure the
// lengths are undefined.
enum sl_err packed_once(struct buf *to, const struct once *once,
                        uint64_t *passed, size_t pieces, uint64_t *set_bytes,
                        uint64_t *counts_bytes);

// Reads both messages back, which lie one behind the other, with their lengths,
// in packed[set_bytes + counts_bytes]. Checks that they fit the schedule, which
// is copied, and each other (once_check). *out need not be zeroed. SL_ECORRUPT
// also if out->passed was packed for another number of pieces than `pieces`
// (none at all is allowed).
enum sl_err packed_read(struct once *out, const struct schedule *schedule,
                        size_t pieces, const uint8_t *packed,
                        uint64_t set_bytes, uint64_t counts_bytes,
                        struct sl_error *err);

#endif
