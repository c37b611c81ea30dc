// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/dispatch.h -- which job a worker is given work of next.
//
// Of several jobs the one with the highest priority is served first, as long as
// it has something for the worker. Fair between those of one priority: the one
// that holds the fewest leases is served first, and of those the one that was
// served least. So k jobs with work enough share the workers evenly, and one
// that arrives is served at once. A job stays with the worker that has it until
// it is so many leases behind those of another: of many small jobs on few
// workers each worker then works for its share of them, and has only that in
// memory. Within a job the probe comes first (nothing can start without it),
// then evaluations, then training closures.
//
// Threads  pure.
// Units    leases are counted per job over all workers, and per worker.
#ifndef COORDINATOR_RULES_DISPATCH_H
#define COORDINATOR_RULES_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Leases that a worker may hold: one is computed, one waits behind it, so that
// dispatch is never waited for. Where leases end within less than so long, as
// many wait as last that long, and they are given out several at a time, in one
// message, which costs both sides less. A worker holds completions back only
// while it has more than half of the most.
#define DISPATCH_LEASES_LEAST 2
#define DISPATCH_LEASES_MOST 8
#define DISPATCH_AHEAD_MS 4

// As long where they are contributions to rounds and nobody else wants the
// worker: each round is waited for, so nothing of it comes sooner for a shorter
// queue, and a message each way in every round costs the worker and us a tenth
// of a step of 7 ms.
#define DISPATCH_ROUNDS_MS 64
#define DISPATCH_ROUNDS_MOST (DISPATCH_LEASES_MOST - 1) // behind the open one

// Of a worker whose leases take so long each, of which so much may wait.
uint32_t dispatch_most(double lease_ms, double ahead_ms);

// Closures that may be issued beyond the lowest watermark (C5). Where one takes
// long, many workers get beyond it soon and would stand idle: a window of
// `usual` or more follows their number, up to `most`, of which a counted set
// fits into a message. A shorter one is what the job wants.
#define DISPATCH_WINDOW_EACH 128
uint64_t dispatch_window(uint64_t wanted, uint64_t workers, uint64_t usual,
                         uint64_t most);

// So many leases may the jobs of a worker whose leases take so long be ahead of
// one that another worker has: few of long ones, which are worth the making of
// a job anew.
#define DISPATCH_APART_MOST 64
#define DISPATCH_APART_MS 2000
uint32_t dispatch_apart(double lease_ms);

// The number of a job that is given a lease: one more than it had, but not so
// far behind the highest (*front) that it would be served alone for long, who
// had nothing to offer before. Raises the highest.
uint64_t dispatch_served(uint64_t served, uint64_t *front, uint32_t apart);

enum work_kind {
    WORK_TRAIN, // numbers as in LeaseKind of coord.proto
    WORK_EVALUATE,
    WORK_PROBE,
    WORK_RING,
    WORK_KINDS,
    WORK_NONE = WORK_KINDS,
};

struct dispatch_worker {
    uint32_t leases; // that it holds, of all jobs
    uint32_t most;   // that it may hold
    bool ready;      // seen, not draining, not pausing
    bool external;   // runs external models, and only those
    uint64_t only;   // is given nothing but of this job; 0: of any
};

struct dispatch_job {
    uint64_t id;
    int32_t priority;     // a higher one is served first
    bool external;        // its model is external
    bool held_here;       // this worker has a lease of it already
    uint32_t held;        // leases of it, over all workers
    uint32_t workers;     // that hold those
    uint32_t max_workers; // 0: no limit
    uint64_t served;      // dispatch_served
    uint32_t apart;       // by as much; 0: it is this worker's, or nobody's
};

// May the worker be given anything at all?
bool dispatch_worker_free(const struct dispatch_worker *w);

// May the worker be given of this job, if that has something?
bool dispatch_fits(const struct dispatch_worker *w,
                   const struct dispatch_job *job);

// Is the first one served before the other?
bool dispatch_before(const struct dispatch_job *a,
                     const struct dispatch_job *b);

#endif
