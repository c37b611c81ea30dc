// SPDX-License-Identifier: Apache-2.0
// kernels/optim.h -- one update of Keras' optimizers over flat f32 ranges.
//
// The formulas and their order are those of Keras 3 (the table is in
// kernels/README.md); plan/optimizer.h has the hyperparameters. An
// update is applied to a range of elements, so a shard can walk the runs of a
// message as they came from the wire; all runs of one update share t.
//
// Threads  Functions of their arguments only: any thread. The caller keeps two
//          applies off the same elements.
// Memory   Nothing is kept. w and slots are aligned f32; grad may lie at any
//          address (it may point into a message), but does not overlap them.
// Units    Elements. t counts the updates of the shard from 1.
// Errors   None.
#ifndef KERNELS_OPTIM_H
#define KERNELS_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "plan/optimizer.h"

// Applies update number t (from 1) of optimizer *o to n elements. `grad` is n
// f32 at any address; `w` and slots[0..optim_slots-1] are the same elements of
// the parameters and slots, and are changed. `lr` is the rate of this update.
// In this order: clipvalue, weight decay, update. n == 0 and OPTIM_NONE do
// nothing, and so does an optimizer whose updates are of whole variables
// (optim_whole). `slots` may be NULL if there are none.
void optim_apply(const struct optim *o, uint64_t t, double lr, size_t n,
                 const void *grad, float *w, float *const *slots);

// The numbers of one update, as element loops want them: computed in double,
// rounded once.
struct optim_consts {
    float clip;  // largest |g|; INFINITY: none
    float decay; // w -= w decay: wd lr. Not 1 - wd lr, which f32 rounds
    float lr;    // the rate; adam, adamax, nadam: corrected for t; 1 with
                 // torch_momentum
    float a;     // sgd, rmsprop, muon: momentum; adam, adamax, nadam, lamb: 1 -
                 // beta_1; lion: beta_1; a moving statistic, which has no
                 // optimizer: what is kept of it
    float b; // sgd with a delay: 1 / delay; rmsprop: rho; adam, nadam, lamb:
             // 1 - beta_2; adamax, lion: beta_2; muon: what the direction has
             // of the momentum; a moving statistic: what is taken
    float rest; // rmsprop: 1 - rho; lion: 1 - beta_2; lamb: correction of
                // v; muon: what the direction has of the gradient; sgd with a
                // delay: 1 if the velocity changes with this update, else 0
    float epsilon; // adam, nadam, lamb: after the root; adagrad, rmsprop:
                   // within it; adamax: added to the divisor
    float outer;   // adagrad, rmsprop: epsilon after the root; adamax: epsilon
                   // added to each |g|. Set with torch_epsilon, and `epsilon`
                   // without: the other one is 0. lion: 1 - beta_1; muon:
                   // rms_rate
    float far; // lamb: correction of m; sgd, rmsprop: times the velocity, the
               // rate with torch_momentum, else 1; nadam: rate of the gradient
};

// Computes the constants of update t, from 1, with the scheduled rate lr. They
// are for loops that run elsewhere, and for optim_update; optim_apply() does
// this by itself.
void optim_consts(struct optim_consts *out, const struct optim *o, uint64_t t,
                  double lr);

// Applies an update as optim_apply does, with the constants *k of optim_consts.
// They may be of another optimizer of the same kind: slots[] are those of *o,
// and if the other one has a momentum, *o has one, too. Does nothing where
// optim_apply does nothing.
void optim_update(const struct optim *o, const struct optim_consts *k, size_t n,
                  const void *grad, float *w, float *const *slots);

// Applies an update to a whole variable of rows * cols elements, row-major, by
// an optimizer that optim_is_whole: changes `w` and the slots. `grad` holds its
// gradient before, and nothing of use afterwards. Does nothing for another
// optimizer, or without elements. `space` has optim_whole_space() floats, and
// may be NULL if that is 0. With muon the variable is a matrix. lamb: arXiv
// 1904.00962, each step has the length of the variable; muon: arXiv 2502.16982,
// the step is about the orthogonal matrix nearest to the momentum, made by five
// Newton-Schulz iterations. Both as Keras has them.
void optim_whole(const struct optim *o, const struct optim_consts *k,
                 size_t rows, size_t cols, float *grad, float *w,
                 float *const *slots, float *space);

// Returns the floats that optim_whole() wants beside the gradient; 0 unless it
// is muon without elementwise.
size_t optim_whole_space(const struct optim *o, size_t rows, size_t cols);

#endif
