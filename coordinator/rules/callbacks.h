// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/callbacks.h -- what a job does as evaluations come in.
//
// Keras' EarlyStopping, ReduceLROnPlateau and ModelCheckpoint(save_best_only),
// with an evaluation where the end of an epoch stands there. A judgement
// depends on the callbacks' state and on one evaluation, and on nothing else:
// the coordinator journals both in one transaction, so that a coordinator
// killed before or after it comes to the same judgement (D2).
//
// An evaluation that lacks the monitored value is passed over, as in Keras. A
// value that is not finite is never an improvement; in Keras the first one
// would be the best for ever.
//
// Threads  pure; nothing fails.
// Memory   values; what is passed is borrowed for the call. No pointer is NULL.
// Units    steps counted on every shard; rates as in OptimizerSpec.
#ifndef COORDINATOR_RULES_CALLBACKS_H
#define COORDINATOR_RULES_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/rates.h"
#include "proto/spec.h"

// The best value that one callback has seen.
struct callbacks_best {
    bool has;
    double value;
    uint64_t steps, cut; // the steps and the cut of its evaluation
};

struct callbacks {
    struct {
        struct callbacks_best best;
        // evaluations since the last improvement that beat the baseline as well
        uint32_t wait;
        bool stopped; // it ends the job
    } early;
    struct {
        struct callbacks_best best;
        // evaluations: since the last improvement; left of the pause after a
        // reduction, in which `wait` stays 0
        uint32_t wait, cooldown;
        double rate; // learning rate in force
    } plateau;
    struct callbacks_best best; // ModelCheckpoint's
    struct rates rates;         // the last RATES_MAX reduced ones, by closure
};

// One evaluation.
struct callbacks_seen {
    uint64_t steps, cut;
    uint32_t epoch; // the epoch that the evaluation falls into, from 0
    uint64_t next;  // every closure below `next` is counted, none from it on
    bool has[SPEC_MONITORS]; // whether `value` holds this monitor
    double value[SPEC_MONITORS];
};

// Sets *c to the state before any evaluation; `rate` is the learning rate in
// force. *c need not be initialized, and has nothing to free.
void callbacks_begin(struct callbacks *c, double rate);

// Takes one evaluation, newer than those taken before, into *c. `rule` is the
// job's callbacks as its spec has them; one that is not on does nothing, and
// early stopping does nothing before its first epoch. Returns true if it
// reduced the learning rate, for the closures from seen->next on, which it does
// only while the rate is above the rule's least: the new rate is
// c->plateau.rate, and the last of c->rates. Whether the job is to end is in
// c->early.stopped, which stays true.
bool callbacks_judge(struct callbacks *c, const struct spec_callbacks *rule,
                     const struct callbacks_seen *seen);

// Returns the number of the cut that the job ends with: that of early.best if
// the rule restores it, also where nothing stopped the job early; 0 stands for
// the last cut.
uint64_t callbacks_restores(const struct callbacks *c,
                            const struct spec_callbacks *rule);

// Returns true if a callback needs `cut`, which is not 0: it is the one to
// restore (callbacks_restores), or ModelCheckpoint's best. Such a cut must not
// be pruned.
bool callbacks_keeps(const struct callbacks *c,
                     const struct spec_callbacks *rule, uint64_t cut);

#endif
