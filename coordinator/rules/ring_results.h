// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/ring_results.h -- results that ranks report of audited
// rounds, until the round is counted (A1).
//
// A slot is one contribution of a round. Which slots a rank was to compute
// follows from the keys of the round, and these are known when the round is
// counted. So its results are held until then; those of other slots are
// dropped, and the rest are due.
//
//   ring_results_hold -> ring_results_open -> ring_results_due
//
// Threads  the loop.
// Memory   ring_results_forget frees; results of RING_RESULTS_MOST rounds of
//          each rank at most. Messages are borrowed for the call; no pointer is
//          NULL.
// Errors   without memory results are left out.
#ifndef COORDINATOR_RULES_RING_RESULTS_H
#define COORDINATOR_RULES_RING_RESULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/rules/ring.h"
#include "plan/round.h"

#define RING_RESULTS_MOST 8 // rounds of a rank; more are left out

// What one rank computed of one round.
struct ring_result {
    struct ring_result *next;
    uint64_t member;
    uint64_t round;       // rounds before it
    uint32_t self, ranks; // index in the generation, and its ranks
    bool open;            // the round is counted
    size_t count;
    Sluice__V1__Repeat list[]; // the repeats' sketches lie behind it
};

// All zeroes: nothing is held.
struct ring_results {
    struct ring_result *held; // owned, newest first; NULL: none
};

// Keeps a copy of the results that `member` (struct member.id) of the running
// generation of `ring` reports of the last round that it applied:
// message->sequence, 1 or more, is the number of rounds with that one. Ignores
// a process that is not a member, and one of which RING_RESULTS_MOST results
// are kept. Of a sketch of another length than SKETCH_NUMBERS nothing is kept.
void ring_results_hold(struct ring_results *r, const struct ring *ring,
                       uint64_t member, const Sluice__V1__RingStep *message);

// Marks the kept results of the round that follows the first `round` rounds as
// due, since it is counted, and drops those of slots that their ranks were not
// to compute (A1); a rank's result without any left is due as well. `keys` are
// the `count` keys of the round's slots, in order.
void ring_results_open(struct ring_results *r, uint64_t round,
                       const struct round_key *keys, uint32_t count);

// Takes one result that is due out of r and returns it, to be freed by sl_free,
// with its list; NULL: none is due. Called until then.
struct ring_result *ring_results_due(struct ring_results *r);

// Frees all results and leaves *r all zeroes, since another generation is
// opened or the job is over.
void ring_results_forget(struct ring_results *r);

#endif
