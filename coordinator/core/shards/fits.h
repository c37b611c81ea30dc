// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/fits.h -- whether the messages and rows of a job
// would be within their limits.
//
// Threads  any.
// Memory   messages are borrowed for the call. A spec has passed spec_check. No
//          pointer is NULL but `err`, which may be.
// Errors   SL_EINVAL names what is too many, and the limit; SL_ENOMEM.
#ifndef COORDINATOR_CORE_SHARDS_FITS_H
#define COORDINATOR_CORE_SHARDS_FITS_H

#include "plan/part.h"
#include "proto/wire.h"

// Checks that the counts by epoch of `shards` shards fit into messages and into
// the journal. Returns SL_OK or SL_EINVAL.
enum sl_err fits_counts(const Sluice__V1__JobSpec *spec, uint32_t shards,
                        struct sl_error *err);

// Checks that a push to each shard of the plan fits into a message, with the
// moments that it may bring. Returns SL_OK, or SL_EINVAL, which names the keys
// that make smaller shards.
enum sl_err fits_shards(const Sluice__V1__JobSpec *spec,
                        const struct part_plan *plan, struct sl_error *err);

// Checks that the layout of `shards` shards, and messages to workers with it,
// are not too large to be read. Returns SL_OK, SL_EINVAL or SL_ENOMEM.
enum sl_err fits_layout(const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint32_t shards, struct sl_error *err);

#endif
