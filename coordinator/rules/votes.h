// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/votes.h -- what workers computed of the contributions of
// audited rounds, and which of them computed one wrongly (A2).
//
// A slot is one contribution of an audited round, known by its closure; a vote
// is a worker's result of it. Two votes of the same inputs can be compared: bit
// by bit if they are of one kind of host, since right results then have the
// same bits; by their sketches (plan/sketch.h) if they are of two kinds and
// both have one. A vote is wrong if two others that can be compared with it
// agree against it, and all three are of independent witnesses (witness.h): one
// worker's word, or that of many workers of one host or one certificate, never
// decides.
//
// Sketches agree if they are within the bound, a share of the norm of the
// gradient, or of the norm at which the two kinds were near last (kinds.h) if
// that is larger. Beyond that they differ if these kinds were ever near in this
// job; else rounding may be why, and nothing is said. A vote of another kind
// than both that agree against it is wrong if the same worker's vote is so in
// two of the slots that are kept.
//
// Votes are volatile, and no round waits for one (A3).
//
// Threads  the loop.
// Memory   votes_release frees; at most VOTES_MOST votes for each of four times
//          the slots of a round, then a newer slot takes an older one's place.
//          Names are copied.
// Errors   without memory a vote is left out. No pointer is NULL.
#ifndef COORDINATOR_RULES_VOTES_H
#define COORDINATOR_RULES_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/rules/kinds.h"
#include "plan/sketch.h"
#include "proto/spec.h"

#define VOTES_MOST 4 // votes of a slot; later ones are left out

struct vote {
    char *name;       // of its worker; owned by the slot
    uint64_t witness; // number of its worker as a witness
    // kind of its host; digests of what it was computed from, and of the result
    uint64_t kind, inputs, output;
    struct sketch sketch;
    double bound; // how near sketches of right results are; 0: it has none
};

struct votes_slot {
    uint64_t closure;
    uint32_t count;
    bool compared, differs, decided; // said so once, each
    struct vote list[VOTES_MOST];
};

struct votes {
    struct votes_slot *slots; // owned; NULL: no vote was ever taken
    uint32_t capacity;
    struct kinds kinds;
};

struct votes_result {
    bool compared; // for the first time two votes of the slot can be compared
    bool differs;  // for the first time two of them differ
    bool agrees;   // an independent vote agrees with the one that was taken
    // Independent votes of the slot that differ from it, valid until the next
    // call.
    const struct vote *against[VOTES_MOST];
    uint32_t against_count;
    // The vote that is found wrong, and two that agree against it, valid until
    // the next call; NULL: none is found wrong now.
    const struct vote *wrong, *right[2];
};

// Takes the vote for slot `closure` of worker vote->name (copied), and sets
// *out to what is known by it. `round` is the number of slots in a round of the
// job, not 0, the same with each call. *v is all zeroes before the first call.
// A slot has one wrong vote at most: *out names none once it has. A second vote
// of a worker for the slot, one more than VOTES_MOST, and one of a slot that is
// too old are ignored: *out is then all zeroes, as it is without memory. Notes
// in v->kinds which kinds of host were near.
void votes_take(struct votes *v, uint32_t round, uint64_t closure,
                const struct vote *vote, struct votes_result *out);

// Returns true if the n votes (at most WITNESS_MOST) are of independent
// witnesses; each pair differs in party and in host.
bool votes_independent(const struct vote *const *votes, uint32_t n);

// Returns how far sketches of right results may be apart (vote.bound), in a job
// that computes in `precision`, as a share of the gradient's norm: more for
// bf16 and f16 than for the others.
double votes_bound(enum spec_precision precision);

// Returns true if vote x is wrong by A2: a and b agree, x differs from both,
// and all three are of independent witnesses. `kinds` are the job's kinds that
// were near.
bool votes_outvoted(const struct kinds *kinds, const struct vote *x,
                    const struct vote *a, const struct vote *b);

// Frees all votes and leaves *v all zeroes, which is allowed, too.
void votes_release(struct votes *v);

#endif
