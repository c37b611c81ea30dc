// SPDX-License-Identifier: Apache-2.0
// kernels/optim.h -- Keras' optimizers over flat f32 ranges.
//
// The formulas, order and defaults are those of Keras 3 (the table is in
// kernels/README.md). An update is applied to a range of elements, so a shard
// can walk the runs of a message as they came from the wire; all runs of one
// update share t.
//
// Threads  Functions of their arguments only: any thread. The caller keeps two
//          applies off the same elements.
// Memory   Nothing is kept. w and slots are aligned f32; grad may lie at any
//          address (it may point into a message).
// Units    Elements. t counts the updates of the shard from 1.
// Errors   Only optim_check can fail.
#ifndef KERNELS_OPTIM_H
#define KERNELS_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define OPTIM_SLOTS_MAX 3

// X(CODE, "keras name")
#define OPTIM_KIND_MAP(X)                                                      \
    X(SGD, "sgd")                                                              \
    X(ADAM, "adam")                                                            \
    X(ADAMW, "adamw")                                                          \
    X(ADAGRAD, "adagrad")                                                      \
    X(RMSPROP, "rmsprop")

enum optim_kind {
    OPTIM_NONE,
#define OPTIM_KIND_ENUM(code, name) OPTIM_##code,
    OPTIM_KIND_MAP(OPTIM_KIND_ENUM)
#undef OPTIM_KIND_ENUM
        OPTIM_KIND_COUNT
};

// An optimizer and its hyperparameters; the learning rate comes in per call.
// Fields that the kind does not use are ignored. Doubles as Keras has them.
struct optim {
    enum optim_kind kind;
    double momentum;            // sgd, rmsprop: 0 means none
    bool nesterov;              // sgd
    bool torch_momentum;        // the velocity is of gradients, and the rate is
                                // multiplied in behind it, as in torch; in
                                // Keras it is of steps
    double beta_1, beta_2;      // adam, adamw
    bool amsgrad;               // adam, adamw
    double rho;                 // rmsprop
    bool centered;              // rmsprop
    double initial_accumulator; // adagrad
    double epsilon;             // all but sgd
    bool torch_epsilon;         // it is added where torch adds it: after the
                                // root, in adam to the corrected one
    double weight_decay;        // decoupled: w -= w wd lr, before; 0: none
    double clipvalue;           // g to [-c, c], first of all; 0: none
};

// Sets *o to Keras' defaults for `kind` (adamw: weight_decay 0.004).
void optim_defaults(struct optim *o, enum optim_kind kind);

// Checks the hyperparameters: SL_EINVAL and which value is out of range.
enum sl_err optim_check(const struct optim *o, struct sl_error *err);

// Returns the name of a kind, "adam"; "?" for OPTIM_NONE.
const char *optim_kind_name(enum optim_kind kind);

// Returns the number of slots that each variable has, each of its size (0..3).
unsigned optim_slots(const struct optim *o);
// Returns what Keras calls slot number `slot` ("momentum", "velocity", ...);
// "?" past the last. Static text.
const char *optim_slot_name(const struct optim *o, unsigned slot);
// Returns what the elements of a slot are before the first update: adagrad's
// initial_accumulator, else 0.
float optim_slot_init(const struct optim *o, unsigned slot);

// Applies update number t (from 1) to n elements: grad is n f32 at any
// address, w and slots[0..optim_slots-1] the same elements of the parameters
// and slots. Order: clipvalue, decay, update. lr is already scheduled.
// n == 0 does nothing. slots may be NULL if there are none.
void optim_apply(const struct optim *o, uint64_t t, double lr, size_t n,
                 const void *grad, float *w, float *const *slots);

// The numbers of one update, as element loops want them: computed in double,
// rounded once.
struct optim_consts {
    float clip;    // largest |g|; INFINITY: none
    float decay;   // w -= w decay: wd lr. Not 1 - wd lr, which f32 rounds
    float lr;      // sgd, adagrad, rmsprop: lr; adam: lr corrected for t
    float a, b;    // sgd, rmsprop: momentum (a); adam: 1 - beta_1, 1 - beta_2;
                   // rmsprop: rho (b); a moving statistic, which has no
                   // optimizer: what is kept of it, what is taken
    float rest;    // rmsprop: 1 - rho
    float epsilon; // adam: after the root; adagrad, rmsprop: within
    float outer;   // adagrad, rmsprop: after it; one of these two is 0
    float far;     // with momentum: times the velocity; lr or this is 1
};

// Computes the constants of update t with the scheduled rate lr. For loops that
// run elsewhere, and for optim_update; optim_apply() does this by itself.
void optim_consts(struct optim_consts *out, const struct optim *o, uint64_t t,
                  double lr);

// Applies an update as optim_apply does, with the constants `k`. They may be of
// another optimizer of the same kind: slots[] are those of *o, and if the other
// one has a momentum, *o has one, too.
void optim_update(const struct optim *o, const struct optim_consts *k, size_t n,
                  const void *grad, float *w, float *const *slots);

#endif
