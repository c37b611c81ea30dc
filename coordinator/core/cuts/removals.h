// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/removals.h -- manifests of dropped cuts, on their way
// out of the store.
//
// A store may be slow, or not answer for a while: no call waits for a removal.
// A file that cannot be removed is litter, and the log says so.
//
// Threads  the loop; files are removed on a pool thread.
// Memory   paths are copied; removals under way outlive the coord.
// Errors   none is returned.
#ifndef COORDINATOR_CORE_CUTS_REMOVALS_H
#define COORDINATOR_CORE_CUTS_REMOVALS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Queues the removal of one manifest, whether or not it is there; does not wait
// for it. Without memory it is litter.
void removals_add(struct coord *c, const char *path);

// Queues the removal of the manifests of all cuts of a job. For an unreadable
// job the journal names them, so call this before its rows go.
void removals_add_job(struct coord *c, const struct job *job);

#endif
