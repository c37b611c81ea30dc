// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/arrivals.h -- the test vectors of workers that join
// are compared before they are leased anything (A7).
//
// A worker with a vector that two others show to be wrong is suspect
// (suspects.h), the one that joins or one that joined before. Two vectors of
// one kind of host that differ are logged and an event, and blame no worker.
//
// Threads  the loop.
// Memory   the vectors are the coord's (test_vectors.h). No pointer is NULL.
// Errors   a journal that fails is fatal (c->dead). Without memory nothing is
//          compared.
#ifndef COORDINATOR_CORE_LEASES_ARRIVALS_H
#define COORDINATOR_CORE_LEASES_ARRIVALS_H

#include "coordinator/core/coord_inner.h"

// Compares the test vector of m, a member that was just attached, with those of
// earlier workers; each one that is shown to be wrong becomes suspect
// (suspects_make). Does nothing for a psserver, or a worker that told no
// vector, or one that was taken or found wrong before.
void arrivals_hear(struct coord *c, struct member *m);

#endif
