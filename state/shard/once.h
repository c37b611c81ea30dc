// SPDX-License-Identifier: Apache-2.0
// state/shard/once.h -- a shard's set of counted steps, and its numbers.
//
// The counted set (plan/counted.h) decides; the numbers beside it count
// the outcomes of steps. The newest attempt seen per closure fences older
// attempts (I4); it is volatile by rule and dies when its closure falls below
// the watermark, where every step is counted and needs no fence.
//
// Invariant `once`: applied + skipped = counted_steps(counted). once_check
// says whether it holds; a snapshot for which it does not is corrupt.
//
// Threads  one at a time: the shard's lock.
// Memory   once_release frees. It holds a bit set and an attempt per closure
//          above the watermark (freed with the closure; at most
//          ONCE_ATTEMPTS_MAX attempts), a line per epoch and a number per piece
//          (freed with the shard).
// Units    steps, samples; a version counts the updates applied.
// Errors   a call that fails has changed nothing, outputs included (but memory
//          that it has reserved). `err` may be NULL.
#ifndef STATE_SHARD_ONCE_H
#define STATE_SHARD_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/counted.h"
#include "common/base/map.h"
#include "common/base/status.h"
#include "proto/wire.h"

#define ONCE_ATTEMPTS_MAX 65536

// Counts of one epoch; see EpochCount.
struct once_epoch {
    uint32_t epoch;
    uint64_t steps, samples, digest;
};

// Numbers of ShardCounts that the counted set does not give.
struct once_counts {
    // Number of applied updates. One update counts one key, or all keys of a
    // round with averaged gradients (update.h).
    uint64_t version;
    uint64_t applied, skipped; // keys
    // Keys that came again; pushes that were refused, or failed.
    uint64_t duplicates, refused;
    uint64_t stale; // refused pushes with too long a delay
    uint64_t late;  // applied keys with a delay over the limit
    uint64_t staleness[WIRE_STALENESS_BUCKETS]; // applied keys (once_bucket)
};

struct once {
    struct counted counted;
    struct once_counts counts;
    struct map attempts;       // closure -> struct wire_attempt, owned
    uint64_t attempts_from;    // closures below have none
    struct once_epoch *epochs; // ascending, owned
    size_t epoch_count, epoch_cap;
    // Number of updates in which each piece had no gradient: its own count of
    // updates is so much lower. Owned; NULL: zero for all pieces.
    uint64_t *passed;
    size_t passed_count; // number of pieces
};

// One step to be counted.
struct once_step {
    uint64_t closure;
    uint32_t step;
    bool skip;
    uint64_t samples, digest;
    uint64_t staleness;
    bool late; // staleness is over the limit
};

// Makes an empty set for the steps of schedule `s`, of which it keeps a copy.
// Allocates nothing yet. Returns SL_OK; SL_EINVAL or SL_ERANGE if the schedule
// does not hold (schedule_check): *o is untouched.
enum sl_err once_init(struct once *o, const struct schedule *s);
// Frees what the set owns; it is all zeroes then. All zeroes is allowed.
void once_release(struct once *o);

// Returns the number of applied updates; the next update is number + 1.
static inline uint64_t once_version(const struct once *o)
{
    return o->counts.version;
}

// Checks that the job has this step, counted or not. Returns SL_OK or
// SL_ERANGE.
enum sl_err once_key(const struct once *o, uint64_t closure, uint32_t step,
                     struct sl_error *err);

// Returns the newest attempt seen of a closure; (0, 0) if none was.
struct wire_attempt once_newest(const struct once *o, uint64_t closure);

// Notes an attempt of a closure, so that older ones are refused (I4). Changes
// nothing if a newer one was seen, or the closure is below the watermark.
// Returns SL_OK, also then; SL_EBUSY over ONCE_ATTEMPTS_MAX; SL_ENOMEM.
enum sl_err once_see(struct once *o, uint64_t closure,
                     struct wire_attempt attempt);

// Reserves memory, so that the once_add of this closure that follows cannot
// fail. The job has that closure. Returns SL_OK or SL_ENOMEM.
enum sl_err once_reserve(struct once *o, uint64_t closure);

// Counts a step that is not counted yet, as an update of its own (as none if it
// is skipped): adds to set, numbers and its epoch's line, and forgets attempts
// of closures that are below the watermark now. Call once_reserve before.
void once_add(struct once *o, const struct once_step *s);

// Reserves memory for the lines of `epochs` epochs, so that a round of steps of
// as many epochs can be counted. once_reserve does so for one. Returns SL_OK or
// SL_ENOMEM.
enum sl_err once_reserve_epochs(struct once *o, size_t epochs);

// Counts the `count` steps, at least 1, of a round, none of them counted yet,
// as one update, or as none if they are skipped, which all or none are. Call
// once_reserve for each before, and once_reserve_epochs if they may be of
// several epochs.
void once_add_round(struct once *o, const struct once_step *steps,
                    size_t count);

// Reserves memory, so that the once_pass that follows cannot fail. `pieces` is
// the shard's number of them, each time. Does nothing if that was done. Returns
// SL_OK or SL_ENOMEM.
enum sl_err once_reserve_passed(struct once *o, size_t pieces);

// Adds one to the passed updates of each piece that has no gradient in the
// update that is being counted: its bit is set in the `bytes` bytes of `absent`
// (wire_absent). Does nothing before once_reserve_passed. `absent` may be NULL
// if `bytes` is 0.
void once_pass(struct once *o, const uint8_t *absent, size_t bytes);

// Copies the counted set and the numbers, without attempts, for a snapshot;
// *out is overwritten, and owns nothing before. Returns SL_OK; SL_ENOMEM leaves
// *out.
enum sl_err once_copy(struct once *out, const struct once *from);

// Checks the invariant, that the lines of epochs add up to the counted steps,
// and that no piece was passed over more often than there were updates. Returns
// SL_OK; SL_ECORRUPT if not.
enum sl_err once_check(const struct once *o, struct sl_error *err);

// Returns the number of the bucket that counts a staleness; buckets are 0, 1,
// 2, 4, ... 256, and above.
unsigned once_bucket(uint64_t staleness);

#endif
