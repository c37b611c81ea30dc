// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/serve.h -- the pass that gives idle workers leases.
//
// A pass fills idle workers before any gets a second lease, so that few
// closures are spread. A job's offers are derived from evidence (C3), within
// the window (C5); dispatch.h decides which job serves a worker.
//
// Threads  the loop.
// Memory   no pointer is NULL.
// Errors   without memory a worker is served by a later pass. A journal that
//          cannot be written is fatal: callers look at c->dead.
#ifndef COORDINATOR_CORE_LEASES_SERVE_H
#define COORDINATOR_CORE_LEASES_SERVE_H

#include "common/base/list.h"
#include "coordinator/core/coord_inner.h"

// A job in one pass over the workers.
struct job_pass {
    struct list_node node; // link in coord.offers.list
    bool spent;            // no offer is left
};

// Gives every worker the leases that it may have now, and sends them; before
// that, gives queued jobs their turn and advances them, which may end them, and
// afterwards queues the counters of jobs for the journal. To be called after
// anything that may free a worker or a closure. Does nothing once the journal
// has failed.
void serve_workers(struct coord *c);

#endif
