// SPDX-License-Identifier: Apache-2.0
// trainer/base/nonfinite.h -- the rule for steps whose loss or gradient is not
// finite: train.nonfinite and train.max_nonfinite.
//
// Such a step changes no parameter (but where ranges of its gradient are sent
// one by one, steps_whole, the finite ones are applied). With `skip` it is
// counted all the same, or it would be tried for ever; too many in a row fail
// the job. With `fail` the first one fails the job.
//
// Threads  the thread that computes; the figures are of the process.
// Memory   values.
// Units    steps; in a ring, rounds.
// Errors   SL_ENUMERIC fails the job; its text says what to do. It lengthens
//          the row all the same. `err` may be NULL.
#ifndef TRAINER_BASE_NONFINITE_H
#define TRAINER_BASE_NONFINITE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/spec.h"

// What a job has of the rule, from one closure to the next.
struct nonfinite {
    bool skip;     // train.nonfinite: skip
    uint32_t most; // train.max_nonfinite: more steps in a row fail; 0: no limit
    uint32_t row;  // such steps in a row so far
};

// A step that is not finite.
struct nonfinite_step {
    uint64_t closure;
    uint32_t step;
    bool round;          // it is a round: `closure` and `step` name its first
    const char *strange; // sample that is not finite; "": unknown; not NULL
};

// Returns the rule of a job with `train`; no step was judged so far.
struct nonfinite nonfinite_rule(const Sluice__V1__TrainSpec *train);

// Judges a step that is not finite, once: adds it to the row and counts it in
// sluice_nonfinite_gradients_total. Returns SL_OK if the step is skipped;
// SL_ENUMERIC, with a text, if the job has to fail: it does not skip, or more
// than `most` steps in a row, this one too, were not finite.
enum sl_err nonfinite_judge(struct nonfinite *n, const struct nonfinite_step *s,
                            struct sl_error *err);

// Counts a step that is not finite because its loss scale was too large; such a
// step is not judged by train.nonfinite.
void nonfinite_scaled(void);

// Notes a step that is finite: it ends the row.
static inline void nonfinite_end_row(struct nonfinite *n)
{
    n->row = 0;
}

#endif
