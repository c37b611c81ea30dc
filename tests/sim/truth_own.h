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

// A file of a cut is there and is what the cut says; `full`: complete, too.
void cuts_file(struct sim *s, const Sluice__V1__CheckpointShard *f, bool full);

#endif
