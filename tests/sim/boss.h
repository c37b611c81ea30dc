// SPDX-License-Identifier: Apache-2.0
// tests/sim/boss.h -- the coordinator's process, and a look into its job.
#ifndef TESTS_SIM_BOSS_H
#define TESTS_SIM_BOSS_H

#include "tests/sim/sim.h"

void boss_start(struct sim *s, struct proc *p);
void boss_stop(struct sim *s, struct proc *p);

struct boss_sight {
    int state;         // enum job_state
    uint64_t last_cut; // number of the newest published one; 0: none
    uint64_t cuts;     // changes with every cut that comes or goes
    bool making;       // another one
};

// False while it is down, or does not know the job.
bool boss_look(struct sim *s, struct boss_sight *out);
Sluice__V1__CheckpointsReply *boss_cuts(struct sim *s); // wire_free
Sluice__V1__JobStatus *boss_status(struct sim *s);      // wire_free; or NULL

#endif
