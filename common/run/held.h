// SPDX-License-Identifier: Apache-2.0
// common/run/held.h -- how long the handlers of this process' loop work, and
// which of them held it for too long.
//
// A handler is a function that the loop calls: a task, a timer, a watch. While
// one works, no other call is answered and no member's message is read.
//
// Threads  held_took: the loop's. The rest: any.
// Memory   HELD_NAMES entries, for ever. A name is a literal.
// Units    microseconds; *_ms monotonic.
// Errors   none: names beyond the first HELD_NAMES - 1 are counted as one,
//          "others".
#ifndef COMMON_RUN_HELD_H
#define COMMON_RUN_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/run/expo.h"

#define HELD_US 100000 // a handler that works for longer is named
#define HELD_NAMES 40
#define HELD_RECENT_MS 600000 // time for which status pages show a held loop

// Counts a handler with the name `what` (not NULL) that worked for `us`. One
// that worked for longer than HELD_US has held the loop: that is logged as
// WARN, at most once a minute for all handlers together.
void held_took(const char *what, uint64_t us);

struct held {
    const char *what;  // name of the handler that held the loop last
    uint64_t times;    // number of holds by any handler in this process
    uint64_t us;       // duration of the last hold
    uint64_t since_ms; // time of its end, monotonic
};

// Sets *out to the last hold of the loop and returns true; returns false, and
// *out is all zeroes, if the loop was never held.
bool held_last(struct held *out);

// Writes the figures to `e`: how long handlers took, and which held the loop.
void held_measure(struct expo *e);

#endif
