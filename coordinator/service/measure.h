// SPDX-License-Identifier: Apache-2.0
// coordinator/service/measure.h -- the coordinator's figures, for /metrics.
//
// Threads  the loop.
// Memory   nothing is kept.
// Errors   those of the expo.
#ifndef COORDINATOR_SERVICE_MEASURE_H
#define COORDINATOR_SERVICE_MEASURE_H

#include "common/run/expo.h"
#include "coordinator/core/coord.h"

// `c` NULL: it waits for space, and has only what does not need it; every
// family is there all the same. So is `journal`.
void measure_write(struct coord *c, const struct journal *journal,
                   struct expo *e);

#define MEASURE_JOBS 32

// Figures of MEASURE_JOBS jobs at most, by the label id="j-7"; `c` as above.
void measure_jobs(const struct coord *c, struct expo *e);

#endif
