// SPDX-License-Identifier: Apache-2.0
// proto/logged.h -- the newest lines of this process' log, as a message.
//
// Threads  any.
// Memory   the lines borrow from `space`, which is WIRE_LOG_BYTES long.
// Errors   none.
#ifndef PROTO_LOGGED_H
#define PROTO_LOGGED_H

#include "proto/wire.h"

// Returns a message with the kept lines behind position `after` (0: from the
// oldest), oldest first, as many as fit into `space`, from which it borrows; if
// `job` is not 0 only those of that job, which may be none. `last` is the
// position to ask with next, `more`: there may be newer lines already. An
// `after` that is no position of this process counts as 0.
Sluice__V1__LogLines logged_take(uint8_t *space, uint64_t after, uint64_t job);

#endif
