// SPDX-License-Identifier: Apache-2.0
// tests/sim/books.h -- what the coordinator's journal says, read beside it.
#ifndef TESTS_SIM_BOOKS_H
#define TESTS_SIM_BOOKS_H

#include "tests/sim/sim.h"

// What was told is in the journal: I1, an incarnation; E2, the end of the job.
void books_check_admit(struct sim *s, uint32_t shard, uint64_t incarnation);
void books_check_ended(struct sim *s);

// C4: the watermark of a published cut.
uint64_t books_low(struct sim *s, uint64_t cut);

// K6: which intents are open when a coordinator starts, and whether their
// manifests are there; what became of them once it is up.
struct books_intents {
    unsigned count;
    uint64_t cut[8];
    bool there[8];
};
void books_intents(struct sim *s, struct books_intents *out);
void books_check_settled(struct sim *s, const struct books_intents *before);

#endif
