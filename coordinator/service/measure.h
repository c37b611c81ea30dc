// SPDX-License-Identifier: Apache-2.0
// coordinator/service/measure.h -- the coordinator's figures, for /metrics.
//
// Threads  the loop; nothing waits.
// Memory   nothing is kept.
// Errors   those of the expo.
#ifndef COORDINATOR_SERVICE_MEASURE_H
#define COORDINATOR_SERVICE_MEASURE_H

#include "common/run/expo.h"
#include "coordinator/core/coord.h"

// Writes all families of figures, but those of single jobs, after bringing the
// coord's own up to date (figures_job). `c` NULL: the coordinator waits, and
// figures that need a coord are 0. `journal` may be NULL, too.
void measure_write(struct coord *c, const struct journal *journal,
                   struct expo *e);

#define MEASURE_JOBS 32 // most jobs with figures of their own

// Writes figures of at most MEASURE_JOBS jobs that have not ended, the oldest,
// with the label id="j-7", and how many were left out, also for want of memory;
// `c` may be NULL.
void measure_jobs(const struct coord *c, struct expo *e);

#endif
