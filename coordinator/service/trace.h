// SPDX-License-Identifier: Apache-2.0
// coordinator/service/trace.h -- a trace of one job: every member keeps its
// spans for a while, then each is asked for them, piece by piece, and a client
// is sent what they say, with the offsets of their clocks. A member that did
// nothing for the job is left out; of a tenant's job also one that does not
// answer.
//
// There is one trace at a time. A few members are asked at once, and only while
// the client takes what it was sent, so the bytes on their way are bounded. A
// member that does not answer in time (it is of an older version, or gone) is
// named to the client and not waited for.
//
// Threads  the loop. The handler of the table: I/O threads.
// Memory   as api.h. Pieces are borrowed until the call returns.
// Errors   the stream ends with SL_EBUSY while there is another trace, or if
//          the client reads nothing; with SL_ENOENT or SL_ESTATE without a job
//          that runs; with SL_EUNAVAIL without a coord; with SL_ENOMEM. The
//          log tells when a trace begins and ends.
#ifndef COORDINATOR_SERVICE_TRACE_H
#define COORDINATOR_SERVICE_TRACE_H

#include "common/net/rpc.h"
#include "common/run/loop.h"
#include "coordinator/core/coord.h"

struct attend;
struct trace;

// Makes the service, which takes the trace pieces of `attend` (attend_on). A
// member has patience_ms for each answer. Loop and attend are borrowed.
// SL_ENOMEM; `err` may be NULL.
enum sl_err trace_new(struct trace **out, struct loop *loop,
                      struct attend *attend, unsigned patience_ms,
                      struct sl_error *err);

// Frees the service, when its stream has ended (api.h: after the server was
// freed and the loop has run what was posted). NULL is allowed.
void trace_free(struct trace *t);

// Sets the coord, borrowed until the next one is set. With NULL a trace that is
// under way ends, and later ones are refused, with `why`, a literal or kept by
// the caller; `why` NULL: the coordinator is stopping. To be called before the
// first call comes. `t` may be NULL.
void trace_set_coord(struct trace *t, struct coord *c, const char *why);

// Returns the methods of the service, for the server; they borrow t.
struct rpc_table trace_table(struct trace *t);

#endif
