// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_async.c -- mode async: each worker pushes the
// gradients of its closures to the shards as they come.
#include "coordinator/core/modes/modes.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/suspects.h"

const struct mode mode_async = {
    .name = "async",
    .offer = offers_work,
    .offers = offers_work_any,
    .slot = offers_slot,
    .fill = suspects_fill,
};
