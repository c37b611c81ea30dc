// SPDX-License-Identifier: Apache-2.0
// bench/plan_notes.h -- remembers which op each plan of a device computes.
//
// A plan does not tell its descriptor. From plan_notes_begin on, the device
// makes its plans through a backend that is the device's own but for one
// function, which notes the descriptor beside the plan.
//
// Threads  the device's; one device per process.
// Memory   notes are never freed.
// Errors   none of its own; those of planning pass through.
#ifndef BENCH_PLAN_NOTES_H
#define BENCH_PLAN_NOTES_H

#include "kernels/kern.h"

// Begins to note plans of `dev`, before the first one is made.
void plan_notes_begin(struct kern_dev *dev);

// Returns the descriptor that `plan` was made from; NULL if it was not noted.
const struct kern_desc *plan_notes_desc(const struct kern_plan *plan);

#endif
