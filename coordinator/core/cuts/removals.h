// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/removals.h -- manifests of dropped cuts, on their way
// out of the store.
//
// A store may be slow, or not answer for a while: no call waits for a removal.
// A file that cannot be removed is litter, and the log says so.
//
// Threads  the loop; files are removed on a pool thread.
// Memory   paths are copied; removals under way outlive the coord. No pointer
//          is NULL.
// Errors   none is returned; what fails is logged.
#ifndef COORDINATOR_CORE_CUTS_REMOVALS_H
#define COORDINATOR_CORE_CUTS_REMOVALS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Queues the removal of the manifest at `path`, whether or not it is there;
// does not wait for it. Without memory the file stays.
void removals_add(struct coord *c, const char *path);

// Queues the removal of the manifests of all cuts that the job keeps
// (job->cuts.list), as removals_add does. For an unreadable job reads the paths
// of its cuts that are neither dropped nor aborted from the journal, so call
// this before its rows are deleted; if that fails the files stay, and it is not
// fatal here.
void removals_add_job(struct coord *c, const struct job *job);

#endif
