// SPDX-License-Identifier: Apache-2.0
// coordinator/core/removals.h -- manifests that are no promise any more, on
// their way out of the store.
//
// A store may be slow, or not answer for a while: nobody waits for this. What
// cannot be removed is litter, and the log says so.
//
// Threads  the loop; files are removed on a pool thread.
// Memory   paths are copied; what is under way outlives the coord.
// Errors   none that anybody needs.
#ifndef COORDINATOR_CORE_REMOVALS_H
#define COORDINATOR_CORE_REMOVALS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

void removals_add(struct coord *c, const char *path);

// Of all cuts of a job; of one that could not be read, those that the journal
// names, so before its rows go.
void removals_add_job(struct coord *c, const struct job *job);

#endif
