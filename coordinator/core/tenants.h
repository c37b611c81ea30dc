// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tenants.h -- the tenant of a job, and the callers that see
// it.
//
// A job belongs to the tenant of its submitter, for good (journal); "" is no
// tenant. A caller limited to one tenant finds no other job, by whatever name:
// it is as if there were none.
//
// Threads  the loop. It may read the journal.
// Memory   no pointer is NULL.
// Errors   a journal that cannot be read hides the job; that is not fatal here,
//          but the next call that writes the journal is.
#ifndef COORDINATOR_CORE_TENANTS_H
#define COORDINATOR_CORE_TENANTS_H

#include "coordinator/core/coord_inner.h"

// Returns true if the present caller (coord_ask_as) must not see the job: it is
// limited to one tenant, and the job is another tenant's, no tenant's or
// unknown, or the journal cannot be read. Returns false for a caller that is
// not limited, without a look at the job.
bool tenants_hide(const struct coord *c, uint64_t job);

#endif
