// SPDX-License-Identifier: Apache-2.0
// tests/sim/rank.h -- a worker of a job in allreduce: a rank of its ring.
//
// A script that follows R2 to R4 and R7 of docs/protocol.md. Its parameters are
// integers (truth.h), so a state says what was applied to it; and it is known
// in which generation each of its rounds was (`by`). Ranks send each other what
// they give to a round over the links of net.h: held back where one is cut, as
// TCP does.
//
//   rank.c    the lease, what the coordinator says, the base
//   round.c   rounds, the copy ahead, files of cuts
//   rings.c   what must hold of all of that
#ifndef TESTS_SIM_RANK_H
#define TESTS_SIM_RANK_H

#include "tests/sim/crew.h"
#include "tests/sim/feeds.h"
#include "tests/sim/rings.h"

// What a rank gives to a round.
struct gift {
    uint32_t from, to; // processes
    uint64_t generation, sequence;
    uint32_t index;
    uint64_t state; // mark of what it was computed on
    double sum[SIM_FIELDS];
    bool there;
};

struct rank {
    struct rank_state state;
    bool joined;     // said so, on this stream, of this lease
    uint64_t newest; // generation that it has answered last
    uint64_t going;  // generation in which it sums; 0: none
    uint64_t told;   // rounds that it has reported
    uint64_t copies; // generation whose state it is to copy; 0: none
    uint64_t copy_us, copy_until_us;
    Sluice__V1__RingCopy *copy; // owned
    struct take *take;          // owned; NULL: it does not copy
    uint64_t takes;             // ever
    struct give *give;          // owned; NULL: it was no member yet
    // To be brought into place (owned), tried again at, given up at.
    Sluice__V1__RingBegin *begun;
    uint64_t begun_us, begun_until_us;
    uint32_t ranks, self, contributions;
    uint64_t process[SIM_HOSTS];
    // Of rounds: computations, since when this one waits, what came.
    uint64_t number, waits_us;
    bool computes, gave;
    struct gift got[SIM_HOSTS][2];
    uint64_t request[SIM_SHARDS], at_round[SIM_SHARDS];
    uint64_t progress;
};

void rank_start(struct crew *c);
void rank_stop(struct crew *c);
void rank_down(struct crew *c, const Sluice__V1__AttendDown *down);
void rank_leave(struct crew *c); // its ring lease is gone; the state stays
void rank_drop(struct crew *c);  // the job is gone
void rank_drive(struct crew *c);
// What it says to a generation that is opened, of the state that it has.
void rank_answer(struct crew *c, const Sluice__V1__RingOpen *m,
                 struct wire_tag state);
void rank_broken(struct crew *c, uint32_t suspect);

// ---- round.c

void round_drive(struct crew *c);
void round_copy_ahead(struct crew *c);
void round_write(struct crew *c);
// With `epochs`: room for as many as the job has.
struct rank_counts {
    Sluice__V1__ShardCounts msg;
    Sluice__V1__EpochCount epoch[8], *epochs[8];
};
void round_counts(struct sim *s, const struct rank_state *state,
                  struct rank_counts *out);

#endif
