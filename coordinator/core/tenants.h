// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tenants.h -- whose a job is, and who sees it.
//
// A job belongs to the tenant of whoever submitted it, for good (journal); ""
// is nobody's. Who asks for one tenant finds no other job, by whatever name:
// it is as if there were none.
//
// Threads  the loop.
// Errors   a journal that cannot be read hides the job.
#ifndef COORDINATOR_CORE_TENANTS_H
#define COORDINATOR_CORE_TENANTS_H

#include "coordinator/core/coord_inner.h"

// Whether who asks now must not know of the job.
bool tenants_hide(const struct coord *c, uint64_t job);

#endif
