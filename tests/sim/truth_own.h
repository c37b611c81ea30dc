// SPDX-License-Identifier: Apache-2.0
// tests/sim/truth_own.h -- for truth.c, cuts.c and end.c only.
#ifndef TESTS_SIM_TRUTH_OWN_H
#define TESTS_SIM_TRUTH_OWN_H

#include "tests/sim/truth.h"

// One that was reported.
struct snapshot {
    struct list_node node;
    uint32_t number; // of the shard
    struct wire_tag tag;
    struct ledger ledger;
};

struct truth {
    struct list memories, snapshots;          // the newest first
    Sluice__V1__ShardSpec *specs[SIM_SHARDS]; // as placed; owned
    uint64_t newest[SIM_SHARDS], marked[SIM_SHARDS];
    // cuts.c: as the coordinator listed them last; owned, may be NULL
    Sluice__V1__CheckpointsReply *cuts;
    uint64_t cuts_seen, last_cut;
};

uint64_t truth_index(struct sim *s, uint64_t closure, uint32_t step);
// A step was counted by a memory, for the first time or the test fails.
void truth_count(struct sim *s, struct memory *m, uint64_t closure,
                 uint32_t step, bool skip);

// The same of a contribution of TRUTH_SHARES that has so many in its round.
void truth_count_shares(struct sim *s, struct memory *m, uint64_t closure,
                        uint32_t step, bool skip, unsigned shares);

// A ledger as it was before a step that it has.
void truth_uncount(struct sim *s, struct ledger *l, uint64_t closure,
                   uint32_t step);

// ---- rounds.c, for a job in sync

// A push was answered: held, or its round is applied.
void rounds_hold(struct sim *s, struct memory *m, const struct wire_push *push);
void rounds_close(struct sim *s, struct memory *m,
                  const struct wire_push *push);
// The same in a job with open rounds.
void rounds_open(struct sim *s, struct memory *m, const struct wire_push *push,
                 bool held);
// What a pull was answered with that asks for the time before the round of its
// closure, which is the last one that was counted.
void rounds_before(struct sim *s, const struct ledger *now,
                   const struct wire_pull *pull, struct ledger *out);
// What was counted is whole rounds, one after the other.
void rounds_whole(struct sim *s, const struct ledger *l);

#endif
