// SPDX-License-Identifier: Apache-2.0
// proto/logged.h -- the newest lines of this process' log, as a message.
//
// Threads  any.
// Memory   the lines borrow from `space`, which is WIRE_LOG_BYTES long.
// Errors   none.
#ifndef PROTO_LOGGED_H
#define PROTO_LOGGED_H

#include "proto/wire.h"

// Returns the newest lines behind number `after` that fit, in `space`: all, or
// with `job` not 0 those of that job. `last` is the number to ask with next.
Sluice__V1__LogLines logged_take(uint8_t *space, uint64_t after, uint64_t job);

#endif
