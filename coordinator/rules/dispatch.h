// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/dispatch.h -- which job a worker is given work of next.
//
// The job with the highest priority is served first, as long as it has
// something for the worker. Jobs of one priority are served fairly: the one
// that holds the fewest leases comes first, and among equals the one that was
// served least. So k jobs with work enough share the workers evenly, and a new
// job is served at once. A job stays with the worker that has it until it is
// dispatch_apart leases behind the jobs of another worker: with many small jobs
// on few workers each worker then works for its share of them, and has only
// that share in memory. Within a job the probe comes first (nothing can start
// without it), then evaluations, then training closures.
//
// Threads  pure; nothing fails, and nothing is kept.
// Memory   no pointer is NULL.
// Units    leases are counted per job over all workers, and per worker; times
//          are milliseconds.
#ifndef COORDINATOR_RULES_DISPATCH_H
#define COORDINATOR_RULES_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/fragments.h"
#include "proto/wire.h"

// Bounds of the leases that a worker may hold. With two, one is computed and
// one waits behind it, so that dispatch is never waited for. Where leases end
// within less than DISPATCH_AHEAD_MS, as many wait as last that long, and they
// are given out several at a time, in one message, which costs both sides less.
// A worker holds completions back only while it holds more than half of its
// most.
#define DISPATCH_LEASES_LEAST 2
#define DISPATCH_LEASES_MOST 8
#define DISPATCH_AHEAD_MS 4
// Where a contribution is a push of several closures (L5), all of its leases
// end with it, so those of the next one wait behind them: for WIRE_KEYS_MAX
// closures twice as many.
#define DISPATCH_LEASES_WIDEST (2 * WIRE_KEYS_MAX)

// All that a worker may hold: those that a stream has computed, its first, and
// a place in a group besides (member_computes).
#define DISPATCH_LEASES_ALL (DISPATCH_LEASES_WIDEST + FRAGMENTS_MOST + 2)

// The same time for contributions to rounds, while no other job wants the
// worker: each round is waited for, so a shorter queue makes no round end
// sooner, and a message each way in every round costs the worker and the
// coordinator a tenth of a step of 7 ms.
#define DISPATCH_ROUNDS_MS 64
#define DISPATCH_ROUNDS_MOST (DISPATCH_LEASES_MOST - 1) // behind the open one

// Returns how many leases a worker may hold, if each takes lease_ms and they
// are to last ahead_ms together: DISPATCH_LEASES_LEAST to `most`, which is at
// least that and at most DISPATCH_LEASES_WIDEST. For lease_ms 0, not known yet,
// returns `most`.
uint32_t dispatch_most(double lease_ms, double ahead_ms, uint32_t most);

#define DISPATCH_WINDOW_EACH 128 // closures per worker

// Returns how many closures may be issued beyond the lowest watermark (C5).
// `wanted` is the window of the job's spec, and `usual` the default of that
// key. A `wanted` below `usual` is the job's own wish, and is returned as it
// is. Else returns the larger one of `wanted` and DISPATCH_WINDOW_EACH for each
// of `workers` workers, the latter at most `most`, of which a counted set fits
// into a message: where a closure takes long, many workers would soon be beyond
// a fixed window and stand idle.
uint64_t dispatch_window(uint64_t wanted, uint64_t workers, uint64_t usual,
                         uint64_t most);

// Bounds of dispatch_apart: leases, and what they take together.
#define DISPATCH_APART_MOST 64
#define DISPATCH_APART_MS 2000

// Returns by how many leases, each of lease_ms, the jobs of a worker may be
// ahead of a job that another worker has, before the worker takes that one: as
// many as last DISPATCH_APART_MS together, at most DISPATCH_APART_MOST. 0 if a
// lease takes longer than DISPATCH_APART_MS; DISPATCH_APART_MOST for lease_ms
// 0, not known yet.
uint32_t dispatch_apart(double lease_ms);

// Returns the new `served` number of a job that is given a lease: one more than
// `served`, or than *front - `apart` if that is higher, where *front is the
// highest number of all jobs. So a job which had nothing to offer for a while
// does not get all leases afterwards. Raises *front to the result if that is
// higher.
uint64_t dispatch_served(uint64_t served, uint64_t *front, uint32_t apart);

enum work_kind {   // numbers as in LeaseKind of coord.proto
    WORK_TRAIN,    // a closure
    WORK_EVALUATE, // a range of the test set
    WORK_PROBE,    // a look at the job's data: its samples, classes ...
    WORK_RING,     // a place in a ring or group, until it is revoked
    WORK_KINDS,
    WORK_NONE = WORK_KINDS,
};

struct dispatch_worker {
    uint32_t leases; // leases that it computes (member.h), of all jobs
    uint32_t most;   // leases that it may hold
    bool ready;      // heard of, not draining, not pausing
    bool external;   // runs external models, and only those
    uint64_t only;   // the only job that it takes; 0: any
};

struct dispatch_job {
    uint64_t id;
    int32_t priority;     // a higher one is served first
    bool external;        // its model is external
    bool held_here;       // this worker holds a lease of the job
    uint32_t held;        // leases of it, over all workers
    uint32_t workers;     // workers that hold these leases
    uint32_t max_workers; // 0: no limit
    uint64_t served;      // its number of dispatch_served
    // what dispatch_apart returns; 0 if this worker has leases of the job, or
    // no worker has
    uint32_t apart;
};

// Returns true if the worker may be given one more lease, of any job: it is
// ready and holds fewer leases than its most.
bool dispatch_worker_free(const struct dispatch_worker *w);

// Returns true if this worker may compute `job`: its kind of model and w->only
// fit, and max_workers is not reached or the worker has a lease of the job
// already. Does not check whether the worker is free.
bool dispatch_fits(const struct dispatch_worker *w,
                   const struct dispatch_job *job);

// Returns true if job a is served before job b: it has a higher priority; or
// the same, and fewer leases held; or as many, and a lower served + apart.
// False for equal jobs. Does not check whether either fits the worker
// (dispatch_fits).
bool dispatch_before(const struct dispatch_job *a,
                     const struct dispatch_job *b);

#endif
