// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/skipped.h -- updates that were counted and not
// applied, as their loss or gradient was not finite: the warning of them, and
// the end of a job by them.
//
// Threads  the loop.
// Memory   text goes into the caller's buffer of `size` bytes, at least 1, cut
//          and ended by a 0. No pointer is NULL.
// Errors   none.
#ifndef COORDINATOR_CORE_STATUS_SKIPPED_H
#define COORDINATOR_CORE_STATUS_SKIPPED_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Writes the warning about skipped updates for the job's status into `out`, if
// 16 or more and one in a hundred were skipped, or so many that skipped_check
// tells of them. Else, and for a job that is not placed, writes "": a loss
// scale needs some to find its place.
void skipped_warning(const struct job *job, char *out, size_t size);

// Logs and adds an event, once in a term, when more than a tenth of the updates
// of the shard that skipped most are skipped; not in the first 32 of them,
// unless there are no more. The job is placed.
void skipped_check(struct coord *c, struct job *job);

// Returns true if updates were counted and none of them, on any shard, was
// applied: a job that ends so has learned nothing and has failed. `why` is then
// the reason; else it is untouched.
bool skipped_all(const struct job *job, char *why, size_t size);

#endif
