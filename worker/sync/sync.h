// SPDX-License-Identifier: Apache-2.0
// worker/sync/sync.h -- the seam: how gradients become an update.
//
// The worker's task computes gradients of the closure's steps into a flat
// vector and wants fresh parameters in another. What happens in between is the
// mode's: sync_ps pushes to shards. The vectors are cut into ranges, which are
// sent and become fresh one by one.
//
//   sync_open(closure)
//     sync_begin -> a step to compute, or all is counted
//       sync_wait(range) before its parameters are read or gradient written
//       sync_send(range) when its gradient is whole
//       sync_past when parameters of what was sent are not read any more
//     sync_next -> the step after it, while answers are still under way; ...
//     sync_settle: all answers are in
//   sync_close
//
// One that was made so (sync_ps_options.by_range) pulls nothing by itself, for
// vectors of which only a part is in memory at a time: sync_pull instead of
// sync_wait, sync_drop when it was read, sync_rest before the memory of a
// gradient that was sent may go.
//
// SYNC_AGAIN from any of them: what was believed does not hold (a shard has
// been replaced, or found an update too old); call sync_begin again and resume
// where it says (W1).
//
// Threads  The compute thread; sync_map and sync_wake: any.
// Memory   What a closure points at is borrowed from open to close. The two
//          vectors are the sync's; it reads the gradient of a range between
//          sync_send and the next sync_wait of it, and writes the parameters in
//          that time, but not before `reads_until`.
// Units    elements; steps of the closure.
// Errors   SYNC_FAILED sets *err.
#ifndef WORKER_SYNC_SYNC_H
#define WORKER_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"
#include "worker/sync/gate.h"
#include "worker/compile/overlap.h"

enum sync_result {
    SYNC_OK,
    SYNC_AGAIN,   // begin again
    SYNC_STOPPED, // the gate is closed
    SYNC_FENCED,  // a newer attempt, or incarnation of the job: hand back
    SYNC_EARLY,   // a shard is at an earlier round: hand back
    SYNC_FAILED,  // *err
};

struct sync_closure {
    uint64_t closure;
    struct wire_attempt attempt;
    struct wire_token proof; // of the lease
    uint32_t steps;
    struct gate *gate;
};

struct sync_step {
    uint32_t step;
    uint64_t samples, digest;
    uint32_t wanted; // of this range: the op before which the next step waits
    uint32_t reads_until; // ops before this one read its parameters; 0: none
    bool none;            // no piece of the range has a gradient
    size_t absent_bytes;  // pieces of the range that have none, a bit each, as
    uint8_t absent[WIRE_ABSENT_BYTES]; // a push says them
};

// What this attempt saw, for reports.
struct sync_seen {
    uint64_t refused; // pushes refused
    double wait_ms;   // waiting for answers
    double push_ms;   // handing gradients over
};

struct sync_map_entry {
    const char *address;
    uint64_t incarnation; // 0: not admitted now
};

struct sync;

struct sync_ops {
    enum sync_result (*open)(struct sync *s, const struct sync_closure *c,
                             struct sl_error *err);
    // *step is the first that is not counted everywhere; *done: all are.
    enum sync_result (*begin)(struct sync *s, uint32_t *step, bool *done,
                              struct sl_error *err);
    // The first behind `after` that is not known to be counted everywhere;
    // the closure's number of steps: none.
    uint32_t (*next)(struct sync *s, uint32_t after);
    enum sync_result (*wait)(struct sync *s, uint32_t range,
                             struct sl_error *err);
    // `skip`: count the step, apply nothing.
    enum sync_result (*send)(struct sync *s, uint32_t range,
                             const struct sync_step *step, bool skip,
                             struct sl_error *err);
    // The ops before this one have run; begin, settle and close: all have.
    void (*past)(struct sync *s, uint32_t op);
    enum sync_result (*settle)(struct sync *s, struct sl_error *err);
    // True if the step was counted newly by what this attempt sent (as range
    // 0 said). Meaningful after a wait or settle of range 0.
    bool (*counted)(const struct sync *s, uint32_t step);
    // The incarnations that the evidence is from, one per range.
    void (*evidence)(const struct sync *s, uint64_t *incarnations);
    // The version of a map that names just those; 0: there is none.
    uint64_t (*named)(const struct sync *s);
    // The shard holds the contribution and has not counted it yet (Y3).
    bool (*held)(const struct sync *s, uint32_t range);
    // Our contribution made its round whole there.
    bool (*closed)(const struct sync *s, uint32_t range);
    void (*seen)(const struct sync *s, struct sync_seen *out);
    // Ends the closure; waits until nothing refers to the vectors.
    void (*close)(struct sync *s);
    // The parameters of a cut, into a vector of the caller's. No closure is
    // open.
    enum sync_result (*pull_cut)(struct sync *s, const struct wire_tag *tags,
                                 struct gate *gate, float *to,
                                 struct sl_error *err);
    // By range: the parameters of ranges [from, end) are in the vector, as they
    // are now or were when they were pulled last and not dropped since. Also
    // after SYNC_AGAIN, of which neither of the two says anything.
    enum sync_result (*pull)(struct sync *s, uint32_t from, uint32_t end,
                             struct sl_error *err);
    // Nothing of the range is under way.
    enum sync_result (*rest)(struct sync *s, uint32_t range,
                             struct sl_error *err);
    void (*drop)(struct sync *s, uint32_t range);
    // Any thread: a newer map; look at the gate again.
    void (*map)(struct sync *s, uint64_t version,
                const struct sync_map_entry *entries, size_t count);
    void (*wake)(struct sync *s);
    void (*free)(struct sync *s);
};

// First member of an implementation.
struct sync {
    const struct sync_ops *ops;
    const struct overlap_range *ranges;
    uint32_t ranges_count;
    float *params, *grads;
};

#endif
