// SPDX-License-Identifier: Apache-2.0
// tests/sim/server.h -- a psserver's process.
#ifndef TESTS_SIM_SERVER_H
#define TESTS_SIM_SERVER_H

#include "tests/sim/sim.h"

void server_start_proc(struct sim *s, struct proc *p);
void server_stop_proc(struct sim *s, struct proc *p);

// SIGTERM: what is new goes to disk, then it ends.
void server_drain_proc(struct sim *s, struct proc *p);

#endif
