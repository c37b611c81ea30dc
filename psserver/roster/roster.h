// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster.h -- the shards that this server was told to hold, and
// the state of each.
//
//            roster_place                  loaded()
//   (none) ---------------> LOADING ----------------------> LOADED
//                            ^  ^ |                            |
//        roster_refuse(load) |  | | failed()                   | roster_admit
//        of any other state  |  | v                            v
//                            +--|- FAILED                   ADMITTED
//                               +---- roster_tick, roster_place
//
// LOADING   a pool thread looks for its newest snapshot; and once more, if
//           another one is asked for meanwhile.
// LOADED    the memory is there, and its hello said so or will be sent at the
//           next attachment. It answers no worker (S5). roster_place that wants
//           a newer snapshot than it was loaded from loads it anew.
// ADMITTED  it answers, as the incarnation that the coordinator committed (I1)
//           and with or without a coordinator.
// FAILED    no snapshot as new as the coordinator wants was found (K7); its
//           hello says why. Tried again now and then, since an operator may put
//           the file back.
// Leaving is possible from each: roster_refuse without a tag, roster_close_job.
//
// Old messages are ignored: those of a term below the newest seen (I5), or of
// an older incarnation of the job (I6).
//
// Threads  the loop. Files are written and read on pool threads; results come
//          back to the loop.
// Memory   messages are borrowed until return; `fs`, `store`, `membership` and
//          `weights` of the setup until roster_free.
// Errors   logged here, and told to the coordinator where it waits.
#ifndef PSSERVER_ROSTER_ROSTER_H
#define PSSERVER_ROSTER_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/membership.h"
#include "common/base/roots.h"
#include "common/net/rpc.h"
#include "common/run/expo.h"
#include "common/run/loop.h"
#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/shard_store.h"

// Most shards that one heartbeat reports; more shards take several. A message
// holds 262,144 fields, and a report has 28.
#define ROSTER_REPORTS_MOST 1024
// Most sparse tables that one heartbeat reports, and the rest of one shard's:
// 10 fields of each.
#define ROSTER_TABLES_MOST 8192

struct roster;

struct roster_setup {
    struct loop *loop;
    struct fs *fs;
    struct shard_table *store;
    const char *folder; // folder of snapshots; copied
    // Owner of the store: checked before files are written, or missed. NULL:
    // not checked.
    const struct membership *membership;
    // Sends a message to the coordinator; a message that cannot be sent is
    // dropped, since roster_attached says all again.
    void (*send)(void *arg, const Sluice__V1__AttendUp *up);
    void *arg;
    unsigned deltas; // most, behind a whole snapshot (T10)
    // Hears on the loop that a round of the shard, which is beside a ring, was
    // applied because a message said so. NULL: nothing has to.
    void (*applied)(void *arg, struct shard *shard);
    void *applied_arg;
    // Hears, on any thread, that a replica has acknowledged more of what was
    // done to the shard, or has left the set (P3). NULL: nothing has to.
    void (*acked)(void *arg, struct shard *shard);
    void *acked_arg;
    // What shards are fed to other psservers over. io NULL: none is.
    struct rpc_io *io;
    const struct rpc_tls *tls;
    // Folders that weights are read from (snap.h); NULL: wherever `fs` finds
    // them.
    const struct roots *weights;
    bool weights_secret; // why weights were not read stays in the log
};

// Makes an empty roster, of a copy of the setup. Returns SL_OK; SL_ENOMEM
// leaves *out as it was.
enum sl_err roster_new(struct roster **out, const struct roster_setup *setup);

// Takes all shards out of the store, waits for the pool (runs the loop, so not
// from a handler of it) and frees; setup.send may be called until it returns. A
// `done` of roster_save that has not run may still run from here. NULL is
// allowed.
void roster_free(struct roster *r);

// Notes the term of a coordinator, also in the store (store_note_term). Returns
// true; false, with nothing noted, if it is below the newest seen.
bool roster_term(struct roster *r, uint64_t term);

// Sends a hello for each shard that is not LOADING, and what there is to tell
// of replicas (hosted_tell_replica). Waits for the shards' locks. To be called
// whenever a stream to the coordinator is there.
void roster_attached(struct roster *r);

// ---- messages of the stream
//
// A message that names an older term changes nothing and is logged; a snapshot
// request has no term. One about a shard that is not held here changes nothing,
// but for roster_place and roster_snapshot.

// Holds the shard from now on: loads its newest snapshot, at least as new as
// the message says, on a pool thread. A spec of an older incarnation of the job
// is ignored (I6); one of a newer incarnation, or of another job of that
// number, drops the shard that was held. One that is served already, that is
// loaded and new enough, or that has followed its source (P4), sends its hello
// again instead; one that is being loaded is loaded once more if the message
// wants another snapshot; one that has FAILED is loaded at once. m->replica: a
// loaded shard that follows that feed takes over with what it has. Notes the
// quota of its tenant's rows. m->prepare: the shard is loaded, whatever is
// here, to take over from another psserver (M4), and follows the feed
// m->follow, if that is not 0; it is not admitted before a message without
// `prepare`, which loads it once more unless it has followed. Without memory
// the shard is not held, and an error is logged.
void roster_place(struct roster *r, const Sluice__V1__Place *m);
// Admits a loaded shard, or renews it, as the incarnation in the message, and
// notes the quota of its tenant's rows. Does nothing if the shard is LOADING or
// FAILED, or prepared (M4). A loaded memory must get a newer incarnation than
// any before it (I1); else an error is logged, and nothing changes. A snapshot
// with m->last that waits becomes an ordinary one (M3). A shard beside a ring
// is settled with the base in the message (shard_settle), setup.applied is
// called, and a snapshot that waits for a round is forgotten without a report;
// if that cannot be it is loaded anew, or, for want of memory or a damaged
// file, has FAILED.
void roster_admit(struct roster *r, const Sluice__V1__Admit *m);
// Sets all learning rates that callbacks have reduced (D1), before or after the
// admission, and tells the coordinator that the shard has them. No rates, rates
// for another uid, or for a shard that is not loaded, change nothing; nor do
// those that do not hold, which are logged.
void roster_rates(struct roster *r, const Sluice__V1__Rates *m);
// Logs m->why, and drops the shard; if the message names a snapshot, loads it
// anew instead, at least that new (`exact`: that one), unless such a one was
// loaded meanwhile and is not admitted.
void roster_refuse(struct roster *r, const Sluice__V1__Refuse *m);
// Sends the hello of an admitted shard again; does nothing for another.
void roster_hello(struct roster *r, const Sluice__V1__HelloWanted *m);
// Ends the open round that holds the contribution of the message's closure, if
// the shard has one (L2), and reports what the shard has counted in any case;
// does nothing if it is not admitted. Waits for the shard's lock, and for the
// update. Of a shard beside a ring the round that the message decides
// (shard_decide): then setup.applied is called, and nothing is reported; it is
// loaded anew if it does not hold that, and has FAILED if it cannot apply it.
void roster_close_round(struct roster *r, const Sluice__V1__CloseRound *m);
// Writes a snapshot of the shard on a pool thread and reports it, or why it was
// not written; if one is being written, afterwards. A newer request takes the
// place of one that waits, and the latter is reported as not written. If the
// shard is not held here, not admitted, or of another incarnation than
// m->incarnation, that is reported. A request that is under way or waits
// already changes nothing. m->last: the shard answers no worker from the
// instant on (M1). m->feed: a feed begins at the instant. m->feed is not read
// where setup.io is NULL, and neither of the two with m->at_round. With
// m->at_round a snapshot of a shard beside a ring is of the state after that
// round, and waits for it, or for the job's last step; another such request
// takes its place, and nothing is reported of the one that waited. If that
// round is past, or another snapshot is being written when it is applied, the
// request is reported as not written. Nothing is reported of a shard that was
// dropped or loaded anew meanwhile.
void roster_snapshot(struct roster *r, const Sluice__V1__SnapshotRequest *m);
// Feeds the admitted shard to the psserver that the message names, and tells
// the coordinator how that ended, also if it cannot begin; a feed that is under
// way by another order ends, and nothing is told of that. The order of the feed
// under way changes nothing. The feed has begun with a snapshot (m->feed of
// roster_snapshot).
void roster_feed(struct roster *r, const Sluice__V1__Feed *m);
// Has the shard answer without the replica that it feeds by the order in the
// message (P3): ends that feed, also if nothing was sent yet, and calls
// setup.acked, with a line in the log, if answers were bound to it. Another
// order changes nothing.
void roster_replica_out(struct roster *r, const Sluice__V1__ReplicaOut *m);
// Deletes, on a pool thread, the snapshots of an admitted shard that the
// message does not protect (K3), and closes those of them that are mapped; a
// failure is logged. Does nothing if the shard is not admitted, if the message
// names no tag, or if its newest one is of a higher incarnation than the
// shard's, nor, silently, without memory.
void roster_keep(struct roster *r, const Sluice__V1__Keep *m);
// Drops all shards of the job (with m->job_uid, if that is not 0), after a last
// report of those that are admitted. Deletes the job's snapshots on a pool
// thread if the message says so, once none of them is being written any more,
// and tells the coordinator when all are gone, unless m->job_uid is 0; a
// failure is logged, but for want of memory, and tells nothing.
void roster_close_job(struct roster *r, const Sluice__V1__CloseJob *m);

// Sets what the next heartbeats say while they are draining: whether this
// server stays until its shards have moved away.
void roster_empties(struct roster *r, bool empties);

// Sends heartbeat number `seq`, which reports all admitted shards, with what is
// news of open rounds and replicas, in several messages if there is much, and
// loads shards again that have FAILED for ten seconds; called now and then. A
// shard that applies an update is not waited for, and the report has the
// figures read last; unless that was so at four heartbeats in a row, or its
// open round has news.
void roster_tick(struct roster *r, uint64_t seq, bool draining);

// Writes a snapshot of each admitted shard that has counted steps since its
// last one, and then calls done(arg), once, also if some could not be written,
// and before it returns if there is nothing to write: a restart then loses
// nothing. The coordinator is not told of these. Where a snapshot is being
// written just then, another one follows if that lacks counted steps. Not again
// before `done` has run.
void roster_save(struct roster *r, void (*done)(void *arg), void *arg);

// Returns the number of shards that are admitted.
size_t roster_admitted(const struct roster *r);
// Returns the number of shards that are FAILED: no snapshot was found that will
// do.
size_t roster_failed(const struct roster *r);
// Returns true if the snapshot that ended last could not be written for want of
// space on the disk.
bool roster_full(const struct roster *r);

// Writes the figures of the shards, their snapshots and tables, and of tenants'
// rows to *e. A shard that is applying an update is not waited for: its figures
// are those read last.
void roster_measure(struct roster *r, struct expo *e);

#endif
