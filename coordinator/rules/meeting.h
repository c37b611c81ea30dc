// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/meeting.h -- when a round without slots is ended early
// (L2).
//
// Each shard ends its round by itself when it holds the most contributions that
// a round may have. It is told to end it when every shard holds the quorum and
// the grace is over, or when no contribution is under way, so that none would
// end it. To be told early changes no count, so a message that is lost is sent
// again.
//
// Threads  the loop.
// Memory   values; a struct of zeroes is a job of which no shard holds
//          anything.
// Units    *_ms monotonic, not 0.
// Errors   none. No pointer is NULL.
#ifndef COORDINATOR_RULES_MEETING_H
#define COORDINATOR_RULES_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#define MEETING_IDLE_MS 250  // without a contribution under way
#define MEETING_AGAIN_MS 500 // until the message is sent again

struct meeting {
    uint64_t quorum_ms; // every shard has held the quorum since; 0: it does not
    uint64_t idle_ms;   // start of a time without leases; 0: there are leases
    uint64_t told_ms;   // when the shards were told last
    uint64_t first_ms;  // a shard has held a contribution since; 0: none does
    uint32_t least;     // what was known then of the shard with fewest
    double wait_ms;     // how long the first contribution of a round waits for
                        // its end: a mean of the last ones; 0: none has ended
};

// What is known of the open round of all shards.
struct meeting_now {
    uint32_t least, most; // closures held by the shard with fewest, with most
    uint32_t quorum;      // closures
    bool under_way;       // a worker computes a contribution
    uint64_t grace_ms;    // how long a round with the quorum waits for more
};

// Takes how things are at now_ms into *m; if the fewest closures that a shard
// holds went down, a round has ended, and m->wait_ms takes how long it took.
// Returns true if the shards that hold something are to be told to end their
// round, now: the quorum's grace is over, or some shard holds something and
// nothing has been under way for MEETING_IDLE_MS. Notes that they are told
// then: returns true again for the same round after MEETING_AGAIN_MS at the
// earliest.
bool meeting_ends(struct meeting *m, const struct meeting_now *now,
                  uint64_t now_ms);

// Returns half of the median (of an even number the upper one) of `count` times
// of a contribution, in milliseconds, rounded down: how long a round waits
// whose job says nothing of it. 0 if `count` is 0. Sorts the times.
uint64_t meeting_grace_ms(double *times_ms, uint32_t count);

#endif
