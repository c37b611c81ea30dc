// SPDX-License-Identifier: Apache-2.0
// trainer/push/evidence.h -- what shards said they have counted of one closure.
//
// Evidence is per (shard, incarnation) (W1): it begins with the answer to an
// Ask, grows by the answers to pushes, and is void as soon as the shard speaks
// as, or the map names, another incarnation. A completion names the
// incarnations that the evidence is from (W2), which is why they are kept here
// and not taken from the map.
//
// Threads  pure values; one at a time.
// Memory   none is allocated; zeroes are void evidence.
// Units    steps of the closure, from 0, below EVIDENCE_STEPS.
// Errors   none.
#ifndef TRAINER_PUSH_EVIDENCE_H
#define TRAINER_PUSH_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVIDENCE_STEPS 4096
#define EVIDENCE_BYTES (EVIDENCE_STEPS / 8)

struct step_evidence {
    uint64_t incarnation; // 0: nothing is known
    uint8_t counted[EVIDENCE_BYTES];
};

// Clears *e: nothing is known of the shard.
void evidence_void(struct step_evidence *e);
// Returns true if the shard has said what it counted, by an Ask.
bool evidence_known(const struct step_evidence *e);

// Takes the answer to an Ask: `bytes` bytes of bits, one per step, the lowest
// of a byte first, of which it copies at most EVIDENCE_BYTES. Evidence from
// before is forgotten. `counted` may be NULL if `bytes` is 0; steps behind the
// bits are not counted. `incarnation` is not 0.
void evidence_take(struct step_evidence *e, uint64_t incarnation,
                   const uint8_t *counted, size_t bytes);

// Notes a push's answer: `incarnation` counted the step (now or before).
// Returns false if that is not the incarnation of the evidence, which is void
// then; also if it was void before. A step of EVIDENCE_STEPS or more is
// ignored.
bool evidence_note(struct step_evidence *e, uint64_t incarnation,
                   uint32_t step);

// Compares *e with the incarnation that the newest map names for the shard.
// Returns false, with *e void, if the evidence is of another one; else true,
// and so if *e is void already. 0: the map names none now, and the evidence
// stays, as the shard may come back as it was.
bool evidence_map(struct step_evidence *e, uint64_t incarnation);

// Returns true if the evidence says that the shard has counted `step`; false
// without evidence, and for EVIDENCE_STEPS or more.
bool evidence_has(const struct step_evidence *e, uint32_t step);

enum evidence_next {
    EVIDENCE_ASK,  // some shard has no evidence: ask it first
    EVIDENCE_STEP, // *step is the first step that some shard lacks
    EVIDENCE_FULL, // every shard has counted every step
};

// Finds the first step, from `from` on and below `steps`, that is not counted
// on some of `shards` shards, and sets *step to it: EVIDENCE_STEP. `list` is
// the evidence of the first shard; that of the next ones lies `stride` bytes
// apart. EVIDENCE_ASK, if one of them is void whatever the others say, or
// EVIDENCE_FULL leave *step. Without shards, or if `from` >= `steps` and none
// is void, it is EVIDENCE_FULL.
enum evidence_next evidence_first_missing(const struct step_evidence *list,
                                          size_t stride, size_t shards,
                                          uint32_t steps, uint32_t from,
                                          uint32_t *step);

#endif
