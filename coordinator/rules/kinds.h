// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/kinds.h -- the kinds of host whose results of a job's
// contributions are as near as rounding makes right ones (A2).
//
// A kind is a number: hosts of one kind get the same bits of the same inputs.
// The bound of two sketches is a share of the gradient's norm. Where almost
// nothing is left to learn the gradient is what rounding leaves of larger
// numbers, and right results of two kinds are as far apart as they are long.
// What rounding makes of a contribution falls no faster than that with the
// parameters, so the norm at which two kinds were near each other last is the
// scale of what they may differ by. Kinds that were never near have none.
//
// Threads  the loop.
// Memory   values; a newer pair takes the place of the oldest of KINDS_MOST.
// Errors   none. No pointer is NULL.
#ifndef COORDINATOR_RULES_KINDS_H
#define COORDINATOR_RULES_KINDS_H

#include <stdint.h>

#define KINDS_MOST 64 // pairs of kinds

// All zeroes: no two kinds were ever near.
struct kinds {
    struct kinds_pair {
        uint64_t kinds[2];
        double norm;
    } list[KINDS_MOST];
    uint32_t count, next;
};

// Notes that results of the two kinds of host `a` and `b` were near each other
// at that norm, above 0, in place of the norm that is kept of the two.
void kinds_note(struct kinds *k, uint64_t a, uint64_t b, double norm);

// Returns the norm at which results of the two kinds were near each other last;
// 0: they never were.
double kinds_norm(const struct kinds *k, uint64_t a, uint64_t b);

#endif
