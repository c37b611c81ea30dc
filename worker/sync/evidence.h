// SPDX-License-Identifier: Apache-2.0
// worker/sync/evidence.h -- what shards said they have counted of one closure.
//
// Evidence is per (shard, incarnation) (W1): it begins with the answer to an
// Ask, grows by the answers to pushes, and is void as soon as the shard speaks
// as, or the map names, another incarnation. A completion names the
// incarnations that the evidence is from (W2), which is why they are kept here
// and not taken from the map.
//
// Threads  pure values; one at a time.
// Units    steps of the closure, from 0.
#ifndef WORKER_SYNC_EVIDENCE_H
#define WORKER_SYNC_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVIDENCE_STEPS 4096
#define EVIDENCE_BYTES (EVIDENCE_STEPS / 8)

struct evidence {
    uint64_t incarnation; // 0: there is none
    uint8_t counted[EVIDENCE_BYTES];
};

void evidence_void(struct evidence *e);
bool evidence_known(const struct evidence *e);

// The answer to an Ask.
void evidence_take(struct evidence *e, uint64_t incarnation,
                   const uint8_t *counted, size_t bytes);

// A push's answer: `incarnation` counted the step (now or before). False if
// that is not the incarnation of the evidence, which is void then.
bool evidence_note(struct evidence *e, uint64_t incarnation, uint32_t step);

// The map in force names this incarnation (0: none now). False if the evidence
// was from another one and is void now. Without an incarnation in the map what
// is known stays: the shard may come back as it was.
bool evidence_map(struct evidence *e, uint64_t incarnation);

bool evidence_has(const struct evidence *e, uint32_t step);

enum evidence_next {
    EVIDENCE_ASK,  // some shard has none: ask first
    EVIDENCE_STEP, // *step is the first that is not counted everywhere
    EVIDENCE_FULL, // every step is, on every shard
};

// `list` are the shards' evidences, `stride` bytes apart. Steps below `from`
// are not looked at.
enum evidence_next evidence_next(const struct evidence *list, size_t stride,
                                 size_t shards, uint32_t steps, uint32_t from,
                                 uint32_t *step);

#endif
