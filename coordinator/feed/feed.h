// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/feed.h -- what people want to know afterwards: events, which
// worker had what, and how a job's numbers went.
//
// Nothing here decides anything, and nobody waits for it: what is said is in
// memory at once, and in a file of its own (FEED_FILE) soon, by a thread. So
// the coordinator knows after a restart what happened before; without the file
// it only does not.
//
// Threads  the loop's; the file has a thread.
// Memory   as events.h and traces.h say. NULL for a feed: nothing is kept.
// Units    microseconds of the wall clock.
// Errors   none: what cannot be kept is missing, and the log says so.
#ifndef COORDINATOR_FEED_FEED_H
#define COORDINATOR_FEED_FEED_H

#include "common/base/clock.h"
#include "coordinator/feed/events.h"
#include "coordinator/feed/traces.h"

#define FEED_FILE "events.sqlite"

struct feed;

struct feed_options {
    const struct sl_clock *clock;
    const char *folder; // of the file; NULL: there is none
};

// Reads what there is. A file that is none is put aside, as FEED_FILE.bad.
enum sl_err feed_new(struct feed **out, const struct feed_options *options,
                     struct sl_error *err);
void feed_free(struct feed *f); // writes what waits; NULL is allowed

// It happened now: id and wall_us are drawn.
void feed_event(struct feed *f, const struct event *said, const char *text);

// As above, but not again what is among the last few of its job and no older
// than a minute: for what others can make happen as often as they like.
void feed_event_once(struct feed *f, const struct event *said,
                     const char *text);

// An attempt has ended, now: ended_us is drawn.
void feed_span(struct feed *f, uint64_t uid, const struct lease_span *span,
               const char *worker);

// How a job stands, about once a second; `final`: it has ended so. wall_us is
// drawn.
void feed_point(struct feed *f, uint64_t uid, const struct curve_point *point,
                bool final);

// A job was deleted: only its events stay.
void feed_forget(struct feed *f, uint64_t uid);

uint64_t feed_wall_us(const struct feed *f); // 0: there is none

// For who shows it; empty where there is no feed.
const struct events *feed_events(const struct feed *f);
const struct traces *feed_traces(const struct feed *f);

#endif
