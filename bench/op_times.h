// SPDX-License-Identifier: Apache-2.0
// bench/op_times.h -- how long each operation of a program takes.
//
// Runs a program as program_run does, but one operation at a time with a look
// at the clock between two (25 ns). Medians over the steps, so that what
// interrupts one of them does not count.
//
// Threads  one at a time.
// Memory   op_times_free; the program and the model outlive it.
// Units    milliseconds.
// Errors   ends the program (program.h).
#ifndef BENCH_OP_TIMES_H
#define BENCH_OP_TIMES_H

#include "proto/model.h"
#include "worker/compile/program.h"

struct op_times;

struct op_times *op_times_new(struct program *program,
                              const struct model *model, unsigned steps_most);

// Runs the program; steps beyond the most are not noted.
void op_times_step(struct op_times *t, const struct program_io *io);

// [{"pass": "forward", "op": ..., "layer": ..., "ms": ...}, ...]
void op_times_print(const struct op_times *t);

// Returns the part of the step that op i belongs to, a static text: "forward",
// "backward", or "backward, weights" if it writes a variable's gradient.
const char *op_times_pass(const struct program *p, uint32_t i);

void op_times_free(struct op_times *t);

#endif
