// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recover.h -- from the journal to a coordinator that may let
// people in.
//
// Threads  the loop, before it runs.
// Errors   SL_ECORRUPT, SL_EIO.
#ifndef COORDINATOR_CORE_RECOVER_H
#define COORDINATOR_CORE_RECOVER_H

#include "coordinator/core/coord_inner.h"

// The next term, then all jobs; open intents are settled (K6).
enum sl_err recover_coord(struct coord *c, struct sl_error *err);

#endif
