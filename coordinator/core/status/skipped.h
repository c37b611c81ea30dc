// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/skipped.h -- updates that were counted and not
// applied, as their loss or gradient was not finite: the warning of them, and
// the end of a job by them.
//
// Threads  the loop.
// Memory   text goes into the caller's buffer of `size` bytes, cut and ended by
//          a 0.
// Errors   none.
#ifndef COORDINATOR_CORE_STATUS_SKIPPED_H
#define COORDINATOR_CORE_STATUS_SKIPPED_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Writes the warning of the job's status; "" if few updates were skipped: a
// loss scale finds its place by some.
void skipped_warning(const struct job *job, char *out, size_t size);

// Adds the event, once in a term, when more than a tenth of the updates are
// skipped.
void skipped_check(struct coord *c, struct job *job);

// Says whether no update of any shard was applied: a job that ends so has
// learned nothing, however many steps it counted, and has failed. Then `why`
// says why; else it is untouched.
bool skipped_all(const struct job *job, char *why, size_t size);

#endif
