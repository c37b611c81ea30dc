// SPDX-License-Identifier: Apache-2.0
// tests/sim/boss.h -- the coordinator's process, and a look into its job.
#ifndef TESTS_SIM_BOSS_H
#define TESTS_SIM_BOSS_H

#include "tests/sim/sim.h"

// Makes a coordinator on the journal and its host's disk, and submits the job
// soon, if none was. One that cannot start for a fault of its disk ends again;
// for any other reason the test fails.
void boss_start(struct sim *s, struct proc *p);

// Frees the coordinator of a process that is dead already, and ends the work of
// its pool, which does not reach the disk any more.
void boss_stop(struct sim *s, struct proc *p);

struct boss_sight {
    int state;         // enum job_state
    uint64_t last_cut; // number of the newest published one; 0: none
    uint64_t cuts;     // changes with every cut that comes or goes
    bool making;       // another one
};

// Looks at the job and returns true; false, with *out as it was, while the
// coordinator is down, or does not know the job.
bool boss_look(struct sim *s, struct boss_sight *out);

// Returns the job's cuts, for wire_free, where boss_look is true.
Sluice__V1__CheckpointsReply *boss_cuts(struct sim *s);

// Returns the job's status with its shards, for wire_free; NULL where boss_look
// is false.
Sluice__V1__JobStatus *boss_status(struct sim *s);

#endif
