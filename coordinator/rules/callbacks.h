// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/callbacks.h -- what a job does as evaluations come in.
//
// Keras' EarlyStopping, ReduceLROnPlateau and ModelCheckpoint(save_best_only),
// with an evaluation where the end of an epoch stands there. A judgement is a
// function of where they stand and of one evaluation, and of nothing else: the
// coordinator journals both in one transaction, so that whoever is killed
// before or after it comes to the same (D2).
//
// A value that is missing is passed over, as there. One that is not finite is
// never an improvement; in Keras the first one would be the best for ever.
//
// Threads  pure.
// Memory   values.
// Units    steps counted on every shard; rates as in OptimizerSpec.
#ifndef COORDINATOR_RULES_CALLBACKS_H
#define COORDINATOR_RULES_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/plan/rates.h"
#include "proto/spec.h"

// The best that one of them has seen.
struct callbacks_best {
    bool has;
    double value;
    uint64_t steps, cut; // of that evaluation
};

struct callbacks {
    struct {
        struct callbacks_best best;
        uint32_t wait; // evaluations without an improvement
        bool stopped;
    } early;
    struct {
        struct callbacks_best best;
        uint32_t wait, cooldown;
        double rate; // in force
    } plateau;
    struct callbacks_best best;
    struct rates rates;
};

// One evaluation.
struct callbacks_seen {
    uint64_t steps, cut;
    uint32_t epoch;          // that it falls into, from 0
    uint64_t next;           // closures below it are counted, and no others
    bool has[SPEC_MONITORS]; // there is a value
    double value[SPEC_MONITORS];
};

// Before the first one.
void callbacks_begin(struct callbacks *c, double rate);

// *c after it. True: the learning rate was reduced, from seen->next on.
bool callbacks_judge(struct callbacks *c, const struct spec_callbacks *rule,
                     const struct callbacks_seen *seen);

// The cut that the job ends with, instead of its last one; 0: its last one.
uint64_t callbacks_restores(const struct callbacks *c,
                            const struct spec_callbacks *rule);

// Is this cut kept, whatever else is?
bool callbacks_keeps(const struct callbacks *c,
                     const struct spec_callbacks *rule, uint64_t cut);

#endif
