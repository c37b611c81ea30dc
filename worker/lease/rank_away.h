// SPDX-License-Identifier: Apache-2.0
// worker/lease/rank_away.h -- a rank's state that has its values and slots on a
// device.
//
// Threads  the compute thread.
// Memory   the rank owns what rank_lend makes; the resident is borrowed.
// Units    elements.
// Errors   SL_ELOST: the device lost the state. `err` may be NULL.
#ifndef WORKER_LEASE_RANK_AWAY_H
#define WORKER_LEASE_RANK_AWAY_H

#include "trainer/ring/rank.h"
#include "worker/device/resident.h"

// Copies values and slots of r's state, which it must have, to `there`, where
// rounds are applied from now on; what is counted stays here. The parts' memory
// on the host is out of date then, until the state is copied back. `there` is
// borrowed until rank_release or rank_take_back. Does nothing if the state is
// there already. Returns SL_OK; SL_ELOST or SL_ENOMEM, with the state here as
// before.
enum sl_err rank_lend(struct rank *r, struct resident *there,
                      struct sl_error *err);

#endif
