// SPDX-License-Identifier: Apache-2.0
// coordinator/core/serve.h -- what each job has for a worker, and who is
// served.
//
// A pass fills idle workers before any gets a second lease, so that few
// closures are spread. What a job offers is derived from evidence (C3), within
// the window (C5); who is served is decided by dispatch.h.
//
// Threads  the loop.
// Errors   without memory a worker is served by a later pass.
#ifndef COORDINATOR_CORE_SERVE_H
#define COORDINATOR_CORE_SERVE_H

#include "coordinator/core/coord_inner.h"

// Gives every worker the leases that it may have, and sends them.
void serve_workers(struct coord *c);

#endif
