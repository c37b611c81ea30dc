// SPDX-License-Identifier: Apache-2.0
// plan/part_cut.h -- within part*.c only: where the flat vector may be
// cut.
//
// Cuts may lie at the boundaries of parts: the parts that a rule cuts a
// variable into, a row each for PART_AUTO, one for a `whole` variable. Threads,
// memory and errors are as in part.h.
#ifndef PLAN_PART_CUT_H
#define PLAN_PART_CUT_H

#include "plan/part.h"

struct part_cutter {
    const struct part_var *vars; // borrowed
    size_t count;                // number of variables
    uint64_t *first; // owned: count + 1 offsets of variables, in elements
    uint64_t *parts; // owned: parts of each variable
};

// Checks variables and rule (part_count), and computes *c from them; `vars` is
// borrowed until the release. SL_EINVAL names what is wrong, also a `count` of
// 0 or above PART_MAX_VARIABLES; SL_ENOMEM. After a failure there is nothing to
// release.
enum sl_err part_cutter_init(struct part_cutter *c, const struct part_var *vars,
                             size_t count, const struct part_rule *rule,
                             struct sl_error *err);
// Frees the arrays and leaves *c all zeroes, which is allowed.
void part_cutter_release(struct part_cutter *c);

// Returns the number of elements of all variables.
uint64_t part_cutter_elements(const struct part_cutter *c);

// Returns the index of the variable in which element `e`, below
// part_cutter_elements, lies.
size_t part_cutter_variable(const struct part_cutter *c, uint64_t e);

// Sets *cut to the boundary of a part that lies strictly between elements lo
// and hi and is nearest to `ideal`, an element between them, ties to the lower
// one, and returns true.
// Returns false if there is none, and *cut is then untouched.
bool part_cutter_pick(const struct part_cutter *c, uint64_t lo, uint64_t hi,
                      uint64_t ideal, uint64_t *cut);

#endif
