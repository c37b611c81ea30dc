// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/lists.h -- handlers of the paths in dashboard.h.
//
// Threads  the loop.
// Memory   the list of members and the pace, in the dashboard.
// Errors   503 while there is no coordinator, 404 for a job that is not there.
#ifndef COORDINATOR_DASHBOARD_LISTS_H
#define COORDINATOR_DASHBOARD_LISTS_H

#include "common/http/http.h"

#define LISTS_PAGE 100 // members, shards or jobs per page, by default
#define LISTS_PAGE_MAX 1000

struct dashboard;

// Takes the next point of the pace, if a second has passed.
void lists_pace_take(struct dashboard *d);

// Frees the list of members; the next request that needs it makes another.
void lists_forget_cluster(struct dashboard *d);

// Handlers of http; arg is the dashboard.
void lists_overview(void *arg, const struct http_request *q,
                    struct http_answer *a);
void lists_pace(void *arg, const struct http_request *q, struct http_answer *a);
void lists_jobs(void *arg, const struct http_request *q, struct http_answer *a);
void lists_job(void *arg, const struct http_request *q, struct http_answer *a);
void lists_cluster(void *arg, const struct http_request *q,
                   struct http_answer *a);
void lists_members(void *arg, const struct http_request *q,
                   struct http_answer *a);
void lists_map(void *arg, const struct http_request *q, struct http_answer *a);
void lists_events(void *arg, const struct http_request *q,
                  struct http_answer *a);

#endif
