// SPDX-License-Identifier: Apache-2.0
// coordinator/server.h -- the daemon around a coord: journal, loop, port.
//
// Threads  the loop's.
// Memory   server_stop frees all but the struct.
// Errors   of server_start: usage-like ones (addresses, TLS) as they come; of
//          the journal SL_ESTATE, SL_EIO, SL_ECORRUPT: exit 1.
#ifndef COORDINATOR_SERVER_H
#define COORDINATOR_SERVER_H

#include "common/daemon.h"
#include "common/loop.h"
#include "common/rpc.h"
#include "coordinator/api.h"
#include "coordinator/attend.h"
#include "coordinator/coord.h"
#include "coordinator/journal.h"
#include "proto/introspect.h"

struct server {
    struct daemon *daemon;
    struct loop *loop;
    struct journal *journal;
    struct coord *coord;
    struct attend *attend;
    struct api *api;
    struct introspect *introspect;
    struct rpc_io *io;
    struct rpc_server *rpc;
    struct loop_timer *tick, *ending;
    char *store; // owned
};

extern const struct conf_key server_keys[];

enum sl_err server_start(struct daemon *d, void *server, struct sl_error *err);
void server_drain(struct daemon *d, void *server);
void server_stop(struct daemon *d, void *server);

#endif
