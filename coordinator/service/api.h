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

// Makes the service. Calls that change something are written to `audit`, which
// is borrowed, and answered once their line is on disk.
enum sl_err api_new(struct api **out, struct loop *loop, struct audit *audit,
                    const struct watch_limits *limits,
                    const struct sl_clock *clock, struct sl_error *err);
void api_free(struct api *a); // NULL is allowed

// Sets the coord that decides, borrowed until the next one is set. With NULL,
// calls are answered SL_EUNAVAIL with `why`, a literal or kept by the caller;
// `why` NULL: the coordinator is stopping. Watchers wait for the next coord.
void api_set_coord(struct api *a, struct coord *c, const char *why);

// Returns the methods of the Jobs service, for the server; they borrow a.
struct rpc_table api_table(struct api *a);

// Decides a call that came by another door than the port, from a peer that has
// proven its identity there; `path` is one of the table's unary calls. The call
// is judged by the peer's role, read, decided and audited as if it had come by
// the port: so it waits until its line is on disk, and with no coord it is
// SL_EUNAVAIL. Not from within a call of the coord. The reply is the caller's:
// wire_free; it is set on SL_OK alone. `err` is not NULL.
enum sl_err api_ask(struct api *a, const char *path,
                    const struct rpc_peer *peer,
                    const ProtobufCMessage *request, ProtobufCMessage **reply,
                    struct sl_error *err);

// Notes that a call was refused for its caller's role; any thread. A call that
// would have changed something is written to the audit log at a tick.
void api_refused(struct api *a, const char *path, const struct rpc_peer *peer,
                 const struct sl_error *why);

// Writes the lines about denied calls that are due; once per tick.
void api_tick(struct api *a);

// Writes a line of a decision made elsewhere, copied, to the audit log, soon.
void api_note(struct api *a, const struct audit_line *line);

// Has watchers looked at soon, as a job has changed, ended or is gone; for
// coord_io.changed: calls nothing of the coord.
void api_changed(struct api *a, uint64_t job);

#endif
