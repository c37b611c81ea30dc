// SPDX-License-Identifier: Apache-2.0
// state/shard/once.h -- what a shard has counted, and how much.
//
// The counted set (common/plan/counted.h) decides; the numbers beside it tell
// what became of each step. The newest attempt seen per closure fences older
// ones (I4); it is volatile by rule and dies when its closure falls below the
// watermark, where everything is counted and nothing is left to fence.
//
// Invariant `once`: applied + skipped = counted_steps(counted). once_check
// says whether it holds; a snapshot for which it does not is corrupt.
//
// Threads  one at a time: the shard's lock.
// Memory   once_release frees. What grows, and when it dies: a bit set per
//          closure above the watermark (with the closure), an attempt per
//          closure above it (with the closure; at most ONCE_ATTEMPTS_MAX), a
//          line per epoch (with the shard), a number per piece (likewise).
// Units    steps, samples; a version counts the updates applied.
// Errors   a call that fails has changed nothing.
#ifndef STATE_SHARD_ONCE_H
#define STATE_SHARD_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan/counted.h"
#include "common/base/map.h"
#include "common/base/status.h"
#include "proto/wire.h"

#define ONCE_ATTEMPTS_MAX 65536

// What was counted of one epoch; see EpochCount.
struct once_epoch {
    uint32_t epoch;
    uint64_t steps, samples, digest;
};

// The numbers of ShardCounts that are not read off the set.
struct once_counts {
    // Updates applied. One update counts one key, or all keys of a round whose
    // gradients were averaged (update.h).
    uint64_t version;
    uint64_t applied, skipped; // keys
    uint64_t duplicates, refused;
    uint64_t stale; // of refused: for their delay
    uint64_t late;  // of applied: all the same, over the limit
    uint64_t staleness[WIRE_STALENESS_BUCKETS];
};

struct once {
    struct counted counted;
    struct once_counts counts;
    struct map attempts;       // closure -> struct wire_attempt, owned
    uint64_t attempts_from;    // closures below have none
    struct once_epoch *epochs; // ascending, owned
    size_t epoch_count, epoch_cap;
    // Of the updates, those that each piece of the shard had no gradient in:
    // its own count is so much less. Owned; NULL: none of any.
    uint64_t *passed;
    size_t passed_count; // pieces
};

// A step that is about to be counted.
struct once_step {
    uint64_t closure;
    uint32_t step;
    bool skip;
    uint64_t samples, digest;
    uint64_t staleness;
    bool late; // over the limit
};

enum sl_err once_init(struct once *o, const struct schedule *s);
void once_release(struct once *o); // all zeroes is allowed

// Updates applied: t - 1 of the next one.
static inline uint64_t once_version(const struct once *o)
{
    return o->counts.version;
}

// SL_ERANGE unless the job has this step.
enum sl_err once_key(const struct once *o, uint64_t closure, uint32_t step,
                     struct sl_error *err);

// The newest attempt that was seen of a closure; (0, 0) if none was.
struct wire_attempt once_newest(const struct once *o, uint64_t closure);

// From here on older attempts are refused (I4). An older one than the newest
// changes nothing. SL_EBUSY over ONCE_ATTEMPTS_MAX, SL_ENOMEM.
enum sl_err once_see(struct once *o, uint64_t closure,
                     struct wire_attempt attempt);

// Makes space, so that the once_add that follows cannot fail.
enum sl_err once_reserve(struct once *o, uint64_t closure);

// Counts a step that is not counted yet, as an update of its own.
void once_add(struct once *o, const struct once_step *s);

// Counts the steps of a round, all of one epoch and none of them counted yet,
// as one update; or as none, if they are skipped. Space was made for each.
void once_add_round(struct once *o, const struct once_step *steps,
                    size_t count);

// Makes space, so that the once_pass that follows cannot fail.
enum sl_err once_reserve_passed(struct once *o, size_t pieces);

// The update that is being counted passed over these pieces (wire_absent).
void once_pass(struct once *o, const uint8_t *absent, size_t bytes);

// The counted set and the numbers, without attempts: what a snapshot takes.
enum sl_err once_copy(struct once *out, const struct once *from);

// SL_ECORRUPT unless the invariant holds; nothing was passed over more often
// than there were updates.
enum sl_err once_check(const struct once *o, struct sl_error *err);

// Which of the buckets 0, 1, 2, 4, ... 256, above.
unsigned once_bucket(uint64_t staleness);

#endif
