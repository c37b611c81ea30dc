// SPDX-License-Identifier: Apache-2.0
// coordinator/service/server.h -- the daemon around a coord: journal, loop,
// port.
//
// Threads  the loop's.
// Memory   server_stop frees all but the struct.
// Errors   server_start: usage-like ones (addresses, TLS) as they come; those
//          of the journal, SL_ESTATE, SL_EIO, SL_ECORRUPT: exit 1.
#ifndef COORDINATOR_SERVICE_SERVER_H
#define COORDINATOR_SERVICE_SERVER_H

#include "common/daemon/daemon.h"
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
#include "coordinator/journal/journal.h"
#include "coordinator/tasks/tasks.h"
#include "proto/introspect.h"

enum server_waits {
    SERVER_SERVES,
    SERVER_WAITS_SPACE, // on the journal's disk
    // for the store's answer, without which no member is let in (K6)
    SERVER_WAITS_STORE,
};

struct begin_asking;
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
    struct notes notes; // of tasks
    struct trace *trace;
    struct logs *logs;
    struct observe *observe; // NULL: nothing may be written
    struct rpc_io *io;
    struct rpc_server *rpc;
    struct loop_timer *tick, *ending;
    char *store;         // owned
    struct fs *store_fs; // never freed
    struct coord_options options;
    struct quota *quotas; // owned
    // What the server waits for, and why: "" while it serves. Only begin.c
    // changes these.
    enum server_waits waits_for;
    struct loop_timer *again;
    char waits[SL_ERROR_TEXT];
    struct stored *stored; // owned; for a coord that is not made yet
    // the question to the store, on a pool thread; NULL: none
    struct begin_asking *asking;
};

extern const struct conf_key server_keys[];

enum sl_err server_start(struct daemon *d, void *server, struct sl_error *err);
void server_checks(struct daemon *d, void *server, struct ops_checks *c);
void server_measure(struct daemon *d, void *server, struct expo *e);
void server_drain(struct daemon *d, void *server);
void server_stop(struct daemon *d, void *server);

#endif
