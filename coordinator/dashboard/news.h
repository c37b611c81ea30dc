// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/news.h -- what is new of a job, in one answer.
//
// A page that is open asks each second; so do all the others that are open, on
// the thread that leases closures. So what a page of a job wants is one
// question, and its dearest part, the job's status, is written once for all who
// ask within NEWS_MS.
//
// Threads  the loop.
// Memory   NEWS_KEPT texts, until news_release.
// Errors   as of the single questions (lists.h).
#ifndef COORDINATOR_DASHBOARD_NEWS_H
#define COORDINATOR_DASHBOARD_NEWS_H

#include "common/http/http.h"
#include "coordinator/core/coord.h"

#define NEWS_MS 250
#define NEWS_KEPT 8 // jobs that are looked at at a time

struct news {
    struct {
        char *id; // as it is asked for; NULL: the place is free
        struct buf text;
        uint64_t at_us;
    } kept[NEWS_KEPT];
};

// {"status", "events", "history", "timeline"}: those after ?event=, ?point_us=
// and ?span=.
void news_answer(struct news *n, struct coord *c, char *id,
                 const struct http_request *q, struct http_answer *a);
void news_release(struct news *n); // one that is all 0, too

#endif
