// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/modes.c -- the list of modes.
#include "coordinator/core/modes/modes.h"

const struct mode *const modes_all[] = {
    &mode_async, &mode_sync, &mode_allreduce, &mode_hybrid, &mode_local, NULL,
};
