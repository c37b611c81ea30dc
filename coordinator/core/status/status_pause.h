// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/status_pause.h -- the status of a job that a client
// has paused.
//
// Threads  the loop.
// Memory   no pointer is NULL.
// Errors   false: no memory, where nothing else is said.
#ifndef COORDINATOR_CORE_STATUS_STATUS_PAUSE_H
#define COORDINATOR_CORE_STATUS_STATUS_PAUSE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Writes which caller pauses the job, and why, cut to `size`; returns false,
// with nothing written, for a job without a pause.
bool status_pause_reason(const struct job *job, char *out, size_t size);

// Sets the paused seconds of a status without a pause and, unless the job has
// ended or has none, the pause itself, which `to` owns.
bool status_pause(const struct coord *c, const struct job *job,
                  Sluice__V1__JobStatus *to);

#endif
