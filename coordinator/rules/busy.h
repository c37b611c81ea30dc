// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/busy.h -- how busy a member is: what its heartbeats count,
// as rates over the last seconds.
//
// Threads  the loop.
// Memory   values; a struct of zeroes is a member of which nothing is known.
//          Nothing is allocated or fails. No pointer is NULL.
// Units    *_ms monotonic; a share is of the time that passed, from 0 to 1.
#ifndef COORDINATOR_RULES_BUSY_H
#define COORDINATOR_RULES_BUSY_H

#include <stdbool.h>
#include <stdint.h>

#define BUSY_WINDOW_MS 2000 // length of a window

// Sums of what a worker did with its time, over the steps of one attempt.
struct busy_times {
    double computing_ms, waiting_ms, reading_ms;
};

// Sums since a member's process began, as its heartbeats report them.
struct busy_counts {
    uint64_t cpu_us, sent_bytes, received_bytes;
    bool has_pushes;
    uint64_t pushes; // of a psserver, if has_pushes; else 0
};

struct busy {
    struct busy_times did;    // since the window began
    struct busy_counts since; // when it began
    uint64_t since_ms;        // 0: no window has begun
    bool known;       // one whole window has passed; the rates below are its:
    double cpu_cores; // seconds of processor time a second
    double sent_per_second, received_per_second; // bytes
    double computing, waiting, reading;          // shares
    double pushes_per_second;                    // NAN: not said
};

// Adds to the times of the present window, b->did, by how much each sum of
// `now` exceeds that of `*seen`, the sums of the same attempt when this was
// called last, then sets `*seen` to `now`. A sum that is lower than before adds
// nothing.
void busy_did(struct busy *b, struct busy_times *seen, struct busy_times now);

// Takes the counts of one heartbeat that came at now_ms. If the window has
// lasted BUSY_WINDOW_MS or more, sets the rates of *b (known, cpu_cores ...)
// from it and begins the next window at now_ms; before that the call changes
// nothing. The first heartbeat begins a window. A heartbeat with now.cpu_us 0
// changes nothing. If a count is lower than before (the process is another
// one), a new window begins and the rates stay. A new window begins with b->did
// at 0.
void busy_beat(struct busy *b, uint64_t now_ms, struct busy_counts now);

#endif
