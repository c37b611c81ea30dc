// SPDX-License-Identifier: Apache-2.0
// coordinator/service/logs.h -- the newest lines of the log of one process: the
// coordinator's own at once, a member's by asking it.
//
//   call (I/O) -> loop: LogMore to the member -> LogPiece -> answer
//
// Nothing is kept between two calls, and during one the call alone: the client
// says with each call which lines it has. LOGS_ASKED_MOST calls may wait for
// members, one for each member; a second for a member that is being asked, and
// one beyond the number, is SL_EBUSY. A member that does not answer in
// LOGS_SILENT_MS is given up.
//
// Threads  the loop. The handler of the table: I/O threads.
// Memory   as api.h. Pieces are borrowed until the call returns.
// Errors   SL_ENOENT: no member of that name is attached. SL_ESTATE: the member
//          is of an older version, does not answer, or went away.
#ifndef COORDINATOR_SERVICE_LOGS_H
#define COORDINATOR_SERVICE_LOGS_H

#include "common/net/rpc.h"
#include "common/run/loop.h"
#include "coordinator/core/coord.h"

#define LOGS_ASKED_MOST 32
#define LOGS_SILENT_MS 5000

struct attend;
struct logs;

// Makes the service, which takes the log pieces of `attend` (attend_on). Until
// logs_set_coord calls for a member's lines are SL_EUNAVAIL; the coordinator's
// own are always answered. Loop and attend are borrowed. SL_ENOMEM; `err` may
// be NULL.
enum sl_err logs_new(struct logs **out, struct loop *loop,
                     struct attend *attend, struct sl_error *err);

// Frees the service; no call waits any more (logs_set_coord with NULL, and
// api.h: after the server was freed and the loop has run what was posted). NULL
// is allowed.
void logs_free(struct logs *l);

// Sets the coord, borrowed until the next one is set. With NULL, calls that
// wait for a member and later ones are SL_EUNAVAIL with `why`, kept by the
// caller; `why` NULL: the coordinator is stopping. `l` may be NULL.
void logs_set_coord(struct logs *l, struct coord *c, const char *why);

// Returns the method of the service (Logs), for the server; it borrows l.
struct rpc_table logs_table(struct logs *l);

#endif
