// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/move.h -- shards that move from one psserver to
// another while their job trains (M1 to M5).
//
//   MOVE_WRITES    the source writes a snapshot while it serves, and begins a
//                  log of what it does from then on
//   MOVE_PREPARES  the target loads it, so what cannot go well fails here
//   MOVE_FEEDS     the source sends the log (a feed), and stops when little is
//                  left; the target follows: it does the same operations
//   (over)         the journal names the target, which has all of it, and is
//                  admitted as after a loss
//
// A shard goes by files alone if one of the two does not know feeds, or if its
// last move was given up while it was fed:
//
//   MOVE_LAST      behind MOVE_PREPARES: the source has stopped, and writes its
//                  last snapshot; once it is the owner the target loads anew
//
// A replica begins in the same way (P2): in MOVE_FEEDS the source never stops,
// and the end is moves_followed.
//
// Only the last step is durable: a move that is given up, or forgotten by a
// restart, leaves the source the owner, and its next admission sets it going.
// To give a move up is to tell the target to drop what it has loaded
// (send_refuse), and to ask a source that may have stopped, or writes a log,
// for a hello.
//
// A psserver takes part in one move at a time. A move begins if a psserver
// leaves (drained, or ending with --drain), or if the job's placement.move says
// auto and the shard may go where, behind it, there is not more than it leaves
// (shards_weigh: bytes of all jobs). Workers wait for the end of each move, so
// moves of a job that only even psservers out are MOVES_REST_MS apart; a
// psserver that leaves loses its shards one after the other.
//
// Threads  the loop.
// Memory   moves are owned by the coord. Messages are borrowed for the call. No
//          pointer is NULL.
// Units    ms of coord_now.
// Errors   a move that cannot go on is given up, with an event, and tried again
//          later (MOVES_AGAIN_MS, longer each time). A journal that cannot be
//          written is fatal. Without memory none begins.
#ifndef COORDINATOR_CORE_SHARDS_MOVE_H
#define COORDINATOR_CORE_SHARDS_MOVE_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

#define MOVES_LOOK_MS 1000    // between looks for shards that may move
#define MOVES_REST_MS 2000    // of a job, before and after moves that even out
#define MOVES_AGAIN_MS 10000  // before a shard moves again after a failure,
#define MOVES_FAILED_MS 60000 // and before one moves to a psserver that failed
#define MOVES_LATE_MS 120000  // after which a phase of a move is given up,
#define MOVES_STOP_MS 15000   // and one in which the source may have stopped

enum move_phase { MOVE_WRITES, MOVE_PREPARES, MOVE_FEEDS, MOVE_LAST };

struct move {
    struct list_node node; // link in coord.moves
    uint64_t job;
    uint32_t shard;
    uint64_t source, target; // members
    enum move_phase phase;
    bool replica;      // the target is to follow, and no more (replicas.h)
    bool evens;        // the source does not leave: it has more than the target
    bool prepared;     // in MOVE_PREPARES: only a cut is waited for
    bool fed;          // the source has begun a feed, and the target follows it
    uint64_t request;  // number of its snapshot requests, and of its feed
    uint64_t since_ms; // when the phase began
    uint64_t began_ms;
};

// Goes on with moves that waited for a cut; gives up those that are late, or of
// a job that has ended or is paused by I7; and every MOVES_LOOK_MS begins those
// that are due, at most one of a job, and one of a psserver. A job begins one
// only while it is RUNNING, every shard is served, and no stop or pause waits
// for a cut; if it makes a cut, that comes first (cuts_wait). To be called with
// each tick.
void moves_tick(struct coord *c);

// Takes the hello of a shard that psserver m has prepared (h->prepared), or
// could not load: its move goes on or is given up, and then no shard moves to m
// for MOVES_FAILED_MS. Without such a move m is told to drop the shard, unless
// it is the owner; an answer to an older preparation is ignored.
void moves_prepared(struct coord *c, struct member *m,
                    const Sluice__V1__ShardHello *h);

// Takes a report that answers a move's request: the move goes on, is over
// (journalled), or is given up; if its job has ended nothing is done. Returns
// true then; false for any other report, which is the caller's, after a feed
// that no move wants was ended.
bool moves_report(struct coord *c, struct member *m,
                  const Sluice__V1__SnapshotReport *report);

// Takes what psserver m says of the end of a feed: the target is the owner now,
// as the journal says, or the move is given up. Ignores a feed of no move.
void moves_feed_ended(struct coord *c, struct member *m,
                      const Sluice__V1__FeedEnded *ended);

// Takes what psserver m says of the feed of a replica that is not in the set
// yet: if it is ready that is over, and its psserver is returned, borrowed.
// NULL: it was given up, or there is none by that order.
const struct member *moves_followed(struct coord *c, const struct member *m,
                                    const Sluice__V1__ReplicaReport *report);

// Gives up the move of the shard in h if psserver m is its target, or its
// source which may have stopped (of a replica: which lost its memory): m says
// hello for it, and no preparation, and is about to be admitted or refused
// (M3).
void moves_hello(struct coord *c, const struct member *m,
                 const Sluice__V1__ShardHello *h);

// Gives up the moves that member m, which is silent or gone, takes part in.
void moves_left(struct coord *c, const struct member *m);

// Frees all moves; no member is told.
void moves_release(struct coord *c);

// Returns true if m is a psserver that is to lose its shards to others: an
// admin drains it, or it ends with --drain.
bool moves_empties(const struct member *m);

// Appends to `out`, for people, which shard moves to psserver m or away from
// it, or gets a replica there or of there, and how many shards stay on m
// although it is to lose them; after "; " if `out` has a text. Appends nothing
// if none.
void moves_reason(const struct coord *c, const struct member *m,
                  struct buf *out);

#endif
