// SPDX-License-Identifier: Apache-2.0
// kernels/optim_loops.h -- the element loops of the optimizers, per
// instruction set.
//
// Constants that hold for one call are computed in double by optim.c and
// passed here as f32. Formulas: kernels/README.md.
//
// Threads  functions of their arguments; any.
// Memory   g: any address. w and slots: aligned f32, not overlapping g.
#ifndef KERNELS_OPTIM_LOOPS_H
#define KERNELS_OPTIM_LOOPS_H

#include <stddef.h>

// What every optimizer does to g and w first, then its own constants.
struct optim_call {
    size_t n;
    const void *grad;
    float *w, *slot[3];
    float clip;  // of |g|; INFINITY: none
    float decay; // w -= w decay: wd lr. Not 1 - wd lr, which f32 rounds
    float lr;    // sgd, adagrad, rmsprop: lr; adam: lr corrected for t
    float a, b;  // sgd, rmsprop: momentum (a); adam: 1 - beta_1, 1 - beta_2;
                 // rmsprop: rho (b)
    float rest;  // rmsprop: 1 - rho
    float epsilon;
};

typedef void (*optim_loop)(const struct optim_call *c);

// One table per instruction set. rmsprop has four: [centered][momentum].
struct optim_loops {
    optim_loop sgd, sgd_momentum, sgd_nesterov;
    optim_loop adam, adam_amsgrad;
    optim_loop adagrad;
    optim_loop rmsprop[2][2];
};

extern const struct optim_loops optim_loops_base, optim_loops_avx2,
    optim_loops_avx512;

#endif
