// SPDX-License-Identifier: Apache-2.0
// coordinator/service/api.h -- the Jobs service: clients <-> coord.
//
// A unary call is decoded on its I/O thread, decided on the loop, answered
// from there. Watch is a server stream: the status now, and again when it has
// changed, at most four times and 1 MiB a second, and once more when the job
// has ended.
//
// Threads  api_refused: any; others: the loop. Handlers: I/O threads.
// Memory   api_free after the server was freed and the loop has run what was
//          posted. Loop, audit log, clock and coord are borrowed; limits are
//          copied.
// Errors   SL_ENOMEM of api_new, with *out untouched; of a call, to its caller.
#ifndef COORDINATOR_SERVICE_API_H
#define COORDINATOR_SERVICE_API_H

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "coordinator/core/coord.h"
#include "coordinator/service/audit.h"
#include "coordinator/service/job_watch.h"

#define API_WATCH_MS 250 // shortest time between two statuses for a watcher

struct api;

// Makes the service, *out. Calls that change something are written to `audit`,
// which is borrowed, and answered once their line is on disk, or cannot be.
enum sl_err api_new(struct api **out, struct loop *loop, struct audit *audit,
                    const struct watch_limits *limits,
                    const struct sl_clock *clock, struct sl_error *err);

// Hands the lines of refused calls that wait to the audit log, which is freed
// later, and frees a with its watchers' table. NULL is allowed.
void api_free(struct api *a);

// Sets the coord that decides the calls, borrowed until the next call of this
// function. `c` NULL: calls are answered with SL_EUNAVAIL and the text `why`,
// which stays the caller's and must stay valid; `why` NULL: the coordinator is
// stopping. Watchers wait for the next coord. To be called, with a coord or
// NULL, before the first call comes: api_new leaves both unset.
void api_set_coord(struct api *a, struct coord *c, const char *why);

struct lead;

// Sets the lead that is looked at before each call is answered (H4), borrowed
// until api_free; NULL, as at first: none.
void api_set_lead(struct api *a, struct lead *l);

// Returns the methods of the Jobs service, for the server; they borrow a.
struct rpc_table api_table(struct api *a);

// Decides a call that came in another way than through the port, from a peer
// that has proven its identity; `path` is one of the table's unary calls, but
// not Submit, List or Cluster, which take more than one turn. The peer's role,
// the checks and the audit are as for the port; so it waits until the line of
// the audit log is on disk. Returns SL_OK with *reply, which is the caller's
// (wire_free); else the error of the call, SL_EUNAVAIL without a coord, with
// *reply as it was. Not to be called from within a call of the coord. `err` is
// not NULL.
enum sl_err api_ask(struct api *a, const char *path,
                    const struct rpc_peer *peer,
                    const ProtobufCMessage *request, ProtobufCMessage **reply,
                    struct sl_error *err);

// Notes that the call `path` was refused to `peer` for its role, `why` being
// the error; any thread. For a call that would have changed something, a line
// is written to the audit log at a later tick (denials.h); for others nothing
// is done.
void api_refused(struct api *a, const char *path, const struct rpc_peer *peer,
                 const struct sl_error *why);

// Hands the lines about refused calls, and about failures that were counted,
// that are due to the audit log; waits for no disk. To be called once per tick.
void api_tick(struct api *a);

// Hands a line about a decision made elsewhere to the audit log, which copies
// it and writes it soon; of failures that come too fast, one line for many is
// written later (denials.h).
void api_note(struct api *a, const struct audit_line *line);

// Notes that a job has changed, has ended or is gone, so that its watchers are
// looked at soon. For coord_io.changed: calls no function of the coord.
void api_changed(struct api *a, uint64_t job);

#endif
