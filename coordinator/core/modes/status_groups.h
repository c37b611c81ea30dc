// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/status_groups.h -- the part of a job's status that
// lists the groups of its workers.
//
// Threads  the loop.
// Memory   what is added belongs to the status. No pointer is NULL.
#ifndef COORDINATOR_CORE_MODES_STATUS_GROUPS_H
#define COORDINATOR_CORE_MODES_STATUS_GROUPS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Adds the groups that have members to `out`, a status without groups. Returns
// true; or false without memory, with a part of them there, which wire_free
// frees.
bool groups_status(const struct coord *c, const struct job *job,
                   Sluice__V1__JobStatus *out);

#endif
