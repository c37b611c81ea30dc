// SPDX-License-Identifier: Apache-2.0
// coordinator/core/gone.h -- a worker that is lost, silent or back on a new
// stream: others get its leases.
//
// Threads  the loop.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_GONE_H
#define COORDINATOR_CORE_GONE_H

#include "coordinator/core/coord_inner.h"

enum gone_why {
    GONE_LOST,   // gone or silent: what it computed is suspect
    GONE_REDIAL, // the same process came back on a new stream
};

void gone_take_leases(struct coord *c, struct member *m, enum gone_why why);

#endif
