// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/fits.h -- whether the messages and rows of a job
// would be within their limits.
//
// Threads  any.
// Memory   messages are borrowed for the call; a spec has `train`.
// Errors   SL_EINVAL names what is too many, and the limit; SL_ENOMEM. `err`
//          may be NULL.
#ifndef COORDINATOR_CORE_SHARDS_FITS_H
#define COORDINATOR_CORE_SHARDS_FITS_H

#include "proto/wire.h"

// Checks that the counts of `shards` shards can be read: in reports by this
// coordinator, and in cuts by the next one.
enum sl_err fits_counts(const Sluice__V1__JobSpec *spec, uint32_t shards,
                        struct sl_error *err);

// Checks that the layout, and the messages to workers that hold it, can be
// read.
enum sl_err fits_layout(const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint32_t shards, struct sl_error *err);

#endif
