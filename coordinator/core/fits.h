// SPDX-License-Identifier: Apache-2.0
// coordinator/core/fits.h -- may what is said of a job be as large as it would
// become?
//
// Threads  any.
// Errors   SL_EINVAL names what is too many, and the limit.
#ifndef COORDINATOR_CORE_FITS_H
#define COORDINATOR_CORE_FITS_H

#include "proto/wire.h"

// Every message about the job can be read by whom it is for, and its cuts by
// the next coordinator. `packed` is the layout.
enum sl_err fits_check(const Sluice__V1__JobSpec *spec, uint32_t shards,
                       const struct buf *packed, struct sl_error *err);

#endif
