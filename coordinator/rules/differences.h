// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/differences.h -- results of audited slots that differed, of
// all rounds of a job, and the worker that is wrong by them (A6).
//
// A slot is one contribution of an audited round, known by its closure. Two
// results of a slot that can be compared (votes.h) and differ say that one of
// two workers is wrong, not which. Slots go to other pairs of workers in other
// rounds. A worker is wrong if it differed from two others, all three of
// independent witnesses, and the word of both others stands: neither of them
// differed from one that is independent of the accused worker.
//
// While at most one host is wrong, a right worker differed from that host
// alone, so it is never accused. Where two hosts are wrong, a right one is
// accused only if it alone has met the wrong results of both.
//
// Differences are volatile, like votes (A3).
//
// Threads  the loop.
// Memory   differences_release frees; all zeroes is allowed, and is how *d
//          begins. Room for DIFFERENCES_MOST is allocated with the first one.
//          Names are copied. The pointers of a proof hold until the next call
//          that changes *d.
// Errors   without memory a difference is left out. No pointer is NULL.
#ifndef COORDINATOR_RULES_DIFFERENCES_H
#define COORDINATOR_RULES_DIFFERENCES_H

#include "coordinator/rules/votes.h"

// Pairs of workers, of each the newest difference; a newer pair takes the place
// of the oldest one.
#define DIFFERENCES_MOST 64

struct difference {
    uint64_t closure;
    struct vote sides[2]; // their names are owned
};

struct differences {
    struct difference *list; // owned, oldest first; NULL: there was never one
    uint32_t count;
};

// What shows that a worker is wrong: what it said of two slots, which are one
// slot where A2 decides, and what others said of them.
struct differences_proof {
    uint64_t closure[2]; // the two slots
    // what the accused worker said of each slot, and another worker
    const struct vote *wrong[2], *right[2];
};

// Adds the difference that two independent workers got different results `a`
// and `b` of slot `closure`, in place of an older one of the same two workers;
// if there are DIFFERENCES_MOST, in place of the oldest. *a and *b are copied.
void differences_note(struct differences *d, uint64_t closure,
                      const struct vote *a, const struct vote *b);

// Returns true if a worker is wrong by the noted differences (A6), and sets
// *out to the first proof found; else false, with *out as it was. Changes
// nothing: a second call finds the same one, until differences_forget.
bool differences_judge(const struct differences *d,
                       struct differences_proof *out);

// Removes all differences that the worker `name`, which was found wrong, is a
// side of: they say nothing of others, nor of what it computes once it is
// repaired. `name` may be that of a proof; the pointers of the proof are
// invalid afterwards.
void differences_forget(struct differences *d, const char *name);

// Frees all differences and leaves *d empty: all zeroes.
void differences_release(struct differences *d);

#endif
