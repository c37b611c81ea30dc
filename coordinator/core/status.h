// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status.h -- what is said of one job: to clients, and to the
// journal when it has ended.
//
// Threads  the loop.
// Memory   a status is of the heap: wire_free.
// Errors   NULL: no memory.
#ifndef COORDINATOR_CORE_STATUS_H
#define COORDINATOR_CORE_STATUS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

Sluice__V1__JobStatus *status_job(const struct coord *c, const struct job *job,
                                  bool with_shards, bool with_spec);

// Of a job that has ended: samples per second of the whole run, without those
// that a cut brought along.
void status_average(Sluice__V1__JobStatus *m, const struct job *job);

// ---- status_final.c

// Of a job that ends: numbers that belong together.
void status_settle(Sluice__V1__JobStatus *m, const struct job *job);

// A shard of an ended job says what it had counted.
void status_final_report(struct coord *c, const struct member *m,
                         struct job *job,
                         const Sluice__V1__ShardReport *report);

#endif
