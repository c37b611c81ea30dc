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

// Returns the number of a step among all of the job: its place in a ledger.
uint64_t truth_index(struct sim *s, uint64_t closure, uint32_t step);

// Notes that a memory counted a step, applied or, with `skip`, skipped; one
// that it has counted before fails the test (S2).
void truth_count(struct sim *s, struct memory *m, uint64_t closure,
                 uint32_t step, bool skip);

// Notes a contribution as truth_count does, whose gradient was applied `shares`
// times.
void truth_count_shares(struct sim *s, struct memory *m, uint64_t closure,
                        uint32_t step, bool skip, unsigned shares);

// Takes a step, which the ledger has, of one share, out of it.
void truth_uncount(struct sim *s, struct ledger *l, uint64_t closure,
                   uint32_t step);

// ---- rounds.c, for a job in sync

// Notes a push that a shard holds, and checks Y1, Y2 and Y4.
void rounds_hold(struct sim *s, struct memory *m, const struct wire_push *push);

// Notes a push with which a shard applied a round, all of which is counted
// then, and checks Y1 and Y4.
void rounds_close(struct sim *s, struct memory *m,
                  const struct wire_push *push);

// Notes a push in a job with open rounds, which is held or not, and checks L1;
// one that is not held, and not skipped, has ended the round.
void rounds_open(struct sim *s, struct memory *m, const struct wire_push *push,
                 bool held);

// Sets *out to what a pull was answered with that asks for the time before the
// round of its closure: *now without that round, which must be the last one
// that was counted.
void rounds_before(struct sim *s, const struct ledger *now,
                   const struct wire_pull *pull, struct ledger *out);

// Checks that what was counted is whole rounds, one after the other (Y2, Y4);
// nothing in a job without rounds.
void rounds_whole(struct sim *s, const struct ledger *l);

#endif
