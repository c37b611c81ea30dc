// SPDX-License-Identifier: Apache-2.0
// tests/sim/books.h -- what the coordinator's journal says, read beside it.
#ifndef TESTS_SIM_BOOKS_H
#define TESTS_SIM_BOOKS_H

#include "tests/sim/sim.h"

// Checks that an incarnation that is told is in the journal, as the shard's
// newest (I1).
void books_check_admit(struct sim *s, uint32_t shard, uint64_t incarnation);

// Checks that the end of the job, which is told, is in the journal (E2).
void books_check_ended(struct sim *s);

// Returns the watermark of a cut (C4), and checks that it is published.
uint64_t books_low(struct sim *s, uint64_t cut);

// The intents that are open when a coordinator starts (K6).
struct books_intents {
    unsigned count;
    uint64_t cut[8]; // numbers of the cuts
    bool there[8];   // its manifest exists
};

// Sets *out to the intents that are open now; none without a job.
void books_intents(struct sim *s, struct books_intents *out);

// Checks that a coordinator which is up has published those of *before that had
// a manifest, and aborted the others.
void books_check_settled(struct sim *s, const struct books_intents *before);

#endif
