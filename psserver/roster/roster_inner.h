// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_inner.h -- the roster's own structs; for roster*.c
// only.
//
// Threads  the loop, but for the jobs of roster_work, which hold a pin of what
//          they use.
// Memory   messages are packed when they are sent: arguments are borrowed for
//          the call.
// Errors   a message that cannot be sent, or made for want of memory, is
//          dropped, and the caller is not told (roster_setup.send): the
//          coordinator, to which all messages go, asks again or gets a hello at
//          the next attachment.
#ifndef PSSERVER_ROSTER_ROSTER_INNER_H
#define PSSERVER_ROSTER_ROSTER_INNER_H

#include <stdatomic.h>

#include "common/base/list.h"
#include "state/shard/pairmap.h"
#include "psserver/roster/feeder.h"
#include "plan/tables.h"
#include "psserver/roster/roster.h"
#include "state/snap/snap.h"

// The shard that a line of the log is about.
#define HOLD_PAIRS "job=%" PRIu64 " shard=%" PRIu32
#define HOLD_VALUES(h) (h)->spec->job, (h)->spec->shard

enum hosted_state {
    HOSTED_LOADING,
    HOSTED_LOADED,
    HOSTED_ADMITTED,
    HOSTED_FAILED
};

struct roster {
    struct roster_setup setup; // `folder` in it is owned
    struct pairmap hosted;     // struct hosted by (job, shard); owned
    struct feed_links links;   // of feeds
    uint64_t term;             // newest term seen
    bool draining;             // as the last heartbeat said
    bool empties;              // as the next one is to say
    uint64_t pushes_before;    // count of shard_waits when the roster was made
    size_t working;            // jobs on the pool
    struct list writing;       // struct snapping: snapshots under way
    struct list deleting;      // struct collect: wait for some of these; owned
    bool ending;               // roster_free waits for these jobs
    size_t saving;             // snapshots that roster_save waits for
    void (*saved)(void *arg);
    void *saved_arg;

    // Snapshots since the start, by how they ended.
    uint64_t written, no_space, unwritten, written_bytes;
    struct histogram took;
    bool full; // the last snapshot found no space
};

// A snapshot of a shard that is to be written.
struct snap_wish {
    uint64_t incarnation, request;
    bool save;     // roster_save waits for it
    bool last;     // the shard waits for it, and moves (M1)
    uint64_t feed; // order of the feed that begins with it; 0: none
};

// A feed of a shard that is under way.
struct hosted_feeds {
    struct feeder *feeder; // NULL: none is; owned
    uint64_t order, incarnation;
    bool replica;
    bool told;    // since the attachment: the replica has all that was answered
    uint64_t lag; // that was told last
    struct sl_error failure; // of a replica's: why acknowledgements are missing
};

// A shard that this server was told to hold.
struct hosted {
    struct roster *roster;
    enum hosted_state state;
    Sluice__V1__ShardSpec *spec; // owned
    struct wire_tag at_least;    // oldest snapshot that will do (K7)
    bool exact;                  // a snapshot newer than `at_least` will not do
    char *folder;                // folder of its snapshots; owned
    struct shard *shard;         // LOADED, ADMITTED: a reference
    // the highest incarnation that a memory of this shard had in this process
    uint64_t bore;
    struct sl_error failure; // reason for FAILED, or for LOADING once more
    uint64_t failed_ms;
    unsigned pins;   // jobs on the pool that use it
    bool gone;       // out of the roster; the last pin frees it
    bool again;      // the snapshot being loaded is to be loaded anew
    bool prepares;   // another psserver owns it; never admitted (M4)
    uint64_t follow; // with it: order of the feed; 0: none
    uint64_t follow_incarnation; // of the feed's source
    struct hosted_feeds feeds;
    _Atomic bool *stop_load; // true ends the loading; NULL: none is under way

    struct shard_brief brief; // as reported last
    unsigned missed;          // reports in a row that found the lock taken
    uint64_t told_steps; // steps of the counted set that was told last (L4)
    // Figures of each table as they were read last, and then as they were
    // reported last; owned; NULL: none were read.
    struct rowset_counts *tables;
    bool untold; // the next report has all tables

    const struct snapping *snapping; // snapshot being written, or NULL
    bool wanted;                     // another snapshot is asked for: `wish`
    struct snap_wish wish;
    // Beside a ring: the request for a snapshot after round `later_round`; 0:
    // none.
    uint64_t later_round, later_request;
    bool save;            // roster_save waits for the end of `snapping`
    uint64_t saved_steps; // steps counted in its newest durable snapshot
    uint64_t saved_ms;    // time when that was written or loaded
};

// Starts a job on the pool: work(arg) runs there, then done(arg) on the loop,
// which must call roster_worked. Counts it in r->working. Returns SL_OK; on
// failure, as of loop_work, neither is called.
enum sl_err roster_work(struct roster *r, loop_fn work, loop_fn done,
                        void *arg);
// Notes that a job of roster_work is over; the last one ends the wait of
// roster_free.
void roster_worked(struct roster *r);

// Checks that the store of snapshots is there and is ours (membership_check);
// any thread, but it waits for the store. Returns SL_OK, also if
// setup.membership is NULL, or why not.
enum sl_err roster_store(const struct roster *r, struct sl_error *err);

// Keeps `h` alive for a job on the pool, until hosted_unpin.
void hosted_pin(struct hosted *h);
// Ends a pin; the last one of a dropped shard frees it.
void hosted_unpin(struct hosted *h);

// Takes a shard out of the roster and the store, closes it, and ends its feed;
// a load is told to stop. Its jobs on the pool end by themselves, and `h` is
// freed here unless one has a pin. Tells the coordinator nothing.
void hosted_drop(struct hosted *h);

// Returns true, and notes the term, if it is not below the newest seen; else
// logs that `what` is ignored (I5).
bool roster_term_holds(struct roster *r, uint64_t term, const char *what);
// Drops the memory if there is any, with its feed, and loads the newest
// snapshot; if one is being loaded, loads anew when that is over. A request
// that waits for a round (later_round) is forgotten without a report, and one
// with `last` becomes an ordinary one. A load that cannot begin leaves the
// shard FAILED, which its hello says.
void hosted_load_anew(struct hosted *h);
// Drops the memory of a shard beside a ring, LOADED or ADMITTED, that cannot
// follow it: loads anew if `why` is that it has another state (SL_ESTALE,
// SL_EUNAVAIL, SL_EINVAL); else the shard has FAILED, and its hello says why.
void hosted_unfit(struct hosted *h, const struct sl_error *why);
// Tells those that wait for a round of the shard, which has memory, that one
// was applied: calls setup.applied, if it is set.
void hosted_applied(struct hosted *h);
// Takes the snapshot that waits for the present round, beside a ring; reports
// that it was not written if that round is past, or another one is being
// written. Does nothing if none waits, or its round is to come; once the job's
// last step is counted none is, and the state is taken as it is. Called behind
// each round, of a shard with memory (roster_snap.c).
void hosted_reached(struct hosted *h);

// Sends the hello of a shard that is not LOADING: its counts, and if it is
// ADMITTED its incarnation; or why it failed, also if its counts are too large
// for a message. The next report has all its tables (h->untold). Waits for the
// shard's lock (roster_send.c, as those below).
void hosted_send_hello(struct hosted *h);

// Tells the coordinator that the shard has the learning rates up to the one
// that begins with `closure`.
void hosted_send_rates(struct hosted *h, uint64_t closure);
// Sends a report of an ADMITTED shard with its counted set, and 1 above the
// closure of the CloseRound that it answers; 0: none. Waits for the shard's
// lock. Notes what was told (h->told_steps), also without a stream, as a hello
// tells it then. Without memory nothing is noted, by which the next heartbeat
// tries again.
void hosted_send_counted(struct hosted *h, uint64_t answers);
// Closes an ADMITTED shard, so that no more steps are counted, and sends its
// last report, with all its tables. Waits for the shard's lock.
void hosted_send_last(struct hosted *h);
// Reports to the coordinator the snapshot *w, which was written for `request`;
// `feed` is the order of the feed that began at its instant; 0: none.
void hosted_send_snapshot(struct hosted *h, uint64_t request, uint64_t feed,
                          const struct snap_written *w);
// Sends, on the loop, heartbeat number `seq` with reports of the shards, in
// several messages if they are many; `admitted` is how many are ADMITTED. Sets
// r->draining. Without memory the heartbeat has no reports. A shard of which no
// figures were read yet has none.
void roster_send_heartbeat(struct roster *r, size_t admitted, uint64_t seq,
                           bool draining);

// ---- roster_follow.c

// Ends the shard's feed, if one is under way, and drops its log; tells the
// coordinator nothing.
void hosted_feed_drop(struct hosted *h);
// Makes a shard that was just loaded follow its source, if it was asked to and
// has the snapshot with which the feed began; else h->follow becomes 0.
void hosted_follow(struct hosted *h);
// Returns true if the shard is LOADED and has followed its source to the end:
// from now on it is one that was loaded, and may be admitted (h->prepares is
// false). False: it is as it was.
bool hosted_followed(struct hosted *h);
// Does the same for a shard that follows feed `order`, wherever that is: the
// following ends, and it takes over with what it has (P4, shard_follow_stop).
bool hosted_takes_over(struct hosted *h, uint64_t order);
// Tells the coordinator of the replica that the shard feeds, if its answers are
// bound to it: that it has all, unless that was told since the attachment with
// the same lag; that it is missed, again and again. If the feed is over, it is
// given up here (hosted_replica_lost).
void hosted_tell_replica(struct hosted *h);
// Ends the feed to the shard's replica and drops its log, keeps `why` for later
// reports, logs it and tells the coordinator. Answers stay bound to the replica
// (P3).
void hosted_replica_lost(struct hosted *h, const struct sl_error *why);
// Reports that the replica has all that was answered (`ready`), or why
// acknowledgements are missing (`failure`, "" with `ready`), and its lag, 0
// without memory, which h->feeds.lag becomes (roster_send.c).
void hosted_send_replica(struct hosted *h, bool ready, const char *failure);
// Tells the coordinator how the feed has ended; "": well (roster_send.c).
void hosted_send_feed_ended(struct hosted *h, const char *failure);

// ---- roster_tables.c: sparse tables in heartbeats

// The hottest rows of a table, in two lists as the message has them.
struct table_hot_report {
    uint64_t ids[TABLE_HOT], updates[TABLE_HOT];
};

// The tables of one heartbeat; the heartbeat's reports point into `list`.
struct table_reports {
    Sluice__V1__TableFigures *msgs;  // owned: `room` of them
    Sluice__V1__TableFigures **list; // owned
    struct table_hot_report *hot;    // owned: as many; NULL: none are told
    size_t room, used;
    bool all;     // report also tables that did not change
    size_t total; // tables of all shards
    size_t from;  // tables before the first shard that has its turn
    size_t at;    // tables before the next shard
};

// Begins the tables of heartbeat number `seq`, which rises by one: shards take
// turns if all tables are too many for it, and each 16th has tables that did
// not change, too (t->all), as one may have been lost. Without memory no table
// is reported.
void table_reports_init(struct table_reports *t, struct roster *r,
                        uint64_t seq);
// Begins a report that has all tables of the shard h, whether or not they
// changed; without memory none.
void table_reports_init_one(struct table_reports *t, const struct hosted *h);
// Adds to `msg`, the report of a shard the figures of which were just read
// (hosted_tables), those of its tables that changed since they were reported
// last, or all (t->all); does nothing if it is not the shard's turn, or none
// were read. Notes them as reported, whether or not the message is sent.
void table_reports_add(struct table_reports *t, struct hosted *h,
                       Sluice__V1__ShardReport *msg);
// Frees what the tables have, when all messages are sent. All zeroes is
// allowed.
void table_reports_release(struct table_reports *t);

// Returns the array into which shard_brief_each reads the figures of the
// shard's tables, one for each, which is made at the first call and stays the
// shard's; NULL: it has no tables, or there is no memory.
struct rowset_counts *hosted_tables(struct hosted *h);

// Tells the coordinator that all files of the job with this number were
// deleted; the random `uid` tells it apart from a job of the same number of
// another journal.
void roster_send_deleted(struct roster *r, uint64_t job, uint64_t uid);
// Tells the coordinator that no snapshot was written for `request`, and why;
// job_incarnation is 0 if the shard is not held here.
void roster_send_no_snapshot(struct roster *r, uint64_t job,
                             uint64_t job_incarnation, uint32_t shard,
                             uint64_t request, const char *why);

#endif
