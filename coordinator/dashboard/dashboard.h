// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/dashboard.h -- the dashboard: pages and their data on
// the ops port.
//
//   /                        the page; /page.css /page.js /chart.js
//   /api/v1/overview         numbers of members and jobs
//   /api/v1/pace             counted samples, a point a second: ?after_us=
//   /api/v1/jobs             as `sluice -o json jobs`: ?limit= ?before=
//   /api/v1/jobs/JOB         as `sluice -o json status JOB`: ?shards=0 ?spec=0
//   /api/v1/jobs/JOB/shards  a page of its shards: ?from= ?limit=
//   /api/v1/jobs/JOB/events  as /api/v1/events, of the job
//   /api/v1/jobs/JOB/timeline     ?after= ?limit=
//   /api/v1/jobs/JOB/history      ?after_us= ?minutes=1
//   /api/v1/jobs/JOB/checkpoints
//   /api/v1/jobs/JOB/news    news of the job, for a page: news.h
//   /api/v1/cluster          as `sluice -o json status`
//   /api/v1/members          a page of it: ?role= ?state= ?name= ?job= ?from=
//                            ?limit=
//   /api/v1/map              all of it, three words a member
//   /api/v1/events           a page: ?after= ?limit= ?newest=1, ?cluster=1 for
//                            those of no job alone; or a stream, ?after=, if
//                            text/event-stream is accepted
//
//   /api/v1/actions          what an admin may do, see actions.h
//
// All but the last only reads; all of it is there only while the ops port is on
// loopback. Requests are answered at once, from what the coordinator has in
// memory; jobs that have ended may be read from the journal, where a failure is
// fatal (coord.h). An action waits for the audit log (actions.h). Of a switch
// (=0, =1) all but "0" is 1.
//
// Threads  the loop.
// Memory   dashboard_close when the ops port is gone, and before the server is
//          freed, which is borrowed.
// Errors   of a request: its status, and JSON with "error".
#ifndef COORDINATOR_DASHBOARD_DASHBOARD_H
#define COORDINATOR_DASHBOARD_DASHBOARD_H

#include "host/http/http.h"
#include "common/net/tls.h"
#include "coordinator/dashboard/news.h"
#include "coordinator/feed/track.h"
#include "coordinator/service/server.h"

#define PACE_POINTS 900 // points that the pace keeps: 15 minutes

// Totals over all jobs at one moment, since the coordinator began.
struct pace_point {
    uint64_t wall_us, samples, closures;
};

struct dashboard {
    struct server *server;
    struct loop_timer *look; // adds to `pace`, and calls dashboard_look
    struct list viewers;     // streams of events
    struct track pace;       // struct pace_point, a second apart
    // The last list of members, for requests soon after; NULL: none.
    Sluice__V1__ClusterReply *cluster;
    uint64_t cluster_us; // when it was made
    struct news news;
    // Certificates that tokens are checked by; NULL: the dashboard only reads.
    struct tls_files *files;
};

// Sets up *d and adds the routes to `http`, for which *d stays where it is
// until dashboard_close; `server` has started. SL_EINVAL for
// --dashboard-actions without TLS, or where others can reach the ops port; the
// errors of tls_files_open; SL_ENOMEM. After a failure there is nothing to
// close. `err` may be NULL.
enum sl_err dashboard_open(struct dashboard *d, struct http *http,
                           struct server *server, struct sl_error *err);

// Stops the timer and frees what *d keeps; the streams of viewers have ended
// with the ops port. All zeroes is allowed, and so is a second call.
void dashboard_close(struct dashboard *d);

// ---- viewers.c: the stream of events

// Opens a stream of all events: those after the header Last-Event-ID (0 if it
// is no number) or, without it, ?after=; without both new ones alone. It is one
// of d->viewers until its reader goes away. Answers with an error if `after` is
// no number, there are too many viewers (http_stream_open) or memory is short.
void dashboard_stream(struct dashboard *d, const struct http_request *q,
                      struct http_answer *a);

// Sends new events to all viewers, each time d->look ticks: to each at most
// 200, the others at later ticks. A viewer that does not take them is dropped
// (http_stream_send). Does nothing while the server has no coord. `dashboard`
// is the struct dashboard.
void dashboard_look(void *dashboard);

#endif
