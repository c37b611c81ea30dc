// SPDX-License-Identifier: Apache-2.0
// trainer/lease/repeats.h -- audited rounds: which slots a lease computes, and
// what is said of each (A1).
//
// In an audited round (plan/audited.h) the worker computes the next slots of
// the round before its own, from the parameters that it computes its own from.
// For each it notes the digest of the gradient, as it would send it, and a
// sketch of it. Digests can be compared where `kind` and `inputs` are equal:
// all that decides the bits is equal then. Sketches can be compared where
// `inputs` are.
//
// In mode async no other worker has the parameters of a step: in an audited
// closure the worker computes each step twice itself, and a step of which the
// results differ is not sent (A5).
//
// Where a step has rows of sparse tables, those that it pulled are among its
// inputs, and their gradients are part of its gradient.
//
// Threads  the thread that computes.
// Memory   values; the tables are borrowed; results are noted in the lease's
//          outcome.
// Errors   none.
#ifndef TRAINER_LEASE_REPEATS_H
#define TRAINER_LEASE_REPEATS_H

#include "trainer/lease/lease.h"
#include "trainer/push/job_tables.h"

struct repeats {
    uint64_t slots[AUDITED_WORKERS]; // own first, then those repeated
    uint32_t count;                  // 0: the round is not audited
    bool twice;                      // slots: its own, two times
    uint64_t inputs; // digest of the parameters, and of what goes with them
    const struct job_tables *tables; // set by the caller; NULL: there are none
};

// Sets *r to the slots that training lease `l` has to compute in its round, and
// clears the results in the lease; leaves r->tables. r->count is 0 if the round
// is not audited. To be called before each of its steps.
void repeats_begin(struct repeats *r, struct lease *l);

// Sets r->inputs to the digest of the `n` parameters, which are all fresh, and
// of `with`, a number for what else a gradient depends on, such as the loss
// scale.
void repeats_inputs(struct repeats *r, uint64_t with, const float *params,
                    size_t n);

// Notes the result of a slot: a gradient of `n` elements, with that of its rows
// (job_tables_pack); NULL: it is not finite. `kind` is equal where the same
// inputs give the same bits. Does nothing if the round is not audited, or
// AUDITED_WORKERS results are noted.
void repeats_note(const struct repeats *r, struct lease *l, uint64_t kind,
                  uint64_t closure, const float *gradient, size_t n);

// Returns true if there are two results of a step, which can be compared and
// differ: one of them is wrong. `two` has `count` results.
bool repeats_two_differ(const struct lease_repeat *two, uint32_t count);

// Returns true if the step was computed twice, and its two results can be
// compared and differ: one of them is wrong.
bool repeats_differ(const struct repeats *r, const struct lease *l);

// Sets *to to the message that tells a result; it borrows the sketch.
void repeats_say(Sluice__V1__Repeat *to, struct lease_repeat *from);

#endif
