// SPDX-License-Identifier: Apache-2.0
// coordinator/service/server.h -- the daemon around a coord: journal, loop,
// port.
//
// Threads  the loop's.
// Memory   server_stop frees all but the struct. `server` is a struct server,
//          and no pointer is NULL.
// Errors   server_start: usage-like ones (addresses, TLS) as they come; those
//          of the journal, SL_ESTATE, SL_EIO, SL_ECORRUPT: exit 1.
#ifndef COORDINATOR_SERVICE_SERVER_H
#define COORDINATOR_SERVICE_SERVER_H

#include "host/daemon/daemon.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "coordinator/service/api.h"
#include "coordinator/service/attend.h"
#include "coordinator/service/audit.h"
#include "coordinator/service/logs.h"
#include "coordinator/service/notes.h"
#include "coordinator/service/observe.h"
#include "coordinator/service/trace.h"
#include "coordinator/core/coord.h"
#include "coordinator/feed/feed.h"
#include "coordinator/feed/feed_store.h"
#include "coordinator/journal/journal.h"
#include "coordinator/tasks/tasks.h"
#include "proto/introspect.h"

enum server_waits {
    SERVER_SERVES,
    SERVER_WAITS_SPACE, // the journal's disk has to have space
    // the store has to answer; without that no member is let in (K6)
    SERVER_WAITS_STORE,
    SERVER_WAITS_LEADER, // another coordinator leads, or may (lead.h)
};

struct begin_asking;
struct lead;
struct quorum;
struct stored;

struct server {
    struct daemon *daemon;
    struct loop *loop;
    struct journal *journal;
    struct coord *coord;
    struct attend *attend;
    struct api *api;
    struct audit *audit;
    struct feed *feed;
    struct introspect *introspect;
    struct tasks *tasks;
    struct notes notes; // takes the news of tasks
    struct trace *trace;
    struct logs *logs;
    struct observe *observe; // NULL: nothing may be written
    struct rpc_io *io;
    struct rpc_server *rpc;
    struct loop_timer *tick, *ending; // ending: looks for open calls at the end
    char *store;                      // owned
    // Only with --journal etcd://..: the journal's place, and the choice of the
    // coordinator that leads. Calls to etcd wait, on any thread, so it has an
    // I/O thread of its own.
    struct rpc_io *etcd_io;
    struct etcd *etcd;
    struct quorum *quorum; // what its members say of themselves
    struct lead *lead;
    struct feed_home feed_home; // where the feed is kept, with a lead
    struct fs *store_fs;        // never freed
    struct coord_options options;
    struct quota *quotas; // owned
    // What the server waits for, and why: "" while it serves. Only begin.c
    // changes these.
    enum server_waits waits_for;
    struct loop_timer *again; // tries again what it waits for
    char waits[SL_ERROR_TEXT];
    struct stored *stored; // owned; for a coord that is not made yet
    // the question to the store, on a pool thread; NULL: none
    struct begin_asking *asking;
};

// The options of the daemon.
extern const struct conf_key server_keys[];

// ---- hooks of the daemon (daemon.h); `server` is a struct server

// Opens the store, the journal, the tasks and the port, and begins to serve or
// to wait. Waits for the disk and the store. On failure all that was made is
// freed (server_stop is called), and *server is all zeroes again, as it is
// before; so it is after --resign and --migrate, which are then done.
// server_stop may follow. `err` is not NULL.
enum sl_err server_start(struct daemon *d, void *server, struct sl_error *err);

// Adds the daemon's checks of readiness to `c`: journal, store and term, with a
// lead also whether it leads. What it waits for fails, and with it the term.
void server_checks(struct daemon *d, void *server, struct ops_checks *c);

// Writes the figures for /metrics, after server_start; those of jobs with
// --metrics-per-job. While it waits for a coord, figures that need one have no
// values, or 0.
void server_measure(struct daemon *d, void *server, struct expo *e);

// Ends all streams and calls, for good, and does not wait for them:
// daemon_drained is called, and the loop stopped, once none is open and no
// manifest is being written; without memory at once. With a lead it gives that
// up (lead_stop), at once or after the manifest, and waits for the feed and for
// etcd, about a second. Once, after server_start.
void server_drain(struct daemon *d, void *server);

// Ends all calls as server_drain does, runs the loop until none is open, then
// frees all parts and leaves *server all zeroes; works on a server that has
// started in part, too. Not from a handler of the loop.
void server_stop(struct daemon *d, void *server);

#endif
