// SPDX-License-Identifier: Apache-2.0
// state/shard/replica.h -- a shard whose follower is its replica: nothing is
// answered before the replica has it (P1, P3).
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

// Limit of a log whose follower the answers wait for: it gains one push of each
// worker at most, as a worker sends the next push after the answer.
#define REPLICA_LOG_BYTES ((size_t)1 << 30)

// What an answer waits for.
struct replica_mark {
    uint64_t order;  // of the feed
    uint64_t number; // operation that has to be acknowledged
};

enum replica_state {
    REPLICA_ACKED,  // the answer may go
    REPLICA_WAITS,  // not yet
    REPLICA_CLOSED, // never: the shard is closed
};

// Binds the shard's answers to the follower of feed `order`, if the shard
// serves, that feed goes on, and operation `after` is acknowledged or the log
// is half full. Returns true if it is bound to it, also from before. What is in
// the log then is waited for by the answers that follow.
bool replica_bind(struct shard *s, uint64_t order, uint64_t after);
// Returns true if the shard is bound to the feed, and that is over: its answers
// stand.
bool replica_stands(struct shard *s, uint64_t order);
// Returns true if the shard is bound to the feed, and all that was answered
// before is acknowledged.
bool replica_has_all(struct shard *s, uint64_t order);
// Frees the shard's answers, if they are bound to feed `order`; the feed is
// over then. Returns true if they were.
bool replica_free(struct shard *s, uint64_t order);
// Returns the number of the feed that the shard's answers are bound to; 0:
// none.
uint64_t replica_bound(struct shard *s);
// Returns how many operations the follower has not acknowledged.
uint64_t replica_lag(struct shard *s);

// Sets *out to what has to be acknowledged before anything is said of what the
// shard has counted by now, and returns true; false: nothing has to be.
bool replica_mark(struct shard *s, struct replica_mark *out);
// Returns what has become of a mark.
enum replica_state replica_state(struct shard *s,
                                 const struct replica_mark *mark);

#endif
