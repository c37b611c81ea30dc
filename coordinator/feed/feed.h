// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/feed.h -- the history for people: events, the leases of each
// worker, and the course of a job's numbers.
//
// Nothing here decides anything, and no thread waits for it: each entry is in
// memory at once, and events, and a point a minute of each curve, are in a file
// of their own (FEED_FILE) soon, written by a thread. Spans and the points of
// the seconds are in memory alone. So the coordinator knows after a restart
// what happened before; without the file it has no history, and runs all the
// same.
//
// Threads  the loop's; the file has a thread.
// Memory   as events.h and traces.h say. NULL for a feed: nothing is kept (but
//          not of feed_keep); no other pointer is NULL but where it is said.
//          What is passed is copied; the clock is borrowed until feed_free.
//          What is returned is the feed's, not to be changed, and lives until
//          feed_free; events, spans and curves in it may go with the next call
//          that adds, and with feed_forget.
// Units    microseconds of the wall clock.
// Errors   none: what cannot be kept is missing. The log tells of a file that
//          cannot be read or written, and nothing tells of a lack of memory.
#ifndef COORDINATOR_FEED_FEED_H
#define COORDINATOR_FEED_FEED_H

#include "common/base/clock.h"
#include "coordinator/feed/events.h"
#include "coordinator/feed/traces.h"

#define FEED_FILE "events.sqlite"

struct feed;
struct feed_home;
struct journal;

struct feed_options {
    const struct sl_clock *clock;
    const char *folder; // folder of the file; NULL: no file
};

// Makes the feed, and reads its file, if options->folder has one, and so waits
// for the disk. A file that is no feed, or of a newer version, is renamed to
// FEED_FILE.bad; one that cannot be read now is tried again later. Returns
// SL_OK; or SL_ENOMEM, with *out untouched. `err` may be NULL.
enum sl_err feed_new(struct feed **out, const struct feed_options *options,
                     struct sl_error *err);

// Waits until all is written, or cannot be, and frees f with all that it has
// returned. NULL is allowed.
void feed_free(struct feed *f);

// Reads the rows that `db` holds (feed_store_kind; taken over; NULL: they could
// not be read) into a feed without a file and without events, and has `home`
// keep what happens from now on: for a coordinator that was chosen to lead,
// before its term. `f` is not NULL, and *home is copied; its `open` is called
// on the feed's thread. Rows that cannot be read, or later entries that cannot
// be kept, are a warning in the log.
void feed_keep(struct feed *f, const struct feed_home *home,
               struct journal *db);

// Waits until what happened is written, or cannot be, and keeps later entries
// in memory alone: before another coordinator leads.
void feed_let_go(struct feed *f);

// Gives later events ids above those of any feed that was told a lower term:
// standby coordinators have a feed each, and a reader that goes on with the ids
// of one at the next shall miss nothing. Ids never fall: a term that is too low
// changes nothing. `term` is below 2^29.
void feed_begin_term(struct feed *f, uint64_t term);

// Adds a copy of *said with this text as an event that happened now; said->id
// and said->wall_us are not read.
void feed_event(struct feed *f, const struct event *said, const char *text);

// Adds an event as feed_event does, unless one of the same kind, member and
// text, as they are kept (events_clean), is among the last 32 of its job (of
// all events, if said->uid is 0) and younger than a minute: for events that
// peers can cause as often as they like. A number in the text that grows makes
// each of them a new one.
void feed_event_once(struct feed *f, const struct event *said,
                     const char *text);

// Adds a copy of the span of an attempt of job `uid` that ended now;
// span->ended_us is not read. `worker` is the name of its worker.
void feed_span(struct feed *f, uint64_t uid, const struct lease_span *span,
               const char *worker);

// Adds a copy of a point of the curve of job `uid`, taken now; point->wall_us
// is not read. To be called about once a second; `final`: it is the job's last
// one.
void feed_point(struct feed *f, uint64_t uid, const struct curve_point *point,
                bool final);

// Frees the spans and curves of the deleted job `uid`, if it has any, and has
// the feed's thread remove them from the file; what it cannot remove comes back
// with the next start. Its events stay.
void feed_forget(struct feed *f, uint64_t uid);

// Returns the present time of the feed's clock; 0 if f is NULL.
uint64_t feed_wall_us(const struct feed *f);

// Returns the list of events, which is empty if f is NULL.
const struct events *feed_events(const struct feed *f);

// Returns the spans and curves of all jobs, which are empty if f is NULL.
const struct traces *feed_traces(const struct feed *f);

#endif
