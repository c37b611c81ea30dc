// SPDX-License-Identifier: Apache-2.0
// plan/counted.h -- the set of counted steps, which keeps a step from
// being counted twice.
//
// Every closure below the low watermark is counted whole; from the watermark
// on, closures that are partly or wholly counted have a set of bits. The
// watermark comes from the set itself and never from outside (S3). A key
// (closure, step) is added once; a second time says so (S2). Memory is bounded
// by the closures in flight, because the coordinator issues nothing beyond the
// watermark + window (C5). psserver keeps one per shard, under the shard's
// lock; the coordinator keeps one per shard as evidence.
//
// Threads  one at a time.
// Memory   counted_release frees; a schedule is copied in.
// Units    closures and steps as in schedule.h.
// Errors   a call that fails has changed nothing, *out included. No argument
//          but `err` is NULL.
#ifndef PLAN_COUNTED_H
#define PLAN_COUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/map.h"
#include "plan/schedule.h"
#include "common/base/status.h"

struct counted {
    struct schedule schedule;
    uint64_t closures; // number of closures of the schedule
    uint64_t low;      // watermark: all closures below are full
    uint64_t steps;    // number of counted steps
    struct map sparse; // closure -> struct counted_entry, owned
};

// Makes an empty set over a copy of the schedule `s`, in memory not in use;
// allocates nothing yet. SL_EINVAL or SL_ERANGE if the schedule does not hold
// (schedule_check); *c is then untouched.
enum sl_err counted_init(struct counted *c, const struct schedule *s);
// Frees the set's memory, and leaves it empty with its schedule; all zeroes is
// allowed.
void counted_release(struct counted *c);

// Counts one step and moves the watermark up if it can. SL_EEXIST: it was
// counted already; SL_ERANGE: no such step; SL_ENOMEM, but not after
// counted_reserve of that closure.
enum sl_err counted_add(struct counted *c, uint64_t closure, uint32_t step);

// Allocates the bits of a closure ahead of counted_add and counted_add_closure;
// counts no step. Does nothing for one below the watermark or reserved already.
// SL_ERANGE: no such closure; SL_ENOMEM.
enum sl_err counted_reserve(struct counted *c, uint64_t closure);

// Counts all steps of a closure and moves the watermark up if it can. SL_EEXIST
// if all were counted already, SL_ERANGE: no such closure; SL_ENOMEM, but not
// after counted_reserve of that closure.
enum sl_err counted_add_closure(struct counted *c, uint64_t closure);

// Counts all closures below `low`, in a set that is evidence of what a shard
// has said; a shard's own set is never raised (S3). Does nothing if the
// watermark is that high already. The watermark is then `low`, or above it if
// the closures from there on are full. Takes time in proportion to the closures
// that have a set of bits, not to `low`. SL_ERANGE: `low` is above the number
// of closures; SL_ENOMEM. Nothing has changed then.
enum sl_err counted_raise(struct counted *c, uint64_t low);

// Returns true if a step is counted; false also outside the schedule.
bool counted_has(const struct counted *c, uint64_t closure, uint32_t step);

// Returns true if all steps of a closure are counted; false also outside the
// schedule.
bool counted_closure_full(const struct counted *c, uint64_t closure);

// Returns the first closure >= from that is not full; the number of closures if
// all are.
uint64_t counted_next_open(const struct counted *c, uint64_t from);

// Returns true if all steps of the schedule are counted.
bool counted_full(const struct counted *c);
// Returns the watermark: all closures below it are counted.
uint64_t counted_low(const struct counted *c);
// Returns the number of counted steps.
uint64_t counted_steps(const struct counted *c);
// Returns the number of closures that have a set of bits, reserved ones
// (counted_reserve) included.
size_t counted_sparse(const struct counted *c);

// Returns true if `a` and `b` have the same schedule and count the same steps
// of it.
bool counted_equal(const struct counted *a, const struct counted *b);

// Returns true if `a` and `b` have the same schedule and `a` counts every step
// that `b` counts.
bool counted_includes(const struct counted *a, const struct counted *b);

// Copies a set to *out, which the call initialises and the caller releases;
// bits that were only reserved (counted_reserve) are not copied. SL_ENOMEM.
enum sl_err counted_copy(struct counted *out, const struct counted *from);

// The set as plain data, for messages and snapshots: closures not below the
// watermark with at least one step, ascending; bit s of a closure is bits[s /
// 8] >> (s % 8) & 1, in (nbits + 7) / 8 bytes.
struct counted_closure {
    uint64_t closure;
    uint32_t nbits; // = the closure's number of steps
    const uint8_t *bits;
};

struct counted_plain {
    uint64_t low;
    size_t count;
    const struct counted_closure *sparse;
};

// Copies the set as plain data to *out, in one block of memory that holds all
// of it; counted_plain_release frees that. SL_ENOMEM: *out is untouched. (A
// counted_plain that a decoder made of borrowed memory is not released.)
enum sl_err counted_encode(const struct counted *c, struct counted_plain *out);

// Frees the block of counted_encode and leaves *p empty; all zeroes is allowed.
void counted_plain_release(struct counted_plain *p);

// Makes *out, which the caller releases (counted_release), of the schedule `s`
// and the plain data, and keeps no pointer to either. Its watermark is
// plain->low, or above it if the closures from there on are full. SL_ECORRUPT,
// with words, unless the data fits the schedule: low at most the number of
// closures; closures ascending, none below low, each with its own number of
// bits, at least one of them set and none behind the last step. SL_EINVAL and
// SL_ERANGE as schedule_check; SL_ENOMEM.
enum sl_err counted_decode(struct counted *out, const struct schedule *s,
                           const struct counted_plain *plain,
                           struct sl_error *err);

#endif
