// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/changes.h -- what contributions of a job in mode local
// changed: their norms, their angles to the mean of their round, and those that
// were set aside as too large.
//
// A contribution is too large if its norm is above a bound, so many times the
// median of the last norms. Its worker does not push it, and another one
// computes it again, without a bound: one word never decides. If the other
// worker's is of usual size, the first one's was wrong.
//
// An angle is that between what one contribution changed and the mean of what
// its round changed, told from a few sums of each (plan/fold.h).
//
// All of it is what workers say, and volatile; no count depends on it.
//
// Threads  the loop.
// Memory   a value of a few hundred KiB, without pointers; all zeroes: nothing
//          was contributed. What is passed is borrowed for the call, names are
//          copied. No pointer is NULL but where it is said; a name is not
//          empty.
// Units    norms of the parameters' change; degrees.
// Errors   none. Of more workers, contributions of a round, or contributions
//          aside than it has places for, the oldest are forgotten, and a round
//          that is too large has no angles.
#ifndef COORDINATOR_RULES_CHANGES_H
#define COORDINATOR_RULES_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/fold.h"
#include "proto/wire.h"

#define CHANGES_NORMS 64   // last norms, of which the median is
#define CHANGES_LEAST 8    // norms without which there is no median
#define CHANGES_WORKERS 64 // that contributed last
#define CHANGES_ROUND 64   // contributions of a round that has angles
#define CHANGES_ASIDE 64   // contributions that are aside
#define CHANGES_WRONG 3    // contributions that make a worker suspect

// A contribution that was counted, or is held to be.
struct changes_one {
    const char *worker;
    uint64_t closure, samples;
    uint64_t weight;      // samples of all closures of the contribution
    uint64_t round_first; // first closure of its round
    uint32_t round_count; // 0: not known; it has no angle
    bool open; // rounds have no slots: its angle is to the last round_count
    uint64_t pushed_bytes, pulled_bytes;
    uint32_t steps;    // 0: not known
    double loss;       // mean over its samples; NAN: not known
    double norm;       // -1: not finite
    const float *sums; // FOLD_SUMS sums (plan/fold.h); NULL: it has no angle
};

struct changes_worker {
    char name[WIRE_NAME_BYTES + 1]; // empty: the place is free
    uint64_t last;                  // changes.used when its place was used
    // taken; put aside; found wrong lately (changes_decide)
    uint64_t contributions, set_aside, wrong;
    uint64_t wrong_at;        // its contributions when the last was wrong
    uint32_t steps;           // of the last one; 0: not known
    double loss, norm, angle; // of the last one; NAN: not known
};

struct changes_aside {
    char worker[WIRE_NAME_BYTES + 1]; // empty: the place is free
    uint64_t closure, since_ms;
    double bound; // the norm was above this bound
};

struct changes {
    // How often a place of `workers` was used; sums over all that was taken;
    // contributions that were ever put aside.
    uint64_t used, samples, pushed_bytes, pulled_bytes, set_aside;
    double norms[CHANGES_NORMS]; // the newest in place of the oldest
    uint64_t norms_count;        // that were ever added
    struct changes_worker workers[CHANGES_WORKERS];
    struct changes_aside asides[CHANGES_ASIDE];
    uint64_t asides_count; // that were ever added
    uint64_t round_first;
    uint32_t round_held; // contributions of it in the lists below
    uint32_t round_next; // `open`: place of the next one, over the oldest
    struct changes_held {
        uint64_t closure, weight;
        uint32_t worker; // its place
        float sums[FOLD_SUMS];
    } round[CHANGES_ROUND];
};

// Takes a contribution: adds its samples and bytes to the totals, its norm
// (unless it is below 0) to the last norms, and notes loss, norm and steps as
// the last ones of its worker. A new worker takes a free place, or the place of
// the worker that was used longest ago. The last contribution of a round makes
// the angles of the whole round known. In an open job each contribution makes
// its own angle known, once round_count of them are held: to their mean, of
// which it is the newest. A contribution without sums or of a closure that is
// held already has no part in angles; one of another round drops what was held
// of the round before, and so does a new worker that takes another one's place,
// here and in the calls below. Does not touch what is aside (changes_decide).
void changes_take(struct changes *c, const struct changes_one *one);

// Returns the median of the last norms, the upper one of an even number; 0
// while there are fewer than CHANGES_LEAST.
double changes_median(const struct changes *c);

// Notes that a worker's contribution to `closure` was set aside, as its norm is
// above `bound` or it is not finite, in place of what was aside of that
// closure; or else of the CHANGES_ASIDE-th one before it, if that is aside
// still, however few are. Adds 1 to set_aside, of *c and of the worker.
void changes_put_aside(struct changes *c, uint64_t closure, const char *worker,
                       double bound, uint64_t now_ms);

// Returns the contribution of this closure that is aside; NULL: none is. The
// pointer holds until the next changes_put_aside, changes_decide or
// changes_also.
const struct changes_aside *changes_aside(const struct changes *c,
                                          uint64_t closure);

// Forgets the contribution of one->closure that is aside, since `one` took its
// place. Does not count `one` itself: changes_take does. Returns the worker
// whose contribution was wrong: it is another worker than that of `one`, and
// the norm of `one` is finite and at most half of the bound, so that none is
// wrong which is near it. Adds 1 to that worker's `wrong`, which first begins
// anew at 0 if CHANGES_NORMS contributions of the worker were taken since the
// last wrong one. NULL: none was aside, or none is known to be wrong. The
// pointer holds until the next call but changes_take.
const struct changes_worker *changes_decide(struct changes *c,
                                            const struct changes_one *one);

// Adds the samples and bytes of `one`, a further closure of a contribution of
// several (train.inner.closure), to the totals, and forgets what is aside of
// that closure, without a judgement. What was changed is told of with another
// closure of its contribution, by changes_take, or not at all.
void changes_also(struct changes *c, const struct changes_one *one);

#endif
