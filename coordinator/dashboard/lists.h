// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/lists.h -- handlers of the paths in dashboard.h.
//
// Threads  the loop.
// Memory   the list of members and the pace, in the dashboard.
// Errors   503 while there is no coordinator, 404 for a job that is not there.
#ifndef COORDINATOR_DASHBOARD_LISTS_H
#define COORDINATOR_DASHBOARD_LISTS_H

#include "host/http/http.h"

#define LISTS_PAGE 100 // members, shards or jobs per page, by default
#define LISTS_PAGE_MAX 1000

struct dashboard;

// Adds a point to d->pace, in place of the oldest of PACE_POINTS, if its last
// one is a second old or there is none; does nothing while there is no
// coordinator.
void lists_pace_take(struct dashboard *d);

// Frees the list of members, if there is one, which no answer borrows; the next
// request that needs it makes another.
void lists_forget_cluster(struct dashboard *d);

// ---- handlers of http: arg is the dashboard, paths and queries are those of
// dashboard.h. A number that is out of bounds is 400. Without memory: 503. The
// list of members that three of them answer from may be half a second old if it
// has more than 1,000.

// Answers with the numbers of jobs and members, and the figures since the
// coordinator began.
void lists_overview(void *arg, const struct http_request *q,
                    struct http_answer *a);

// Answers with the points of the pace behind ?after_us=, as [wall_us, samples,
// closures]; there is an answer also while there is no coordinator.
void lists_pace(void *arg, const struct http_request *q, struct http_answer *a);

// Answers with up to ?limit= jobs, the newest first, below number ?before=.
void lists_jobs(void *arg, const struct http_request *q, struct http_answer *a);

// Answers for one job. The rest of the path is JOB, for its status, or JOB/ and
// one of the words shards, events, timeline, history, checkpoints and news;
// another word behind a slash is a part of JOB.
void lists_job(void *arg, const struct http_request *q, struct http_answer *a);

// Answers with the whole list of members, as JSON of ClusterReply.
void lists_cluster(void *arg, const struct http_request *q,
                   struct http_answer *a);

// Answers with a page of the members that fit ?role=, ?state=, ?name= (a part
// of it) and ?job= (workers that hold a lease of it: none if it has ended; 404
// if it is not there), how many of those there are, and how many members in
// all.
void lists_members(void *arg, const struct http_request *q,
                   struct http_answer *a);

// Answers with [name, state, number of leases or shards] for each member, by
// role.
void lists_map(void *arg, const struct http_request *q, struct http_answer *a);

// Answers with a page of all events, or of those of no job (?cluster=1); with a
// stream (dashboard_stream), of all, if the request accepts text/event-stream.
void lists_events(void *arg, const struct http_request *q,
                  struct http_answer *a);

#endif
