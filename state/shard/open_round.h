// SPDX-License-Identifier: Apache-2.0
// state/shard/open_round.h -- the contributions of a round without slots
// (train.quorum), held until it is closed.
//
// A contribution counts any closures of one step each, often one. It is held in
// the round that is open when it comes (L3), added to one sum with the weight
// of its samples, or, where plan->aged says so, of these divided by 1 + its age
// in versions; so the bits depend on the order of arrival, and memory does not
// depend on their number. Held contributions are counted nowhere and are in
// no snapshot (L1): a shard that is loaded begins with an empty round.
//
// Threads  the shard's lock.
// Memory   open_round_release frees: one vector of the shard's values, and a
//          step for each closure that is held. r->coded is the caller's.
// Units    elements of the shard; closures; versions.
// Errors   SL_ENOMEM; a call that fails has changed nothing.
#ifndef STATE_SHARD_OPEN_ROUND_H
#define STATE_SHARD_OPEN_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/slices.h"
#include "state/shard/mean.h"
#include "state/shard/once.h"

#define OPEN_ROUND_MOST 1024

struct open_round {
    uint32_t most; // contributions that close it; 0: the job has no such round
    uint32_t held; // contributions
    bool aged;     // an older one weighs less
    size_t elements;
    float *sum;                // owned; sum of weights times contribution
    double most_sum;           // at least its largest magnitude
    const struct coded *coded; // form of payloads; borrowed
    enum wire_type last_type;
    struct sl_slices last;     // payload that ends the round, which is not in
                               // the sum; borrowed for the call
    struct mean_part parts[2]; // sum, and last contribution
    struct directions directions;
    double weight;           // of all held contributions
    uint64_t largest;        // most samples of a contribution
    struct once_step *steps; // owned; those that are held, by arrival, each
                             // with the version it is based on as `staleness`
    size_t keys, keys_cap;   // number of steps, and space for them
};

// Prepares for the rounds of a shard, of at most plan->open contributions, up
// to OPEN_ROUND_MOST; 0: there are none. The plan is borrowed. Returns SL_OK or
// SL_ENOMEM, after which *r is for open_round_release.
enum sl_err open_round_init(struct open_round *r, const struct plan *plan);
// Frees the memory, with what is held, and zeroes *r; a zeroed one is allowed.
void open_round_release(struct open_round *r);

// Returns true if a contribution that counts `closure` is held.
bool open_round_has(const struct open_round *r, uint64_t closure);

// Reserves memory, so that the open_round_hold that follows, of a contribution
// of `count` steps, cannot fail. Returns SL_OK or SL_ENOMEM.
enum sl_err open_round_reserve(struct open_round *r, size_t count);

// Holds a contribution of `count` steps, at least 1, none of which is held, in
// a round with fewer than r->most that will update `version`. Its weight is
// their samples together, or with r->aged these divided by 1 + its age.
// `payload`, of r->elements elements or a code of r->coded, was checked
// (coded_check) and is read during the call; the `staleness` of each step is
// the version that the contribution began with. Call open_round_reserve before.
// The r->most-th contribution is not copied: its payload must stay until
// open_round_close, which is called next.
void open_round_hold(struct open_round *r, uint64_t version,
                     const struct once_step *steps, size_t count,
                     enum wire_type type, const struct sl_slices *payload);

// Ends the round, which holds at least one contribution, at `version`: sets
// each of r->steps, of which there are *count, to its age in versions, and
// leaves the round empty: r->largest and r->weight are 0, and r->steps is valid
// until the next open_round_reserve. Returns true, and sets *mean, of which the
// parts stay until the next hold; false, with all steps marked as skipped, if
// it is not finite.
bool open_round_close(struct open_round *r, uint64_t version, size_t *count,
                      struct mean *mean);

#endif
