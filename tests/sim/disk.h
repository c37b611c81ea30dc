// SPDX-License-Identifier: Apache-2.0
// tests/sim/disk.h -- see disk.c.
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "tests/sim/sim.h"

// Makes a disk with an empty folder "/store", for crash_fs_free.
void disk_new(struct sim *s, struct crash_fs **disk);

// Fills p->files: the disk of p's role and host, as p sees it. Faults come at
// the seed's rates until sim_heal; a psserver's first reads may fail (knobs.
// sick); once p is dead, or has done `dies_after` operations, all fail.
void disk_attach(struct sim *s, struct proc *p);

// Returns the disk of processes of that role on that host, borrowed: the host's
// own, or the one that psservers, or ranks, share.
struct crash_fs *disk_for(struct sim *s, enum sim_role role, uint32_t host);

// Throws a host's own disk away and puts a new one in; the old one, of which
// files may be open, stays until sim_free. At most SIM_LOST times.
void disk_lose(struct sim *s, uint32_t host);

#endif
