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

// Writes into `out`, cut to `size` bytes, which caller pauses the job, or will
// after a cut, and why. Returns true; or false, with nothing written, for a job
// without a pause.
bool status_pause_reason(const struct job *job, char *out, size_t size);

// Sets in *to, a status without a pause, the seconds that the job was paused
// and, if it is paused now or will be after a cut, and has not ended, the pause
// itself, which *to owns. Returns true, or false without memory.
bool status_pause(const struct coord *c, const struct job *job,
                  Sluice__V1__JobStatus *to);

#endif
