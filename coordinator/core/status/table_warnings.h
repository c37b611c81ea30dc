// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/table_warnings.h -- warnings about sparse tables that
// take rows away for new ones, or leave most gradients without a row.
//
// Once a minute the sums over all shards are compared with those of the minute
// before. A warning stays in the job's status until a minute without its cause,
// with the numbers of the first look; new numbers and an event come after an
// hour.
//
// Threads  the loop.
// Memory   job->tables.done, made by the first look, is freed with the job. No
//          pointer is NULL.
// Errors   none: without memory nothing is looked at.
#ifndef COORDINATOR_CORE_STATUS_TABLE_WARNINGS_H
#define COORDINATOR_CORE_STATUS_TABLE_WARNINGS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Looks at the tables of a placed job, if a minute has passed since the last
// look, and sets or removes the warnings JOB_WARN_FULL and JOB_WARN_UNADMITTED.
// The first look only notes what there is. Does nothing for a job without
// tables.
void table_warnings_check(struct coord *c, struct job *job);

#endif
