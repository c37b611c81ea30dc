// SPDX-License-Identifier: Apache-2.0
// state/shard/oplog.h -- what another psserver needs to follow a shard: the log
// of its operations behind an image, and how far a follower is.
//
// An operation changes what a snapshot of the shard would hold: a push that was
// counted or held, the end of an open round, reduced rates. They are numbered
// from 1, in the order in which they were applied, from the instant of the
// image on; at that instant no contribution is held (M5). A follower loads the
// image and does the same operations in the same order, so it comes to the same
// counted set and numbers.
//
// A record, in the log and on the wire: 8 bytes, little-endian, of which the
// upper 8 bits are the kind and the rest the number of the bytes behind them:
//
//   OPLOG_COUNTED, OPLOG_HELD   a PushRequest with its payload, and what became
//                             of it
//   OPLOG_CLOSE                8 bytes: a closure of the open round that ended
//   OPLOG_RATES                16 bytes for each: closure, rate (f64)
//   OPLOG_END                  OPLOG_END_BYTES: what the source holds
//                             (oplog_sum). Nothing follows: the source has
//                             stopped.
//   OPLOG_TAG                  8 bytes, to a replica: the sequence of the
//                             newest snapshot that the source has taken; the
//                             replica has all of it then (P7)
//
// The log has records until the follower has acknowledged them. One that grows
// beyond its bound is over, as is that of a shard which is admitted anew.
//
// Threads  the shard's lock; a record itself never changes.
// Memory   records are counted references. oplog_release frees.
// Units    bytes; numbers of operations.
// Errors   a log without memory is over, and tells why.
#ifndef STATE_SHARD_OPLOG_H
#define STATE_SHARD_OPLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/slices.h"
#include "plan/rates.h"
#include "proto/wire.h"
#include "state/shard/once.h"

#define OPLOG_RECORD_HEAD 8
#define OPLOG_END_BYTES 48
#define OPLOG_RATE_BYTES 16

enum oplog_kind {
    OPLOG_COUNTED = 1,
    OPLOG_HELD,
    OPLOG_CLOSE,
    OPLOG_RATES,
    OPLOG_END,
    OPLOG_TAG,  // to replicas alone
    OPLOG_KINDS // the first number that is no kind
};

struct oplog_record {
    struct list_node node;
    _Atomic unsigned refs;
    uint64_t number;
    size_t bytes; // of `data`, the head among them
    uint8_t data[];
};

// The log of a shard that is fed.
struct oplog {
    uint64_t order;      // number of the coordinator's order; 0: there is none
    uint64_t last;       // number of the newest operation
    uint64_t acked;      // the follower has applied so many
    size_t bytes, most;  // of the records, and their limit
    struct list records; // those above `acked`
    const char *over;    // reason of oplog_stop; NULL: the log was not stopped
    bool ended;          // OPLOG_END is its last operation
};

// How far a follower has applied the log of its source.
struct oplog_follow {
    uint64_t order;       // number of the feed that it takes; 0: none
    uint64_t incarnation; // of the source
    uint64_t applied;     // operations
    bool whole;           // it has seen the end, and holds what that names
    bool failed;          // an operation had another outcome; it takes no more
};

// What source and follower must have alike; and the sequence of the source's
// newest snapshot, which is the follower's from then on: it has all of it (K7).
struct oplog_sum {
    uint64_t steps, low; // of the counted set
    uint64_t version;
    uint64_t samples, digest; // of all epochs together (EpochCount)
    uint64_t sequence;
};

// A record of the wire.
struct oplog_op {
    enum oplog_kind kind;
    struct sl_slices bytes; // behind its head
};

// Makes an empty log without an order. *f must not move.
void oplog_init(struct oplog *f);
// Drops all records, and the order.
void oplog_release(struct oplog *f);
// Begins the log of an order, which is not 0, of at most `most` bytes; an
// earlier one is dropped.
void oplog_begin(struct oplog *f, uint64_t order, size_t most);
// Makes a log over, if there is one, and drops its records; one that has ended
// with OPLOG_END too, though its follower may lack some. `why` lives for ever,
// and is not noted if the log was over.
void oplog_stop(struct oplog *f, const char *why);

// Returns true if what the shard does is to be logged.
static inline bool oplog_goes_on(const struct oplog *f)
{
    return f->order != 0 && f->over == NULL && !f->ended;
}

// Makes the record of a push, with a copy of its payload and rows, but without
// what belongs to its call (shared memory, token). Here and down to oplog_end:
// the record has one reference, the caller's, and its kind is set by oplog_put;
// NULL without memory.
struct oplog_record *oplog_push(const struct wire_push *push);
// Makes the record of the end of the open round that held `closure`.
struct oplog_record *oplog_close(uint64_t closure);
// Makes the record of the reduced rates, all of them so far.
struct oplog_record *oplog_rates(const struct rates *rates);
// Makes the record of a snapshot.
struct oplog_record *oplog_tag(uint64_t sequence);
// Makes the record of the end of a feed, with what its source holds.
struct oplog_record *oplog_end(const struct oplog_sum *sum);
// Drops a reference; the last one frees the record. NULL is allowed.
void oplog_unref(struct oplog_record *r);

// Appends a record as the next operation of this kind, and takes the caller's
// reference. With OPLOG_END the log has ended. Drops the record if the log does
// not go on. The log is over, without the record and all others, if it would
// exceed its limit, or if `r` is NULL: there was no memory for it.
void oplog_put(struct oplog *f, enum oplog_kind kind, struct oplog_record *r);
// Drops the records up to number `applied`, which the follower has. A number
// that is no news changes nothing, nor does one above the newest, which is not
// believed.
void oplog_acked(struct oplog *f, uint64_t applied);
// Returns a reference to the first record above number `after`; NULL: none.
struct oplog_record *oplog_next(struct oplog *f, uint64_t after);

// Returns what a set and its numbers have; `sequence` is 0.
struct oplog_sum oplog_sum_of(const struct once *once);

// Reads the next record of a message, at byte *at, and steps over it;
// out->bytes borrows from the message. Returns SL_OK; SL_EINVAL: it is none, of
// no known kind or of a length that does not fit, or the message ends there.
enum sl_err oplog_read(struct oplog_op *out, const struct sl_slices *message,
                       size_t *at, struct sl_error *err);
// Reads what is behind the head of a record: the number of OPLOG_CLOSE or
// OPLOG_TAG; below OPLOG_RATES, and OPLOG_END. The caller has looked at
// op->kind. Returns SL_OK; SL_EINVAL: it has another length, or rates that
// cannot be; *out is then as it was. `err` may be NULL.
enum sl_err oplog_read_one(uint64_t *number, const struct oplog_op *op,
                           struct sl_error *err);
enum sl_err oplog_read_rates(struct rates *out, const struct oplog_op *op,
                             struct sl_error *err);
enum sl_err oplog_read_end(struct oplog_sum *out, const struct oplog_op *op,
                           struct sl_error *err);

#endif
