// SPDX-License-Identifier: Apache-2.0
// common/base/offset.h -- how far the clock of a peer is from ours, by what it
// says at times anyway.
//
// The peer says when it sent message n, by its clock, and with a later one when
// it got our answer to n. We answered at once, by our clock, somewhere between;
// the middle is wrong by half of the round trip at most. Of the last round
// trips the shortest is believed: longer ones waited somewhere, and old ones
// are of clocks that have drifted since.
//
// Threads  one at a time.
// Memory   none; all zeroes is one that knows nothing.
// Units    microseconds; ours = theirs + offset.
// Errors   what a peer cannot have meant is left out.
#ifndef COMMON_BASE_OFFSET_H
#define COMMON_BASE_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#define OFFSET_BEATS 4  // whose answers may be on their way
#define OFFSET_TRIPS 16 // of which the shortest is believed

struct offset {
    struct {
        uint64_t seq, sent_us, came_us;
    } beats[OFFSET_BEATS];
    struct {
        int64_t offset_us;
        uint64_t trip_us; // plus 1; 0: none
    } trips[OFFSET_TRIPS];
    unsigned beat, trip; // the next ones
};

// Message `seq` (not 0), sent at `sent_us` of theirs, came at `came_us` of
// ours, and was answered at once.
void offset_came(struct offset *o, uint64_t seq, uint64_t sent_us,
                 uint64_t came_us);

// Our answer to `seq` came to them at `heard_us` of theirs.
void offset_heard(struct offset *o, uint64_t seq, uint64_t heard_us);

// False: nothing is known yet. *trip_us: twice as far as it may be wrong.
bool offset_best(const struct offset *o, int64_t *offset_us, uint64_t *trip_us);

#endif
