// SPDX-License-Identifier: Apache-2.0
// coordinator/core/fits.h -- may what is said of a job be as large as it would
// become?
//
// Threads  any.
// Errors   SL_EINVAL names what is too many, and the limit; SL_ENOMEM.
#ifndef COORDINATOR_CORE_FITS_H
#define COORDINATOR_CORE_FITS_H

#include "proto/wire.h"

// What is counted of so many shards can be read: reports by us, and cuts by the
// next coordinator.
enum sl_err fits_counts(const Sluice__V1__JobSpec *spec, uint32_t shards,
                        struct sl_error *err);

// The layout, and what workers are sent with it, can be read.
enum sl_err fits_layout(const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint32_t shards, struct sl_error *err);

#endif
