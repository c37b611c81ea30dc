// SPDX-License-Identifier: Apache-2.0
// coordinator/service/job_watch.h -- clients that follow a job.
//
// A watcher is one stream: its client is sent the status of one job when it
// comes, when that has changed, and once more when the job has ended, which
// ends the stream (api.h says how often).
//
// Threads  watch_open: I/O threads. The rest: the loop.
// Memory   as api.h. A watcher that does not read costs one status: the newest
//          status follows when the watcher has taken that.
// Errors   a job that does not exist ends the stream with SL_ENOENT; one that
//          is deleted while it is watched, too. SL_EBUSY: there are too many
//          watchers (in the log once a minute), or this one takes nothing for
//          longer than the patience (in the log).
#ifndef COORDINATOR_SERVICE_JOB_WATCH_H
#define COORDINATOR_SERVICE_JOB_WATCH_H

#include "common/run/expo.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "coordinator/core/coord.h"
#include "coordinator/core/job.h"

struct watch;

struct watch_limits {
    // watchers in all, and of a caller: a certificate, or all peers without one
    unsigned watchers, per_caller;
    unsigned patience_ms; // how long a watcher may take nothing
};

// Makes the table of watchers, and starts to look at them every API_WATCH_MS;
// copies `limits`, borrows the loop. SL_ENOMEM; `err` may be NULL.
enum sl_err watch_new(struct watch **out, struct loop *loop,
                      const struct watch_limits *limits, struct sl_error *err);

// Frees the table, when all watchers have ended (api.h). NULL is allowed.
void watch_free(struct watch *w);

// Sets the coord that watchers are served by, borrowed until the next call.
// Each watcher is sent a status at the next look then, changed or not. `c`
// NULL: new watchers are refused with SL_EUNAVAIL and the text `why`, which
// must stay valid and is not NULL; those that are there wait for the next
// coord, or for the server's end. To be called before the first watcher comes.
void watch_set_coord(struct watch *w, struct coord *c, const char *why);

// Takes over the stream of a new watcher: reads its request and posts it to the
// loop. A caller without a role, a request that cannot be read, or a lack of
// memory ends the stream at once, with the error.
void watch_open(struct watch *w, struct rpc_stream *stream);

// Writes the numbers of statuses that this process made and sent.
void watch_measure(struct expo *e);

// Notes that this job has changed, so that all watchers, of whatever job, are
// looked at in a later turn of the loop, once for all calls until then; cheap.
void watch_changed(struct watch *w, uint64_t job);

#endif
