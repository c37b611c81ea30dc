// SPDX-License-Identifier: Apache-2.0
// tests/sim/nemesis.h -- bad luck: see nemesis.c.
#ifndef TESTS_SIM_NEMESIS_H
#define TESTS_SIM_NEMESIS_H

#include "tests/sim/sim.h"

// Strikes now and then, until the seed's time is over or sim_heal; never where
// knobs.gap_us is 0.
void nemesis_start(struct sim *s);

// Tempts the nemesis, as a process has something to write or to load: it may
// strike it soon.
void nemesis_tempt(struct sim *s, struct proc *p);

#endif
