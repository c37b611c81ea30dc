// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status_final.h -- the last status of a job that was stopped
// or has failed.
//
// A job that has finished is the sum of its last cut. Any other one ends while
// steps are under way: what workers completed is newer than what shards have
// reported. So the last status is made of reports alone, whose numbers belong
// together; and each shard, when it is closed, says what it had counted in the
// end, which goes into the status and the journal.
//
// Threads  the loop.
// Memory   job->final.
// Errors   without memory the older numbers stay.
#ifndef COORDINATOR_CORE_STATUS_FINAL_H
#define COORDINATOR_CORE_STATUS_FINAL_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Of a job that ends: numbers that belong together.
void status_settle(Sluice__V1__JobStatus *m, const struct job *job);

// A shard of an ended job says what it had counted.
void status_final_report(struct coord *c, const struct member *m,
                         struct job *job,
                         const Sluice__V1__ShardReport *report);

#endif
