// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/feed_store.h -- the rows of the feed: events, and the
// curves' points of the minutes.
//
// SQLite as the journal uses it, in a file of its own, but without a sync at
// each commit: what a power cut takes is history, and nothing hangs on it. Or
// in memory and in etcd, below "events/", for coordinators that stand by for
// each other (journal_etcd.h).
//
// Threads  one at a time.
// Memory   rows are copied; `err` may be NULL.
// Errors   SL_EUNAVAIL: no space; SL_EIO, SL_ECORRUPT: with SQLite's words.
//          After one, only feed_store_close is allowed.
#ifndef COORDINATOR_FEED_FEED_STORE_H
#define COORDINATOR_FEED_FEED_STORE_H

#include "common/base/status.h"
#include "coordinator/feed/events.h"
#include "coordinator/feed/traces.h"

#define FEED_MINUTES_ALL 200000 // points of all jobs that a file keeps

struct feed_store;
struct journal;
struct journal_kind;

extern const struct journal_kind feed_store_kind;

// Where a coordinator that others stand by for keeps the rows: `open` reads
// those of feed_store_kind, as the coordinator that leads; the journal is the
// caller's. On any thread; waits.
struct feed_home {
    enum sl_err (*open)(void *arg, struct journal **out, struct sl_error *err);
    void *arg;
};

// Opens the file at `path`, made if it is missing; with `home` (NULL: none)
// what is kept there instead, and `path` is not read. *out is for
// feed_store_close. SL_ENOTSUP: written by a newer version; SL_ENOMEM; errors
// of home->open.
enum sl_err feed_store_open(struct feed_store **out, const char *path,
                            const struct feed_home *home, struct sl_error *err);

// Makes the store of the rows that `db` holds, and takes `db` over, also when
// it fails: SL_ENOMEM.
enum sl_err feed_store_of(struct feed_store **out, struct journal *db,
                          struct sl_error *err);

// Closes the file or the journal and frees s. NULL is allowed.
void feed_store_close(struct feed_store *s);

// Receivers of the file's rows, the oldest first.
struct feed_load {
    void (*event)(void *arg, const struct event *said, const char *text);
    void (*minute)(void *arg, uint64_t uid, const struct curve_point *point);
    void *arg;
};

// Passes all rows of the file to the functions of `load`: the events, then the
// points, oldest first; events of a kind that this version does not know are
// left out. What is passed is borrowed for the call. After a failure `load` has
// had a part of the rows.
enum sl_err feed_store_load(struct feed_store *s, const struct feed_load *load,
                            struct sl_error *err);

// One row to be written. Owned by its holder: sl_free.
struct feed_row {
    struct list_node node;
    enum {
        FEED_ROW_EVENT,  // adds the event, or replaces that of its id
        FEED_ROW_DROP,   // removes an event
        FEED_ROW_MINUTE, // adds a point of a job's minutes
        FEED_ROW_FORGET  // removes all points of a job, but no events
    } what;
    uint64_t id;              // DROP: the event's id
    uint64_t uid;             // MINUTE, FORGET: the job's uid
    struct curve_point point; // MINUTE; its rate is not NAN
    struct event event;       // EVENT; last field: its texts follow
};

// Writes all rows, a list of struct feed_row that may be empty, in one
// transaction, or none of them, and deletes the oldest points beyond
// TRACES_MINUTES of a job and beyond FEED_MINUTES_ALL; the rows stay the
// caller's, in their list.
enum sl_err feed_store_write(struct feed_store *s, const struct list *rows,
                             struct sl_error *err);

#endif
