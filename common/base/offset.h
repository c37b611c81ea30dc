// SPDX-License-Identifier: Apache-2.0
// common/base/offset.h -- the offset between a peer's clock and ours, from
// times in its messages.
//
// The peer tells when it sent message n, by its clock, and in a later message
// when it got our answer to n. We answered at once, by our clock, somewhere
// between; the middle is wrong by half of the round trip at most. The shortest
// of the last round trips is used: longer ones waited somewhere, and in older
// ones the clocks have drifted since.
//
// Threads  one at a time.
// Memory   none; all zeroes is an offset without measurements.
// Units    microseconds; ours = theirs + offset.
// Errors   impossible times of a peer are left out.
#ifndef COMMON_BASE_OFFSET_H
#define COMMON_BASE_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#define OFFSET_BEATS 4  // messages with answers on their way
#define OFFSET_TRIPS 16 // round trips that are kept

struct offset {
    struct {
        uint64_t seq, sent_us, came_us;
    } beats[OFFSET_BEATS];
    struct {
        int64_t offset_us;
        uint64_t trip_us; // plus 1; 0: none
    } trips[OFFSET_TRIPS];
    unsigned beat, trip; // next places to fill
};

// Notes that message `seq` (not 0), which the peer sent at `sent_us` by its
// clock, came at `came_us` by ours, and that we answered it at once. Keeps the
// last OFFSET_BEATS messages.
void offset_came(struct offset *o, uint64_t seq, uint64_t sent_us,
                 uint64_t came_us);

// Notes that our answer to message `seq` reached the peer at `heard_us` by its
// clock, which completes a round trip. Does nothing if offset_came has not
// noted `seq`, if it was heard before, or if the times are impossible.
void offset_heard(struct offset *o, uint64_t seq, uint64_t heard_us);

// Sets *offset_us to what the shortest kept round trip gives (our clock minus
// theirs), and *trip_us to its duration: the offset is wrong by half of it at
// most. Returns false if no round trip was measured yet, and both are then
// untouched.
bool offset_best(const struct offset *o, int64_t *offset_us, uint64_t *trip_us);

#endif
