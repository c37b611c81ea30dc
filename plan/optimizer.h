// SPDX-License-Identifier: Apache-2.0
// plan/optimizer.h -- which optimizers there are, and what each keeps.
// kernels/optim.h applies them.
//
// optimizers.def has a row for each; all that follows is made of its rows.
//
// Threads  Functions of their arguments only: any thread.
// Memory   Nothing is kept; names are static text.
// Units    Elements of a parameter; a slot has as many.
// Errors   Only optim_check can fail. No pointer is NULL but `err`, which may
//          be.
#ifndef PLAN_OPTIMIZER_H
#define PLAN_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define OPTIM_SLOTS_MAX 3

enum optim_kind {
    OPTIM_NONE,
#define OPTIMIZER(code, ...) OPTIM_##code,
#include "plan/optimizers.def"
    OPTIM_KIND_COUNT
};

// What is done with each element: an optimizer has one rule for each choice of
// hyperparameters that needs a loop of its own.
enum optim_rule {
#define RULE(name, ...) OPTIM_RULE_##name,
#define WHOLE(name, ...) OPTIM_RULE_##name,
#include "plan/optimizers.def"
    OPTIM_RULES
};

// An optimizer and its hyperparameters; the learning rate comes in per call.
// Fields that the kind does not use are ignored. Doubles as Keras has them.
struct optim {
    enum optim_kind kind;
    double momentum;            // sgd, rmsprop, muon: 0 means none
    bool nesterov;              // sgd, muon
    uint32_t delay;             // sgd with nesterov: updates of one change of
                                // the velocity; 0 and 1: each changes it
    bool torch_momentum;        // the velocity is of gradients, and the rate is
                                // multiplied in behind it, as in torch; in
                                // Keras it is of steps
    double beta_1, beta_2;      // adam, adamw, adamax, nadam, lion, lamb;
                                // muon's adamw
    bool amsgrad;               // adam, adamw
    double rho;                 // rmsprop
    bool centered;              // rmsprop
    double initial_accumulator; // adagrad
    double epsilon;             // all but sgd and lion; muon's adamw
    bool torch_epsilon;         // it is added where torch adds it: after the
                                // root, in adam to the corrected one
    double rms_rate;            // muon: times the root of the longer side; 0:
                                // the step is the rate alone
    bool elementwise;           // muon: adamw's formula, which is that of all
                                // variables but matrices
    double weight_decay;        // decoupled: w -= w wd lr, before; 0: none
    double clipvalue;           // g to [-c, c], first of all; 0: none
};

// Sets all of *o to Keras' defaults for `kind`, one below OPTIM_KIND_COUNT
// (adamw and muon: weight_decay 0.004).
void optim_defaults(struct optim *o, enum optim_kind kind);

// Checks the kind, and the range of each number but `delay`, also of those that
// the kind does not use: momentum and rho in [0, 1], the betas in [0, 1), all
// others 0 or more and finite. SL_EINVAL says which value is out of range; no
// other error.
enum sl_err optim_check(const struct optim *o, struct sl_error *err);

// Returns the name of a kind, "adam"; "?" for OPTIM_NONE and for numbers of no
// kind. Never NULL.
const char *optim_kind_name(enum optim_kind kind);

// Returns the rule by which an update of `o` is computed; OPTIM_RULES, which is
// none, for OPTIM_NONE and unknown kinds.
enum optim_rule optim_rule(const struct optim *o);

// Returns whether an update of an element depends on the other elements of its
// variable: such a variable is never cut, and optim_whole applies it.
bool optim_is_whole(const struct optim *o);
// Returns the same of a rule.
bool optim_rule_is_whole(enum optim_rule rule);

// Returns the number of slots (vectors of state, each of the variable's size)
// that the optimizer keeps for each variable: 0 to 3; 0 for a kind that is
// none.
unsigned optim_slots(const struct optim *o);
// Returns the same of a rule, at most OPTIM_RULES.
unsigned optim_rule_slots(enum optim_rule rule);
// Returns what Keras calls slot number `slot` ("momentum", "velocity", ...);
// "?" past the last. Static text.
const char *optim_slot_name(const struct optim *o, unsigned slot);
// Returns the value that all elements of slot number `slot`, below optim_slots,
// have before the first update: adagrad's initial_accumulator, else 0.
float optim_slot_init(const struct optim *o, unsigned slot);

#endif
