// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/news.h -- a job's status, events and points since the
// last answer, in one answer.
//
// Each open page asks once a second, on the thread that leases closures. So all
// that a page of a job needs is one request, and its dearest part, the job's
// status, is written once for all requests within NEWS_MS.
//
// Threads  the loop.
// Memory   NEWS_KEPT texts, until news_release.
// Errors   as of the single questions (lists.h).
#ifndef COORDINATOR_DASHBOARD_NEWS_H
#define COORDINATOR_DASHBOARD_NEWS_H

#include "host/http/http.h"
#include "coordinator/core/coord.h"

#define NEWS_MS 250 // how long a status that was written serves
#define NEWS_KEPT 8 // jobs that pages show at one time

struct news {
    struct {
        char *id;        // the id as pages write it; NULL: the place is free
        struct buf text; // the status as JSON
        uint64_t at_us;  // when it was written
    } kept[NEWS_KEPT];
};

// Answers with {"status", "events", "history", "timeline"}: the job's status,
// without shards and spec and up to NEWS_MS old, and what of the lists is newer
// than ?event=, ?point_us= and ?span= (of the events the first WIRE_EVENTS_MAX,
// of the timeline the newest 2,000 spans, and all that run); each is 0 if it is
// not said, and 400 if it is no number. `id` names the job, borrowed for the
// call; 404: there is none. A status that was made is kept in *n, in place of
// the oldest one if there are NEWS_KEPT, which goes also if the status cannot
// be made.
void news_answer(struct news *n, struct coord *c, char *id,
                 const struct http_request *q, struct http_answer *a);

// Frees all kept texts and leaves *n all zeroes, which is allowed, too.
void news_release(struct news *n);

#endif
