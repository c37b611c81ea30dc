// SPDX-License-Identifier: Apache-2.0
// state/shard/replica.h -- a shard whose follower is its replica: nothing is
// answered before the replica has it (P1, P3), or all is answered at once (P6).
//
//   (free) --replica_bind--> bound --the feed is over--> bound, and stands
//      ^                       |                              |
//      +---------------- replica_free (the coordinator says so) <------+
//
// What was answered before replica_bind is in the log below the mark: once that
// is acknowledged, the replica has all that workers were told.
//
// Threads  any; each call takes the shard's lock.
// Memory   none.
// Units    numbers of operations.
// Errors   none.
#ifndef STATE_SHARD_REPLICA_H
#define STATE_SHARD_REPLICA_H

#include "state/shard/shard.h"

// Limit of a log whose follower is a replica. If answers wait for it, it gains
// one push of each worker at most, as a worker sends the next push after the
// answer; else a replica that falls so far behind has lost its feed.
#define REPLICA_LOG_BYTES ((size_t)1 << 30)

// How answers go that a replica is bound to.
enum replica_kind {
    REPLICA_ACKS,    // when the replica has what they say (P1)
    REPLICA_FOLLOWS, // at once: the replica may lack REPLICA_LOG_BYTES (P6)
};

// What an answer waits for.
struct replica_mark {
    uint64_t order;  // of the feed
    uint64_t number; // operation that has to be acknowledged
};

enum replica_state {
    REPLICA_ACKED, // answer: the replica has the operation, or is none any more
    REPLICA_WAITS, // not yet
    REPLICA_CLOSED, // never: the shard is closed
};

// Binds the shard's answers to the follower of feed `order`, if the shard is
// admitted and not closed (it may be stopped), that feed goes on, and operation
// `after` is acknowledged or the log is half full. Returns true if it is bound
// to it, also from before; false if not: another feed may have it. When it
// binds, it raises the limit of the log to REPLICA_LOG_BYTES, and logs the
// newest snapshot (OPLOG_TAG), without a call of the feed's function
// (shard_feed_wake). What is in the log then is waited for by the answers that
// follow, unless kind is REPLICA_FOLLOWS: none waits then.
bool replica_bind(struct shard *s, uint64_t order, uint64_t after,
                  enum replica_kind kind);
// Returns true if the shard is bound to feed `order`, and that is over: its
// answers stand.
bool replica_stands(struct shard *s, uint64_t order);
// Returns true if the shard is bound to feed `order`, that goes on, and all
// that was answered before replica_bind is acknowledged.
bool replica_has_all(struct shard *s, uint64_t order);
// Frees the shard's answers, if they are bound to feed `order`; the feed is
// over then, its log dropped, and marks of it are REPLICA_ACKED. Returns true
// if they were. Calls nothing: the caller looks after answers that wait.
bool replica_free(struct shard *s, uint64_t order);
// Returns the number of the feed that the shard's answers are bound to; 0:
// none.
uint64_t replica_bound(struct shard *s);
// Returns how many operations of the shard's feed the follower has not
// acknowledged; 0 without one. A feed that is over keeps the number that it
// had.
uint64_t replica_lag(struct shard *s);

// Sets *out to what has to be acknowledged before anything is said of what the
// shard has counted by now, and returns true; false, after which *out means
// nothing: nothing has to be, as the shard is bound to no feed, its replica
// FOLLOWS, or all of it is acknowledged. If the feed is over, only replica_free
// or a close ends the wait.
bool replica_mark(struct shard *s, struct replica_mark *out);
// Returns what has become of a mark that replica_mark has set.
enum replica_state replica_state(struct shard *s,
                                 const struct replica_mark *mark);

#endif
