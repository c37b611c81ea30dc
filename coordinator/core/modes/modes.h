// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/modes.h -- the rows of all modes (mode.h).
//
// Only the parts that make a coordinator name them: the others reach a row
// through coord.modes and job.mode, so that no call runs back up.
//
// Threads  any.
// Memory   constants. No pointer is NULL.
#ifndef COORDINATOR_CORE_MODES_MODES_H
#define COORDINATOR_CORE_MODES_MODES_H

#include "coordinator/core/mode.h"

extern const struct mode mode_async;
extern const struct mode mode_sync;
extern const struct mode mode_allreduce;
extern const struct mode mode_hybrid;
extern const struct mode mode_local;
extern const struct mode mode_local_open; // of mode_local.open

// Returns true if an external worker's program takes the steps of mode local
// itself.
bool mode_local_able(const struct member *m);

// All modes, ended by NULL; a spec without train.mode has the first one.
extern const struct mode *const modes_all[];

#endif
