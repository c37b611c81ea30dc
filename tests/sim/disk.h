// SPDX-License-Identifier: Apache-2.0
// tests/sim/disk.h -- see disk.c.
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "tests/sim/sim.h"

void disk_new(struct sim *s, struct crash_fs **disk); // with a "/store"
void disk_attach(struct sim *s, struct proc *p);      // fills p->files
struct crash_fs *disk_for(struct sim *s, enum sim_role role, uint32_t host);
void disk_lose(struct sim *s, uint32_t host); // and a new one is put in

#endif
