// SPDX-License-Identifier: Apache-2.0
// kernels/optim_loops.h -- the element loops of the optimizers, per
// instruction set.
//
// Constants that hold for one call are computed in double by optim.c and
// passed here as f32. Formulas: kernels/README.md.
//
// Threads  functions of their arguments; any.
// Memory   g: any address. w and slots: aligned f32, not overlapping g.
// Errors   none; n 0 does nothing.
#ifndef KERNELS_OPTIM_LOOPS_H
#define KERNELS_OPTIM_LOOPS_H

#include "kernels/optim.h"

struct optim_call {
    size_t n;
    const void *grad;
    float *w, *slot[OPTIM_SLOTS_MAX];
    float *direction; // WHOLE rules: what the loop makes; it may lie at `grad`
    struct optim_consts k;
};

// Applies one rule to the c->n elements: changes `w` and the slots. A WHOLE
// rule only decays `w`, and writes c->direction.
typedef void (*optim_loop)(const struct optim_call *c);

// One table per instruction set. Matrices are row-major, and sums have the same
// order in all tables, so the same bits.
struct optim_loops {
    optim_loop loop[OPTIM_RULES];
    // Sets out [rows, rows] to x times its transpose; x is [rows, cols].
    void (*gram)(const float *x, size_t rows, size_t cols, float *out);
    // Sets out [rows, cols] to scale x + factor m x, of m [rows, rows] and x
    // [rows, cols].
    void (*product)(const float *m, const float *x, size_t rows, size_t cols,
                    float scale, float factor, float *out);
};

// Returns the loops for the widest instructions that this host has.
const struct optim_loops *optim_host_loops(void);

// The last two are there on x86-64 alone.
extern const struct optim_loops optim_loops_base, optim_loops_avx2,
    optim_loops_avx512;

#endif
