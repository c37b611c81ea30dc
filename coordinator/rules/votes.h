// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/votes.h -- what workers computed of the contributions of
// audited rounds, and which of them computed one wrongly (A2).
//
// A vote is a worker's result of a slot. Two votes can be compared if they are
// of one kind of host and of the same inputs: right results then have the same
// bits. A vote is wrong if two others that can be compared with it agree
// against it, and all three are of independent witnesses (witness.h): one
// worker's word, or that of many workers of one host or one certificate, never
// decides.
//
// Votes are volatile, and no round waits for one (A3).
//
// Threads  the loop.
// Memory   votes_release frees; at most VOTES_MOST votes for each of four times
//          the slots of a round, then a newer slot takes an older one's place.
//          Names are copied.
// Errors   without memory a vote is left out.
#ifndef COORDINATOR_RULES_VOTES_H
#define COORDINATOR_RULES_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#define VOTES_MOST 4 // votes of a slot; later ones are left out

struct vote {
    char *name;       // of its worker; owned by the slot
    uint64_t witness; // number of its worker as a witness
    uint64_t kind, inputs, output;
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
};

struct votes_result {
    bool compared; // the slot's first votes that can be compared are there
    bool differs;  // it is the first time that two of them differ
    bool agrees;   // an independent vote agrees with the one that was taken
    // Independent votes of the slot that differ from it, valid likewise.
    const struct vote *against[VOTES_MOST];
    uint32_t against_count;
    // The vote that is found wrong, and two that agree against it, valid until
    // the next call; NULL: none is found wrong now.
    const struct vote *wrong, *right[2];
};

// Takes the vote for slot `closure` of worker vote->name, and says what is
// known by it. `round` is the slots of a round of the job, not 0, and the same
// with each call. A second vote of a worker, one too many, and one of a slot
// that is too old are ignored: *out is all zeroes.
void votes_take(struct votes *v, uint32_t round, uint64_t closure,
                const struct vote *vote, struct votes_result *out);

// Returns true if the n votes are of independent witnesses.
bool votes_independent(const struct vote *const *votes, uint32_t n);
// Returns true if x is wrong by a and b, which agree against it (A2).
bool votes_outvoted(const struct vote *x, const struct vote *a,
                    const struct vote *b);

void votes_release(struct votes *v); // all zeroes is allowed, and left

#endif
