// SPDX-License-Identifier: Apache-2.0
// tests/sim/server.h -- a psserver's process.
#ifndef TESTS_SIM_SERVER_H
#define TESTS_SIM_SERVER_H

#include "tests/sim/sim.h"

// Makes a psserver's process, p->self, which dials; it has no shard yet.
void server_start_proc(struct sim *s, struct proc *p);

// Frees the process of a psserver that is dead already.
void server_stop_proc(struct sim *s, struct proc *p);

// Tells a psserver to end, as SIGTERM does: what is new goes to disk, then it
// ends. A second call does nothing.
void server_drain_proc(struct sim *s, struct proc *p);

#endif
