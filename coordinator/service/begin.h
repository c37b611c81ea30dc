// SPDX-License-Identifier: Apache-2.0
// coordinator/service/begin.h -- from the journal to a coord that serves: at
// the start, and again after what it waited for is there.
//
//             begin_new
//                 |
//   SERVES <------+------> WAITS_STORE      the store does not answer
//     ^  \                   |    ^
//     |   journal full       |    | asked on a pool thread, again and again
//     |    v                 |    |
//     |  WAITS_SPACE --------+----+         journal opened anew
//     +----------------------+              a new coord, of the next term
//
// With a journal in etcd it begins by WAITS_LEADER (lead.h), and comes to
// WAITS_STORE or SERVES when it is chosen to lead.
//
// While it waits, every call is answered with what it waits for, and the daemon
// is not ready.
//
// Threads  the loop's; begin_new, begin_timers, begin_serving: before it runs.
// Memory   the server's; begin_release frees timers and what is asked. `err` is
//          not NULL.
// Errors   of begin_new: those of journal.h (a newer journal is SL_ESTATE) and
//          coord_new. Later ones end the daemon.
#ifndef COORDINATOR_SERVICE_BEGIN_H
#define COORDINATOR_SERVICE_BEGIN_H

#include "coordinator/service/server.h"

// Opens the journal, asks the store and makes the coord, as s->options say.
// Returns SL_OK with s->coord set; SL_OK with s->coord NULL, and s->waits_for
// and s->waits set, if the store does not answer or there is no space for the
// journal, and at once with s->lead, which opens nothing before it is chosen;
// else an error. Waits for the disk and the store.
enum sl_err begin_new(struct server *s, struct sl_error *err);

// Makes the server's timers, which begin_serving starts. Returns SL_OK;
// SL_ENOMEM: what was made is for begin_release.
enum sl_err begin_timers(struct server *s, struct sl_error *err);

// Starts the timers: of the ticks if there is a coord, and tells the daemon
// that it is ready (daemon_ready); else of the next try, and calls are answered
// with what it waits for. To be called once, after begin_timers, when the port
// is open. With a journal in etcd it is ready as well and begins to stand by
// (lead_start): SL_ENOMEM. Else it cannot fail.
enum sl_err begin_serving(struct server *s, struct sl_error *err);

// Handles what lead.h tells: has calls answered with which coordinator leads,
// or takes over the journal, and the rows of the feed, and begins to make a
// coord of it; that it cannot ends the daemon. For lead_options.changed;
// `server` is a struct server.
void begin_on_lead(void *server);

// Stops the timers, and lets go of a question to the store that is under way,
// which ends by itself. No coord is made from then on. A second call does
// nothing.
void begin_stop(struct server *s);

// Frees the timers and what was asked of the store, after begin_stop; works on
// a server that never began, too.
void begin_release(struct server *s);

#endif
