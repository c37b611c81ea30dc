// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/paces.h -- the closures of a contribution by its
// worker's pace: train.inner.pace own (coordinator/rules/pace.h).
//
// The fastest worker is the fastest of those that are attached, may take the
// job, and have told of their pace. It is looked for again after PACES_LOOK_MS,
// as a job may have thousands of workers.
//
// Threads  the loop.
// Memory   values in the job, and in member.opened. No pointer is NULL but
//          `change`.
// Units    closures.
// Errors   none.
#ifndef COORDINATOR_CORE_LEASES_PACES_H
#define COORDINATOR_CORE_LEASES_PACES_H

#include "coordinator/core/coord_inner.h"

#define PACES_LOOK_MS 1000

// Zeroes: contributions are of one closure.
struct job_paces {
    bool own;          // slower workers have fewer closures
    uint32_t most;     // closures of the fastest worker's contributions
    double mean;       // mean of all workers', as far as is known
    double fastest_ms; // time for a step of the fastest worker; 0: not known
    uint64_t until_ms; // when the fastest worker is looked for again
};

// Takes what worker m says of a contribution that was counted, or is held, into
// its pace for the job (struct opened). Does nothing for NULL, for a norm that
// is negative or no number, and if m was not sent the job.
void paces_take(const struct member *m, const struct job *job,
                const Sluice__V1__Change *change);

// Returns how many closures a contribution of worker m should have: 1 or more,
// and job->paces.most while m's pace is not known, m drains or is not ready
// (member_ready); 0: as many as the job says, since it has contributions of
// equal steps. Looks for the fastest worker again if it is time.
uint32_t paces_closures(struct coord *c, struct job *job,
                        const struct member *m);

#endif
