// SPDX-License-Identifier: Apache-2.0
// state/shard/contributions.h -- the contributions of the open round, held
// until it is whole (train.mode sync).
//
// A round is `most` consecutive closures of one epoch, of one step each, and at
// the end of an epoch fewer; its slots are their places in it, the same on
// every shard (Y1). The open round is that of the first closure which is not
// counted; it is whole when all of it is held but what is counted already, as a
// job has it that was resumed from async. What is held is counted nowhere and
// in no snapshot (Y2): a shard that is loaded begins its open round empty.
//
// The mean is over samples: sum n_i g_i / sum n_i, in f32 and in the order of
// slots, so that it does not depend on who came first. If one of them is to be
// skipped, or the mean is not finite, all are.
//
// Threads  the shard's lock.
// Memory   contributions_release frees; up to `most` times the values of the
//          shard, kept from round to round.
// Units    elements of the shard; closures.
// Errors   SL_ENOMEM; a call that fails has changed nothing.
#ifndef STATE_SHARD_CONTRIBUTIONS_H
#define STATE_SHARD_CONTRIBUTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan/schedule.h"
#include "state/shard/once.h"

#define CONTRIBUTIONS_MOST 1024

struct contributions_slot {
    bool held;
    struct once_step step; // staleness 0
    float *gradient;       // owned; whatever it is of a skip
};

struct contributions {
    uint32_t most; // 0: not sync
    size_t elements;
    uint64_t first; // closure of slot 0 of the round that `slots` are of
    uint32_t held;
    struct contributions_slot *slots; // owned
    struct once_step *steps;          // of the round that was averaged; owned
    struct contributions_past {       // that round, and the values before it
        uint64_t first, version;
        uint32_t count; // 0: none since the shard was loaded
    } past;
};

enum sl_err contributions_init(struct contributions *c, uint32_t most,
                               size_t elements);
void contributions_release(struct contributions *c); // all zeroes is allowed

// The first closure of the round of `closure`, and how many it has.
uint64_t contributions_round(const struct schedule *s, uint32_t most,
                             uint64_t closure, uint32_t *count);

// The open round begins at closure `first`: what was held of another one is
// forgotten.
void contributions_open(struct contributions *c, uint64_t first);

bool contributions_has(const struct contributions *c, uint64_t closure);

// Holds a contribution of the open round that is not held yet. `payload` is
// empty if step->skip.
enum sl_err contributions_hold(struct contributions *c,
                               const struct once_step *step,
                               enum wire_type type,
                               const struct sl_slices *payload);

// The round is whole: makes the *count `steps` of what is held, all skipped if
// one is, and (unless they are) the mean, which lies in a slot until the next
// round. *largest: the samples of the contribution that has the most.
const float *contributions_mean(struct contributions *c, uint32_t *count,
                                uint64_t *largest);

#endif
